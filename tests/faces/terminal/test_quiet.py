"""What join.py and the page do not ask again for."""

from __future__ import annotations

import re
from pathlib import Path

from relay.faces.terminal.app import _QUIET
from relay.faces.terminal.entry import QUIET

ROOT = Path(__file__).resolve().parents[3]


def test_the_same_frames_change_no_need_in_a_terminal_and_in_the_page() -> None:
    page = (ROOT / "web" / "src" / "state" / "needs.ts").read_text()
    (quiet,) = re.findall(r"QUIET: ReadonlySet<string> = new Set\(\[(.*?)\]\)", page)
    assert frozenset(re.findall(r'"(\w+)"', quiet)) == _QUIET
    assert "worktree" in _QUIET  # twice a second while an app prints


def test_the_same_notices_are_summed_up_in_a_terminal_and_in_the_page() -> None:
    page = (ROOT / "web" / "src" / "state" / "folds.ts").read_text()
    (words,) = re.findall(r'QUIET: ReadonlySet<string> = new Set\(\[\s*\.\.\."([^"]*)"\.split', page)
    assert frozenset(words.split()) == QUIET

"""Which lines were added, by git's own difference of two trees."""

from __future__ import annotations

import random
from pathlib import Path

from relay.git.checkout import open_checkout
from relay.timeline.handoffs.added_lines import added_files
from tests.git.repository import commit, git, repository

PAIRS = 120


async def test_what_is_left_without_the_added_lines_stood_there_before(tmp_path: Path) -> None:
    """Of random pairs of texts: without the added lines the new text is a part of the old one, in its order."""
    dice = random.Random(12)
    old = {f"{n}.txt": _text(dice, [f"line {dice.randrange(8)}" for _ in range(30)]) for n in range(PAIRS)}
    new = {name: _edited(dice, text) for name, text in old.items()}
    repo = repository(tmp_path / "repo", old)
    commit(repo, new)
    trees = [git(repo, "rev-parse", f"{revision}^{{tree}}") for revision in ("HEAD~1", "HEAD")]
    added = await added_files((await open_checkout(repo)).git, *trees)
    by_path = {file.path: file for file in added.files}
    assert added.unread == ()
    for name, text in old.items():
        before, after = text.split(b"\n"), new[name].split(b"\n")
        numbers = by_path[name].lines if name in by_path else frozenset()
        assert all(1 <= number <= len(after) for number in numbers)
        rest = iter(before)
        stayed = [line for number, line in enumerate(after, 1) if number not in numbers]
        assert all(line in rest for line in stayed if line), name
        if len(after) > len(before):
            assert numbers


def _text(dice: random.Random, lines: list[str]) -> bytes:
    return "\n".join(lines).encode() + b"\n" * dice.randrange(2)


def _edited(dice: random.Random, text: bytes) -> bytes:
    lines = text.decode().split("\n")
    for _ in range(dice.randrange(1, 5)):
        at = dice.randrange(len(lines))
        match dice.randrange(3):
            case 0:
                lines[at:at] = [f"new {dice.randrange(100)}" for _ in range(dice.randrange(1, 4))]
            case 1:
                lines[at : at + dice.randrange(1, 4)] = []
            case _:
                lines[at : at + 1] = [f"other {dice.randrange(100)}"]
        lines = lines or ["one"]
    return "\n".join(lines).encode()

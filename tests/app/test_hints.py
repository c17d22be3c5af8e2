"""Every command that a message tells people to type can be typed."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.cli import main
from tests.git.repository import repository

ROOT = Path(__file__).parents[2]
RELAY = Path(sys.prefix) / "bin" / "relay"


def _calls() -> Iterator[tuple[str, str]]:
    """What `command(...)` and `script(...)` are called with in the whole program; X for each value in it."""
    for path in sorted((ROOT / "relay").rglob("*.py")):
        text = path.read_text("utf-8")
        if "command(" not in text and "script(" not in text:
            continue  # this runs when tests are collected, by each worker
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                words = node.args[0]
                pieces = words.values if isinstance(words, ast.JoinedStr) else [words]
                if node.func.id in ("command", "script") and isinstance(words, ast.Constant | ast.JoinedStr):
                    text = "".join(str(one.value) if isinstance(one, ast.Constant) else "X" for one in pieces)
                    yield node.func.id, text


CALLS = sorted(set(_calls()))


def test_no_hint_is_made_before_it_is_known_which_room_it_is_about() -> None:
    for path in sorted((ROOT / "relay").rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                made = [
                    one.func.id
                    for one in ast.walk(node)
                    if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)
                ]
                assert not {"command", "script"} & set(made), f"{path}:{node.lineno}"


def test_the_hints_were_found() -> None:
    assert ("command", "link") in CALLS and ("script", "scripts/start.sh") in CALLS and len(CALLS) > 12


@pytest.mark.parametrize("words", [words for kind, words in CALLS if kind == "command"])
def test_a_command_of_a_hint_exists(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main([*shlex.split(words), "--help"])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    out = capsys.readouterr()
    assert code == 0 and "usage: relay" in out.out, out.err


@pytest.mark.parametrize("words", [words for kind, words in CALLS if kind == "script"])
def test_a_script_of_a_hint_exists(words: str) -> None:
    path, *options = shlex.split(words)
    text = (ROOT / path).read_text()
    assert text.startswith(("#!", "# shellcheck"))
    if path != "scripts/setup.sh":
        helped = subprocess.run(
            ["bash", path, *options, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert helped.returncode == 0 and "usage" in helped.stdout, helped.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A person's project outside relay's clone, with a room of its own that does not run."""
    folder = repository(tmp_path_factory.mktemp("a project"))
    agents = [{"name": "ANN", "kind": "command", "cmd": ["true"]}]
    (folder / "relay.json").write_text(json.dumps({"agents": agents}))
    return folder


@pytest.mark.parametrize(
    ("words", "hinted"),
    [
        ("worktrees show NOBODY", "relay worktrees"),
        ("sessions end nothing", "relay sessions"),
        ("changesets show nothing", "relay changesets"),
        ("keys list", "relay keys create"),
        ("keys revoke nothing", "relay keys list"),
        ("airspace first ANN", "start.sh"),
        ("join --last 1", "start.sh"),
        ("link", "start.sh"),
        ("guard status", "relay guard install"),
        ("guard install", "relay mcp install"),
    ],
)
def test_a_hint_works_where_it_was_read(project: Path, words: str, hinted: str) -> None:
    asked = [str(RELAY), *words.split(), "--config", "relay.json"]
    said = subprocess.run(asked, cwd=project, capture_output=True, text=True, check=False, timeout=120)
    told = said.stdout + said.stderr
    assert "Traceback" not in told
    hints = re.findall(r"`((?:bash )?/[^`]+)`", told)
    assert any(hinted in one for one in hints), told
    for hint in hints:
        assert f"--config {project}/relay.json" in hint or f"--config '{project}/relay.json'" in hint, hint
        # A start would stay, and a made key would too: of those only that they can be typed.
        stays = any(word in hint for word in ("start.sh", "create"))
        typed = subprocess.run(
            ["bash", "-c", f"{hint} --help" if stays else hint],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert typed.returncode in (0, 1) and "usage: " not in typed.stderr, (hint, typed.stderr)
        assert typed.returncode == 0 or not stays, (hint, typed.stderr)

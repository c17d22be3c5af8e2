"""What a shell command writes, read before it runs, beside what it really changed."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from relay.code.shell.calls import Writes
from relay.code.shell.writes import writes_of

FILES = {
    "README.md": "relay\nb\n",
    "Makefile": "all: src\n",
    "config.json": '{"a": 2}\n',
    "package.json": '{"name": "old"}\n',
    "src/a.py": "x = 1\n",
    "src/b.py": "x = 1\n",
    "src/sub/c.py": "x = 1\n",
    "tests/test_a.py": "x = 1\n",
    "docs/guide.md": "see src\n",
    "data/list.txt": "src/b.py\nsrc/a.py\n",
    "data/fix.diff": "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 9\n",
}


@dataclass
class Command:
    text: str
    untold: bool = False
    runs: bool = True
    writes: list[str] = field(default_factory=list)
    back: list[str] = field(default_factory=list)


def commands() -> list[Command]:
    found: list[Command] = []
    for line in (Path(__file__).parent / "commands.txt").read_text().splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:]))
        elif line.startswith(">"):
            found[-1].text += f"\n{line[2:]}"
        elif line.startswith("= "):
            word, *rest = line[2:].split()
            if word == "untold":
                found[-1].untold = True
            elif word == "back":
                found[-1].back += rest
            else:
                assert word in ("writes", "zsh"), line
                found[-1].runs = False
                found[-1].writes += rest
        else:
            assert not line or line.startswith("#"), line
    return found


def shared(found: list[Command]) -> list[Command]:
    """Those that the suite runs before slow parts, by a fixed seed; all of them where RELAY_WHOLE_CORPUS is set."""
    if os.environ.get("RELAY_WHOLE_CORPUS"):
        return found
    return [found[at] for at in sorted(random.Random(18).sample(range(len(found)), len(found) // 5))]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("shell") / "made"
    for name, text in FILES.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(top), *words], check=True, capture_output=True, env=environment(top))

    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "first")
    (top / "tests" / "test_a.py").write_text("x = 2\n")
    git("commit", "-qam", "second")
    git("checkout", "-qb", "other")
    (top / "src" / "b.py").write_text("x = 7\n")
    git("commit", "-qam", "other")
    git("checkout", "-q", "main")
    (top / "notes.txt").write_text("not known to git\n")
    subprocess.run(["tar", "cf", "data/made.tar", "README.md"], cwd=top, check=True)
    return top


def environment(top: Path) -> dict[str, str]:
    who = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "a"), ("EMAIL", "a@b"))
    }
    path = os.environ["PATH"]
    return {"PATH": path, "HOME": str(top.parent), "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C.UTF-8", **who}


def state(top: Path) -> dict[str, str]:
    """Every file with a digest of what it is."""
    seen = {}
    for place, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            path = Path(place) / name
            told = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
            digest = hashlib.sha256(told + oct(path.lstat().st_mode).encode()).hexdigest()
            seen[str(path.relative_to(top))] = digest
    return seen


def told(writes: Writes, path: Path, *, sure: bool = False) -> bool:
    return any(
        (each.path == str(path) or (each.below and path.is_relative_to(each.path)))
        and (each.sure or not sure)
        for each in writes.paths
    )


def test_what_commands_write_is_known_before_they_run_or_seen_after_it(made: Path, tmp_path: Path) -> None:
    """Nothing is said to be written that is not, since a write that is surely known can be refused."""
    top = tmp_path / "made"
    known = total = 0
    wrong: list[str] = []
    for command in commands():
        shutil.rmtree(top, ignore_errors=True)
        shutil.copytree(made, top, symlinks=True)
        before = state(top)
        writes = writes_of(command.text, str(top), {"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
        if command.runs:
            subprocess.run(
                ["bash", "-c", command.text], cwd=top, env=environment(top), stdin=subprocess.DEVNULL,
                capture_output=True, timeout=60, check=False,
            )  # fmt: skip
            after = state(top)
            changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        else:
            changed = set(command.writes)
        total += 1
        missed = [name for name in sorted(changed) if not told(writes, top / name)]
        known += not missed
        if missed and not command.untold:
            wrong.append(f"{command.text!r} changed {missed}; told {writes}")
        for each in writes.paths:
            path = Path(each.path)
            if each.sure and path.is_relative_to(top) and command.runs:
                inside = str(path.relative_to(top))
                hit = any(
                    name == inside or (each.below and (top / name).is_relative_to(path)) for name in changed
                )
                if not hit and inside not in command.back and inside in {*before, *state(top)}:
                    wrong.append(f"{command.text!r} was said to write {inside}, and did not")
    assert not wrong, "\n".join(wrong)
    assert total >= 200
    # The rest is seen after it ran.
    assert known / total >= 0.85

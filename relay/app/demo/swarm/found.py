"""What a run of the swarm has come to, as git and the codebase's own tests say.

Invariant: nothing here is taken from what a worker, a room or a journal says of itself. A merge conflicts when git's
own merge of its two commits does; an item has landed when its whole change stands on the main branch.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from relay.app.demo.stage import DemoError
from relay.app.demo.swarm.codebase import TESTS, Item, stands
from relay.app.demo.swarm.workplace import git, ran
from relay.checks.results import Check, State
from relay.checks.tree_command import TreeCommand
from relay.git.run import Git

#: Seconds that the tests of the codebase may take.
TESTS_S = 120.0


@dataclass(slots=True)
class Found:
    """`landed`, `lost`: the numbers of the items that stand on main, and that do not. `merges`: the merges that main
    has; `conflicts`: those of the tried ones that git cannot do. `tests`: passed or failed, and `said` how."""

    landed: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    merges: int = 0
    conflicts: int = 0
    tests: str = ""
    said: str = ""

    @property
    def green(self) -> bool:
        return self.tests == State.PASSED


async def look(folder: Path, items: Sequence[Item], tried: Sequence[tuple[str, str]] | None = None) -> Found:
    """Look at `folder`/code. `tried`: the two commits of each merge that was tried, None = those that main has."""
    code = folder / "code"
    try:
        found = await asyncio.to_thread(_of_git, code, items, tried)
    except RuntimeError as error:
        raise DemoError(f"git cannot tell what main is: {error}") from None
    git = Git(code, {"GIT_DIR": str(code / ".git")})
    tree = await git.line("rev-parse", "main^{tree}")
    ended = await TreeCommand(git, folder / "looked-at").run(Check("tests", TESTS, TESTS_S), tree)
    if ended.state is State.NOT_RUN:
        raise DemoError(f"the tests cannot be run: {ended.reason}")
    lines = [line for line in ended.output.splitlines() if line.startswith(("Ran ", "FAILED", "OK"))]
    found.tests, found.said = ended.state.value, ", ".join(lines)
    return found


def _of_git(code: Path, items: Sequence[Item], tried: Sequence[tuple[str, str]] | None) -> Found:
    texts: dict[str, str] = {}

    def read(path: str) -> str:
        if path not in texts:
            texts[path] = git(code, "show", f"main:{path}") + "\n"
        return texts[path]

    found = Found()
    for item in items:
        (found.landed if stands(item, read) else found.lost).append(item.number)
    merges = [
        line.split(" ")
        for line in git(code, "log", "--first-parent", "--merges", "--format=%P", "main").splitlines()
    ]
    found.merges = len(merges)
    pairs = tried if tried is not None else [(first, second) for first, second, *_ in merges]
    found.conflicts = sum(conflicts(code, first, second) for first, second in pairs)
    return found


def conflicts(code: Path, ours: str, theirs: str) -> bool:
    """Does git's merge of these two commits conflict? Raises DemoError where git cannot tell."""
    ended: subprocess.CompletedProcess[str] = ran(
        code, "merge-tree", "--write-tree", "--name-only", ours, theirs
    )
    if ended.returncode not in (0, 1):
        raise DemoError(f"git cannot merge {ours[:9]} and {theirs[:9]}: {ended.stderr.strip()}")
    return ended.returncode == 1

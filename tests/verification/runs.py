"""A repository, and runs of policies on its trees, by an executor alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from relay.git.checkout import open_checkout
from relay.git.run import Git
from relay.git.scratch_repository import ScratchRepository
from relay.verification.executors.executor import Run
from relay.verification.policies import Executor, Policy
from relay.verification.verification import Change, Source
from tests.git.repository import commit, git, repository

#: Stands in the environment and the words of what the tests start, and of nothing else.
MARK = f"relay-run-{os.getpid()}"
MARKED = "RUN_MARK"
ENVIRON = {"PATH": os.environ["PATH"], MARKED: MARK}


class Runs:
    """`folder`: all of it; `runtime`: the room's own folder, which no sandboxed program reads."""

    def __init__(self, folder: Path, repo: Path, git: Git) -> None:
        self.folder, self.repo, self.git = folder, repo, git
        self.runtime = folder / "room" / ".relay"
        self.runtime.mkdir(parents=True)
        self.watched = bytearray()

    @classmethod
    async def open(cls, folder: Path, files: dict[str, str | bytes] | None = None) -> Runs:
        repo = repository(folder / "repo", files or {"a.txt": "one\n"})
        checkout = await open_checkout(repo)
        scratch = ScratchRepository(folder / "scratch.git")
        await scratch.empty(checkout.hash)
        await scratch.borrow((checkout,))
        return cls(folder, repo, scratch.git(checkout))

    def commit(self, files: dict[str, str | bytes]) -> None:
        commit(self.repo, files)

    def run(self, *argv: str, id: str = "c1-unit-tests-1", resumed: bool = False, **policy: Any) -> Run:
        """A run on the tree of HEAD, whose program has the mark in its environment."""
        told = {"env": (MARKED,), "timeout_s": 60.0, "run": argv, **policy}
        rule = Policy("unit tests", 1, Executor.INLINE, ("*",), **told)
        tree = git(self.repo, "rev-parse", "HEAD^{tree}")
        change = Change("c1", Source.PERSON, "AVA", "ann")
        return Run(id, rule, change, tree, argv, self.git, resumed, self.watched.extend, "v12")

    def python(self, code: str, *args: str, **more: Any) -> Run:
        return self.run(sys.executable, "-c", code, *args, **more)


def marked(mark: str = MARK) -> list[int]:
    """The living processes that have the mark in their environment or among their words."""
    return [process.pid for process in psutil.process_iter() if _has(process, mark)]


def _has(process: psutil.Process, mark: str) -> bool:
    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        return any(mark in text for text in _texts(process))
    except psutil.Error:
        return False


def _texts(process: psutil.Process) -> Iterator[str]:
    yield from process.cmdline()
    yield from process.environ().values()

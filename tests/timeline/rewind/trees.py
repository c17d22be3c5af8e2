"""Trees in a scratch repository, and the events between them, for the tests of the rewind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from relay.git.checkout import open_checkout
from relay.git.diff import parse_raw, touches_of
from relay.git.run import Git
from relay.git.scratch_repository import ScratchRepository
from relay.timeline.rewind.engine import TakenBack, take_back
from relay.timeline.rewind.named_touches import TouchedEvent
from tests.git.repository import ENV, repository

#: A file of a tree: its bytes; with another mode than that of a plain file, (mode, bytes).
Content = bytes | tuple[str, bytes]
Files = Mapping[bytes, Content]


class Trees:
    """A scratch repository beside a person's own; trees are written and read by plain git."""

    def __init__(self, scratch: ScratchRepository, git: Git) -> None:
        self.scratch, self.git = scratch, git
        self._events = 0

    @classmethod
    async def make(cls, folder: Path) -> Trees:
        checkout = await open_checkout(repository(folder / "repo"))
        scratch = ScratchRepository(folder / "scratch")
        await scratch.empty()
        await scratch.borrow([checkout])
        return cls(scratch, scratch.git(checkout))

    def _run(self, *args: str, stdin: bytes = b"", index: bool = False) -> bytes:
        env = {**ENV, "GIT_DIR": str(self.scratch.folder)}
        if index:
            env["GIT_INDEX_FILE"] = str(self.scratch.folder / "index-of-test")
        return subprocess.run(["git", *args], env=env, input=stdin, capture_output=True, check=True).stdout

    def write(self, files: Files) -> str:
        """The tree with these files."""
        self._run("read-tree", "--empty", index=True)
        lines = b""
        for path, content in files.items():
            mode, data = content if isinstance(content, tuple) else ("100644", content)
            oid = self._run("hash-object", "-w", "--stdin", stdin=data).strip()
            lines += mode.encode() + b" " + oid + b"\t" + path + b"\0"
        self._run("update-index", "-z", "--index-info", stdin=lines, index=True)
        return self._run("write-tree", index=True).decode().strip()

    def read(self, tree: str) -> dict[bytes, Content]:
        """The files of a tree."""
        files: dict[bytes, Content] = {}
        for line in self._run("ls-tree", "-r", "-z", tree).split(b"\0"):
            about, found, path = line.partition(b"\t")
            if found:
                mode, _, oid = about.decode().split(" ")
                data = self._run("cat-file", "blob", oid)
                files[path] = data if mode == "100644" else (mode, data)
        return files

    def event(self, before: str, after: str, *, taken: bool = True, renames: bool = True) -> TouchedEvent:
        """The event that made the one tree of the other."""
        how = "-M" if renames else "--no-renames"
        raw = self._run("diff-tree", "-r", "-z", "--raw", how, before, after)
        self._events += 1
        return TouchedEvent(
            f"event-{self._events}", tuple(touches_of(parse_raw(raw))), before, after, taken=taken
        )

    async def undo(self, tree: str, events: Sequence[TouchedEvent]) -> TakenBack:
        """Take events, the oldest first here, out of a tree."""
        return await take_back(self.git, tree, events[::-1])

    async def rewound(self, *steps: tuple[str, Files]) -> tuple[TakenBack, dict[bytes, Content]]:
        """A history of trees, each by somebody; what `codex` did after the first one is taken back."""
        trees = [self.write(files) for _, files in steps]
        events = [
            self.event(before, after, taken=who == "codex")
            for before, after, (who, _) in zip(trees, trees[1:], steps[1:], strict=False)
        ]
        taken = await self.undo(trees[-1], events)
        return taken, self.read(taken.tree)


def text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def plain(files: Mapping[bytes, Content]) -> dict[str, Content]:
    """The files by readable paths."""
    return {os.fsdecode(path): content for path, content in files.items()}

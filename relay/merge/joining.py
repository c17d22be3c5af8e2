"""Joins the files in which git's merge of two commits conflicts (docs/merge.md).

Invariants: a file is joined wholly or stays as git left it; what takes too long, is no text, or is in conflict by
more than its lines (a mode, a rename, a deletion, a link, a submodule) stays a conflict. Nothing but the scratch
repository is written.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from relay.code.workers.process import WorkerDied, WorkerProcess
from relay.git.merge_state import Stage, is_binary, stage_of
from relay.git.run import Git, GitError, name_of
from relay.git.trial_merge import JoinedFile, Merge

log = structlog.get_logger(__name__)
#: Bytes of a file that is read.
MOST_BYTES = 1_000_000
#: Files of one merge that are joined at most: beyond them the two are no small collision.
MOST_FILES = 50
#: Seconds after which a worker that nobody asks is ended.
IDLE_S = 60.0
_FILE = "100"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A joined file as the merged tree has it."""

    mode: str
    oid: str
    path: bytes
    file: JoinedFile


class Joiner:
    """Joins by a worker process, which starts when it is needed and ends when it is not."""

    def __init__(self) -> None:
        self._worker = WorkerProcess("merge", "relay.merge.worker")
        self._idle: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """End the worker."""
        if self._idle is not None:
            self._idle.cancel()
        await self._worker.close()

    async def join(self, git: Git, ours: str, theirs: str, merge: Merge, *, timeout_s: float) -> Merge:
        """As `relay.git.trial_merge.Join` has it. `timeout_s`: for one file."""
        if len(merge.conflicts) > MOST_FILES:
            return merge
        try:
            stages = await _stages(git, ours, theirs)
            entries = [
                entry
                for path in merge.conflicts
                if (entry := await self._file(git, path, stages.get(path, {}), timeout_s)) is not None
            ]
            if not entries:
                return merge
            tree = await _with_entries(git, merge.tree, entries)
        except (GitError, OSError) as error:
            log.warning("a merge is not joined", reason=str(error))
            return merge
        joined = {entry.file.path for entry in entries}
        left = tuple(path for path in merge.conflicts if path not in joined)
        return Merge(left, tree, tuple(entry.file for entry in entries))

    async def _file(
        self, git: Git, path: str, stages: Mapping[int, Stage], timeout_s: float
    ) -> _Entry | None:
        """The file with both sides' work; None where it stays in conflict."""
        if not {2, 3} <= stages.keys() or not all(stage.mode.startswith(_FILE) for stage in stages.values()):
            return None
        modes = [stages[number].mode if number in stages else "" for number in (1, 2, 3)]
        mode = modes[2] if modes[1] == modes[0] else modes[1]
        if mode not in (modes[1], modes[2]) or (
            modes[0] not in (modes[1], modes[2]) and modes[1] != modes[2]
        ):
            return None
        texts = [await _text(git, stages.get(number)) for number in (1, 2, 3)]
        if any(text is None for text in texts):
            return None
        if self._idle is not None:
            self._idle.cancel()
        try:
            said, parts = await self._worker.ask(
                {"path": path}, [text for text in texts if text is not None], timeout_s=timeout_s
            )
        except WorkerDied as error:
            log.warning("a file is not joined", path=path, reason=str(error))
            return None
        finally:
            self._rest()
        if said["by"] is None:
            return None
        oid = (await git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=parts[0])).text
        return _Entry(mode, oid, stages[2].path, JoinedFile(path, tuple(said["by"])))

    def _rest(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._end)

    def _end(self) -> None:
        self._ending = asyncio.create_task(self._worker.close(), name="merge-worker-idle")


async def _stages(git: Git, ours: str, theirs: str) -> dict[str, dict[int, Stage]]:
    """The versions of each file in conflict: by path, the base (1), ours (2) and theirs (3). Raises GitError."""
    asked = ("merge-tree", "--write-tree", "-z", "--no-messages")
    done = await git.run(*asked, ours, theirs, ok=(0, 1))
    found: dict[str, dict[int, Stage]] = {}
    for part in done.out.rstrip(b"\0").split(b"\0")[1:]:
        stage = stage_of(part)
        found.setdefault(name_of(stage.path), {})[stage.number] = stage
    return found


async def _text(git: Git, stage: Stage | None) -> bytes | None:
    """A version that can be merged as text; None: it cannot. Empty where there is no such version."""
    if stage is None:
        return b""
    if int(await git.line("cat-file", "-s", stage.oid)) > MOST_BYTES:
        return None
    data = (await git.run("cat-file", "blob", stage.oid)).out
    return None if is_binary(data) else data


async def _with_entries(git: Git, tree: str, entries: Sequence[_Entry]) -> str:
    """The tree with these files in it. Raises GitError."""
    with tempfile.TemporaryDirectory(prefix="relay-index-") as made:
        own = Git(git.folder, {**git.env, "GIT_INDEX_FILE": str(Path(made) / "index")}, git.config)
        await own.run("read-tree", tree)
        rows = (b"%s %s\t%s\0" % (entry.mode.encode(), entry.oid.encode(), entry.path) for entry in entries)
        lines = b"".join(rows)
        await own.run("update-index", "-z", "--index-info", stdin=lines)
        return await own.line("write-tree")

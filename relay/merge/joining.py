"""Joins the files in which git's merge of two commits conflicts (docs/merge.md).

Invariants: a file is joined wholly or stays as git left it; where both sides changed the same, only what somebody
chose stands. What takes too long, is no text, or is in conflict by more than its lines (a mode, a rename, a deletion, a
link, a submodule) stays a conflict. Nothing but the scratch repository is written.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from relay.code.workers.process import WorkerDied, WorkerProcess
from relay.git.merge_state import Stage, is_binary, stage_of
from relay.git.run import Git, GitError, name_of
from relay.git.trial_merge import ConflictPart, JoinedFile, Merge
from relay.merge.text.lines import rows_with_ends

log = structlog.get_logger(__name__)
#: Bytes of a file that is read.
MOST_BYTES = 1_000_000
#: Files of one merge that are joined at most: beyond them the two are no small collision.
MOST_FILES = 50
#: Seconds after which a worker that nobody asks is ended.
IDLE_S = 60.0
_FILE = "100"


#: What is to stand in places where both sides changed the same, by the ids of these (`ConflictPart.id`).
Chosen = Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]


async def nothing_chosen(ids: Sequence[str]) -> Mapping[str, str]:
    """Nobody has said anything."""
    return {}


@dataclass(frozen=True, slots=True)
class _MergedText:
    """A file that was merged as text. `name`: its path as git has it; `text`: with markers at `places`, the first and
    last lines of the `parts` in conflict, in their order."""

    path: str
    name: bytes
    mode: str
    steps: tuple[str, ...]
    text: str
    parts: tuple[ConflictPart, ...]
    places: tuple[tuple[int, int], ...]

    def settled(self, chosen: Mapping[str, str]) -> str:
        """The text with what was chosen in place of each conflict."""
        rows = rows_with_ends(self.text)
        for part, (first, last) in reversed(list(zip(self.parts, self.places, strict=True))):
            rows[first - 1 : last] = [chosen[part.id]]
        return "".join(rows)


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

    async def join(
        self, git: Git, ours: str, theirs: str, merge: Merge, chosen: Chosen, *, timeout_s: float
    ) -> Merge:
        """As `relay.git.trial_merge.Join` has it. `chosen`: what is to stand where both changed the same, as far as
        somebody has said; `timeout_s`: for one file."""
        if len(merge.conflicts) > MOST_FILES:
            return merge
        try:
            stages = await _stages(git, ours, theirs)
            texts = [
                text
                for path in merge.conflicts
                if (text := await self._merged(git, path, stages.get(path, {}), timeout_s)) is not None
            ]
            known = await chosen([part.id for text in texts for part in text.parts])
            entries = [
                await _entry(git, text, known)
                for text in texts
                if {part.id for part in text.parts} <= {*known}
            ]
            tree = await _with_entries(git, merge.tree, entries) if entries else merge.tree
        except (GitError, OSError) as error:
            log.warning("a merge is not joined", reason=str(error))
            return merge
        joined = {entry.file.path for entry in entries}
        left = tuple(path for path in merge.conflicts if path not in joined)
        parts = tuple(replace(part, settled=part.id in known) for text in texts for part in text.parts)
        return Merge(left, tree, tuple(entry.file for entry in entries), parts)

    async def _merged(
        self, git: Git, path: str, stages: Mapping[int, Stage], timeout_s: float
    ) -> _MergedText | None:
        """The file with both sides' work, and where they conflict; None: it cannot be merged as text."""
        if not {2, 3} <= stages.keys() or not all(stage.mode.startswith(_FILE) for stage in stages.values()):
            return None
        modes = [stages[number].mode if number in stages else "" for number in (1, 2, 3)]
        mode = modes[2] if modes[1] == modes[0] else modes[1]
        if modes[0] not in (modes[1], modes[2]) and modes[1] != modes[2]:
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
        if said["steps"] is None:
            return None
        places = tuple((first, last) for first, last in (part.pop("lines") for part in said["parts"]))
        found = tuple(ConflictPart(path, **part) for part in said["parts"])
        return _MergedText(path, stages[2].path, mode, tuple(said["steps"]), parts[0].decode(), found, places)

    def _rest(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._end)

    def _end(self) -> None:
        self._ending = asyncio.create_task(self._worker.close(), name="merge-worker-idle")


async def _entry(git: Git, text: _MergedText, chosen: Mapping[str, str]) -> _Entry:
    """The file as the merged tree has it, all of whose conflicts are settled. Raises GitError."""
    data = text.settled(chosen).encode()
    oid = (await git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=data)).text
    steps = [step for step in text.steps if step != "git"] if text.parts else list(text.steps)
    return _Entry(
        text.mode, oid, text.name, JoinedFile(text.path, (*steps, *(["resolved"] if text.parts else [])))
    )


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

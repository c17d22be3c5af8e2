"""Joins the files in which git's merge of two commits conflicts (docs/merge.md).

Invariants: a file is joined wholly or stays as git left it; where both sides changed the same, only what somebody
chose stands. What takes too long, is no text, or is in conflict by more than its lines (a mode, a rename, a deletion,
a link, a submodule) stays a conflict. Nothing but the scratch repository is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from relay.code.workers.process import WorkerDied, WorkerProcess
from relay.git.diff import changed_files
from relay.git.run import Git, GitError, name_of
from relay.git.trial_merge import ChosenText, ConflictPart, JoinedFile, Merge, as_places
from relay.merge.text.file_merge import BINARY_KIND, GITS_OWN, is_binary
from relay.merge.text.ladder import MOST_BYTES
from relay.merge.text.lines import rows_with_ends
from relay.merge.trees.presence import LINK, PROGRAM, SUBMODULE, Entry, presence
from relay.merge.trees.tree_merge import (
    BINARY,
    OF_CONTENT,
    OF_PATH,
    ConflictedPath,
    conflicted_paths,
    tree_with,
)

log = structlog.get_logger(__name__)
#: Seconds beyond a merge's own time limit after which its process is taken for dead; it may have to start first.
GRACE_S = 10.0
#: Files of one merge that are joined at most: beyond them the two are no small collision.
MOST_FILES = 50
#: Seconds after which a worker that nobody asks is ended.
IDLE_S = 60.0


#: What is to stand in places where both sides changed the same, by the ids of these (`ConflictPart.id`).
Chosen = Callable[[Sequence[str]], Awaitable[Mapping[str, ChosenText]]]


async def nothing_chosen(ids: Sequence[str]) -> Mapping[str, ChosenText]:
    """Nobody has said anything."""
    return {}


@dataclass(frozen=True, slots=True)
class _MergedText:
    """A file that was merged as text. `name`: its path as git has it; `text`: with markers at `places`, the first and
    last lines of the `parts` in conflict, in their order; `ids`: of the blobs of base, ours and theirs."""

    name: bytes
    mode: str
    steps: tuple[str, ...]
    text: str
    parts: tuple[ConflictPart, ...]
    places: tuple[tuple[int, int], ...]
    ids: tuple[str, ...]

    def settled(self, chosen: Mapping[str, ChosenText]) -> str:
        """The text with what was chosen in place of each conflict."""
        rows = rows_with_ends(self.text)
        for part, (first, last) in reversed(list(zip(self.parts, self.places, strict=True))):
            rows[first - 1 : last] = [chosen[part.id].text]
        return "".join(rows)


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
        self,
        git: Git,
        ours: str,
        theirs: str,
        merge: Merge,
        chosen: Chosen,
        *,
        timeout_s: float,
        whole: Callable[[str], bool] = lambda path: False,
    ) -> Merge:
        """As `relay.git.trial_merge.Join` has it. `chosen`: what is to stand where both changed the same, as far as
        somebody has said; `timeout_s`: for one file; `whole`: of a path, do people decide on all of it?"""
        if len(merge.conflicts) > MOST_FILES:
            return merge
        try:
            done = await git.run("merge-tree", "--write-tree", "-z", "--messages", ours, theirs, ok=(0, 1))
            _, paths = conflicted_paths(done.out)
            texts = [
                text
                for name, path in paths.items()
                if (text := await self._merged(git, name, path, timeout_s, not whole(name_of(name))))
                is not None
            ]
            wholes = {name: part for name, path in paths.items() if (part := _whole(name, path)) is not None}
            places = [*(part for text in texts for part in text.parts), *wholes.values()]
            said = await chosen([part.id for part in places])
            faults = await self._refused(git, texts, said, timeout_s)
            known = {id: text for id, text in said.items() if id not in faults}
            entries = [
                await _entry(git, text, known)
                for text in texts
                if {part.id for part in text.parts} <= {*known}
            ]
            taken = {
                name: paths[name].stages[1 if known[part.id].text == part.ours else 2]
                for name, part in wholes.items()
                if part.id in known
            }
            written = [*((name, entry) for name, entry, _ in entries), *taken.items()]
            tree = await tree_with(git, merge.tree, written) if written else merge.tree
        except (GitError, OSError) as error:
            log.warning("a merge is not joined", reason=str(error))
            return merge
        files = tuple(file for _, _, file in entries)
        files += tuple(JoinedFile(name_of(name), ("resolved",)) for name in taken)
        left = tuple(path for path in merge.conflicts if path not in {file.path for file in files})
        parts = tuple(
            replace(part, settled=part.id in known, fault=faults.get(part.id, "")) for part in places
        )
        return Merge(left, tree, files, parts)

    async def warnings(self, git: Git, ours: str, theirs: str, *, timeout_s: float) -> Sequence[str]:
        """What the guard has against git's own merges of two commits that merge cleanly: each with its path."""
        found: list[str] = []
        try:
            base = await git.line("merge-base", ours, theirs)
            sides = [await changed_files(git, base, side, renames=False) for side in (ours, theirs)]
            first, second = (
                {record.path: record for record in side if record.letter == "M"} for side in sides
            )
            both = [path for path in first if path in second]
            for path in both[:MOST_FILES]:
                ids = [first[path].old, first[path].new, second[path].new]
                answer = await self._asked(git, name_of(path), ids, timeout_s)
                said = answer[0]["warnings"] if answer is not None and not answer[0]["parts"] else []
                found += [f"{name_of(path)}: {each}" for each in said if not each.startswith(GITS_OWN)]
        except (GitError, OSError) as error:
            log.warning("a merge is not looked at", reason=str(error))
        return found

    async def _merged(
        self, git: Git, name: bytes, path: ConflictedPath, timeout_s: float, ladder: bool
    ) -> _MergedText | None:
        """The file with both sides' work, and where they conflict; None: more than its lines conflicts. `ladder`: go
        on where git's own merge conflicts."""
        found = presence(*path.stages)
        if found.entry is None or not found.text or not {*path.said} <= OF_CONTENT:
            return None
        ids = [entry.id if entry is not None else "" for entry in path.stages]
        shown = name_of(name)
        answer = await self._asked(git, shown, ids, timeout_s, ladder)
        if answer is None:
            return None
        said, data = answer
        places = tuple((first, last) for first, last in (part.pop("lines") for part in said["parts"]))
        parts = tuple(
            ConflictPart(shown, **{**part, "places": as_places(part["places"])}) for part in said["parts"]
        )
        return _MergedText(
            name,
            found.entry.mode,
            tuple(said["steps"]),
            data[0].decode("utf-8", "surrogateescape"),
            parts,
            places,
            tuple(ids),
        )

    async def _refused(
        self, git: Git, texts: Sequence[_MergedText], said: Mapping[str, ChosenText], timeout_s: float
    ) -> dict[str, str]:
        """The answers of agents that count for nothing, and why: with them a file breaks outside of the conflict."""
        faults: dict[str, str] = {}
        for text in texts:
            guarded = [part.id for part in text.parts if part.id in said and said[part.id].guarded]
            if not guarded or any(part.id not in said for part in text.parts):
                continue
            blobs = await git.blobs([id for id in text.ids if id], most=3 * MOST_BYTES)
            data = [(blobs.get(id) or b"") if id else b"" for id in text.ids]
            inside = "\n".join(side for part in text.parts for side in (part.base, part.ours, part.theirs))
            message = {"path": name_of(text.name), "inside": inside}
            merged = text.settled(said).encode("utf-8", "surrogateescape")
            try:
                answer, _ = await self._worker.ask(message, [*data, merged], timeout_s=timeout_s + GRACE_S)
                found = answer["faults"]
            except WorkerDied as error:
                found = [f"it could not be looked at ({error})"]
            finally:
                self._rest()
            faults |= {id: "; ".join(found) for id in guarded} if found else {}
        return faults

    async def _asked(
        self, git: Git, path: str, ids: Sequence[str], timeout_s: float, ladder: bool = True
    ) -> tuple[dict[str, Any], list[bytes]] | None:
        """What the worker makes of three blobs, an empty id being no file; None where they are no texts to merge, or
        where it does not answer."""
        blobs = await git.blobs([id for id in ids if id], most=3 * MOST_BYTES)
        texts = [blobs.get(id) if id else b"" for id in ids]
        known = [
            text for text in texts if text is not None and len(text) <= MOST_BYTES and not is_binary(text)
        ]
        if len(known) != len(texts):
            return None
        if self._idle is not None:
            self._idle.cancel()
        try:
            message = {"path": path, "timeout_s": timeout_s, "ladder": ladder}
            return await self._worker.ask(message, known, timeout_s=timeout_s + GRACE_S)
        except WorkerDied as error:
            log.warning("a file is not merged by relay", path=path, reason=str(error))
            return None
        finally:
            self._rest()

    def _rest(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._end)

    def _end(self) -> None:
        self._ending = asyncio.create_task(self._worker.close(), name="merge-worker-idle")


def _whole(name: bytes, path: ConflictedPath) -> ConflictPart | None:
    """The conflict of a path of which one side can be taken as a whole; None: it is of lines, or of several paths."""
    found = presence(*path.stages)
    kind = found.conflict or (BINARY_KIND if BINARY in path.said else "")
    if not kind or not {*path.said} <= OF_PATH or any(e and e.mode == SUBMODULE for e in path.stages):
        return None
    base, ours, theirs = ("" if entry is None else f"{_called(entry)} {entry.id}\n" for entry in path.stages)
    return ConflictPart(name_of(name), "", kind, "high", base, ours, theirs, whole=True)


def _called(entry: Entry) -> str:
    return {LINK: "symbolic link", PROGRAM: "program"}.get(entry.mode, "file")


async def _entry(
    git: Git, text: _MergedText, chosen: Mapping[str, ChosenText]
) -> tuple[bytes, Entry, JoinedFile]:
    """The file as the merged tree has it, all of whose conflicts are settled. Raises GitError."""
    data = text.settled(chosen).encode("utf-8", "surrogateescape")
    id = (await git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=data)).text
    steps = (*(step for step in text.steps if step != "git"), "resolved") if text.parts else text.steps
    return text.name, Entry(text.mode, id), JoinedFile(name_of(text.name), steps)

"""Taking events back out of a tree: the one engine of rewind, undo and redo.

Invariants:
- what is written is objects: no file, index or ref of anybody. Paths of no taken touch keep their entries;
- a file is taken back as a whole or stays as it stands (`conflict`); the two names of a rename go together;
- lines of others stay: a touch is undone by a merge whose base is what stood after it and whose other side is what
  stood before it. Touches that follow upon each other are undone as one.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from relay.git.diff import changed_files
from relay.git.run import Git, name_of
from relay.timeline.rewind.line_merge import Versions, blob_id, merge_texts
from relay.timeline.rewind.named_touches import NamedTouch, TouchedEvent, named_touches, oid_of
from relay.timeline.rewind.tree_entries import (
    SUBMODULE,
    Change,
    Entry,
    blobs_of,
    changes_between,
    entries_of,
    existing,
    tree_with,
    write_blobs,
)


class Action(StrEnum):
    """What becomes of a file: as it stood before; gone; others' lines without the taken ones; nothing of the taken
    events stood in it; what is whose cannot be told, so it stays."""

    RESTORED = "restored"
    DELETED = "deleted"
    MERGED = "merged"
    KEPT = "kept"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class RewoundFile:
    """`before` and `after`: the file's blob in the old and in the new tree; None: not there."""

    path: str
    before: str | None
    after: str | None
    action: Action

    def as_json(self) -> dict[str, Any]:
        return {"path": self.path, "before": self.before, "after": self.after, "action": str(self.action)}


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The tree without the taken events; files in conflict stand in it as they stood."""

    tree: str
    files: tuple[RewoundFile, ...]
    #: Those of the files that change which are submodules.
    submodules: tuple[str, ...] = ()

    @property
    def conflicts(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files if file.action is Action.CONFLICT)


async def take_back(git: Git, tree: str, events: Sequence[TouchedEvent]) -> TakenBack:
    """Take events, newest first, out of a tree.

    `git`: of a scratch repository that sees the objects of all trees and touches. Raises GitError, OSError.
    """
    entries = await entries_of(git, tree)
    pairs = ((one.before, one.after) for one in events)
    changes = await changes_between(git, [(before, after) for before, after in pairs if before and after])
    with tempfile.TemporaryDirectory(prefix="rewind-", dir=git.env.get("GIT_DIR")) as folder:
        walk = _Walk(git, tree, entries, Path(folder))
        for one in events:
            named = named_touches(one, changes.get((one.before or "", one.after or ""), {}), entries)
            await (walk.take(named, one.after) if one.taken else walk.follow(named))
        await walk.settle()
        return await walk.finish()


@dataclass(slots=True)
class _File:
    """A path of the result: what stands there now, and the steps that are still to be undone, newest first."""

    entry: Entry | None
    steps: list[Change] = field(default_factory=list)
    conflict: bool = False
    touched: bool = False
    oldest: Entry | None = None
    #: The step that was undone last.
    undone: Change | None = None
    #: Paths that are taken back with this one or not at all.
    tied: set[bytes] = field(default_factory=set)

    def step(self, before: Entry | None, after: Entry | None) -> None:
        self.touched, self.oldest = True, before
        if self.steps and self.steps[-1][0] == after:
            self.steps[-1] = before, self.steps[-1][1]
        else:
            self.steps.append((before, after))


class _Walk:
    """Goes through the events from the newest to the oldest. What stands under a name at that time stands in the
    result at `self._where`, when a rename that is not taken back came later; None: nowhere any more."""

    def __init__(self, git: Git, tree: str, entries: Mapping[bytes, Entry], folder: Path) -> None:
        self._git, self._tree, self._entries, self._folder = git, tree, entries, folder
        self._files: dict[bytes, _File] = {}
        self._where: dict[bytes, bytes | None] = {}
        #: Names at which somebody made another file later.
        self._new: set[bytes] = set()
        #: Files in whose place a rename put another one, which stays.
        self._lost: dict[bytes, _File] = {}
        #: Contents that merges made, by their ids, which no object has yet.
        self._made: dict[str, bytes] = {}
        self._round = 0

    def _at(self, path: bytes) -> _File:
        return self._files.setdefault(path, _File(self._entries.get(path)))

    def _place(self, path: bytes) -> bytes | None:
        return self._where.get(path, path)

    async def follow(self, touches: Iterable[NamedTouch]) -> None:
        """Another's event: what it renamed had the old name before."""
        for touch in touches:
            if touch.origin is None:
                if touch.before is None and touch.after is not None:
                    self._new.add(touch.path)
                continue
            old, new = self._place(touch.origin), self._place(touch.path)
            await self.settle([path for path in (old, new) if path in self._files])
            # Where the rename is not part of this tree, the old name stands here as it did.
            free = old is None or not self._stands(old) or touch.origin in self._new
            if new is not None and self._stands(new) and free:
                self._where[touch.origin], self._where[touch.path] = new, None
                self._new.discard(touch.origin)

    def _stands(self, path: bytes) -> bool:
        file = self._files.get(path)
        return (file.entry if file is not None else self._entries.get(path)) is not None

    async def take(self, touches: Sequence[NamedTouch], after: str | None) -> None:
        """Undo an event, which left the tree `after`."""
        await self._find_moved(touches, after)
        by_path = {touch.path: touch for touch in touches}
        renames = {touch.path: touch.origin for touch in touches if touch.origin in by_path}
        for new, old in renames.items():
            assert old is not None
            await self._rename_back(by_path[old], by_path[new])
        together = {*renames, *renames.values()}
        for touch in touches:
            if touch.path not in together:
                self._undo(touch.path, touch.before, touch.after)

    async def _find_moved(self, touches: Sequence[NamedTouch], after: str | None) -> None:
        """Find files of an event that stand under another name here, because somebody renamed them elsewhere at the
        same time: in no order of events their names agree."""
        missing = [
            touch.path for touch in touches if touch.after is not None and not self._is_known(touch.path)
        ]
        if not missing or after is None or not await existing(self._git, [after]):
            return
        for record in await changed_files(self._git, after, self._tree):
            new = record.new_path
            if record.path in missing and new is not None and self._stands(new):
                self._where[record.path] = new

    def _is_known(self, path: bytes) -> bool:
        """Is it known what this name stands for here?"""
        place = self._place(path)
        return place is None or place in self._files or place in self._entries

    def _undo(self, path: bytes, before: Entry | None, after: Entry | None) -> None:
        place = self._place(path)
        if place is not None:
            self._at(place).step(before, after)
        else:
            self._lost.setdefault(path, _File(None)).step(before, after)

    async def _rename_back(self, old: NamedTouch, new: NamedTouch) -> None:
        """Undo a rename: what stands at the new name, with the others' lines, goes back to the old one."""
        old_place, new_place = self._place(old.path), self._place(new.path)
        await self.settle([path for path in (old_place, new_place) if path in self._files])
        if new_place is None or not self._stands(new_place):
            # It was deleted since, or never came here: what the old name had comes back only where nobody has
            # changed anything.
            if new_place is not None and old_place is not None and not self._stands(old_place):
                self._at(old_place).touched = self._at(new_place).touched = True
            return
        if old_place is None or new_place != new.path:
            # Somebody gave it another name since, which stays.
            self._at(new_place).step(old.before, new.after)
            self._where[old.path] = new_place
            if new.before is not None:
                self._where[new.path] = new.path
                self._at(new.path).step(new.before, None)
            return
        target, source = self._at(old_place), self._at(new_place)
        source.tied.add(old_place)
        target.tied.add(new_place)
        target.touched = source.touched = True
        if target.entry is not None:
            # The old name is in use. Either the rename is not part of this tree, or somebody made a new file there.
            if target.entry == old.before:
                source.step(new.before, new.after)
            else:
                target.conflict = source.conflict = True
            return
        target.entry = source.entry
        target.step(old.before, new.after)
        source.entry = new.before

    async def settle(self, paths: Iterable[bytes] | None = None) -> None:
        """Undo the steps of these files (None: of all), the next step of each at once."""
        if paths is None:
            files = [*self._files.values(), *self._lost.values()]
        else:
            files = [self._files[path] for path in dict.fromkeys(paths)]
        while waiting := [file for file in files if file.steps]:
            merges: list[tuple[_File, Change]] = []
            for file in waiting:
                step = file.steps.pop(0)
                # A turn's changes may be known twice: from its tools, and from the trees before and after it.
                again, file.undone = step == file.undone, step
                if not again and not file.conflict and not _undone(file, *step):
                    merges.append((file, step))
            await self._merge(merges)

    async def _merge(self, merges: Sequence[tuple[_File, Change]]) -> None:
        """Undo one step of each of these files by lines."""
        wanted = {entry.oid for file, step in merges for entry in (file.entry, *step) if entry is not None}
        texts = self._made | await blobs_of(self._git, wanted - self._made.keys())
        ready: list[tuple[_File, Change]] = []
        versions: list[Versions] = []
        for file, (before, after) in merges:
            assert file.entry is not None and after is not None
            base, ours = texts.get(after.oid), texts.get(file.entry.oid)
            theirs = b"" if before is None else texts.get(before.oid)
            if base is None or ours is None or theirs is None:
                file.conflict = True
            else:
                ready.append((file, (before, after)))
                versions.append(Versions(base, ours, theirs))
        self._round += 1
        merged = await merge_texts(self._git, versions, self._folder / f"merge-{self._round}")
        for (file, (before, after)), text in zip(ready, merged, strict=True):
            assert file.entry is not None and after is not None
            if text is None:
                file.conflict = True
            elif not text and before is None:
                file.entry = None
            else:
                oid = blob_id(text, "sha1" if len(file.entry.oid) == 40 else "sha256")
                self._made[oid] = text
                file.entry = Entry(_mode(file.entry, before, after), oid)

    async def finish(self) -> TakenBack:
        """Write the new tree. Nothing is taken back of a file in conflict, nor of those that are tied to it."""
        for path, lost in self._lost.items():
            file = self._at(path)
            file.touched = True
            file.conflict |= lost.conflict or lost.entry is not None
        await self._check_objects()
        self._spread_conflicts()
        while clashes := self._clashes():
            for path in clashes:
                self._files[path].conflict = True
            self._spread_conflicts()
        changes = {
            path: file.entry for path, file in self._files.items() if file.entry != self._entries.get(path)
        }
        made = [
            self._made[entry.oid]
            for entry in changes.values()
            if entry is not None and entry.oid in self._made
        ]
        folder = self._folder / "blobs"
        folder.mkdir()
        await write_blobs(self._git, made, folder)
        new = await tree_with(self._git, self._tree, changes, self._folder / "index")
        files = [self._told(path, file) for path, file in sorted(self._files.items()) if file.touched]
        modules = [
            name_of(path)
            for path, entry in sorted(changes.items())
            if SUBMODULE in (entry and entry.mode, (stood := self._entries.get(path)) and stood.mode)
        ]
        return TakenBack(new, tuple(files), tuple(modules))

    async def _check_objects(self) -> None:
        """What has to come back and is kept nowhere any more cannot."""
        needed = {
            path: file.entry.oid
            for path, file in self._files.items()
            if file.entry is not None
            and file.entry != self._entries.get(path)
            and file.entry.oid not in self._made
        }
        there = await existing(self._git, needed.values())
        for path, oid in needed.items():
            # A submodule's commit is in no object store of ours, and need not be.
            if oid not in there and self._files[path].entry != Entry(SUBMODULE, oid):
                self._files[path].conflict = True

    def _spread_conflicts(self) -> None:
        waiting = [path for path, file in self._files.items() if file.conflict]
        while waiting:
            path = waiting.pop()
            file = self._files[path]
            file.conflict, file.entry = True, self._entries.get(path)
            waiting += [other for other in file.tied if not self._files[other].conflict]

    def _clashes(self) -> list[bytes]:
        """Files that would come to stand where a folder stands, or below another file."""
        added = [
            path for path, file in self._files.items() if file.entry is not None and path not in self._entries
        ]
        names = list(self._entries) if added else []

        def is_file(path: bytes) -> bool:
            file = self._files.get(path)
            return path in self._entries if file is None else file.entry is not None

        def is_folder(path: bytes) -> bool:
            below = path + b"/"
            at = bisect_left(names, below)
            while at < len(names) and names[at].startswith(below):
                if is_file(names[at]):
                    return True
                at += 1
            return any(other.startswith(below) for other in added)

        return [
            path for path in added if is_folder(path) or any(is_file(folder) for folder in _folders(path))
        ]

    def _told(self, path: bytes, file: _File) -> RewoundFile:
        before = self._entries.get(path)
        if file.conflict:
            action = Action.CONFLICT
        elif file.entry == before:
            action = Action.KEPT
        elif file.entry is None:
            action = Action.DELETED
        else:
            action = Action.RESTORED if file.entry == file.oldest else Action.MERGED
        return RewoundFile(name_of(path), oid_of(before), oid_of(file.entry), action)


def _folders(path: bytes) -> list[bytes]:
    """The folders that a path is in, the outermost first."""
    return [path[:at] for at, byte in enumerate(path) if byte == ord("/")]


def _undone(file: _File, before: Entry | None, after: Entry | None) -> bool:
    """Undo one step without looking into the file, or call it a conflict; False: its lines have to be merged."""
    stands = file.entry
    if before in (stands, after):
        return True
    if stands == after:
        file.entry = before
        return True
    if stands is None:
        return True  # others have deleted it: nothing of the step is left
    if after is None or not all(entry.is_regular for entry in (stands, before, after) if entry is not None):
        file.conflict = True
        return True
    mode = _mode(stands, before, after)
    if stands.oid == after.oid:
        file.entry = None if before is None else Entry(mode, before.oid)
        return True
    if before is not None and before.oid in (stands.oid, after.oid):
        file.entry = Entry(mode, stands.oid)
        return True
    return False


def _mode(stands: Entry, before: Entry | None, after: Entry) -> str:
    """The mode of a file that others and the step have changed."""
    return before.mode if before is not None and stands.mode == after.mode else stands.mode

"""Putting the difference of two trees into the files of a checkout, all of it or none.

Invariants:
- only paths in which the two trees differ are written or removed, and only while each is what the first tree says:
  any other content (a person's edit, an ignored file, a folder with files of its own) refuses with its name, before
  anything is changed;
- each file changes in one step (another one is renamed into its place), so a process that is killed leaves files
  that are each as in one of the two trees, and `recover` knows which; folders that became empty go;
- files are read and written as git does it there (line ends, modes, links), but no filter and no hook runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from relay.git.checkout import Checkout
from relay.git.diff import filtered
from relay.git.merge_state import operation_under_way
from relay.git.run import LONG_S, Git, GitError, name_of
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import on_disk
from relay.model.refusals import Refusal
from relay.timeline.rewind.tree_entries import (
    SUBMODULE,
    Change,
    Entry,
    changes_between,
    entries_at,
    in_arguments,
    index_lines,
)

#: Paths that a refusal lists.
_MOST_NAMED = 8
_ATTRIBUTES = b".gitattributes"
#: In the git directory of the checkout: files that wait to be renamed into their places.
STAGE = "relay-rewind"
_BESIDE = ".relay-rewind"
Stamp = tuple[int, int, int, int] | None


class Outcome(StrEnum):
    """What `recover` found or made of it: every file as in the second tree, or as in the first."""

    FINISHED = "finished"
    GONE = "gone"


class FilesInTheWay(Refusal):
    """Files on disk are not what they were taken for; nothing was changed. `paths`: which."""

    def __init__(self, top: Path, paths: Sequence[str], why: str, fix: str) -> None:
        more = len(paths) - _MOST_NAMED
        named = ", ".join(paths[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        super().__init__(f"{why} in {top}: {named}.", fix, details={"paths": list(paths)})
        self.paths = tuple(paths)


@dataclass(frozen=True, slots=True)
class _OnDisk:
    """What stands at a path, as git stores it, and the file's stamp. `entry` None: no file (a folder, perhaps)."""

    entry: Entry | None
    stamp: Stamp


class CheckoutWriter:
    """Writes into the files of one checkout; nobody else may do so meanwhile on relay's behalf."""

    def __init__(self, scratch: ScratchRepository, checkout: Checkout) -> None:
        self._scratch, self._checkout = scratch, checkout
        self._top = checkout.top
        self._stage = checkout.git_dir / STAGE

    async def check(self, before: str, after: str) -> None:
        """Raise Refusal when `write` would; GitError."""
        await self._ready(before, after)

    async def write(self, before: str, after: str, listed: str | None) -> None:
        """Bring the files from the tree `before` to the tree `after`. `listed`: the tree that the checkout's index
        shows for these paths then, so far as nobody had staged something else; None: they are in no commit.

        Raises Refusal, and then the files are as they were; GitError, OSError.
        """
        changes, found = await self._ready(before, after)
        done: list[bytes] = []
        try:
            await self._put(changes, found, done)
            await self._follow(changes, listed)
        except (OSError, GitError, Refusal) as error:
            back = {path: (then, now) for path, (now, then) in changes.items() if path in done}
            await self._put(back, await self._found(back), [])
            if isinstance(error, OSError):
                raise Refusal(
                    f"The files of {self._top} could not be written: {error}.", "Mend that."
                ) from error
            raise
        finally:
            await asyncio.to_thread(self._clear)

    async def recover(
        self, before: str, after: str, listed: str | None, listed_before: str | None
    ) -> Outcome:
        """Go on where a process that wrote was ended: to the end, or back where somebody has edited a file since.
        A file that was edited stays as it is. `listed`, `listed_before`: as in `write`, for the two ends. Raises
        GitError, OSError."""
        changes = await self._changes(before, after)
        found = await self._found(changes)
        stands = {path: found[path].entry for path in changes}
        begun = {path for path, (_, then) in changes.items() if stands[path] == then}
        waiting = {path for path, (now, _) in changes.items() if stands[path] == now}
        try:
            if not begun:
                return Outcome.GONE
            # What is in neither state was edited. Where nothing waits any more, that was after all was written.
            if not waiting or begun | waiting == changes.keys():
                await self._put({path: changes[path] for path in waiting}, found, [])
                await self._follow(changes, listed)
                return Outcome.FINISHED
            await self.back(before, after, listed_before)
            return Outcome.GONE
        finally:
            await asyncio.to_thread(self._clear)

    async def back(self, before: str, after: str, listed: str | None) -> None:
        """Bring each file that is as in the tree `after` to what it is in `before`; others stay. Raises GitError,
        OSError."""
        changes = await self._changes(before, after)
        found = await self._found(changes)
        back = {path: (then, now) for path, (now, then) in changes.items() if found[path].entry == then}
        await self._put(back, found, [])
        await self._follow(back, listed)

    async def _changes(self, before: str, after: str) -> dict[bytes, Change]:
        if before == after:
            return {}
        pairs = await changes_between(self._scratch.git(self._checkout), [(before, after)])
        if (before, after) not in pairs:
            raise GitError("diff-tree", 128, f"one of the trees {before} and {after} is not kept any more")
        return pairs[before, after]

    async def _ready(self, before: str, after: str) -> tuple[dict[bytes, Change], dict[bytes, _OnDisk]]:
        """What is to change, and what stands there. Raises Refusal."""
        top, changes = self._top, await self._changes(before, after)
        if doing := await operation_under_way(self._checkout):
            raise Refusal(f"In {top} {doing} is under way.", "Settle it or give it up first.")
        if await asyncio.to_thread(self._checkout.index.with_name("index.lock").exists):
            raise Refusal(f"git is at work in {top}.", "Try again when it is done.")
        modules = [name_of(path) for path, sides in changes.items() if _is_submodule(sides)]
        if modules:
            raise FilesInTheWay(
                top,
                modules,
                "Submodules would change",
                "Set them by hand; a rewind `into new` does it on a branch.",
            )
        if paths := await filtered(self._scratch, self._checkout, after, list(changes)):
            why = "Files that would change go through a git filter, which relay does not run,"
            raise FilesInTheWay(top, paths, why, "Change them by hand.")
        found = await self._found(changes)
        edited = [name_of(path) for path, (now, _) in changes.items() if found[path].entry != now]
        edited += await asyncio.to_thread(self._blocking, changes)
        if edited:
            why = "Files that would change have been edited, or are not relay's to write,"
            raise FilesInTheWay(top, sorted({*edited}), why, "Commit them, or move them away, and try again.")
        return changes, found

    def _blocking(self, changes: Mapping[bytes, Change]) -> list[str]:
        """What stands where a file or one of its folders is to be, and does not go with this change."""
        going = {path for path, (_, then) in changes.items() if then is None}
        blocking = []
        for path, (_, then) in changes.items():
            if then is None:
                continue
            at = on_disk(self._top, path)
            if _is_folder(at):
                blocking += [name_of(file) for file in _files_below(self._top, path) if file not in going]
            for folder in _folders(path):
                if os.path.lexists(on_disk(self._top, folder)) and not _is_folder(on_disk(self._top, folder)):
                    blocking += [] if folder in going else [name_of(folder)]
        return blocking

    async def _found(self, changes: Mapping[bytes, Change]) -> dict[bytes, _OnDisk]:
        """What stands at these paths now, as git would store it."""
        stamps = await asyncio.to_thread(lambda: {path: self._stamp(path, changes) for path in changes})
        there = [path for path, stamp in stamps.items() if stamp is not None]
        with self._private_index() as git:
            # git looks into the index for how a file's line ends are stored.
            known = {path: now for path, (now, _) in changes.items() if now is not None and path in there}
            await git.run("update-index", "-z", "--index-info", stdin=index_lines(known, len(self._zeros)))
            names = b"".join(path + b"\0" for path in there)
            await git.run("update-index", "--add", "--replace", "-z", "--stdin", stdin=names)
            listed = await git.run("ls-files", "--stage", "-z")
        entries = dict(_staged(listed.out))
        return {path: _OnDisk(entries.get(path) if stamp else None, stamp) for path, stamp in stamps.items()}

    @property
    def _zeros(self) -> str:
        return "0" * (64 if self._checkout.hash == "sha256" else 40)

    @contextlib.contextmanager
    def _private_index(self) -> Iterator[Git]:
        """git over the checkout's files with an empty index of its own."""
        with tempfile.TemporaryDirectory(prefix="rewind-", dir=self._scratch.folder) as folder:
            yield self._scratch.git(self._checkout, Path(folder) / "index")

    def _stamp(self, path: bytes, changes: Collection[bytes]) -> Stamp:
        """What tells a file from itself after a change; None where none is. Raises Refusal for what git does not
        know as a file, and behind a link that is none of the paths that change."""
        for folder in _folders(path):
            if on_disk(self._top, folder).is_symlink():
                if folder in changes:
                    return None  # the link goes, or has just come; what it leads to is another path
                why, fix = "A link stands in the place of a folder", "Move it away, and try again."
                raise FilesInTheWay(self._top, [name_of(folder)], why, fix)
        try:
            status = on_disk(self._top, path).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISDIR(status.st_mode):
            return None
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            raise FilesInTheWay(self._top, [name_of(path)], "No file git knows stands", "Move it away.")
        return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode

    async def _put(
        self, changes: Mapping[bytes, Change], found: Mapping[bytes, _OnDisk], done: list[bytes]
    ) -> None:
        """Make each path what its change says. `done` gets the paths as they are changed. Raises OSError, Refusal,
        GitError."""
        going = [path for path, (_, then) in changes.items() if then is None]
        coming = {path: then for path, (_, then) in changes.items() if then is not None}
        await asyncio.to_thread(self._remove, going, found, done)
        # What attributes say of the other files is read from disk.
        first = {path: then for path, then in coming.items() if path.rpartition(b"/")[2] == _ATTRIBUTES}
        rest = {path: then for path, then in coming.items() if path not in first}
        for entries in (first, rest):
            if entries:
                await self._stage_files(entries)
                await asyncio.to_thread(self._move, entries, found, done)

    async def _stage_files(self, entries: Mapping[bytes, Entry]) -> None:
        """Write files as they are to be on disk, into the git directory."""
        await asyncio.to_thread(self._clear)
        with self._private_index() as git:
            await git.run("update-index", "-z", "--index-info", stdin=index_lines(entries, len(self._zeros)))
            names = b"".join(path + b"\0" for path in entries)
            asked = ("checkout-index", "-q", "-z", "--stdin", f"--prefix={self._stage}/")
            await git.run(*asked, stdin=names, timeout_s=LONG_S)

    def _remove(self, paths: Sequence[bytes], found: Mapping[bytes, _OnDisk], done: list[bytes]) -> None:
        for path in paths:
            self._still(path, found)
            on_disk(self._top, path).unlink(missing_ok=True)
            done.append(path)
            self._remove_empty(path)

    def _remove_empty(self, path: bytes) -> None:
        """The folders that the path was in, as far as nothing is left in them."""
        for folder in reversed(_folders(path)):
            try:
                on_disk(self._top, folder).rmdir()
            except OSError:
                return

    def _move(
        self, entries: Mapping[bytes, Entry], found: Mapping[bytes, _OnDisk], done: list[bytes]
    ) -> None:
        for path in entries:
            self._still(path, found)
            source, target = on_disk(self._stage, path), on_disk(self._top, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            if _is_folder(target):
                target.rmdir()  # what was in it has gone
            try:
                source.replace(target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                beside = target.with_name(f".{target.name}{_BESIDE}")
                shutil.move(source, beside)
                beside.replace(target)
            done.append(path)

    def _still(self, path: bytes, found: Mapping[bytes, _OnDisk]) -> None:
        """Refuse where somebody wrote since it was looked at."""
        if self._stamp(path, found) != found[path].stamp:
            why, fix = "A file was written at the same moment", "Try again."
            raise FilesInTheWay(self._top, [name_of(path)], why, fix)

    def _clear(self) -> None:
        shutil.rmtree(self._stage, ignore_errors=True)

    async def _follow(self, changes: Mapping[bytes, Change], listed: str | None) -> None:
        """Let the checkout's own index say of these paths what the tree `listed` says."""
        own = self._scratch.git(self._checkout, self._checkout.index)
        shown = {} if listed is None else await entries_at(self._scratch.git(self._checkout), listed, changes)
        now = dict[bytes, Entry]()
        for names in in_arguments(changes):
            now |= dict(_staged((await own.run("ls-files", "--stage", "-z", "--", *names)).out))
        wanted: dict[bytes, Entry | None] = {}
        for path, sides in changes.items():
            # What somebody has staged that stands in none of the trees is theirs.
            if now.get(path) in (*sides, shown.get(path)) and now.get(path) != shown.get(path):
                wanted[path] = shown.get(path)
        await own.run("update-index", "-z", "--index-info", stdin=index_lines(wanted, len(self._zeros)))
        await own.run("update-index", "-q", "--refresh", ok=(0, 1), timeout_s=LONG_S)


def _is_submodule(sides: Change) -> bool:
    return any(entry is not None and entry.mode == SUBMODULE for entry in sides)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _files_below(top: Path, folder: bytes) -> list[bytes]:
    """Every file below a folder, relative to the top."""
    files = []
    for at, _, names in os.walk(os.fsencode(on_disk(top, folder))):
        files += [os.path.relpath(os.path.join(at, name), os.fsencode(top)) for name in names]  # noqa: PTH118
    return files


def _folders(path: bytes) -> list[bytes]:
    """The folders that a path is in, the outermost first."""
    return [path[:at] for at, byte in enumerate(path) if byte == ord("/")]


def _staged(data: bytes) -> Iterator[tuple[bytes, Entry]]:
    """`git ls-files --stage -z`: `MODE OID STAGE\\tPATH`."""
    for line in data.split(b"\0"):
        about, cut, path = line.partition(b"\t")
        if cut:
            mode, oid, _ = about.decode("ascii").split(" ")
            yield path, Entry(mode, oid)

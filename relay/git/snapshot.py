"""What stands in a checkout now, as one tree: committed and not, untracked files too, ignored ones not.

Invariant: a snapshot is what `git add --all && git commit` would record, taken without touching the checkout:
the index is a copy, the objects go to the scratch, and nothing of the repository's configuration is read. After
a change of known paths only these are looked at again, and only their folders are written; after a change of HEAD or
the index, all are.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from relay.git.checkout import Checkout, Head, head_of
from relay.git.merge_state import UnsettledFile, merge_heads, unsettled_files
from relay.git.run import Git, GitError, name_of
from relay.git.scratch_repository import ScratchRepository
from relay.git.trees.folder_writer import TouchedFolders, UnusualPaths, read_folders, write_folders

log = structlog.get_logger(__name__)
#: An untracked file beyond this many bytes, and untracked files beyond this many, are output rather than work:
#: they are left out, and said (`Snapshot.left_out`).
MOST_BYTES = 50 * 1_048_576
MOST_UNTRACKED = 10_000
#: Files that cannot be read (no permission) before a snapshot is given up.
MOST_UNREADABLE = 50
_UNREADABLE = re.compile(r"^fatal: Unable to process path (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`commit` holds `tree` on top of `head.commit` (it is that commit when nothing is uncommitted).

    `left_out`: what is there and not in the tree (repositories inside, files too large or unreadable).
    `merging`: what a merge that is under way here merges in; `commit` has them as parents too. `unsettled`: the files
    of that merge that still are in conflict, which `tree` has with their markers.
    """

    head: Head
    tree: str
    commit: str
    dirty: bool
    left_out: tuple[str, ...] = ()
    merging: tuple[str, ...] = ()
    unsettled: tuple[UnsettledFile, ...] = ()

    @property
    def parents(self) -> tuple[str, ...]:
        """What `tree` is on top of: the commit of `head`, and what a merge under way merges in."""
        return (*([self.head.commit] if self.head.commit else []), *self.merging)


class Snapshotter:
    """Takes snapshots of one checkout. `name` tells its index from others'; calls must not overlap."""

    def __init__(
        self, scratch: ScratchRepository, checkout: Checkout, name: str, excluded: Sequence[str] = ()
    ) -> None:
        self.checkout = checkout
        self._scratch = scratch
        self._index = scratch.folder / f"index-{name}"
        self._small_index = scratch.folder / f"touched-{name}"
        self._excludes = scratch.folder / f"excludes-{name}"
        self._excluded = excluded
        self._left_out: tuple[str, ...] = ()
        self._taken: Snapshot | None = None
        self._of_head: tuple[str, str, str] | None = None

    @property
    def git(self) -> Git:
        return self._scratch.git(self.checkout, self._index, self._excludes)

    def forget(self) -> None:
        """The scratch was emptied."""
        self._taken = None

    async def take(self) -> Snapshot:
        """Look at everything. Raises GitError."""
        await asyncio.to_thread(self._prepare)
        git = self.git
        head = await head_of(self.checkout.git)
        try:
            changed, left_out = await self._find(git)
        except GitError:
            # A split index, or one that is damaged: begin with what was committed.
            await asyncio.to_thread(self._index.unlink, True)
            if head.commit is not None:
                await git.run("read-tree", head.commit)
            changed, left_out = await self._find(git)
        self._left_out = (*left_out, *await self._put(git, changed))
        return await self._finish(git, head, await git.line("write-tree"))

    async def update(self, paths: Collection[bytes]) -> Snapshot:
        """Look at these paths only (relative to the top), HEAD and index being as they were."""
        if self._taken is None:
            return await self.take()
        try:
            tree = await self._updated(self._taken.tree, sorted(set(paths)))
            return await self.take() if tree is None else await self._finish(self.git, self._taken.head, tree)
        except (GitError, UnusualPaths) as error:
            # Such as a path behind a link: what is not settled path by path is settled by looking at all.
            log.info("all of a worktree is looked at", path=str(self.checkout.top), reason=str(error))
            return await self.take()

    async def with_paths(self, tree: str, paths: Collection[bytes]) -> str:
        """The tree `tree` with these paths (relative to the top) as they stand in the checkout now. One that is
        ignored, a folder, too large, unreadable or of a repository inside stays as it is in `tree`. What `take` knows
        is not changed. Raises GitError."""
        plain = await asyncio.to_thread(_plain, self.checkout.top, sorted(set(paths)))
        try:
            folders, wanted = await self._open_folders(tree, plain)
            entries, unreadable = await self._look_at(folders, wanted)
            for path in unreadable:
                entries.pop(path, None)
            return await write_folders(folders, self.git, entries)
        except UnusualPaths as error:
            raise GitError("mktree", 128, str(error)) from error

    async def with_ignored(self, tree: str, known: str, committed: str | None) -> str:
        """The tree `tree`, which `take` gave, with those files of the tree `known` that it lacks for nothing but
        being ignored now, as they stand in the checkout: nobody deleted them. What the commit `committed` has was
        taken out of git, and stays out. Raises GitError."""
        git = self.git
        asked = ("diff-tree", "-r", "-z", "--no-renames", "--diff-filter=D", "--name-only", known, tree)
        gone = [path for path in (await git.run(*asked)).out.split(b"\0") if path] if known != tree else []
        left = await asyncio.to_thread(_standing, self.checkout.top, gone)
        paths = sorted(await self._ignored(git, left)) if left else []
        try:
            if paths and committed is not None:
                has = await read_folders(git, committed, paths)
                paths = [path for path in paths if has.find(path) is None]
            if not paths:
                return tree
            stood = await read_folders(git, known, paths)
            entries, unreadable = await self._look_at(stood, paths)
            entries |= {path: stood.find(path) for path in unreadable}
            return await write_folders(await read_folders(git, tree, paths), git, entries)
        except UnusualPaths as error:
            raise GitError("mktree", 128, str(error)) from error

    async def _updated(self, tree: str, paths: Sequence[bytes]) -> str | None:
        """The tree with what stands at these paths now; None: one of them is a folder, too large or unreadable."""
        folders, wanted = await self._open_folders(tree, paths)
        if await asyncio.to_thread(_unusual, self.checkout.top, wanted):
            return None
        entries, unreadable = await self._look_at(folders, wanted)
        return None if unreadable else await write_folders(folders, self.git, entries)

    async def _open_folders(self, tree: str, paths: Sequence[bytes]) -> tuple[TouchedFolders, list[bytes]]:
        """The folders of the tree on the way to these paths, and those of the paths that are not ignored: what is in
        the tree is tracked, and so never is."""
        folders = await read_folders(self.git, tree, paths)
        unknown = [path for path in paths if folders.find(path) is None]
        ignored = await self._ignored(self.git, unknown) if unknown else set()
        return folders, [path for path in paths if path not in ignored]

    async def _look_at(
        self, folders: TouchedFolders, paths: Sequence[bytes]
    ) -> tuple[dict[bytes, tuple[str, str] | None], list[bytes]]:
        """What git makes of the files at these paths, by an index that has nothing but what they were; and those that
        could not be read."""
        if not paths:
            return {}, []
        await asyncio.to_thread(self._small_index.unlink, True)
        git = self._scratch.git(self.checkout, self._small_index, self._excludes)
        known = [(path, entry) for path in paths if (entry := folders.find(path)) is not None]
        stood = b"".join(f"{mode} {oid}\t".encode() + path + b"\0" for path, (mode, oid) in known)
        if stood:
            await git.run("update-index", "-z", "--index-info", stdin=stood)
        unreadable = {*await self._put(git, paths)}
        entries: dict[bytes, tuple[str, str] | None] = dict.fromkeys(paths)
        for line in (await git.run("ls-files", "-z", "--stage")).out.split(b"\0"):
            about, cut, path = line.partition(b"\t")
            if cut:
                mode, oid, _ = about.decode("ascii").split(" ")
                entries[path] = mode, oid
        return entries, [path for path in paths if name_of(path) in unreadable]

    async def _committed(self, git: Git, head: Head) -> tuple[str | None, str]:
        """The tree and the date of HEAD's commit."""
        if head.commit is None:
            return None, "0"
        if self._of_head is None or self._of_head[0] != head.commit:
            tree, date = (await git.line("log", "-1", "--format=%T %ct", head.commit, "--")).split(" ")
            self._of_head = head.commit, tree, date
        return self._of_head[1], self._of_head[2]

    async def _ignored(self, git: Git, paths: Collection[bytes]) -> set[bytes]:
        """Those of these paths, none of which is tracked, that are ignored."""
        # The one command that refuses literal paths; behind a `./` none is taken for anything else.
        plain = Git(git.folder, {**git.env, "GIT_LITERAL_PATHSPECS": "0"}, git.config)
        names = b"".join(b"./" + path + b"\0" for path in paths)
        answer = await plain.run("check-ignore", "--no-index", "-z", "--stdin", stdin=names, ok=(0, 1))
        return {path.removeprefix(b"./") for path in answer.out.split(b"\0") if path}

    def _prepare(self) -> None:
        index = self.checkout.index
        if index.is_file():
            # With the time of the original: git tells by it which entries are too young to be trusted, and takes a
            # file of the same size, written in the same second as its entry, for unchanged when it is older.
            at = index.stat().st_mtime_ns
            shutil.copyfile(index, self._index)
            os.utime(self._index, ns=(at, at))
        else:
            self._index.unlink(missing_ok=True)
        own = self.checkout.common / "info" / "exclude"
        lines = own.read_bytes() if own.is_file() else b""
        self._excludes.write_bytes(
            lines + b"\n" + b"".join(f"{pattern}\n".encode() for pattern in self._excluded)
        )

    async def _find(self, git: Git) -> tuple[list[bytes], list[str]]:
        """Paths that differ from the index, and what is to be left out."""
        asked = ("ls-files", "-z", "--exclude-standard")
        modified, unmerged, others = await asyncio.gather(
            git.run(*asked, "--modified"),
            git.run("ls-files", "-z", "--unmerged"),
            git.run(*asked, "--others"),
        )
        changed = [path for path in modified.out.split(b"\0") if path]
        # `MODE OID STAGE\tPATH`
        changed += [entry.partition(b"\t")[2] for entry in unmerged.out.split(b"\0") if entry]
        other = [path for path in others.out.split(b"\0") if path]
        left_out = await asyncio.to_thread(_too_much, self.checkout.top, other)
        out = set(left_out)
        changed += [path for path in other if path not in out]
        return sorted(set(changed)), [name_of(path) for path in left_out]

    async def _put(self, git: Git, paths: Iterable[bytes]) -> list[str]:
        """Bring the index up to the files; gives those that could not be read."""
        wanted, unreadable = list(paths), list[str]()
        while wanted:
            names = b"".join(path + b"\0" for path in wanted)
            try:
                await git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=names)
                break
            except GitError as error:
                match = _UNREADABLE.search(error.stderr)
                bad = match[1] if match else None
                left = [path for path in wanted if name_of(path) != bad]
                if bad is None or len(left) == len(wanted) or len(unreadable) >= MOST_UNREADABLE:
                    raise
                unreadable.append(bad)
                wanted = left
        return unreadable

    async def _finish(self, git: Git, head: Head, tree: str) -> Snapshot:
        before, others = self._taken, await merge_heads(self.checkout)
        more = self._left_out, others, await unsettled_files(self.checkout, git, tree) if others else ()
        if before is not None and (before.tree, before.head, before.merging) == (tree, head, others):
            self._taken = Snapshot(head, tree, before.commit, before.dirty, *more)
            return self._taken
        committed, date = await self._committed(git, head)
        if tree == committed and head.commit is not None and not others:
            self._taken = Snapshot(head, tree, head.commit, False, *more)
        else:
            parents = [*([head.commit] if head.commit else []), *others]
            # With the date of its parent, so that it depends on nothing else. With an older one git walks the whole
            # history to find a merge base (measured on 5,500 commits: 76 ms a merge instead of 4).
            commit = await commit_tree(git, tree, parents, "work", signed_by_relay(date))
            self._taken = Snapshot(head, tree, commit, True, *more)
        return self._taken


def signed_by_relay(date: str | int) -> dict[str, str]:
    """git's variables for a commit that needs nobody's name; `date` in Unix seconds."""
    signed = (("NAME", "relay"), ("EMAIL", "snapshot@relay"), ("DATE", f"@{date} +0000"))
    return {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in signed}


async def commit_tree(git: Git, tree: str, parents: Sequence[str], text: str, who: dict[str, str]) -> str:
    """The id of a commit; `who` are git's variables of author and committer."""
    words = [word for parent in parents for word in ("-p", parent)]
    signed = Git(git.folder, {**git.env, **who}, git.config)
    done = await signed.run("commit-tree", tree, *words, stdin=text.encode())
    return done.text


def _too_much(top: Path, paths: Sequence[bytes]) -> list[bytes]:
    """Of these untracked paths, those that are left out."""
    out: list[bytes] = []
    taken = 0
    for path in paths:
        if path.endswith(b"/"):  # a repository of its own
            out.append(path)
            continue
        try:
            large = on_disk(top, path).lstat().st_size > MOST_BYTES
        except OSError:
            large = False  # it has gone meanwhile, and the index will say so
        taken += not large
        if large or taken > MOST_UNTRACKED:
            out.append(path)
    return out


def on_disk(top: Path, path: bytes) -> Path:
    """Where a path of the tree is on disk, with every byte as it is."""
    return top / os.fsdecode(path)


def _plain(top: Path, paths: Iterable[bytes]) -> list[bytes]:
    """Those of these paths that are settled path by path: no folder, not too large, in no repository inside."""

    def inner(path: bytes) -> bool:
        parts = path.split(b"/")[:-1]
        return any(
            on_disk(top, b"/".join([*parts[:end], b".git"])).exists() for end in range(1, len(parts) + 1)
        )

    return [path for path in paths if not _unusual(top, [path]) and not inner(path)]


def _standing(top: Path, paths: Iterable[bytes]) -> list[bytes]:
    """Those of these paths at which a file is, in real folders and in no repository inside."""

    def is_there(path: bytes) -> bool:
        at = on_disk(top, path)
        above = [each for each in at.parents if each != top and each.is_relative_to(top)]
        return os.path.lexists(at) and not any(each.is_symlink() for each in above)

    return _plain(top, [path for path in paths if is_there(path)])


def _unusual(top: Path, paths: Iterable[bytes]) -> bool:
    """Is one of these a folder, or too large: something that is not settled path by path?"""
    for path in paths:
        at = on_disk(top, path)
        try:
            status = at.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode) or status.st_size > MOST_BYTES:
            return True
    return False

"""The files of git trees: read, compared and written, many at a time.

Invariant: objects are all that is read and written. No index but a private one and no checkout is touched, and a
path is its bytes, as git has it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from relay.git.diff import parse_raw
from relay.git.run import Git
from relay.git.trees.folder_writer import UnusualPaths, read_folders, write_folders

REGULAR = frozenset({"100644", "100755"})
#: Bytes of one blob that is read into memory, and of all that one call reads.
MOST_BLOB = 16 * 1_048_576
MOST_BLOBS = 512 * 1_048_576
SUBMODULE = "160000"
_NO_MODE, _FOLDER = "000000", "040000"
#: Paths that one command line names.
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a tree: git's mode (100644, 100755, 120000 a link, 160000 a submodule) and its object."""

    mode: str
    oid: str

    @property
    def is_regular(self) -> bool:
        return self.mode in REGULAR


#: Of one path: what stood there before, and after.
Change = tuple[Entry | None, Entry | None]


class TreeEntries(Mapping[bytes, Entry]):
    """The files of a tree by path, sorted by its bytes. An entry is read when it is asked for: few of many are."""

    def __init__(self, listed: bytes) -> None:
        lines = (line.partition(b"\t") for line in listed.split(b"\0"))
        self._about = {path: about for about, cut, path in lines if cut}

    def __getitem__(self, path: bytes) -> Entry:
        mode, _, oid = self._about[path].decode("ascii").split(" ")
        return Entry(mode, oid)

    def __contains__(self, path: object) -> bool:
        return path in self._about

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._about)

    def __len__(self) -> int:
        return len(self._about)


async def entries_of(git: Git, tree: str) -> TreeEntries:
    """Every file of a tree. Raises GitError."""
    listed = await git.run("ls-tree", "-r", "-z", tree)
    return await asyncio.to_thread(TreeEntries, listed.out)


async def entries_at(git: Git, tree: str, paths: Collection[bytes]) -> dict[bytes, Entry]:
    """Those of these paths that are files of a tree. Raises GitError."""
    entries = dict[bytes, Entry]()
    for names in in_arguments(paths):
        listed = await git.run("ls-tree", "-z", tree, "--", *names)
        found = TreeEntries(listed.out)
        entries |= {path: found[path] for path in paths if path in found and found[path].mode != _FOLDER}
    return entries


def in_arguments(paths: Collection[bytes]) -> Iterator[list[str]]:
    """The paths as arguments of git, so many as one command line takes."""
    names = [os.fsdecode(path) for path in paths]
    for at in range(0, len(names), _AT_ONCE):
        yield names[at : at + _AT_ONCE]


async def changes_between(
    git: Git, pairs: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], dict[bytes, Change]]:
    """The files in which the two trees of each pair differ. A pair of which git lacks a tree is left out."""
    wanted = [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]
    there = await existing(git, [tree for pair in wanted for tree in pair])
    wanted = [pair for pair in wanted if there.issuperset(pair)]
    if not wanted:
        return {}
    asked = "".join(f"{before} {after}\n" for before, after in wanted).encode()
    raw = await git.run("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", stdin=asked)
    return {pair: {} for pair in wanted} | await asyncio.to_thread(_sections, raw.out)


def _sections(data: bytes) -> dict[tuple[str, str], dict[bytes, Change]]:
    """`git diff-tree --stdin -z --raw`: before the records of a pair stands `TREE TREE` and a line end."""
    sections: dict[tuple[str, str], dict[bytes, Change]] = {}
    section: dict[bytes, Change] = {}
    fields = iter(data.split(b"\0"))
    for field in fields:
        head = field
        while head and not head.startswith(b":"):
            names, _, head = head.partition(b"\n")
            before, after = names.decode("ascii").split(" ")
            section = sections.setdefault((before, after), {})
        if head:
            (record,) = parse_raw(head + b"\0" + next(fields))
            section[record.path] = _entry(record.old_mode, record.old), _entry(record.new_mode, record.new)
    return sections


def _entry(mode: str, oid: str) -> Entry | None:
    return None if mode == _NO_MODE else Entry(mode, oid)


async def existing(git: Git, oids: Iterable[str]) -> set[str]:
    """Those of these objects that git has."""
    return set(await _sizes(git, oids))


async def _sizes(git: Git, oids: Iterable[str]) -> dict[str, int]:
    asked = "".join(f"{oid}\n" for oid in dict.fromkeys(oids)).encode()
    if not asked:
        return {}
    said = (await git.run("cat-file", "--batch-check", stdin=asked)).out.decode("ascii", "replace")
    rows = [line.split(" ") for line in said.splitlines()]
    return {row[0]: int(row[2]) for row in rows if len(row) == 3}


async def blobs_of(git: Git, oids: Iterable[str]) -> dict[str, bytes]:
    """The contents of these blobs; one that is not there, or has more than `MOST_BLOB` bytes, is left out."""
    sizes = await _sizes(git, oids)
    fit, total = list[str](), 0
    for oid, size in sizes.items():
        if size <= MOST_BLOB and total + size <= MOST_BLOBS // 2:
            fit.append(oid)
            total += size
    return await git.blobs(fit, most=MOST_BLOBS)


async def write_blobs(git: Git, contents: Sequence[bytes], folder: Path) -> list[str]:
    """Write these contents as blobs, byte for byte; their ids, in that order. `folder`: an empty one, for files that
    are in passing. Raises GitError, OSError."""
    if not contents:
        return []

    def put() -> list[Path]:
        paths = []
        for number, content in enumerate(contents):
            path = folder / str(number)
            path.write_bytes(content)
            paths.append(path)
        return paths

    paths = await asyncio.to_thread(put)
    asked = "".join(f"{path}\n" for path in paths).encode()
    done = await git.run("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=asked)
    return done.text.split("\n")


async def tree_with(git: Git, tree: str, changes: Mapping[bytes, Entry | None], index: Path) -> str:
    """The tree that has these files (None: not there) and is like `tree` in all others. `index`: a private one,
    which need not exist. Raises GitError."""
    wanted = {path: None if entry is None else (entry.mode, entry.oid) for path, entry in changes.items()}
    try:
        return await write_folders(await read_folders(git, tree, changes), git, wanted)
    except UnusualPaths:
        return await tree_by_index(git, tree, changes, index)


async def tree_by_index(git: Git, tree: str, changes: Mapping[bytes, Entry | None], index: Path) -> str:
    """As `tree_with`, by an index of all files: slow where they are many. Raises GitError."""
    own = replace(git, env={**git.env, "GIT_INDEX_FILE": str(index)})
    await own.run("read-tree", tree)
    await own.run("update-index", "-z", "--index-info", stdin=index_lines(changes, len(tree)))
    return await own.line("write-tree")


def index_lines(entries: Mapping[bytes, Entry | None], width: int) -> bytes:
    """The input of `git update-index -z --index-info` (None: not there); `width`: digits of an id. What goes comes
    first, so that a file can stand where a folder was."""
    lines = [b"0 " + b"0" * width + b"\t" + path for path, entry in entries.items() if entry is None]
    lines += [
        f"{entry.mode} {entry.oid}\t".encode() + path for path, entry in entries.items() if entry is not None
    ]
    return b"".join(line + b"\0" for line in lines)

"""A tree with a few of its files changed, written by its touched folders alone.

Invariants:
- the id is the one that git gives to the same files by an index (`read-tree`, `update-index`, `write-tree`), which it
  takes of all files: here the work is that of the folders on the way to the changed ones;
- git writes the trees and names them; what it names otherwise than was computed here is an error;
- what cannot be done in this way raises `UnusualPaths`, and nothing but objects was written.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from relay.git.run import Git, GitError, name_of

#: Bytes of the listings of the folders that are read.
MOST_LISTED = 256 * 1_048_576
_FOLDER, _SUBMODULE = "40000", "160000"
_KINDS = {_FOLDER: "tree", _SUBMODULE: "commit"}

#: git's mode and object of what stands at a path.
ModeAndOid = tuple[str, str]
#: What stands in one folder, by name.
Listing = dict[bytes, ModeAndOid]


class UnusualPaths(Exception):
    """These paths are not settled folder by folder: one is behind a submodule, or a name cannot be asked about."""


@dataclass(slots=True)
class TouchedFolders:
    """What stands in the folders on the way to some paths, by folder (b"" = the top). A folder that the tree does not
    have is not there."""

    tree: str
    listings: dict[bytes, Listing] = field(default_factory=dict)

    def find(self, path: bytes) -> ModeAndOid | None:
        """The file (link, submodule) at one of the paths; None: there is none, or a folder."""
        folder, _, name = path.rpartition(b"/")
        found = self.listings.get(folder, {}).get(name)
        return None if found is None or found[0] == _FOLDER else found


async def read_folders(git: Git, tree: str, paths: Collection[bytes]) -> TouchedFolders:
    """The folders of a tree on the way to these paths, read in one go. Raises GitError, UnusualPaths."""
    wanted = sorted({folder for path in paths for folder in _folders(path)})
    if any(b"\n" in folder for folder in wanted):
        raise UnusualPaths("a folder has a line end in its name")
    asked = b"".join(tree.encode() + b":" + folder + b"\n" for folder in wanted)
    answer = await git.run("cat-file", "--batch", stdin=asked, most=MOST_LISTED)
    return await asyncio.to_thread(_parse, tree, wanted, answer.out)


async def write_folders(folders: TouchedFolders, git: Git, changes: Mapping[bytes, ModeAndOid | None]) -> str:
    """The tree in which these files (None: not there) are changed; `folders` are those on the way to them. A file
    that comes where a folder was replaces it, and a folder a file. Raises GitError, UnusualPaths."""
    written, asked = await asyncio.to_thread(_build, folders, changes)
    if not asked:
        return folders.tree
    made = (await git.run("mktree", "--batch", "--missing", "-z", stdin=asked)).text.split("\n")
    if made != written:
        raise GitError("mktree", 0, f"it wrote {made[-1]} where {written[-1]} was wanted")
    return written[-1]


def _folders(path: bytes) -> Iterable[bytes]:
    """The folders that a path is in, the top first."""
    yield b""
    yield from (path[:at] for at, byte in enumerate(path) if byte == ord("/"))


def _parse(tree: str, wanted: Collection[bytes], batch: bytes) -> TouchedFolders:
    """`git cat-file --batch`: `ID TYPE SIZE\\n`, the content, a line end; or `NAME missing\\n`."""
    folders, at, width = TouchedFolders(tree), 0, len(tree) // 2
    for folder in wanted:
        end = batch.index(b"\n", at)
        about = batch[at:end].split(b" ")
        at = end + 1
        if about[-1] == b"missing" or len(about) != 3:
            # Its name may have blanks; what git has answers with three words, the last a number.
            if not batch[:end].endswith(b" missing"):
                raise UnusualPaths(f"git says of {name_of(folder)}: {name_of(batch[at:end])}")
            continue
        size = int(about[2])
        if about[1] == b"tree":
            folders.listings[folder] = _listing(batch[at : at + size], width)
        elif about[1] == b"commit":
            raise UnusualPaths(f"{name_of(folder)} is a submodule")
        at += size + 1
    _refuse_submodules(folders, wanted)
    return folders


def _refuse_submodules(folders: TouchedFolders, wanted: Iterable[bytes]) -> None:
    for folder in wanted:
        above, _, name = folder.rpartition(b"/")
        if folder and folders.listings.get(above, {}).get(name, ("",))[0] == _SUBMODULE:
            raise UnusualPaths(f"{name_of(folder)} is a submodule")


def _listing(content: bytes, width: int) -> Listing:
    """A tree object: `MODE NAME\\0` and the id's bytes, each."""
    listing: Listing = {}
    at = 0
    while at < len(content):
        blank, end = content.index(b" ", at), content.index(b"\0", at)
        mode = content[at:blank].decode("ascii")
        listing[content[blank + 1 : end]] = _usual(mode), content[end + 1 : end + 1 + width].hex()
        at = end + 1 + width
    return listing


def _usual(mode: str) -> str:
    """The mode as an index has it: an old tree may have others for files."""
    if mode in (_FOLDER, _SUBMODULE, "120000"):
        return mode
    return "100755" if int(mode, 8) & 0o100 else "100644"


def _build(folders: TouchedFolders, changes: Mapping[bytes, ModeAndOid | None]) -> tuple[list[str], bytes]:
    """The ids of the trees to be written, the deepest first and the whole last, and git's input for them."""
    put = {path for path, entry in changes.items() if entry is not None}
    if any(folder in put for path in put for folder in _folders(path)):
        raise UnusualPaths("a path is a file and a folder")
    listings = {folder: dict(listing) for folder, listing in folders.listings.items()}
    for path, entry in changes.items():
        folder, _, name = path.rpartition(b"/")
        if entry is not None:
            listings.setdefault(folder, {})[name] = entry
        elif (before := listings.get(folder, {}).get(name)) is not None and before[0] != _FOLDER:
            del listings[folder][name]
    touched = {folder for path in changes for folder in _folders(path) if folder}
    hash = hashlib.sha1 if len(folders.tree) == 40 else hashlib.sha256
    written: list[str] = []
    asked: list[bytes] = []
    for folder in (*sorted(touched, key=lambda folder: (-folder.count(b"/"), folder)), b""):
        listing = listings.get(folder, {})
        above, _, name = folder.rpartition(b"/")
        if folder in put:
            continue  # a file replaces the folder with all that was in it
        if not listing:
            if not folder:
                raise UnusualPaths("no file is left")
            if listings.get(above, {}).get(name, ("",))[0] == _FOLDER:
                del listings[above][name]
            continue
        ordered = sorted(listing.items(), key=_sort_key)
        content = b"".join(
            f"{mode} ".encode() + name + b"\0" + bytes.fromhex(oid) for name, (mode, oid) in ordered
        )
        oid = hash(f"tree {len(content)}\0".encode() + content).hexdigest()
        lines = [
            f"{mode} {_KINDS.get(mode, 'blob')} {oid}\t".encode() + name + b"\0"
            for name, (mode, oid) in ordered
        ]
        written.append(oid)
        asked.append(b"".join(lines))
        if folder:
            listings.setdefault(above, {})[name] = (_FOLDER, oid)
    # An empty line ends a tree.
    return written, b"\0".join(asked)


def _sort_key(item: tuple[bytes, ModeAndOid]) -> bytes:
    """git's order: a folder as if its name ended with a slash."""
    name, (mode, _) = item
    return name + b"/" if mode == _FOLDER else name

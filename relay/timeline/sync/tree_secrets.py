"""What in the files of snapshots looks like a secret, looked at before they leave the room.

Invariants:
- each blob that the other side has not got already is looked at once a push: what a branch that was pushed there has,
  and what stands in the packs of this room, has left before;
- bounded: blobs are read as a stream, and of one that is larger than two megabytes the first and the last. Binary
  files too, and text of two bytes a character;
- a tree is clean only when every such blob in it was read. What git cannot read is a GitError, never a clean tree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from relay.base.secret_text import secrets_in
from relay.git.diff import parse_raw
from relay.git.run import LONG_S, Git, name_of
from relay.timeline.sync.privacy import Sharing

#: Bytes of each end of a blob that are looked at.
MOST_END = 1_048_576
#: The newest packs whose trees are known to have left.
_MOST_PACKS = 200
#: Paths of one tree, and texts of one file, that are named.
_MOST_NAMED = 5


async def find_secrets(
    git: Git, trees: Sequence[str], ref: str, remote: str, sharing: Sharing, *, known: str = ""
) -> dict[str, dict[str, tuple[str, ...]]]:
    """The trees in which something looks like a secret, each with the paths (some of them, where there are many) and
    the digests of what was found there. `ref`: of this room's packs, "" = none; `remote`: where they go; `known`: how
    refs begin that it has too. Raises GitError."""
    without = "".join(f"^{tree}^{{tree}}\n" for tree in await _left_before(git, ref, remote, known))
    asked = ("rev-list", "--objects", "--missing=allow-any", "--no-object-names", "--stdin")
    stdin = ("".join(f"{tree}\n" for tree in trees) + without).encode()
    objects = (await git.run(*asked, stdin=stdin, timeout_s=LONG_S)).out
    if not objects:
        return {}
    ends = _BlobEnds(sharing)

    async def read(chunk: bytes) -> None:
        await asyncio.to_thread(ends.read, chunk)

    await git.run("cat-file", "--batch", "--buffer", stdin=objects, timeout_s=LONG_S, sink=read)
    return await _places(git, trees, ends.found) if ends.found else {}


async def _left_before(git: Git, ref: str, remote: str, known: str) -> list[str]:
    """Commits that the remote has, as far as this repository knows."""
    tips: list[str] = []
    if not {*remote} & {*"*?[\\"}:
        asked = (
            "for-each-ref",
            "--format=%(objectname)",
            f"refs/remotes/{remote}/",
            *([known] if known else []),
        )
        tips = (await git.line(*asked)).split()
    asked = ("rev-list", "--first-parent", f"--max-count={_MOST_PACKS}", ref, "--")
    packs = await git.maybe(*asked) if ref else ""
    return [*dict.fromkeys(tips), *(packs or "").split()]


async def _places(
    git: Git, trees: Sequence[str], blobs: Mapping[str, tuple[str, ...]]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Of the trees that have one of these blobs, at which paths: each tree is compared with the one before."""
    empty = await git.line("hash-object", "-t", "tree", "--stdin")
    pairs = "".join(f"{old} {new}\n" for old, new in zip([empty, *trees], trees, strict=False))
    listed = await git.run(
        "diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", stdin=pairs.encode(), timeout_s=LONG_S
    )
    standing: dict[bytes, tuple[str, ...]] = {}
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    heads = [f"{pair}\n".encode() for pair in pairs.splitlines()]
    for tree, about in zip(trees, _by_pair(listed.out, heads), strict=True):
        for record in parse_raw(about):
            if record.new in blobs:
                standing[record.path] = blobs[record.new]
            else:
                standing.pop(record.path, None)
        if standing:
            found[tree] = {name_of(path): standing[path] for path in sorted(standing)[:_MOST_NAMED]}
    return found


def _by_pair(data: bytes, heads: Iterable[bytes]) -> list[bytes]:
    """What `diff-tree --stdin -z` says of each pair. Each begins with its line, in the order that they were asked in;
    no path begins a record, so the line is found at a record's beginning only."""
    parts, at = [], 0
    for number, head in enumerate(heads):
        start = data.index(head, at)
        if number:
            parts.append(data[at:start])
        at = start + len(head)
    return [*parts, data[at:]]


@dataclass(slots=True)
class _BlobEnds:
    """Reads `git cat-file --batch` in any pieces. `found`: the blobs in whose ends something looks like a secret,
    with the digests of that (some, where there are many)."""

    sharing: Sharing
    found: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _head: bytearray = field(default_factory=bytearray)
    _id: str = ""
    _left: int = -1
    _is_blob: bool = False
    _first: bytearray = field(default_factory=bytearray)
    _last: bytearray = field(default_factory=bytearray)

    def read(self, chunk: bytes) -> None:
        view, at = memoryview(chunk), 0
        while at < len(chunk):
            if self._left < 0:
                end = chunk.find(b"\n", at)
                self._head += chunk[at : end if end >= 0 else len(chunk)]
                if end < 0:
                    return
                at = end + 1
                self._begin()
                continue
            part = view[at : at + self._left]
            self._take(part)
            at, self._left = at + len(part), self._left - len(part)
            if not self._left and at < len(chunk):
                at, self._left = at + 1, -1  # the line end behind the content
                self._end()

    def _begin(self) -> None:
        """`ID TYPE SIZE`, or `ID missing`."""
        words = self._head.decode("ascii").split(" ")
        self._head.clear()
        if len(words) == 3:
            self._id, self._is_blob, self._left = words[0], words[1] == "blob", int(words[2])

    def _take(self, part: memoryview) -> None:
        if not self._is_blob:
            return
        free = MOST_END - len(self._first)
        self._first += part[:free]
        self._last += part[max(0, free) :]
        if len(self._last) > 2 * MOST_END:
            del self._last[:-MOST_END]

    def _end(self) -> None:
        last = self._last[-MOST_END:]
        # Where nothing was left out between them, a secret may stand across.
        ends = [self._first + last] if len(self._last) <= MOST_END else [self._first, last]
        for data in ends if self._is_blob else ():
            text = data.decode("ascii", "replace")
            for read in (text, text.replace("\0", "")) if "\0" in text else (text,):
                looks = secrets_in(read, self.sharing.secrets, self.sharing.not_secret)
                if digests := tuple(islice(looks, _MOST_NAMED)):
                    before = self.found.get(self._id, ())
                    self.found[self._id] = tuple(dict.fromkeys([*before, *digests]))
        self._first.clear()
        self._last.clear()

"""A merge that has begun in a checkout and is not committed: what it conflicts in, and what of that is not settled.

Invariants: read from git and the disk alone, so a daemon that starts finds it as it was left; git in the checkout is
only asked for names and objects, so nothing of its configuration runs. A merge that relay began is named by the ref
`MERGE`, a commit whose tree is what relay put into the files and whose message lists the conflicts.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from relay.airspace.checkout import Checkout
from relay.airspace.git import name_of

#: Of one worktree only, as all of `refs/worktree/` is. `WRITTEN` names the same commit once its files and the index
#: are written: from then on they are the agent's.
MERGE, WRITTEN = "refs/worktree/relay/merge", "refs/worktree/relay/written"
#: A file beyond this many bytes is not looked through for markers.
MOST_BYTES = 50 * 1_048_576
#: A marker of git's; the attribute `conflict-marker-size` makes them longer.
_MARKER = re.compile(rb"^(?:<{7,}|\|{7,}|>{7,})(?: .*)?$|^={7,}$")
_FIRST, _LAST = b"<", b">"
#: How a line with one begins.
MARKERS = frozenset(char * 7 for char in (b"<", b"|", b"=", b">"))
#: Of one file: its path, and the first and last line of each place that is not settled; no line for what has none.
Lines = tuple[tuple[int, int], ...]
Open = tuple[str, Lines]


@dataclass(frozen=True, slots=True)
class Stage:
    """An entry of the index for one side of a conflict: 1 the base, 2 the branch's own, 3 what is merged in."""

    mode: str
    oid: str
    number: int
    path: bytes


@dataclass(frozen=True, slots=True)
class Begun:
    """A merge that relay began: `commit` holds the files as relay left them. `marked`: the files with markers."""

    commit: str
    head: str
    other: str
    into: str
    stages: tuple[Stage, ...]
    marked: frozenset[bytes]

    @property
    def paths(self) -> list[bytes]:
        return list(dict.fromkeys(one.path for one in self.stages))


def told(into: str, stages: Iterable[Stage], marked: Iterable[bytes]) -> str:
    """The message of the commit that `begun` reads. Pure."""
    listed = [[one.mode, one.oid, one.number, os.fsdecode(one.path)] for one in stages]
    kept = {"into": into, "stages": listed, "marked": sorted(os.fsdecode(one) for one in marked)}
    return f"A merge that relay began\n\n{json.dumps(kept)}\n"


async def begun(checkout: Checkout) -> Begun | None:
    """The merge that relay began here, whether it is still under way or not."""
    said = await checkout.git.maybe("log", "-1", "--no-walk", "--format=%H %P%n%b", MERGE, "--")
    if said is None:
        return None
    first, _, body = said.partition("\n")
    commit, head, other = first.split()
    kept = json.loads(body)
    stages = (Stage(mode, oid, at, os.fsencode(path)) for mode, oid, at, path in kept["stages"])
    return Begun(
        commit,
        head,
        other,
        kept["into"],
        tuple(stages),
        frozenset(os.fsencode(one) for one in kept["marked"]),
    )


async def merging(checkout: Checkout) -> tuple[str, ...]:
    """The commits that are being merged in (MERGE_HEAD); none when nothing is."""

    def read() -> tuple[str, ...]:
        try:
            return tuple((checkout.git_dir / "MERGE_HEAD").read_text().split())
        except FileNotFoundError:
            return ()

    return await asyncio.to_thread(read)


async def unmerged(checkout: Checkout) -> list[Stage]:
    """The conflicts of the checkout's own index."""
    said = await checkout.git.run("ls-files", "-z", "--unmerged")
    return [stage_of(entry) for entry in said.out.split(b"\0") if entry]


def stage_of(entry: bytes) -> Stage:
    """`MODE OID STAGE\\tPATH`, as git lists the conflicts of a merge."""
    about, _, path = entry.partition(b"\t")
    mode, oid, number = about.decode().split(" ")
    return Stage(mode, oid, int(number), path)


async def unsettled(checkout: Checkout) -> tuple[Open, ...]:
    """The files in conflict that are not settled, of a merge that is under way.

    A file with markers is settled when none is left, or the file is gone. One that git puts no markers in (binary,
    say) is settled when it is another, is gone, or was added to the index.
    """
    ours, still = await begun(checkout), await unmerged(checkout)
    if ours is not None and (ours.other,) != await merging(checkout):
        ours = None
    stages = ours.stages if ours is not None else still
    waiting = {one.path for one in still}
    found: list[Open] = []
    for path in dict.fromkeys(one.path for one in stages):
        of_path = [one for one in stages if one.path == path]
        data = await asyncio.to_thread(_read, checkout, path)
        if ours is not None and data is None:
            continue
        lines = () if not data or is_binary(data) else marked_lines(data)
        if lines:
            lines = await _without_own(checkout, data or b"", of_path)
        if lines:
            found.append((name_of(path), lines))
        elif path in waiting and (
            ours is None or (path not in ours.marked and _as_left(checkout, data, of_path))
        ):
            found.append((name_of(path), ()))
    return tuple(found)


def is_binary(data: bytes) -> bool:
    """By git's own rule: a zero byte near the beginning."""
    return b"\0" in data[:8000]


def marked_lines(data: bytes, known: frozenset[bytes] = frozenset()) -> Lines:
    """First and last line of each conflict whose markers stand in `data`, but for lines that are `known`. Pure."""
    lines = enumerate((whole.rstrip(b"\r") for whole in data.split(b"\n")), 1)
    return _joined((number, line) for number, line in lines if _MARKER.match(line) and line not in known)


def added_markers(added: Iterable[tuple[int, bytes]]) -> Lines:
    """As `marked_lines`, of the lines (number, text) that somebody has added to a file. None without a line that
    begins or ends a conflict: seven equals signs may underline a heading. Pure."""
    found = [(number, line) for number, whole in added if _MARKER.match(line := whole.rstrip(b"\r\n"))]
    return _joined(found) if any(line.startswith((_FIRST, _LAST)) for _, line in found) else ()


def located(path: str, lines: Lines) -> str:
    """A file with its lines: "src/cart.py (lines 3-9, 14)"."""
    told = ", ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in lines)
    return f"{path} (line{'s' * (not told.isdecimal())} {told})" if told else path


def _joined(markers: Iterable[tuple[int, bytes]]) -> Lines:
    found: list[tuple[int, int]] = []
    open_ = False
    for number, line in markers:
        if open_ and not line.startswith(_FIRST):
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
        open_ = not line.startswith(_LAST)
    return tuple(found)


async def _without_own(checkout: Checkout, data: bytes, stages: Iterable[Stage]) -> Lines:
    """As `marked_lines`, but for lines that one of the two sides had before they met."""
    own: set[bytes] = set()
    for one in stages:
        if one.number in (2, 3) and one.mode.startswith("100"):
            side = (await checkout.git.run("cat-file", "blob", one.oid)).out
            own |= {line.rstrip(b"\r") for line in side.split(b"\n")}
    return marked_lines(data, frozenset(own))


def _read(checkout: Checkout, path: bytes) -> bytes | None:
    """None: there is no such file. Empty for what is not to be looked through."""
    at = checkout.top / os.fsdecode(path)
    with suppress(FileNotFoundError, NotADirectoryError):
        seen = at.lstat()
        return at.read_bytes() if at.is_file() and not at.is_symlink() and seen.st_size <= MOST_BYTES else b""
    return None


def _as_left(checkout: Checkout, data: bytes | None, stages: Iterable[Stage]) -> bool:
    """Is a file that git puts no markers in still the one that the merge left: the branch's own, else the other's?"""
    left = next((one for one in sorted(stages, key=lambda each: each.number) if one.number in (2, 3)), None)
    if left is None or data is None:
        return False
    same = (
        hashlib.new(checkout.hash, b"blob %d\0" % len(one) + one)
        for one in {data, data.replace(b"\r\n", b"\n")}
    )
    return not data or any(one.hexdigest() == left.oid for one in same)

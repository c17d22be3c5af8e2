"""A merge that has begun in a checkout and is not committed: what it conflicts in, and what of that is not settled.

Invariants: read from git and the disk alone, so a daemon that starts finds it as it was left; git in the checkout is
only asked for names and objects, so nothing of its configuration runs. A merge that relay began is named by the ref
`MERGE`, a commit whose tree is what relay put into the files and whose message lists the conflicts.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from relay.git.checkout import Checkout
from relay.git.run import Git, name_of

#: Paths that one command line names.
_AT_ONCE = 500
#: Of one worktree only, as all of `refs/worktree/` is. `WRITTEN` names the same commit once its files and the index
#: are written: from then on they are the agent's.
MERGE, WRITTEN = "refs/worktree/relay/merge", "refs/worktree/relay/written"
#: What git keeps in a git directory while something is under way there.
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}
#: A file beyond this many bytes is not looked through for markers.
MOST_BYTES = 50 * 1_048_576
#: A marker of git's; the attribute `conflict-marker-size` makes them longer.
_MARKER = re.compile(rb"^(?:<{7,}|\|{7,}|>{7,})(?: .*)?$|^={7,}$")
_SHAPE = re.compile(rb"^(?:<+|\|+|>+)(?: .*)?$|^=+$")
_FIRST, _MIDDLE, _LAST = b"<", b"=", b">"
#: How a line with one begins.
MARKERS = frozenset(char * 7 for char in (b"<", b"|", b"=", b">"))
#: Of one file: its path, and the first and last line of each place that is not settled; no line for what has none.
Lines = tuple[tuple[int, int], ...]
UnsettledFile = tuple[str, Lines]


@dataclass(frozen=True, slots=True)
class Stage:
    """An entry of the index for one side of a conflict: 1 the base, 2 the branch's own, 3 what is merged in."""

    mode: str
    oid: str
    number: int
    path: bytes


@dataclass(frozen=True, slots=True)
class StartedMerge:
    """A merge that relay began: `commit` holds the files as relay left them. `marked`: the files with markers."""

    commit: str
    head: str
    other: str
    into: str
    stages: tuple[Stage, ...]
    marked: frozenset[bytes]

    @property
    def paths(self) -> list[bytes]:
        return list(dict.fromkeys(stage.path for stage in self.stages))


def started_merge_message(into: str, stages: Iterable[Stage], marked: Iterable[bytes]) -> str:
    """The message of the commit that `started_merge` reads. Pure."""
    listed = [[stage.mode, stage.oid, stage.number, os.fsdecode(stage.path)] for stage in stages]
    record = {"into": into, "stages": listed, "marked": sorted(os.fsdecode(path) for path in marked)}
    return f"A merge that relay began\n\n{json.dumps(record)}\n"


async def started_merge(checkout: Checkout) -> StartedMerge | None:
    """The merge that relay began here, whether it is still under way or not."""
    shown = await checkout.git.maybe("log", "-1", "--no-walk", "--format=%H %P%n%b", MERGE, "--")
    if shown is None:
        return None
    first, _, body = shown.partition("\n")
    commit, head, other = first.split()
    record = json.loads(body)
    stages = tuple(Stage(mode, oid, at, os.fsencode(path)) for mode, oid, at, path in record["stages"])
    marked = frozenset(os.fsencode(path) for path in record["marked"])
    return StartedMerge(commit, head, other, record["into"], stages, marked)


async def merge_heads(checkout: Checkout) -> tuple[str, ...]:
    """The commits that are being merged in (MERGE_HEAD); none when nothing is."""

    def read() -> tuple[str, ...]:
        try:
            return tuple((checkout.git_dir / "MERGE_HEAD").read_text().split())
        except FileNotFoundError:
            return ()

    return await asyncio.to_thread(read)


async def operation_under_way(checkout: Checkout) -> str:
    """What has begun in a checkout and not ended, in words; empty for nothing."""
    there = await asyncio.to_thread(
        lambda: [words for name, words in _UNDER_WAY.items() if (checkout.git_dir / name).exists()]
    )
    return there[0] if there else ""


async def unmerged_stages(checkout: Checkout) -> list[Stage]:
    """The conflicts of the checkout's own index."""
    done = await checkout.git.run("ls-files", "-z", "--unmerged")
    return [stage_of(entry) for entry in done.out.split(b"\0") if entry]


def stage_of(entry: bytes) -> Stage:
    """`MODE OID STAGE\\tPATH`, as git lists the conflicts of a merge."""
    about, _, path = entry.partition(b"\t")
    mode, oid, number = about.decode().split(" ")
    return Stage(mode, oid, int(number), path)


async def unsettled_files(checkout: Checkout, git: Git, tree: str) -> tuple[UnsettledFile, ...]:
    """The files in conflict that are not settled, of a merge that is under way; `tree` is what stands in the
    checkout, as git stores it (`git` knows it).

    A file with markers is settled when none is left, or the file is gone. One that git puts no markers in (binary,
    say) is settled when it is another, is gone, or was added to the index. Nothing is before relay has written all.
    """
    ours, still = await started_merge(checkout), await unmerged_stages(checkout)
    if ours is not None and (ours.other,) != await merge_heads(checkout):
        ours = None
    stages = ours.stages if ours is not None else still
    if ours is not None and await checkout.git.maybe("rev-parse", "-q", "--verify", WRITTEN) != ours.commit:
        return tuple((name_of(path), ()) for path in ours.paths)
    waiting, paths = {stage.path for stage in still}, list(dict.fromkeys(stage.path for stage in stages))
    now = await _blobs(git, tree, paths)
    before = await _blobs(git, ours.commit, paths) if ours is not None else {}
    unsettled: list[UnsettledFile] = []
    for path in paths:
        oid, left = now.get(path), before.get(path)
        if ours is not None and oid is None:
            continue
        lines: Lines = ()
        if oid is not None and (ours is None or path in ours.marked):
            of_path = [stage for stage in stages if stage.path == path]
            texts = await _texts(git, [oid, *(stage.oid for stage in of_path)])
            own = frozenset(line for stage in of_path if stage.number != 1 for line in texts[stage.oid])
            lines = unsettled_lines(texts[oid], own, await marker_lines(git, left, of_path) if left else own)
        if lines:
            unsettled.append((name_of(path), lines))
        elif path in waiting and (ours is None or (path not in ours.marked and oid == left)):
            unsettled.append((name_of(path), ()))
    return tuple(unsettled)


def is_binary(data: bytes) -> bool:
    """By git's own rule: a zero byte near the beginning."""
    return b"\0" in data[:8000]


async def marker_lines(git: Git, oid: str, stages: Iterable[Stage]) -> frozenset[bytes]:
    """The lines of a merged file with git's markers; they have any length (`conflict-marker-size`)."""
    sides = [stage.oid for stage in stages]
    texts = await _texts(git, [oid, *sides])
    known = {line for side in sides for line in texts[side]}
    return frozenset(line for line in texts[oid] if _SHAPE.match(line) and line not in known)


def unsettled_lines(lines: Sequence[bytes], own: Container[bytes], put: Container[bytes]) -> Lines:
    """First and last line of each conflict that is left in a file. `own`: lines that a side had before they met;
    `put`: as `marker_lines`. Seven equals signs below one line of seven signs underline a heading. Pure."""

    def is_left(at: int, line: bytes) -> bool:
        if line in own:
            return False
        if not line.startswith(_MIDDLE):
            return line in put or _MARKER.match(line) is not None
        heading = at > 0 and len(lines[at - 1]) == len(line) and (at == 1 or not lines[at - 2])
        return (line in put or line == _MIDDLE * 7) and not heading

    return _joined((at + 1, line) for at, line in enumerate(lines) if is_left(at, line))


def added_markers(added: Iterable[tuple[int, bytes]]) -> Lines:
    """As `unsettled_lines`, of the lines (number, text) that somebody has added to a file. None without a line that
    begins or ends a conflict: seven equals signs may underline a heading. Pure."""
    markers = [(number, line) for number, whole in added if _MARKER.match(line := whole.rstrip(b"\r\n"))]
    return _joined(markers) if any(line.startswith((_FIRST, _LAST)) for _, line in markers) else ()


def line_ranges(lines: Iterable[tuple[int, int]]) -> str:
    """Lines as text: "lines 3-9, 14", or "line 14"; empty for none."""
    ranges = ", ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in lines)
    return f"line{'s' * (not ranges.isdecimal())} {ranges}" if ranges else ""


def located(path: str, lines: Lines) -> str:
    """A file with its lines: "src/cart.py (lines 3-9, 14)"."""
    return f"{path} ({line_ranges(lines)})" if lines else path


def _joined(markers: Iterable[tuple[int, bytes]]) -> Lines:
    ranges: list[tuple[int, int]] = []
    open_ = False
    for number, line in markers:
        if open_ and not line.startswith(_FIRST):
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
        open_ = not line.startswith(_LAST)
    return tuple(ranges)


async def _blobs(git: Git, tree: str, paths: Sequence[bytes]) -> dict[bytes, str]:
    """The objects of those of these paths that are files or links in a tree."""
    oids: dict[bytes, str] = {}
    for at in range(0, len(paths), _AT_ONCE):
        names = [name_of(path) for path in paths[at : at + _AT_ONCE]]
        for entry in (await git.run("ls-tree", "-z", tree, "--", *names)).out.split(b"\0"):
            about, _, path = entry.partition(b"\t")
            if b" blob " in about:
                oids[path] = about.split()[2].decode()
    return oids


async def _texts(git: Git, oids: Iterable[str]) -> dict[str, list[bytes]]:
    """The lines of each of these objects; none of a binary one, nor of one that is not there. Raises GitError."""
    wanted = list(dict.fromkeys(oids))
    blobs = await git.blobs(wanted, most=len(wanted) * 2 * MOST_BYTES)
    texts = {oid: blobs.get(oid, b"") for oid in wanted}
    return {
        oid: [] if is_binary(text) else [line.rstrip(b"\r") for line in text.split(b"\n")]
        for oid, text in texts.items()
    }

"""Three-way merges of texts by lines, many at a time.

Invariants: a merged text has every change of both sides, or there is none. Changes that only touch (one ends
where the other begins) are both taken, because undoing lines must not take the neighbours' along; git's own merge
would call them a conflict. Changes that overlap are a conflict unless they are equal or both only delete; so are two
insertions at one place. The differences are git's (histogram), and a missing line end at the end of a file is merged
apart from its last line.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from relay.git.diff import Hunks, parse_patch
from relay.git.merge_state import is_binary
from relay.git.run import Git

#: As git's merge compares: with the slides of its plain diff.
_DIFF = (
    "diff",
    "--no-index",
    "-U0",
    "--inter-hunk-context=0",
    "--full-index",
    "--text",
    "--diff-algorithm=histogram",
    "--no-indent-heuristic",
    "--no-renames",
    "--no-prefix",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
)


@dataclass(frozen=True, slots=True)
class Versions:
    """The three texts of a merge, as bytes."""

    base: bytes
    ours: bytes
    theirs: bytes


@dataclass(frozen=True, slots=True)
class _Edit:
    """Lines `start` to `end` (0-based, `end` excluded) of the base become `lines`."""

    start: int
    end: int
    lines: tuple[bytes, ...]

    @property
    def key(self) -> tuple[int, int]:
        return self.start, self.end


async def merge_texts(git: Git, texts: Sequence[Versions], folder: Path) -> list[bytes | None]:
    """Each merged text; None for a conflict, and for a text that is binary. `folder`: an empty one, for files that
    are in passing; `git` runs in a git directory of relay's own. Raises GitError, OSError."""
    if not texts:
        return []
    await asyncio.to_thread(_write, texts, folder)
    # With these files as all there is, so that no attribute or setting of a checkout changes how they are read.
    alone = Git(folder, {**git.env, "GIT_WORK_TREE": str(folder)}, ("core.bare=false", "core.autocrlf=false"))
    done = await alone.run(*_DIFF, "base", "side", ok=(0, 1))
    return await asyncio.to_thread(lambda: _merge_all(texts, parse_patch(done.out)))


def _write(texts: Sequence[Versions], folder: Path) -> None:
    """Put the texts where one call compares them all."""
    for name in ("base", "side"):
        (folder / name).mkdir(parents=True)
    for number, text in enumerate(texts):
        for side, content in (("ours", text.ours), ("theirs", text.theirs)):
            (folder / "base" / f"{number}-{side}").write_bytes(_ended(text.base))
            (folder / "side" / f"{number}-{side}").write_bytes(_ended(content))


def _ended(text: bytes) -> bytes:
    """The text with a line end behind its last line."""
    return text + b"\n" if text and not text.endswith(b"\n") else text


def _merge_all(texts: Sequence[Versions], patch: Mapping[tuple[str, str], Hunks]) -> list[bytes | None]:
    # The ids in the patch are of the kind that the git directory has.
    kind = "sha256" if any(len(pair[0]) == 64 for pair in patch) else "sha1"
    return [_merged(text, patch, kind) for text in texts]


def _merged(text: Versions, patch: Mapping[tuple[str, str], Hunks], kind: str) -> bytes | None:
    if any(is_binary(side) for side in (text.base, text.ours, text.theirs)):
        return None
    base = _ended(text.base)
    edits = []
    for side in (_ended(text.ours), _ended(text.theirs)):
        pair = blob_id(base, kind), blob_id(side, kind)
        edits.append(_edits(side, patch[pair]) if pair[0] != pair[1] else [])
    lines = merged_lines(_lines(base), *edits)
    return None if lines is None else _end_as(b"".join(lines), text)


def blob_id(content: bytes, kind: str) -> str:
    """The id that git gives a blob; `kind`: sha1 or sha256."""
    return hashlib.new(kind, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _lines(text: bytes) -> list[bytes]:
    """The lines with their ends, as git counts them."""
    return [line + b"\n" for line in text.split(b"\n")[:-1]]


def _edits(side: bytes, hunks: Hunks) -> list[_Edit]:
    """The hunks between the base and a side, with the side's lines."""
    lines, moved, edits = _lines(side), 0, []
    for span in hunks.spans:
        start, end, count = span.start - 1, span.end, span.new_count or 0
        edits.append(_Edit(start, end, tuple(lines[start + moved : start + moved + count])))
        moved += count - (end - start)
    return edits


def merged_lines(base: Sequence[bytes], ours: Sequence[_Edit], theirs: Sequence[_Edit]) -> list[bytes] | None:
    """The base with the edits of both; None where they conflict. Pure."""
    edits = sorted({*ours, *theirs}, key=lambda edit: edit.key)
    merged: list[bytes] = []
    at, before = 0, None
    for edit in edits:
        if before is not None and _conflict(before, edit):
            return None
        merged += base[at : max(at, edit.start)]
        merged += edit.lines
        at = max(at, edit.end)
        if before is None or edit.end >= before.end:
            before = edit
    return merged + list(base[at:])


def _conflict(first: _Edit, second: _Edit) -> bool:
    """Do two edits, of which `first` begins no later, change the same lines or the same place differently?"""
    if first.start == first.end and second.start == second.end:
        return first.start == second.start
    if second.start >= first.end or first.start == first.end:
        return False
    return bool(first.lines or second.lines)


def _end_as(merged: bytes, text: Versions) -> bytes:
    """The merged text without a line end behind its last line, where that line is the last of a side without one."""
    base, ours = (not side or side.endswith(b"\n") for side in (text.base, text.ours))
    side = text.theirs if ours == base and text.theirs else text.ours
    last = side.rpartition(b"\n")[2]
    ends_so = bool(last) and (merged == last + b"\n" or merged.endswith(b"\n" + last + b"\n"))
    return merged[:-1] if ends_so else merged

"""The lines that a role added: the text files that differ between two trees, and which of their lines are new.

Invariant: a line counts as added by git's own difference of the two trees; a renamed file's old lines are not new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from relay.git.diff import Differ, Record, changed_files
from relay.git.run import Git, name_of
from relay.model.working_set import Change, Span

#: Bytes of one file, and of all, that are read.
MOST_BLOB = 4 * 1_048_576
MOST_TEXT = 128 * 1_048_576
_REGULAR = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A text file with new lines. `before`: its old text, None = it is new; `lines`: the numbers of the new lines in
    `after`, from 1."""

    path: str
    before: bytes | None
    after: bytes
    lines: frozenset[int]


@dataclass(frozen=True, slots=True)
class Additions:
    """`unread`: files with new lines that are too large to be read."""

    files: tuple[AddedFile, ...]
    unread: tuple[str, ...] = ()


async def added_files(git: Git, base: str, tree: str) -> Additions:
    """What was added between two trees. Raises GitError."""
    records = [
        record
        for record in await changed_files(git, base, tree)
        if record.change is not Change.DELETED and record.new_mode in _REGULAR and record.old != record.new
    ]
    hunks = await Differ().hunks(git, base, tree, records)
    texts = [record for record in records if not hunks[record.old, record.new].binary]
    fit = await _fit(git, [id for record in texts for id in (record.new, _before(record)) if id])
    blobs = await git.blobs(fit, most=2 * MOST_TEXT)
    files, unread = list[AddedFile](), list[str]()
    for record in texts:
        path, lines = name_of(record.last_path), new_lines(hunks[record.old, record.new].spans)
        if not lines:
            continue
        before, after = _before(record), blobs.get(record.new)
        if after is None or (before is not None and before not in blobs):
            unread.append(path)
        elif b"\0" not in after[:8192]:
            files.append(AddedFile(path, blobs[before] if before else None, after, lines))
    return Additions(tuple(files), tuple(unread))


def _before(record: Record) -> str | None:
    return record.old if record.old.strip("0") and record.old_mode in _REGULAR else None


def new_lines(spans: Iterable[Span]) -> frozenset[int]:
    """The numbers of the new lines, in the new file, from spans in the old one's."""
    lines: set[int] = set()
    shift = 0
    for span in sorted(spans, key=lambda span: span.start):
        count = span.new_count or 0
        lines.update(range(span.start + shift, span.start + shift + count))
        shift += count - (span.end - span.start + 1)
    return frozenset(lines)


async def _fit(git: Git, ids: Iterable[str]) -> list[str]:
    """Those of these blobs that are within the bounds."""
    asked = "".join(f"{id}\n" for id in dict.fromkeys(ids)).encode()
    if not asked:
        return []
    sizes: Mapping[str, int] = {
        id: int(size[0])
        for id, kind, *size in (
            line.split(" ")
            for line in (await git.run("cat-file", "--batch-check", stdin=asked)).out.decode().splitlines()
        )
        if kind == "blob"
    }
    fit, total = list[str](), 0
    for id, size in sizes.items():
        if size <= MOST_BLOB and total + size <= MOST_TEXT:
            fit.append(id)
            total += size
    return fit

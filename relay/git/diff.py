"""From two trees to what was touched: files, line ranges in the coordinates of the base, checksums.

Invariant: what git prints is read by its own counts, never by guessing at a line's beginning: a changed line
that looks like a header is a changed line. A pair of blobs that was compared once is not compared again.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from relay.git.checkout import Checkout
from relay.git.merge_state import MARKERS, Lines, UnsettledFile, added_markers
from relay.git.run import Git, GitError, name_of
from relay.git.scratch_repository import ScratchRepository
from relay.model.touches import Kind, Touch
from relay.model.working_set import Change, FileTouch, Span

#: The lines that the definitions of a file span, from its path and its text: (first, last), 1-based. Called in a
#: thread.
Outline = Callable[[str, bytes], Sequence[tuple[int, int]]]

_PATCH = (
    "diff-tree",
    "-r",
    "-p",
    "-U0",
    "-M",
    "--full-index",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-prefix",
)
_INDEX = re.compile(rb"^index ([0-9a-f]{40,64})\.\.([0-9a-f]{40,64})")
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
#: Pairs of blobs that are remembered.
REMEMBERED = 50_000
#: Bytes of base text that are read to count lines and find definitions, in one call.
MOST_TEXT = 256 * 1_048_576
#: A base text beyond this many bytes is not read: its length stays unknown.
MOST_BLOB = 4 * 1_048_576
#: Commits of the mainline that say how often a path changes.
CHURN_OF = 100
#: Paths that one command line may name.
MOST_NAMED = 500


@dataclass(frozen=True, slots=True)
class Record:
    """One file that differs. `old` and `new` are blob ids, all zeros where there is none; a rename has
    `new_path`."""

    letter: str
    path: bytes
    new_path: bytes | None
    old_mode: str
    new_mode: str
    old: str
    new: str

    @property
    def change(self) -> Change:
        # A change of type (T) is a change of the file.
        return Change(self.letter) if self.letter in "AMDR" else Change.MODIFIED

    @property
    def last_path(self) -> bytes:
        """Where the file is now, or was last."""
        return self.new_path or self.path

    @property
    def is_submodule(self) -> bool:
        return "160000" in (self.old_mode, self.new_mode)


@dataclass(frozen=True, slots=True)
class Hunks:
    """What differs between two blobs. `length`: lines of the old one, None = unknown. `markers`: the lines of the new
    one in which conflict markers were added."""

    spans: tuple[Span, ...] = ()
    binary: bool = False
    insertions: int = 0
    deletions: int = 0
    length: int | None = None
    markers: Lines = ()


def parse_raw(data: bytes) -> list[Record]:
    """`git diff-tree -r -z --raw`: one Record a file."""
    fields = iter(data.split(b"\0"))
    records = []
    for head in fields:
        if not head.startswith(b":"):
            continue  # the empty end
        old_mode, new_mode, old, new, status = head[1:].decode("ascii").split(" ")
        path = next(fields)
        new_path = next(fields) if status[0] in "RC" else None
        letter = "A" if status[0] == "C" else status[0]
        if letter == "A" and new_path is not None:
            path, new_path, old = new_path, None, "0" * len(old)
        records.append(Record(letter, path, new_path, old_mode, new_mode, old, new))
    return records


def touches_of(records: Iterable[Record]) -> tuple[Touch, ...]:
    """What a difference of two trees says of each path, in their order. Of a submodule the commits, as of a file the
    blobs."""
    touches: list[Touch] = []
    for record in records:
        path, before, after = name_of(record.path), _blob(record.old), _blob(record.new)
        if record.change is Change.RENAMED and record.new_path is not None:
            touches.append(Touch(path, before, None, Kind.RENAME))
            touches.append(Touch(name_of(record.new_path), None, after, Kind.RENAME, origin=path))
        elif after is None:
            touches.append(Touch(path, before, None, Kind.DELETE))
        else:
            mode = before == after and record.old_mode != record.new_mode
            touches.append(Touch(path, before, after, Kind.MODE if mode else Kind.WRITE))
    return tuple(sorted(touches, key=lambda touch: touch.path))


def _blob(name: str) -> str | None:
    return name if name.strip("0") else None


def parse_patch(data: bytes) -> dict[tuple[str, str], Hunks]:
    """`git diff-tree -p -U0 --full-index`: what each pair of blobs (old, new) differs in."""
    hunks_by_pair: dict[tuple[str, str], Hunks] = {}
    pair: tuple[str, str] | None = None
    spans: list[Span] = []
    added: list[tuple[int, bytes]] = []
    lines = data.split(b"\n")
    at = 0

    def close() -> None:
        if pair is not None and pair not in hunks_by_pair:
            hunks_by_pair[pair] = _hunks(spans, added_markers(added))

    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith(b"diff --git "):
            close()
            pair, spans, added = None, [], []
        elif match := _INDEX.match(line):
            pair = match[1].decode(), match[2].decode()
        elif line.startswith(b"Binary files ") and pair is not None:
            hunks_by_pair[pair] = Hunks(binary=True)
        elif match := _HUNK.match(line):
            new = at + int(match[2] or 1)
            span, at = _span(match, lines, at)
            spans.append(span)
            # Behind the removed lines, and what git says of a missing line end, stand the added ones.
            now = enumerate((line for line in lines[new:at] if line.startswith(b"+")), int(match[3]))
            added += ((number, line[1:]) for number, line in now if line[1:8] in MARKERS)
    close()
    return hunks_by_pair


def _hunks(spans: Sequence[Span], markers: Lines) -> Hunks:
    deleted = sum(span.end - span.start + 1 for span in spans)
    inserted = sum(span.new_count or 0 for span in spans)
    return Hunks(tuple(spans), insertions=inserted, deletions=deleted, markers=markers)


def _span(match: re.Match[bytes], lines: Sequence[bytes], at: int) -> tuple[Span, int]:
    """The hunk whose header matched, and the line behind it."""
    start, old = int(match[1]), int(match[2] or 1)
    new = int(match[4] or 1)
    at += old
    if at < len(lines) and lines[at].startswith(b"\\"):  # `\ No newline at end of file`, of the old side
        at += 1
    content = b"".join(line[1:] + b"\n" for line in lines[at : at + new])
    at += new
    if new and at < len(lines) and lines[at].startswith(b"\\"):
        content = content[:-1]
        at += 1
    # An insertion stands behind line `start` in git's words: before the next one in ours.
    first = start if old else start + 1
    return Span(first, first + old - 1, new, checksum(content)), at


def checksum(content: bytes) -> int:
    """The checksum of a hunk's new content (24 bits of CRC-32, as in the data that the profile is fitted on)."""
    return zlib.crc32(content) & 0xFFFFFF


async def changed_files(
    git: Git, base: str, tree: str, *, renames: bool = True, path: str = ""
) -> list[Record]:
    """The files in which two trees differ; of this `path` alone (a file, or a folder), where one is given. Renames
    are found as in a merge (git's own limit of candidates for `diff.renameLimit`), or are a file that went and one
    that came."""
    how = "-M" if renames else "--no-renames"
    asked = ("diff-tree", "-r", "-z", "--raw", how, "--no-ext-diff", "--no-textconv", base, tree)
    done = await git.run(*asked, *(("--", path) if path else ()))
    return await asyncio.to_thread(parse_raw, done.out)


class Differ:
    """Compares trees, and remembers. `outline` finds the definitions around a hunk; None: unknown."""

    def __init__(self, outline: Outline | None = None) -> None:
        self.outline = outline
        self._known: OrderedDict[tuple[str, str], Hunks] = OrderedDict()

    async def hunks(
        self, git: Git, base: str, tree: str, records: Sequence[Record]
    ) -> Mapping[tuple[str, str], Hunks]:
        """The hunks of these records, by (old blob, new blob)."""
        missing = [
            record
            for record in records
            if (record.old, record.new) not in self._known and record.old != record.new
        ]
        if missing:
            for pair, hunks in (await self._compare(git, base, tree, missing)).items():
                self._known[pair] = hunks
        hunks_by_pair = {}
        for record in records:
            pair = (record.old, record.new)
            if pair in self._known:
                self._known.move_to_end(pair)
            # The same content under another name or mode.
            hunks_by_pair[pair] = self._known.get(pair) or Hunks()
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return hunks_by_pair

    async def _compare(
        self, git: Git, base: str, tree: str, missing: Sequence[Record]
    ) -> dict[tuple[str, str], Hunks]:
        # A file that becomes a link (T) is shown as removed and added.
        wanted = {(record.old, record.new) for record in missing if record.letter != "T"}
        paths = [path for record in missing for path in {record.path, record.last_path}]
        hunks_by_pair: dict[tuple[str, str], Hunks] = {}
        if len(paths) <= MOST_NAMED:
            named = [path.decode("utf-8", "surrogateescape") for path in paths]
            done = await git.run(*_PATCH, base, tree, "--", *named)
            hunks_by_pair = await asyncio.to_thread(parse_patch, done.out)
        if not wanted <= hunks_by_pair.keys():
            # Too many to name; or a rename whose other half is told apart only among all files.
            done = await git.run(*_PATCH, base, tree)
            hunks_by_pair = await asyncio.to_thread(parse_patch, done.out)
        texts = await _texts(git, missing)
        return await asyncio.to_thread(self._complete, hunks_by_pair, missing, texts)

    def _complete(
        self,
        hunks_by_pair: Mapping[tuple[str, str], Hunks],
        missing: Sequence[Record],
        texts: Mapping[str, bytes],
    ) -> dict[tuple[str, str], Hunks]:
        """Add what the base text tells: its length, and the definitions."""
        complete = {}
        for record in missing:
            hunks = hunks_by_pair.get((record.old, record.new)) or _of_another_type(record, hunks_by_pair)
            text = texts.get(record.old)
            spans, length = hunks.spans, None
            if text is not None and not hunks.binary:
                length = text.count(b"\n") + (not text.endswith(b"\n") and bool(text))
                if self.outline is not None and spans:
                    spans = with_units(spans, self.outline(name_of(record.path), text))
            complete[record.old, record.new] = replace(hunks, spans=spans, length=length)
        return complete


def _of_another_type(record: Record, hunks_by_pair: Mapping[tuple[str, str], Hunks]) -> Hunks:
    """The hunks of a change of type: all of the old lines become all of the new ones."""
    zeros = "0" * len(record.old)
    gone, come = hunks_by_pair.get((record.old, zeros)), hunks_by_pair.get((zeros, record.new))
    if gone is None or come is None or gone.binary or come.binary:
        return Hunks(binary=bool((gone and gone.binary) or (come and come.binary)))
    crc = come.spans[0].checksum if come.spans else checksum(b"")
    return _hunks([Span(1, gone.deletions, come.insertions, crc)], come.markers)


def with_units(spans: Sequence[Span], outline: Sequence[tuple[int, int]]) -> tuple[Span, ...]:
    """The spans with the first line of the innermost definition around each; 0 = none."""
    return tuple(
        replace(span, unit=max((first for first, last in outline if first <= span.start <= last), default=0))
        for span in spans
    )


async def _texts(git: Git, records: Iterable[Record]) -> dict[str, bytes]:
    """The base texts, by blob id; one that is too large, or not there, is left out."""
    ids = sorted({record.old for record in records if not record.is_submodule and record.old.strip("0")})
    if not ids:
        return {}
    asked = "".join(f"{id}\n" for id in ids).encode()
    sizes = await git.run("cat-file", "--batch-check", stdin=asked)
    fit, total = list[str](), 0
    for line in sizes.out.decode("ascii", "replace").splitlines():
        id, kind, *size = line.split(" ")
        if kind == "blob" and int(size[0]) <= MOST_BLOB and total + int(size[0]) <= MOST_TEXT // 2:
            fit.append(id)
            total += int(size[0])
    return await git.blobs(fit, most=MOST_TEXT)


async def churn(git: Git, commit: str) -> dict[bytes, int]:
    """Commits that touched each path, among the last `CHURN_OF` on the mainline (the first parents)."""
    asked = ("log", f"-{CHURN_OF}", "--first-parent", "--format=", "--name-only", "-z", "--no-renames")
    done = await git.run(*asked, commit, "--")
    counts: dict[bytes, int] = {}
    for path in (field.strip(b"\n") for field in done.out.split(b"\0")):
        if path:
            counts[path] = counts.get(path, 0) + 1
    return counts


async def attributes(
    git: Git, names: Sequence[str], paths: Iterable[bytes], *, cached: bool = False
) -> dict[bytes, dict[str, str]]:
    """Of each path, the attributes of these names that are set (`.gitattributes`; `cached`: of git's index)."""
    wanted = b"".join(path + b"\0" for path in paths)
    if not wanted:
        return {}
    asked = ("check-attr", *(["--cached"] if cached else []), "-z", "--stdin")
    done = await git.run(*asked, *names, stdin=wanted)
    fields = done.out.split(b"\0")
    attributes_by_path: dict[bytes, dict[str, str]] = {}
    for path, name, value in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
        if value not in (b"unspecified", b"unset", b"false"):
            attributes_by_path.setdefault(path, {})[name.decode()] = name_of(value)
    return attributes_by_path


async def filtered(
    scratch: ScratchRepository, checkout: Checkout, tree: str, paths: Sequence[bytes]
) -> list[str]:
    """Of the files that change when `tree` is written into a checkout, those that git would send through a filter: by
    the `.gitattributes` of the tree, which git reads first, and by those on disk."""
    with_filter = set(await attributes(scratch.git(checkout), ["filter"], paths))
    if any(path.rpartition(b"/")[2] == b".gitattributes" for path in paths):
        index = scratch.folder / f"index-attributes-{checkout.git_dir.name}"
        try:
            own = scratch.git(checkout, index)
            await own.run("read-tree", tree)
            with_filter |= set(await attributes(own, ["filter"], paths, cached=True))
        finally:
            await asyncio.to_thread(index.unlink, True)
    return [name_of(path) for path in paths if path in with_filter]


async def left_markers(
    git: Git, records: Iterable[Record], hunks: Mapping[tuple[str, str], Hunks]
) -> tuple[UnsettledFile, ...]:
    """The changed files into which conflict markers were added, with their lines. `conflict-marker-size` of a file
    says, to git too, that such lines are its text."""
    marked = {record.last_path: hunks[record.old, record.new].markers for record in records}
    marked = {path: lines for path, lines in marked.items() if lines}
    meant = await attributes(git, ["conflict-marker-size"], marked)
    return tuple((name_of(path), lines) for path, lines in marked.items() if path not in meant)


def touch_of(record: Record, hunks: Hunks, *, weight: float, churn: int | None) -> FileTouch:
    """A record as it stands in a working set."""
    return FileTouch(
        path=name_of(record.path),
        change=record.change,
        lines=hunks.spans,
        weight=weight,
        new_path=name_of(record.new_path) if record.new_path is not None else None,
        binary=hunks.binary,
        churn=churn,
        length=hunks.length,
    )


async def unified(git: Git, base: str, tree: str, most: int, paths: Sequence[str] = ()) -> tuple[str, bool]:
    """The difference as text for people, and whether it was cut at `most` bytes. `paths`: of these alone."""
    words = [word for word in _PATCH if word not in ("-U0", "--full-index", "--no-prefix")]
    try:
        done = await git.run(*words, base, tree, "--", *paths, most=8 * most)
    except GitError as error:
        if error.code != -1:
            raise
        return "", True
    if len(done.out) <= most:
        return name_of(done.out), False
    cut = done.out[:most]
    return name_of(cut[: cut.rfind(b"\n") + 1]), True

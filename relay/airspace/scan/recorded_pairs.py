"""Reads recorded pairs of branches: one JSON object a line, plain or gzip (the data's README has the format).

Invariant: only what a record without its label has is used, and what it does not say stays None. Bad input ends
with the number of its line and what is wrong there.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.airspace.pair_facts import Likeness, PairFacts
from relay.airspace.scan.scan import facts_between
from relay.model.working_set import Change, FileTouch, Span, WorkingSet

_GZIP = b"\x1f\x8b"
#: git's letters; a change of type (a file becomes a link) is a change of the whole file.
_CHANGES = {**{str(change): change for change in Change}, "T": Change.MODIFIED}


class BadPairs(ValueError):
    """The data is not in the format; the message says where, and what is wrong."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Both working sets at one time, with the import edges among their files."""

    a: WorkingSet
    b: WorkingSet
    graph: Mapping[str, tuple[str, ...]]
    #: Likeness of the words of both (branch names, first messages of commits), None = not recorded.
    words: float | None = None

    @property
    def near(self) -> PairFacts:
        """What lies between them: distances by the graph, nearness by the paths, and the words."""
        near = facts_between(self.a, self.b, self.graph)
        return near if self.words is None else near._replace(words=Likeness(self.words))


@dataclass(frozen=True, slots=True)
class Pair:
    """`full`: the whole work; `early`: after half of each side's commits. `conflict`, `conflict_now`
    (the half-done branches conflict already), `kind` and `repo` only where the data is labelled."""

    id: str
    full: Sides
    early: Sides | None
    conflict: bool | None = None
    repo: str | None = None
    kind: str | None = None
    conflict_now: bool | None = None


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a file, one after another; `first`: the number of the first, from 1. `damage`: what keeps
    the file from being read after them."""

    path: Path
    first: int
    texts: tuple[bytes, ...]
    damage: str = ""

    def pairs(self) -> Iterator[Pair]:
        """Their pairs; an empty line is none. Raises BadPairs, after all that could be read."""
        for number, line in enumerate(self.texts, self.first):
            if line.strip():
                try:
                    yield _pair(line)
                except BadPairs as error:
                    raise BadPairs(f"{self.path}, line {number}: {error}") from None
        if self.damage:
            last = self.first + len(self.texts) - 1
            raise BadPairs(f"{self.path}: after line {last}, the compressed data is damaged: {self.damage}")


def lines(path: Path, most: int) -> Iterator[Lines]:
    """The file in pieces of at most so many lines. Raises OSError."""
    first = 1
    with path.open("rb") as raw:
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        file = iter(gzip.GzipFile(fileobj=raw) if packed else raw)
        texts: list[bytes] = []
        damage, more = "", True
        while more:
            try:
                texts.append(next(file))
            except StopIteration:
                more = False
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                more, damage = False, str(error)
            if len(texts) >= most or not more:
                yield Lines(path, first, tuple(texts), damage)
                first += len(texts)
                texts = []


def read(path: Path) -> Iterator[Pair]:
    """Every pair of the file. Raises OSError, and BadPairs for what is not in the format."""
    for line in lines(path, 1):
        yield from line.pairs()


def _pair(line: bytes) -> Pair:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise BadPairs(f"not JSON: {error}") from None
    record = _typed(record, dict, "the line")
    # A path's commits stand in the mainline, so they hold for the half-done work as well.
    churn: dict[str, int] = {}
    full = _sides(record, "", churn)
    early = _sides(_typed(record["early"], dict, "early"), "early.", churn) if record.get("early") else None
    name, repo, kind = record.get("id"), record.get("repo"), record.get("kind")
    conflict = _truth(record, "conflict", "")
    now = _truth(record.get("early") or {}, "conflict_now", "early.")
    if not isinstance(name, str) or not name:
        raise BadPairs("id is missing or not a string")
    repo, kind = (None if label is None else str(label) for label in (repo, kind))
    return Pair(name, full, early, conflict, repo, kind, now)


def _truth(record: Mapping[str, Any], key: str, where: str) -> bool | None:
    """A label: true or false, or 1 or 0."""
    value = record.get(key)
    if value is None or isinstance(value, bool):
        return value
    if type(value) is int and value in (0, 1):
        return value == 1
    raise BadPairs(f"{where}{key} is neither true nor false")


def _share(record: Mapping[str, Any], key: str, where: str) -> float | None:
    value = record.get(key)
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise BadPairs(f"{where}{key} is {value!r}, not a number from 0 to 1")
    return float(value)


def _sides(record: Mapping[str, Any], where: str, churn: dict[str, int]) -> Sides:
    made = []
    for side in ("a", "b"):
        listed = _typed(record.get(side), dict, where + side)
        files = _typed(listed.get("files"), list, f"{where}{side}.files")
        touches = tuple(_touch(file, f"{where}{side}.files[{at}]", churn) for at, file in enumerate(files))
        made.append(WorkingSet(side, touches))
    edges: defaultdict[str, list[str]] = defaultdict(list)
    for edge in _typed(record.get("graph", []), list, f"{where}graph"):
        if not (isinstance(edge, list) and len(edge) == 2 and all(isinstance(end, str) for end in edge)):
            raise BadPairs(f"{where}graph has an edge that is not [importer, imported]: {edge!r}")
        edges[edge[0]].append(edge[1])
    graph = {importer: tuple(imported) for importer, imported in edges.items()}
    return Sides(made[0], made[1], graph, _share(record, "words", where))


def _touch(listed: Any, where: str, churn: dict[str, int]) -> FileTouch:
    record = _typed(listed, dict, where)
    path, letter, moved = record.get("path"), record.get("st"), record.get("new")
    if not isinstance(path, str) or not path:
        raise BadPairs(f"{where}.path is missing or not a string")
    if letter not in _CHANGES:
        raise BadPairs(f"{where}.st is {letter!r}, not one of {', '.join(sorted(_CHANGES))}")
    if moved is not None and not isinstance(moved, str):
        raise BadPairs(f"{where}.new is not a string")
    commits, length = _count(record, "c", where), _count(record, "len", where)
    if commits is not None:
        churn[path] = commits
    return FileTouch(
        path,
        _CHANGES[letter],
        _spans(record, where, added=letter == "A"),
        new_path=moved,
        binary=bool(record.get("bin")),
        churn=churn.get(path),
        length=length,
    )


def _spans(record: Mapping[str, Any], where: str, *, added: bool) -> tuple[Span, ...]:
    lines = _typed(record.get("lines", []), list, f"{where}.lines")
    known = {key: record[key] for key in ("nn", "crc", "u") if key in record}
    if added and not lines and "nn" in known and not record.get("bin"):
        # A new file is an insertion into nothing; an empty one is known too.
        known = known if known["nn"] else {key: [0] for key in known}
        lines = [[1, 0]] * len(known["nn"])
    for key, values in known.items():
        whole = isinstance(values, list) and set(map(type, values)) <= {int}
        if not whole or len(values) != len(lines):
            raise BadPairs(f"{where}.{key} is not one whole number for each of the {len(lines)} ranges")
    none = [None] * len(lines)
    columns = [known.get(key, none) for key in ("nn", "crc", "u")]
    spans = []
    for at, (pair, *more) in enumerate(zip(lines, *columns, strict=True)):
        if not (type(pair) is list and len(pair) == 2 and type(pair[0]) is type(pair[1]) is int):
            raise BadPairs(f"{where}.lines[{at}] is not [first, last]: {pair!r}")
        start, end = pair
        if start < 1 or end < start - 1:
            raise BadPairs(f"{where}.lines[{at}] ends before it begins: {pair!r}")
        spans.append(Span(start, end, *more))
    return tuple(spans)


def _count(record: Mapping[str, Any], key: str, where: str) -> int | None:
    value = record.get(key)
    if value is not None and (type(value) is not int or value < 0):
        raise BadPairs(f"{where}.{key} is {value!r}, not a number of 0 or more")
    return value


def _typed(value: Any, kind: type[dict[str, Any]] | type[list[Any]], where: str) -> Any:
    if not isinstance(value, kind):
        raise BadPairs(f"{where} is not {'a list' if kind is list else 'an object'}")
    return value

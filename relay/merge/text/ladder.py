"""The merge of one file: the steps in their order, each answer guarded.

Invariants:
- where git's own text merge is clean, its answer stands;
- beyond git, the two sides are taken in an order of their own, by their text, so that the answer is the same with the
  sides swapped;
- an answer breaks no rule of the guard; what does is a conflict, with both sides whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from relay.merge.text import guard
from relay.merge.text.data_files import FORMATS, JsonSource, LinesSource, format_of
from relay.merge.text.entities import by_entities
from relay.merge.text.git_text import STYLE, GitAnswer, GitText, Hunk
from relay.merge.text.hunks import Sources, by_lines, whole
from relay.merge.text.kinds import attaches
from relay.merge.text.lines import Lines, common_ends, lines_of, three_way
from relay.merge.text.pieces import Piece, Spans, conflicts_of, latest, rows_of, size_of
from relay.merge.text.syntax import LANGUAGES, Source, language_of

#: Parts in conflict beyond which it is not tried by entities: one side was written anew.
MOST_PARTS = 40
#: How often parts that go wrong together are taken back.
MOST_ROUNDS = 4
#: Bytes of a file beyond which git alone merges it.
MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Conflict:
    """What could not be merged. `lines`: first and last in the text with markers, 1-based; `entity`: the definition,
    "" outside of one; `kind`: what happened, in words; `severity`: low, medium, high or critical; `spans`: its lines
    in the base, ours and theirs (from 0, without the last), None = not known."""

    lines: tuple[int, int]
    entity: str
    kind: str
    severity: str
    spans: Spans | None = None


@dataclass(frozen=True, slots=True)
class Merged:
    """The merge of one file. `text`: with markers where there are conflicts; `by`: the step that was needed."""

    text: str
    by: str
    conflicts: tuple[Conflict, ...] = ()
    warnings: tuple[str, ...] = ()
    steps: tuple[str, ...] = field(default=())

    @property
    def clean(self) -> bool:
        return not self.conflicts


@dataclass(frozen=True, slots=True)
class Labels:
    """What stands behind the markers, how long they are, and how git shows conflicts (`git_text.STYLES`)."""

    ours: str = "ours"
    base: str = "base"
    theirs: str = "theirs"
    size: int = 7
    style: str = STYLE


def merge_text(
    git: GitText, base: str, ours: str, theirs: str, path: str = "", labels: Labels | None = None
) -> Merged:
    """Merge three versions of a file. `path` gives the language. Raises GitTextError."""
    labels = labels or Labels()
    trivial = three_way(base, ours, theirs)
    if trivial is not None:
        return Merged(trivial, "trivial")
    answer = git.merge(*(_bytes(text) for text in (base, ours, theirs)))
    language = format_of(path) or language_of(path)
    language = language if language in LANGUAGES or language in FORMATS.values() else None
    if answer.text is not None:
        text = _text(answer.text)
        return Merged(text, "git", warnings=suspicions(base, ours, theirs, text, language))
    if max(len(base), len(ours), len(theirs)) <= MOST_BYTES:
        merged = _beyond(git, (base, ours, theirs), language, labels)
        if merged is not None:
            return merged
    if labels.style != STYLE:
        answer = git.merge(*(_bytes(text) for text in (base, ours, theirs)), style=labels.style)
    return _as_git(answer, labels)


def git_alone(git: GitText, base: str, ours: str, theirs: str, labels: Labels | None = None) -> Merged:
    """git's own answer. Raises GitTextError."""
    labels = labels or Labels()
    answer = git.merge(*(_bytes(text) for text in (base, ours, theirs)), style=labels.style)
    if answer.text is not None:
        return Merged(_text(answer.text), "git")
    return _as_git(answer, labels)


def source_of(rows: Sequence[str], language: str | None) -> Source:
    """A text as the steps read it."""
    if language == "json":
        return JsonSource(rows)
    if language in ("yaml", "toml"):
        return LinesSource(rows, language)
    return Source(rows, language)


def suspicions(base: str, ours: str, theirs: str, merged: str, language: str | None) -> tuple[str, ...]:
    """What the guard says of a clean merge of git's."""
    sources = [
        source_of(lines_of(text.replace("\r\n", "\n")).rows, language)
        for text in (base, ours, theirs, merged)
    ]
    return tuple(fault.text for fault in guard.faults_of(*sources))


def _beyond(git: GitText, texts: tuple[str, str, str], language: str | None, labels: Labels) -> Merged | None:
    """The steps beyond git's; None where they are no better than git's."""
    base, ours, theirs = texts
    first, second = sorted((ours, theirs))
    texts = (base, first, second)
    # Where a text has line ends of both kinds, each line keeps its own.
    mixed = any(0 < text.count("\r\n") < text.count("\n") for text in texts)
    end = False if mixed else three_way(*("\r\n" in text for text in texts))
    plain = [lines_of(text if mixed else text.replace("\r\n", "\n")) for text in texts]
    ended = three_way(*(lines.ended for lines in plain))
    assert ended is not None and end is not None
    root = source_of(plain[0].rows, language)
    sources = (root, root.another(plain[1].rows), root.another(plain[2].rows))
    pieces = _pieces(sources)
    found = conflicts_of(pieces)
    if not found:
        text = Lines(tuple(rows_of(pieces)), ended).text()
        text = text.replace("\n", "\r\n") if end else text
        steps = tuple(dict.fromkeys(_shown(piece.step, language) for piece in pieces if piece.step))
        return Merged(text, latest(steps, "adjacent"), steps=steps)
    return _marked(git, sources, pieces, ended, end, labels, swapped=first != ours)


def _shown(step: str, language: str | None) -> str:
    data = language is not None and language in FORMATS.values()
    return language if language and data and step not in ("", "adjacent") else step


def _pieces(sources: Sources) -> list[Piece]:
    """The best of the steps: with the fewest lines in conflict."""
    spans = whole(sources)
    best = _guarded(sources, by_lines(sources, spans))
    if 0 < len(conflicts_of(best)) <= MOST_PARTS:
        entities = _by_entities(sources)
        if entities is not None:
            other = _guarded(sources, entities)
            if size_of(other) < size_of(best):
                best = [
                    replace(piece, step="entity") if piece.step == "" and piece.rows else piece
                    for piece in other
                ]
    return best


def _by_entities(sources: Sources) -> list[Piece] | None:
    if sources[0].language is None:
        return by_entities(sources, whole(sources))
    if not all(isinstance(source, JsonSource) for source in sources):
        low, tail = _frame(sources)
        spans = [(low, len(source.rows) - tail) for source in sources]
        found = by_entities(sources, (spans[0], spans[1], spans[2]))
        if found is None:
            return None
        rows = sources[0].rows
        return [Piece(tuple(rows[:low])), *found, Piece(tuple(rows[len(rows) - tail :]))]
    # Of JSON, what stands between the braces of the one object.
    inside = []
    for source in sources:
        rows = source.rows
        if rows and (len(rows) < 2 or rows[0].strip() != "{" or rows[-1].strip() != "}"):
            return None
        inside.append((1, len(rows) - 1) if rows else (0, 0))
    middle = by_entities(sources, (inside[0], inside[1], inside[2]))
    return [Piece(("{",)), *middle, Piece(("}",))] if middle is not None else None


def _frame(sources: Sources) -> tuple[int, int]:
    """How many lines above and below stand in whole units that all three texts have, with the comments above them."""
    start, end = common_ends([source.rows for source in sources])
    low, tail = start, end
    for source in sources:
        many = len(source.rows)
        above = {high for _, high, node in source.top if attaches(node)}
        lows = (high for _, high, _ in source.top if high <= start and high not in above)
        tails = (many - first for first, _, _ in source.top if many - first <= end and first not in above)
        low, tail = min(low, max(lows, default=0)), min(tail, max(tails, default=0))
    return low, tail


def _guarded(sources: Sources, pieces: list[Piece]) -> list[Piece]:
    """The pieces, where the guard has nothing against them, conflicts left as they are; else one conflict of all."""
    for _ in range(MOST_ROUNDS):
        if conflicts_of(pieces) and not any(piece.step for piece in pieces):
            return pieces
        faults = _faults(sources, pieces)
        if not faults:
            return pieces
        pieces = _demoted(sources, pieces, faults)
    return [Piece(spans=whole(sources), why="the parts that merge do not go together")]


def _faults(sources: Sources, pieces: Sequence[Piece]) -> list[guard.Fault]:
    """What the guard has against the pieces. Conflicts are read as each of the sides in turn: whatever is chosen in
    them, the rest must do no harm."""
    base, ours, theirs = sources
    if not conflicts_of(pieces):
        return guard.faults_of(base, ours, theirs, ours.another(rows_of(pieces)))
    found = []
    for at in (1, 2):
        filled = sources[at].another(_filled(sources, pieces, at))
        for fault in (
            guard.definition_fault(base, ours, theirs, filled),
            guard.parse_fault(ours, theirs, filled),
        ):
            if fault is not None:
                found.append(fault)
    return found


def _filled(sources: Sources, pieces: Sequence[Piece], side: int) -> list[str]:
    rows: list[str] = []
    for piece in pieces:
        if piece.why and piece.spans is not None:
            rows += sources[side].rows[slice(*piece.spans[side])]
        else:
            rows += piece.rows
    return rows


def _demoted(sources: Sources, pieces: list[Piece], faults: Sequence[guard.Fault]) -> list[Piece]:
    """The pieces that a step made and that have the lines in question are conflicts; all of a step's, where none has
    them."""
    suspects = [piece for piece in pieces if piece.step and not piece.why]
    if not suspects or any(piece.spans is None for piece in suspects):
        return [Piece(spans=whole(sources), why=faults[0].text)]
    for fault in faults:
        named = [
            piece for piece in suspects if any(guard.mentions(row, fault) for row in _all(sources, piece))
        ]
        if fault.lines and named:
            gone = {id(piece) for piece in named}
            return [
                replace(piece, rows=(), why=fault.text) if id(piece) in gone else piece for piece in pieces
            ]
    gone = {id(piece) for piece in suspects}
    return [replace(piece, rows=(), why=faults[0].text) if id(piece) in gone else piece for piece in pieces]


def _all(sources: Sources, piece: Piece) -> list[str]:
    """The lines of a piece, and those it was made of."""
    assert piece.spans is not None
    rows = list(piece.rows)
    for source, span in zip(sources, piece.spans, strict=True):
        rows += source.rows[slice(*span)]
    return rows


def _marked(
    git: GitText,
    sources: Sources,
    pieces: Sequence[Piece],
    ended: bool,
    windows: bool,
    labels: Labels,
    swapped: bool,
) -> Merged:
    rows: list[str] = []
    conflicts = []
    for piece in pieces:
        if not piece.why or piece.spans is None:
            rows += piece.rows
            continue
        start = len(rows) + 1
        parts = [source.rows[span[0] : span[1]] for source, span in zip(sources, piece.spans, strict=True)]
        first, second = (parts[2], parts[1]) if swapped else (parts[1], parts[2])
        texts = (_bytes("".join(f"{row}\n" for row in part)) for part in (parts[0], first, second))
        shown = git.shown(Hunk(None, *texts), labels.style)
        rows += _text(_between(GitAnswer(None, shown), labels)).split("\n")[:-1]
        one, other = (piece.spans[2], piece.spans[1]) if swapped else (piece.spans[1], piece.spans[2])
        spans = piece.spans[0], one, other
        conflicts.append(Conflict((start, len(rows)), piece.entity, piece.why, severity_of(*parts), spans))
    steps = tuple(dict.fromkeys(piece.step for piece in pieces if piece.step))
    text = Lines(tuple(rows), ended).text()
    return Merged(
        text.replace("\n", "\r\n") if windows else text, latest(steps), tuple(conflicts), steps=steps
    )


def severity_of(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> str:
    """How bad a conflict is by what both did to its lines (003, `assess_severity`): one removed what the other
    changed, both changed it, or both added something."""
    if not base:
        return "medium"
    return "high" if ours and theirs else "critical"


def _as_git(answer: GitAnswer, labels: Labels) -> Merged:
    text = _text(_between(answer, labels))
    conflicts = []
    line, markers = 1, 3 if labels.style == "merge" else 4
    for hunk in answer.hunks:
        if hunk.merged is not None:
            line += hunk.merged.count(b"\n")
            continue
        base, ours, theirs = (lines_of(_text(part)).rows for part in (hunk.base, hunk.ours, hunk.theirs))
        first, line = line, line + markers + len(base) + len(ours) + len(theirs)
        said = severity_of(base, ours, theirs)
        conflicts.append(Conflict((first, line - 1), "", "both changed it differently", said))
    return Merged(text, "git", tuple(conflicts))


def _between(answer: GitAnswer, labels: Labels) -> bytes:
    """An answer with its conflicts between markers."""
    names = (labels.ours, labels.base, labels.theirs)
    return answer.marked(names, labels.size, base=labels.style != "merge")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")

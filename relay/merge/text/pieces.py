"""What a merge is made of before it is text: merged lines, and conflicts between the lines of three texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from relay.merge.text.matching import Span

Spans = tuple[Span, Span, Span]
#: The steps in their order; the last of those that a merge needed is what it is by.
STEPS = ("trivial", "git", "adjacent", "imports", "added", "arguments", "entity", "json", "yaml", "toml")


@dataclass(frozen=True, slots=True)
class Piece:
    """Merged lines, or a conflict: then `why` says of what. `step`: what merged it, "" = nothing had to; `spans`: the
    lines of the base, ours and theirs that it is of, where these are lines of their own; `entity`: the definition it
    is in."""

    rows: tuple[str, ...] = ()
    step: str = ""
    spans: Spans | None = None
    entity: str = ""
    why: str = ""


def latest(steps: Iterable[str], default: str = "git") -> str:
    """The last step of the ladder that was needed."""
    return max(steps, key=lambda step: STEPS.index(step) if step else -1, default=default) or default


def conflicts_of(pieces: Iterable[Piece]) -> list[Piece]:
    return [piece for piece in pieces if piece.why]


def rows_of(pieces: Iterable[Piece]) -> list[str]:
    """The merged lines; conflicts have none."""
    return [row for piece in pieces for row in piece.rows]


def size_of(pieces: Iterable[Piece]) -> int:
    """The lines in conflict, on the sides."""
    return sum(
        1 + (piece.spans[1][1] - piece.spans[1][0]) + (piece.spans[2][1] - piece.spans[2][0])
        for piece in conflicts_of(pieces)
        if piece.spans is not None
    )


def stamped(pieces: Sequence[Piece], entity: str) -> list[Piece]:
    """The pieces, with an entity where they have none."""
    return [piece if piece.entity else replace(piece, entity=entity) for piece in pieces]


def shown_step(step: str) -> str:
    """The step as `by` gives it: `arguments` are joined in an entity, and all data is `json`."""
    return {"arguments": "entity", "yaml": "json", "toml": "json"}.get(step, step)

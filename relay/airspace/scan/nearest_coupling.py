"""Equation 5 over many pairs of agents at once: which two files of each pair have the strongest coupling.

Invariant: the answer is the maximum over all file pairs, to the last bit. Which file pairs could be the strongest
is kept with the hop counts, since weights change all the time and hop counts seldom.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relay.airspace.profiles.formulas import GAMMA
from relay.airspace.scan.import_distances import FAR, FARTHEST, Floats, Hops, Ints

#: Hop counts of one pair of agents: kind, the files of the one, the files of the other. None of them is 0.
Block = npt.NDArray[np.uint8]
#: The pair of files with the greatest share: the share, the row and the column of the hop counts, the hops.
Strongest = tuple[float, int, int, int]

#: gamma^(d - 1) by hop count; nothing for what is out of reach.
_GAIN: Floats = np.array([0.0, *(GAMMA ** (d - 1) for d in range(1, FAR)), 0.0])
#: The files that are at most so many hops farther than the nearest two are weighed first: with gamma = 0.5 the
#: strongest is mostly among them, and whether it is can be told.
_NEAR = 1


@dataclass(frozen=True, slots=True)
class Nearest:
    """What is weighed first of one pair: where in the flat block and how many hops, kind after kind in the order
    of rows, then columns. By kind: `counts` of them, and `limits`, the hops up to which all are there."""

    at: Ints
    hops: Hops
    counts: Ints
    limits: Ints

    @classmethod
    def of(cls, block: Block) -> Nearest:
        """Of a block that is not empty."""
        flat = block.reshape(len(block), -1)
        least = flat.min(axis=1).astype(np.int64)
        limits = np.where(least == FAR, 0, np.minimum(least, FARTHEST - _NEAR) + _NEAR)
        close = flat <= limits[:, None].astype(np.uint8)
        at = np.flatnonzero(close)
        return cls(at, flat.reshape(-1)[at], close.sum(axis=1), limits)


@dataclass(frozen=True, slots=True)
class Weighed:
    """One pair to be weighed; `rows` and `columns`: the weights of both sides' files; `heaviest`: the greatest of
    the one times the greatest of the other."""

    block: Block
    nearest: Nearest
    rows: Floats
    columns: Floats
    heaviest: float


def strongest(pairs: Sequence[Weighed]) -> Iterator[list[Strongest | None]]:
    """max w_f w_g gamma^(d-1) of each pair, kind by kind; None: out of reach. Of equal shares the first row
    counts, then the first column."""
    if not pairs:
        return
    counts = np.concatenate([pair.nearest.counts for pair in pairs])
    limits = np.concatenate([pair.nearest.limits for pair in pairs])
    kinds = len(counts) // len(pairs)
    hops = np.concatenate([pair.nearest.hops for pair in pairs])
    rows, columns, share = _shares(pairs, hops)
    top, first = _tops(share, counts)
    # What is farther than was weighed cannot reach the top, whatever its weights.
    beyond = _GAIN[np.minimum(limits + 1, FAR)] * np.repeat([pair.heaviest for pair in pairs], kinds)
    reached = counts > 0
    within = reached.tolist()
    sure = (reached & (top > beyond)).tolist()
    maxima = zip(
        top[reached].tolist(), *(values[first].tolist() for values in (rows, columns, hops)), strict=True
    )
    for at, pair in enumerate(pairs):
        best: list[Strongest | None] = []
        for kind in range(kinds):
            maximum = next(maxima) if within[at * kinds + kind] else None
            best.append(maximum if maximum is None or sure[at * kinds + kind] else _of_all(pair, kind))
        yield best


def _tops(share: Floats, counts: Ints) -> tuple[Floats, Ints]:
    """The greatest of each run of `counts`, 0 of an empty one; and where it comes first, empty runs left out."""
    top = np.zeros(len(counts))
    filled = np.flatnonzero(counts)
    if not len(filled):
        return top, filled
    begin = (np.cumsum(counts) - counts)[filled]
    top[filled] = np.maximum.reduceat(share, begin)
    hits = np.flatnonzero(share == np.repeat(top, counts))
    return top, hits[np.searchsorted(hits, begin)]


def _shares(pairs: Sequence[Weighed], hops: Hops) -> tuple[Ints, Ints, Floats]:
    """Row, column and share of everything that is weighed first, pair after pair."""
    sizes = [len(pair.nearest.at) for pair in pairs]
    at = np.concatenate([pair.nearest.at for pair in pairs])
    height = np.array([len(pair.rows) for pair in pairs])
    width = np.array([len(pair.columns) for pair in pairs])
    at, columns = np.divmod(at, np.repeat(width, sizes))
    rows = at % np.repeat(height, sizes)
    mine = np.concatenate([pair.rows for pair in pairs])[rows + np.repeat(np.cumsum(height) - height, sizes)]
    theirs = np.concatenate([pair.columns for pair in pairs])[
        columns + np.repeat(np.cumsum(width) - width, sizes)
    ]
    return rows, columns, _GAIN[hops] * mine * theirs


def _of_all(pair: Weighed, kind: int) -> Strongest:
    block = pair.block[kind]
    share = _GAIN[block] * pair.rows[:, None] * pair.columns
    row, column = divmod(int(share.argmax()), len(pair.columns))
    return float(share[row, column]), row, column, int(block[row, column])

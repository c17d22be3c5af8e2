"""The recorded pairs as arrays: what each fitted channel of the calibrated profile depends on.

Invariant: every number comes from the functions that the profile itself uses, so that the fit and the scan cannot
read a pair differently.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relay.airspace.profiles.calibrated import churn_scale, near_row, overlap_row, size_row, words_row
from relay.airspace.profiles.features import Sketch, folder
from relay.airspace.profiles.pair_features import Together
from relay.airspace.scan.recorded_pairs import Sides

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """`near` has a row a shared file, `churn` one for all unshared files that are alike (`churn_count` of them),
    `size` one a pair; `*_pair`: whose row it is. Weights are 1 in the data."""

    clash: NDArray[np.bool_]
    shares: NDArray[np.bool_]
    near: Floats
    near_pair: NDArray[np.int64]
    churn: Floats
    churn_pair: NDArray[np.int64]
    churn_count: Floats
    size: Floats
    #: log(1 + commits) of the side with more, over all its files.
    commits: Floats
    tree: Floats
    dependency: Floats
    #: A row a pair whose words are recorded: 1, and what `words_row` says; `words_pair`: whose row it is.
    words: Floats
    words_pair: NDArray[np.int64]
    #: What the leases, the seed and the logistic of the report need.
    plain: Floats

    def __len__(self) -> int:
        return len(self.clash)


def design(all_sides: Iterable[Sides]) -> Design:
    """The arrays of these pairs, in their order."""
    near: list[Any] = []
    churn: list[Any] = []
    near_pair: list[int] = []
    churn_pair: list[int] = []
    churn_count: list[int] = []
    words: list[tuple[float, float]] = []
    words_pair: list[int] = []
    rows: list[tuple[Any, ...]] = []
    for at, sides in enumerate(all_sides):
        both = Together.of(sides.a, sides.b)
        most = max(both.a.hunks, both.b.hunks)
        mine = [
            (1.0, *_signed(near_row(file.a, file.b, file.met, most)))
            for file in both.shared
            if file.met.gap is not None
        ]
        near += mine
        near_pair += [at] * len(mine)
        for file, other_side in ((both.a, both.b), (both.b, both.a)):
            rows_here = _churn_rows(file, other_side)
            churn += rows_here
            churn_count += rows_here.values()
            churn_pair += [at] * len(rows_here)
        lying = sides.near
        share = lying.coupling.share if lying.coupling else 0.0
        size = (
            (1.0, *size_row(both.a, both.b, both.common))
            if both.a.files and both.b.files
            else (-50.0, 0, 0, 0, 0, 0)
        )
        if lying.words is not None:
            words.append((1.0, words_row(lying.words.cosine)))
            words_pair.append(at)
        clash, commits = both.common.clashes, overlap_row(both.a, both.b)
        plain = _plain(both, lying.tree, share)
        rows.append((clash, bool(both.shared), size, lying.tree, share, plain, commits))
    columns = list(zip(*rows, strict=True))
    return Design(
        np.array(columns[0], bool),
        np.array(columns[1], bool),
        np.array(near, float).reshape(-1, 6),
        np.array(near_pair, int),
        np.array(churn, float).reshape(-1, 6),
        np.array(churn_pair, int),
        np.array(churn_count, float),
        np.array(columns[2], float),
        np.array(columns[6], float),
        np.array(columns[3], float),
        np.array(columns[4], float),
        np.array(words, float).reshape(-1, 2),
        np.array(words_pair, int),
        np.array(columns[5], float),
    )


def _signed(row: tuple[float, float, float, float, float]) -> tuple[float, ...]:
    """Gap and length lower a hazard: with their signs, every coefficient is 0 or more."""
    gap, commits, product, most, length = row
    return -gap, commits, product, most, -length


def _churn_rows(mine: Sketch, other: Sketch) -> Counter[tuple[float, ...]]:
    theirs, own, least = churn_scale(mine, other)
    return Counter(
        (1.0, math.log1p(touch.churn or 0), theirs, own, least, float(folder(path) in other.exposed_in))
        for path, touch in mine.files.items()
        if path not in other.files
    )


def _plain(both: Together, tree: float, share: float) -> tuple[float, ...]:
    """The 25 features of the logistic baseline: what one would write down first."""
    a, b = both.a, both.b
    gaps = [file.met.gap for file in both.shared if file.met.gap is not None]
    least = min(gaps, default=1000)
    commits = [max(file.a.churn or 0, file.b.churn or 0) for file in both.shared]
    sizes = []
    for pick in (min, max):
        sizes += [
            math.log1p(pick(len(a.files), len(b.files))),
            math.log1p(pick(a.hunks, b.hunks)),
            math.log1p(pick(a.modified, b.modified)),
            math.log1p(pick(a.commits, b.commits)),
            math.log1p(pick(len(a.created), len(b.created))),
        ]
    union = len(a.files) + len(b.files) - len(both.shared)
    folders = a.exposed_in.keys() & b.exposed_in.keys()
    return (
        float(both.common.clashes),
        math.log1p(sum(file.met.clash is not None for file in both.shared)),
        float(bool(both.shared)),
        math.log1p(len(both.shared)),
        len(both.shared) / max(1, union),
        float(0 < least <= 3),
        float(3 < least <= 10),
        float(10 < least < 1000),
        math.log1p(least),
        math.log1p(max(commits, default=0)),
        math.log1p(sum(commits)),
        math.log(max((file.met.product for file in both.shared), default=1)),
        tree,
        share,
        math.log1p(len(folders)),
        *sizes,
    )

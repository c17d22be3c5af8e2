"""The fit: the hazards of the calibrated profile by maximum likelihood.

Invariant: what is fitted is the profile's own noisy-OR, so that -log(1 - R) is the sum of the channels'
-log(1 - w (1 - exp(-h / w))); every slope is 0 or more, and the same data gives the same numbers.

Nearness, churn, size, tree, dependency and words are fitted on the half-done work, where they tell something; overlap
on all pairs, half-done and whole, that git cannot merge as they stand: whole work answers nothing else.

How great these hazards are is fitted on branches that were alive at one time. Historical merges conflict several
times as often: their nearness, churn and size have a factor of their own, `MERGED`, which is no part of the profile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from relay.airspace.profiles import calibrated as profile
from scripts.fit.design import Design, Floats

NEAR = ("NEAR_BASE", "NEAR_GAP", "NEAR_COMMITS", "NEAR_HUNKS", "NEAR_SIZE", "NEAR_LENGTH")
CHURN = ("CHURN_BASE", "CHURN_COMMITS", "CHURN_OTHER", "CHURN_OWN", "CHURN_LEAST", "CHURN_FOLDER")
SIZE = ("SIZE_BASE", "SIZE_FILES", "SIZE_MOST_HUNKS", "SIZE_LEAST_HUNKS", "SIZE_MODIFIED", "SIZE_FOLDERS")
WORDS = ("WORDS_BASE", "WORDS_LIKE")
NAMES = ("OVERLAP", "OVERLAP_COMMITS", *NEAR, *CHURN, *SIZE, *WORDS, "TREE", "DEPENDENCY")
#: Of NAMES, and of MERGED behind them.
START = (2.0, 0.2, -3.0, 0, 0, 0, 0, 0, -8.0, 0, 0, 0, 0, 0, -6.0, 0, 0, 0, 0, 0, -6.0, 2.0, 0.01, 0.01, 1.0)
#: Ridge on the slopes, in units of log-likelihood (chosen by leaving repositories out, among 3 and 10), and the least
#: NEAR_GAP. Without a least gap the hunks and the length of the file take the gap's place, and a link would not say
#: that two agents draw nearer. WORDS_LIKE is left free: its one slope carries the channel.
RIDGE = 3.0
LEAST_GAP = 0.1
#: Hazards of tree and dependency are kept at .002 at least, so that the channels still give their evidence.
LEAST = 0.002

_FREE = frozenset({"OVERLAP", "WORDS_LIKE"})
SLOPES = [at for at, name in enumerate(NAMES) if not name.endswith("_BASE") and name not in _FREE]


@dataclass(frozen=True)
class Whole:
    """Finished work that git cannot merge: the commits of each pair (see Design) and its label."""

    commits: Floats
    labels: Floats


def fit(early: Design, labels: Floats, merged: Floats, counted: Floats, whole: Whole) -> Floats:
    """Coefficients in the order of NAMES. `merged`: 1 for a historical merge; `counted`: the weight of each half-done
    pair, 0 leaves it out."""

    def loss(value: Floats) -> tuple[float, Floats]:
        hazard, slope = hazards(early, value, merged)
        likelihood, outer = _likelihood(hazard, labels)
        gradient = -slope(counted * outer)
        finished, of = _likelihood(value[0] + value[1] * whole.commits, whole.labels)
        gradient[:2] -= of.sum(), of @ whole.commits
        gradient[SLOPES] += 2.0 * RIDGE * value[SLOPES]
        total = counted @ likelihood + finished.sum() - RIDGE * (value[SLOPES] ** 2).sum()
        return -float(total), gradient

    bounds = [*map(_bounds, NAMES), (None, None)]
    # To its end: one that stops early stops elsewhere with another count of threads, and gives other constants. A
    # line search can stall far from there, so it starts again from where it stopped until that gains nothing.
    options = {"maxiter": 2000, "maxfun": 5000, "ftol": 1e-15, "gtol": 1e-4, "maxcor": 40}
    value, least = np.array(START, float), np.inf
    while True:
        optimum = minimize(loss, value, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        if not least - optimum.fun > 1e-9:
            return np.asarray(value[:-1], float)
        value, least = optimum.x, optimum.fun


def _likelihood(hazard: Floats, labels: Floats) -> tuple[Floats, Floats]:
    """log P(label) by pair and its derivative by the hazard -log(1 - R)."""
    alive = np.exp(-hazard)
    hit = np.maximum(1.0 - alive, 1e-12)
    return np.where(labels > 0, np.log(hit), -hazard), np.where(labels > 0, alive / hit, -1.0)


def _bounds(name: str) -> tuple[float | None, float | None]:
    if name.endswith("_BASE"):
        return None, None
    least = {"TREE": LEAST, "DEPENDENCY": LEAST, "NEAR_GAP": LEAST_GAP}
    return least.get(name, 0.0), None


def hazards(
    data: Design, value: Floats, merged: Floats | None = None, *, nearness: float = profile.NEARNESS
) -> tuple[Floats, Callable[[Floats], Floats]]:
    """-log(1 - R) of every pair, and what turns its derivative by pair into the gradient by coefficient. With
    `merged`, the last coefficient is MERGED."""
    count = len(data)
    at = 2
    shift = np.zeros(count) if merged is None else merged * value[-1]
    alike = np.ones(len(data.near)), data.churn_count, np.ones(count)
    parts: list[tuple[Floats, Floats, float, Callable[[Floats], Floats]]] = []
    for rows, pair, cap, width, times in (
        (data.near, data.near_pair, nearness, len(NEAR), alike[0]),
        (data.churn, data.churn_pair, profile.CHURN, len(CHURN), alike[1]),
        (data.size, np.arange(count), profile.SIZE, len(SIZE), alike[2]),
        (data.words, data.words_pair, profile.WORDS, len(WORDS), np.ones(len(data.words))),
    ):
        each = times * np.exp(np.clip(rows @ value[at : at + width] + shift[pair], -50, 20))
        summed = np.bincount(pair, each, count)
        parts.append((summed, *_capped(summed, cap), _spread(rows, pair, each)))  # type: ignore[arg-type]
        at += width
    for column, cap in ((data.tree, profile.TREE), (data.dependency, profile.DEPENDENCY)):
        summed = column * value[at]
        parts.append((summed, *_capped(summed, cap), _scaled(column)))  # type: ignore[arg-type]
        at += 1
    busy = data.clash * data.commits
    total = value[0] * data.clash + value[1] * busy + sum(part[1] for part in parts)

    def gradient(outer: Floats) -> Floats:
        slopes = [part[3](outer * part[2]) for part in parts]
        if merged is not None:
            # What the shift does to a channel is what its base does, on the merges alone.
            slopes.append(np.array([sum(part[3](outer * part[2] * merged)[0] for part in parts[:4])]))
        return np.concatenate(([outer @ data.clash, outer @ busy], *slopes))

    return total, gradient


def _capped(hazard: Floats, cap: float) -> tuple[Floats, Floats]:
    """-log(1 - w (1 - exp(-h / w))) and its derivative by h."""
    left = np.exp(-hazard / cap)
    alive = 1.0 - cap + cap * left
    return -np.log(alive), left / alive


def _spread(rows: Floats, pair: Floats, each: Floats) -> Callable[[Floats], Floats]:
    return lambda outer: rows.T @ (each * outer[pair])  # type: ignore[index]


def _scaled(column: Floats) -> Callable[[Floats], Floats]:
    return lambda outer: np.array([outer @ column])


def risk(data: Design, value: Floats) -> Floats:
    """R of every pair."""
    return -np.expm1(-hazards(data, value)[0])

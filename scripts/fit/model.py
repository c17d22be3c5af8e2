"""The fit: the hazards of the calibrated profile by maximum likelihood.

Invariant: what is fitted is the profile's own noisy-OR, so that -log(1 - R) is the sum of the channels'
-log(1 - w (1 - exp(-h / w))); every slope is 0 or more, and the same data gives the same numbers.

Nearness, churn, size, tree and dependency are fitted on the half-done work, where they tell something; `OVERLAP`
on all pairs, half-done and whole, that git cannot merge as they stand: whole work answers nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from relay.airspace import calibrated as profile
from scripts.fit.design import Design, Floats

NEAR = ("NEAR_BASE", "NEAR_GAP", "NEAR_COMMITS", "NEAR_HUNKS", "NEAR_SIZE", "NEAR_LENGTH")
CHURN = ("CHURN_BASE", "CHURN_COMMITS", "CHURN_OTHER", "CHURN_OWN", "CHURN_LEAST", "CHURN_FOLDER")
SIZE = ("SIZE_BASE", "SIZE_FILES", "SIZE_MOST_HUNKS", "SIZE_LEAST_HUNKS", "SIZE_MODIFIED")
NAMES = ("OVERLAP", *NEAR, *CHURN, *SIZE, "TREE", "DEPENDENCY")
START = (3.0, -3.0, 0, 0, 0, 0, 0, -8.0, 0, 0, 0, 0, 0, -6.0, 0, 0, 0, 0, 0.01, 0.01)
#: Ridge on the slopes, in units of log-likelihood: the best of 2 and 10 by leaving repositories out, which differ
#: by less than .001 in AUC.
RIDGE = 10.0
#: Hazards of tree and dependency are kept at .002 at least, so that the channels still give their evidence.
LEAST = 0.002


def names_of_slopes() -> list[int]:
    return [at for at, name in enumerate(NAMES) if not name.endswith("_BASE") and name != "OVERLAP"]


def fit(early: Design, labels: Floats, counted: Floats, clashing: tuple[float, float]) -> Floats:
    """Coefficients in the order of NAMES. `counted`: the weight of each pair, 0 leaves it out; `clashing`: pairs
    that git cannot merge, half-done and whole together, and those of them that conflicted in the end."""
    count, conflicts = clashing
    slopes = names_of_slopes()
    # Half a pair of doubt: the rate of a sample in which all conflict is not 1.
    overlap = -math.log((count - conflicts + 0.5) / (count + 1.0))

    def loss(free: Floats) -> tuple[float, Floats]:
        value = np.concatenate(([overlap], free))
        hazard, slope = hazards(early, value)
        alive = np.exp(-hazard)
        hit = np.maximum(1.0 - alive, 1e-12)
        likelihood = counted * np.where(labels > 0, np.log(hit), -hazard)
        outer = counted * np.where(labels > 0, alive / hit, -1.0)
        gradient = -slope(outer)
        gradient[slopes] += 2.0 * RIDGE * value[slopes]
        return float(-likelihood.sum() + RIDGE * (value[slopes] ** 2).sum()), gradient[1:]

    bounds = [_bounds(name) for name in NAMES[1:]]
    options = {"maxiter": 500, "ftol": 1e-11, "gtol": 1e-6}
    found = minimize(loss, np.array(START[1:], float), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.concatenate(([overlap], found.x))


def _bounds(name: str) -> tuple[float | None, float | None]:
    if name.endswith("_BASE"):
        return None, None
    return (LEAST, None) if name in {"TREE", "DEPENDENCY"} else (0.0, None)


def hazards(data: Design, value: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
    """-log(1 - R) of every pair, and what turns its derivative by pair into the gradient by coefficient."""
    count = len(data)
    at = 1
    parts: list[tuple[Floats, Floats, float, Callable[[Floats], Floats]]] = []
    for rows, pair, cap, width in (
        (data.near, data.near_pair, profile.NEARNESS, len(NEAR)),
        (data.churn, data.churn_pair, profile.CHURN, len(CHURN)),
        (data.size, np.arange(count), profile.SIZE, len(SIZE)),
    ):
        each = np.exp(np.clip(rows @ value[at : at + width], -50, 20))
        summed = np.bincount(pair, each, count)
        parts.append((summed, *_capped(summed, cap), _spread(rows, pair, each)))  # type: ignore[arg-type]
        at += width
    for column, cap in ((data.tree, profile.TREE), (data.dependency, profile.DEPENDENCY)):
        summed = column * value[at]
        parts.append((summed, *_capped(summed, cap), _scaled(column)))  # type: ignore[arg-type]
        at += 1
    total = value[0] * data.clash + sum(part[1] for part in parts)

    def gradient(outer: Floats) -> Floats:
        return np.concatenate(([outer @ data.clash], *(part[3](outer * part[2]) for part in parts)))

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

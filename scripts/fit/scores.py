"""How good a ranking and its two thresholds are, with intervals by repository.

Invariant: ties count half in the AUC and are one step in the average precision, so that an order among equals
cannot help; the bootstrap draws whole repositories.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Floats = NDArray[np.float64]
Score = Callable[[Floats, Floats], float]


def auc(labels: Floats, risks: Floats) -> float:
    """Area under the ROC curve."""
    hits = labels.sum()
    return float((rankdata(risks)[labels > 0].sum() - hits * (hits + 1) / 2) / (hits * (len(labels) - hits)))


def average_precision(labels: Floats, risks: Floats) -> float:
    """Sum over the thresholds of the gain in recall times the precision."""
    order = np.argsort(-risks, kind="stable")
    sorted_risks, hits = risks[order], np.cumsum(labels[order])
    last = np.r_[np.nonzero(np.diff(sorted_risks))[0], len(risks) - 1]
    precision, recall = hits[last] / (last + 1), hits[last] / labels.sum()
    return float(np.sum(np.diff(np.r_[0.0, recall]) * precision))


def recall_at(labels: Floats, risks: Floats, alarms: float = 0.01) -> float:
    """The recall where at most this share of the clean pairs is above the threshold."""
    clean = np.sort(risks[labels == 0])[::-1]
    return float((risks[labels > 0] > clean[int(alarms * len(clean))]).mean())


def precision_above(threshold: float) -> Score:
    return lambda labels, risks: (
        float(labels[risks >= threshold].mean()) if (risks >= threshold).any() else 0.0
    )


def recall_above(threshold: float) -> Score:
    return lambda labels, risks: float((risks[labels > 0] >= threshold).mean())


def alarms_above(threshold: float) -> Score:
    return lambda labels, risks: float((risks[labels == 0] >= threshold).mean())


def interval(
    score: Score, labels: Floats, risks: Floats, repos: NDArray[np.str_], draws: int = 500
) -> tuple[float, float]:
    """The 95 % interval over draws of whole repositories, with replacement."""
    random = np.random.default_rng(20260101)
    names = np.unique(repos)
    rows = {name: np.nonzero(repos == name)[0] for name in names}
    values = []
    for _ in range(draws):
        drawn = np.concatenate([rows[name] for name in random.choice(names, len(names))])
        values.append(score(labels[drawn], risks[drawn]))
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)

"""The figures of variants made comparable: one number from 0 to 1 a metric, and their weighted sum (003, section
5.4).

The source says "weighted score" and not how. For a metric with the figures x of those variants that have finished,

    s(x) = (x - min) / (max - min)          where more is better
    s(x) = (max - x) / (max - min)          where less is better
    s(x) = 1                                where all figures are equal

and 0 for a variant without the figure. The score of a variant is the sum of weight times s.

Invariants: a score is between 0 and 1; a variant that is at least as good in each metric has at least the score,
whatever the weights; a figure that is not known helps nobody. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relay.merge.exploration.config import Metric

#: By how much the sum of weights may differ from 1.
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Comparison:
    """`rows`: of each variant that was compared, its share of each metric, in the metrics' order; `scores`: the
    weighted sum of each."""

    rows: Mapping[str, tuple[float, ...]]
    scores: Mapping[str, float]


def weights_problem(weights: Sequence[float], metrics: int) -> str | None:
    """What is wrong with these weights; None: nothing."""
    if len(weights) != metrics:
        return f"there are {metrics} metrics and {len(weights)} weights; give one weight for each metric"
    if any(not math.isfinite(weight) or weight < 0 for weight in weights):
        return "each weight must be a number, 0 or more"
    total = math.fsum(weights)
    if abs(total - 1) > TOLERANCE:
        return f"the weights have the sum {total:.12g}; they must have the sum 1"
    return None


def compare(
    metrics: Sequence[Metric], weights: Sequence[float], figures: Mapping[str, Mapping[str, float | None]]
) -> Comparison:
    """Compare variants that have finished. `figures`: of each variant, the figure of each metric by its name; None or
    absent = not known. Raises ValueError for weights that are none."""
    if problem := weights_problem(weights, len(metrics)):
        raise ValueError(problem)
    columns = [
        _shares([figures[name].get(metric.name) for name in figures], lower_is_better=metric.lower_is_better)
        for metric in metrics
    ]
    rows = {name: tuple(column[at] for column in columns) for at, name in enumerate(figures)}
    scores = {
        name: math.fsum(weight * share for weight, share in zip(weights, row, strict=True))
        for name, row in rows.items()
    }
    return Comparison(rows, scores)


def _shares(values: Sequence[float | None], *, lower_is_better: bool) -> list[float]:
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return [0.0] * len(values)
    least, most = min(known), max(known)

    def share(value: float | None) -> float:
        if value is None or not math.isfinite(value):
            return 0.0
        if least == most:
            return 1.0
        return ((most - value) if lower_is_better else (value - least)) / (most - least)

    return [share(value) for value in values]

"""The figures of variants made comparable: one number from 0 to 1 a metric, and their weighted sum (003, section
5.4).

The source says "weighted score" and not how. For a metric with the figures x of those variants that have finished,

    s(x) = (x - min) / (max - min)          where more is better
    s(x) = (max - x) / (max - min)          where less is better
    s(x) = 1                                where all figures are equal, as far as they can be told apart

and 0 for a variant without the figure. The score of a variant is the sum of weight times s. Where e is by how much
two figures may differ by chance, two scores may by the sum of weight times e / (max - min).

Invariants: a score is between 0 and 1; a variant that is at least as good in each metric has at least the score,
whatever the weights; a figure that is not known helps nobody. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relay.merge.exploration.config import Metric, MetricKind

#: Digits behind the point of shares and scores.
DIGITS = 6
#: By how much two figures of a kind may differ by chance: seconds of a turn, as often as the room looks; else a part
#: of the largest, as far as a table shows figures. What is counted has no chance in it.
LOOK_S, SHOWN = 1.0, 0.0005
#: By how much the sum of weights may differ from 1.
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Comparison:
    """`rows`: of each variant that was compared, its share of each metric, in the metrics' order; `scores`: the
    weighted sum of each; `noise`: by how much two scores may differ by chance."""

    rows: Mapping[str, tuple[float, ...]]
    scores: Mapping[str, float]
    noise: float = 0.0


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
    values = [[figures[name].get(metric.name) for name in figures] for metric in metrics]
    chances = [_chance(metric, column) for metric, column in zip(metrics, values, strict=True)]
    columns = [
        _shares(column, chance, lower_is_better=metric.lower_is_better)
        for metric, column, chance in zip(metrics, values, chances, strict=True)
    ]
    spans = [_span(column) for column in values]
    noise = math.fsum(
        weight * chance / span
        for weight, chance, span in zip(weights, chances, spans, strict=True)
        if span > chance
    )
    rows = {name: tuple(column[at] for column in columns) for at, name in enumerate(figures)}
    scores = {
        name: round(math.fsum(weight * share for weight, share in zip(weights, row, strict=True)), DIGITS)
        for name, row in rows.items()
    }
    return Comparison(rows, scores, noise)


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _span(values: Sequence[float | None]) -> float:
    known = _known(values)
    return max(known) - min(known) if known else 0.0


def _chance(metric: Metric, values: Sequence[float | None]) -> float:
    """By how much two of these figures may differ by chance."""
    match metric.kind:
        case MetricKind.AGENT_DURATION:
            return LOOK_S
        case MetricKind.PERFORMANCE | MetricKind.CUSTOM:
            return SHOWN * max(map(abs, _known(values)), default=0.0)
        case _:
            return 0.0


def _shares(values: Sequence[float | None], chance: float, *, lower_is_better: bool) -> list[float]:
    known = _known(values)
    if not known:
        return [0.0] * len(values)
    least, most = min(known), max(known)

    def share(value: float | None) -> float:
        if value is None or not math.isfinite(value):
            return 0.0
        if most - least <= chance:
            return 1.0
        better = most - value if lower_is_better else value - least
        return round(better / (most - least), DIGITS)

    return [share(value) for value in values]

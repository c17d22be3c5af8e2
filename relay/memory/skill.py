"""A skill, and how well it serves: pure decisions over plain values.

Invariant: a skill's effectiveness is the posterior mean of its success. `PRIOR` uses at the rate of all uses of the
task type stand before its own, and that rate is taken as `MOST_RATE` at most: so few uses without a failure do not
pass a long good record. Of one type 1 of 1 comes behind 95 of 100, whatever else is known.

Pure: no clock, no I/O. (004, "Procedural Memory".)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from relay.model import Json
from relay.store.ports import Row

#: Uses that the prior weighs, and the most that it takes for the rate of a task type.
PRIOR, MOST_RATE = 10.0, 0.9


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill for tasks of a type, over all agents. `effectiveness` in (0, 1)."""

    name: str
    task_type: str
    uses: int
    successes: int
    effectiveness: float
    steps: tuple[str, ...] = ()

    def as_json(self) -> Json:
        return {
            "name": self.name,
            "task_type": self.task_type,
            "uses": self.uses,
            "successes": self.successes,
            "effectiveness": round(self.effectiveness, 4),
            "steps": list(self.steps),
        }


def rate(uses: int, successes: int) -> float:
    """The rate of a task type, as the prior takes it: one success and one failure are added, so that it is known
    before anything was."""
    return min(MOST_RATE, (successes + 1) / (uses + 2))


def effectiveness(uses: int, successes: int, prior: float) -> float:
    """The posterior mean of a skill's success. `prior`: the rate of its task type."""
    return (successes + PRIOR * prior) / (uses + PRIOR)


def ranked(rows: Iterable[Row]) -> list[Skill]:
    """The skills of one task type, of each agent's counts, best first. Steps are those that were told last."""
    counts: dict[str, tuple[int, int]] = {}
    steps: dict[str, tuple[float, str]] = {}
    task_type = ""
    for row in rows:
        name, task_type = row["name"], row["task_type"]
        uses, successes = counts.get(name, (0, 0))
        counts[name] = uses + row["uses"], successes + row["successes"]
        if row["steps"] is not None:
            steps[name] = max(steps.get(name, (0.0, "[]")), (row["steps_at"], row["steps"]))
    prior = rate(sum(uses for uses, _ in counts.values()), sum(good for _, good in counts.values()))
    skills = [
        Skill(name, task_type, uses, good, effectiveness(uses, good, prior), _steps(steps.get(name)))
        for name, (uses, good) in counts.items()
    ]
    return sorted(skills, key=lambda skill: (-skill.effectiveness, -skill.uses, skill.name))


def _steps(told: tuple[float, str] | None) -> tuple[str, ...]:
    return () if told is None else tuple(json.loads(told[1]))

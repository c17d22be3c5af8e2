"""Which variant wins (003, section 5.5), or why none does by itself.

Invariants: only a variant that has finished wins; where variants were tested, only one that passes does, and where
none passes there is no automatic winner. Ties go by cost (an unknown one last), then by duration, then by name. What
is chosen does not depend on the order of the candidates. A policy that needs a figure nobody knows says so. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from relay.merge.exploration.config import Policy

#: Scores and shares that differ by less are equal.
_EQUAL = 1e-9
#: What three digits of a score show.
_SHOWN = 0.0005


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant that has finished. `passing`: do its tests pass; None: there are none. `test_rate`: the share of
    tests that passed; `cost_usd`: None = unknown."""

    name: str
    score: float
    passing: bool | None
    test_rate: float | None
    cost_usd: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Choice:
    """`winner`: None = nobody was chosen automatically. `reason`: in words, for people."""

    winner: str | None
    reason: str


def choose(policy: Policy, candidates: Sequence[Candidate], noise: float = 0.0) -> Choice:
    """The winner by this policy. `noise`: scores that differ by no more are a tie."""
    if not candidates:
        return Choice(None, "No variant has finished, so there is no winner.")
    tested = [candidate for candidate in candidates if candidate.passing is not None]
    able = [candidate for candidate in candidates if candidate.passing] if tested else list(candidates)
    if policy in (Policy.HUMAN_REVIEW, Policy.AGENT_REVIEW):
        return Choice(None, _recommended(candidates, able, noise, tested=bool(tested)))
    if not able:
        return Choice(None, "No variant passes its tests, so there is no automatic winner.")
    if policy is Policy.HIGHEST_SCORE:
        return _highest(able, noise, tested=bool(tested))
    if not tested:
        return Choice(
            None,
            f"`{policy}` needs tests, and none has run: give `tests` in the file, or set `merge.test`.",
        )
    return _cheapest(able) if policy is Policy.CHEAPEST_PASSING else _best_tested(able)


def _highest(able: Sequence[Candidate], noise: float, *, tested: bool) -> Choice:
    best = max(candidate.score for candidate in able)
    tied = [candidate for candidate in able if candidate.score >= best - max(_EQUAL, noise)]
    winner = first(tied)
    note = "" if tested else " No test has run."
    if len(tied) > 1:
        others = " and ".join(sorted(candidate.name for candidate in tied if candidate is not winner))
        about = f"{best:.3f} within {noise:.3f}" if noise >= _SHOWN else f"{best:.3f}"
        return Choice(
            winner.name,
            f"{winner.name} and {others} are a tie: their score, {about}, is the same as far as can be measured, "
            f"and {winner.name} comes first by cost, then duration, then name.{note}",
        )
    return Choice(winner.name, f"{winner.name} has the highest score, {winner.score:.3f}.{note}")


def _cheapest(able: Sequence[Candidate]) -> Choice:
    unknown = sorted(candidate.name for candidate in able if candidate.cost_usd is None)
    if unknown and len(able) > 1:
        return Choice(
            None,
            f"`{Policy.CHEAPEST_PASSING}` needs the cost of each variant that passes, and that of "
            f"{', '.join(unknown)} is unknown: the agent does not report it.",
        )
    least = min((candidate.cost_usd for candidate in able if candidate.cost_usd is not None), default=None)
    winner = first(candidate for candidate in able if least is None or candidate.cost_usd == least)
    if winner.cost_usd is None:
        return Choice(winner.name, f"{winner.name} is the only one that passes; its cost is unknown.")
    return Choice(winner.name, f"{winner.name} passes at the lowest cost, ${winner.cost_usd:.4g}.")


def _best_tested(able: Sequence[Candidate]) -> Choice:
    best = max(_rate(candidate) for candidate in able)
    winner = first(candidate for candidate in able if _rate(candidate) >= best - _EQUAL)
    return Choice(winner.name, f"{winner.name} has the best share of passing tests, {best:.1%}.")


def _rate(candidate: Candidate) -> float:
    return -1.0 if candidate.test_rate is None else candidate.test_rate


def _recommended(
    candidates: Sequence[Candidate], able: Sequence[Candidate], noise: float, *, tested: bool
) -> str:
    """What is said to whoever chooses."""
    if tested and not able:
        return "No variant passes its tests."
    choice = _highest(able or candidates, noise, tested=tested)
    return f"{choice.reason.rstrip('.')}{', among those that pass' if tested else ''}."


def first(candidates: Iterable[Candidate]) -> Candidate:
    """The first of those that are equal so far: by cost, an unknown one last, then by duration, then by name."""

    def order(candidate: Candidate) -> tuple[bool, float, float, str]:
        cost = candidate.cost_usd
        return cost is None, cost or 0.0, candidate.seconds, candidate.name

    return min(candidates, key=order)

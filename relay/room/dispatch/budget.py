"""What an agent may spend, and whether it has.

Invariant: pure; asked before a dispatch, so a spent budget is never overdrawn by more than the turn that spent it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HOUR_S = 3600.0
DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class Budget:
    """None is no limit."""

    turns_per_hour: int | None = None
    tokens_per_day: int | None = None
    usd_per_day: float | None = None

    @property
    def any(self) -> bool:
        return any(
            limit is not None for limit in (self.turns_per_hour, self.tokens_per_day, self.usd_per_day)
        )


@dataclass(frozen=True, slots=True)
class Spent:
    """`turns_hour` in the last hour; tokens by kind (`relay.model.UsagePart`) and `usd` in the last day.
    `oldest_in_hour` and `oldest` are the Unix seconds at which the first turns of these windows began, `newest` those
    at which the last one ended."""

    turns_hour: int = 0
    input: int = 0
    cache_write: int = 0
    cache_read: int = 0
    output: int = 0
    usd: float = 0.0
    oldest_in_hour: float | None = None
    oldest: float | None = None
    newest: float | None = None

    @property
    def tokens(self) -> int:
        """What counts for `tokens_per_day`. Cache reads do not: they are most of a long conversation's input, and
        grow with its length, not with the work."""
        return self.input + self.cache_write + self.output


@dataclass(frozen=True, slots=True)
class Exhausted:
    """`what` is spent; `frees_at` is when the first part of it comes back (Unix seconds)."""

    what: str
    text: str
    frees_at: float
    used: float


def exhausted(budget: Budget, spent: Spent, now: float) -> Exhausted | None:
    """The first budget that is spent, None while a turn may begin."""
    if budget.turns_per_hour is not None and spent.turns_hour >= budget.turns_per_hour:
        return Exhausted(
            "turns_per_hour",
            f"{spent.turns_hour} of {budget.turns_per_hour} turns in the last hour",
            (spent.oldest_in_hour or now) + HOUR_S,
            spent.turns_hour,
        )
    if budget.tokens_per_day is not None and spent.tokens >= budget.tokens_per_day:
        return Exhausted(
            "tokens_per_day",
            f"{spent.tokens:,} of {budget.tokens_per_day:,} tokens in the last day (new input {spent.input:,}, "
            f"cache writes {spent.cache_write:,}, output {spent.output:,}; {spent.cache_read:,} cache reads do not "
            "count)",
            (spent.oldest or now) + DAY_S,
            spent.tokens,
        )
    if budget.usd_per_day is not None and spent.usd >= budget.usd_per_day:
        return Exhausted(
            "usd_per_day",
            f"${spent.usd:.2f} of ${budget.usd_per_day:.2f} in the last day",
            (spent.oldest or now) + DAY_S,
            spent.usd,
        )
    return None


def as_json(budget: Budget, spent: Spent) -> Mapping[str, Any]:
    """The budget of an agent as the interfaces show it (docs/http.md)."""
    kinds = {kind: getattr(spent, kind) for kind in ("input", "cache_write", "cache_read", "output")}
    tokens = _meter(spent.tokens, budget.tokens_per_day)
    return {
        "turns_per_hour": _meter(spent.turns_hour, budget.turns_per_hour),
        "tokens": tokens and {**tokens, **kinds},
        "usd": _meter(round(spent.usd, 4), budget.usd_per_day),
    }


def _meter(used: float, limit: float | None) -> dict[str, float] | None:
    return None if limit is None else {"used": used, "limit": limit}

"""What a variant has used, against what it may use (003, section 5.6).

Invariant: what an agent does not tell is unknown, never 0: it exceeds no limit, and `unwatched` names the limit.
Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from relay.merge.exploration.config import Budget

#: The limits by their names in a file, as `BudgetExceeded.which` has them, each with the figure that it bounds.
LIMITS = {
    "max_duration_seconds": "seconds",
    "max_tokens": "tokens",
    "max_tool_calls": "tool_calls",
    "max_cost_usd": "cost_usd",
}


@dataclass(frozen=True, slots=True)
class Usage:
    """`seconds` of the clock; `tokens`, `cost_usd`: None while the agent has told none."""

    seconds: float = 0.0
    tokens: int | None = None
    tool_calls: int = 0
    cost_usd: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 3),
            "tokens": self.tokens,
            "tool_calls": self.tool_calls,
            "cost_usd": self.cost_usd,
        }


def exceeded(budget: Budget, usage: Usage) -> str | None:
    """The name of the limit that was passed, as `max_cost_usd`; None: none. Time is over when all of it is used."""
    if usage.seconds >= budget.max_duration_seconds:
        return "max_duration_seconds"
    for name, figure in LIMITS.items():
        limit, used = getattr(budget, name), getattr(usage, figure)
        if limit is not None and used is not None and used > limit:
            return name
    return None


def unwatched(budget: Budget, usage: Usage) -> tuple[str, ...]:
    """The limits that nobody could watch, since the agent does not tell what it uses."""
    return tuple(
        name
        for name, figure in LIMITS.items()
        if getattr(budget, name) is not None and getattr(usage, figure) is None
    )

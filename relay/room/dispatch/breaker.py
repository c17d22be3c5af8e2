"""The circuit breaker of each agent (002, section 8), and what a failed turn means for its job.

Invariant: pure values and decisions; the queue stores them in the database, so a restart changes nothing.

- Closed: turns run.
- Open, after `threshold` failures in a row: no turn runs, and the room says so.
- Half-open, once `reset_timeout` seconds have passed: exactly one attempt, which closes the breaker or opens it
  again.

An agent over its rate limit is parked until the time that it named. That is no failure, and nothing is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from relay.model import FailureClass

#: How long an agent that is rate limited, and names no time, is left alone. Seconds.
PARK_S = 60.0
#: The longest that a time it names is believed. Seconds.
PARK_MOST_S = 24 * 3600.0


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Verdict(StrEnum):
    """What the breaker says to a dispatch."""

    GO = "go"
    PROBE = "probe"
    SKIP = "skip"
    WAIT = "wait"


#: What makes a breaker open. The others are not the agent being broken.
COUNTED = frozenset(
    {FailureClass.TIMEOUT, FailureClass.CRASH, FailureClass.EMPTY, FailureClass.NOT_SIGNED_IN}
)


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """`opened_at` and `parked_until`: Unix seconds. `threshold` and `reset_timeout` are the configuration's."""

    threshold: int = 3
    reset_timeout: float = 300.0
    state: BreakerState = BreakerState.CLOSED
    failures: int = 0
    opened_at: float | None = None
    parked_until: float | None = None

    @property
    def retry_at(self) -> float | None:
        """When an open breaker lets a probe through."""
        if self.state is not BreakerState.OPEN or self.opened_at is None:
            return None
        return self.opened_at + self.reset_timeout

    def ask(self, now: float) -> tuple[CircuitBreaker, Verdict]:
        """May a turn begin at `now`? The breaker that holds then comes with the answer.

        A clock that was stepped back cannot keep a breaker open for longer than its timeout, nor an agent
        parked for longer than a day.
        """
        if self.parked_until is not None and now < self.parked_until <= now + PARK_MOST_S:
            return self, Verdict.WAIT
        here = replace(self, parked_until=None)
        if self.state is BreakerState.CLOSED:
            return here, Verdict.GO
        opened = self.opened_at or 0.0
        if self.state is BreakerState.OPEN and opened <= now < opened + self.reset_timeout:
            return here, Verdict.SKIP
        return replace(here, state=BreakerState.HALF_OPEN), Verdict.PROBE

    def succeeded(self) -> CircuitBreaker:
        return replace(self, state=BreakerState.CLOSED, failures=0, opened_at=None, parked_until=None)

    def failed(self, failure: FailureClass, now: float, retry_at: float | None = None) -> CircuitBreaker:
        """The breaker after a turn that failed at `now`."""
        if failure is FailureClass.RATE_LIMIT:
            until = now + PARK_S if retry_at is None else min(max(retry_at, now + 1.0), now + PARK_MOST_S)
            state = BreakerState.OPEN if self.state is BreakerState.HALF_OPEN else self.state
            return replace(self, state=state, parked_until=until)
        if failure not in COUNTED:
            state = BreakerState.OPEN if self.state is BreakerState.HALF_OPEN else self.state
            return replace(self, state=state)
        failures = self.failures + 1
        if self.state is BreakerState.HALF_OPEN or failures >= self.threshold:
            return replace(self, state=BreakerState.OPEN, failures=failures, opened_at=now)
        return replace(self, failures=failures)


class Fate(StrEnum):
    """What becomes of the job of a failed turn."""

    RETRY = "retry"
    PARK = "park"
    #: It is the next turn's: it was asked for after the turn was cancelled.
    NEXT = "next"
    SKIP = "skip"
    DEAD = "dead"


def fate(failure: FailureClass, attempts: int, max_attempts: int) -> Fate:
    """`attempts` counts the one that has just failed."""
    if failure is FailureClass.RATE_LIMIT:
        return Fate.PARK
    if failure in (FailureClass.CANCELLED, FailureClass.NOT_INSTALLED):
        return Fate.SKIP
    # A person has to sign in first: trying again by itself would only open the breaker.
    if failure is FailureClass.NOT_SIGNED_IN or attempts >= max_attempts:
        return Fate.DEAD
    return Fate.RETRY


def backoff_s(attempts: int, base_s: float, most_s: float, chance: float) -> float:
    """Seconds until the next attempt: doubling, at most `most_s`, and spread by `chance` in [0, 1)."""
    return float(min(most_s, base_s * 2 ** max(0, attempts - 1)) * (0.5 + 0.5 * chance))


def in_a_row(failures: int) -> str:
    """The failures for people: `1 failure in a row`, `3 failures in a row`."""
    return f"{failures} failure{'s' * (failures != 1)} in a row"

"""The notices of the room when the dispatcher cannot decide.

Invariant: while the dispatcher fails, messages go to all active agents. The room says so once for each cause of the
outage, not for each message, and once when the dispatcher decides again. A dispatcher that fails every other time is
not announced every other time: an outage soon after a recovery ends only after more decisions in a row.

Pure: the caller keeps a `Fallback` and steps it after each decision and each probe.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    MODEL_MISSING = "model_missing"
    BAD_ANSWER = "bad_answer"
    UNKNOWN_AGENT = "unknown_agent"
    DISABLED = "disabled"
    """Switched off in the configuration: no outage, and nothing to say."""


class DispatcherUnavailable(Exception):
    """There is no decision. `sentence` says why, `fix` what to do about it, both for people."""

    def __init__(self, cause: Cause, sentence: str, fix: str = "") -> None:
        super().__init__(f"{sentence} {fix}".strip())
        self.cause = cause
        self.sentence = sentence
        self.fix = fix


#: After an outage, so many decisions make a recovery that counts; a failure before that is flapping.
SETTLED = 5
_MOST_NEEDED = 8
#: That Ollama is there and has the model is all that a probe can show: it ends only an outage of this kind.
SHOWN_BY_PROBE = frozenset({Cause.UNREACHABLE, Cause.MODEL_MISSING})


@dataclass(frozen=True, slots=True)
class Fallback:
    """`cause` is the latest one of the outage, None when there is none; `said` those the room has heard of.

    `good` counts the decisions in a row; `needed` is how many of them end this outage.
    """

    cause: Cause | None = None
    said: frozenset[Cause] = frozenset()
    good: int = SETTLED
    needed: int = 1

    @property
    def out(self) -> bool:
        return self.cause is not None


def step(
    state: Fallback, error: DispatcherUnavailable | None, *, probe: bool = False
) -> tuple[Fallback, str | None]:
    """The state after a decision (`error` None) or a failure, and what to say in the room, if anything.

    With `probe`, it was no decision but a look whether Ollama is back; a failed look says nothing new.
    """
    if error is not None:
        return (state, None) if probe or error.cause is Cause.DISABLED else _failed(state, error)
    if probe and state.cause not in SHOWN_BY_PROBE:
        return state, None
    good = state.good + 1
    if state.cause is None:
        return Fallback(None, frozenset(), good, state.needed), None
    if good < state.needed:
        return Fallback(state.cause, state.said, good, state.needed), None
    return Fallback(None, frozenset(), 0, state.needed), "The dispatcher decides again who answers."


def _failed(state: Fallback, error: DispatcherUnavailable) -> tuple[Fallback, str | None]:
    needed = state.needed
    if state.cause is None:
        needed = 1 if state.good >= SETTLED else min(2 * needed, _MOST_NEEDED)
    after = Fallback(error.cause, state.said | {error.cause}, 0, needed)
    if error.cause in state.said:
        return after, None
    if state.cause is None:
        return after, (
            "The dispatcher cannot decide who answers, so messages without a mention go to all active "
            f"agents until it can. {error}"
        )
    return after, f"The dispatcher still cannot decide, now for another reason. {error}"

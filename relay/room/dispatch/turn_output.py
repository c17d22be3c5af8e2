"""What a turn has produced so far, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from relay.base.files import inside
from relay.model import TAKE_MAIN, EndPart, FailureClass, Kind, Location, Message, UsagePart
from relay.room.dispatch.running import whole_text
from relay.room.dispatch.turns import Helper, Outcome


@dataclass(slots=True)
class TurnOutput:
    """What a turn has produced so far."""

    tools: list[str] = field(default_factory=list)
    usage: UsagePart = field(default_factory=UsagePart)
    #: The helpers at work, by the ids of the agent's stream.
    helpers: dict[str, Helper] = field(default_factory=dict)
    end: EndPart | None = None
    #: Why the agent was not asked.
    needless: str = ""


def cut_short(output: TurnOutput, outcome: Outcome) -> Outcome:
    """What a turn used until it was cut off is spent all the same."""
    return replace(
        outcome,
        detail=whole_text(outcome.detail),
        tools=tuple(output.tools),
        usage=output.usage,
        helpers=tuple(output.helpers.values()),
    )


def outcome_of(output: TurnOutput, streamed: str) -> Outcome:
    """How the turn ended. `streamed`: the pieces of its answer, which count where its end has no text."""
    if output.needless:
        return Outcome(detail=output.needless, needless=True)
    end = output.end or EndPart(FailureClass.CRASH, "the agent ended without saying how")
    text = streamed if end.text is None else end.text
    failure, detail = end.failure, end.detail
    if failure is None and not text.strip():
        failure, detail = FailureClass.EMPTY, "it answered nothing"
    return Outcome(
        text=whole_text(text.strip()),
        failure=failure,
        detail=whole_text(detail),
        retry_at=end.retry_at,
        truncated=end.truncated,
        tools=tuple(output.tools),
        usage=output.usage,
        helpers=tuple(output.helpers.values()),
    )


def within(places: Sequence[Location], folder: Path | None, top: Path | None = None) -> list[Location]:
    """The places inside `top`, the agent's checkout (None: `folder` itself), with paths relative to it. Their own are
    relative to `folder`, the turn's. A place that a link leads out of the checkout is dropped. Blocking."""
    cwd = folder or Path.cwd()
    paths = [(place, inside(top or cwd, str(cwd / place.path))) for place in places]
    return [replace(place, path=path) for place, path in paths if path is not None]


def takes_main(message: Message, agent: str) -> bool:
    """Does it ask this agent to merge the main branch into its own? Only the room can: a person's message has no
    such field."""
    return message.kind is Kind.ADVISORY and agent in message.meta.get(TAKE_MAIN, ())

"""One agent's turn on a variant, within what the variant may use (003, section 5.6).

Invariants:
- the parent watches and the parent ends: nothing depends on what the agent's processes do. When `run_within` returns,
is
  cancelled or raises, no process of the turn is alive (`ChildProcess`), however many it forked;
- a limit acts as soon as the agent reports what passes it, and time at the latest `POLL_S` after it is over; the
  processes then have one second before they are killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from relay.merge.exploration.config import Budget
from relay.merge.exploration.usage import Usage, exceeded
from relay.model import Agent, EndPart, SessionPart, TextPart, ToolPart, Turn, UsagePart

#: Seconds between two looks at the clock, and between two notes of what was used.
POLL_S = 1.0
#: Characters of an agent's answer that are kept: its end.
MOST_TEXT = 20_000


@dataclass(slots=True)
class Progress:
    """What a turn has used and said so far. `before`: what earlier attempts had used. `free`: its model costs
    nothing, so that a cost of 0 is known."""

    before: Usage
    free: bool = False
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    used: UsagePart | None = None
    tool_calls: int = 0
    events: int = 0
    conversation: str | None = None
    text: str = ""
    end: EndPart | None = None

    @property
    def usage(self) -> Usage:
        """All that the variant has used, earlier attempts too. A cost of 0 that an agent with a price reports is none
        that it knows."""
        before, used = self.before, self.used
        tokens, cost = before.tokens, before.cost_usd
        if used is not None:
            tokens = (tokens or 0) + used.counted
            if used.cost_usd > 0 or self.free:
                cost = (cost or 0.0) + used.cost_usd
        seconds = before.seconds + (self.ended or time.monotonic()) - self.began
        return replace(
            before,
            seconds=seconds,
            tokens=tokens,
            tool_calls=before.tool_calls + self.tool_calls,
            cost_usd=cost,
        )

    def take(self, part: object) -> None:
        """Count one part of the agent's stream."""
        self.events += 1
        match part:
            case UsagePart():
                self.used = part
            case ToolPart(name=name) if name:
                self.tool_calls += 1
            case SessionPart(id=id):
                self.conversation = id
            case TextPart(text=text):
                self.text = (self.text + text)[-MOST_TEXT:]
            case EndPart():
                self.end = part
                self.ended = time.monotonic()
                if part.text is not None:
                    self.text = part.text[-MOST_TEXT:]


async def run_within(
    agent: Agent,
    turn: Turn,
    budget: Budget,
    progress: Progress,
    note: Callable[[Progress], Awaitable[None]],
    *,
    poll_s: float = POLL_S,
) -> str | None:
    """Run the turn, until it ends or has used what it may. The limit that was passed; None: it ended by itself, and
    `progress.end` says how. `note` is called with the progress every `poll_s` seconds."""
    changed = asyncio.Event()

    async def follow() -> None:
        async with aclosing(agent.run(turn)) as parts:  # type: ignore[type-var]
            async for part in parts:
                progress.take(part)
                if isinstance(part, UsagePart | ToolPart):
                    changed.set()

    task = asyncio.create_task(follow(), name=f"variant-{turn.agent}")
    task.add_done_callback(lambda _: changed.set())
    loop = asyncio.get_running_loop()
    noted = loop.time()
    try:
        while not task.done():
            if which := exceeded(budget, progress.usage):
                return which
            left = budget.max_duration_seconds - progress.usage.seconds
            changed.clear()
            if not task.done():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, min(poll_s, left))):
                        await changed.wait()
            if loop.time() - noted >= poll_s:
                noted = loop.time()
                await note(progress)
        await task
        # A turn whose last report passes a limit has passed it, though nothing was left to be ended.
        return exceeded(budget, progress.usage)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

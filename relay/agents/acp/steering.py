"""What a turn over ACP is told while its prompt runs: `_session/steering`, where the agent offers it.

Invariants: a message is handed over only while a prompt runs, and never as a prompt; `injected` is the one answer
that delivers it. The agent answers that only for a prompt that has not ended, and ends it after what was injected; so
a message that it did not answer so is the room's. Seen with claude-agent-acp 0.100.0 and codex-acp 2.6.0
(docs/doors.md, section 4).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from acp import RequestError

from relay.agents.acp.verdict import text_of
from relay.agents.process.wire import Outbox
from relay.base.terminal_text import safe_line
from relay.model import Channel, DeliveredPart, Hears, Inbox, LogPart, SteeringMessage

METHOD = "_session/steering"
#: Without this, an agent that is idle would begin a turn of its own, which nobody would read.
ONLY_RUNNING = {"steering": {"idleBehavior": "promptRequired"}}
#: The JSON-RPC code of an agent that does not know the method (section 5.1).
UNKNOWN_METHOD = -32601
#: Seconds that the last message handed over has for its answer when the prompt has ended.
LAST_S = 1.0


def channel_of(hello: Mapping[str, Any], program: str) -> Channel:
    """How a running turn of this agent hears of something, by its answer to `initialize`."""
    meta = hello.get("_meta")
    steering = meta.get("steering") if isinstance(meta, dict) else None
    if isinstance(steering, dict) and steering.get("supported") is True:
        return Channel(METHOD, Hears.BOUNDARY, f"{program} takes messages into the prompt that runs.")
    return Channel("next turn", Hears.NEXT, f"{program} offers no steering over ACP ({METHOD}).")


class Steering:
    """`ask` sends a request to the agent; `after` names the tool that was told last; `ending`: the prompt was
    cancelled, so nothing is told to it any more."""

    def __init__(
        self,
        inbox: Inbox,
        ask: Callable[[str, Any], Awaitable[dict[str, Any]]],
        outbox: Outbox,
        after: Callable[[], str],
        ending: Callable[[], bool],
    ) -> None:
        self._inbox, self._ask, self._outbox = inbox, ask, outbox
        self._after, self._ending = after, ending
        self._offered = False
        #: Taken out of the inbox and not taken in: for the turn's next prompt, if there is one.
        self._kept: deque[SteeringMessage] = deque()
        self._handing = asyncio.Lock()

    def open(self, channel: Channel) -> None:
        self._offered = channel.hears is Hears.BOUNDARY
        self._inbox.open(channel)

    @asynccontextmanager
    async def during(self, session: str | None) -> AsyncIterator[None]:
        """While the context lasts, a prompt runs and is told what comes in. Afterwards nothing is under way."""
        if not self._offered:
            yield
            return
        telling = asyncio.create_task(self._tell(session), name="acp-steering")
        try:
            yield
            # The last one may be on its way, and taken in.
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_S), self._handing:
                    telling.cancel()
        finally:
            telling.cancel()
            await asyncio.wait([telling])

    async def _tell(self, session: str | None) -> None:
        while True:
            if not self._kept:
                self._kept.extend(await self._inbox.wait())
            async with self._handing:
                if self._ending() or not await self._hand_over(session):
                    return

    async def _hand_over(self, session: str | None) -> bool:
        """Hand over the oldest message. Is it worth to hand over another one to this prompt?"""
        message = self._kept.popleft()
        block = {"type": "text", "text": message.text}
        try:
            answer = await self._ask(METHOD, {"sessionId": session, "prompt": [block], "_meta": ONLY_RUNNING})
        except RequestError as error:
            self._note(text_of(error))
            if error.code == UNKNOWN_METHOD:
                self.open(
                    Channel("next turn", Hears.NEXT, "The agent offers steering, and does not know it.")
                )
            return self._offered
        except ConnectionError:
            return False  # the end of the turn says so
        outcome = answer.get("outcome")
        if outcome == "injected":
            self._outbox.put(DeliveredPart((message.id,), self._after()))
            return True
        if outcome == "promptRequired":
            self._kept.appendleft(message)
            return False  # the prompt has ended
        self._note(f"the agent answers {outcome!r}")
        return True

    def _note(self, why: str) -> None:
        self._outbox.put(LogPart(f"a message waits for the next turn: {safe_line(why, 200)}"))

"""The talk with a program whose input stays open for a turn: messages in, answers to what it asks.

Invariants: a message is written once. The turn takes nothing in any more before the program's input is closed: both
happen in one step of the event loop, so that no message is put in between. What has no receipt then is the room's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any

from relay.agents.process.session import Question, Session
from relay.base.child_process import ChildProcess
from relay.model import Hears, Inbox

#: What may be against the use of a tool, empty = nothing, and what the model is to know of it otherwise.
Decide = Callable[[Question], Awaitable[tuple[str, str]]]
Read = Callable[[int, bytes], object]
#: Seconds that a turn gets to end when it is told to stop, before its processes are ended.
INTERRUPT_S = 2.0


class Conversation:
    """`heard` is called after each piece of output that `session` has read, and `stop` at the end of all. `read` has
    the session read a piece."""

    def __init__(
        self, process: ChildProcess, session: Session, inbox: Inbox, decide: Decide, read: Read
    ) -> None:
        self._process, self._session, self._inbox, self._decide = process, session, inbox, decide
        self._read = read
        self._tasks: set[asyncio.Task[None]] = set()
        self._told: set[str] = set()
        self._ended = False

    def heard(self) -> None:
        session = self._session
        if session.outgoing:
            self._begin(self._send(session.outgoing))
            session.outgoing = b""
        questions, session.unanswered = session.unanswered, []
        for question in questions:
            self._begin(self._answer(question))
        if self._ended:
            return
        if session.finished:
            self._ended = True
            self._inbox.close()
            self._process.end_input()
        elif session.channel is not None and self._inbox.channel is None:
            self._inbox.open(session.channel)
            if session.channel.hears is Hears.BOUNDARY:
                self._begin(self._pass_on())

    async def stop(self) -> None:
        """Pass on nothing any more. The process is ended, and the inbox closed, by whoever began the turn: another
        attempt at it may follow. A turn that is not over is told to stop."""
        cut_short = not self._ended
        self._ended = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if cut_short and (words := self._session.interrupt()):
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(INTERRUPT_S):
                    await self._interrupt(words)

    async def _interrupt(self, words: bytes) -> None:
        """Until it says that its turn is over. What else it says is not the turn's any more."""
        await self._process.send(words)
        async with aclosing(self._process.output()) as output:
            async for fd, data in output:
                self._read(fd, data)
                if self._session.cut:
                    return

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, data: bytes) -> None:
        with suppress(ConnectionError):  # it has gone: its end says why
            await self._process.send(data)

    async def _pass_on(self) -> None:
        while True:
            messages = {message.id: message for message in await self._inbox.wait()}
            fresh = [message for id, message in messages.items() if id not in self._told]
            self._told.update(messages)
            # All of them before anything is waited for: the session then knows what is still to come.
            await self._send(b"".join([self._session.tell(message) for message in fresh]))

    async def _answer(self, question: Question) -> None:
        reason, note = await self._decide(question)
        await self._send(self._session.reply(question, reason, note))

"""The course of a turn with a program that speaks a protocol over its pipes: one process, one end, nothing left.

Invariants: exactly one end; bounded output; the inbox is closed, and what is under way is cut short in the protocol's
own way, before the processes are ended.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from relay.agents.process.failure import Verdict
from relay.agents.process.wire import Outbox, Wire
from relay.base.child_process import ChildProcess
from relay.model import EndPart, FailureClass, Part, Turn

#: Seconds until a program that has closed its pipes has ended.
GONE_S = 1.0


class Failed(Exception):
    """The turn cannot go on; carries its verdict."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.detail)
        self.verdict = verdict


class WireTurn(ABC):
    """`cwd`: where the program runs; `name`: of the agent, for the names of tasks."""

    def __init__(self, turn: Turn, cwd: Path, name: str) -> None:
        self._turn, self._cwd, self._name = turn, cwd, name
        self._outbox = Outbox(turn.limits.max_output_bytes)

    async def parts(
        self, argv: list[str], env: Mapping[str, str], deadline: float
    ) -> AsyncGenerator[Part, None]:
        """The whole turn. `deadline` in the event loop's seconds."""
        try:
            process = await ChildProcess.start(argv, env=env, cwd=self._cwd, stdin=None)
        except OSError as error:
            yield EndPart(
                FailureClass.CRASH, f"The program could not be started in {self._cwd}: {error.strerror}."
            )
            return
        async with process:
            wire = Wire(process, self._outbox)
            self._talk(wire, env)
            drive = asyncio.create_task(self._drive(process), name=f"turn-{self._name}")
            drive.add_done_callback(lambda _: self._outbox.changed.set())
            late = False
            try:
                while not drive.done():
                    try:
                        async with asyncio.timeout_at(deadline):
                            await self._outbox.changed.wait()
                    except TimeoutError:
                        late = True
                        break
                    for part in self._outbox.take():
                        yield part
            finally:
                self._turn.inbox.close()
                try:
                    if not drive.done():
                        await self._leave(drive)
                finally:
                    await ended(drive)
                    await self._hang_up()
                    await wire.released()
            broken = None if late else drive.exception()
            if isinstance(broken, ConnectionError):
                await process.ended(GONE_S)
            verdict = Verdict(FailureClass.TIMEOUT) if late else self._verdict(broken, process, wire.stderr)
        for part in self._outbox.take():
            yield part
        yield self._outbox.output_limit.end(verdict, self._answer, self._turn.limits.max_output_bytes)

    @property
    @abstractmethod
    def _answer(self) -> str | None:
        """What the program said at the end; None = nothing."""

    @abstractmethod
    def _talk(self, wire: Wire, env: Mapping[str, str]) -> None:
        """Begin to listen. `env`: the program's own."""

    @abstractmethod
    async def _drive(self, process: ChildProcess) -> None:
        """Bring the conversation to the end of the turn. What it raises is judged by `_verdict`."""

    @abstractmethod
    async def _leave(self, drive: asyncio.Task[None]) -> None:
        """The turn is cut short: tell the program so, and give it a moment for its conversation."""

    @abstractmethod
    async def _hang_up(self) -> None:
        """Listen no more."""

    @abstractmethod
    def _verdict(self, error: BaseException | None, process: ChildProcess, stderr: str) -> Verdict:
        """How the turn ended. `error`: what ended it, None = its own end; `stderr`: the tail of the diagnostics."""


async def ended(*tasks: asyncio.Task[None] | None) -> None:
    """End them; what they raised is looked at here, or it would be complained about where it is not."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
    for task in running:
        if not task.cancelled():
            task.exception()

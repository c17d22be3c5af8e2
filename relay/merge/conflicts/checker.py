"""Looks for conflicts across files (level 3) in a worker process, for the daemon.

Invariant: what could not be looked at is raised, and is never taken for two that have no conflict.
"""

from __future__ import annotations

import asyncio

from relay.code.workers.process import WorkerDied, WorkerProcess
from relay.git.run import Git
from relay.merge.conflicts.conflict import Conflict

#: Seconds after which a worker that nobody asks is ended.
IDLE_S = 60.0


class Unchecked(Exception):
    """The two could not be looked at; the message says why."""


class ConflictChecker:
    """The worker starts when it is needed and ends when it is not; requests run one after the other."""

    def __init__(self) -> None:
        self._worker = WorkerProcess("conflicts", "relay.merge.conflicts.worker")
        self._turn = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """End the worker."""
        if self._idle is not None:
            self._idle.cancel()
        await self._worker.close()

    async def across_files(self, git: Git, a: str, b: str, *, timeout_s: float) -> list[Conflict]:
        """The conflicts of level 3 between two commits, the worst first. Raises Unchecked."""
        message = {
            "folder": str(git.folder),
            "env": dict(git.env),
            "config": list(git.config),
            "a": a,
            "b": b,
        }
        async with self._turn:
            if self._idle is not None:
                self._idle.cancel()
            try:
                said, _ = await self._worker.ask(message, timeout_s=timeout_s)
            except WorkerDied as error:
                late = isinstance(error.__cause__, TimeoutError)
                why = f"it took longer than {timeout_s:g} s" if late else "its process died"
                raise Unchecked(why) from error
            finally:
                self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._end)
        if "error" in said:
            raise Unchecked(said["error"])
        return [Conflict.of_json(each["value"], each["places"]) for each in said["conflicts"]]

    def _end(self) -> None:
        self._ending = asyncio.create_task(self._worker.close(), name="conflicts-worker-idle")

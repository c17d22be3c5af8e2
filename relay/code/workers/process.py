"""One worker process, seen from the daemon.

Invariant: `close` ends a started worker with its process group. A request to a worker that dies or is too slow raises
`WorkerDied`, and the next request starts another worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import structlog

import relay
from relay.code.workers.frames import Frame, encoded, receive

log = structlog.get_logger(__name__)
#: Seconds that a worker has to end by itself when its input closes.
GRACE_S = 2.0
_START = "import sys; sys.path.insert(0, {home!r}); from {module} import main; main({role!r})"


class WorkerDied(Exception):
    """The process ended or did not answer in time."""


class WorkerProcess:
    """Starts at the first request; requests run one after the other. `module`: whose `main(role)` it runs."""

    def __init__(self, role: str, module: str = "relay.code.workers.worker") -> None:
        self.role = role
        self._module = module
        #: How often it was started: a new process knows nothing of what the last one was given.
        self.starts = 0
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    @property
    def restarts(self) -> int:
        """How often it was started again after it had died."""
        return max(0, self.starts - 1)

    @property
    def pid(self) -> int | None:
        """Of the running process, which leads a process group of its own; None = it does not run."""
        return None if self._process is None else self._process.pid

    async def ask(self, message: dict[str, Any], parts: Sequence[bytes] = (), *, timeout_s: float) -> Frame:
        """One request, one answer. Raises WorkerDied."""
        async with contextlib.aclosing(
            self.ask_many(message, parts, count=1, timeout_s=timeout_s)
        ) as answers:
            async for answer in answers:
                return answer
        raise WorkerDied(f"the {self.role} worker gave no answer")

    async def ask_many(
        self, message: dict[str, Any], parts: Sequence[bytes] = (), *, count: int, timeout_s: float
    ) -> AsyncGenerator[Frame, None]:
        """One request, `count` answers, each within `timeout_s` of the one before. Raises WorkerDied."""
        async with self._turn:
            answered = 0
            try:
                process = self._process or await self._start()
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(encoded(message, parts))
                while answered < count:
                    async with asyncio.timeout(timeout_s):
                        await process.stdin.drain()
                        frame = await receive(process.stdout)
                    answered += 1
                    yield frame
            except (asyncio.IncompleteReadError, OSError, TimeoutError) as error:
                await self._end()
                raise WorkerDied(f"the {self.role} worker died: {error!r}") from error
            finally:
                if answered < count:
                    await self._end()  # its answers would be taken for those to the next request

    async def _start(self) -> asyncio.subprocess.Process:
        home = str(Path(relay.__file__).parent.parent)
        environment = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-c",
            _START.format(home=home, module=self._module, role=self.role),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment | {"LC_ALL": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
        )
        self.starts += 1
        if self.starts > 1:
            log.warning("a worker runs again", role=self.role, pid=self._process.pid)
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    async def close(self) -> None:
        """End it: its input closes, and after `GRACE_S` it is killed with its group."""
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    await process.wait()
        await self._end()

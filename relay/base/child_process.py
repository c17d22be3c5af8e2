"""Run one program under the shim: bounded pipes in, its output and its end out.

Invariant: an `ChildProcess` that was started is ended by `close()`, and nothing that its program started
outlives it by more than two seconds; the same holds when this whole process dies, since the kernel then
closes the control socket and the shim acts on it. Memory is bounded: a pipe is not read further while
`HIGH_WATER` bytes of it wait to be consumed.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import sys
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

SHIM = str(Path(__file__).with_name("shim.py"))
STDIN, STDOUT, STDERR = 0, 1, 2
#: Open files that this process may have as it was started. The daemon raises its own limit, and a program does not
#: get that one: with more than 1,024 select() fails, and some close all that there could be.
FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
#: Bytes of output that wait to be consumed before the program is made to wait.
HIGH_WATER = 262_144
#: Seconds that output may still be read once the program and its descendants are gone.
DRAIN_S = 1.0
#: Seconds until a shim that does not answer is itself killed; it needs one for its own grace.
SHIM_S = 5.0


@dataclass(frozen=True, slots=True)
class Exit:
    """How a program ended: exactly one of the three is set. `errno`: it could not be executed at all."""

    code: int | None = None
    signal: int | None = None
    errno: int | None = None

    def __str__(self) -> str:
        if self.errno is not None:
            return f"could not be executed ({os.strerror(self.errno)})"
        if self.signal is not None:
            try:
                return f"was ended by {signal.Signals(self.signal).name}"
            except ValueError:
                return f"was ended by signal {self.signal}"
        return f"ended with exit code {self.code}"


class _Pump(asyncio.SubprocessProtocol):
    """Collects what the pipes give, wakes the reader, and holds the pipes back when nobody reads."""

    def __init__(self) -> None:
        self.chunks: deque[tuple[int, bytes]] = deque()
        self.waiting = 0
        self.open = {STDOUT, STDERR}
        self.changed = asyncio.Event()
        self.reaped = False
        self.writable = asyncio.Event()
        self.writable.set()
        self.transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.chunks.append((fd, data))
        self.waiting += len(data)
        if self.waiting > HIGH_WATER:
            self._each_pipe("pause_reading")
        self.changed.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self.open.discard(fd)
        if fd == STDIN:
            self.writable.set()  # no writer waits for a reader that has gone
        self.changed.set()

    def process_exited(self) -> None:
        self.reaped = True
        self.changed.set()

    def take(self) -> tuple[int, bytes]:
        fd, data = self.chunks.popleft()
        self.waiting -= len(data)
        if self.waiting <= HIGH_WATER // 2:
            self._each_pipe("resume_reading")
        return fd, data

    def _each_pipe(self, what: str) -> None:
        assert self.transport is not None
        for fd in self.open:
            pipe = self.transport.get_pipe_transport(fd)
            if pipe is not None and not pipe.is_closing():
                getattr(pipe, what)()  # both are no-ops when there is nothing to change


class ChildProcess:
    """One program, its descendants and its pipes. Use it as `async with await ChildProcess.start(...)`."""

    def __init__(self, transport: asyncio.SubprocessTransport, pump: _Pump, control: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._pump = pump
        self._control = control
        self._said = b""
        self._over = False  # the shim has closed its end: program and descendants are gone
        self.pid: int | None = None
        self.exit: Exit | None = None
        self._loop.add_reader(control, self._on_control)

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdin: bytes | None = b"",
        more: bool = False,
    ) -> Self:
        """Start `argv` (its first entry an absolute path), write `stdin` to it and close its input.

        With None, or with `more`, its input stays open, for `send`, until `end_input`.

        Raises OSError when the shim cannot be started (no such folder, no processes left); a program that
        cannot be executed shows as `exit.errno`.
        """
        control, shim_end = socket.socketpair()
        try:
            control.setblocking(False)
            transport, pump = await asyncio.get_running_loop().subprocess_exec(
                _Pump,
                sys.executable,
                "-I",
                "-S",
                SHIM,
                str(shim_end.fileno()),
                str(os.getpid()),
                str(FILES),
                *argv,
                env=dict(env),
                cwd=cwd,
                pass_fds=(shim_end.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            control.close()
            raise
        finally:
            shim_end.close()
        process = cls(transport, pump, control)
        pipe = cast("asyncio.WriteTransport | None", transport.get_pipe_transport(STDIN))
        if pipe is not None and stdin is not None:
            pipe.write(stdin)
            if not more:
                pipe.write_eof()  # after the bytes: some programs wait for more as long as it is open
        return process

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def output(self) -> AsyncGenerator[tuple[int, bytes], None]:
        """(STDOUT or STDERR, bytes) as they come, until the program is gone and its pipes are empty.

        A process that escaped every measure and still holds a pipe open delays the end by `DRAIN_S` only.
        """
        pump = self._pump
        deadline: float | None = None
        while True:
            while pump.chunks:
                yield pump.take()
            if self._over:
                if not pump.open:
                    return
                deadline = deadline or self._loop.time() + DRAIN_S
            if not await self._changed(deadline):
                return

    async def _changed(self, deadline: float | None) -> bool:
        """Wait until something happens to the program; False when the time is over."""
        self._pump.changed.clear()
        try:
            async with asyncio.timeout_at(deadline):
                await self._pump.changed.wait()
        except TimeoutError:
            return False
        return True

    async def send(self, data: bytes) -> None:
        """Write to the program's input; waits while it reads too slowly. Raises ConnectionError when it is gone."""
        pipe = cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(STDIN))
        if pipe is None or pipe.is_closing():
            raise ConnectionError("the program has closed its input")
        pipe.write(data)
        await self._pump.writable.wait()

    def end_input(self) -> None:
        """Close the program's input, after what was sent to it."""
        pipe = cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(STDIN))
        if pipe is not None and not pipe.is_closing():
            pipe.write_eof()

    async def ended(self, seconds: float) -> Exit | None:
        """How the program ended; waits for `seconds` at most, and ends nothing."""
        deadline = self._loop.time() + seconds
        while self.exit is None and await self._changed(deadline):
            pass
        return self.exit

    async def close(self) -> None:
        """End the program and all its descendants (TERM, grace, KILL) and wait until they are gone.

        A cancellation meanwhile is raised once they are, which `SHIM_S` bounds.
        """
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        cancelled = await self._until_gone(SHIM_S)
        if not self._gone:
            self._kill()
            cancelled = await self._until_gone(1.0) or cancelled
        self._release()
        if cancelled is not None:
            raise cancelled

    @property
    def _gone(self) -> bool:
        return self._over and self._pump.reaped

    async def _until_gone(self, seconds: float) -> asyncio.CancelledError | None:
        deadline = self._loop.time() + seconds
        cancelled: asyncio.CancelledError | None = None
        while not self._gone:
            try:
                if not await self._changed(deadline):
                    break
            except asyncio.CancelledError as error:
                cancelled = error
        return cancelled

    def _kill(self) -> None:
        if self.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            self._transport.kill()

    def _release(self) -> None:
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control)
            self._control.close()
        self._transport.close()

    def _on_control(self) -> None:
        try:
            data = self._control.recv(4096)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._control)
            self._over = True
            if self.exit is None:
                # The shim itself was killed; the kernel has killed the program with it, the group may live.
                self._kill()
                self.exit = Exit(signal=signal.SIGKILL)
        *lines, self._said = (self._said + data).split(b"\n")
        for line in lines:
            self._heard(line.decode())
        self._pump.changed.set()

    def _heard(self, line: str) -> None:
        word, number = line.split()
        match word:
            case "started":
                self.pid = int(number)
            case "exit":
                self.exit = Exit(code=int(number))
            case "signal":
                self.exit = Exit(signal=int(number))
            case "failed":
                self.exit = Exit(errno=int(number))

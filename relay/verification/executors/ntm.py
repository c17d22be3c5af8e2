"""Runs a policy's program in a window of tmux, where a person can watch it.

Invariants: it is `inline` in all but the place: the same export, environment, sandbox and limits. The window is
named after the verification and the policy, and is closed at the end. Nothing that the program started outlives the
window, nor this process by more than two seconds (`tmux_pane.py`). What a person ends in the window is an error, and
no verdict. The output never lies in a file.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from relay.base.child_process import STDOUT, Exit
from relay.checks.tree_command import Process, to_the_end
from relay.code.workers.frames import encoded, receive
from relay.verification.executors.executor import Ended, Run, failed_to_run
from relay.verification.executors.inline import AT_ONCE, InlineExecutor, Lend, no_ports
from relay.verification.executors.tmux_server import TmuxServer, socket_of

#: Seconds until a window whose process does not speak is given up.
START_S = 60.0
#: Seconds that the process in the window has to end its program.
END_S = 8.0
_START = "import sys; sys.path.insert(0, {home!r}); from relay.verification.executors.tmux_pane import serve; serve()"


class TmuxExecutor:
    """`folder`, `hidden`, `environ`, `lend`: as `InlineExecutor` has them. One tmux server for a folder."""

    def __init__(
        self,
        folder: Path,
        hidden: Sequence[Path] = (),
        *,
        at_once: int = AT_ONCE,
        environ: Mapping[str, str] | None = None,
        lend: Lend = no_ports,
    ) -> None:
        self._runs = InlineExecutor(folder, hidden, at_once=at_once, environ=environ, lend=lend)
        self.server = TmuxServer(socket_of(folder))

    async def run(self, run: Run) -> Ended:
        if missing := await asyncio.to_thread(self.server.missing):
            return failed_to_run(missing)
        try:
            if run.resumed:
                await asyncio.to_thread(self.server.close_marked, run.id)
        except OSError as error:
            return failed_to_run(str(error))
        return await self._runs.carry_out(run, partial(start_in_window, self.server, run))

    async def clean(self) -> None:
        """Close the windows and remove the folders that a killed process left. For a start, when nothing runs."""
        if not await asyncio.to_thread(self.server.missing):
            with suppress(OSError):
                await asyncio.to_thread(self.server.end)
        await self._runs.clean()


async def start_in_window(
    server: TmuxServer, run: Run, argv: Sequence[str], env: Mapping[str, str], cwd: Path
) -> Process:
    """Start a program in a window of its own. Raises OSError."""
    place = await asyncio.to_thread(tempfile.mkdtemp, prefix="relay-")
    address, connection = f"{place}/socket", None
    opening: asyncio.Future[str] | None = None
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.setblocking(False)
            listener.bind(address)
            listener.listen(1)
            opening = asyncio.ensure_future(asyncio.to_thread(_open, server, run, address))
            window = await asyncio.shield(opening)
            async with asyncio.timeout(START_S):
                connection, _ = await asyncio.get_running_loop().sock_accept(listener)
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        told = {"argv": list(argv), "env": dict(env), "cwd": str(cwd), "shown": list(run.argv)}
        writer.write(encoded(told))
        return TmuxProcess(server, window, reader, writer)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if opening is not None:
            await to_the_end(_given_up(server, opening))
        if isinstance(error, TimeoutError):
            raise OSError(f"its window in tmux did not start within {START_S:g} s") from error
        raise
    finally:
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


async def _given_up(server: TmuxServer, opening: asyncio.Future[str]) -> None:
    """Close the window, which may be opened only now."""
    with suppress(OSError):
        await asyncio.to_thread(server.close, await opening)


def _open(server: TmuxServer, run: Run, address: str) -> str:
    code = _START.format(home=str(Path(__file__).parents[3]))
    name = f"{run.name} {run.policy.name}".strip()
    return server.open(name, run.id, (sys.executable, "-I", "-c", code, address))


class TmuxProcess:
    """A program in a window, as `ChildProcess` is one in the background."""

    def __init__(
        self, server: TmuxServer, window: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server, self._window = server, window
        self._reader, self._writer = reader, writer
        self.exit: Exit | None = None

    async def output(self) -> AsyncGenerator[tuple[int, bytes], None]:
        """How to watch it, then what it prints. Raises OSError when it is ended in the window."""
        yield STDOUT, f"To watch it: {self._server.attach}\n".encode()
        try:
            while True:
                message, parts = await receive(self._reader)
                if parts:
                    yield STDOUT, parts[0]
                elif "failed" in message:
                    raise OSError(message["failed"])
                else:
                    self.exit = Exit(**message)
                    return
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise OSError("it was ended in its window in tmux") from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await to_the_end(self._close())

    async def _close(self) -> None:
        with suppress(OSError):
            self._writer.write_eof()
        with suppress(OSError):
            async with asyncio.timeout(END_S):
                while await self._reader.read(65_536):
                    pass
        self._writer.close()
        with suppress(OSError):
            await asyncio.to_thread(self._server.close, self._window)

"""The process in a window of tmux: runs one program, shows what it prints, and tells it to the daemon.

Invariants:
- the program and all its descendants are ended before this process is, as soon as the daemon says so or is gone, the
  window is closed, or a person ends it there;
- the daemon hears how the program ended only after that. What was ended here has no end that it hears of;
- neither the program nor the daemon waits for the terminal: what comes faster than it is shown is left out there.

It gets the program over the socket, not in its arguments or its environment, which others can read.
"""

from __future__ import annotations

import asyncio
import codecs
import shlex
import signal
import sys
import termios
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from relay.base.child_process import ChildProcess
from relay.base.terminal_text import safe, safe_line
from relay.code.workers.frames import encoded, receive

#: Bytes that wait to be shown; beyond, the terminal is behind.
BEHIND = 262_144
#: The window is closed (HUP), somebody ends this process, or types Ctrl-C or Ctrl-\ in the window.
ENDS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


def serve() -> None:
    """The process's whole life; its last argument is the daemon's socket."""
    asyncio.run(_run(sys.argv[-1]))


async def _run(address: str) -> None:
    ended = asyncio.Event()
    for number in ENDS:
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    reader, writer = await asyncio.open_unix_connection(address)
    try:
        told, _ = await receive(reader)
        end = await _carry_out(told, reader, writer, ended)
        if end is not None:
            writer.write(encoded(end))
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # the daemon is gone: there is nobody to tell
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()  # what is written is on its way until then


async def _carry_out(
    told: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ended: asyncio.Event
) -> dict[str, Any] | None:
    """Run the program to its end; how it ended, None where it was ended."""
    screen = await Screen.open()
    screen.show(f"$ {safe_line(shlex.join(told['shown']))}\n".encode())
    try:
        process = await ChildProcess.start(told["argv"], env=told["env"], cwd=Path(told["cwd"]))
    except OSError as error:
        return {"failed": str(error)}

    async def tell() -> None:
        async for _, data in process.output():
            screen.show(data)
            writer.write(encoded({}, [data]))
            await writer.drain()

    async with process:
        telling = asyncio.create_task(tell())
        # The daemon sends nothing more: whatever can be read is the end of its socket.
        ways = {telling, asyncio.create_task(reader.read(1)), asyncio.create_task(ended.wait())}
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        over = telling.done()
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
    if not over or process.exit is None:
        return None
    telling.result()
    return asdict(process.exit)


class Screen:
    """The window's terminal. Nothing that is shown is an instruction to it, and what is typed is not shown."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._left_out = 0

    @classmethod
    async def open(cls) -> Screen:
        with suppress(termios.error):
            modes = termios.tcgetattr(sys.stdin)
            modes[0] &= ~termios.IXON  # Ctrl-S would hold the output back
            modes[3] &= ~(termios.ICANON | termios.ECHO)
            termios.tcsetattr(sys.stdin, termios.TCSANOW, modes)
        transport, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
        return cls(transport)

    def show(self, data: bytes) -> None:
        if self._transport.is_closing() or self._transport.get_write_buffer_size() > BEHIND:
            self._left_out += len(data)
            return
        text = safe(self._decoder.decode(data))
        if self._left_out:
            text = f"\n[... {self._left_out:,} bytes are not shown ...]\n{text}"
            self._left_out = 0
        self._transport.write(text.encode())

"""A way to a server that a test can cut: bytes go through, until they do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Way:
    """A TCP proxy to `host:port`, or to a Unix socket, in the test's own event loop."""

    def __init__(self, target: str | tuple[str, int]) -> None:
        self._target = target
        self._open: set[asyncio.StreamWriter] = set()
        self._free = asyncio.Event()
        self._free.set()
        self.refuses = False
        self.port = 0

    def cut(self, *, silently: bool = False) -> None:
        """Nothing goes through any more. `silently`: nobody is told, as where a cable is pulled; else connections
        are lost, and new ones too."""
        self._free.clear()
        self.refuses = not silently
        if not silently:
            for writer in self._open:
                writer.transport.abort()

    def mend(self) -> None:
        self.refuses = False
        self._free.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.transport.abort()
            return
        self._open.add(writer)
        other: asyncio.StreamWriter | None = None
        try:
            await self._free.wait()
            if isinstance(self._target, str):
                back, other = await asyncio.open_unix_connection(self._target)
            else:
                back, other = await asyncio.open_connection(*self._target)
            self._open.add(other)
            await asyncio.gather(self._carry(reader, other), self._carry(back, writer))
        except OSError:
            pass
        finally:
            for end in (writer, other):
                if end is not None:
                    self._open.discard(end)
                    end.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._free.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def way(target: str | tuple[str, int]) -> AsyncIterator[Way]:
    """A way that stands while the block runs."""
    made = Way(target)
    server = await asyncio.start_server(made._serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        made.mend()
        made.cut()

"""The WebSocket clients of the room's benchmark, all in one process; started by `scripts.bench.room`.

Each looks only for the time of sending in what it gets: the less a client does, the less of the figure is its
own. Prints "ready" when all are connected, then JSON: `took` (seconds from sending to arrival, all clients)
and `bytes`.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time

_SENT = re.compile(rb"sent=([0-9.]+);")
#: Longer than a mark: what may be cut in two by the network.
_MARK = 40
_FIRST = b'{"after":null}'
#: The room's heartbeat, and the answer to it; a text in between cannot hold these bytes, it is ASCII.
_PING, _PONG = b"\x89\x00", bytes((0x8A, 0x80, 0, 0, 0, 0))


class Follower(asyncio.Protocol):
    """One client: greets, then notes for each message when it came."""

    lost = 0
    #: Bytes that came to all of them after the greeting.
    bytes = 0

    def __init__(self, request: bytes, took: list[float], came: asyncio.Event) -> None:
        self._request, self._took, self._came = request, took, came
        self._left = b""
        self.greeted = asyncio.get_running_loop().create_future()
        self._upgraded = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        if not self._upgraded:
            self._upgraded = data.startswith(b"HTTP/1.1 101")
            if not self._upgraded:
                self.greeted.set_exception(ConnectionError(data[:200].decode(errors="replace")))
                return
            # A masked text frame, with a mask of zeros.
            self._transport.write(bytes((0x81, 0x80 | len(_FIRST), 0, 0, 0, 0)) + _FIRST)
            data = data.partition(b"\r\n\r\n")[2]
        if not self.greeted.done() and b'"hello"' in data:
            self.greeted.set_result(None)
        if _PING in data:
            self._transport.write(_PONG)
        if self.greeted.done():
            Follower.bytes += len(data)
        data = self._left + data
        end = 0
        for sent in _SENT.finditer(data):
            self._took.append(now - float(sent[1]))
            end = sent.end()
        self._left = data[max(end, len(data) - _MARK) :]
        self._came.set()

    def connection_lost(self, error: Exception | None) -> None:
        Follower.lost += 1
        self._came.set()


async def main(port: int, token: str, clients: int, messages: int) -> None:
    request = (
        f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-API-Key: {token}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    ).encode()
    took: list[float] = []
    came = asyncio.Event()
    loop = asyncio.get_running_loop()
    for _ in range(clients):
        _, follower = await loop.create_connection(lambda: Follower(request, took, came), "127.0.0.1", port)
        await asyncio.wait_for(follower.greeted, 30)
    print("ready", flush=True)
    async with asyncio.timeout(600):
        while len(took) < clients * messages:
            if Follower.lost:
                raise SystemExit(f"{Follower.lost} clients lost their connection")
            came.clear()
            await came.wait()
    json.dump({"took": took, "bytes": Follower.bytes}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))

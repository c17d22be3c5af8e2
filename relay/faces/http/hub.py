"""One reader of the room for every connected client.

Invariants:
- a client gets every stored frame after its cursor once and in order: it gets the rest of the ring and joins the
  fan-out in one step of the event loop, and a frame that it has already (its cursor was ahead of ours) is skipped;
- one event makes several frames with one cursor (the entry first), and a connection may break between them. So a
  client that resumes gets the frames of its own cursor again, except entries;
- a frame is encoded once for all clients, and live ones are listened to only while a client is there;
- no client waits for another. A slow client's frames lie in the buffer of its own connection, which is bounded: when
  it is full, the client is told that it lags and is disconnected, and resumes with its cursor.

The frames are written to the transport as complete WebSocket frames (RFC 6455, section 5.2: unmasked, uncompressed,
so without state), and all frames that are due go out in one write. A task and a queue for each client would cost
several times the write itself; the connection's buffer, which the event loop writes, is that queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from relay.room.journal.live_bus import LiveFeed
from relay.room.journal.values import Frame
from relay.room.service import Room
from relay.store.ports import is_away

log = structlog.get_logger(__name__)

#: The most stored frames, and bytes of them, that the ring keeps.
RING_FRAMES = 4096
RING_BYTES = 4 * 1024 * 1024
#: How far back the ring begins at the start, in cursors, so that clients of a moment ago resume from it.
SEED = 500
#: Seconds that a frame other than an entry waits for further ones, to go out in one write: with many clients the
#: writes are the cost, and one message makes several small frames.
COMPANY_S = 0.015
#: Seconds between two reads of the log while nobody is connected: agents that take and release locks write hundreds
#: of events a second.
ALONE_S = 0.25
RETRY_S = (0.1, 5.0)


class Wire(NamedTuple):
    """An encoded frame. `again`: it tells a state, so a client may get it twice."""

    cursor: int | None
    blob: bytes
    again: bool

    @classmethod
    def of(cls, frame: Frame) -> Wire:
        return cls(frame.cursor, wire(frame.as_text()), frame.type != "entry")

    def follows(self, cursor: int, partly: bool) -> bool:
        """Does a client at `cursor` need it? `partly`: the client may lack frames of that cursor."""
        if self.cursor is None or self.cursor > cursor:
            return True
        return partly and self.again and self.cursor == cursor


Wires = list[Wire]


def wire(text: str) -> bytes:
    """A whole WebSocket text frame, as a server sends it."""
    payload = text.encode("utf-8", "replace")
    size = len(payload)
    if size < 126:
        return bytes((0x81, size)) + payload
    if size < 1 << 16:
        return b"\x81\x7e" + size.to_bytes(2, "big") + payload
    return b"\x81\x7f" + size.to_bytes(8, "big") + payload


@dataclass(frozen=True, slots=True)
class Cut:
    """Why a client is disconnected: a WebSocket close code and a reason (123 bytes at most)."""

    code: int
    reason: str


LAGGING = Cut(1013, "too slow; come back with the last cursor")
AWAY = Cut(1013, "the room's database is away; come back with the last cursor")


class Client:
    """One connection. `cursor`: the client has every stored frame up to it; `partly`: except perhaps some of that
    cursor. `key`: its credential's."""

    __slots__ = ("_big", "_limit", "_transport", "ahead", "cursor", "cut", "key", "partly")

    def __init__(self, transport: asyncio.Transport, key: str, cursor: int, buffer_bytes: int) -> None:
        self._transport = transport
        self._limit = buffer_bytes
        self._big = 0
        self.key = key
        self.cursor = cursor
        self.partly = False
        self.ahead = 0
        self.cut: asyncio.Future[Cut] = asyncio.get_running_loop().create_future()

    def offer(self, blob: bytes, frames: int) -> None:
        """Send at once, or as the client reads. Disconnects it when too much waits already. Never blocks."""
        if self.cut.done() or self._transport.is_closing():
            return
        waiting = self._transport.get_write_buffer_size()
        if waiting == 0:
            self._big = len(
                blob
            )  # one large entry that is being sent is no lag, however many small ones follow it
        if waiting > self._limit + self._big:
            lagging = Frame(None, "lagging", {"dropped": frames})
            self._transport.write(wire(lagging.as_text()))
            self.cut_off(LAGGING)
        else:
            self._transport.write(blob)

    def cut_off(self, why: Cut) -> None:
        """Ask for the end of this connection."""
        if not self.cut.done():
            self.cut.set_result(why)


class Hub:
    """Follows the room once for all clients. Call `start`, then keep `run` running."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._ring: deque[Wire] = deque()
        self._ring_bytes = 0
        #: The ring holds every stored frame with floor < cursor <= head.
        self.floor = self.head = 0
        self._due: Wires = []
        self._timer: asyncio.TimerHandle | None = None
        self._joined: set[Client] = set()
        self._catching_up: set[Client] = set()
        self._came = asyncio.Event()
        #: What happens now, while a client is there; `_fed`: it is.
        self._feed: LiveFeed | None = None
        self._fed = asyncio.Event()

    @property
    def clients(self) -> int:
        """The number of connected clients."""
        return len(self._joined) + len(self._catching_up)

    async def start(self) -> None:
        """Set the cursor to begin at."""
        self.floor = self.head = max(0, await self._room.reader.last_cursor() - SEED)

    async def run(self) -> None:
        """Follow the room for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(_for_ever("stored", self._follow_stored), name="hub-stored")
            group.create_task(_for_ever("live", self._follow_live), name="hub-live")

    async def _follow_stored(self) -> None:
        try:
            frames = self._room.reader.frames(self.head)
            try:
                async for batch in frames:
                    self._take(batch)
                    if self._timer is not None:
                        await self._pause()
            finally:
                await close(frames)
        except Exception as error:
            if is_away(error):
                self.cut_off(AWAY)  # else clients would believe that nothing happens
            raise

    async def _pause(self) -> None:
        """Wait for further events after a frame that is no entry, to read them together."""
        self._came.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(COMPANY_S if self.clients else ALONE_S):
                await self._came.wait()

    async def _follow_live(self) -> None:
        while True:
            await self._fed.wait()
            if (feed := self._feed) is not None:
                async for frame in feed:
                    self._due.append(Wire.of(frame))
                    self._flush_soon()

    def _take(self, batch: Iterable[Frame]) -> None:
        for frame in batch:
            wire_frame = Wire.of(frame)
            self._due.append(wire_frame)
            if wire_frame.cursor is not None:
                self.head = wire_frame.cursor
                self._ring.append(wire_frame)
                self._ring_bytes += len(wire_frame.blob)
        while len(self._ring) > RING_FRAMES or self._ring_bytes > RING_BYTES:
            gone = self._ring.popleft()
            self.floor = gone.cursor or self.floor
            self._ring_bytes -= len(gone.blob)
        if all(frame.again for frame in self._due):
            self._flush_soon()
        else:
            self.flush()

    def _flush_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(COMPANY_S, self.flush)

    def flush(self) -> None:
        """Send the frames that are due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due, self._due = self._due, []
        if not due:
            return
        _send(due, [client for client in self._joined if not client.ahead])
        for client in [client for client in self._joined if client.ahead]:
            _send([frame for frame in due if frame.follows(client.ahead, client.partly)], [client])
            if self.head >= client.ahead:
                client.ahead = 0
        if self._catching_up:
            _send([frame for frame in due if frame.cursor is None], self._catching_up)

    def enter(self, client: Client) -> None:
        """From now on the client gets live frames; after `join` it gets stored ones too."""
        self.flush()
        self._catching_up.add(client)
        self._came.set()
        if self._feed is None:
            self._feed = self._room.live.feed()
            self._fed.set()

    def behind(self, cursor: int, partly: bool = False) -> Wires | None:
        """The stored frames after `cursor`, up to `head`; None when the ring does not reach so far back."""
        if cursor < self.floor or (partly and cursor == self.floor):
            return None
        wires: Wires = []
        for frame in reversed(self._ring):
            if (frame.cursor or 0) < cursor:
                break
            if frame.follows(cursor, partly):
                wires.append(frame)
        wires.reverse()
        return wires

    def join(self, client: Client, rest: Wires) -> None:
        """Send the `rest` (from `behind`, in the same step of the loop), then every further frame."""
        self.flush()
        _send(rest, [client])
        client.ahead = client.cursor if client.cursor > self.head else 0
        self._catching_up.discard(client)
        self._joined.add(client)

    def leave(self, client: Client) -> None:
        self._joined.discard(client)
        self._catching_up.discard(client)
        if self._feed is not None and not self.clients:
            self._feed.close()
            self._feed = None
            self._fed.clear()

    def cut_off(self, why: Cut, key: str | None = None) -> None:
        """End the connections of the credential `key`, or all."""
        for client in [*self._joined, *self._catching_up]:
            if key is None or client.key == key:
                client.cut_off(why)


def _send(due: Wires, clients: Iterable[Client]) -> None:
    if not due:
        return
    blob = due[0].blob if len(due) == 1 else b"".join(frame.blob for frame in due)
    for client in clients:
        client.offer(blob, len(due))


async def _for_ever(name: str, follow: Callable[[], Awaitable[None]]) -> None:
    wait = RETRY_S[0]
    while True:
        began = asyncio.get_running_loop().time()
        try:
            await follow()
            log.warning("the room's feed ended", feed=name)
        except Exception as error:
            if not is_away(error):  # the store itself logs that
                log.exception("the room's feed failed", feed=name)
        if asyncio.get_running_loop().time() - began > RETRY_S[1]:
            wait = RETRY_S[0]
        await asyncio.sleep(wait)
        wait = min(wait * 2, RETRY_S[1])


async def close(frames: AsyncIterator[object]) -> None:
    """Close an iterator of the room, if it can be closed."""
    aclose = getattr(frames, "aclose", None)
    if aclose is not None:
        await aclose()

"""`GET /ws`: one client follows the room (docs/http.md, "WebSocket").

Invariant: a client gets the greeting, then the stored frames after its cursor as fast as it reads them, then the
fan-out. Between the three nothing is missing and nothing comes twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import dataclass

import structlog
from aiohttp import WSMsgType, web
from aiohttp.abc import AbstractStreamWriter

from relay import __version__
from relay.faces.http.hub import AWAY, Client, Cut, Hub, Wire, Wires, close, wire
from relay.faces.http.requests.auth import Auth, Credential, CredentialKind, person
from relay.faces.http.requests.errors import HttpRefusal
from relay.faces.http.requests.middleware import CREDENTIAL
from relay.faces.http.requests.parsing import whole
from relay.faces.http.requests.reader import RequestReader
from relay.model import Fault, Refusal
from relay.room.journal.values import Frame
from relay.room.service import Room
from relay.store.ports import StoreAway, StoreBusy

log = structlog.get_logger(__name__)

#: Bytes of the first frame, the only one that a client sends.
MAX_FIRST_FRAME = 4096
#: Bytes that are sent at once when a client joins. A larger rest is sent before, as fast as the client reads.
SMALL_REST = 256 * 1024
#: Bytes that are written before the client must have read most of them.
PIECE_BYTES = 128 * 1024
#: Seconds to wait for the room to reach a cursor that is ahead of it, and may be very new.
NEW_CURSOR_S = 2.0
#: Seconds between two checks of a connected client's key; a check is remembered for all connections of the key
#: (relay/access/keys.py).
KEY_LOOK_S = 0.5

BAD_FIRST_FRAME = 4400
SIGNED_OUT = Cut(4401, "signed out")
UNKNOWN_CURSOR = Cut(4404, "this room has not reached that cursor; reload the transcript")
NO_FIRST_FRAME = 4408
FAILED = Cut(1011, "the room failed at this; come back with the last cursor")
GOING_AWAY = Cut(1001, "the room is stopping")


class _Refused(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.cut = Cut(code, reason)


@dataclass(frozen=True, slots=True)
class _Line:
    """A connection that is written to as fast as its client reads."""

    transport: asyncio.Transport
    writer: AbstractStreamWriter

    async def send(self, client: Client, wires: Wires) -> None:
        """Send stored frames no faster than the client reads them, and advance its cursor."""
        piece: list[bytes] = []
        size = 0
        for at, frame in enumerate(wires):
            piece.append(frame.blob)
            size += len(frame.blob)
            if size >= PIECE_BYTES or at == len(wires) - 1:
                if self.transport.is_closing():
                    raise ConnectionResetError("the client has gone")
                self.transport.write(b"".join(piece))
                piece, size = [], 0
                await self.writer.drain()
        if wires:
            client.cursor = wires[-1].cursor or client.cursor
        client.partly = False


class SocketEndpoint:
    """`open` is the handler of `/ws`."""

    def __init__(self, room: Room, auth: Auth, hub: Hub, reader: RequestReader) -> None:
        self._room, self._auth, self._hub, self._reader = room, auth, hub, reader
        self._limits = reader.limits
        self._opened = 0
        self._silent: set[asyncio.Transport] = set()

    async def open(self, request: web.Request) -> web.StreamResponse:
        if self._opened >= self._limits.sockets:
            raise HttpRefusal(
                f"{self._opened} clients are connected, and that is the limit.",
                "Close some, or come back later.",
                Fault.BUSY,
                "too_many_sockets",
                headers={"Retry-After": "5"},
            )
        await (
            self._room.reader.last_cursor()
        )  # raises when the database is away, which the hub may not know yet
        socket = web.WebSocketResponse(
            timeout=self._limits.close_s,
            heartbeat=self._limits.heartbeat_s,
            compress=False,
            max_msg_size=MAX_FIRST_FRAME,
        )
        self._opened += 1
        try:
            writer = await socket.prepare(request)
            transport = request.transport
            if transport is not None:
                await self._serve(request, socket, _Line(transport, writer))
        finally:
            self._opened -= 1
        return socket

    def stop(self) -> None:
        """End every connection, also those without a first frame yet."""
        self._hub.cut_off(GOING_AWAY)
        for transport in self._silent:
            transport.close()

    async def _serve(self, request: web.Request, socket: web.WebSocketResponse, line: _Line) -> None:
        cut: Cut | None = None
        try:
            self._silent.add(line.transport)
            try:
                after, name = await self._first_frame(socket, request[CREDENTIAL])
            finally:
                self._silent.discard(line.transport)
            client = Client(
                line.transport,
                request[CREDENTIAL].key,
                await self._start(after),
                self._limits.socket_buffer_bytes,
            )
            client.partly = bool(after)
            cut = await self._follow(socket, line, client, request[CREDENTIAL], name)
        except _Refused as refused:
            cut = refused.cut
        except ConnectionError:
            pass  # the client has gone
        except StoreAway:
            cut = AWAY  # the store itself logs it
        except Exception:
            # Not raised to the middleware: this connection takes no HTTP answer any more.
            log.exception("a client's connection failed")
            cut = FAILED
        finally:
            await self._close(socket, line.transport, cut)

    async def _first_frame(
        self, socket: web.WebSocketResponse, credential: Credential
    ) -> tuple[int | None, str | None]:
        """The client's cursor, and the name that it gives (for the list of who is here)."""
        try:
            message = await socket.receive(timeout=self._limits.first_frame_s)
        except TimeoutError:
            raise _Refused(NO_FIRST_FRAME, 'say {"after": cursor or null} first') from None
        if message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
            raise _Refused(1000, "")
        try:
            first = json.loads(message.data) if message.type is WSMsgType.TEXT else None
        except (ValueError, RecursionError):
            first = None
        if not isinstance(first, dict) or "after" not in first or set(first) - {"after", "name"}:
            raise _Refused(BAD_FIRST_FRAME, 'the first frame is {"after": cursor or null}')
        return _cursor(first["after"]), self._name(first.get("name"), credential)

    def _name(self, name: object, credential: Credential) -> str | None:
        """The person to show as here. An agent is shown by its sessions."""
        if credential.identity is not None and name not in (None, credential.identity):
            raise _Refused(BAD_FIRST_FRAME, f"this key is {credential.identity}'s, and name names another")
        if name is None or not credential.person:
            return None
        try:
            return person(name if isinstance(name, str) else "", self._reader.reserved)
        except Refusal:
            raise _Refused(BAD_FIRST_FRAME, "name is not a person's name") from None

    async def _start(self, after: int | None) -> int:
        """The cursor to resume from. A very new one may be ahead of what the room has published."""
        last = await self._room.reader.last_cursor()
        if after is None:
            return max(last, self._hub.head)
        give_up = asyncio.get_running_loop().time() + NEW_CURSOR_S
        while after > max(last, self._hub.head):
            if asyncio.get_running_loop().time() > give_up:
                raise _Refused(UNKNOWN_CURSOR.code, UNKNOWN_CURSOR.reason)
            await asyncio.sleep(0.05)
            last = await self._room.reader.last_cursor()
        return after

    async def _follow(
        self,
        socket: web.WebSocketResponse,
        line: _Line,
        client: Client,
        credential: Credential,
        name: str | None,
    ) -> Cut | None:
        """Serve the client until it goes (None) or is disconnected. `name`: the person that is here meanwhile."""
        hello = {"cursor": str(client.cursor), "version": __version__}
        client.offer(wire(Frame(None, "hello", hello).as_text()), 1)
        self._hub.enter(client)
        listen = asyncio.create_task(_listen(socket), name="ws-listen")
        tell = asyncio.create_task(self._tell(line, client), name="ws-tell")
        guard = asyncio.create_task(self._until_ended(credential), name="ws-guard")
        try:
            # It listens already, so the first one hears of itself too.
            with nullcontext() if name is None else self._room.live.here(name):
                await asyncio.wait((listen, tell, guard), return_when=asyncio.FIRST_COMPLETED)
            return next(task.result() for task in (tell, guard, listen) if task.done())
        finally:
            self._hub.leave(client)
            for task in (listen, tell, guard):
                task.cancel()
            await asyncio.gather(listen, tell, guard, return_exceptions=True)

    async def _until_ended(self, credential: Credential) -> Cut:
        """Wait until the client's session, key or token ends: by its time, or in another process."""
        look_s = self._limits.session_look_s
        if credential.kind is not CredentialKind.SESSION:
            look_s = min(look_s, KEY_LOOK_S)
        while True:
            await asyncio.sleep(look_s)
            try:
                good = await self._auth.holds(credential)
            except StoreBusy:
                continue  # not known now: the next check tells
            if not good:
                return SIGNED_OUT

    async def _tell(self, line: _Line, client: Client) -> Cut:
        await self._catch_up(line, client)
        return await client.cut

    async def _catch_up(self, line: _Line, client: Client) -> None:
        """Bring the client to the fan-out: from the store until the ring reaches back far enough, then from the
        ring."""
        stored: AsyncIterator[list[Frame]] | None = None
        try:
            while not client.cut.done():
                rest = self._hub.behind(client.cursor, client.partly)
                if rest is None:
                    if stored is None:
                        stored = self._room.reader.frames(
                            client.cursor - 1 if client.partly else client.cursor
                        )
                    wires = [Wire.of(frame) for frame in await anext(stored)]
                    await line.send(
                        client, [frame for frame in wires if frame.follows(client.cursor, client.partly)]
                    )
                    continue
                if sum(len(frame.blob) for frame in rest) <= SMALL_REST:
                    self._hub.join(client, rest)
                    # What is being written, of which it has seen nothing or a part: in the same step, so that the
                    # pieces that follow join it.
                    for frame in self._room.reader.streams():
                        client.offer(wire(frame.as_text()), 1)
                    return
                await line.send(client, rest)
                if stored is not None:
                    await close(stored)  # the ring took over from it, and the ring may move on
                    stored = None
        finally:
            if stored is not None:
                await close(stored)

    async def _close(
        self, socket: web.WebSocketResponse, transport: asyncio.Transport, cut: Cut | None
    ) -> None:
        """Close the connection; abort it when the client does not read even that."""
        try:
            async with asyncio.timeout(self._limits.close_s + 1):
                if cut is not None:
                    await socket.close(code=cut.code, message=cut.reason.encode(), drain=False)
                else:
                    await socket.close(drain=False)
        except (TimeoutError, ConnectionError):
            transport.abort()
        else:
            if transport.is_closing() and transport.get_write_buffer_size():
                transport.abort()


def _cursor(after: object) -> int | None:
    if after is None:
        return None
    if isinstance(after, str) and (cursor := whole(after)) is not None:
        return cursor
    if type(after) is int and 0 <= after < 10**18:
        return after
    raise _Refused(BAD_FIRST_FRAME, "after is not a cursor of this room")


async def _listen(socket: web.WebSocketResponse) -> None:
    """Read from the client until it goes. Everything that it sends is dropped."""
    async for _ in socket:
        pass

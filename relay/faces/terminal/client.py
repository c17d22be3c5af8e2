"""The connection to the room (docs/http.md): every entry is received once, and every message is sent once.

Invariants:
- Each entry is yielded once, in the room's order, over any number of broken connections: the next connection resumes
  at the cursor of the last entry.
- A post keeps its `client_id`, so a repeat after a lost acknowledgement is the same message.
- A post is written to the transcript only if no attempt can have reached the room; otherwise the message could be
  there twice. A post that may have arrived is sent again when the room is back.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from relay.base.durations import now_iso
from relay.faces.terminal.find_room import Place, PlaceError
from relay.model import CUT_OFF, Kind, Message
from relay.model.speaker_names import is_reserved

if TYPE_CHECKING:
    import aiohttp

Frame = dict[str, Any]

#: Seconds for one request, for opening a socket, and between the pings that detect a dead connection.
REQUEST_S = 15.0
CONNECT_S = 5.0
PING_S = 20.0
#: Seconds before the next attempt: short at first, since most pauses are a restart.
BACKOFF_S = (0.2, 0.4, 0.8, 1.5, 3.0, 5.0)
HISTORY = 50


class Down(Exception):
    """The room did not answer. `reached`: the request may have arrived all the same."""

    def __init__(self, why: str, reached: bool) -> None:
        super().__init__(why)
        self.reached = reached


class Refused(Exception):
    """The room refused. `passing` refusals (too busy, not ready) are worth another attempt."""

    def __init__(self, status: int, message: str, fix: str = "", wait_s: float = 1.0, code: str = "") -> None:
        super().__init__(f"{message} {fix}".strip())
        self.status, self.wait_s, self.code = status, wait_s, code
        self.passing = status in (429, 503)


@dataclass(frozen=True, slots=True)
class Wire:
    """A change of the connection itself. `state` is live, down, cut (the room's relay is there, and cannot reach its
    database) or refused."""

    state: str
    detail: str = ""
    wait_s: float = 0.0


@dataclass(slots=True)
class Post:
    """A message that is being sent. `reached`: an attempt may have arrived; `waits`: why it is not sent yet."""

    body: str
    client_id: str
    reached: bool = False
    written: bool = False
    waits: str = ""
    id: str = ""
    number: int = 0
    ack: dict[str, Any] = field(default_factory=dict)


def new_id() -> str:
    """A UUIDv7."""
    import uuid_utils

    return str(uuid_utils.uuid7())


class RoomClient:
    """One person's connection. `place` is called before each attempt; it may raise PlaceError."""

    def __init__(self, place: Callable[[], Place], name: str, history: int = HISTORY) -> None:
        self._place, self.name, self.history = place, name, history
        self._http: aiohttp.ClientSession | None = None
        self.cursor: str | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[RoomClient]:
        """Open the HTTP session, which every other method needs."""
        aiohttp = await _aiohttp()
        timeout = aiohttp.ClientTimeout(total=REQUEST_S, sock_connect=CONNECT_S)
        # One connection a request: a kept connection that the daemon has just closed would look like a lost answer.
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector, trust_env=False) as http:
            self._http = http
            yield self

    # --- reading ------------------------------------------------------------------------------------------

    async def frames(self) -> AsyncGenerator[Frame | Wire, None]:
        """Yield the room's frames for ever, and each change of the connection.

        Each new connection begins with a frame of type `state` (the body of GET /api/state) and one of type `jobs`.
        The first connection begins with the newest `history` entries.
        """
        failures = 0
        while True:
            try:
                async with aclosing(self._connection()) as connection:
                    async for frame in connection:
                        if isinstance(frame, Wire):
                            failures = 0
                        yield frame
                why: Wire = Wire("down", "the connection ended")
            except Down as error:
                why = Wire("down", str(error))
            except Refused as error:
                state = "refused" if error.status in (401, 403) else "down"
                why = Wire("cut" if error.code == CUT_OFF else state, str(error))
            wait = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
            failures += 1
            yield Wire(why.state, why.detail, wait)
            await asyncio.sleep(wait)

    async def _connection(self) -> AsyncGenerator[Frame | Wire, None]:
        aiohttp = await _aiohttp()
        place = await self._where()
        if self.cursor is None:
            newest = await self.transcript(self.history)
            self.cursor = newest["next"]
            for entry in newest["entries"] if self.history else []:
                yield {"cursor": None, "type": "entry", "data": entry, "history": True}
        try:
            assert self._http is not None
            async with self._http.ws_connect(
                place.url + "/ws", headers=_headers(place), heartbeat=PING_S, max_msg_size=0
            ) as socket:
                first = {"after": self.cursor}
                if not is_reserved(self.name, place.reserved):
                    first["name"] = self.name
                await socket.send_json(first)
                # Asked while the socket collects frames: a change in between follows, so the newest state wins.
                yield {"cursor": None, "type": "state", "data": await self.get("/api/state")}
                jobs = await self.get("/api/queue?limit=100")
                yield {"cursor": None, "type": "jobs", "data": jobs.get("jobs", [])}
                yield Wire("live")
                async for message in socket:
                    if message.type is not aiohttp.WSMsgType.TEXT:
                        continue
                    frame = json.loads(message.data)
                    if not isinstance(frame, dict):
                        continue
                    yield frame
                    # Set after the yield: a frame that was not handled is asked for again.
                    if frame.get("cursor") is not None and frame.get("type") != "hello":
                        self.cursor = frame["cursor"]
                if socket.close_code == aiohttp.WSCloseCode.TRY_AGAIN_LATER:
                    await self.get("/api/state")  # says why, in words, where the database is away
        except aiohttp.WSServerHandshakeError as error:
            if error.status == 503:
                await self.get("/api/state")  # as above
            raise Refused(error.status, f"the room refused the connection ({error.status})") from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Down(_why(error, place), reached=True) from None

    async def transcript(self, limit: int) -> dict[str, Any]:
        """The newest `limit` entries (at least 1), oldest first, and the cursor after them."""
        return await self.get(f"/api/transcript?limit={max(1, min(limit, 1000))}")

    async def get(self, path: str) -> dict[str, Any]:
        """A GET. Raises Down or Refused."""
        return await self._request("GET", path)

    async def needs(self) -> list[str]:
        """The kinds of what needs a person, one for each. Raises Down or Refused."""
        found = await self._answered("GET", "/api/needs", None, list)
        return [str(need.get("kind")) for need in found if isinstance(need, dict)]

    async def main_fails(self) -> bool:
        """Does the main branch fail its tests? Raises Down or Refused."""
        return bool((await self.get("/api/landing")).get("main_fails"))

    # --- writing ------------------------------------------------------------------------------------------

    async def attempt(self, post: Post) -> dict[str, Any]:
        """Send the post once; returns the room's acknowledgement. Raises Down or Refused."""
        body = {"body": post.body, "name": self.name, "client_id": post.client_id}
        try:
            post.ack = await self._request("POST", "/api/messages", body)
        except Refused as error:
            post.waits = str(error) if error.passing else ""
            raise
        except Down as error:
            post.reached = post.reached or error.reached
            raise
        post.id, post.number = str(post.ack.get("id", "")), int(post.ack.get("number") or 0)
        return post.ack

    async def write_past(self, post: Post) -> bool:
        """Append `post` to the transcript, which the room reads when it is back.

        Returns False and does nothing when an attempt may have arrived, or when this is not the room's machine.
        Raises OSError when the file cannot be written, ValueError when the name cannot stand in the transcript.
        """
        place = await self._where()
        if post.reached or place.transcript is None or place.lock is None:
            return False
        if is_reserved(self.name, place.reserved):
            raise ValueError(f"{self.name} is reserved; choose another name with --name")
        from relay.room.parsing import line_format as entry

        message = Message(id=new_id(), ts=now_iso(), speaker=self.name, kind=Kind.HUMAN, body=post.body)
        line = entry.encode(message)
        # Shielded: the append ends even if the person leaves meanwhile.
        await asyncio.shield(asyncio.to_thread(entry.append, place.transcript, place.lock, line))
        post.id, post.written = message.id, True
        return True

    # --- one request --------------------------------------------------------------------------------------

    async def _where(self) -> Place:
        try:
            return await asyncio.to_thread(self._place)
        except PlaceError as error:
            raise Down(str(error), reached=False) from None

    async def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = await self._answered(method, path, body, dict)
        return found

    async def _answered(self, method: str, path: str, body: dict[str, Any] | None, kind: type) -> Any:
        """The answer, which is an object or a list. Raises Down or Refused."""
        aiohttp = await _aiohttp()
        place = await self._where()
        assert self._http is not None
        try:
            async with self._http.request(
                method, place.url + path, json=body, headers=_headers(place), allow_redirects=False
            ) as answer:
                text = await answer.text()
                status, after = answer.status, answer.headers.get("Retry-After", "1")
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Down(_why(error, place), reached=False) from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Down(_why(error, place), reached=True) from None
        if status == 401 and not place.key and place.lock is not None:
            missing = f"The room needs its key, and {place.lock.parent / 'token'} is missing or empty."
            raise Refused(status, missing, "The room writes it again by itself: try again in a minute.")
        return _read(status, text, after, kind)


def _read(status: int, text: str, retry_after: str, kind: type = dict) -> Any:
    """The body of an answer. Raises Down or Refused."""
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    if 200 <= status < 300 and isinstance(data, kind):
        return data
    if status >= 500 and status != 503:
        raise Down(f"the room failed with {status}", reached=True)
    error = data.get("error") if isinstance(data, dict) else None
    fields = error if isinstance(error, dict) else {}
    wait = 1.0
    with suppress(ValueError):
        wait = min(max(float(retry_after), 0.1), 30.0)
    message = str(fields.get("message") or f"what answers there is not a room (HTTP {status})")
    raise Refused(status, message, str(fields.get("fix") or ""), wait, str(fields.get("code") or ""))


def _headers(place: Place) -> dict[str, str]:
    return {"X-API-Key": place.key} if place.key else {}


def _why(error: BaseException, place: Place) -> str:
    """One line about a failure, for people, without class names and addresses of objects. For a room that does not
    run it names the command that starts it."""
    inner = getattr(error, "os_error", None) or error
    if isinstance(inner, ConnectionRefusedError):
        start = f"; {place.start} starts it" if place.start else ""
        return f"nobody answers at {place.url}{start}"
    if isinstance(inner, TimeoutError):
        return "it did not answer in time"
    return str(getattr(inner, "strerror", None) or inner) or type(error).__name__


async def _aiohttp() -> Any:
    """aiohttp, imported in a thread, so that the prompt appears first."""
    return await asyncio.to_thread(importlib.import_module, "aiohttp")

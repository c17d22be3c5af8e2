"""Limits on connections: the time for a request, and the number without a credential.

Invariants:
- a connection has `header_s` seconds for its first request, and for each further one from its first byte on. Until
  that byte, aiohttp's keep-alive applies;
- at most `strangers` connections without a credential stay open. A new one replaces the oldest, so that they never
  keep out a caller with a credential;
- bytes that are not HTTP get an answer in the form of every refusal, and now and then a line in the log, never a
  traceback.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog
from aiohttp import web
from aiohttp.http_exceptions import ContentEncodingError, LineTooLong

from relay.faces.http.requests.errors import HttpRefusal, error_answer, refusal_answer
from relay.faces.http.requests.limits import Limits
from relay.model import Fault, Refusal

log = structlog.get_logger(__name__)
#: Seconds that a connection may stay open between two requests: longer than a usual proxy keeps it.
KEEPALIVE_S = 75.0
#: Seconds between two log lines of one kind.
SAY_EVERY_S = 60.0
#: Open files that are asked of the system at most, where it allows more: programs that look through all of theirs
#: when they start would take long.
MOST_FILES = 65_536
#: Content encodings of a request that the room unpacks.
ENCODINGS = ("gzip", "deflate")


class Seldom:
    """A log line for an event that may happen a thousand times a second: at once, then once a minute with the
    count."""

    def __init__(self, text: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._text, self._clock = text, clock
        self._next, self._count = 0.0, 0

    def say(self, **more: Any) -> None:
        self._count += 1
        now = self._clock()
        if now >= self._next:
            log.warning(self._text, times=self._count, **more)
            self._next, self._count = now + SAY_EVERY_S, 0


class ConnectionLimiter:
    """The connections that have shown no credential yet."""

    def __init__(self, limits: Limits) -> None:
        self.header_s = limits.header_s
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        part = MOST_FILES if files == resource.RLIM_INFINITY else files // 4
        self._most = min(limits.strangers, part)
        #: For `loop.create_server`, which takes as many at one time before the oldest is closed. With these two
        #: parts half of the files are left for the database, git and who has shown a credential.
        self.backlog = min(512, part)
        self._strangers: dict[Connection, None] = {}
        self.silent = Seldom("connections were closed that made no request in time")
        self._crowd = Seldom("connections without a credential were closed for newer ones")
        self.malformed = Seldom("requests were refused that are not HTTP as it should be")

    def factory(self, server: web.Server, **how: Any) -> Callable[[], Connection]:
        """For `loop.create_server`. `how`: as for `web.AppRunner`."""
        loop = asyncio.get_running_loop()
        return lambda: Connection(
            server, limiter=self, loop=loop, keepalive_timeout=KEEPALIVE_S, access_log=None, **how
        )

    def enter(self, connection: Connection) -> None:
        while len(self._strangers) >= self._most:
            oldest = next(iter(self._strangers))
            self.leave(oldest)
            oldest.force_close()
            self._crowd.say(limit=self._most)
        self._strangers[connection] = None

    def leave(self, connection: Connection) -> None:
        """It has gone, or has shown a credential."""
        self._strangers.pop(connection, None)


class Connection(web.RequestHandler):
    """One connection."""

    __slots__ = ("_limiter", "_timer")

    def __init__(self, manager: web.Server, *, limiter: ConnectionLimiter, **how: Any) -> None:
        super().__init__(manager, **how)
        self._limiter = limiter
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._limiter.enter(self)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._current_request is None and not self._messages:
            self._await_request()  # of which this is the beginning

    def connection_lost(self, exc: BaseException | None) -> None:
        self.spoke()
        self._limiter.leave(self)
        super().connection_lost(exc)

    def spoke(self) -> None:
        """It has made a whole request."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def trust(self) -> None:
        """It has shown a credential."""
        self._limiter.leave(self)

    def _await_request(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._limiter.header_s, self._expire)

    def _expire(self) -> None:
        self.force_close()
        self._limiter.silent.say(after_s=self._limiter.header_s)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status >= 500 or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        self._limiter.malformed.say(kind=type(exc).__name__, remote=request.remote)
        response = _refusal(status, exc)
        response.force_close()
        return response


def _refusal(status: int, exc: BaseException | None) -> web.Response:
    if isinstance(exc, ContentEncodingError):
        return refusal_answer(unsupported_encoding())
    if isinstance(exc, LineTooLong):
        return error_answer(
            status, "bad_request", "A line of the request is too long.", "Send shorter headers."
        )
    return error_answer(status, "bad_request", "The request is not valid HTTP.", "Speak HTTP/1.1.")


def unsupported_encoding() -> Refusal:
    """The refusal of a body in a content encoding that the room does not unpack."""
    known = ", ".join(ENCODINGS)
    return HttpRefusal(
        "The body has a Content-Encoding that this room does not support.",
        f"Send it without one, or with one of: {known}.",
        Fault.MALFORMED,
        "unsupported_encoding",
        headers={"Accept-Encoding": known},
    )


def spoke(request: web.Request) -> None:
    """A whole request came in on this connection."""
    if isinstance(request.protocol, Connection):
        request.protocol.spoke()


def trust(request: web.Request) -> None:
    """The request showed a credential."""
    if isinstance(request.protocol, Connection):
        request.protocol.trust()


def raise_open_files() -> int:
    """Let this process open as many files as the system allows it (up to `MOST_FILES`); gives that number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def tell_full_seldom(loop: asyncio.AbstractEventLoop) -> None:
    """Log once a minute that no more files can be opened: the loop would report it at each attempt to accept."""
    full = Seldom("no connection can be taken: too many files are open")

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE) and "socket" in context:
            full.say()
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)

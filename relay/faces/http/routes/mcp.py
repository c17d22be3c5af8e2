"""The MCP server over streamable HTTP, at `/mcp` of the daemon: the same tools, for callers with a key.

Invariants:
- the gate (relay/faces/http/requests/middleware.py) and the credential decide who asks, before the SDK sees the
  request. Nothing in the request's message changes that;
- no state is kept between requests (MCP 2025-06-18, "Transports, Session Management": a session id is optional), so
  a client goes on after a restart of the daemon. A wait ends with its connection, or when its caller cancels it;
- a call that may take long, or asks for progress, is answered as a stream of events; every other one as one JSON,
  which costs less;
- the SDK is imported at the first request, in a thread, so a daemon without MCP callers does not pay for it.

The SDK's session manager speaks ASGI; `_Exchange` is one request of aiohttp as ASGI 3.0, HTTP, sees it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import structlog
from aiohttp import web

from relay.faces.http.requests.errors import error_answer
from relay.faces.http.requests.middleware import CREDENTIAL
from relay.faces.http.requests.parsing import read_bytes
from relay.faces.http.requests.reader import RequestReader
from relay.faces.http.routes.operations import caller_of, session_of, sessions_differ
from relay.faces.services import Services
from relay.model import Caller

log = structlog.get_logger(__name__)
PATH = "/mcp"
#: The key of the caller in a request's ASGI scope.
CALLER = "relay.caller"
#: Bytes of a request: the SDK's own limit (DEFAULT_MAX_REQUEST_BODY_SIZE of mcp/server/transport_security.py).
MAX_BODY = 4 * 1024 * 1024
#: Seconds between two checks whether the client of a waiting request is still connected: aiohttp does not notify.
LOOK_S = 0.5

#: Methods that are answered at once.
_QUICK = ("initialize", "ping", "server/discover", "tools/list", "resources/list", "resources/templates/list")
Message = dict[str, Any]
Json = dict[str, Any]
#: A running request: its credential, its session, its JSON-RPC id.
Asked = tuple[str, str, str]


class McpRoutes:
    """The endpoint."""

    def __init__(self, services: Services, reader: RequestReader) -> None:
        self._services, self._reader = services, reader
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Any]
        self._stop = asyncio.Event()
        self._under_way: dict[Asked, list[_Exchange]] = {}

    def add_to(self, app: web.Application) -> None:
        """Add the endpoint to an application."""
        app.router.add_post(PATH, self.handle)
        app.on_shutdown.append(self._end_waits)
        app.cleanup_ctx.append(self._life)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        credential = request[CREDENTIAL]
        agent = self._reader.claimed(request, {})
        caller = caller_of(credential, agent, session=_session(request))
        body = await read_bytes(request, MAX_BODY, self._reader.limits.body_s)
        message = _message_of(body)
        method, id = _asked(message)
        if method == "notifications/cancelled":
            self._cancel(credential.key, caller.session, id)
        exchange = _Exchange(request, body, caller)
        asked = (credential.key, caller.session, id)
        self._under_way.setdefault(asked, []).append(exchange)
        try:
            whole, streaming, server = await self._running()
            if not _takes_time(message):
                from relay.faces.http.routes.mcp_once import answer_once, is_plain

                if is_plain(request, message):
                    return await answer_once(server, request, message, exchange)
            manager = streaming if _takes_time(message) else whole
            await manager.handle_request(exchange.scope, exchange.receive, exchange.send)
        finally:
            self._under_way[asked].remove(exchange)
            if not self._under_way[asked]:
                del self._under_way[asked]
        return exchange.answer()

    def _cancel(self, credential: str, session: str, id: str) -> None:
        """End the request that is cancelled. When two clients of one session use the same id, neither request ends,
        since it is not known which was meant."""
        meant = self._under_way.get((credential, session, id), [])
        if len(meant) == 1:
            meant[0].gone.set()

    async def _running(self) -> Any:
        """The SDK's parts (see `_managers`), which the first request starts."""
        if self._task is None or self._task.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._run(self._ready), name="mcp-http")
        return await asyncio.shield(self._ready)

    async def _run(self, ready: asyncio.Future[Any]) -> None:
        """Enter the managers and leave them in the same task, as their task groups require."""
        try:
            whole, streaming, server = await asyncio.to_thread(_managers, self._services)
            async with whole.run(), streaming.run():
                ready.set_result((whole, streaming, server))
                await self._stop.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise

    async def _end_waits(self, _app: web.Application) -> None:
        for exchanges in self._under_way.values():
            for exchange in exchanges:
                exchange.gone.set()

    async def _life(self, _app: web.Application) -> AsyncIterator[None]:
        yield
        self._stop.set()
        if self._task is not None:
            with contextlib.suppress(Exception):  # the request that met it has logged it
                await self._task


def _managers(services: Services) -> tuple[Any, Any, Any]:
    """The SDK's parts, whose import takes most of a second: the manager that answers with one JSON, the one that
    answers with a stream, and the server behind both."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    import relay.faces.http.routes.mcp_once  # noqa: F401 - for `handle`, which must not import on the loop
    from relay.faces.mcp.server import make_server
    from relay.faces.operations.registry import OPERATIONS

    async def asking(context: Any) -> tuple[Services, Caller]:
        return services, context.request.scope[CALLER]

    server = make_server(OPERATIONS, asking)
    whole, streaming = (
        StreamableHTTPSessionManager(
            server, stateless=True, max_request_body_size=MAX_BODY, json_response=as_json
        )
        for as_json in (True, False)
    )
    return whole, streaming, server


def _session(request: web.Request) -> str | None:
    """The session that the address or the header names. `Mcp-Session-Id` is the transport's own (MCP 2025-06-18,
    "Session Management") and names no session of relay."""
    sessions = request.query.getall("session_id", [])
    for other in sessions[1:]:
        if other != sessions[0]:
            raise sessions_differ(("session_id", sessions[0]), ("session_id", other))
    return session_of(request, sessions[0] if sessions else None)


def _message_of(body: bytes) -> Json:
    """The message as an object; empty when it is none: the SDK refuses it."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _of(message: Json, name: str) -> Json:
    """A field that is an object; an empty object when it is none."""
    field = message.get(name)
    return field if isinstance(field, dict) else {}


def _asked(message: Json) -> tuple[str, str]:
    """The method and the id of the message; for a cancellation, the id that it cancels."""
    method, id = str(message.get("method")), message.get("id")
    if method == "notifications/cancelled":
        id = _of(message, "params").get("requestId")
    return method, json.dumps(id)


def _takes_time(message: Json) -> bool:
    """Does it need a stream of events? A tool with `wait_seconds` may wait, and only a stream shows that its client
    has gone, or how the call goes on (MCP 2025-06-18, "Progress"). A method that is neither a tool call nor one of
    `_QUICK` gets a stream too."""
    params = _of(message, "params")
    if "progressToken" in _of(params, "_meta"):
        return True
    if message.get("method") == "tools/call":
        return bool(_of(params, "arguments").get("wait_seconds"))
    return message.get("method") not in _QUICK


class _Exchange:
    """One aiohttp request as an ASGI application sees it. `gone`: its client has gone, or is treated so."""

    def __init__(self, request: web.Request, body: bytes, caller: Caller) -> None:
        self._request, self._body = request, body
        self.gone = asyncio.Event()
        self._response: web.StreamResponse | None = None
        self._told = False
        #: Status, headers and body so far of an answer in one piece; status 0 = it is a stream.
        self._status, self._headers, self._whole = 0, [("", "")], b""
        self.scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.scheme,
            "path": request.path,
            "raw_path": request.path.encode(),
            "query_string": request.query_string.encode(),
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.raw_headers],
            "client": None,
            "server": None,
            "state": {},
            CALLER: caller,
        }

    async def receive(self) -> Message:
        """The body at first; then nothing until the client has gone."""
        if not self._told:
            self._told = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        while not self.gone.is_set():
            transport = self._request.transport
            if transport is None or transport.is_closing():
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Begin the answer, or send a further piece of it. Nothing is sent to a client that has gone."""
        if message["type"] == "http.response.start":
            headers = [
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in message.get("headers", ())
                if name.lower() not in (b"transfer-encoding", b"content-length")  # aiohttp's to say
            ]
            if not any(name.lower() == "content-type" and "event-stream" in value for name, value in headers):
                self._status, self._headers = message["status"], headers
                return
            self._response = web.StreamResponse(status=message["status"])
            self._response.headers.extend(headers)
            await self._response.prepare(self._request)
        elif self._status:
            self._whole += message.get("body", b"")
            if not message.get("more_body"):
                self._response = self._in_one()
        elif message["type"] == "http.response.body" and self._response is not None:
            try:
                if message.get("body"):
                    await self._response.write(message["body"])
                if not message.get("more_body"):
                    await self._response.write_eof()
            except ConnectionError:
                self.gone.set()

    def _in_one(self) -> web.Response:
        """The answer in one piece. A refusal of the SDK in plain text (a wrong Content-Type, say) gets the form that
        all refusals have."""
        kinds = [value for name, value in self._headers if name.lower() == "content-type"]
        if self._status < 400 or (kinds and kinds[0].startswith("application/json")):
            response = web.Response(status=self._status, body=self._whole)
            response.headers.popall("Content-Type", None)
            response.headers.extend(self._headers)
            return response
        why = self._whole.decode("utf-8", "replace").rstrip(".") or "The request is not an MCP message"
        fix = "Send one message of JSON-RPC as application/json (docs/mcp.md)."
        return error_answer(self._status, "bad_request", f"{why}.", fix)

    def answer(self) -> web.StreamResponse:
        """The answer. Raises ConnectionResetError when there is none, since the client has gone."""
        if self._response is None:
            raise ConnectionResetError("the caller has gone")
        return self._response

"""`relay mcp` without the database's address, which is the daemon's secret: it forwards to the room's `/mcp`.

Invariants:
- every request of the client gets an answer: the daemon's, or the structured `busy` while the daemon is away. The
  next request tries again, at the address that `.relay/state.json` has then;
- nothing is sent twice: the answer to a call that was cut off says so, since it may have been done;
- a request that its client cancels or leaves loses its connection, which ends it in the daemon too
  (relay/faces/http/routes/mcp.py). The notification itself is not forwarded: other processes of the session use the
  same ids.

The SDK's client transport is not used: it is bound to one address, and gives up where this one tries again. Its HTTP
client and its reader of event streams are used.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx2
import structlog
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from relay.app.mcp.parent_process import Record
from relay.app.runtime.identity import BadKey, Identity, NoWay, WrongUse, bad_key
from relay.base.terminal_text import json_line
from relay.config.command_line import command
from relay.config.settings import Settings
from relay.faces.mcp.stdio import encode
from relay.faces.terminal.find_room import running_at
from relay.model import Fault, Refusal
from relay.model.speaker_names import spelled

log = structlog.get_logger(__name__)
#: Where the daemon serves MCP (relay/faces/http/routes/mcp.py, PATH; not imported, since that loads all of HTTP).
PATH = "/mcp"
#: Seconds to reach the daemon: it is on this machine.
CONNECT_S = 5.0
#: Seconds without a word in the middle of an answer. The SDK's server pings every 15 s (_SSE_PING_INTERVAL of
#: mcp/server/_streamable_http_modern.py, DEFAULT_PING_INTERVAL of sse_starlette), so a wait for a lock is not cut.
SILENCE_S = 60.0
#: Seconds that the start waits for the daemon, to refuse a bad key at once: the start has 2 s in all.
CHECK_S = 1.0
#: Seconds that the end of the process takes to give back what its session holds.
END_S = 3.0
#: Longest name of a kind of agent that HTTP takes, in characters (relay/faces/http/routes/operations.py).
MAX_TYPE = 60

Tell = Callable[[Any], Awaitable[None]]


class DaemonRoom:
    """The room as the daemon shows it to one process. `why`: what keeps the process from the database itself."""

    def __init__(self, settings: Settings, identity: Identity, record: Record, why: Exception) -> None:
        self._settings, self._identity, self._why = settings, identity, why
        self._record = record
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(SILENCE_S, connect=CONNECT_S),
            # A connection for each call: one that is kept may end with the daemon while a call is on its way.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=False,  # no proxy stands between two processes of one machine
        )
        self._version: str | None = None
        self._entered = False
        self._beating: asyncio.Task[None] | None = None
        self._under_way: dict[Any, asyncio.Task[None]] = {}

    # -- the session

    async def enter(self) -> None:
        """Show the key, and begin the session. Raises NoWay, BadKey, WrongUse. A daemon that takes long is asked
        again at each call."""
        if self._identity.key is None:
            raise self._no_way(
                f"set RELAY_API_KEY ({command('keys create NAME')}), and the running room is asked"
            )
        try:
            async with asyncio.timeout(CHECK_S):
                answer = await self._session("heartbeat", **self._claims())
        except (_Away, httpx2.ConnectError):
            runs = command("run")
            raise self._no_way(f"start the room that gave you RELAY_API_KEY ({runs})") from None
        except (TimeoutError, httpx2.HTTPError) as error:
            log.warning("the key is not checked yet: the room is busy", error=repr(error))
        else:
            self._judge(answer)
            await self._note(answer)
        self._entered = True
        if self._identity.process:
            self._beating = asyncio.create_task(self._beat(), name="heartbeat")

    async def close(self) -> None:
        """End the session, if it is the process's own."""
        if self._beating is not None:
            self._beating.cancel()
        try:
            if self._entered and self._identity.process:
                async with asyncio.timeout(END_S):
                    (await self._session("end")).raise_for_status()
        except Exception as error:  # whatever it is, the process ends now
            log.warning("the session was not ended; its lease does that", error=repr(error))
        finally:
            await self._http.aclose()

    def _no_way(self, key_way: str) -> NoWay:
        return NoWay(f"{self._why}; or {key_way}.")

    def _claims(self) -> dict[str, str]:
        """What the environment says of the caller; the daemon compares it with the key."""
        identity, names = self._identity, self._settings.agent_names
        claims = {}
        if identity.agent is not None:
            claims["agent_id"] = spelled(identity.agent, names)
        if identity.agent_type is not None:
            claims["agent_type"] = identity.agent_type[:MAX_TYPE]
        return claims

    def _judge(self, answer: httpx2.Response) -> None:
        if answer.status_code == 401:
            raise BadKey(bad_key())
        if answer.status_code < 400:
            return
        payload = _json(answer.content)
        fields = payload if isinstance(payload, dict) else {}
        if fields.get("reason") == "foreign_identity":
            raise WrongUse(
                f"RELAY_API_KEY is another's: RELAY_AGENT_ID (or --agent) says {self._identity.agent}. "
                "Leave the name out, or use that agent's own key."
            )
        log.warning("the key is not checked yet", status=answer.status_code, reason=fields.get("reason"))

    async def _note(self, answer: httpx2.Response) -> None:
        """Write down whose the key is, for the hooks of the program's shells."""
        payload = _json(answer.content)
        agent = payload.get("agent_id") if isinstance(payload, dict) else None
        if self._record.agent is None and isinstance(agent, str):
            await asyncio.to_thread(self._record.name, agent)

    async def _beat(self) -> None:
        """Say that the process lives. What goes wrong is tried again: the lease has room for two."""
        leases = self._settings.coordination
        every = min(leases.process_lease_s, leases.session_lease_s) / 3
        while True:
            await asyncio.sleep(every)
            try:
                answer = await self._session("heartbeat")
                answer.raise_for_status()
                await self._note(answer)
            except Exception as error:  # the next beat is in time, whatever this was
                log.warning("no heartbeat", error=repr(error))

    async def _session(self, what: str, **body: str) -> httpx2.Response:
        url = await self._url()
        return await self._http.post(f"{url}/sessions/{what}", json=body, headers=self._who())

    async def _url(self) -> str:
        """Where the room is now: it may have come back on another port. Raises _Away."""
        url = await asyncio.to_thread(running_at, self._settings.runtime_dir)
        if url is None:
            raise _Away
        return url

    def _who(self) -> dict[str, str]:
        assert self._identity.key is not None, "enter() refuses to go without"
        return {"X-API-Key": self._identity.key, "X-Relay-Session": self._identity.session}

    # -- the wire

    async def run(self, reading: Any, writing: Any) -> None:
        """Carry messages until the client's end; as `stdio.serve` wants."""
        async with reading, writing, asyncio.TaskGroup() as tasks:
            async for sent in reading:
                message = sent.message
                if isinstance(message, JSONRPCRequest):
                    task = tasks.create_task(self._request(message, writing))
                    self._under_way[message.id] = task
                elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
                    self._cancel((message.params or {}).get("requestId"))
                elif isinstance(message, JSONRPCNotification):
                    tasks.create_task(self._notify(message))
                # An answer of the client has no question: the daemon's endpoint is stateless and never asks.
            for task in self._under_way.values():
                task.cancel()

    def _cancel(self, id: Any) -> None:
        task = self._under_way.pop(id, None) if isinstance(id, str | int) else None
        if task is not None:
            task.cancel()

    async def _request(self, message: JSONRPCRequest, writing: Any) -> None:
        async def tell(answer: Any) -> None:
            if message.method == "initialize" and isinstance(answer, JSONRPCResponse):
                self._version = str(answer.result.get("protocolVersion") or "") or None
            await writing.send(SessionMessage(answer))

        try:
            try:
                await self._exchange(message, tell)
            except Refusal as rejected:
                await tell(_refused(message, rejected.as_json()))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            log.debug("nobody reads the answer")
        finally:
            if self._under_way.get(message.id) is asyncio.current_task():
                del self._under_way[message.id]

    async def _notify(self, message: JSONRPCNotification) -> None:
        async def tell(answer: Any) -> None:
            log.debug("a notification was answered", told=answer)

        with contextlib.suppress(Refusal):  # nobody waits for it
            await self._exchange(message, tell)

    async def _exchange(self, message: JSONRPCRequest | JSONRPCNotification, tell: Tell) -> None:
        """Tell all that the daemon says to this, its answer last. Raises Refusal when there is none."""
        try:
            url = await self._url()
            async with self._http.stream(
                "POST", url + PATH, content=encode(message), headers=self._headers(message)
            ) as response:
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    async for event in httpx2.EventSource(response, max_event_size=None):
                        if event.data:
                            answer = jsonrpc_message_adapter.validate_json(event.data, by_name=False)
                            await tell(answer)
                            if isinstance(answer, JSONRPCResponse | JSONRPCError):
                                return
                    raise _cut_off()
                body = await response.aread()
        except (_Away, httpx2.ConnectError, httpx2.ConnectTimeout):
            raise Refusal(
                "The room is away now; nothing was done.", "Try again in a moment.", Fault.BUSY
            ) from None
        except (httpx2.HTTPError, OSError) as error:
            log.warning("the room was lost in the middle of a call", error=repr(error))
            raise _cut_off() from None
        if isinstance(message, JSONRPCRequest):
            await tell(_answer(message, response.status_code, body))

    def _headers(self, message: JSONRPCRequest | JSONRPCNotification) -> dict[str, str]:
        """MCP 2025-06-18, "Transports, Protocol Version Header"; from 2026-07-28 on each request says its own
        version, method and name, which the headers repeat."""
        headers = {
            **self._who(),
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        params = message.params or {}
        meta = params.get("_meta")
        version = meta.get(PROTOCOL_VERSION_META_KEY) if isinstance(meta, dict) else None
        if isinstance(version, str):
            headers[MCP_PROTOCOL_VERSION_HEADER] = encode_header_value(version)
            headers[MCP_METHOD_HEADER] = encode_header_value(message.method)
            name = params.get(NAME_BEARING_METHODS.get(message.method, ""))
            if isinstance(name, str):
                headers[MCP_NAME_HEADER] = encode_header_value(name)
        elif self._version is not None and message.method != "initialize":
            headers[MCP_PROTOCOL_VERSION_HEADER] = encode_header_value(self._version)
        return headers


class _Away(Exception):
    """No room runs, as far as its folder says."""


def _cut_off() -> Refusal:
    message = "The room was lost during this call: it may or may not have been done."
    return Refusal(message, "Check whether it was done, or try again in a moment.", Fault.BUSY)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _answer(message: JSONRPCRequest, status: int, body: bytes) -> Any:
    """The answer to a request out of one of HTTP: JSON-RPC as it is, a refusal of the daemon's gate as a result."""
    if status == 401:
        rejected = Refusal(bad_key(), "Set a valid RELAY_API_KEY.", Fault.FORBIDDEN, "bad_key")
        return _refused(message, rejected.as_json())
    payload = _json(body)
    if isinstance(payload, dict) and "jsonrpc" in payload:
        # A message that was refused before it was read has no id in its answer.
        with contextlib.suppress(ValueError):
            return jsonrpc_message_adapter.validate_python({**payload, "id": message.id}, by_name=False)
    if (
        isinstance(payload, dict)
        and payload.get("success") is False
        and isinstance(payload.get("message"), str)
    ):
        return _refused(message, payload)
    log.warning("an answer that is none", status=status, body=body[:200])
    text = f"The room gave no answer to this (HTTP {status})."
    return _refused(message, Refusal(text, "Try again in a moment.", Fault.BUSY).as_json())


def _refused(message: JSONRPCRequest, refusal: dict[str, Any]) -> JSONRPCResponse | JSONRPCError:
    """What was not done, as the answer to this request (docs/coordination.md, "Answers")."""
    if message.method != "tools/call":
        code = INTERNAL_ERROR if refusal.get("reason") in ("busy", "cut_off", "internal") else INVALID_REQUEST
        error = ErrorData(code=code, message=refusal["message"], data=refusal)
        return JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
    result = {
        "content": [{"type": "text", "text": json_line(refusal)}],
        "structuredContent": refusal,
        "isError": True,
    }
    if PROTOCOL_VERSION_META_KEY in ((message.params or {}).get("_meta") or {}):
        result["resultType"] = "complete"  # MCP 2026-07-28 wants it said
    return JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result)

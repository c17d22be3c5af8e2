"""A call of a tool that is answered at once, without the SDK's transport.

The SDK's stateless transport makes three tasks and four streams for each request, which costs as much as the lock
that is asked for. Its `serve_one` (one exchange, no stream), made for the revision 2026-07-28, serves the earlier
revisions too when the request is plain (`is_plain`). Every other request goes through the transport, which refuses
what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
from aiohttp import web
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_one
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import DEFAULT_NEGOTIATED_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

_TRANSPORT = TransportContext(kind="streamable-http", can_send_request=False)
_VERSION = "MCP-Protocol-Version"


def is_plain(request: web.Request, said: Mapping[str, Any]) -> bool:
    """Is it a call of a tool in the form that the revisions with a handshake require of JSON-RPC 2.0 and HTTP?"""
    return (
        said.get("method") == "tools/call"
        and said.get("jsonrpc") == "2.0"
        and type(said.get("id")) in (int, str)
        and type(said.get("params")) is dict
        and len(said) == 4
        and request.content_type == "application/json"
        and "application/json" in request.headers.get("Accept", "")
        and len(versions := request.headers.getall(_VERSION, [DEFAULT_NEGOTIATED_VERSION])) == 1
        and versions[0] in HANDSHAKE_PROTOCOL_VERSIONS
    )


async def answer_once(
    server: Server[Any], request: web.Request, said: Mapping[str, Any], asked: Any
) -> web.Response:
    """The answer to a plain call. `asked`: the request, as the server's handlers get it."""
    version = request.headers.get(_VERSION, DEFAULT_NEGOTIATED_VERSION)
    connection = Connection.from_envelope(version, None, None)
    response: dict[str, Any] = {"jsonrpc": "2.0", "id": said["id"]}
    try:
        response["result"] = await serve_one(
            server,
            _Exchange(said["id"], asked),
            said["method"],
            said["params"],
            connection=connection,
            lifespan_state={},
        )
    except Exception as error:
        known = handler_exception_to_error_data(error)
        if known is None:
            raise
        response["error"] = known.model_dump(by_alias=True, mode="json", exclude_unset=True)
    text = json.dumps(response, ensure_ascii=False, separators=(",", ":"))
    return web.Response(body=text.encode("utf-8", "replace"), content_type="application/json")


class _Exchange:
    """One request as the SDK's server sees it (`mcp.shared.dispatcher.DispatchContext`). Only the answer can be sent
    to the client."""

    transport = _TRANSPORT
    can_send_request = False

    def __init__(self, id: int | str, asked: Any) -> None:
        self.request_id = id
        self.message_metadata = ServerMessageMetadata(request_context=asked)
        self.cancel_requested = anyio.Event()

    async def send_raw_request(self, method: str, _params: Any, _opts: Any = None) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, _method: str, _params: Any, _opts: Any = None) -> None:
        return

    async def progress(self, _progress: float, _total: Any = None, _message: Any = None) -> None:
        return

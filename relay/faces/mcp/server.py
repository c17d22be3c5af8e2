"""The MCP server, made from the registry of operations (relay/faces/operations/registry.py; docs/mcp.md).

Invariants:
- it knows no operation by name: the declarations say what `tools/list` shows and what `tools/call` does;
- every call of a tool ends in a result whose structured content is an object, with the same JSON as text. A refusal
  of the domain is an ordinary result; every other failure has `isError`. No traceback and no internal detail reaches
  the client;
- it uses the SDK's low-level server, which passes on the list of tools and each answer unchanged.

Protocol: MCP 2025-06-18 and later, "Server Features, Tools" and "Resources".
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
import structlog
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

import relay
from relay.base.terminal_text import json_line
from relay.faces.failures import store_failed
from relay.faces.mcp import resources
from relay.faces.operations.json_schema import input_schema, listed_schema
from relay.faces.operations.operation import HEARD, Operation, perform
from relay.faces.services import Services
from relay.model import Caller, Fault, Refusal
from relay.model.pages import Page

log = structlog.get_logger(__name__)

Context = ServerRequestContext[Any, Any]
#: Gives the services and the caller of a request. Raises Refusal when they are not available now.
Asking = Callable[[Context], Awaitable[tuple[Services, Caller]]]

#: Seconds between two progress notifications of a long call.
PROGRESS_S = 5.0

INSTRUCTIONS = """\
relay coordinates the people and agents who work on this codebase.
- Before you edit files, acquire_lock on them (several, or a pattern); release_lock when done. If blocked, work on \
something else, wait with wait_seconds, or ask the holder with post_message. renew on long work, before expires_at.
- get_work claims the next task; end each with complete_work, success or not, or give it back with release_work.
- declare_intent says what you will touch soon; read_room and post_message are how you talk with the others.
- recall before you begin, remember what others should know. working_memory holds your plan until this conversation \
resumes; skill says which way works. explain says why you are blocked; help(topic) the rest.
success: false is an answer: its `fix` says what would succeed."""


def make_server(operations: Mapping[str, Operation], asking: Asking) -> Server[Any]:
    """A server whose tools are the operations with `tool` set, in the order of declaration."""
    listed = {name: operation for name, operation in operations.items() if operation.tool}
    shown = types.ListToolsResult(tools=[tool(operation) for operation in listed.values()])

    async def list_tools(_context: Context, _params: Any) -> types.ListToolsResult:
        return shown

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return await _call(listed, asking, context, params)

    async def list_resources(_context: Context, _params: Any) -> types.ListResourcesResult:
        return resources.LISTED

    async def list_templates(_context: Context, _params: Any) -> types.ListResourceTemplatesResult:
        return resources.TEMPLATES

    async def read_resource(
        context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await resources.read(str(params.uri), lambda: asking(context))

    server: Server[Any] = Server(
        "relay",
        title="relay",
        version=relay.__version__,
        instructions=INSTRUCTIONS,
        get_tool_input_schema=lambda name: input_schema(listed[name].request) if name in listed else None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )
    # The SDK's own is one that makes a span of each call, for a collector of traces that relay has not.
    server.middleware.clear()
    return server


def tool(operation: Operation) -> types.Tool:
    """The entry of `tools/list`. It has no output schema: the whole list has to fit a model's context, and the
    structured content explains itself."""
    hints = types.ToolAnnotations(read_only_hint=True) if operation.read_only else None
    if hints is None:
        hints = types.ToolAnnotations(destructive_hint=False)
    return types.Tool(
        name=operation.name,
        description=" ".join(operation.doc.split()),
        input_schema=listed_schema(operation.request),
        annotations=hints,
    )


async def _call(
    listed: Mapping[str, Operation],
    asking: Asking,
    context: Context,
    params: types.CallToolRequestParams,
) -> types.CallToolResult:
    name = params.name
    try:
        operation = listed.get(name)
        if operation is None:
            raise Refusal(
                f"There is no tool {name[:60]!r}.",
                f"The tools are: {', '.join(listed)}.",
                Fault.UNKNOWN,
                "unknown_tool",
            )
        services, caller = await asking(context)
        values = _without_session(caller, operation, params.arguments or {})
        async with _progress(context):
            return result(await _perform(services, caller, operation, values))
    except Refusal as rejected:
        return result(rejected.as_json(), error=rejected.fault is not Fault.REFUSED)
    except Exception as error:
        failure = store_failed(error)
        if failure is not None:
            return result(failure.as_json(), error=True)
        log.exception("a tool failed", tool=name)
        failed = Refusal(
            f"relay failed at {name}; its log has the cause.", "See its log.", Fault.BUSY, "internal"
        )
        return result(failed.as_json(), error=True)


def _without_session(caller: Caller, operation: Operation, values: dict[str, Any]) -> dict[str, Any]:
    """The arguments without a `session_id`, which HTTP takes as a field and a connection has already. Raises Refusal
    when the two differ: a lock that one session takes is not held by the other."""
    session = values.get("session_id")
    if session is None or "session_id" in operation.request.model_fields:
        return values
    if session != caller.session:
        named = str(session)[:128]
        raise Refusal(
            f"This connection is session {caller.session!r}, and session_id says {named!r}.",
            "Leave session_id out; the session is set by RELAY_SESSION_ID, over HTTP by X-Relay-Session.",
            Fault.MALFORMED,
            "sessions_differ",
            details={
                "sessions": [
                    {"by": "connection", "session": caller.session},
                    {"by": "session_id", "session": named},
                ]
            },
        )
    return {name: value for name, value in values.items() if name != "session_id"}


async def _perform(services: Services, caller: Caller, operation: Operation, values: dict[str, Any]) -> Any:
    try:
        return await perform(services, caller, operation, values)
    except Refusal as rejected:
        mended = _parsed(values, rejected)
        if mended is None:
            raise
        return await perform(services, caller, operation, mended)


@contextlib.asynccontextmanager
async def _progress(context: Context) -> AsyncIterator[None]:
    """Send progress notifications during the block, where the client asked for them: that the call goes on, and how a
    wait for a lock stands. Such a wait may take minutes."""
    if context.meta is None or context.meta.get("progress_token") is None:
        yield
        return

    text = "still waiting"
    news = asyncio.Event()

    def heard(sentence: str) -> None:
        nonlocal text
        text = sentence
        news.set()

    async def tell() -> None:
        began, progress = time.monotonic(), 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROGRESS_S):
                    await news.wait()
            news.clear()
            # It "MUST increase with each notification" (MCP 2025-06-18, "Progress"), also within a tenth of a second.
            progress = max(round(time.monotonic() - began, 1), round(progress + 0.01, 2))
            await context.session.report_progress(progress, message=text)

    telling = asyncio.create_task(tell(), name="progress")
    before = HEARD.set(heard)
    try:
        yield
    finally:
        HEARD.reset(before)
        telling.cancel()


def result(value: Any, *, error: bool = False) -> types.CallToolResult:
    """`value` as the result of a tool: an object as it is, a list under `result` (MCP 2025-06-18 requires an object),
    with the cursor of its next page beside it."""
    structured = value if isinstance(value, dict) else {"result": value}
    if isinstance(value, Page) and value.next is not None:
        structured |= {"next": value.next, "total": value.total}
    return types.CallToolResult(
        content=[types.TextContent(text=json_line(structured))], structured_content=structured, is_error=error
    )


def _parsed(values: Mapping[str, Any], rejected: Refusal) -> dict[str, Any] | None:
    """The same arguments, with lists and objects parsed that came as a JSON string, as models send them now and then.
    None when that was not the fault. Nothing has run yet: a malformed request never does."""
    mended = dict(values)
    for place in rejected.details.get("fields", ()) if rejected.fault is Fault.MALFORMED else ():
        text = values.get(place)
        if isinstance(text, str) and text.lstrip()[:1] in ("[", "{"):
            with contextlib.suppress(ValueError, RecursionError):
                mended[place] = json.loads(text)
    return mended if mended != values else None

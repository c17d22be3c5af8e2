"""The resources of MCP: locks, work, room, airspace and sessions as JSON, to be read without a tool.

Invariant: a resource shows what an operation would answer, to a caller with the scope `read`, and changes nothing but
the session's heartbeat.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

import mcp_types as types
import structlog
from mcp.shared.exceptions import MCPError

from relay.base.terminal_text import json_line
from relay.faces.failures import store_failed
from relay.faces.operations.operation import need
from relay.faces.operations.operation import read as validated
from relay.faces.services import Services
from relay.model import Caller, Fault, Refusal
from relay.model.pages import PAGE, Page

log = structlog.get_logger(__name__)
JSON = "application/json"
#: MCP 2025-06-18, "Resources, Error Handling".
NOT_FOUND = -32002


@dataclass(frozen=True, slots=True)
class Resource:
    """One address. An address with `{` is a template; the part that it leaves open goes to `read`."""

    uri: str
    name: str
    doc: str
    read: Callable[[Services, Caller, str], Awaitable[Any]]


RESOURCES = (
    Resource(
        "locks://current",
        "locks",
        f"The locks that hold now, those near yours first; {PAGE} at most, then locks://after/NEXT.",
        lambda s, c, _: s.locks.check(c, limit=PAGE),
    ),
    Resource(
        "locks://after/{next}",
        "more locks",
        "The locks after a cursor: next in _meta of the previous page.",
        lambda s, c, cursor: s.locks.check(c, limit=PAGE, cursor=cursor),
    ),
    Resource(
        "work://pending",
        "work",
        "The tasks that can be claimed now, first the one that comes next.",
        lambda s, c, _: s.work.pending(c),
    ),
    Resource(
        "work://all", "all work", "The tasks on the board, the first 100.", lambda s, c, _: s.work.list(c)
    ),
    Resource("room://recent", "room", "The newest messages of the room.", lambda s, c, _: s.room.read(c)),
    Resource(
        "airspace://state",
        "airspace",
        "Who is near whom in the code, and what was advised.",
        lambda s, c, _: s.room.airspace(c),
    ),
    Resource(
        "sessions://current",
        "sessions",
        "Who is here: the living sessions.",
        lambda s, c, _: s.sessions.list(c, limit=PAGE),
    ),
    Resource(
        "locks://status/{+path}",
        "lock status",
        "Who holds what overlaps this path, and who waits for it.",
        lambda s, c, path: s.locks.status(c, path),
    ),
    Resource(
        "work://all{?status,task_type,assignee,limit,cursor}",
        "some work",
        "The tasks of a status (open, done, pending, claimed, ...), a type, an assignee.",
        lambda s, c, query: _some_work(s, c, query),  # noqa: PLW0108 (it stands below)
    ),
    Resource("work://task/{task_id}", "task", "One task.", lambda s, c, id: s.work.task(c, id)),
)


async def _some_work(services: Services, caller: Caller, query: str) -> Any:
    """The answer of the operation `list_work` to these parameters. Raises Refusal."""
    from relay.faces.operations.tasks import list_work

    asked: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    with contextlib.suppress(ValueError, KeyError):
        asked["limit"] = int(asked["limit"])
    return await list_work.run(services, caller, validated(list_work, asked))


_PLAIN = {resource.uri: resource for resource in RESOURCES if "{" not in resource.uri}
_BY_PREFIX = {
    resource.uri.partition("{")[0] + ("?" if "{?" in resource.uri else ""): resource
    for resource in RESOURCES
    if "{" in resource.uri
}

LISTED = types.ListResourcesResult(
    resources=[
        types.Resource(uri=resource.uri, name=resource.name, description=resource.doc, mime_type=JSON)
        for resource in _PLAIN.values()
    ]
)
TEMPLATES = types.ListResourceTemplatesResult(
    resource_templates=[
        types.ResourceTemplate(
            uri_template=resource.uri, name=resource.name, description=resource.doc, mime_type=JSON
        )
        for resource in _BY_PREFIX.values()
    ]
)


async def read(
    uri: str, asking: Callable[[], Awaitable[tuple[Services, Caller]]]
) -> types.ReadResourceResult:
    """The contents. Raises MCPError with the structured refusal as its data."""
    try:
        resource, rest = find(uri)
        services, caller = await asking()
        need(caller, "read")
        await services.sessions.touch(caller)
        value = await resource.read(services, caller, rest)
    except Refusal as rejected:
        code = NOT_FOUND if rejected.fault is Fault.UNKNOWN else types.INVALID_PARAMS
        if rejected.fault in (Fault.BUSY, Fault.UNAVAILABLE):
            code = types.INTERNAL_ERROR
        raise MCPError(code, str(rejected), {"uri": uri, **rejected.as_json()}) from None
    except Exception as error:
        failure = store_failed(error)
        if failure is not None:
            raise MCPError(types.INTERNAL_ERROR, str(failure), {"uri": uri, **failure.as_json()}) from None
        log.exception("a resource failed", uri=uri)
        message = f"relay failed at {uri}; see its log."
        raise MCPError(types.INTERNAL_ERROR, message, {"uri": uri, "reason": "internal"}) from None
    meta = {"next": value.next, "total": value.total} if isinstance(value, Page) else None
    text = types.TextResourceContents(uri=uri, mime_type=JSON, text=json_line(value), _meta=meta)
    return types.ReadResourceResult(contents=[text])


def find(uri: str) -> tuple[Resource, str]:
    """The resource of an address, and the part of it that the template leaves open. Raises Refusal(UNKNOWN)."""
    if uri in _PLAIN:
        return _PLAIN[uri], ""
    for prefix, resource in _BY_PREFIX.items():
        if uri.startswith(prefix) and len(uri) > len(prefix):
            rest = uri[len(prefix) :]
            return resource, rest if prefix.endswith("?") else unquote(rest)
    addresses = ", ".join(known.uri for known in RESOURCES)
    raise Refusal(
        f"There is no resource {uri[:100]!r}.", f"There are: {addresses}.", Fault.UNKNOWN, "unknown_resource"
    )

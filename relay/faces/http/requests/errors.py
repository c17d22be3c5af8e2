"""Every refusal over HTTP is JSON: `{"success": false, "reason", "message", "fix", "error": {...}}`.

Invariant: no exception leaves the middleware. An unexpected one is logged with its traceback, and the caller gets 500
without any detail.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from relay.config.command_line import command
from relay.faces.failures import store_failed
from relay.model import CUT_OFF, Fault, Refusal

log = structlog.get_logger(__name__)
#: Seconds that a look at the room takes at most while the database does not answer.
CUT_OFF_S = 4.0


class HttpRefusal(Refusal):
    """A refusal whose answer has headers of its own."""

    def __init__(
        self,
        message: str,
        fix: str,
        fault: Fault,
        code: str = "",
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(message, fix, fault, code, details=details)
        self.headers = headers


#: The HTTP status of each kind of refusal (docs/coordination.md, "Answers"). `refused` is an answer and no error.
STATUS = {
    Fault.REFUSED: 200,
    Fault.MALFORMED: 400,
    Fault.FORBIDDEN: 403,
    Fault.UNKNOWN: 404,
    Fault.BUSY: 503,
    # Without Retry-After: it does not help to ask again before a person has mended it.
    Fault.UNAVAILABLE: 503,
}
#: Codes for which HTTP has a status.
STATUS_OF_CODE = {
    "bad_key": 401,
    "bad_link": 401,
    "no_credential": 401,
    "timeout": 408,
    "too_large": 413,
    "unsupported_encoding": 415,
    "too_many": 429,
}
_RETRY = {"Retry-After": "1"}
#: Kept, since `json.dumps` makes another one for each answer.
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

#: Refusals of aiohttp itself: code, message and fix.
_PLAIN = {
    400: ("bad_request", "The request cannot be read.", ""),
    404: ("not_found", "There is nothing here.", "GET /openapi.json lists the paths."),
    405: (
        "method_not_allowed",
        "This path does not allow that method.",
        "The header Allow names the allowed ones.",
    ),
    413: ("too_large", "The request is too large.", "Send less."),
}


def packed(data: Any) -> web.Response:
    """`data` as JSON, compressed for who takes that: what a page loads at its start, and no answer with a secret."""
    response = answer(data)
    response.enable_compression()
    return response


def answer(data: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """`data` as JSON."""
    text = _JSON.encode(data)
    return web.Response(
        # A lone surrogate, which JSON can carry and UTF-8 cannot, must not turn an answer into an error.
        body=text.encode("utf-8", "replace"),
        status=status,
        headers={**(headers or {}), "Content-Type": "application/json; charset=utf-8"},
    )


def error_answer(
    status: int, code: str, message: str, fix: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A refusal in the form that all have, with this status."""
    return answer(Refusal(message, fix, code=code).as_json(), status=status, headers=headers)


def status_of(error: Refusal) -> int:
    """The HTTP status of a refusal."""
    return STATUS_OF_CODE.get(error.code, STATUS[error.fault])


def refusal_answer(error: Refusal) -> web.Response:
    """A refusal as HTTP says it."""
    headers = error.headers if isinstance(error, HttpRefusal) else _RETRY if error.fault is Fault.BUSY else {}
    return answer(error.as_json(), status=status_of(error), headers=headers)


def refusal(error: BaseException) -> web.Response | None:
    """The answer to a foreseen exception; None for any other."""
    if isinstance(error, Refusal):
        return refusal_answer(error)
    if isinstance(error, web.HTTPException):
        code, message, fix = _PLAIN.get(error.status, (f"http_{error.status}", error.reason, ""))
        headers = {name: value for name, value in error.headers.items() if name in ("Allow", "Location")}
        return error_answer(error.status, code, message, fix, headers)
    # A file of the room's, and no database, may be what an OSError is about here.
    failed = None if isinstance(error, OSError) else store_failed(error)
    return None if failed is None else refusal_answer(failed)


def soon(cut_off: Callable[[], bool]) -> Any:
    """The middleware around all others: while the database does not answer, a look at the room waits for it
    `CUT_OFF_S` only. What changes something is never given up here: it would not be known whether it was done."""

    @web.middleware
    async def looks(request: web.Request, handler: Handler) -> web.StreamResponse:
        socket = request.path == "/ws"
        if request.method != "GET" or not (socket or request.path.startswith("/api/")) or not cut_off():
            return await handler(request)
        if not socket:
            try:
                async with asyncio.timeout(CUT_OFF_S) as limit:
                    return await handler(request)
            except TimeoutError:
                if not limit.expired():
                    raise
        # Told before it is known who asks, so no place of this machine is in it.
        message = "This relay is cut off from the room's database, which does not answer."
        fix = "It goes on by itself. If it does not, look at this machine's network and at the server."
        return refusal_answer(Refusal(message, fix, Fault.BUSY, CUT_OFF))

    return looks


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn what a handler raises into an answer."""
    try:
        return await handler(request)
    except ConnectionError:
        raise  # the caller has gone: there is nobody to answer
    except Exception as error:
        response = refusal(error)
        if response is not None:
            return response
        log.exception("request failed", method=request.method, route=route_name(request))
    return error_answer(
        500,
        "internal",
        "The room failed at this; its log has the cause.",
        f"See {command('log')}.",
    )


def route_name(request: web.Request) -> str:
    """The path as the table of routes has it: fit for a log, since it holds nothing that the caller wrote."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "-"

"""Every refusal of the HTTP doors is JSON: `{"success": false, "reason", "message", "fix", "error": {...}}`.

Invariant: nothing leaves a handler as an exception, and what was not foreseen tells its inside to the log
only: the caller gets 500 and no detail.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from relay.config.command_line import command
from relay.faces.failures import store_failed
from relay.model import Fault, Rejected

log = structlog.get_logger(__name__)


class ApiError(Exception):
    """A refusal: HTTP `status`, a `code` for programs, `message` and `fix` for people, `details` for more fields."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        fix: str = "",
        headers: Mapping[str, str] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.fix = status, code, message, fix
        self.headers = dict(headers or {})
        self.details = dict(details or {})

    def response(self) -> web.Response:
        """This refusal as an answer."""
        data = {"success": False, "reason": self.code, "message": self.message, "fix": self.fix}
        error = {"code": self.code, "message": self.message, "fix": self.fix}
        return answer({**data, **self.details, "error": error}, status=self.status, headers=self.headers)


@runtime_checkable
class RoomRefusal(Protocol):
    """What the room raises (`RoomError`): a code of `STATUS` or `refused`, a message and a fix."""

    code: str
    message: str
    fix: str


#: The room's codes -> HTTP. `refused` is no error but an answer: 200 with `success: false`.
STATUS = {
    "bad_request": 400,
    "reserved": 403,
    "not_found": 404,
    "too_large": 413,
    "busy": 503,
    "unavailable": 503,
}

#: What an operation answers that was not done -> HTTP (docs/coordination.md, "Answers").
FAULTS = {
    Fault.REFUSED: 200,
    Fault.MALFORMED: 400,
    Fault.UNKNOWN: 404,
    Fault.FORBIDDEN: 403,
    Fault.BUSY: 503,
    # Without Retry-After: it does not help to ask again before a person has mended it.
    Fault.UNAVAILABLE: 503,
}
#: Codes that HTTP has a status of its own for.
_OWN_STATUS = {"too_many": 429, "too_large": 413, "bad_key": 401}

#: What aiohttp itself refuses.
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


def answer(data: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """`data` as JSON."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return web.Response(
        # A lone surrogate, which JSON can carry and UTF-8 cannot, must not turn an answer into an error.
        body=text.encode("utf-8", "replace"),
        status=status,
        headers={**(headers or {}), "Content-Type": "application/json; charset=utf-8"},
    )


def refusal(error: BaseException) -> web.Response | None:
    """The answer to a foreseen exception; None for any other."""
    if isinstance(error, ApiError):
        return error.response()
    if isinstance(error, Rejected):
        status = _OWN_STATUS.get(error.code, FAULTS[error.fault])
        headers = {"Retry-After": "1"} if error.fault is Fault.BUSY else {}
        return answer(error.as_json(), status=status, headers=headers)
    if isinstance(error, web.HTTPException):
        code, message, fix = _PLAIN.get(error.status, (f"http_{error.status}", error.reason, ""))
        kept = {name: value for name, value in error.headers.items() if name in ("Allow", "Location")}
        return ApiError(error.status, code, message, fix, kept).response()
    # A file of the room's, and no database, may be what an OSError is about here.
    told = None if isinstance(error, OSError) else store_failed(error)
    if told is not None:
        return refusal(told)
    if isinstance(error, RoomRefusal):
        if error.code == "refused":
            return answer({"success": False, "reason": error.message, "fix": error.fix})
        if error.code in STATUS:
            headers = {"Retry-After": "1"} if error.code == "busy" else {}
            return ApiError(STATUS[error.code], error.code, error.message, error.fix, headers).response()
    return None


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
    return ApiError(
        500,
        "internal",
        "The room failed at this; its log has the cause.",
        f"See {command('log')}.",
    ).response()


def route_name(request: web.Request) -> str:
    """The path as the table of routes has it: fit for a log, since it holds nothing that the caller wrote."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "-"

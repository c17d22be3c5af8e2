"""The middleware that every request passes before its handler.

Invariants:
- a request needs a credential unless its handler is in `open_to_all`;
- a request under a host name that is not ours is refused (a foreign site whose name was pointed at this
  address, "DNS rebinding"), and so is one that a page of another origin makes, on HTTP and WebSocket alike;
- an API key can do no more than its scopes allow, on every route (`relay.faces.http.requests.key_scopes`);
- every answer, also a refusal, carries the headers that keep a page from doing more than ours does;
- no query string, header or body reaches the log.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from relay.access import page_sessions
from relay.config.settings import UiSettings
from relay.faces.http.requests.auth import Auth, Credential
from relay.faces.http.requests.connections import spoke, trust
from relay.faces.http.requests.errors import HttpRefusal, errors, route_name
from relay.faces.http.requests.key_scopes import check
from relay.faces.http.requests.limits import Buckets, Limits
from relay.model import Fault, Refusal

log = structlog.get_logger(__name__)
_LOGGER = logging.getLogger(__name__)

CREDENTIAL = web.RequestKey("credential", Credential)

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
OF_A_PAGE = {
    "Content-Security-Policy": CSP,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
#: What is no page may do nothing, and can open nothing.
OF_OTHERS = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]/@\s]+)(?::([0-9]{1,5}))?")
_EVERYWHERE = ("0.0.0.0", "::", "")


@dataclass(frozen=True, slots=True)
class Hosts:
    """The host names under which this room may be asked; `named` ones under any port (a proxy's)."""

    own: frozenset[str]
    named: frozenset[str]

    @classmethod
    def of(cls, ui: UiSettings) -> Hosts:
        own = {"127.0.0.1", "localhost", "[::1]"}
        if ui.host not in _EVERYWHERE:
            own.add(_bracketed(ui.host))
        return cls(frozenset(own), frozenset(_bracketed(name) for name in ui.allowed_hosts))

    def allow(self, host: str, address: str, port: int) -> bool:
        """May a request say `Host: host` on a connection that came in at `address` and `port`?

        The address itself may always be named: no foreign site can be reached under it.
        """
        match = _HOST.fullmatch(host.lower())
        if match is None:
            return False
        name, named_port = match.groups()
        if name in self.named:
            return True
        return int(named_port or 80) == port and (name in self.own or name == _bracketed(address))


def _bracketed(name: str) -> str:
    name = name.lower().removeprefix("::ffff:").split("%")[0]
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


def same_origin(origin: str, host: str) -> bool:
    """Is `origin` (a header) a page of ours? Nobody else can serve one under our host and port."""
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def local_address(request: web.Request) -> tuple[str, int]:
    """Address and port where the request came in."""
    transport = request.transport
    name: Any = transport.get_extra_info("sockname") if transport is not None else None
    if not isinstance(name, tuple):
        raise ConnectionResetError("the caller has gone")
    return str(name[0]), int(name[1])


def cookie_name(request: web.Request) -> str:
    """Two rooms on one machine are one site to a browser: cookies know no ports, so the name does."""
    return f"relay_{local_address(request)[1]}"


def set_cookie(request: web.Request, response: web.StreamResponse, secret: str) -> None:
    """Give the browser its session."""
    response.set_cookie(
        cookie_name(request),
        secret,
        max_age=int(page_sessions.SESSION_S),
        path="/",
        httponly=True,
        samesite="Strict",
        secure=request.secure,
    )


class Gate:
    """The middleware of all routes, around `errors`."""

    def __init__(self, auth: Auth, hosts: Hosts, limits: Limits, open_to_all: Collection[Handler]) -> None:
        self._auth, self._hosts = auth, hosts
        self._open = frozenset(open_to_all)
        self._requests = Buckets(limits.requests)
        self._refused = Buckets(limits.refused)

    def middlewares(self) -> list[Any]:
        return [_access_log, errors, self._pass]

    @web.middleware
    async def _pass(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._check_site(request)
        if request.match_info.handler in self._open:
            return await handler(request)
        credential = await self._credential(request)
        wait = self._requests.take(credential.key)
        if wait:
            raise too_many(wait)
        request[CREDENTIAL] = credential
        trust(request)
        check(credential, request.method, route_name(request))
        response = await handler(request)
        if credential.renewed and not response.prepared:
            set_cookie(request, response, request.cookies[cookie_name(request)])
        return response

    def _check_site(self, request: web.Request) -> None:
        host = request.headers.get("Host", "")
        if not self._hosts.allow(host, *local_address(request)):
            raise Refusal(
                "This room is not reached under that host name.",
                "Use the address that `relay link` prints, or add the name to ui.allowed_hosts.",
                Fault.FORBIDDEN,
                "foreign_host",
            )
        origins = request.headers.getall("Origin", [])
        if any(not same_origin(origin, host) for origin in origins):
            raise Refusal(
                "A page of another site made this request.",
                "Use the room's own page.",
                Fault.FORBIDDEN,
                "foreign_origin",
            )

    async def _credential(self, request: web.Request) -> Credential:
        credential: Credential | None = None
        key = _key(request)
        if key is not None:
            credential = await self._auth.of_key(key)
        elif cookie := request.cookies.get(cookie_name(request)):
            credential = await self._auth.of_cookie(cookie)
        if credential is not None:
            return credential
        wait = self._refused.take(request.remote or "")
        if wait:
            raise too_many(wait)
        message = "This needs a key." if key is None else "This key is unknown, expired or revoked."
        # By the bare name: an answer to a stranger names no path of this machine.
        fix = (
            "Send X-API-Key with a key that `relay keys create NAME` made or the text of .relay/token, or sign in "
            "with the link that `relay link` prints."
        )
        raise HttpRefusal(
            message, fix, Fault.FORBIDDEN, "no_credential", headers={"WWW-Authenticate": "Bearer"}
        )


def _key(request: web.Request) -> str | None:
    """The key that a program sent. Who sends one is judged by it, whatever cookie comes along."""
    key = request.headers.get("X-API-Key")
    if key is not None:
        return key.strip()
    scheme, _, rest = request.headers.get("Authorization", "").partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else None


def too_many(wait_s: float) -> Refusal:
    """A 429 that says when to come again."""
    seconds = max(1, -int(-wait_s // 1))
    return HttpRefusal(
        "Too many requests.",
        f"Wait {seconds} s.",
        Fault.BUSY,
        "too_many",
        headers={"Retry-After": str(seconds)},
    )


async def secure(_request: web.Request, response: web.StreamResponse) -> None:
    """For `on_response_prepare`: the headers that every answer has."""
    response.headers.update(SECURITY_HEADERS)
    # That a page's file has not changed is said without a type: its handler has said what binds it.
    for name, value in (OF_A_PAGE if response.content_type == "text/html" else OF_OTHERS).items():
        response.headers.setdefault(name, value)
    # What is kept for ever is never compared, nor read in parts.
    kept = "immutable" in response.headers.setdefault("Cache-Control", "no-store")
    for name in ("Server", "Etag", "Last-Modified", "Accept-Ranges") if kept else ("Server",):
        response.headers.pop(name, None)


@web.middleware
async def _access_log(request: web.Request, handler: Handler) -> web.StreamResponse:
    spoke(request)
    if not _LOGGER.isEnabledFor(logging.DEBUG):
        return await handler(request)
    began = time.monotonic()
    status = 0
    try:
        response = await handler(request)
        status = response.status
        return response
    finally:
        credential = request.get(CREDENTIAL)
        log.debug(
            "request",
            method=request.method,
            route=route_name(request),
            status=status,
            ms=round((time.monotonic() - began) * 1000, 1),
            remote=request.remote,
            by=str(credential.kind) if credential is not None else None,
        )

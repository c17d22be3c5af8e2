"""The routes of signing in: a link or a key for a cookie, and links for others.

Invariant: wrong tries are limited by address. Signing out ends the session and closes its sockets.
"""

from __future__ import annotations

from aiohttp import web

from relay.access import page_sessions
from relay.config.command_line import command
from relay.faces.http.hub import Hub
from relay.faces.http.requests.auth import Auth
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.limits import Buckets, Limits
from relay.faces.http.requests.middleware import (
    CREDENTIAL,
    cookie_name,
    set_cookie,
    too_many,
)
from relay.faces.http.requests.parsing import Body, bad, read_body
from relay.faces.http.websocket import SIGNED_OUT
from relay.model import Fault, Refusal


class SignInRoutes:
    """The handlers. `hub` has the sockets that a sign-out closes."""

    def __init__(self, auth: Auth, hub: Hub, limits: Limits) -> None:
        self._auth, self._hub, self._limits = auth, hub, limits
        self._sign_ins = Buckets(limits.sign_ins)

    def table(self) -> list[web.RouteDef]:
        return [
            web.post("/api/sign-in", self.sign_in),
            web.post("/api/sign-out", self.sign_out),
            web.post("/api/links", self.new_link),
        ]

    async def sign_in(self, request: web.Request) -> web.Response:
        remote = request.remote or ""
        # Taken before the look, so that guesses at once are counted at once; a good one is not counted.
        wait = self._sign_ins.take(remote)
        if wait:
            raise too_many(wait)
        body = await self._body(request, "link", "key", optional=False)
        link, key = body.maybe_text("link"), body.maybe_text("key")
        if (link is None) == (key is None):
            raise bad("A sign-in needs a link or a key.", 'Send {"link": "..."} or {"key": "..."}.')
        secret = await self._auth.sign_in(link=link, key=key)
        if secret is None and link is not None:
            raise Refusal(
                "This link was used already or has expired.",
                f"Run {command('link')} for another one.",
                Fault.FORBIDDEN,
                "bad_link",
            )
        if secret is None:
            raise Refusal(
                "This key is not the room's.", "It is the text of .relay/token.", Fault.FORBIDDEN, "bad_key"
            )
        self._sign_ins.give_back(remote)
        response = answer({"ok": True})
        set_cookie(request, response, secret)
        return response

    async def sign_out(self, request: web.Request) -> web.Response:
        await self._body(request)
        credential = request[CREDENTIAL]
        await self._auth.sign_out(credential)
        response = answer({"ok": True})
        if request.cookies.get(cookie_name(request)):
            self._hub.cut_off(SIGNED_OUT, credential.key)
            response.del_cookie(cookie_name(request), path="/", httponly=True, samesite="Strict")
        return response

    async def new_link(self, request: web.Request) -> web.Response:
        await self._body(request)
        secret = await self._auth.new_link()
        url = f"{request.scheme}://{request.headers['Host']}/#link={secret}"
        return answer({"url": url, "expires_in_s": int(page_sessions.LINK_S)})

    async def _body(self, request: web.Request, *fields: str, optional: bool = True) -> Body:
        limits = self._limits
        return await read_body(
            request, fields, limit=limits.body_bytes, within_s=limits.body_s, optional=optional
        )

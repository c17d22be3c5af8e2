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
from relay.faces.http.requests.limits import Buckets
from relay.faces.http.requests.middleware import CREDENTIAL, cookie_name, set_cookie, too_many
from relay.faces.http.requests.parsing import bad
from relay.faces.http.requests.reader import RequestReader
from relay.faces.http.websocket import SIGNED_OUT
from relay.model import Fault, Refusal


class SignInRoutes:
    """The handlers. `hub` has the sockets that a sign-out closes."""

    def __init__(self, auth: Auth, hub: Hub, reader: RequestReader) -> None:
        self._auth, self._hub, self._reader = auth, hub, reader
        self._sign_ins = Buckets(reader.limits.sign_ins)

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
        body = await self._reader.exact_body(request, "link", "key")
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
        await self._reader.exact_body(request, optional=True)
        credential = request[CREDENTIAL]
        await self._auth.sign_out(credential)
        response = answer({"ok": True})
        if request.cookies.get(cookie_name(request)):
            self._hub.cut_off(SIGNED_OUT, credential.key)
            response.del_cookie(cookie_name(request), path="/", httponly=True, samesite="Strict")
        return response

    async def new_link(self, request: web.Request) -> web.Response:
        await self._reader.exact_body(request, optional=True)
        secret = await self._auth.new_link()
        url = f"{request.scheme}://{request.headers['Host']}/#link={secret}"
        return answer({"url": url, "expires_in_s": int(page_sessions.LINK_S)})

"""What the routes share that people use: a request's body, and the name that it is made under."""

from __future__ import annotations

from collections.abc import Callable, Collection

from aiohttp import web

from relay.faces.http.requests.auth import owner, speaker
from relay.faces.http.requests.limits import Limits
from relay.faces.http.requests.middleware import CREDENTIAL
from relay.faces.http.requests.parsing import Body, read_body

#: The fields in which any of these requests may say who makes it.
WHO = ("name", "agent_id")


class PersonRoutes:
    """`reserved` gives the names that no person uses. Who runs the room makes a request that names nobody."""

    def __init__(self, reserved: Callable[[], Collection[str]], limits: Limits | None = None) -> None:
        self._reserved, self._limits, self._owner = reserved, limits or Limits(), owner()

    async def _body(
        self, request: web.Request, *fields: str, limit: int | None = None, optional: bool = False
    ) -> Body:
        """The body: an object of these fields and `WHO`. `limit` in bytes; `optional`: it may be missing. Raises
        Refusal."""
        most = self._limits.body_bytes if limit is None else limit
        return await read_body(
            request, (*fields, *WHO), limit=most, within_s=self._limits.body_s, optional=optional
        )

    def _by(self, request: web.Request, body: Body) -> str:
        """The name that the request is made under. Raises Refusal."""
        claims = {field: body.maybe_text(field) for field in WHO}
        return speaker(request[CREDENTIAL], claims, self._reserved(), self._owner)

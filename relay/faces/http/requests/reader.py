"""The body and the speaker of a request, as all routes read them."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from relay.config.settings import LiveSettings
from relay.faces.http.requests.auth import owner, speaker
from relay.faces.http.requests.limits import Limits
from relay.faces.http.requests.middleware import CREDENTIAL
from relay.faces.http.requests.parsing import Body, check_known, read_values
from relay.model import RESERVED_NAMES, Fault, Refusal
from relay.model.speaker_names import MAX_NAME

#: Fields that name the speaker. Every writing request may have them.
SPEAKER = ("name", "agent_id")


class RequestReader:
    """Reads bodies within the limits. `settings` know the agents, whose names no person takes. A request that names
    no speaker speaks for the person who runs the room."""

    def __init__(self, settings: LiveSettings, limits: Limits | None = None) -> None:
        self.settings = settings
        self.limits = limits or Limits()
        self.owner = owner()

    @property
    def reserved(self) -> frozenset[str]:
        """The names that no person has: the room's and the agents'."""
        return RESERVED_NAMES.union(self.settings.current.agent_names)

    async def body(
        self, request: web.Request, *fields: str, limit: int | None = None, optional: bool = False
    ) -> Body:
        """The body: an object of these fields and `SPEAKER`. `limit` in bytes, None = the usual; `optional`: it may
        be missing. Raises Refusal."""
        return await self.exact_body(request, *fields, *SPEAKER, limit=limit, optional=optional)

    async def exact_body(
        self, request: web.Request, *fields: str, limit: int | None = None, optional: bool = False
    ) -> Body:
        """The body: an object of these fields alone."""
        most = self.limits.body_bytes if limit is None else limit
        values = await read_values(request, limit=most, within_s=self.limits.body_s, optional=optional)
        check_known("field", values, fields)
        return Body(values)

    def speaker(self, request: web.Request, body: Body) -> str:
        """The speaker that the body names in `SPEAKER`. Raises Refusal."""
        return self.claimed(request, {field: body.maybe_text(field) for field in SPEAKER})

    def claimed(self, request: web.Request, claims: Mapping[str, str | None], *, most: int = MAX_NAME) -> str:
        """The name that the request's credential speaks under; see `auth.speaker`. Raises Refusal."""
        return speaker(request[CREDENTIAL], claims, self.reserved, self.owner, most=most)


def only_person(request: web.Request, does: str, fix: str = "Use the room's token.") -> None:
    """Raises Refusal for an agent's key. `does`: what only a person does."""
    if not request[CREDENTIAL].person:
        message = f"Only a person {does}, and this is an agent's key."
        raise Refusal(message, fix, Fault.FORBIDDEN, "scope")

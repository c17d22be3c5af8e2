"""The routes for what agents ask people for (docs/airspace.md): the open requests, and a person's answer.

Invariant: an answer is an action of that person in the room, so everybody sees who allowed what.
"""

from __future__ import annotations

from aiohttp import web

from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Query, bad
from relay.faces.http.requests.reader import RequestReader
from relay.model import Fault, Refusal, references
from relay.model.actions import Permit
from relay.room.dispatch.permissions import PermissionBroker
from relay.room.person_actions import PersonActions


class PermissionRoutes:
    """The handlers. `desk` has the open requests; `actions` takes a person's answer."""

    def __init__(self, desk: PermissionBroker, actions: PersonActions, reader: RequestReader) -> None:
        self._desk, self._actions, self._reader = desk, actions, reader

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/permissions", self.list),
            web.post("/api/permissions/{request}", self.decide),
        ]

    async def list(self, request: web.Request) -> web.Response:
        """`{requests: [...]}`, the oldest first."""
        Query(request)
        return answer({"requests": [request.as_json() for request in self._desk.pending]})

    async def decide(self, request: web.Request) -> web.Response:
        """`{option}` -> `{success, reason}`."""
        body = await self._reader.body(request, "option")
        wanted, by = body.text("option"), self._reader.speaker(request, body)
        id = request.match_info["request"]
        pending = next((waiting for waiting in self._desk.pending if waiting.id == id), None)
        if pending is None:
            raise Refusal(
                "There is no such open request: it was answered or has expired.",
                "GET /api/permissions.",
                Fault.UNKNOWN,
            )
        for place, option in enumerate(pending.options, 1):
            if option.id == wanted:
                # By its place: an option's id is the agent's own text, and the room shows the action.
                asked = references.request(pending.number)
                action = Permit(asked, str(place), allow=option.kind.startswith("allow"))
                return answer((await self._actions.act(action, by=by)).as_json())
        known = ", ".join(option.id for option in pending.options)
        raise bad(f"option is {wanted[:40]!r}.", f"One of: {known}.")

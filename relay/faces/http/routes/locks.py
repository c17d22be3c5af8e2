"""The page's routes to what agents hold: locks and sessions, and a person's forced release.

Invariant: a forced release is a person's, never an agent's key's; it is an action of that person in the room, so
everybody sees who took what from whom, and why. (Programs have `/locks/...`: docs/coordination.md.)
"""

from __future__ import annotations

from aiohttp import web

from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.middleware import CREDENTIAL
from relay.faces.http.requests.parsing import Query, bad
from relay.faces.http.requests.reader import RequestReader
from relay.model import Fault, Refusal
from relay.model.actions import ForceRelease
from relay.room.parsing.arguments import MAX_REASON
from relay.room.service import Room

#: Characters of a path with all its folders (PATH_MAX of Linux).
MAX_PATH = 4096


class LockRoutes:
    """The handlers."""

    def __init__(self, room: Room, reader: RequestReader) -> None:
        self._room, self._reader = room, reader

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/locks", self.held),
            web.post("/api/locks/release", self.release),
        ]

    async def held(self, request: web.Request) -> web.Response:
        """`{locks: [LOCK + waiting], sessions: [SESSION], now}`."""
        Query(request)
        return answer(await self._room.reader.held())

    async def release(self, request: web.Request) -> web.Response:
        """`{path, reason}` -> `{success, reason}`."""
        body = await self._reader.body(request, "path", "reason")
        credential = request[CREDENTIAL]
        if credential.identity is not None and not credential.person:
            raise Refusal(
                "Only a person takes a lock from its holder.",
                "Release your own, or ask in the room.",
                Fault.FORBIDDEN,
            )
        by = self._reader.speaker(request, body)
        path, reason = body.text("path"), body.text("reason")
        for field, value, most in (("path", path, MAX_PATH), ("reason", reason, MAX_REASON)):
            if len(value) > most:
                raise bad(f"{field} has {len(value)} characters.", f"At most {most}.")
        done = await self._room.actions.act(ForceRelease(path, " ".join(reason.split())), by=by)
        return answer(done.as_json())

"""The route that says what an answer's agent was given of the room's memory (docs/memory.md).

Invariant: it reads the log, where that stands with the turn; what is forgotten by now has no text.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from relay.faces.http.requests.auth import CredentialKind
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.middleware import CREDENTIAL
from relay.faces.http.requests.parsing import Query
from relay.log import events
from relay.memory import given
from relay.model import Fault, Refusal
from relay.room.journal.ledger import Q
from relay.store.ports import Store, Tx


class GivenMemoryRoutes:
    """The handler."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def table(self) -> list[web.RouteDef]:
        return [web.get("/api/messages/{message}/memories", self.of_message)]

    async def of_message(self, request: web.Request) -> web.Response:
        """`{memories: [{id, memory_type, reference, number, author, at, event_id, message, forgotten, text, outcome,
        tags}]}`, in the order in which the agent read them; none for a message that is no turn's answer."""
        Query(request)
        credential, id = request[CREDENTIAL], request.match_info["message"]
        me = credential.identity if credential.kind is CredentialKind.KEY else None

        async def look(tx: Tx) -> list[dict[str, Any]] | None:
            row = await tx.one(Q.event_of_message, id=id)
            event = None if row is None else await events.get(tx, row["event_id"])
            return None if event is None else await given.shown(tx, event, me or "")

        memories = await self._store.read(look)
        if memories is None:
            raise Refusal(f"There is no message {id[:60]}.", "GET /api/transcript lists them.", Fault.UNKNOWN)
        return answer({"memories": memories})

"""The routes of handoffs and pipelines (docs/timeline.md).

Invariant: each order is an action of the person in the room, by the same words as a typed command, so the same rules
check it and everybody sees it. Agents' keys order nothing here.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from relay.config.settings import LiveSettings
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Body, Query
from relay.faces.http.requests.reader import RequestReader, only_person
from relay.log import events
from relay.model import Fault, Refusal, references
from relay.room.parsing import commands
from relay.room.person_actions import PersonActions
from relay.store.ports import Store, Tx
from relay.timeline.handoffs import journal
from relay.timeline.handoffs.event import answers_of


class HandoffRoutes:
    """The handlers."""

    def __init__(
        self, store: Store, actions: PersonActions, settings: LiveSettings, reader: RequestReader
    ) -> None:
        self._store, self._actions, self._settings, self._reader = store, actions, settings, reader

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/handoffs", self.open),
            web.post("/api/handoffs", self.hand_on),
            web.post("/api/handoffs/{number:[hH]?[0-9]{1,9}}", self.answer),
            web.post("/api/pipeline", self.pipeline),
        ]

    async def open(self, request: web.Request) -> web.Response:
        """`{handoffs: [{number, name, state, ..., answers}]}`: those that are not through, the oldest first.
        `answers`: what `answer` takes of people now."""
        Query(request)

        async def work(tx: Tx) -> list[dict[str, Any]]:
            found = []
            for handoff in await journal.open_handoffs(tx):
                event = None if handoff.event is None else await events.get(tx, handoff.event)
                found.append({**handoff.as_json(), "answers": [*answers_of(handoff, event)]})
            return found

        return answer({"handoffs": await self._store.read(work)})

    async def hand_on(self, request: web.Request) -> web.Response:
        """`{name, from, to, text?}`: agents (`@AVA`) or roles -> `{success, reason}`."""
        body = await self._reader.body(request, "from", "to", "text")
        words = [body.text("from"), body.text("to"), body.maybe_text("text") or ""]
        return await self._order(request, body, "/handoff", *words)

    async def answer(self, request: web.Request) -> web.Response:
        """`{name, answer: retry|escalate|skip|branch, value?}` -> `{success, reason}`."""
        body = await self._reader.body(request, "answer", "value")
        number = references.handoff(int(request.match_info["number"].lstrip("hH")))
        words = [number, body.text("answer"), body.maybe_text("value") or ""]
        return await self._order(request, body, "/handoff", *words)

    async def pipeline(self, request: web.Request) -> web.Response:
        """`{name, task}` -> `{success, reason}`."""
        body = await self._reader.body(request, "task")
        return await self._order(request, body, "/pipeline", body.text("task"))

    async def _order(self, request: web.Request, body: Body, *words: str) -> web.Response:
        only_person(request, "orders that", "Ask a person.")
        names = [agent.name for agent in self._settings.current.agents]
        action = commands.parse(" ".join(words), names)
        if isinstance(action, commands.Problem) or action is None:
            raise Refusal(action.text if action else "That is no order.", "", Fault.MALFORMED)
        return answer((await self._actions.act(action, by=self._reader.speaker(request, body))).as_json())

"""The page's routes to the room's memory: looking, forgetting, and what an answer's agent was given (docs/memory.md).

Invariant: a handler reads the request, asks once and shows the answer; what is forgotten by now has no text. To
forget is an action of the person in the room, by the same words as a typed command, so everybody sees it. (Programs
have `/memory/...`.)
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from relay.base.durations import parse_iso
from relay.faces.http.requests.auth import CredentialKind
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.middleware import CREDENTIAL
from relay.faces.http.requests.parsing import Query, bad, numbered
from relay.faces.http.requests.reader import RequestReader, only_person
from relay.faces.http.routes.operations import caller_of
from relay.faces.memory_look import MOST_SHOWN, MemoryLook, source_of
from relay.log import events
from relay.memory import given
from relay.memory.episodic.feedback import feedback_on
from relay.memory.episodic.keeping import KIND
from relay.memory.episodic.memory import MOST_QUESTION
from relay.memory.episodic.recalling import Wanted
from relay.memory.experience import nfc
from relay.model import Caller, Fault, Refusal, references
from relay.model.actions import Forget
from relay.model.references import Thing
from relay.room.journal.ledger import Q
from relay.room.person_actions import PersonActions
from relay.store.ports import Store, Tx

#: Characters of a filter.
MOST_FILTER = 200


class MemoryRoutes:
    """The handlers."""

    def __init__(self, store: Store, actions: PersonActions, reader: RequestReader) -> None:
        self._store, self._actions, self._reader = store, actions, reader
        self._look = MemoryLook(store)

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/memory", self.search),
            web.get("/api/memory/source/{event}", self.source),
            web.post("/api/memory/{memory:[rR]?[0-9]{1,9}|[kK][0-9a-fA-F]{8,24}}/forget", self.forget),
            web.get("/api/messages/{message}/memories", self.of_message),
        ]

    async def search(self, request: web.Request) -> web.Response:
        """`?q=&agent=&kind=&tag=&since=&until=&limit=&name=`; see `MemoryLook.search`. Without `q` the newest;
        `since` and `until`: ISO 8601 times."""
        query = Query(request, "q", "agent", "kind", "tag", "since", "until", "limit", "name")
        text = nfc(query.text("q") or "")
        if len(text) > MOST_QUESTION:
            raise bad(f"q has {len(text)} characters.", f"At most {MOST_QUESTION}.")
        filters = {
            field: [nfc(value)] if (value := query.text(name)) else []
            for field, name in (("tags", "tag"), ("agents", "agent"), ("event_types", "kind"))
        }
        for values in filters.values():
            if values and len(values[0]) > MOST_FILTER:
                raise bad(f"A filter has {len(values[0])} characters.", f"At most {MOST_FILTER}.")
        since, until = (_time(name, query.text(name)) for name in ("since", "until"))
        tags, agents, kinds = filters.values()
        wanted = Wanted(text, tags, agents, kinds, since=since, until=until)
        limit = query.whole("limit", 30, high=MOST_SHOWN)
        return answer(await self._look.search(self._caller(request, query.text("name")), wanted, limit))

    async def source(self, request: web.Request) -> web.Response:
        """`{source}` of what was made of this event; see `source_of`."""
        Query(request)
        event = request.match_info["event"]
        source = await self._store.read(lambda tx: source_of(tx, event))
        if source is None:
            raise Refusal(f"There is no event {event[:70]}.", "A memory names its `event_id`.", Fault.UNKNOWN)
        return answer({"source": source})

    async def forget(self, request: web.Request) -> web.Response:
        """`{name}` -> `{success, reason}`."""
        body = await self._reader.body(request, optional=True)
        only_person(request, "forgets here", "`POST /memory/forget` forgets what you kept.")
        name = request.match_info["memory"]
        memory = references.entry(name) or numbered(name, Thing.MEMORY)
        if memory is None:
            raise Refusal("There is no such memory.", "A memory has a number.", Fault.UNKNOWN)
        done = await self._actions.act(Forget(memory), by=self._reader.speaker(request, body))
        return answer(done.as_json())

    async def of_message(self, request: web.Request) -> web.Response:
        """`{memories: [{id, memory_type, reference, number, author, at, event_id, message, source, forgotten, text,
        outcome, tags, feedback}]}`, in the order in which the agent read them; none for a message that is no turn's
        answer. `?name=`: whose `feedback.mine` is. No `feedback`: nobody can say."""
        query = Query(request, "name")
        reader = self._caller(request, query.text("name")).agent
        credential, id = request[CREDENTIAL], request.match_info["message"]
        me = credential.identity if credential.kind is CredentialKind.KEY else None

        async def look(tx: Tx) -> list[dict[str, Any]] | None:
            row = await tx.one(Q.event_of_message, id=id)
            event = None if row is None else await events.get(tx, row["event_id"])
            memories = [] if event is None else await given.shown(tx, event, me or "")
            numbers = [each["number"] for each in memories if each["memory_type"] == KIND and each["text"]]
            feedback = await feedback_on(tx, numbers, reader)
            shown = [
                {
                    **each,
                    "source": await source_of(tx, each["event_id"]),
                    "feedback": feedback.get(each["number"]),
                }
                for each in memories
            ]
            return None if event is None else shown

        memories = await self._store.read(look)
        if memories is None:
            raise Refusal(f"There is no message {id[:60]}.", "GET /api/transcript lists them.", Fault.UNKNOWN)
        return answer({"memories": memories})

    def _caller(self, request: web.Request, name: str | None) -> Caller:
        return caller_of(request[CREDENTIAL], self._reader.claimed(request, {"name": name}))


def _time(name: str, text: str | None) -> float | None:
    try:
        return parse_iso(text.strip()) if text else None
    except (ValueError, OverflowError):
        fix = "Give an ISO 8601 time, like 2026-11-23T14:00:00Z."
        raise bad(f"{name} is {(text or '')[:60]!r}, which is no time.", fix) from None

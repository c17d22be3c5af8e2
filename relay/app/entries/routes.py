"""The routes of single entries of the transcript (docs/entries.md).

Invariant: what changes one is an action of that person in the room, by the same function as its command.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler

from relay.app.entries.code import CodeLook, span_of
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Body, Query, bad
from relay.faces.http.requests.reader import RequestReader, only_person
from relay.faces.http.routes.room import message_bytes
from relay.model import Fault, Refusal
from relay.model.actions import Action, DeleteMessage, EditMessage, Pin, Unpin
from relay.room.entries import pins
from relay.room.entries.changes import FIX, versions
from relay.room.journal.pages import IDS_FIX, row_at
from relay.room.journal.values import message_of_row
from relay.room.person_actions import PersonActions
from relay.store.ports import Row, Store, Tx


class EntryRoutes:
    """The handlers. `max_entry`: bytes of a message."""

    def __init__(
        self, store: Store, actions: PersonActions, code: CodeLook, reader: RequestReader, *, max_entry: int
    ) -> None:
        self._store, self._actions, self._code = store, actions, code
        self._reader, self._max_entry = reader, max_entry

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/messages/{message}/versions", self.versions),
            web.post("/api/messages/{message}/edit", self.edit),
            web.post("/api/messages/{message}/delete", self._order(DeleteMessage)),
            web.post("/api/messages/{message}/pin", self._order(Pin)),
            web.post("/api/messages/{message}/unpin", self._order(Unpin)),
            web.get("/api/pins", self.pins),
            web.get("/api/code", self.code),
        ]

    async def versions(self, request: web.Request) -> web.Response:
        """`{versions: [{ts, body}]}`: what an entry said, the oldest first."""
        Query(request)

        async def work(tx: Tx) -> list[dict[str, str]]:
            return await versions(tx, await _row(tx, request))

        return answer({"versions": await self._store.read(work)})

    async def edit(self, request: web.Request) -> web.Response:
        """`{name?, body}` -> `{success, reason}`."""
        limit = message_bytes(self._max_entry, self._reader.limits)
        body = await self._reader.body(request, "body", limit=limit)
        text = body.text("body").strip()
        if not text:
            raise Refusal(
                "The message is empty.", "POST /api/messages/ID/delete deletes it.", Fault.MALFORMED
            )
        return await self._act(request, body, EditMessage(await self._number(request), text))

    async def pins(self, request: web.Request) -> web.Response:
        """`{pins: [ENTRY + pinned_by]}`, what was pinned last first."""
        Query(request)
        rows = await self._store.read(pins.pinned)
        return answer({"pins": [pins.as_json(row) for row in rows]})

    async def code(self, request: web.Request) -> web.Response:
        """`?path=&at=&lines=`: the code that the message `at` speaks of, as it stood then."""
        query = Query(request, "path", "at", "lines")
        path, place = query.text("path"), query.text("at")
        if not path or not place:
            raise bad("path and at are needed.", "Ask with `?path=src/app.py&at=m12&lines=3-7`.")
        lines = span_of(query.text("lines"))
        row = await self._store.read(lambda tx: row_at(tx, place))
        return answer(await self._code.at(message_of_row(_there(row, place)), path, lines))

    def _order(self, make: Callable[[int], Action]) -> Handler:
        """The handler of an action of which the body says only who orders it."""

        async def handle(request: web.Request) -> web.Response:
            body = await self._reader.body(request, optional=True)
            return await self._act(request, body, make(await self._number(request)))

        return handle

    async def _act(self, request: web.Request, body: Body, action: Action) -> web.Response:
        only_person(request, "does that")
        return answer((await self._actions.act(action, by=self._reader.speaker(request, body))).as_json())

    async def _number(self, request: web.Request) -> int:
        row = await self._store.read(lambda tx: _row(tx, request))
        return int(row["number"])


async def _row(tx: Tx, request: web.Request) -> Row:
    """The row of the entry that the path names, by its id or its number. Raises Refusal."""
    place = request.match_info["message"]
    return _there(await row_at(tx, place), place)


def _there(row: Row | None, place: str) -> Row:
    if row is None:
        raise Refusal(f"There is no message {place[:60]}.", f"{IDS_FIX} {FIX}", Fault.UNKNOWN)
    return row

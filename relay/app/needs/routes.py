"""The routes of the inbox (docs/inbox.md).

Invariant: a button is an action of that person in the room, by the same function as its command.
"""

from __future__ import annotations

from aiohttp import web

from relay.app.needs.inbox import NeedsInbox
from relay.app.needs.need import Kind, Need, meant
from relay.app.needs.since import line
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Query, bad
from relay.faces.http.requests.reader import RequestReader, only_person
from relay.merge.resolution import journal as conflicts
from relay.model import Fault, Refusal, references
from relay.model.actions import GiveUpMerge, Steer
from relay.room.journal.pages import row_at
from relay.room.person_actions import PersonActions
from relay.store.ports import Store


class NeedRoutes:
    """The handlers."""

    def __init__(
        self, store: Store, inbox: NeedsInbox, actions: PersonActions, reader: RequestReader
    ) -> None:
        self._store, self._inbox, self._actions, self._reader = store, inbox, actions, reader

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/needs", self.show),
            web.get("/api/since", self.since),
            web.post("/api/needs/{need}", self.act),
        ]

    async def show(self, request: web.Request) -> web.Response:
        """`[NEED]`, what expires soon first, then the newest: what needs a person now."""
        Query(request)
        return answer([need.as_json() for need in await self._needs()])

    async def since(self, request: web.Request) -> web.Response:
        """What came behind the message `after` (`m12`), for the reader `name`: numbers, and the sentences that say
        most. With `worded=true` only what the room's model makes of it: `{worded: {model, points} | null}`."""
        query = Query(request, "after", "name", "worded")
        after, reader = query.text("after"), query.text("name") or ""
        if not after:
            raise Refusal("after is missing.", "It is a message's number, like m12.", Fault.MALFORMED)
        if (flag := query.text("worded")) not in (None, "true", "false"):
            raise bad(f"worded is {flag[:40]!r}.", "It is true or false.")
        if flag == "true":
            return answer({"worded": await self._inbox.worded(self._store, after, reader=reader)})
        came = await self._inbox.since(self._store, after, reader=reader)
        return answer({**came.as_json(), "line": line(came)})

    async def act(self, request: web.Request) -> web.Response:
        """`{name, action, text?}` -> `{success, reason, undo, opens}`. `undo`: the command that takes it back, or
        null; `opens`: the conflict (`c1`) that the person settles now, or null. 404: nothing needs anybody by that id
        any more."""
        body = await self._reader.body(request, "action", "text")
        only_person(request, "acts on the inbox")
        id, name, text = request.match_info["need"], body.text("action"), body.maybe_text("text")
        if (need := meant(await self._needs(), id)) is None:
            raise await self._store.read(lambda tx: self._inbox.absent(tx, id))
        button = need.action(name)
        order, reply = button.ordered(text), ""
        if need.kind is Kind.QUESTION and isinstance(order, Steer):
            # Of several questions of one agent it answers this one.
            asked = await self._store.read(lambda tx: row_at(tx, need.ref))
            reply = "" if asked is None else str(asked["id"])
        done = await self._actions.act(order, by=self._reader.speaker(request, body), reply_to=reply or None)
        back = done.undo or (button.undo.line() if done.success and button.undo is not None else None)
        opens = None
        if done.success and isinstance(order, GiveUpMerge) and order.settle:
            asked_about = await self._store.read(lambda tx: conflicts.newest(tx, only_open=True))
            mine = [each.number for each in asked_about if each.question.agent == order.agent]
            opens = references.conflict(min(mine)) if mine else None
        return answer({**done.as_json(), "undo": back, "opens": opens})

    async def _needs(self) -> list[Need]:
        return await self._store.read(self._inbox.read)

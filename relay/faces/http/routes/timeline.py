"""The routes of the timeline (docs/timeline.md).

Invariant: a handler reads the request, asks once and shows the answer. A refusal by the domain is 200 with
`success: false`; what the request names and is not there is 404.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from aiohttp import web

from relay.coordination.locks.service import Locks
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.middleware import CREDENTIAL
from relay.faces.http.requests.parsing import Body, Query
from relay.faces.http.requests.reader import RequestReader
from relay.faces.http.routes.operations import caller_of, session_of
from relay.faces.rewinds import RewindOrder, RewindService
from relay.faces.workspace import workspace
from relay.log import events
from relay.log.events import Lane
from relay.model import Fault, Refusal
from relay.store.ports import Store, Tx
from relay.timeline import moments, reading
from relay.timeline.heads import MOST_HEADS, heads
from relay.timeline.others import as_shown, workspace_of_others
from relay.timeline.reading import Filter
from relay.timeline.rewind import history


class TimelineRoutes:
    """The handlers."""

    def __init__(self, store: Store, rewinds: RewindService, reader: RequestReader, locks: Locks) -> None:
        self._store, self._rewinds, self._reader, self._locks = store, rewinds, reader, locks

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/timeline", self.page),
            web.get("/api/timeline/heads", self.heads),
            web.get("/api/timeline/files", self.files),
            web.get("/api/timeline/events/{event}", self.event),
            web.get("/api/timeline/rewinds", self.rewinds),
            web.post("/api/timeline/rewind", self.rewind),
            web.post("/api/timeline/undo", self.undo),
            web.post("/api/timeline/redo", self.redo),
        ]

    async def page(self, request: web.Request) -> web.Response:
        """`?lane=&path=&type=&since=&before=&limit=&here=`: `{events: [HEAD]}`, oldest first; with `here` not
        those of other rooms."""
        query = Query(request, "lane", "path", "type", "since", "before", "limit", "here")
        limit, since = query.whole("limit", 100, high=reading.MOST_PAGE), query.text("since")
        types = (query.text("type") or "").split(",") if query.text("type") else ()

        async def work(tx: Tx) -> list[dict[str, Any]]:
            after = 0 if since is None else (await moments.resolve(tx, since)).pos
            lane, path, before = query.text("lane"), query.text("path"), query.cursor("before")
            wanted = Filter(lane, path, types, after, before, others=not query.text("here"))
            return await reading.heads(tx, wanted, limit)

        return answer({"events": await self._store.read(work)})

    async def heads(self, request: web.Request) -> web.Response:
        """`?after=&before=&path=&limit=`: the heads as columns (`relay.timeline.heads`), for a picture of all."""
        query = Query(request, "after", "before", "path", "limit")
        wanted: dict[str, Any] = {
            "after": query.cursor("after") or 0,
            "before": query.cursor("before"),
            "path": query.text("path"),
            "limit": query.whole("limit", MOST_HEADS, high=MOST_HEADS),
        }
        return answer(await self._store.read(lambda tx: heads(tx, **wanted)))

    async def files(self, request: web.Request) -> web.Response:
        """`?path=&here=`: `{files: [...], others: [...]}`, each file that was touched with who wrote it last and its
        lock; `others`: who did in other rooms, with `here` nobody."""
        query = Query(request, "path", "here")
        path = query.text("path") or ""

        async def work(tx: Tx) -> dict[str, Any]:
            others = [] if query.text("here") else await workspace_of_others(tx, path)
            return {"files": await workspace(tx, self._locks, path), "others": others}

        return answer(await self._store.read(work))

    async def event(self, request: web.Request) -> web.Response:
        """An event by any name of a moment: its head with `inputs`, `outputs` and `knew`."""
        Query(request)
        credential = request[CREDENTIAL]
        reader = None
        if not credential.person:
            caller = caller_of(credential, credential.identity or "", session=session_of(request))
            reader = Lane(caller.session, caller.agent).key

        async def work(tx: Tx) -> dict[str, Any]:
            moment = await moments.resolve(tx, request.match_info["event"])
            event = None if moment.event is None else await events.get(tx, moment.event)
            if event is None:
                raise Refusal("There is no event before that.", "", Fault.UNKNOWN, "unknown_moment")
            return await reading.whole(tx, await as_shown(tx, event), reader=reader)

        return answer(await self._store.read(work))

    async def rewinds(self, request: web.Request) -> web.Response:
        """What is taken back now (`history.taken_back`), and what `undo` and `redo` act on."""
        Query(request)
        return answer(await self._store.read(history.taken_back))

    async def rewind(self, request: web.Request) -> web.Response:
        """`{name, lane, to, into?, dry_run?, partial?}`. An agent's key takes back what that agent did."""
        body = await self._reader.body(request, "lane", "to", "into", "dry_run", "partial")
        by = self._reader.speaker(request, body)
        lane, to, into = body.text("lane"), body.text("to"), body.maybe_text("into")
        return await self._act(self._rewinds.rewind(_order(request, by), lane, to, into=into, **_how(body)))

    async def undo(self, request: web.Request) -> web.Response:
        """`{name, dry_run?, partial?}`."""
        body = await self._reader.body(request, "dry_run", "partial", optional=True)
        by = self._reader.speaker(request, body)
        return await self._act(self._rewinds.undo(RewindOrder.of_person(by), **_how(body)))

    async def redo(self, request: web.Request) -> web.Response:
        """`{name, dry_run?, partial?}`."""
        body = await self._reader.body(request, "dry_run", "partial", optional=True)
        by = self._reader.speaker(request, body)
        return await self._act(self._rewinds.redo(RewindOrder.of_person(by), **_how(body)))

    async def _act(self, act: Awaitable[dict[str, Any]]) -> web.Response:
        try:
            done = await act
        except Refusal as refusal:
            if refusal.code:
                raise
            return answer(refusal.as_json())
        return answer({"success": not done["conflicts"] or done["rewind"] is not None, **done})


def _order(request: web.Request, by: str) -> RewindOrder:
    credential = request[CREDENTIAL]
    if credential.person:
        return RewindOrder.of_person(by)
    caller = caller_of(credential, by, session=session_of(request, None))
    return RewindOrder(by, Lane(caller.session, caller.agent), person=False)


def _how(body: Body) -> dict[str, bool]:
    return {field: field in body and body.flag(field) for field in ("dry_run", "partial")}

"""The routes of the timeline's moments (docs/timeline.md): how the files stood, what differs, checkpoints.

Invariant: a handler reads the request, asks once and shows the answer. A moment, a lane or a file that is not there
is 404, with the candidates; a text that is no moment is 400.
"""

from __future__ import annotations

from aiohttp import web

from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Query, bad
from relay.faces.http.requests.reader import RequestReader
from relay.faces.timeline import TimelineService

#: Checkpoints of one answer at most.
MOST_CHECKPOINTS = 1000


class MomentRoutes:
    """The handlers."""

    def __init__(self, timeline: TimelineService, reader: RequestReader) -> None:
        self._timeline, self._reader = timeline, reader

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/timeline/tree", self.tree),
            web.get("/api/timeline/file", self.file),
            web.get("/api/timeline/diff", self.diff),
            web.get("/api/timeline/checkpoints", self.checkpoints),
            web.post("/api/timeline/checkpoint", self.checkpoint),
        ]

    async def tree(self, request: web.Request) -> web.Response:
        """`?at=&lane=&path=`: a folder at a moment (now), with who wrote each file last."""
        query = Query(request, "at", "lane", "path")
        return answer(
            await self._timeline.tree(query.text("at"), query.text("lane"), query.text("path") or "")
        )

    async def file(self, request: web.Request) -> web.Response:
        """`?at=&lane=&path=`: a file at a moment (now)."""
        query = Query(request, "at", "lane", "path")
        path = _needed(query, "path")
        return answer(await self._timeline.file(query.text("at"), query.text("lane"), path))

    async def diff(self, request: web.Request) -> web.Response:
        """`?a=&b=&lane=&path=`: in which files two moments differ (`b`: now)."""
        query = Query(request, "a", "b", "lane", "path")
        a, path = _needed(query, "a"), query.text("path") or ""
        return answer(await self._timeline.diff(a, query.text("b"), query.text("lane"), path))

    async def checkpoints(self, request: web.Request) -> web.Response:
        """`?limit=`: `{checkpoints: [...]}`, the newest first."""
        limit = Query(request, "limit").whole("limit", 200, high=MOST_CHECKPOINTS)
        return answer({"checkpoints": await self._timeline.checkpoints(limit)})

    async def checkpoint(self, request: web.Request) -> web.Response:
        """`{name, checkpoint, lane?}`: the person `name` calls the main branch's files, or those of the agent `lane`,
        by the name `checkpoint`."""
        body = await self._reader.body(request, "checkpoint", "lane")
        by = self._reader.speaker(request, body)
        made = await self._timeline.checkpoint(by, body.text("checkpoint"), lane=body.maybe_text("lane"))
        return answer({"success": True, **made}, status=201)


def _needed(query: Query, name: str) -> str:
    text = query.text(name)
    if not text:
        raise bad(f"{name} is missing.", f"Ask with `?{name}=...`.")
    return text

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
from relay.model import Refusal

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
            web.get("/api/timeline/branches", self.branches),
            web.get("/api/timeline/jumps", self.jumps),
            web.post("/api/timeline/jump", self.jump),
            web.post("/api/timeline/jump/remove", self.remove_jump),
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

    async def branches(self, request: web.Request) -> web.Response:
        """`{branches: [...]}`: agents', rewinds' and retries', the newest first."""
        Query(request)
        return answer({"branches": await self._timeline.branches()})

    async def jumps(self, request: web.Request) -> web.Response:
        """`{jumps: [{folder, commit}]}`: the worktrees of moments."""
        Query(request)
        return answer({"jumps": await self._timeline.jumps()})

    async def jump(self, request: web.Request) -> web.Response:
        """`{name, to, lane?}`: a fresh worktree at a moment; nobody's files move."""
        body = await self._reader.body(request, "to", "lane")
        self._reader.speaker(request, body)
        made = await self._timeline.jump(body.text("to"), body.maybe_text("lane"))
        return answer({"success": True, **made}, status=201)

    async def remove_jump(self, request: web.Request) -> web.Response:
        """`{name, folder}`: take such a worktree away."""
        body = await self._reader.body(request, "folder")
        self._reader.speaker(request, body)
        try:
            return answer({"success": True, **await self._timeline.remove_jump(body.text("folder"))})
        except Refusal as refusal:
            if refusal.code:
                raise
            return answer(refusal.as_json())


def _needed(query: Query, name: str) -> str:
    text = query.text(name)
    if not text:
        raise bad(f"{name} is missing.", f"Ask with `?{name}=...`.")
    return text

"""The routes of the worktrees (docs/airspace.md).

Invariant: as in `app.py`: a handler reads the request, asks once and shows the answer. What the domain refuses
is 200 with `success: false`; an agent without a worktree is 404.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Body, Query, bad
from relay.faces.http.requests.reader import RequestReader
from relay.faces.worktrees import WorktreesService
from relay.model import Fault, Refusal

METHODS = ("merge", "squash")


class WorktreeRoutes:
    """The handlers."""

    def __init__(self, worktrees: WorktreesService, reader: RequestReader) -> None:
        self._worktrees, self._reader = worktrees, reader

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/worktrees", self.list),
            web.get("/api/worktrees/{agent}/diff", self.diff),
            web.get("/api/worktrees/{agent}/merge", self.propose),
            web.post("/api/worktrees/{agent}/merge", self.merge),
            web.post("/api/worktrees/{agent}/discard", self.discard),
            web.post("/api/worktrees/{agent}/restore", self.restore),
            web.post("/api/worktrees/{agent}/abort", self.abort),
            web.post("/api/worktrees/{agent}/remove", self.remove),
        ]

    async def list(self, request: web.Request) -> web.Response:
        Query(request)
        return answer(await self._worktrees.state())

    async def diff(self, request: web.Request) -> web.Response:
        Query(request)
        agent = self._agent(request)
        try:
            difference = await self._worktrees.diff(agent)
        except Refusal as error:
            return _refused(error)
        if difference is None:
            raise _unknown(agent)
        return answer(difference)

    async def propose(self, request: web.Request) -> web.Response:
        query = Query(request, "method", "name")
        squash = _squash(query.text("method"))
        by = self._reader.claimed(request, {"name": query.text("name")})
        try:
            return answer(await self._worktrees.propose(self._agent(request), by, squash))
        except Refusal as error:
            return _refused(error)

    async def merge(self, request: web.Request) -> web.Response:
        async def act(agent: str, by: str, body: Body) -> dict[str, Any]:
            text, head = (body.maybe_text(field) for field in ("message", "head"))
            squash = _squash(body.maybe_text("method"))
            return await self._worktrees.merge(agent, by, squash=squash, text=text or "", head=head or "")

        return await self._act(request, act, "method", "message", "head")

    async def discard(self, request: web.Request) -> web.Response:
        return await self._act(request, lambda agent, by, _: self._worktrees.discard(agent, by))

    async def restore(self, request: web.Request) -> web.Response:
        return await self._act(
            request,
            lambda agent, by, body: self._worktrees.restore(agent, by, body.maybe_text("kept") or ""),
            "kept",
        )

    async def abort(self, request: web.Request) -> web.Response:
        return await self._act(request, lambda agent, by, _: self._worktrees.abort(agent, by))

    async def remove(self, request: web.Request) -> web.Response:
        return await self._act(request, lambda agent, by, _: self._worktrees.remove(agent, by))

    async def _act(
        self,
        request: web.Request,
        act: Callable[[str, str, Body], Awaitable[dict[str, Any]]],
        *fields: str,
    ) -> web.Response:
        body = await self._reader.body(request, *fields, optional=True)
        by = self._reader.speaker(request, body)
        agent = self._agent(request)
        try:
            return answer(await act(agent, by, body))
        except Refusal as error:
            return _refused(error)

    def _agent(self, request: web.Request) -> str:
        agent = request.match_info["agent"]
        if not self._worktrees.has(agent):
            raise _unknown(agent)
        return agent


def _squash(method: str | None) -> bool:
    if method not in (None, *METHODS):
        raise bad("`method` is `merge` or `squash`.", "Leave it out for a merge commit.")
    return method == "squash"


def _refused(error: Refusal) -> web.Response:
    """What git or the worktree's state forbids is an answer; a refusal with a code is the request's own fault."""
    if error.code:
        raise error
    return answer({"success": False, "reason": error.message, "fix": error.fix, "commit": None})


def _unknown(agent: str) -> Refusal:
    return Refusal(f"There is no worktree of {agent[:64]}.", "GET /api/worktrees lists them.", Fault.UNKNOWN)

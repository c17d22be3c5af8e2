"""The routes of the worktrees (docs/airspace.md).

Invariant: a handler reads the request, asks once and shows the answer. A refusal by the domain is 200 with
`success: false`; an agent without a worktree is 404.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.merging.proposal import MergeOptions
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Body, Query, bad
from relay.faces.http.requests.reader import RequestReader
from relay.faces.worktrees import WorktreesService, ordered
from relay.model import Fault, Refusal
from relay.model.actions import DiscardWork, GiveUpMerge, MergeBranch, OnBranch, RestoreWork, TakeBackMerge

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
            web.post("/api/worktrees/{agent}/takeback", self.take_back),
            web.post("/api/worktrees/{agent}/abort", self.abort),
            web.post("/api/worktrees/{agent}/remove", self.remove),
        ]

    async def list(self, request: web.Request) -> web.Response:
        Query(request)
        return answer(await self._worktrees.state())

    async def diff(self, request: web.Request) -> web.Response:
        path = Query(request, "path").text("path") or ""
        agent = self._agent(request, "show")
        try:
            difference = await self._worktrees.diff(agent, path)
        except Refusal as error:
            return _refused(error)
        if difference is None:
            raise _unknown(agent)
        return answer(difference)

    async def propose(self, request: web.Request) -> web.Response:
        query = Query(request, "method", "name")
        squash = is_squash(query.text("method"))
        by = self._reader.claimed(request, {"name": query.text("name")})
        agent, options = self._agent(request, "merge"), MergeOptions(squash=squash)
        return await self._act(lambda actions: actions.propose(agent, by, options))

    async def merge(self, request: web.Request) -> web.Response:
        fields = ("method", "message", "head", "joined", "untested", "anyway")
        agent, by, body = await self._order(request, *fields)
        text, head, joined = (body.maybe_text(field) or "" for field in ("message", "head", "joined"))
        untested, anyway = (field in body and body.flag(field) for field in ("untested", "anyway"))
        squash = is_squash(body.maybe_text("method"))
        return await self._ordered(MergeBranch(agent, squash, text, head, joined, untested, anyway), by)

    async def discard(self, request: web.Request) -> web.Response:
        agent, by, _ = await self._order(request)
        return await self._ordered(DiscardWork(agent), by)

    async def restore(self, request: web.Request) -> web.Response:
        agent, by, body = await self._order(request, "kept")
        return await self._ordered(RestoreWork(agent, body.maybe_text("kept") or None), by)

    async def take_back(self, request: web.Request) -> web.Response:
        agent, by, body = await self._order(request, "commit")
        return await self._ordered(TakeBackMerge(agent, body.text("commit")), by)

    async def abort(self, request: web.Request) -> web.Response:
        agent, by, body = await self._order(request, "settle")
        return await self._ordered(GiveUpMerge(agent, "settle" in body and body.flag("settle")), by)

    async def remove(self, request: web.Request) -> web.Response:
        agent, by, _ = await self._order(request)
        return await self._act(lambda actions: actions.remove(agent, by))

    async def _order(self, request: web.Request, *fields: str) -> tuple[str, str, Body]:
        """The agent that the path names, who orders the change, and the body."""
        body = await self._reader.body(request, *fields, optional=True)
        by = self._reader.speaker(request, body)
        return self._agent(request, request.path.rpartition("/")[2]), by, body

    async def _ordered(self, action: OnBranch, by: str) -> web.Response:
        return await self._act(lambda actions: ordered(actions, action, by))

    async def _act(self, act: Callable[[WorktreeActions], Awaitable[dict[str, Any]]]) -> web.Response:
        try:
            return answer(await act(await self._worktrees.actions()))
        except Refusal as error:
            return _refused(error)

    def _agent(self, request: web.Request, action: str) -> str:
        agent = request.match_info["agent"]
        try:
            self._worktrees.check(agent, f"worktrees {action} {agent}")
        except Refusal as refusal:
            raise refusal if refusal.code else _unknown(agent) from None
        return agent


def is_squash(method: str | None) -> bool:
    """Does this `method` of a merge make one commit? Raises Refusal."""
    if method not in (None, *METHODS):
        raise bad("`method` is `merge` or `squash`.", "Leave it out for a merge commit.")
    return method == "squash"


def _refused(error: Refusal) -> web.Response:
    """A refusal by git or by the worktree's state is an answer; one with a code is the fault of the request."""
    if error.code:
        raise error
    return answer({"success": False, "reason": error.message, "fix": error.fix, "commit": None})


def _unknown(agent: str) -> Refusal:
    return Refusal(f"There is no worktree of {agent[:64]}.", "GET /api/worktrees lists them.", Fault.UNKNOWN)

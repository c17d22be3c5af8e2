"""The routes of the landing queue (docs/verification.md).

Invariant: as `verifications`: each order is a person's action in the room.
"""

from __future__ import annotations

from aiohttp import web

from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Body, Query, bad
from relay.faces.http.requests.reader import RequestReader, only_person
from relay.faces.http.routes.worktrees import is_squash
from relay.faces.landing import LandingView
from relay.model.actions import Action, Land, RequireLanding, TakeFromQueue
from relay.model.ports import LandingConfig
from relay.room.person_actions import PersonActions


class LandingRoutes:
    """The handlers. `config` writes what config.json says of landing."""

    def __init__(
        self, view: LandingView, actions: PersonActions, config: LandingConfig, reader: RequestReader
    ) -> None:
        self._view, self._actions, self._config, self._reader = view, actions, config, reader

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/landing", self.state),
            web.get("/api/landing/plan", self.plan),
            web.get("/api/landing/{number:[0-9]{1,9}}/diff", self.diff),
            web.post("/api/landing", self.land),
            web.patch("/api/landing", self.configure),
            web.post("/api/landing/{agent}/cancel", self.cancel),
        ]

    async def state(self, request: web.Request) -> web.Response:
        Query(request)
        return answer(await self._view.state())

    async def plan(self, request: web.Request) -> web.Response:
        """`?agents=A,B`: `{plan: [...]}`: what would land, and what would not."""
        named = Query(request, "agents").text("agents") or ""
        return answer({"plan": await self._view.plan([name for name in named.split(",") if name])})

    async def diff(self, request: web.Request) -> web.Response:
        """`{diff, truncated}`: what an entry of the queue changes."""
        Query(request)
        return answer(await self._view.diff(int(request.match_info["number"])))

    async def land(self, request: web.Request) -> web.Response:
        """`{name?, agents?: [...], all?: true, method?: merge | squash, anyway?}` -> `{success, reason}`."""
        body = await self._reader.body(request, "agents", "all", "method", "anyway")
        every = "all" in body and body.flag("all")
        agents = tuple(body.names("agents")) if body.values.get("agents") else ()
        if every == bool(agents):
            raise bad("Say whose branches land.", "Send agents: [...], or all: true.")
        squash, anyway = is_squash(body.maybe_text("method")), "anyway" in body and body.flag("anyway")
        return await self._order(request, body, Land(agents, every, squash, anyway))

    async def cancel(self, request: web.Request) -> web.Response:
        body = await self._reader.body(request, optional=True)
        return await self._order(request, body, TakeFromQueue(request.match_info["agent"]))

    async def configure(self, request: web.Request) -> web.Response:
        """`{name?, required: true|false}` -> `{success}`: whether agents' branches land by the queue only."""
        only_person(request, "orders that", "Ask a person.")
        body = await self._reader.body(request, "required")
        by, action = self._reader.speaker(request, body), RequireLanding(body.flag("required"))
        return answer(await self._config.require_landing(action, by=by))

    async def _order(self, request: web.Request, body: Body, action: Action) -> web.Response:
        only_person(request, "orders that", "Ask a person.")
        return answer((await self._actions.act(action, by=self._reader.speaker(request, body))).as_json())

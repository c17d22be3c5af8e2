"""The routes of what runs in worktrees (docs/worktrees.md).

Invariant: a button is an action of that person in the room, by the same function as its command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiohttp import web

from relay.app.worktrees.desk import WorktreeDesk
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Query
from relay.faces.http.requests.reader import RequestReader, only_person
from relay.model import Fault, Refusal
from relay.model.actions import Action, RunApp, SetUp, StopApp
from relay.room.person_actions import PersonActions

_ACTIONS: Mapping[str, Callable[[str], Action]] = {
    "run": RunApp,
    "stop": StopApp,
    "setup": lambda agent: SetUp((agent,)),
}


class WorktreeDeskRoutes:
    """The handlers."""

    def __init__(self, desk: WorktreeDesk, actions: PersonActions, reader: RequestReader) -> None:
        self._desk, self._actions, self._reader = desk, actions, reader

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/worktrees/{agent}/app", self.show),
            *(web.post(f"/api/worktrees/{{agent}}/{what}", self.act) for what in _ACTIONS),
        ]

    async def show(self, request: web.Request) -> web.Response:
        """`{agent, ports, setup, app, busy, disk}`, with what was printed."""
        Query(request)
        return answer(await self._desk.told(await self._known(request), output=True))

    async def act(self, request: web.Request) -> web.Response:
        """`{name}` -> `{success, reason}`."""
        body = await self._reader.body(request, optional=True)
        only_person(request, "runs commands in worktrees")
        by, agent = self._reader.speaker(request, body), await self._known(request)
        action = _ACTIONS[request.path.rpartition("/")[2]](agent)
        return answer((await self._actions.act(action, by=by)).as_json())

    async def _known(self, request: web.Request) -> str:
        """The agent as it is spelled. Raises Refusal: it has no worktree here."""
        agent = request.match_info["agent"]
        await self._desk.looked_for(agent)
        try:
            return self._desk.setups.find(agent).name
        except Refusal as refusal:
            if refusal.code:
                raise
            raise Refusal(
                f"There is no worktree of {agent[:64]}.", "GET /api/worktrees lists them.", Fault.UNKNOWN
            ) from None

"""The door of the guard: an agent's hook asks before each edit (docs/airspace.md).

Invariant: a path is judged as it stands in the agent's own folder; what is outside of it is nobody's airspace and
goes on. A question never waits longer than `GUARD_S`: past that the edit goes on, since an advisory is advice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog
from aiohttp import web

from relay.faces.errors import ApiError, answer
from relay.faces.gate import CREDENTIAL
from relay.faces.limits import Limits
from relay.faces.reading import Body, bad, read_body
from relay.files import inside
from relay.model import Guard, GuardDecision, Location

log = structlog.get_logger(__name__)
#: Seconds for a decision; below what the hook itself waits (relay/guard_cli.py).
GUARD_S = 1.5
#: Bytes of a path on any system we run on (PATH_MAX).
MOST_PATH = 4096


class GuardDoor:
    """`root_of` gives the folder of an agent, None for a name that is none."""

    def __init__(
        self, guard: Guard, root_of: Callable[[str], Path | None], *, limits: Limits | None = None
    ) -> None:
        self._guard, self._root_of, self._limits = guard, root_of, limits or Limits()

    def table(self) -> list[web.RouteDef]:
        return [web.post("/api/guard", self.ask)]

    async def ask(self, request: web.Request) -> web.Response:
        """`{agent, path, lines?: [first, last], tool?}` -> `{decision: allow|steer, reason, advisory}`."""
        limits = self._limits
        fields = ("agent", "path", "lines", "tool")
        body = await read_body(request, fields, limit=limits.body_bytes, within_s=limits.body_s)
        agent, path = body.text("agent"), body.text("path")
        body.maybe_text("tool")
        if len(path.encode()) > MOST_PATH:
            raise bad(f"path has more than {MOST_PATH} bytes.", "Send the path of a file.")
        lines = _lines(body)
        own = request[CREDENTIAL].identity
        if own is not None and agent != own:
            message = f"This key is {own}'s; agent says another."
            raise ApiError(403, "foreign_identity", message, f"Say {own}, or use the key of that one.")
        root = self._root_of(agent)
        if root is None:
            raise ApiError(404, "not_found", f"There is no agent {agent[:60]}.", "GET /api/state lists them.")
        place = await asyncio.to_thread(inside, root, path)
        if place is None:
            return answer(GuardDecision(reason="The path is outside of the agent's folder.").as_json())
        try:
            async with asyncio.timeout(GUARD_S):
                decision = await self._guard.decide(agent, Location(place, lines, True))
        except TimeoutError:
            log.warning("guard gave no answer", agent=agent, path=place, within_s=GUARD_S)
            decision = GuardDecision(reason=f"The guard gave no answer within {GUARD_S:g} s.")
        return answer(decision.as_json())


def _lines(body: Body) -> tuple[int, int] | None:
    value = body.values.get("lines")
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or len(value) != 2
        or not all(type(one) is int and 1 <= one < 1 << 31 for one in value)
        or value[0] > value[1]
    ):
        raise bad("lines is no range of lines.", "lines is [first, last], both included, from 1.")
    return value[0], value[1]

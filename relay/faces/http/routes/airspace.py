"""The routes of the airspace (docs/airspace.md): its state, its history, its advisories, and what people say of them.

Invariant: a handler reads the request, asks once and shows the answer; no rule of the airspace lives here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from aiohttp import web

from relay.airspace.live.service import AirspaceService
from relay.base.durations import parse_iso
from relay.faces.http.requests.errors import answer, packed
from relay.faces.http.requests.middleware import CREDENTIAL
from relay.faces.http.requests.parsing import Body, Query, bad
from relay.faces.http.requests.reader import SPEAKER, RequestReader, only_person
from relay.model import SESSION_ID, Fault, Refusal
from relay.model.actions import Action, DeclareIntent, GoFirst, MarkAdvisory, Stop, TakeMain
from relay.model.orders.needs import MARKS
from relay.room.parsing.commands import intent_paths
from relay.room.person_actions import PersonActions

#: A person's decisions where agents collide. Each is a command of the room with the same name.
_DECISIONS: dict[str, Callable[[str], Action]] = {
    "first": GoFirst,
    "stop": lambda agent: Stop((agent,)),
    "update": lambda agent: TakeMain((agent,)),
}


class AirspaceRoutes:
    """The handlers."""

    def __init__(self, airspace: AirspaceService, actions: PersonActions, reader: RequestReader) -> None:
        self._airspace, self._actions, self._reader = airspace, actions, reader

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/airspace", self.state),
            web.get("/api/airspace/history", self.history),
            web.get("/api/airspace/advisories", self.advisories),
            web.post("/api/airspace/advisories/{advisory}/mark", self.mark),
            web.post("/api/airspace/intent", self.intent),
            web.post("/api/airspace/decide", self.decide),
        ]

    async def state(self, request: web.Request) -> web.Response:
        """`?files=touched` leaves out the coordinates of files without a change: those of 50,000 files are 3.5 MB."""
        files = Query(request, "files").text("files") or "all"
        if files not in ("all", "touched"):
            raise bad(f"files is {files[:40]!r}.", "One of: all, touched.")
        state = await self._airspace.state(all_files=files == "all")
        if files == "touched":
            return packed(state)
        # Encoded in a thread, so that the event loop serves others meanwhile.
        return await asyncio.to_thread(answer, state)

    async def history(self, request: web.Request) -> web.Response:
        query = Query(request, "from", "to")
        since, until = _time(query, "from"), _time(query, "to")
        if since is not None and until is not None and since > until:
            raise bad("from is later than to.", "Send the earlier time as from.")
        return answer({"samples": list(await self._airspace.past(since, until))})

    async def advisories(self, request: web.Request) -> web.Response:
        limit = Query(request, "limit").whole("limit", 50, high=1000)
        return answer(await self._airspace.advisories(limit))

    async def mark(self, request: web.Request) -> web.Response:
        body = await self._reader.body(request, "mark")
        if "mark" not in body:
            raise bad("mark is missing.", 'Send {"mark": "useful"}, "noise" or null.')
        mark = body.maybe_text("mark")
        if mark is not None and mark not in MARKS:
            raise bad(f"mark is {mark[:40]!r}.", "It is useful, noise or null.")
        action = MarkAdvisory(request.match_info["advisory"], mark)
        by = self._reader.speaker(request, body)
        advisory = await self._airspace.mark(action.advisory, action.mark, by=by)
        if advisory is None:
            raise Refusal(
                "There is no advisory with that id.",
                "GET /api/airspace/advisories lists them.",
                Fault.UNKNOWN,
            )
        return answer(advisory)

    async def intent(self, request: web.Request) -> web.Response:
        body = await self._reader.body(request, "agent", "paths", "own")
        agent, paths = body.text("agent"), body.values.get("paths")
        if not isinstance(paths, list) or not all(isinstance(path, str) and path.strip() for path in paths):
            raise bad("paths is not a list of paths.", 'Send {"paths": ["src/app.py"]}, or [] for none.')
        if body.values.get("own") is True:
            self._by_itself(request, body, agent)
            session = request.headers.get("X-Relay-Session", "")
            if session and not SESSION_ID.fullmatch(session):
                raise bad("X-Relay-Session is not a session id.", "Leave it out, or send RELAY_SESSION_ID.")
            return await self._own_intent(agent, paths, session)
        only_person(
            request, "can set an agent's intent", 'Send "own": true with your own name, or use POST /intents.'
        )
        declared = intent_paths(paths) if paths else ()
        if declared is None:
            reason = "Say which files it will touch, or `-` for none."
            return answer({"success": False, "reason": reason, "agent": agent, "intent": None})
        action = DeclareIntent(agent, declared)
        done = await self._actions.act(action, by=self._reader.speaker(request, body))
        result = {**done.as_json(), "agent": agent, "intent": list(declared) if done.success else None}
        in_hand = self._airspace.in_hand(agent, declared) if done.success else []
        return answer({**result, "in_hand": in_hand} if in_hand else result)

    async def decide(self, request: web.Request) -> web.Response:
        """A person's decision where agents collide: a button, or the command of the same name."""
        body = await self._reader.body(request, "action", "agent")
        action, agent = body.text("action"), body.text("agent")
        decision = _DECISIONS.get(action)
        if decision is None:
            raise bad(f"action is {action[:40]!r}.", f"One of: {', '.join(_DECISIONS)}.")
        only_person(request, "decides that", "Ask a person.")
        return answer(
            (await self._actions.act(decision(agent), by=self._reader.speaker(request, body))).as_json()
        )

    def _by_itself(self, request: web.Request, body: Body, agent: str) -> None:
        """A key speaks for its own identity only. Raises Refusal."""
        own = request[CREDENTIAL].identity
        for field, name in (("agent", agent), *((field, body.maybe_text(field)) for field in SPEAKER)):
            if own is not None and name is not None and name != own:
                message = f"This key is {own}'s; {field} names another."
                raise Refusal(
                    message, f"Use {own}, or the key of the other one.", Fault.FORBIDDEN, "foreign_identity"
                )

    async def _own_intent(self, agent: str, paths: Sequence[str], session: str) -> web.Response:
        """An intent that a process of the agent declares on this machine (`relay airspace intent`)."""
        if agent not in self._reader.settings.current.agent_names:
            raise Refusal(f"There is no agent {agent[:60]}.", "GET /api/state lists them.", Fault.UNKNOWN)
        try:
            declared = await self._airspace.declare_own(DeclareIntent(agent, tuple(paths)), session=session)
        except Refusal as refusal:
            return answer({"success": False, "reason": str(refusal), "agent": agent, "intent": None})
        result = {"success": True, "agent": agent, "intent": list(declared)}
        in_hand = self._airspace.in_hand(agent, declared)
        return answer({**result, "in_hand": in_hand} if in_hand else result)


def _time(query: Query, field: str) -> float | None:
    """A time in ISO 8601 as Unix seconds; without a zone it is UTC. Raises Refusal."""
    text = query.text(field)
    if text is None:
        return None
    try:
        # A `+` of the zone that was not escaped arrives as a blank.
        return parse_iso(text.strip().replace(" ", "+") if "T" in text else text.strip())
    except ValueError:
        raise bad(f"{field} is {text[:40]!r}.", "Send a time like 2026-01-31T12:00:00Z.") from None

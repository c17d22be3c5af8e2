"""The routes of attached sessions: their programs' hooks call them (docs/attach.md).

Invariant: only the person who runs the room calls them, by the room's token, which the hook reads from `.relay/`: a
key of an agent's cannot speak for a person's session.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from aiohttp import web

from relay.app.attach.desk import PROGRAMS, HookCall, Json, SessionDesk
from relay.app.entries.files import RoomFiles
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.middleware import CREDENTIAL
from relay.faces.http.requests.parsing import Body, bad
from relay.faces.http.requests.reader import RequestReader
from relay.model import SESSION_ID, Fault, Refusal

#: Bytes of a hook's JSON that are read: it holds a tool's whole answer.
MOST_HOOK = 16 * 1_048_576
#: Characters of the process that a hook names.
MOST_PROCESS = 300
#: Seconds that a hook waits for the files of other members; what takes longer comes while the program reads.
FILES_S = 2.0


class AttachRoutes:
    """The handlers."""

    def __init__(self, desk: SessionDesk, reader: RequestReader, files: RoomFiles) -> None:
        self._desk, self._reader, self._files = desk, reader, files

    def table(self) -> list[web.RouteDef]:
        return [
            web.post("/api/sessions/hook", self.hook),
            web.post("/api/sessions/heard", self.heard),
            web.post("/api/sessions/listen", self.listen),
        ]

    async def hook(self, request: web.Request) -> web.Response:
        """`{program, event: {what the program gave the hook}, process?}` -> `{agent, session, context, messages:
        [ids]}`."""
        body = await self._body(request, "event", "process", limit=MOST_HOOK)
        event: Any = body.values.get("event")
        if not isinstance(event, dict) or not isinstance(event.get("hook_event_name"), str):
            raise bad("event is not what a program gives its hooks.", "Send its JSON object as it is.")
        process = body.maybe_text("process") or ""
        call = HookCall(
            _program(body),
            _session(event.get("session_id")),
            event,
            process if len(process) <= MOST_PROCESS else "",
        )
        return await self._told(await self._desk.hook(call))

    async def heard(self, request: web.Request) -> web.Response:
        """`{program, session, messages: [ids], after?}`: the program was told these, inside a turn `after` this tool
        ("" = it is not known which), else with a prompt. `{heard}`: how many were new."""
        body = await self._body(request, "session", "messages", "after")
        session, after = _session(body.values.get("session")), body.maybe_text("after")
        return answer(await self._desk.heard(_program(body), session, body.names("messages"), after))

    async def listen(self, request: web.Request) -> web.Response:
        """`{program, session}` -> `{context, messages}` when an idle session is to be woken, `{}` after a while,
        `{end: true}` when nobody is to ask again."""
        body = await self._body(request, "session")
        return await self._told(await self._desk.listen(_program(body), _session(body.values.get("session"))))

    async def _told(self, told: Json) -> web.Response:
        """The answer, with the files of other members that its text names, or why they do not come."""
        if told.get("context"):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FILES_S):
                    missing = await self._files.bring(told["context"])
                    told = {**told, "context": "\n\n".join(filter(None, [told["context"], missing]))}
        return answer(told)

    async def _body(self, request: web.Request, *fields: str, limit: int | None = None) -> Body:
        credential = request[CREDENTIAL]
        if credential.identity is not None and not credential.person:
            raise Refusal(
                "A person's own session speaks with the room's token.",
                "Agents of the room need no hook of `relay attach`.",
                Fault.FORBIDDEN,
                "foreign_identity",
            )
        return await self._reader.exact_body(request, "program", *fields, limit=limit)


def _program(body: Body) -> str:
    program = body.text("program")
    if program not in PROGRAMS:
        raise bad(f"program is {program[:40]!r}.", f"One of: {', '.join(PROGRAMS)}.")
    return program


def _session(value: Any) -> str:
    if not isinstance(value, str) or not SESSION_ID.fullmatch(value):
        raise bad(f"The session is {str(value)[:60]!r}.", "Send the program's own id of its session.")
    return value

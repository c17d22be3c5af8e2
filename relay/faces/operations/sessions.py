"""The operations on sessions (docs/coordination.md, "Who asks"; 004, "Agent Sessions").

Invariant: a caller ends its own session; another's only a person does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from relay.faces.operations.operation import Answer, Name, Request, Shown, Text, need, operation
from relay.faces.services import Services
from relay.model import ADMIN, Caller, Fault, Refusal
from relay.model.pages import MOST_PAGE, PAGE

Json = dict[str, Any]


class ListSessions(Request):
    all: bool = Field(False, description="the ended ones too")
    limit: int = Field(PAGE, ge=1, le=MOST_PAGE)
    cursor: Annotated[Name, Field(max_length=300)] | None = Field(None, description="X-Next-Cursor before")


class Session(Shown):
    session_id: str
    agent_id: str
    alive: bool | None = None


class EndSession(Request):
    of: Annotated[Name, Field(max_length=200)] | None = Field(
        None, description="another agent, whose session_id it is; a person's to do"
    )
    reason: Annotated[Text, Field(max_length=200)] | None = Field(
        None, description="why, for its claims and lists"
    )


class Beat(Request):
    pass


@operation(
    "GET", "/sessions", Session, scope="read", result_list=True, read_only=True, beats=True, tag="sessions"
)
async def list_sessions(services: Services, caller: Caller, request: ListSessions) -> Sequence[Json]:
    """The sessions that live, latest first."""
    return await services.sessions.list(caller, all=request.all, limit=request.limit, cursor=request.cursor)


@operation("POST", "/sessions/end", Answer, scope="", beats=True, tag="sessions")
async def end_session(services: Services, caller: Caller, request: EndSession) -> Json:
    """End your session: its locks and claims are free at once."""
    if request.of is None or request.of == caller.agent:
        return await services.sessions.end(caller, reason=request.reason or "by a call of its own")
    need(caller, ADMIN)
    if not caller.person:
        message = f"Only a person ends another's session, and {caller.agent} is an agent."
        fix = "Ask a person in the room, or wait: a session that says nothing ends by itself."
        raise Refusal(message, fix, Fault.FORBIDDEN, "person_only")
    whose = replace(caller, agent=request.of)
    return await services.sessions.end(
        whose, reason=request.reason or f"ended by {caller.agent}", by=caller.agent
    )


@operation("POST", "/sessions/heartbeat", Answer, scope="", beats=True, tag="sessions")
async def heartbeat(services: Services, caller: Caller, request: Beat) -> Json:
    """Say that your session lives; every other call says so too."""
    await services.sessions.touch(caller)
    return {"success": True, "agent_id": caller.agent, "session_id": caller.session}

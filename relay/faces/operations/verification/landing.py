"""The operations on landing: an agent asks for its own branch (docs/verification.md, "Landing")."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from relay.faces.operations.operation import Answer, Name, Request, operation
from relay.faces.services import Services
from relay.model import Caller


class Land(Request):
    agent: Annotated[Name, Field(max_length=64)] | None = Field(None, description="for people: whose branch")
    anyway: bool = Field(False, description="it lands although it undoes what another landed or took back")


class LandAnswer(Answer):
    agent: str | None = None
    state: str | None = None
    place: int | None = None


@operation("POST", "/land", LandAnswer, scope="work", tool=True, beats=True, tag="verification")
async def land(services: Services, caller: Caller, request: Land) -> dict[str, Any]:
    """Ask for your branch to land on the main branch.

    The queue tests it with what lands before it, once your turn has ended. If it does not land you are told why.
    """
    await services.sessions.touch(caller)
    return await services.landings.ask(caller, request.agent, anyway=request.anyway)

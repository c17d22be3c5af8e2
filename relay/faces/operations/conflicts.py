"""The operations on conflicts of merges (docs/merge.md)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from relay.faces.operations.operation import Answer, Name, Request, Shown, operation
from relay.faces.services import Services
from relay.model import Caller


class Conflicts(Request):
    state: Literal["open", "resolved", "rejected", "gone"] | None = None
    limit: int = Field(100, ge=1, le=1000)


class ConflictShown(Shown):
    id: str
    number: int
    reference: str
    level: int
    kind: str
    severity: str
    path: str
    entity: str | None
    state: str


class Resolve(Request):
    id: Name = Field(max_length=40)
    text: str = Field(max_length=1_000_000, description="the lines as they are to stand there")
    reasoning: str | None = Field(None, max_length=4000)
    confidence: float | None = Field(None, ge=0, le=1)


class Resolved(Answer):
    reference: str | None = None
    state: str | None = None


@operation(
    "GET",
    "/conflicts",
    ConflictShown,
    aliases=(("GET", "/api/conflicts"),),
    result_list=True,
    scope="read",
    read_only=True,
    tag="conflicts",
)
async def conflicts(services: Services, caller: Caller, request: Conflicts) -> list[dict[str, Any]]:
    """The conflicts that were found at merges, newest first."""
    return await services.conflicts.list(request.state or "", request.limit)


@operation("POST", "/conflicts/answer", Resolved, scope="room", tool=True, tag="conflicts")
async def resolve(services: Services, caller: Caller, request: Resolve) -> dict[str, Any]:
    """Settle a conflict that you were asked about: the lines that have the work of both sides."""
    done = await services.conflicts.answer(
        caller, request.id, request.text, confidence=request.confidence, reasoning=request.reasoning
    )
    return {"success": True, "reference": done["reference"], "state": done["state"]}

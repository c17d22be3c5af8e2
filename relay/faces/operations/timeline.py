"""The operation that looks into the timeline (docs/timeline.md). None of them takes anybody's work back.

Invariant: names and shapes are the document's.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from relay.faces.operations.operation import Answer, Name, Request, operation
from relay.faces.services import Services
from relay.model import Caller, Fault, Refusal

Json = dict[str, Any]
Moment = Annotated[Name, Field(max_length=200)]


class Timeline(Request):
    what: Literal["log", "lane", "show", "files", "checkpoints", "diff"]
    moment: Moment | None = Field(
        None, description="#number, id, 14:00, -1h or a checkpoint: of show; diff from; log since"
    )
    to: Moment | None = Field(None, description="diff to (now)")
    lane: Annotated[Name, Field(max_length=200)] | None = Field(None, description="an agent or person")
    path: Name | None = None
    limit: int = Field(50, ge=1, le=500)


class TimelineAnswer(Answer):
    events: list[Any] | None = None
    event: Any = None
    files: list[Any] | None = None
    checkpoints: list[Any] | None = None


@operation(
    "POST",
    "/timeline",
    TimelineAnswer,
    scope="read",
    tool=True,
    read_only=True,
    tag="timeline",
)
async def timeline(services: Services, caller: Caller, request: Timeline) -> Json:
    """Who changed which file, what its author had seen, and what two moments differ in.

    It only looks.
    """
    look = services.timeline
    match request.what:
        case "show":
            found = await look.show(caller, _needed(request.moment, "moment", "show"))
        case "files":
            found = await look.files(caller, request.path, request.limit)
        case "checkpoints":
            found = await look.checkpoints(caller, request.limit)
        case "diff":
            moment = _needed(request.moment, "moment", "diff")
            found = await look.diff(caller, moment, request.to, request.lane, request.path, request.limit)
        case _:
            lane = _needed(request.lane, "lane", "lane") if request.what == "lane" else request.lane
            found = await look.log(caller, lane, request.path, request.moment, request.limit)
    return {"success": True, **found}


def _needed(value: str | None, field: str, what: str) -> str:
    if value is None:
        raise Refusal(f"{field} is missing.", f"{what} needs {field}.", Fault.MALFORMED)
    return value

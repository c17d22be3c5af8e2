"""The operations on working memory (docs/memory.md, "Working memory"; 004, "Working Memory").

Invariant: names and shapes are the document's. A caller reaches its own session's alone.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from relay.faces.operations.operation import Answer, Name, Request, Shown, operation, storable
from relay.faces.services import Services
from relay.memory.working import MOST_CONTENT, MOST_KEY
from relay.model import Caller, Fault, Refusal

Json = dict[str, Any]
Content = Annotated[str, Field(max_length=MOST_CONTENT), AfterValidator(storable)]


class WorkingMemoryNote(Request):
    content: Content | None = None
    critical: bool = Field(False, description="stays whole")
    key: Annotated[Name, Field(max_length=MOST_KEY)] | None = Field(
        None, description="of the note it replaces"
    )


class ReadWorkingMemory(Request):
    pass


class WorkingMemoryItem(Shown):
    key: str = Field(description="yours, or one that it was given")
    content: str
    critical: bool
    compressed: bool = Field(description="this is a part of it; the whole stands in its event")


class WorkingMemoryAnswer(Answer):
    items: list[WorkingMemoryItem] | None = Field(None, description="in the order in which they were stored")
    tokens: int | None = Field(None, description="an estimate: four ASCII characters are one")
    budget: int | None = None
    compressed: bool | None = Field(None, description="something was shortened or left out")
    removed: list[str] | None = Field(None, description="events that hold what was shortened or left out")


@operation("POST", "/memory/working", WorkingMemoryAnswer, scope="memory", tool=True, tag="memory")
async def working_memory(services: Services, caller: Caller, request: WorkingMemoryNote) -> Json:
    """Hold what your task needs; a resumed conversation begins with it.

    Without content: read. Above the budget older notes are shortened; timeline shows those removed whole.
    """
    if request.content is not None:
        return await services.working.store(
            caller, request.content, critical=request.critical, key=request.key
        )
    if request.critical or request.key is not None:
        message = "`key` and `critical` are of a note that is stored, and there is no `content`."
        raise Refusal(message, "Give `content`, or nothing at all to read.", Fault.MALFORMED)
    return await services.working.read(caller)


@operation("GET", "/memory/working", WorkingMemoryAnswer, scope="memory", read_only=True, tag="memory")
async def read_working_memory(services: Services, caller: Caller, request: ReadWorkingMemory) -> Json:
    """The working memory of your session."""
    return await services.working.read(caller)

"""The operation on the knowledge of the room (docs/memory.md, "Knowledge"; 003, section 7.4).

Invariant: names and shapes are the document's. Which entries a caller may read, the statements of the memory say.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from relay.faces.operations.operation import Answer, Name, Request, Shown, Text, operation
from relay.faces.services import Services
from relay.memory.knowledge.service import MOST_NAME, MOST_QUESTION, MOST_SHOWN, SHOWN
from relay.model import Caller

Json = dict[str, Any]
Word = Annotated[Name, Field(max_length=MOST_NAME)]


class Knowledge(Request):
    about: Annotated[Text, Field(max_length=MOST_QUESTION)] | None = None
    agent: Word | None = None
    kind: Word | None = Field(None, description="decision, fact, problem, solution, ...")
    file: Name | None = None
    as_of: Annotated[Name, Field(max_length=40)] | None = Field(None, description="ISO 8601")
    near: Word | None = Field(None, description="an id: what relates to it")
    limit: int = Field(SHOWN, ge=1, le=MOST_SHOWN)


class KnowledgeEntry(Shown):
    id: str
    knowledge_type: str
    content: str
    source_agent: str
    unverified: bool
    source_event: str
    is_valid: bool
    replaced_by: str | None = None


class KnowledgeAnswer(Answer):
    entries: list[KnowledgeEntry] | None = None
    relations: list[Any] | None = Field(None, description="source, relation, target")
    more: bool | None = None


@operation(
    "POST",
    "/knowledge",
    KnowledgeAnswer,
    scope="read",
    aliases=(("GET", "/knowledge"),),
    tool=True,
    read_only=True,
    tag="memory",
)
async def knowledge(services: Services, caller: Caller, request: Knowledge) -> Json:
    """Why is it so? What was decided, found out or changed.

    To add: answer with a line DECISION: X instead of Y because Z (PROBLEM:, SOLUTION:, CONSTRAINT:).
    """
    return await services.knowledge.knowledge(
        caller,
        about=request.about,
        agent=request.agent,
        kind=request.kind,
        file=request.file,
        as_of=request.as_of,
        near=request.near,
        limit=request.limit,
    )

"""The operations on memory (docs/coordination.md, "Remember and recall"; 004, "Episodic Memory").

Invariant: names and shapes are the document's. The memory says what is alike and what is relevant.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from relay.faces.operations.operation import Answer, Data, Name, Request, Shown, Text, operation
from relay.faces.services import Services
from relay.memory.episodic.memory import MOST_NAME, MOST_NOTE, MOST_QUESTION
from relay.memory.experience import MOST_LESSON, MOST_LESSONS, MOST_OUTCOME, MOST_SUMMARY, MOST_TAG, MOST_TAGS
from relay.memory.found import MOST_RECALLED
from relay.model import Caller

Json = dict[str, Any]
Word = Annotated[Name, Field(max_length=200)]
#: Lines of one import: more come in several.
MOST_LINES = 10_000
Words = Annotated[list[Annotated[Name, Field(max_length=MOST_TAG)]], Field(max_length=MOST_TAGS)]


class Remember(Request):
    event_type: Word = Field(description="error, success, decision, ...")
    summary: Annotated[Text, Field(max_length=MOST_SUMMARY)]
    details: Data = None
    outcome: Annotated[Name, Field(max_length=MOST_OUTCOME)] | None = Field(
        None, description="success, failure, ..."
    )
    lessons: list[Annotated[Text, Field(max_length=MOST_LESSON)]] = Field([], max_length=MOST_LESSONS)
    tags: Words = Field([])
    idempotency_key: Word | None = None


class RememberAnswer(Answer):
    memory_id: str | None = None
    number: int | None = None
    merged: bool | int | None = None


class Recall(Request):
    task_description: Annotated[str, Field(max_length=MOST_QUESTION)] = Field(description="empty: the newest")
    tags: Words = Field([])
    limit: int = Field(10, ge=1, le=MOST_RECALLED)


class Memory(Shown):
    memory_type: Literal["episodic", "procedural", "knowledge"]
    content: Any
    relevance: float = Field(ge=0, le=1)
    memory_id: str | None = None
    unverified: bool = Field(False, description="said by a line that proves nobody")


class ImportMemories(Request):
    lines: list[Any] = Field(
        description="each a JSON object, or the text of one: {key?, event_type, summary, details?, outcome?, "
        "lessons?, tags?, session?, at?, agent?}",
        max_length=MOST_LINES,
    )


class LineRefused(BaseModel):
    line: int
    reason: str
    fix: str


class ImportAnswer(BaseModel):
    imported: int
    merged: int = Field(description="lines that joined a memory that was there")
    known: int = Field(description="lines that had been imported before")
    refused: list[LineRefused]


class ShowMemory(Request):
    memory_id: Name = Field(description="its id, or its number like r12")


class MemoryAnswer(Answer):
    memory_id: str | None = None
    content: str | None = None
    unverified: bool | None = None
    is_valid: bool | None = None
    replaced_by: str | None = Field(None, description="what ended it: r15")
    message_number: int | None = Field(None, description="of the message that it comes from")


class Feedback(Request):
    memory_id: Annotated[Name, Field(max_length=MOST_NAME)]
    useful: bool
    note: Annotated[Text, Field(max_length=MOST_NOTE)] | None = None


class FeedbackAnswer(Answer):
    memory_id: str | None = None
    useful: int | None = Field(None, description="how many say so")
    useless: int | None = None


class Forget(Request):
    memory_id: Name = Field(description="its id, or its number like r12; of knowledge its id, like k1a2b3c4d")


class ForgetAnswer(Answer):
    number: int | None = Field(None, description="of the memory")
    entry: str | None = Field(None, description="the knowledge that was named")
    content: str | None = Field(None, description="what it said; null: it had been forgotten before")
    event_id: str | None = Field(None, description="where that was said")


@operation(
    "POST",
    "/memory/remember",
    RememberAnswer,
    scope="memory",
    aliases=(("POST", "/memory/store"),),
    tool=True,
    beats=True,
    tag="memory",
)
async def remember(services: Services, caller: Caller, request: Remember) -> Json:
    """Keep what others should know later: a cause, a decision, what worked and what did not.

    One thing a call, lessons as advice. The same within an hour is joined to it (merged).
    """
    return await services.memory.remember(
        caller,
        request.event_type,
        request.summary,
        details=request.details,
        outcome=request.outcome,
        lessons=request.lessons,
        tags=request.tags,
        idempotency_key=request.idempotency_key,
    )


@operation(
    "POST",
    "/memory/recall",
    Memory,
    scope="read",
    aliases=(("POST", "/memory/query"),),
    tool=True,
    result_list=True,
    read_only=True,
    beats=True,
    tag="memory",
)
async def recall(services: Services, caller: Caller, request: Recall) -> list[Json]:
    """Before you begin: what was learned earlier that bears on your task.

    Best first, relevance up to 1; an empty list: nothing is known. Check it against the code as it is now.
    """
    return await services.memory.recall(
        caller, request.task_description, tags=request.tags, limit=request.limit
    )


@operation("POST", "/memory/import", ImportAnswer, scope="memory", json_lines="lines", tag="memory")
async def import_memories(services: Services, caller: Caller, request: ImportMemories) -> Json:
    """Take memories in from elsewhere, one a line; what is refused is named by its line, and the rest is kept.

    The body is `{"lines": [...]}`, a JSON list, or JSON lines. Importing the same again adds nothing.
    """
    return await services.memory.import_lines(caller, request.lines)


@operation("GET", "/memory/{memory_id}", MemoryAnswer, scope="read", read_only=True, tag="memory")
async def show_memory(services: Services, caller: Caller, request: ShowMemory) -> Json:
    """One memory, with all that is kept of it."""
    return await services.memory.show(caller, request.memory_id)


@operation("POST", "/memory/forget", ForgetAnswer, scope="memory", tag="memory")
async def forget(services: Services, caller: Caller, request: Forget) -> Json:
    """Let a memory, or knowledge, be told to nobody any more; its row and its events stay.

    A person forgets any memory, an agent its own (`not_yours`).
    """
    return await services.memory.forget(caller, request.memory_id)


@operation("POST", "/memory/feedback", FeedbackAnswer, scope="memory", tool=True, beats=True, tag="memory")
async def feedback(services: Services, caller: Caller, request: Feedback) -> Json:
    """Say whether a memory that you were told (its id, or r14) helped.

    It moves its rank for everybody; your last word counts. With note: why.
    """
    return await services.memory.feedback(caller, request.memory_id, request.useful, note=request.note)

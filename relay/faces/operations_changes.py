"""The operations on changesets: what a session says it changed, beside what it did (docs/coordination.md)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from relay.faces.operation import Answer, Name, Names, Operation, Request, Shown, Text, Token
from relay.faces.services import Services
from relay.model import Caller

Json = dict[str, Any]
Revision = Annotated[Name, Field(max_length=200)]


class RecordChangeset(Request):
    summary: Annotated[Text, Field(max_length=10_000)]
    files: Names = Field(description="what you say that you changed")
    base: Revision | None = Field(None, description="git revision before it")
    head: Revision | None = Field(None, description="git revision after it")
    fencing_token: Token | None = None


class ChangesetAnswer(Answer):
    changeset_id: str | None = None
    declared: list[str] | None = None
    changed: list[str] | None = None
    undeclared: list[str] | None = None
    missing: list[str] | None = None


class ListChangesets(Request):
    session: Annotated[Name, Field(max_length=128)] | None = Field(None, description="only this session's")
    limit: int = Field(100, ge=1, le=1000)


class Changeset(Shown):
    changeset_id: str


async def _record(services: Services, caller: Caller, asked: RecordChangeset) -> Json:
    return await services.changesets.record(
        caller,
        asked.summary,
        asked.files,
        base=asked.base,
        head=asked.head,
        fencing_token=asked.fencing_token,
    )


async def _list(services: Services, caller: Caller, asked: ListChangesets) -> list[Json]:
    return list(await services.changesets.list(caller, session=asked.session, limit=asked.limit))


OPERATIONS = (
    Operation(
        "record_changeset",
        RecordChangeset,
        ChangesetAnswer,
        "locks",
        _record,
        "POST",
        "/changesets",
        "Record what you changed; files that you changed and do not name are reported.",
        tag="changesets",
        beats=True,
    ),
    Operation(
        "list_changesets",
        ListChangesets,
        Changeset,
        "read",
        _list,
        "GET",
        "/changesets",
        "Changesets, latest first.",
        result_list=True,
        read_only=True,
        tag="changesets",
    ),
)

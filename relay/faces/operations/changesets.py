"""The operations on changesets: what a session says it changed, beside what it did (docs/coordination.md); and on
merges: conflicts (docs/landing.md, docs/conflicts.md), and who is behind a file's lines (docs/merge.md)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from relay.coordination.writes.changesets import MOST_FILES, MOST_LISTED, MOST_SUMMARY
from relay.faces.operations.operation import Answer, Name, Request, Shown, Token, operation, storable
from relay.faces.services import Services
from relay.model import Caller

Json = dict[str, Any]
Revision = Annotated[Name, Field(max_length=200)]
#: A name of an agent has 64 characters at most, a session's id 128.
Filter = Annotated[Name, Field(max_length=128)]
#: The schema says the bounds; the changesets refuse what is out of them, in their words.
Summary = Annotated[
    str,
    AfterValidator(storable),
    Field(json_schema_extra={"minLength": 1, "maxLength": MOST_SUMMARY, "pattern": r"\S"}),
]
Files = Annotated[list[Name], Field(json_schema_extra={"maxItems": MOST_FILES})]


class RecordChangeset(Request):
    summary: Summary
    files: Files = Field(description="what you say that you changed: files, folders, patterns")
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
    session: Filter | None = Field(None, description="only this session's, whoever asks")
    agent: Filter | None = Field(None, description="only this agent's (or person's)")
    limit: int = Field(100, ge=1, le=MOST_LISTED)


class Changeset(Shown):
    changeset_id: str


@operation("POST", "/changesets", ChangesetAnswer, scope="locks", beats=True, tag="changesets")
async def record_changeset(services: Services, caller: Caller, request: RecordChangeset) -> Json:
    """Record what you changed; files that you changed and do not name are reported."""
    return await services.changesets.record(
        caller,
        request.summary,
        request.files,
        base=request.base,
        head=request.head,
        fencing_token=request.fencing_token,
    )


@operation("GET", "/changesets", Changeset, scope="read", result_list=True, read_only=True, tag="changesets")
async def list_changesets(services: Services, caller: Caller, request: ListChangesets) -> list[Json]:
    """The room's changesets, latest first."""
    return list(
        await services.changesets.list(
            caller, session=request.session, agent=request.agent, limit=request.limit
        )
    )


class Conflicts(Request):
    state: Literal["open"] | None = None
    limit: int = Field(100, ge=1, le=1000)


class ConflictShown(Shown):
    id: str
    number: int
    reference: str
    level: int
    kind: str
    severity: str
    path: str | None
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
    """The conflicts that were found, of levels 2 to 4, newest first."""
    return await services.conflicts.list(only_open=request.state == "open", limit=request.limit)


@operation("POST", "/conflicts/answer", Resolved, scope="room", tool=True, tag="conflicts")
async def resolve(services: Services, caller: Caller, request: Resolve) -> dict[str, Any]:
    """Settle a conflict that you were asked about: the lines with both sides' work.

    It stands as long as neither side changes there; then people merge it.
    """
    done = await services.conflicts.answer(
        caller, request.id, request.text, confidence=request.confidence, reasoning=request.reasoning
    )
    return {"success": True, "reference": done["reference"], "state": done["state"]}


class CheckMerge(Request):
    a: Revision = Field(description="a branch, a commit or an agent")
    b: Revision = Field(description="another")
    level: str | None = Field(None, pattern=r"^[1-4](-[1-4])?$", description="only these, like 1-3")


class Checked(Answer):
    conflicts: list[Any] | None = None
    not_run: list[int] | None = None


@operation(
    "POST",
    "/merge/check",
    Checked,
    scope="read",
    tool=True,
    read_only=True,
    tag="conflicts",
)
async def check_merge(services: Services, caller: Caller, request: CheckMerge) -> Json:
    """Would two branches conflict, also where git merges them clean?

    Look before you build on another's work. Levels: 1 files, 2 definitions, 3 what one changes and the other uses, 4
    tests of the merge.
    """
    return {"success": True, **await services.merges.check(caller, request.a, request.b, request.level)}


class Blame(Request):
    path: Name = Field(description="relative to the top of the repository")
    at: Revision | None = Field(None, description="a branch, commit, agent or #number (what main is on)")


class Blamed(Answer):
    path: str | None = None
    commit: str | None = None
    lines: list[Any] | None = None
    shares: list[Any] | None = None


@operation(
    "GET",
    "/blame",
    Blamed,
    aliases=(("GET", "/api/blame"),),
    scope="read",
    read_only=True,
    tag="conflicts",
)
async def blame(services: Services, caller: Caller, request: Blame) -> Json:
    """Who is behind each line of a file: an agent, a person, both sides of a merge, or an agent that settled one."""
    return {"success": True, **await services.merges.blame(caller, request.path, request.at)}

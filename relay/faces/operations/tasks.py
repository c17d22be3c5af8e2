"""The operations on work (docs/coordination.md, "Work"; 004, "Work Queue").

Invariant: names and shapes are the document's. The queue says whether a task may change.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from relay.coordination.locks.lock import MAX_WAIT_S
from relay.coordination.paths.targets import MAX_BYTES
from relay.coordination.tasks.requests import (
    LEASE_S,
    MOST_DESCRIPTION,
    MOST_ERROR,
    MOST_FILES,
    MOST_NEEDS,
    MOST_REASON,
    MOST_TYPE,
    MOST_TYPES,
)
from relay.coordination.tasks.task import Column, Status
from relay.faces.operations.operation import (
    HEARD,
    Answer,
    Data,
    Name,
    Request,
    Shown,
    Text,
    Token,
    one_of,
    operation,
)
from relay.faces.services import Services
from relay.memory.procedural import MOST_NAME, skill_name
from relay.model import Caller, Refusal

Json = dict[str, Any]
Minutes = Annotated[float, Field(gt=0, le=LEASE_S[1] / 60)]
Word = Annotated[Name, Field(max_length=200)]
Type = Annotated[Name, Field(max_length=MOST_TYPE)]
Reason = Annotated[Text, Field(max_length=MOST_REASON)]
Listed = Literal["open", "done", "pending", "claimed", "completed", "failed", "blocked", "dead"]
File = Annotated[Name, Field(max_length=MAX_BYTES)]


class GetWork(Request):
    task_types: list[Type] | None = Field(None, max_length=MOST_TYPES, description="only these")
    lease_minutes: Minutes | None = None
    task_id: Word | None = Field(None, description="this one")
    wait_seconds: float = Field(0, ge=0, le=MAX_WAIT_S, description="wait for one so long")


class Task(Answer):
    task_id: str | None = None
    task_type: str | None = None
    task_description: str | None = None
    input_data: Any = None
    fencing_token: int | None = None
    why: Any = Field(None, description="why there is none")


class CompleteWork(Request):
    task_id: Word
    success: bool
    result: Data = None
    error_message: Annotated[Text, Field(max_length=MOST_ERROR)] | None = None
    fencing_token: Token | None = None
    skill: Annotated[Name, Field(max_length=MOST_NAME)] | None = Field(
        None, description="what it was done by"
    )
    land: bool = Field(False, description="your branch is to land, too")


class CompleteAnswer(Answer):
    status: str | None = None
    unblocked: list[str] | None = None
    landing: Any = None


class SubmitWork(Request):
    task_type: Type
    task_description: Annotated[Text, Field(max_length=MOST_DESCRIPTION)]
    input_data: Data = None
    priority: int = Field(5, ge=1, le=10, description="1 is first")
    depends_on: list[Word] = Field([], max_length=MOST_NEEDS, description="task_ids")
    on_failed: Literal["block", "cascade", "ignore"] = Field("block", description="when a dependency fails")
    files: list[File] = Field([], max_length=MOST_FILES, description="locked with its claim")
    max_attempts: int | None = Field(None, ge=1, le=100)
    task_id: Word | None = Field(None, description="a UUID of yours")
    idempotency_key: Word | None = None


class SubmitAnswer(Answer):
    task_id: str | None = None
    number: int | None = None
    status: str | None = None


class ReleaseWork(Request):
    task_id: Word
    reason: Reason | None = None


class StatusAnswer(Answer):
    status: str | None = None


class OneTask(Request):
    task_id: Word


class ThisTask(Request):
    """One task, by its own name or as the tools `renew` and `explain` ask for it."""

    task_id: Word | None = None
    kind: Literal["claim", "work", "task"] | None = Field(None, description="as the tool says it")
    id: Word | None = Field(None, description="the same as task_id")

    exactly_one = ("task_id", "id")

    @property
    def task(self) -> str:
        return self.task_id or self.id or ""


class RenewClaim(ThisTask):
    kind: Literal["claim"] | None = Field(None, description="as the tool says it")
    lease_minutes: Minutes | None = None
    ttl_minutes: Minutes | None = Field(None, description="the same as lease_minutes")

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.lease_minutes is not None:
            one_of(self, "lease_minutes", "ttl_minutes")
        return self


class SetNeeds(Request):
    task_id: Word
    depends_on: list[Word] = Field(max_length=MOST_NEEDS, description="task_ids, instead of those it has")


class Pending(Request):
    limit: int = Field(100, ge=1, le=1000)


class ListWork(Request):
    status: Listed | None = Field(None, description="open: not over; done: over, however it ended")
    task_type: Type | None = None
    assignee: Word | None = Field(None, description="who has it, or had it last")
    limit: int = Field(100, ge=1, le=1000)
    cursor: str | None = Field(None, pattern=r"^[0-9]{1,9}$", description="`next` of the last page")


class TaskShown(Shown):
    task_id: str
    task_type: str
    task_description: str
    status: Status = Field(description="the queue's word, as submit, complete and explain say it")


class TaskStanding(TaskShown):
    column: Column = Field(description="where the board shows it")
    attempt: int = Field(description="the one that runs or comes next; of an ended task its last")
    assignee: str | None = Field(None, description="who has it, or had it last")
    result: Any = Field(None, description="what complete_work stored")
    error_message: str | None = None
    not_before: str | None = Field(None, description="only while it backs off")


class WorkList(Shown):
    tasks: list[TaskStanding]
    next: str | None = Field(None, description="the cursor of the next page; null after the last")


class Explained(Shown):
    success: bool | None = None


@operation(
    "POST",
    "/work/claim",
    Task,
    scope="work",
    aliases=(("POST", "/work/get"),),
    tool=True,
    beats=True,
    tag="work",
)
async def get_work(services: Services, caller: Caller, request: GetWork) -> Json:
    """Claim the next task when you are free; its files are locked with it.

    Do it, renew before lease_until, then complete_work, or release_work if you cannot. task_id null: nothing
    for you now (wait_seconds waits for it); why counts what is blocked, claimed or backing off, next_at is
    when to ask again. work://all lists the tasks.
    """
    seconds = None if request.lease_minutes is None else request.lease_minutes * 60
    return await services.work.get(
        caller,
        request.task_types,
        task_id=request.task_id,
        lease_s=seconds,
        wait_s=request.wait_seconds,
        on_wait=HEARD.get(),
    )


@operation("POST", "/work/complete", CompleteAnswer, scope="work", tool=True, beats=True, tag="work")
async def complete_work(services: Services, caller: Caller, request: CompleteWork) -> Json:
    """End a task that you claimed, once and for good.

    success false: it failed and is not tried again (for another attempt: release_work). result is what others
    need of it. stale_token: you lost the claim and nothing was kept; get_work gives the next.
    """
    done = await services.work.complete(
        caller,
        request.task_id,
        request.success,
        result=request.result,
        error_message=request.error_message,
        fencing_token=request.fencing_token,
        skill=None if request.skill is None else skill_name(request.skill),
    )
    if not (request.land and request.success):
        return done
    try:
        landing = await services.landings.ask(caller, task=done["task_id"])
    except Refusal as refusal:
        landing = refusal.as_json()  # the task is completed all the same
    return {**done, "landing": landing}


@operation("POST", "/work/submit", SubmitAnswer, scope="work", tool=True, beats=True, tag="work")
async def submit_work(services: Services, caller: Caller, request: SubmitWork) -> Json:
    """Put a task into the queue, for whoever asks next.

    Say all that somebody needs who has not seen your work. depends_on: it can begin when these are completed;
    until then its status is blocked.
    """
    return await services.work.submit(
        caller,
        request.task_type,
        request.task_description,
        input_data=request.input_data,
        priority=request.priority,
        depends_on=request.depends_on,
        on_failed=request.on_failed,
        files=request.files,
        max_attempts=request.max_attempts,
        task_id=request.task_id,
        idempotency_key=request.idempotency_key,
    )


@operation("POST", "/work/release", StatusAnswer, scope="work", tool=True, beats=True, tag="work")
async def release_work(services: Services, caller: Caller, request: ReleaseWork) -> Json:
    """Give back a claimed task that you cannot finish, for another attempt after next_at.

    Say in reason what stood in the way. status dead: that was its last attempt; tell a person.
    """
    return await services.work.release(caller, request.task_id, reason=request.reason)


@operation("POST", "/work/renew", Answer, scope="work", beats=True, tag="work")
async def renew_claim(services: Services, caller: Caller, request: RenewClaim) -> Json:
    """Keep a claimed task for longer."""
    minutes = request.ttl_minutes if request.lease_minutes is None else request.lease_minutes
    seconds = None if minutes is None else minutes * 60
    return await services.work.renew(caller, request.task, lease_s=seconds)


@operation("POST", "/work/explain", Explained, scope="read", read_only=True, beats=True, tag="work")
async def explain_work(services: Services, caller: Caller, request: ThisTask) -> Json:
    """Every reason why you cannot claim a task."""
    return await services.work.explain(caller, request.task)


@operation("POST", "/work/needs", Answer, scope="work", beats=True, tag="work")
async def set_needs(services: Services, caller: Caller, request: SetNeeds) -> Json:
    """Replace the tasks that a task depends on."""
    return await services.work.set_needs(caller, request.task_id, request.depends_on)


@operation("POST", "/work/reopen", StatusAnswer, scope="work", beats=True, tag="work")
async def reopen_work(services: Services, caller: Caller, request: ReleaseWork) -> Json:
    """Open a new attempt of a finished task; only a person can."""
    return await services.work.reopen(caller, request.task_id, reason=request.reason)


@operation("GET", "/work/pending", TaskShown, scope="read", result_list=True, read_only=True, tag="work")
async def pending_work(services: Services, caller: Caller, request: Pending) -> list[Json]:
    """The tasks that can be claimed now, in the order in which they would be given."""
    return await services.work.pending(caller, limit=request.limit)


@operation("GET", "/work", WorkList, scope="read", read_only=True, tag="work")
async def list_work(services: Services, caller: Caller, request: ListWork) -> Json:
    """The tasks on the board, by number; filter by status, type or assignee."""
    return await services.work.list(
        caller,
        status=request.status,
        task_type=request.task_type,
        assignee=request.assignee,
        limit=request.limit,
        cursor=request.cursor,
    )


@operation("GET", "/work/{task_id}", TaskStanding, scope="read", read_only=True, tag="work")
async def show_task(services: Services, caller: Caller, request: OneTask) -> Json:
    """One task as it stands."""
    task = await services.work.task(caller, request.task_id)
    # TASK is the board's; here it has the queue's names as well.
    return {"task_id": task.get("id"), "task_description": task.get("title"), **task}

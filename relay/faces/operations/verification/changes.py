"""The operations on verifications: a change is told, and how it stands (docs/verification.md).

Invariant: names and shapes are the document's. None of them gives a verdict or approves anything.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from relay.faces.operations.operation import Answer, Name, Names, Request, Text, operation, storable
from relay.faces.services import Services
from relay.model import Caller, Fault, Refusal

Json = dict[str, Any]
#: The whole id of a commit: an abbreviated one may mean another commit tomorrow.
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}(?:[0-9a-f]{24})?$")]
Branch = Annotated[Name, Field(max_length=255, pattern=r"^[^-]")]
Delivery = Annotated[str, AfterValidator(storable), Field(min_length=1, max_length=200)]
Changeset = Annotated[Name, Field(max_length=64)]


class TellChange(Request):
    summary: Annotated[Text, Field(max_length=1000)]
    commit: Commit | None = Field(None, description="left out: your worktree here, as it is")
    base: Commit | None = Field(
        None, description="what it stands on; left out: where it left the main branch"
    )
    branch: Branch | None = None
    files: Names | None = Field(None, description="paths that you changed, beside those that git names")
    task_id: Annotated[Name, Field(max_length=64)] | None = Field(None, description="yours, that it is for")
    delivery_id: Delivery | None = Field(None, description="the same one again is the same changeset")


class Queued(Answer):
    changeset_id: str | None = None
    number: int | None = None
    reference: str | None = None
    state: str | None = None
    repeated: bool | None = None


@operation("POST", "/webhook/agent", Queued, scope="work", tag="verification")
async def tell_change(services: Services, caller: Caller, request: TellChange) -> Json:
    """Say that you changed something: it is verified by the room's policies.

    `GET /status/{changeset_id}` says what came of it.
    """
    task = None if request.task_id is None else await _own_task(services, caller, request.task_id)
    return await services.verifications.tell(
        caller,
        summary=request.summary,
        commit=request.commit,
        base=request.base,
        branch=request.branch,
        files=request.files,
        task=task,
        delivery=request.delivery_id,
    )


async def _own_task(services: Services, caller: Caller, name: str) -> str:
    """The task's id. A verification that fails opens its task again: not another's. Raises Refusal."""
    task = await services.work.task(caller, name)
    if task.get("assignee") != caller.agent and not caller.person:
        message = f"The task {name} is not {caller.agent}'s: {task.get('assignee') or 'nobody'} has it."
        raise Refusal(message, "Claim it first, or leave task_id out.", Fault.FORBIDDEN, "not_yours")
    return str(task["task_id"])


class OneStatus(Request):
    changeset_id: Changeset


class StatusAnswer(Answer):
    changeset_id: str | None = None
    state: str | None = None
    results: list[Any] | None = None
    approvals: list[Any] | None = None


@operation("GET", "/status/{changeset_id}", StatusAnswer, scope="read", read_only=True, tag="verification")
async def verification_status(services: Services, caller: Caller, request: OneStatus) -> Json:
    """All of one verification: the change, each policy's runs with their output, the approvals."""
    return await services.verifications.status(caller, request.changeset_id)


class LookAtVerification(Request):
    changeset_id: Changeset | None = Field(None, description="or v12; left out: your newest")


class VerificationAnswer(Answer):
    verifications: list[Any] | None = None


@operation(
    "GET",
    "/verification",
    VerificationAnswer,
    scope="read",
    tool=True,
    read_only=True,
    tag="verification",
)
async def verification(services: Services, caller: Caller, request: LookAtVerification) -> Json:
    """Did what you changed pass? `state`, each policy's result, and of a failure its last lines.

    Ask after your work was handed in; mend what failed and hand it in again.
    """
    return await services.verifications.look(caller, request.changeset_id)

"""The operations on skills (docs/memory.md, "Skills"; 004, "Procedural Memory").

Invariant: names and shapes are the document's. What a skill is worth, the memory says.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from relay.faces.operations.operation import Answer, Name, Request, Shown, Text, need, operation
from relay.faces.services import Services
from relay.memory.procedural import MOST_NAME, MOST_STEP, MOST_STEPS, MOST_TYPE
from relay.model import Caller, Fault, Refusal

Json = dict[str, Any]
TaskType = Annotated[Name, Field(max_length=MOST_TYPE)]
SkillName = Annotated[Name, Field(max_length=MOST_NAME)]
Steps = Annotated[list[Annotated[Text, Field(max_length=MOST_STEP)]], Field(max_length=MOST_STEPS)]


class SkillUse(Request):
    task_type: TaskType
    name: SkillName | None = None
    success: bool | None = None
    steps: Steps | None = None


class ListSkills(Request):
    task_type: TaskType
    name: SkillName | None = Field(None, description="only this one")


class SkillShown(Shown):
    name: str
    task_type: str
    uses: int
    successes: int
    effectiveness: float = Field(ge=0, le=1, description="posterior mean; the task type's rate is the prior")
    steps: list[str]


class SkillsAnswer(Answer):
    skills: list[SkillShown] | None = Field(None, description="best first")


@operation("POST", "/memory/skills", SkillsAnswer, scope="read", tool=True, tag="memory")
async def skill(services: Services, caller: Caller, request: SkillUse) -> Json:
    """Which way of doing a task_type works best, by effectiveness.

    With success: count a use of name. complete_work counts its skill itself.
    """
    if request.success is None:
        if request.steps is not None:
            message = "`steps` are told with a use, and `success` is missing."
            raise Refusal(message, "Say in `success` how it went.", Fault.MALFORMED)
        return await services.skills.list(caller, request.task_type, name=request.name)
    need(caller, "memory")
    if request.name is None:
        raise Refusal("`name` is missing.", "Name the skill whose use this was.", Fault.MALFORMED)
    return await services.skills.use(
        caller, request.task_type, request.name, request.success, steps=request.steps
    )


@operation("GET", "/memory/skills", SkillsAnswer, scope="read", read_only=True, tag="memory")
async def list_skills(services: Services, caller: Caller, request: ListSkills) -> Json:
    """The skills for tasks of a type, best first."""
    return await services.skills.list(caller, request.task_type, name=request.name)

"""The operations on verification policies (004, Verification Policies)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from relay.faces.operations.operation import Answer, Name, Request, Shown, operation
from relay.faces.services import Services
from relay.model import ADMIN, Caller

Json = dict[str, Any]


class MakePolicy(Request):
    """Checked by the wing, which says what is wrong with each key."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    name: str
    tier: Any
    executor: Any
    patterns: Any


class PolicyAnswer(Answer):
    policy: Json | None = None


class Listed(Request):
    pass


class PolicyShown(Shown):
    name: str
    tier: int
    executor: str
    at: str = Field(description="where it stands: a file with its line, or POST /policies")


class OnePolicy(Request):
    name: Annotated[Name, Field(max_length=64)]


@operation("POST", "/policies", PolicyAnswer, scope=ADMIN, tag="verification")
async def make_policy(services: Services, caller: Caller, request: MakePolicy) -> Json:
    """Make a verification policy, as a file of the folder would have it; only a person can."""
    values = {name: value for name, value in request.model_dump().items() if value is not None}
    policy = await services.policies.add(values, caller.agent)
    return {"success": True, "policy": policy.as_json()}


@operation(
    "GET", "/policies", PolicyShown, scope="read", read_only=True, result_list=True, tag="verification"
)
async def list_policies(services: Services, caller: Caller, request: Listed) -> list[Json]:
    """The verification policies, of files and of POST /policies, by their names."""
    return [{**policy.as_json(), "at": policy.at} for policy in await services.policies.known()]


@operation("DELETE", "/policies/{name}", Answer, scope=ADMIN, tag="verification")
async def drop_policy(services: Services, caller: Caller, request: OnePolicy) -> Json:
    """Take a policy away that was made by POST /policies."""
    await services.policies.drop(request.name)
    return {"success": True}

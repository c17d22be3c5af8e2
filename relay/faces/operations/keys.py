"""The operations on API keys: a person's (docs/coordination.md, "Keys").

Invariant: a key's text is in the answer to its creation and nowhere else.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from relay.faces.operations.operation import Answer, Name, Request, Shown, Text, operation
from relay.faces.services import Services
from relay.model import ADMIN, SCOPES, Caller

Json = dict[str, Any]
_SCOPES = ", ".join([*sorted(SCOPES), ADMIN])


class CreateKey(Request):
    identity: Annotated[Name, Field(max_length=200)] = Field(
        description="the one name that the key speaks for"
    )
    key_type: Annotated[Name, Field(max_length=60)] = Field("agent", description="agent_type of its sessions")
    scopes: list[str] | None = Field(
        None, max_length=10, description=f"of: {_SCOPES}; all but admin", json_schema_extra={"minItems": 1}
    )
    expires: Annotated[str, Field(max_length=20)] = Field("never", description="30d, 12h, 45m, or never")
    note: Annotated[Text, Field(max_length=400)] | None = Field(None, description="what it is for")


class CreatedKey(Answer):
    id: str | None = None
    key: str | None = Field(None, description="shown this once")


class Key(Shown):
    id: str
    identity: str
    scopes: list[str]


class ListKeys(Request):
    pass


class RevokeKey(Request):
    id: Annotated[Name, Field(max_length=100)] = Field(description="the key's public id")


@operation("POST", "/keys", CreatedKey, scope=ADMIN, tag="keys")
async def create_key(services: Services, caller: Caller, request: CreateKey) -> Json:
    """Make an API key for one identity."""
    return await services.keys.create(
        caller,
        request.identity,
        agent_type=request.key_type,
        scopes=request.scopes,
        expires=request.expires,
        note=request.note or "",
    )


@operation("GET", "/keys", Key, scope=ADMIN, result_list=True, read_only=True, tag="keys")
async def list_keys(services: Services, caller: Caller, request: ListKeys) -> list[Json]:
    """The keys, without their secrets."""
    return await services.keys.list(caller)


@operation("DELETE", "/keys/{id}", Answer, scope=ADMIN, tag="keys")
async def revoke_key(services: Services, caller: Caller, request: RevokeKey) -> Json:
    """Revoke a key: it is refused within a second."""
    return await services.revoke_key(caller, request.id)

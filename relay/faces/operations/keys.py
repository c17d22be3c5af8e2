"""The operations on API keys: a person's (docs/coordination.md, "Keys").

Invariant: a key's text is in the answer to its creation and nowhere else.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from relay.faces.operations.operation import Answer, Name, Operation, Request, Shown, Text
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


async def _create(services: Services, caller: Caller, asked: CreateKey) -> Json:
    return await services.keys.create(
        caller,
        asked.identity,
        agent_type=asked.key_type,
        scopes=asked.scopes,
        expires=asked.expires,
        note=asked.note or "",
    )


async def _list(services: Services, caller: Caller, asked: ListKeys) -> list[Json]:
    return await services.keys.list(caller)


async def _revoke(services: Services, caller: Caller, asked: RevokeKey) -> Json:
    return await services.revoke_key(caller, asked.id)


OPERATIONS = (
    Operation(
        "create_key",
        CreateKey,
        CreatedKey,
        ADMIN,
        _create,
        "POST",
        "/keys",
        "Make an API key for one identity.",
        tag="keys",
    ),
    Operation(
        "list_keys",
        ListKeys,
        Key,
        ADMIN,
        _list,
        "GET",
        "/keys",
        "The keys, without their secrets.",
        result_list=True,
        read_only=True,
        tag="keys",
    ),
    Operation(
        "revoke_key",
        RevokeKey,
        Answer,
        ADMIN,
        _revoke,
        "DELETE",
        "/keys/{id}",
        "Revoke a key: it is refused within a second.",
        tag="keys",
    ),
)

"""The operations on API keys: a person's (docs/coordination.md, "Keys").

Invariant: a key's text is in the answer to its creation and nowhere else.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from relay.access.keys import Keys
from relay.faces.operations.operation import Answer, Name, Operation, Request, Shown, Text
from relay.faces.ports import Services, SessionsApi
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


def _keys(services: Services) -> Keys:
    keys: Keys = services.more["keys"]
    return keys


async def _create(services: Services, caller: Caller, asked: CreateKey) -> Json:
    return await _keys(services).create(
        caller,
        asked.identity,
        agent_type=asked.key_type,
        scopes=asked.scopes,
        expires=asked.expires,
        note=asked.note or "",
    )


async def _list(services: Services, caller: Caller, asked: ListKeys) -> list[Json]:
    return await _keys(services).list(caller)


async def _revoke(services: Services, caller: Caller, asked: RevokeKey) -> Json:
    return await revoke(_keys(services), services.sessions, caller, asked.id)


async def revoke(keys: Keys, sessions: SessionsApi, caller: Caller, id: str) -> Json:
    """Revoke a key and end the session that is its own, so that what it held is free now; one that it named itself
    ends with its lease. Raises Refusal as `Keys.revoke` does."""
    told = await keys.revoke(caller, id)
    its = Caller(told["identity"], f"key-{told['id']}", told["agent_type"])
    await sessions.end(its, reason="its key was revoked", by=caller.agent)
    return told


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

"""Operations as a command carries them out: through the room that runs, else on its database.

Invariants:
- who asks is decided in one way: the agent whose key the shell has (RELAY_API_KEY), else the person. A key has its
  scopes on either path, and one that is not good is never taken for a person;
- a request and its answer are the operation's, so they are the same on either path.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote

from relay.access.git_person import git_person
from relay.app.commands.person import person
from relay.app.runtime import instance
from relay.app.runtime.daemon_requests import agents_key, ask_daemon, author_of, state_of
from relay.app.runtime.identity import bad_key
from relay.config.settings import LiveSettings, Settings
from relay.model import Caller, Fault, Refusal

if TYPE_CHECKING:
    from relay.faces.services import Services
    from relay.store.ports import Store

#: Seconds that the room gets for one operation.
PATIENT_S = 300.0
_PLACE = re.compile(r"\{(\w+)\}")

#: Where a running room carries them out, as the operations say themselves: to import these takes more time than all
#: the rest of a command.
ADDRESSES = {
    "recall": ("POST", "/memory/recall"),
    "show_memory": ("GET", "/memory/{memory_id}"),
    "forget": ("POST", "/memory/forget"),
    "feedback": ("POST", "/memory/feedback"),
    "import_memories": ("POST", "/memory/import"),
    "conflicts": ("GET", "/conflicts"),
    "resolve": ("POST", "/conflicts/answer"),
}

#: Carries out an operation of `ADDRESSES` with the values of its request; gives its answer. Raises Refusal.
Perform = Callable[[str, Mapping[str, Any]], Awaitable[Any]]


@asynccontextmanager
async def room_operations(settings: Settings, name: str | None) -> AsyncIterator[Perform]:
    """How operations are carried out here. `name`: the person's, None = the one that git has. Raises Refusal,
    WrongUse, StoreError."""
    agents = settings.agent_names
    by = person(name or git_person(settings.repo, agents), agents)
    url = await asyncio.to_thread(_address, settings)
    if url is not None:
        yield await _of_running_room(settings, url, by.agent)
        return
    from relay.faces.operations.operation import perform
    from relay.faces.operations.registry import OPERATIONS

    async with opened_database(settings) as (_, services):
        caller = await _caller(services, by)

        async def perform_here(operation: str, values: Mapping[str, Any]) -> Any:
            return await perform(services, caller, OPERATIONS[operation], values)

        yield perform_here


@asynccontextmanager
async def opened_database(settings: Settings) -> AsyncIterator[tuple[Store, Services]]:
    """The room's database, and what operations ask of it. Raises StoreError."""
    from relay.app.wiring.schema import SCHEMAS
    from relay.faces.services import services_of
    from relay.store.open import opened_store

    settings.runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with opened_store(settings, SCHEMAS) as store:
        yield store, services_of(store, LiveSettings(settings))


def _address(settings: Settings) -> str | None:
    """Where the room answers; None: none runs. Raises Refusal."""
    try:
        if instance.running(settings) is None:
            return None
    except instance.DamagedRecord as error:
        raise Refusal(f"It is not known whether the room runs: {error}.", "") from error
    state = state_of(settings)
    if state is None:
        raise Refusal("The room starts or stops just now.", "Try again in a moment.", Fault.BUSY)
    return str(state["url"])


async def _of_running_room(settings: Settings, url: str, by: str) -> Perform:
    try:
        key, author = await asyncio.to_thread(author_of, settings, by)
    except OSError as error:
        raise Refusal(f"The room's token cannot be read: {error}.", "") from error
    session = os.environ.get("RELAY_SESSION_ID", "").strip()
    about = author | ({"session_id": session} if session and not author else {})

    async def perform_there(operation: str, values: Mapping[str, Any]) -> Any:
        method, address = ADDRESSES[operation]
        path = _PLACE.sub(lambda place: quote(str(values[place[1]]), safe=""), address)
        body = {**values, **about} if method == "POST" else None
        try:
            return await asyncio.to_thread(ask_daemon, url + path, timeout_s=PATIENT_S, key=key, body=body)
        except HTTPError as error:
            raise _refusal(error) from error
        except (OSError, HTTPException, ValueError) as error:
            message = f"The room runs and does not answer: {error or type(error).__name__}."
            raise Refusal(message, "Try again in a moment.", Fault.BUSY) from error

    return perform_there


def _refusal(error: HTTPError) -> Refusal:
    """What the room refused, as it said it."""
    if error.code == 401:
        return _bad_key() if agents_key() else Refusal("The room does not know its own token.", "Restart it.")
    try:
        told = json.load(error)["error"]
        message, fix, code = str(told["message"]), str(told["fix"]), str(told["code"])
    except (ValueError, KeyError, TypeError):
        return Refusal(
            f"The room answered HTTP {error.code}.", "Its log (`relay log`) says more.", Fault.BUSY
        )
    faults = {400: Fault.MALFORMED, 403: Fault.FORBIDDEN, 404: Fault.UNKNOWN}
    return Refusal(message, fix, faults.get(error.code, Fault.BUSY), code)


def _bad_key() -> Refusal:
    return Refusal(bad_key(), "", Fault.FORBIDDEN, "bad_key")


async def _caller(services: Services, by: Caller) -> Caller:
    """Who asks. Raises Refusal: a key that is not good."""
    if not agents_key():
        return by
    key = await services.keys.find(agents_key())
    if key is None:
        raise _bad_key()
    session = os.environ.get("RELAY_SESSION_ID", "").strip() or f"key-{key.id}"
    return Caller(
        key.identity,
        session,
        key.agent_type,
        person=key.agent_type == "person",
        scopes=key.scopes,
        key=key.id,
    )

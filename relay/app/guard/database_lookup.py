"""A room that does not answer, asked by git's hooks in its database.

Invariant: nothing is let through that nobody could look up, and nothing over a lock that is not on record.
"""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relay.app.guard.questions import Asker, Unasked
from relay.app.guard.sqlite_lookup import CannotTell, Room, answered, keep
from relay.base.case_folding import folds_case
from relay.coordination.writes.guard import Answer, caller_of, check
from relay.coordination.writes.lock_check import LockJudge
from relay.model import Caller, Refusal


def ask_database(config: str, asker: Asker, paths: Sequence[str], act: str, why: str) -> dict[str, Any]:
    """The answer as the room would give it. `why`: why the room was not asked. Raises Unasked."""
    try:
        room = Room.at(config)
        caller = _caller(asker, room)
        if room.storage != "sqlite":
            return _by_store(config, caller, paths, act, asker.override).as_json()
        answer = answered(room, caller, paths, asker.override, fold=folds_case(Path.cwd()))
    except CannotTell as error:
        raise Unasked(f"{why}; and {error}") from None
    if answer.refusals:
        try:
            keep(room, caller, answer, act, override=answer.override)
        except OSError as error:
            if answer.override:
                raise Unasked(f"the override cannot be recorded: {error}", final=True) from None
    return answer.as_json()


def _caller(asker: Asker, room: Room) -> Caller:
    """Raises Unasked."""
    if asker.key and asker.agent is None:
        raise Unasked("whose RELAY_API_KEY this is, only the running room says: set RELAY_AGENT_ID too")
    try:
        name = room.spelled(asker.agent) if asker.agent else _user()
        return caller_of(name, asker.session, person=asker.person)
    except Refusal as error:
        raise Unasked(f"{error.message} {error.fix}", final=True) from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "someone"


def _by_store(config: str, caller: Caller, paths: Sequence[str], act: str, override: str) -> Answer:
    """Ask and record by the store itself, whichever it is. Raises CannotTell."""
    from relay.config.settings import ConfigError, load
    from relay.store.open import open_store
    from relay.store.ports import StoreError

    async def ask() -> Answer:
        store = await open_store(load(config), create=False)
        try:
            return await check(
                store, LockJudge(fold=folds_case(Path.cwd())), caller, paths, act=act, override=override
            )
        except (store.errors, store.transient) as error:
            raise CannotTell(f"the database says: {error}") from error
        finally:
            await store.close()

    try:
        return asyncio.run(ask())
    except (ConfigError, StoreError, Refusal, ImportError, OSError) as error:
        raise CannotTell(str(error)) from error


def keep_override(config: str, act: str, override: str, why: str, paths: Sequence[str]) -> Path:
    """Keep a person's override of a question that nobody could answer. Raises OSError."""
    room = Room(Path(config).absolute(), "unknown")
    me = caller_of(_user(), None, person=True)
    return keep(room, me, Answer(), act, override=override, unasked=why, paths=paths)

"""The locks of a room that gives no answer, as its hooks look them up: in its database.

Invariants: what nobody can look up is an error, never an answer, and nothing goes through over a lock that is not on
record. On SQLite nothing is written but lines of `.relay/guard.log`: what was refused, or let through over a lock or
unasked. The daemon reads them when it starts.

Blocking, and quick: with SQLite nothing but the standard library is imported.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relay.app.wiring.schema import SCHEMAS
from relay.base.case_folding import folds_case
from relay.base.files import open_regular, read_regular
from relay.base.git_checkouts import top_of, within
from relay.coordination.writes.fencing import LockCheck
from relay.coordination.writes.lock_guard import (
    MOST_TOLD,
    OVERRIDDEN,
    REFUSED,
    Answer,
    caller_of,
    check,
    judged,
)
from relay.git.signing import system_user
from relay.model import Caller, Refusal
from relay.model.speaker_names import spelled
from relay.store.ports import StoreError
from relay.store.sqlite.reader import look

if TYPE_CHECKING:
    from relay.app.guard.asker import Asker

#: Beside the database: what happened while the room did not run, a JSON object a line.
KEPT = "guard.log"


class CannotTell(Exception):
    """Nobody can say what is locked; the message says why."""


@dataclass(frozen=True, slots=True)
class Room:
    """Where a room keeps what it knows, by its configuration's path alone."""

    config: Path
    storage: str
    agents: tuple[str, ...] = ()

    @classmethod
    def at(cls, config: str | Path) -> Room:
        """Raises CannotTell when there is no configuration."""
        path = Path(config).absolute()
        try:
            configuration = json.loads(read_regular(path))
            storage = configuration.get("storage", "sqlite")
            named = [
                agent.get("name") for agent in configuration.get("agents") or () if isinstance(agent, dict)
            ]
        except (OSError, ValueError, AttributeError) as error:
            raise CannotTell(f"the configuration {path} cannot be read: {error}") from None
        return cls(path, str(storage), tuple(name for name in named if isinstance(name, str)))

    def spelled(self, agent: str) -> str:
        """The name under which the agent holds locks."""
        return spelled(agent, self.agents)

    @property
    def folder(self) -> Path:
        return self.config.parent / ".relay"

    @property
    def database(self) -> Path:
        return self.folder / "events.db"


def look_up(room: Room, caller: Caller, paths: Sequence[str], override: str = "", *, fold: bool) -> Answer:
    """What stands against these files (relative to the root). Records nothing. Raises CannotTell."""
    if room.storage != "sqlite":
        raise CannotTell(f"the room keeps its locks in {room.storage}, which only the running room can read")
    try:
        return look(
            room.database,
            lambda tx: judged(tx, LockCheck(fold=fold), caller, paths, override=override),
            wings=SCHEMAS,
        )
    except StoreError as error:
        raise CannotTell(str(error)) from error
    except Refusal as error:
        raise CannotTell(error.message) from error


def reasons_against(
    config: str, folder: str, places: Sequence[str], agent: str, session: str | None
) -> list[str]:
    """Why these edits must not be, in sentences. `places`: those that are in the codebase whose checkout `folder` is
    in; in which of its checkouts does not matter. Raises CannotTell."""
    top = top_of(Path(folder))
    paths = [path for path in (within(top, Path(place)) for place in places) if path is not None]
    room = Room.at(config)
    try:
        caller = caller_of(room.spelled(agent), session)
    except Refusal as error:
        raise CannotTell(error.message) from error
    answer = look_up(room, caller, paths, fold=folds_case(top)) if paths else Answer()
    return list(dict.fromkeys(f"{refusal.text} {refusal.fix}" for refusal in answer.refusals))


def reasons_against_command(
    config: str, folder: str, command: str, agent: str, session: str | None
) -> list[str]:
    """Why this command of a shell must not run in `folder`, in a sentence or two, by the locks alone. Raises
    CannotTell, ImportError."""
    # Its parser is no part of the standard library, and loads for a command alone.
    from relay.code.shell.foreseen import foresee, refusal_text

    top = top_of(Path(folder))
    foreseen = foresee(command, folder, lambda path: within(top, Path(path)))
    if not foreseen.sure:
        return []
    room = Room.at(config)
    try:
        caller = caller_of(room.spelled(agent), session)
    except Refusal as error:
        raise CannotTell(error.message) from error
    answer = look_up(room, caller, foreseen.sure, fold=folds_case(top))
    pairs = [(refusal.path, f"{refusal.text} {refusal.fix}") for refusal in answer.refusals]
    return [refusal_text(pairs)] if pairs else []


def ask_database(config: str, asker: Asker, paths: Sequence[str], act: str, why: str) -> dict[str, Any]:
    """The answer as the room would give it. `why`: why the room was not asked. Raises Unasked."""
    from relay.app.guard.asker import Unasked

    try:
        room = Room.at(config)
        caller = _caller(asker, room)
        if room.storage != "sqlite":
            return _by_store(config, caller, paths, act, asker.override).as_json()
        answer = look_up(room, caller, paths, asker.override, fold=folds_case(Path.cwd()))
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
    from relay.app.guard.asker import Unasked

    if asker.key and asker.agent is None:
        raise Unasked("whose RELAY_API_KEY this is, only the running room says: set RELAY_AGENT_ID too")
    try:
        name = room.spelled(asker.agent) if asker.agent else system_user()
        return caller_of(name, asker.session, person=asker.person)
    except Refusal as error:
        raise Unasked(f"{error.message} {error.fix}", final=True) from None


def _by_store(config: str, caller: Caller, paths: Sequence[str], act: str, override: str) -> Answer:
    """Ask and record by the store itself, whichever it is. Raises CannotTell."""
    from relay.config.loading import ConfigError, load
    from relay.store.open import opened_store

    async def ask() -> Answer:
        locks = LockCheck(fold=folds_case(Path.cwd()))
        async with opened_store(load(config), create=False) as store:
            try:
                return await check(store, locks, caller, paths, act=act, override=override)
            except (store.errors, store.transient) as error:
                raise CannotTell(f"the database says: {error}") from error

    try:
        return asyncio.run(ask())
    except (ConfigError, StoreError, Refusal, ImportError, OSError) as error:
        raise CannotTell(str(error)) from error


def keep(
    room: Room,
    caller: Caller,
    answer: Answer,
    act: str,
    *,
    override: str = "",
    unasked: str = "",
    paths: Sequence[str] = (),
) -> Path:
    """Keep for the room what was refused, or (`override`) let through; `unasked`: why nobody was asked about these
    `paths`. Gives the file. Raises OSError."""
    shown = answer.as_json()
    line: dict[str, Any] = {
        "type": OVERRIDDEN if override else REFUSED,
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "agent": caller.agent,
        "session": caller.session,
        "person": caller.person,
        "act": act,
        "paths": [refusal["path"] for refusal in shown["refusals"]] or list(paths)[:MOST_TOLD],
        "more": shown["more"] or max(0, len(paths) - MOST_TOLD),
        "reason": override or (answer.refusals[0].text if answer.refusals else ""),
        "unasked": unasked,
        "refusals": shown["refusals"],
    }
    file = room.folder / KEPT
    handle = open_regular(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, (json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
    finally:
        os.close(handle)
    return file


def keep_override(config: str, act: str, override: str, why: str, paths: Sequence[str]) -> Path:
    """Keep a person's override of a question that could not be answered. Raises OSError."""
    room = Room(Path(config).absolute(), "unknown")
    me = caller_of(system_user(), None, person=True)
    return keep(room, me, Answer(), act, override=override, unasked=why, paths=paths)

"""The locks of a room that does not run, as its hooks find them: in its database.

Invariant: what cannot be told raises CannotTell; no answer is made up. Nothing is written but lines of
`.relay/guard.log`: what was refused, or let through over a lock or unasked. The daemon takes them in when it starts.

Blocking, and quick: with SQLite nothing but the standard library is imported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from relay.app.runtime.identity import spelled
from relay.app.wiring.schema import WINGS
from relay.base.case_folding import folds_case
from relay.base.files import open_regular, read_regular
from relay.base.git_checkouts import top_of, within
from relay.coordination.writes.guard import MOST_TOLD, OVERRIDDEN, REFUSED, Answer, caller_of, judged
from relay.coordination.writes.lock_check import LockJudge
from relay.model import Caller, Refusal
from relay.store.ports import StoreError
from relay.store.sqlite.reader import look

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
            told = json.loads(read_regular(path))
            storage = told.get("storage", "sqlite")
            named = [one.get("name") for one in told.get("agents") or () if isinstance(one, dict)]
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


def answered(
    room: Room, caller: Caller, paths: Sequence[str], override: str = "", *, fold: bool = False
) -> Answer:
    """What stands against these files (relative to the root). Records nothing. Raises CannotTell."""
    if room.storage != "sqlite":
        raise CannotTell(f"the room keeps its locks in {room.storage}, which only the running room can read")
    try:
        return look(
            room.database,
            lambda tx: judged(tx, LockJudge(fold=fold), caller, paths, override=override),
            wings=WINGS,
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
    found = answered(room, caller, paths, fold=folds_case(top)) if paths else Answer()
    return list(dict.fromkeys(f"{one.text} {one.fix}" for one in found.refusals))


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
    told = answer.as_json()
    line: dict[str, Any] = {
        "type": OVERRIDDEN if override else REFUSED,
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "agent": caller.agent,
        "session": caller.session,
        "person": caller.person,
        "act": act,
        "paths": [one["path"] for one in told["refusals"]] or list(paths)[:MOST_TOLD],
        "more": told["more"] or max(0, len(paths) - MOST_TOLD),
        "reason": override or (answer.refusals[0].text if answer.refusals else ""),
        "unasked": unasked,
        "refusals": told["refusals"],
    }
    file = room.folder / KEPT
    handle = open_regular(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, (json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
    finally:
        os.close(handle)
    return file

"""The room as the interfaces see it: what it is made of, its state, and whether it can be used.

Invariants: an interface never touches a table; a person's act in the page is a message in the room, like the command
would be, so everybody sees who did what; every refusal says what would make it succeed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from relay.config.command_line import command, script
from relay.room.journal.live_bus import Live
from relay.room.parsing import commands
from relay.room.person_actions import PersonActions
from relay.room.poster import Poster
from relay.room.reader import Reader
from relay.room.routing.router import Router
from relay.room.transcript.tail import Transcript


@dataclass(frozen=True, slots=True)
class About:
    """What the state says of the room itself. `engine` and `database`: the store's kind and place."""

    name: str
    version: str
    started_at: str
    repo: Path
    engine: str
    database: str


class Status:
    """The state of the room as a whole."""

    def __init__(
        self,
        about: About,
        reader: Reader,
        live: Live,
        router: Router,
        transcript: Transcript,
        fleet: Callable[[], dict[str, Any]],
    ) -> None:
        """`fleet`: the relays that share the room (docs/fleet.md), as they are now."""
        self._about, self._reader, self._live = about, reader, live
        self._router, self._transcript, self._fleet = router, transcript, fleet

    async def as_json(self, *, claimed: bool = False) -> dict[str, Any]:
        """The whole of GET /api/state. `claimed`: of the board only what somebody has, and its counts."""
        about, reader, progress = self._about, self._reader, self._transcript.progress
        return {
            "room": {
                "name": about.name,
                "version": about.version,
                "started_at": about.started_at,
                "cursor": str(await reader.last_cursor()),
                "repo": str(about.repo),
            },
            "agents": await reader.agents(),
            **(await reader.claimed() if claimed else {"tasks": await reader.tasks()}),
            **await reader.held(),
            "people": self._live.people,
            "people_at": self._live.people_at,
            "dispatcher": self._router.state_json(),
            "fleet": self._fleet(),
            "storage": {"engine": about.engine, "path": about.database},
            "tail": {
                "catching_up": progress.catching_up,
                "offset": progress.offset,
                "size": progress.size,
            },
            "shell": {
                "start": script("scripts/start.sh").strip("`"),
                "install": command("mcp install").strip("`"),
                "import": command("memory import FILE.jsonl").strip("`"),
                "policies": command("verify-policy install").strip("`"),
            },
            "commands": commands.completions(),
        }


class Trouble(Protocol):
    """What the daemon knows to be wrong."""

    def text(self) -> str:
        """All that is wrong now, in words; empty when nothing is."""
        ...


@dataclass(frozen=True, slots=True)
class Room:
    """The parts of a room that an interface uses."""

    reader: Reader
    poster: Poster
    actions: PersonActions
    live: Live
    status: Status
    known_trouble: Trouble
    #: Does the database not answer now? Who asks something then is told so, and does not wait for it.
    cut_off: Callable[[], bool] = bool

    @property
    def trouble(self) -> str:
        """Why the room cannot be used; empty when it can. A refused message is told only where all else is well."""
        return self.known_trouble.text() or self.poster.trouble

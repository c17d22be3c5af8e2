"""A guard for tests: an advisory stands on the files that the test says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from relay.config.loading import parse
from relay.config.settings import LiveSettings
from relay.model import Caller, GuardDecision, Location, LockRefusal

REASON = "STEER: CODEX changes lines 40-58 of new.txt (advisory a1); take other work first."


class Standing:
    """Every agent is told to steer clear of `contested`, told `notes` by path, and refused `locks`; `asked` is what
    was asked about, and `sessions` in which."""

    def __init__(self, *contested: str) -> None:
        self.contested = set(contested)
        self.notes: dict[str, str] = {}
        self.locks: dict[str, LockRefusal] = {}
        self.asked: list[tuple[str, Location]] = []
        self.sessions: list[str | None] = []
        #: Commands that were asked about and may run.
        self.ran: list[tuple[str, str]] = []

    async def decide(self, agent: str, location: Location, session: str | None = None) -> GuardDecision:
        self.asked.append((agent, location))
        self.sessions.append(session)
        if location.path in self.locks:
            return GuardDecision.of_lock(self.locks[location.path])
        if location.path in self.contested:
            return GuardDecision(True, REASON, "a1")
        return GuardDecision(note=self.notes.get(location.path, ""))

    troubles = (OSError,)

    async def decide_all(
        self, agent: str, locations: Sequence[Location], session: str | None = None
    ) -> list[GuardDecision]:
        return [await self.decide(agent, location, session) for location in locations]

    async def standing(self, caller: Caller, paths: Sequence[str]) -> list[LockRefusal]:
        return [self.locks[path] for path in paths if path in self.locks]

    def runs(self, agent: str, command: str) -> None:
        self.ran.append((agent, command))

    async def check(self, caller: Caller, paths: Sequence[str], *, act: str, override: str = "") -> Any:
        """Lets every write through, and answers with what was asked."""
        asked = [caller.agent, caller.session, caller.person, list(paths), act, override]
        return SimpleNamespace(as_json=lambda: {"decision": "allow", "asked": asked})


@dataclass
class Folders:
    """Where agents work, of a few folders (`relay.faces.http.routes.guard.Checkouts`)."""

    top: Path
    roots: dict[str, Path] = field(default_factory=dict)
    tops: list[Path] = field(default_factory=list)

    def root_of(self, agent: str) -> Path | None:
        return self.roots.get(agent)

    def home(self) -> Path:
        return self.top

    def checkouts(self) -> list[Path]:
        return self.tops


def with_agents(*names: str) -> LiveSettings:
    agents = [{"name": name, "cmd": "x"} for name in names]
    return LiveSettings(parse(json.dumps({"agents": agents}), Path("/room/config.json")))

"""The airspace put together: its parts, who they speak through, and the tasks that run them.

Invariant: the airspace knows the room only by the Protocols of `relay.model` and by what is handed in here; with
`airspace.enabled` false everything stands and nothing is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from relay.airspace.answers import Answers
from relay.airspace.guard import AirspaceGuard, Interrupter
from relay.airspace.live import LiveAirspace
from relay.airspace.protocol import AdvisoryProtocol
from relay.airspace.scanner import Scanner
from relay.airspace.sky import Measure, Worktrees
from relay.config import Settings
from relay.config_airspace import AirspaceSettings
from relay.log import follow
from relay.log.store import Store
from relay.model import Board
from relay.room.advice import RoomVoice
from relay.room.drain import Drain
from relay.room.live import Live
from relay.room.roster import Roster

#: Programs whose hook asks before each edit (relay.agents.hooks); Gemini CLI's is only taken where root owns it.
HOOKED = frozenset({"claude", "codex"})


class AirspaceParts:
    """The parts of one running airspace. `settings` gives those in use."""

    def __init__(
        self,
        store: Store,
        settings: Callable[[], Settings],
        roster: Callable[[], Roster],
        *,
        board: Board,
        drain: Drain,
        live: Live,
        worktrees: Worktrees,
        measure: Measure,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._settings = settings
        self._roster = roster
        self._drain = drain
        voice = RoomVoice(roster)
        self.protocol = AdvisoryProtocol(
            store, voice, self._airspace, thresholds=lambda: measure.thresholds, board=board, clock=clock
        )
        self.answers = Answers(voice, self._exists, clock=clock)
        self.interrupter = Interrupter(
            self.protocol,
            self._airspace,
            working=self._working,
            guarded=self._guarded,
            interrupt=drain.interrupt,
            clock=clock,
        )
        self.scanner = Scanner(
            store,
            self.protocol,
            worktrees,
            measure,
            self._airspace,
            agents=lambda: roster().names,
            publish=live.publish,
            after_tick=self.interrupter.look,
            clock=clock,
        )
        self.live = LiveAirspace(store, self.protocol, self.scanner, self._airspace, clock=clock)
        self.guard = AirspaceGuard(self.protocol, lambda: self.scanner.sets, self._airspace)

    def start(self, start: Callable[[str, Callable[[], Any]], None]) -> None:
        """Start what runs for ever; `start` is the supervisor's."""
        start("airspace", self.scanner.run)
        start("airspace-answers", lambda: follow.run(self._store, self.answers))
        start("airspace-interrupts", self.interrupter.run)

    def poke(self) -> None:
        """Something changed: a worktree, the graph, the settings."""
        self.scanner.poke()

    def _airspace(self) -> AirspaceSettings:
        return self._settings().airspace

    def _exists(self, path: str) -> bool:
        return (self._settings().repo / path).is_file()

    def _working(self) -> Mapping[str, float]:
        return {name: turn.plan.started_at for name, turn in self._drain.running.items()}

    def _guarded(self, agent: str) -> bool:
        member = self._roster().members.get(agent)
        return member is not None and (member.kind == "acp" or member.preset in HOOKED)

"""What the tests of the protocol build with: the room's real store, queue and voice, and an airspace that is set.

Invariant: only the measuring is played (working sets and assessments are given); store, queue, log and messages
are the real ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from relay.airspace.advisories import table
from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.advisories.rules.advisory import Advisory
from relay.airspace.advisories.rules.hysteresis import Sample, ceiling
from relay.airspace.advisories.rules.observation import Observation, observe_pair
from relay.airspace.context import LiveContext
from relay.airspace.live.answers import AnswerFollower
from relay.airspace.readings import Evidence, Reading, Thresholds, assess
from relay.config.airspace import AirspaceSettings
from relay.coordination.tasks.board import Board
from relay.log.events import Event
from relay.log.follow import step
from relay.model import Kind, Message
from relay.model.working_set import FileTouch, Pair, Span, WorkingSet
from relay.room.advisory_voice import RoomVoice
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.room.dispatch.turns import Outcome, Plan
from relay.room.journal.values import Job
from relay.store.ports import Store
from tests import engines
from tests.engines import Clock
from tests.room import parts

SCHEMAS = engines.wings("log", "coordination", "room", "airspace")
NAMES = ("CLAUDE", "CODEX", "GEMINI")
FILE = "src/auth/session.py"
SETTINGS = AirspaceSettings(cooldown_s=300.0, answer_s=180.0, steer_s=240.0)


async def open_airspace_store(folder: Path, **more: Any) -> Store:
    """The store of a room with an airspace in this folder, on the engine that is being tested."""
    return await engines.open_store(folder, SCHEMAS, **more)


def touch(path: str, start: int = 1, end: int = 10) -> FileTouch:
    return FileTouch(path, lines=(Span(start, end),))


def work(agent: str, *paths: str, committed: float = 0.0, started_at: float = 1.0) -> WorkingSet:
    return WorkingSet(agent, tuple(touch(path) for path in paths), started_at=started_at, committed=committed)


def overlap(risk: float, path: str = FILE, lines: tuple[int, int] = (40, 58)) -> Reading:
    text = f"both change lines {lines[0]}-{lines[1]} of {path}"
    return Reading(risk, evidence=(Evidence(text, path, lines=(lines,)),))


def near(
    risk: float,
    *paths: str,
    muted: Sequence[str] = (),
    closing: bool = False,
    lines: tuple[int, int] = (40, 58),
) -> Any:
    """A pair at this risk, because of overlaps in these files."""
    files = paths or (FILE,)
    evidence = tuple(one for path in files for one in overlap(risk, path, lines).evidence)
    found = assess({"overlap": Reading(risk, evidence=evidence)}, Thresholds())
    return observe_pair(found, Sample(found.risk, ceiling(found, Thresholds()), closing), muted)


@dataclass
class AirspaceRoom:
    """A room with an airspace. `sets` and `seen` are what the next tick sees."""

    store: Store
    clock: Clock
    settings: AirspaceSettings = SETTINGS
    members: dict[str, Member] = field(default_factory=dict)
    sets: dict[str, WorkingSet] = field(default_factory=dict)
    seen: dict[Pair, Any] = field(default_factory=dict)
    files: set[str] = field(default_factory=lambda: {FILE, "src/free.py", "docs/a.md"})
    #: As of a scanner: what lies ahead, and what agents were asked for.
    forecasts: dict[Pair, Any] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.members = self.members or {name: Member(name, "played", self.policy(name)) for name in NAMES}
        self.context = LiveContext(self.store, lambda: self.settings, self.clock)
        self.voice = RoomVoice(Roster(self.members))
        self.board = Board()
        self.protocol = self.another()
        self.answers = AnswerFollower(self.voice, clock=self.clock)

    def about(self, agent: str) -> str:
        return self.asked.get(agent, "")

    def poke(self) -> None: ...

    def policy(self, name: str, **more: Any) -> Policy:
        return Policy(name, names=NAMES, agent_mentions=True, **more)

    def another(self, store: Store | None = None) -> AdvisoryProtocol:
        """One more protocol on this database, or on another store of it."""
        return AdvisoryProtocol(replace(self.context, store=store or self.store), self.voice, self.board)

    def observation(self, **more: Any) -> Observation:
        return replace(Observation(self.clock(), dict(self.sets), dict(self.seen)), **more)

    async def tick(self, seconds: float = 2.0, **more: Any) -> bool:
        self.clock.move(seconds)
        return await self.protocol.observe(self.observation(**more))

    async def meet(self, a: str = "CLAUDE", b: str = "CODEX", risk: float = 0.9, **more: Any) -> Advisory:
        """Two agents come into one file; gives the advisory."""
        self.sets |= {
            a: work(a, FILE, committed=3.0),
            b: work(b, FILE, started_at=2.0),
        }
        self.seen[(a, b)] = near(risk)
        await self.tick(**more)
        return await self.only()

    async def only(self) -> Advisory:
        (one,) = await self.all()
        return one

    async def all(self) -> list[Advisory]:
        return await self.store.read(lambda tx: table.latest(tx, 100))

    async def said(self) -> list[Message]:
        """The advisories in the room, without what is for people only."""
        return [
            one
            for one in await parts.all_messages(self.store)
            if one.kind is Kind.ADVISORY and "notice" not in one.meta and "intent" not in one.meta
        ]

    async def asked_people(self) -> list[Message]:
        return await parts.notices(self.store, "advisory")

    async def jobs(self) -> list[Job]:
        return await parts.all_jobs(self.store)

    async def events(self, *types: str) -> list[Event]:
        return await engines.all_events(self.store, *types)

    async def turn(self, agent: str, text: str, **more: Any) -> Plan:
        """The agent takes its next turn and answers; the answer is followed."""
        plan = await parts.plan_of(self.store, self.policy(agent, **more), self.clock())
        await parts.end(self.store, plan, Outcome(text), self.clock.move(1.0))
        await self.follow()
        return plan

    async def follow(self) -> None:
        while (await step(self.store, self.answers)).applied:
            pass
        await self.protocol.load()


def told(advisory: Advisory) -> Mapping[str, Any]:
    return advisory.as_json()

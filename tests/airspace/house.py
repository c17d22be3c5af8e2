"""A scanner over a real room: what the worktrees and the measuring say is set, the rest is real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

from relay.airspace.advisories.lock_intents import LockIntents
from relay.airspace.live.graph_keeper import GraphKeeper
from relay.airspace.live.interrupter import Interrupter
from relay.airspace.live.likeness import AskedTexts, WorkLikeness
from relay.airspace.live.observer import Observer
from relay.airspace.live.picture import Picture
from relay.airspace.live.scanner import Scanner
from relay.airspace.live.service import AirspaceService
from relay.airspace.pair_facts import Likeness, SemanticCheck
from relay.airspace.readings import Assessment, Evidence, Level, Reading, Thresholds, assess
from relay.airspace.shared.shared_work import SharedWork
from relay.airspace.text_similarity import Vocabulary
from relay.git.trial_merge import Merge, Target, Trial
from relay.model import HeldPath
from relay.model.working_set import Pair, WorkingSet, all_paths, could_collide
from relay.store.ports import Tx
from tests.airspace.parts import FILE
from tests.airspace.parts import AirspaceRoom as Room

NO_WORDS = Vocabulary()
NO_TURNS = SimpleNamespace(working=dict)


async def nothing_asked(agents: Collection[str]) -> Mapping[str, Sequence[str]]:
    return {}


class NoLocks:
    async def held(self, tx: Tx) -> Sequence[HeldPath]:
        return ()


class PlayedTrees:
    """Working sets and merges as they are set."""

    def __init__(self, agents: Collection[str]) -> None:
        self.agents = lambda: tuple(agents)
        self.sets: list[WorkingSet] = []
        self.told: dict[Pair, Merge | None] = {}
        self.asked: list[Sequence[Pair]] = []
        self.main: Target | None = None
        self.why = ""
        self.tried: dict[str, Trial] = {}
        self.commits: dict[str, Sequence[str]] = {}
        self.checks: dict[Pair, SemanticCheck] = {}
        #: As of a fleet: pairs on two machines, and of which a commit is on its way here.
        self.elsewhere: set[Pair] = set()
        self.on_the_way: set[Pair] = set()
        self.others: dict[str, SharedWork] = {}

    async def working_sets(self) -> Sequence[WorkingSet]:
        return list(self.sets)

    async def target(self) -> Target | None:
        return self.main

    def no_main(self) -> str:
        return "" if self.main else self.why

    def behind(self, agent: str) -> int | None:
        return 1 if agent in self.tried else None

    async def trials(self, target: Target) -> Mapping[str, Trial]:
        return dict(self.tried)

    def targets(self) -> Mapping[str, Target]:
        return {}

    def own_pairs(self) -> Sequence[Pair]:
        return self.pairs()

    def untried(self, pairs: Collection[Pair], known: Collection[Pair]) -> frozenset[Pair]:
        return frozenset(self.elsewhere & (set(pairs) - set(known)))

    def out_of_reach(self, pairs: Collection[Pair]) -> frozenset[Pair]:
        return frozenset(pairs)

    def coming(self, pairs: Collection[Pair]) -> frozenset[Pair]:
        return frozenset(self.on_the_way & set(pairs))

    async def merges(
        self, pairs: Sequence[Pair], trials: Mapping[str, Trial], *, most: int
    ) -> Mapping[Pair, Merge | None]:
        self.asked.append(pairs)
        return {pair: self.told.get(pair) for pair in pairs}

    def pairs(self) -> Sequence[Pair]:
        return could_collide({one.agent: all_paths(one.files) for one in self.sets})

    def semantic(self, risks: Mapping[Pair, float], but: Collection[str]) -> Mapping[Pair, SemanticCheck]:
        return self.checks

    def branches(self) -> Mapping[str, str]:
        return {one.agent: f"relay/{one.agent.lower()}" for one in self.sets}

    def trees(self) -> Mapping[str, str]:
        return {one.agent: f"tree of {one.agent}" for one in self.sets}

    def messages(self) -> Mapping[str, Sequence[str]]:
        return self.commits

    def vocabulary(self) -> Vocabulary:
        return NO_WORDS


class PlayedMeasure:
    """0.9 for two that work in one file, 0.5 for intent, 0.2 within one folder; and what git says."""

    def files(self) -> tuple[str, ...]:
        return ()

    def __init__(self) -> None:
        self.scans = 0
        self.given: Sequence[WorkingSet] = ()
        self.words: Mapping[Pair, Likeness] = {}
        #: Two that share nothing come near each other.
        self.foretells = False

    def scan(
        self, sets: Sequence[WorkingSet], merges: Mapping[Pair, Merge], words: Mapping[Pair, Likeness]
    ) -> Picture:
        self.scans += 1
        self.words = words
        self.given = sets
        links = {}
        for one in sets:
            for other in sets:
                if one.agent < other.agent and (found := self._between(one, other, merges)) is not None:
                    links[(one.agent, other.agent)] = found
        positions = {one.agent: (len(one.files) / 10, 0.0, 0.0) for one in sets}
        return Picture(links, positions, {FILE: (0.0, 0.0, 0.0)})

    def _between(self, one: WorkingSet, other: WorkingSet, merges: Mapping[Pair, Merge]) -> Assessment | None:
        a, b = all_paths(one.files), all_paths(other.files)
        ia, ib = all_paths(one.intent), all_paths(other.intent)
        channels = {}
        for path in sorted(a & b):
            channels["overlap"] = Reading(0.9, evidence=(Evidence(f"both change {path}", path),))
        for path in sorted((a & ib) | (b & ia) | (ia & ib)):
            channels["intent"] = Reading(0.5, alone=False, evidence=(Evidence(f"intent meets {path}", path),))
        if (merge := merges.get((one.agent, other.agent))) is not None and merge.conflicts:
            channels["merge"] = Reading(
                1.0, evidence=(Evidence("git cannot merge them", merge.conflicts[0]),)
            )
        if self.foretells and not channels:
            reading = Reading(0.2, foretells=True, evidence=(Evidence("both were asked about the cart"),))
            return Assessment(0.2, Level.CLEAR, {"words": reading}, ahead=True)
        return assess(channels, Thresholds()) if channels else None


class House:
    """A scanner over a real room."""

    def __init__(self, room: Room, turns: Any = NO_TURNS, asked: AskedTexts = nothing_asked) -> None:
        self.room = room
        self.trees, self.measure = PlayedTrees(room.members), PlayedMeasure()
        self.frames: list[dict[str, Any]] = []
        self.listened = asyncio.Event()
        self.listened.set()
        likeness, locks = WorkLikeness(self.trees, asked), LockIntents(room.store, NoLocks())
        observer = Observer(room.context, room.protocol, self.trees, self.measure, likeness, locks)
        self.interrupter = Interrupter(room.context, room.protocol, turns)
        self.scanner = Scanner(room.context, room.protocol, observer, self.interrupter)
        graph = GraphKeeper(room.store, self.measure, self.trees, self.scanner)
        self.live = AirspaceService(room.context, room.protocol, self.scanner, graph)

    async def tick(self, seconds: float = 2.0) -> None:
        self.room.clock.move(seconds)
        await self.scanner.tick()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(run) for run in (self.scanner.run(), self._show())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _show(self) -> None:
        async for frame in self.live.frames(self.listened):
            self.frames.append(frame)

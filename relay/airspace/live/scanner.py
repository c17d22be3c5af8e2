"""The live airspace: looks when something changed, lets the protocol act, and shows what it saw.

Invariants:
- a scan follows a change, at most every `airspace.tick_s`; while a pair is not clear there is also one each tick,
  since weights fade; while all is clear and nothing changes, nothing runs;
- measuring runs in a thread; one tick at a time;
- what is shown is never newer than what the protocol has acted on.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from relay.airspace.advisories import intents, table
from relay.airspace.advisories.intents import Declared, Source
from relay.airspace.advisories.lock_intents import LockIntents
from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.advisories.rules import edit_check
from relay.airspace.advisories.rules.hysteresis import Sample, ceiling, closing
from relay.airspace.advisories.rules.observation import Observation, PairObservation, observe_pair
from relay.airspace.globs import matches
from relay.airspace.live import history, picture
from relay.airspace.live.likeness import AskedTexts, WorkLikeness
from relay.airspace.live.measure import LiveMeasure
from relay.airspace.live.picture import Picture, PictureSample
from relay.airspace.live.sets import with_intents, without
from relay.airspace.readings import Assessment, Level
from relay.airspace.worktrees.working_sets import WorkingSetSource
from relay.base.durations import iso
from relay.config.airspace import AirspaceSettings
from relay.git.trial_merge import Merge, Target, Trial, Verdict
from relay.log import events
from relay.log.follow import tail
from relay.model.working_set import Pair, WorkingSet, all_paths
from relay.store.ports import Store

#: Seconds between two frames of the live state at least (docs/airspace.md).
SHOW_EVERY_S = 1.0
#: Seconds between two reads of what asks for a look at least: one look is for all of it.
FOLLOW_EVERY_S = 0.1
#: Samples that are kept of a pair for its closure rate: the look-ahead at the shortest tick's pace of change.
MOST_TRAIL = 64
#: Pairs that git is asked about in one tick: at 20 ms a speculative merge, about a second where none is known yet.
MOST_MERGES = 64
#: Looks in one tick while the main branch keeps moving: then the next tick has it.
MOST_LOOKS = 3
#: A branch that was merged counts as such for this long, so that its empty working set is not taken for steering.
MERGED_S = 600.0

#: What others write that asks for a look: an intent, and what changes who holds what (docs/coordination.md, Events).
POKES = (intents.DECLARED, "lock.acquired", "lock.released", "lock.forced", "session.ended")


class Scanner:
    """Runs the ticks. `publish(type, data)` tells connected clients; `agents` are the names of the room's agents;
    `after_tick` is called when the protocol has acted; `held` tells of the locks, `asked` what these
    agents were asked for: the messages of people and the tasks behind their current work."""

    def __init__(
        self,
        store: Store,
        protocol: AdvisoryProtocol,
        worktrees: WorkingSetSource,
        measure: LiveMeasure,
        settings: Callable[[], AirspaceSettings],
        *,
        agents: Callable[[], Collection[str]] = tuple,
        publish: Callable[[str, dict[str, Any]], None] = lambda type, data: None,
        after_tick: Callable[[], None] = lambda: None,
        held: LockIntents | None = None,
        asked: AskedTexts | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._after_tick = after_tick
        self._held = held
        self._likeness = WorkLikeness(worktrees, asked)
        self._protocol = protocol
        self._worktrees = worktrees
        self._measure = measure
        self._settings = settings
        self._agents = agents
        self._publish = publish
        self._clock = clock
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sets: dict[str, WorkingSet] = {}
        self._picture = Picture()
        self._merges: dict[Pair, Merge] = {}
        #: What git cannot merge: all of it, and what of it counts (not `airspace.muted`).
        self._all_conflicts: dict[Pair, tuple[str, ...]] = {}
        self._conflicts: dict[Pair, tuple[str, ...]] = {}
        self._target: Target | None = None
        self._trials: Mapping[str, Trial] = {}
        self._merged: dict[str, float] = {}
        #: When git last said that an agent's work is not all in the main branch.
        self._had_work: dict[str, float] = {}
        self._trails: dict[Pair, deque[tuple[float, float]]] = {}
        self._declared: Declared = {}
        self._sampled: PictureSample | None = None
        self._precision: dict[str, Any] | None = None
        self._at = 0.0
        self._to_show = asyncio.Event()
        self.ticks = 0

    def poke(self) -> None:
        """Something changed: look soon. From any thread, since a follower of the log runs in the database's."""
        loop = self._loop
        if loop is None or loop is _running_loop():
            self._changed.set()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self._changed.set)

    # -- running

    async def run(self) -> None:
        """Look for ever."""
        loop = self._loop = asyncio.get_running_loop()
        await self._protocol.load()
        self._changed.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="airspace-follow")
            group.create_task(self._show(), name="airspace-show")
            while True:
                await self._wait()
                began = loop.time()
                self._changed.clear()
                await self.tick()
                await asyncio.sleep(max(0.0, began + self._settings().tick_s - loop.time()))

    async def _wait(self) -> None:
        """Until something changed, or until something is due."""
        due = self._due_at()
        timeout = None if due is None else max(0.0, due - self._clock())
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()

    def _due_at(self) -> float | None:
        """When the next tick comes by itself (Unix seconds)."""
        if not self._settings().enabled:
            return None
        times = [self._protocol.due_at(), self._sample_due_at()]
        if not self._protocol.clear or self.no_main:
            times.append(self._at + self._settings().tick_s)
        return min((at for at in times if at is not None), default=None)

    def _sample_due_at(self) -> float | None:
        if self._sampled is None or not self._sample().differs(self._sampled):
            return None
        return self._sampled.at + history.EVERY_S

    async def _follow(self) -> None:
        """What others wrote: an intent asks for a look, an advisory changed by an answer or a person is read."""
        start = await self._store.read(events.last_pos)
        async for batch in tail(self._store, start, types=[*POKES, table.CHANGED]):
            if any(event.type in POKES for event in batch):
                self.poke()
                await asyncio.sleep(FOLLOW_EVERY_S)
            if any(event.type == table.CHANGED for event in batch):
                await self._protocol.load()
                self._precision = await self._store.read(table.counts)
                self._to_show.set()
                if self._protocol.due_at() is not None:
                    self.poke()

    def merged(self, agent: str) -> None:
        """An agent's branch was merged into the main one. From any thread."""
        self._merged[agent] = self._clock()
        self.poke()

    # -- one tick

    async def tick(self) -> None:
        """Look once, act on it, and show it."""
        self.ticks += 1
        settings, now = self._settings(), self._clock()
        if not settings.enabled:
            self._at = now
            await self._switched_off()
            return
        if await self._worktrees.target() is None and self.no_main:
            # What stands in the worktrees cannot be counted from anything: nothing begins by it, and nothing ends.
            self._at, self._target = now, None
            self._to_show.set()
            return
        await self._look(settings, now)
        self._at = now  # only now: what is shown as seen at this time has been seen
        ahead = {pair for pair, found in self._picture.links.items() if found.ahead}
        stand = {*ahead, *self._protocol.state.forecasts}
        self._protocol.edit_notices = edit_check.current_notices(
            self._protocol.edit_notices, self._sets, stand
        )
        observation = await asyncio.to_thread(self._observation, settings, now)
        emptied = self._emptied(now)
        observation = replace(
            observation, ahead=frozenset(ahead), edit_notices=self._protocol.edit_notices, emptied=emptied
        )
        if await self._protocol.observe(observation) or self._precision is None:
            self._precision = await self._store.read(table.counts)
        await self._protocol.remind()
        self._after_tick()
        sample = self._sample()
        waits = self._sampled is not None and now < self._sampled.at + history.EVERY_S
        # A level that is entered may be over before the next sample: it is kept at once.
        if (not waits or sample.worse_than(self._sampled)) and sample.differs(self._sampled):
            keep_s = settings.history_h * 3600.0
            await self._store.write(lambda tx: history.put(tx, sample, keep_s))
            self._sampled = sample
        self._to_show.set()

    async def _switched_off(self) -> None:
        self._sets, self._picture, self._trails = {}, Picture(), {}
        self._all_conflicts, self._conflicts, self._trials, self._target = {}, {}, {}, None
        standing = self._protocol.state
        if standing.advisories or standing.tracks or standing.forecasts:
            await self._protocol.end_all("the airspace is switched off")
        self._to_show.set()

    async def _look(self, settings: AirspaceSettings, now: float) -> None:
        """Look; anew when the main branch moved meanwhile, so that what is seen is of one moment."""
        for _ in range(MOST_LOOKS):
            before = await self._worktrees.target()
            await self._look_once(settings, now)
            if self._target == before:
                return
        self.poke()

    async def _look_once(self, settings: AirspaceSettings, now: float) -> None:
        """Measure, with the merges that are known; and once more when git says something new of a near pair."""
        self._declared = await self._store.read(lambda tx: intents.declared(tx, now))
        found = await self._worktrees.working_sets()
        self._sets = with_intents({working_set.agent: working_set for working_set in found}, self._declared)
        if self._held is not None:
            self._sets = with_intents(self._sets, await self._held.intents(self._sets, self._agents()))
        measured = [without(working_set, settings.muted) for working_set in self._sets.values()]
        working = {working_set.agent for working_set in measured if working_set.files}
        self._merges = {pair: merge for pair, merge in self._merges.items() if set(pair) <= working}
        words = await self._likeness.between(measured)
        self._picture = await asyncio.to_thread(self._measure.scan, measured, self._merges, words)
        if await self._try_merges(measured, settings):
            self._picture = await asyncio.to_thread(self._measure.scan, measured, self._merges, words)

    async def _try_merges(self, measured: Sequence[WorkingSet], settings: AirspaceSettings) -> bool:
        """Ask git about the pairs of an advisory, then about those that could collide, the riskiest first; True
        when it says something new."""
        touched = {working_set.agent: all_paths(working_set.files) for working_set in measured}
        standing = {pair for advisory in self._protocol.state.advisories.values() for pair in advisory.pairs}
        links = self._picture.links
        able = sorted(
            self._worktrees.pairs(), key=lambda pair: (-links[pair].risk if pair in links else 0, pair)
        )
        wanted = [pair for pair in dict.fromkeys([*sorted(standing), *able]) if set(pair) <= set(touched)]
        # After the working sets: nobody is clear by what was merged meanwhile.
        self._target = await self._worktrees.target()
        self._trials = await self._worktrees.trials(self._target) if self._target is not None else {}
        told = await self._worktrees.merges(wanted, self._trials, most=MOST_MERGES) if wanted else {}
        known = {
            pair: Merge(tuple(path for path in merge.conflicts if not matches(path, settings.muted)))
            for pair, merge in told.items()
            if merge is not None
        }
        self._all_conflicts = {pair: merge.conflicts for pair, merge in told.items() if merge is not None}
        self._conflicts = {pair: merge.conflicts for pair, merge in known.items()}
        # Whose work is all in the main branch has nothing in hand that could collide: it is for the other one to
        # merge, and no guard may keep it from that.
        before, self._merges = (
            self._merges,
            {pair: merge for pair, merge in known.items() if touched[pair[0]] and touched[pair[1]]},
        )
        return before != self._merges

    def _emptied(self, now: float) -> dict[str, float]:
        """Whose work came to be all in the main branch since the last look, whoever merged or discarded it."""
        emptied = {}
        for agent, trial in self._trials.items():
            if trial.verdict is Verdict.NOTHING and agent in self._had_work:
                emptied[agent] = self._had_work.pop(agent)
            elif trial.verdict in (Verdict.CLEAN, Verdict.CONFLICTS):
                self._had_work[agent] = now
        return emptied

    def _keep_trails(self, now: float) -> None:
        for pair in [pair for pair in self._trails if pair not in self._picture.links]:
            del self._trails[pair]
        for pair, found in self._picture.links.items():
            trail = self._trails.setdefault(pair, deque(maxlen=MOST_TRAIL))
            if not trail or trail[-1][1] != found.risk:
                trail.append((now, found.risk))

    def _observation(self, settings: AirspaceSettings, now: float) -> Observation:
        """What the protocol is told. Runs in a thread: there may be thousands of links."""
        self._keep_trails(now)
        # Another thread may add to it meanwhile: what is old is taken out, and the rest left in place.
        for name, at in list(self._merged.items()):
            if now - at >= MERGED_S:
                del self._merged[name]
        seen: dict[Pair, PairObservation] = {}
        rules = self._protocol.rules
        for pair, found in self._picture.links.items():
            sample = Sample(
                found.risk, ceiling(found, rules.thresholds), closing(self._trails[pair], rules, now)
            )
            seen[pair] = observe_pair(found, sample, settings.muted)
        return Observation(
            at=now,
            sets=self._sets,
            observed=seen,
            conflicts=self._conflicts,
            merged=frozenset(self._merged),
            trials=self._trials,
            target=self._target,
            muted=tuple(settings.muted),
            announced={
                agent: frozenset(path for path, sources in paths.items() if sources == {Source.ANSWER})
                for agent, paths in self._declared.items()
            },
        )

    # -- what is seen

    def levels(self, links: Iterable[Pair]) -> dict[Pair, Level]:
        """The level of each link, as the protocol holds it: of a pair in an open advisory, the advisory's."""
        standing = self._protocol.state
        levels = {
            pair: standing.tracks[pair].level if pair in standing.tracks else Level.CLEAR for pair in links
        }
        for advisory in standing.advisories.values():
            for pair in levels.keys() & advisory.contacts.keys():
                levels[pair] = max(levels[pair], advisory.level_of(pair))
        return levels

    def links(self) -> dict[Pair, tuple[Assessment, Level]]:
        """What lies between the pairs above the floor, and at which level."""
        links = self._picture.links
        levels = self.levels(links)
        return {pair: (found, levels[pair]) for pair, found in links.items()}

    def about(self, agent: str) -> str:
        """What it was asked last, as far as is known."""
        return self._likeness.about(agent)

    @property
    def forecasts(self) -> Mapping[Pair, Assessment]:
        """The clear pairs of which a collision is foretold: what is drawn, told at an edit and counted."""
        ahead = {pair: found for pair, found in self._picture.links.items() if found.ahead}
        return {pair: ahead[pair] for pair, level in self.levels(ahead).items() if level is Level.CLEAR}

    @property
    def precision(self) -> Mapping[str, Any]:
        """How many of what was said and foretold came true, by kind (`table.counts`), as of the last tick."""
        return self._precision or {}

    @property
    def sets(self) -> Mapping[str, WorkingSet]:
        """The working sets as they were last seen, by agent."""
        return self._sets

    @property
    def conflicts(self) -> Mapping[Pair, tuple[str, ...]]:
        """What git could not merge at the last look, by pair; with what is muted, as the worktrees' page has it."""
        return self._all_conflicts

    @property
    def no_main(self) -> str:
        """Why it is not known what worktrees are merged into; empty when it is."""
        return self._worktrees.no_main()

    @property
    def looked(self) -> bool:
        """Has it looked since the start? Before, nothing is known."""
        return self._at > 0

    def main_of(self, agent: str) -> tuple[Target, int] | None:
        """What the agent's worktree is merged into, and how many commits of that it lacks, as they were last seen;
        None where it has no worktree."""
        behind = self._worktrees.behind(agent)
        return None if self._target is None or behind is None else (self._target, behind)

    @property
    def names(self) -> list[str]:
        return sorted(self._sets)

    def _sample(self) -> PictureSample:
        return PictureSample(
            self._at,
            self._picture.positions,
            {pair: (found.risk, level) for pair, (found, level) in self.links().items()},
            tuple(sorted(self._protocol.state.advisories)),
            frozenset(self.forecasts),
        )

    async def state(self) -> dict[str, Any]:
        """The whole of GET /api/airspace."""
        # Read anew, so that it is 503 while the database is away, whatever was counted before.
        self._precision = await self._store.read(table.counts)
        agents, branches = frozenset(self._agents()), dict(self._worktrees.branches())
        return await asyncio.to_thread(self._state, agents, branches, self._precision)

    def _state(
        self, agents: Collection[str], branches: Mapping[str, str], precision: dict[str, Any]
    ) -> dict[str, Any]:
        settings, thresholds = self._settings(), self._measure.thresholds
        levels = self.levels(self._picture.links)
        advisories = list(self._protocol.state.advisories.values())
        return {
            "profile": settings.profile,
            "enabled": settings.enabled,
            "thresholds": {
                "traffic": thresholds.traffic,
                "resolution": thresholds.resolution,
                "slack": thresholds.slack,
            },
            **picture.picture_json(self._picture, self._sets, levels, advisories, agents, branches),
            "graph": self._measure.graph(),
            "precision": precision,
            "at": iso(self._at or None),
        }

    async def _show(self) -> None:
        """Tell connected clients of every change, at most once in `SHOW_EVERY_S`. Coordinates that stand as they
        stood are left out."""
        before: dict[str, Any] = {}
        while True:
            await self._to_show.wait()
            self._to_show.clear()
            state = await self.state()
            if {**state, "at": None} != {**before, "at": None}:
                same = state["fileCoordinates"] == before.get("fileCoordinates")
                before = state
                self._publish(
                    "airspace", {k: v for k, v in state.items() if not (same and k == "fileCoordinates")}
                )
            await asyncio.sleep(SHOW_EVERY_S)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop of this thread, None in a thread without one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None

"""The live airspace: looks when something changed, lets the protocol act, and keeps what it saw.

Invariants:
- a scan follows a change, at most every `airspace.tick_s`; while a pair is not clear there is also one each tick,
  since weights fade; while all is clear and nothing changes, nothing runs;
- one tick at a time;
- of a fleet's members one scans, and begins from what the database says; the others keep what the guard needs;
- what is shown is never newer than what the protocol has acted on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from relay.airspace.advisories import intents, table
from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.context import LiveContext
from relay.airspace.live import history
from relay.airspace.live.interrupter import Interrupter
from relay.airspace.live.observer import Observer
from relay.airspace.live.picture import PictureSample
from relay.airspace.readings import Assessment, Level
from relay.config.airspace import AirspaceSettings
from relay.log import events
from relay.log.follow import tail
from relay.model.working_set import Pair, WorkingSet

#: Seconds between two reads of what asks for a look at least: one look is for all of it.
FOLLOW_EVERY_S = 0.1

#: Events of others that ask for a look: an intent, and changes of locks (docs/coordination.md, Events).
POKES = (intents.DECLARED, "lock.acquired", "lock.released", "lock.forced", "session.ended")


class Scanner:
    """Runs the ticks: `observer` looks, `protocol` acts, then `interrupter` is asked to look. `to_show` is set when
    there may be something new to show; `precision`: how many of what was said and foretold came true, by kind
    (`table.counts`), as of the last tick."""

    def __init__(
        self,
        context: LiveContext,
        protocol: AdvisoryProtocol,
        observer: Observer,
        interrupter: Interrupter,
    ) -> None:
        self._context = context
        self._protocol = protocol
        self.observer = observer
        self._interrupter = interrupter
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sampled: PictureSample | None = None
        self.precision: Mapping[str, Any] = {}
        #: When it looked last (Unix seconds); before the first look nothing is known.
        self.looked_at = 0.0
        self.to_show = asyncio.Event()
        #: Set after each look, for who records what was seen; never while the airspace is switched off.
        self.looked = asyncio.Event()
        self.ticks = 0
        #: Called after each look, also of one that stands by.
        self.after_look: Callable[[], None] = lambda: None
        #: Called when there may be something new to show, also where nobody listens.
        self.on_show: Callable[[], None] = lambda: None

    def poke(self) -> None:
        """Something changed: look soon. From any thread, since a follower of the log runs in the database's."""
        if self._loop is None:
            self._changed.set()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)

    def _show(self) -> None:
        self.to_show.set()
        self.on_show()

    # -- running

    async def run(self) -> None:
        """Look for ever."""
        loop = self._loop = asyncio.get_running_loop()
        self.observer.begin()
        self._sampled = None
        self.looked.clear()
        await self._protocol.load(anew=True)
        self._changed.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="airspace-follow")
            while True:
                await self._wait()
                began = loop.time()
                self._changed.clear()
                await self.tick()
                await asyncio.sleep(max(0.0, began + self._context.settings.tick_s - loop.time()))

    async def stand_by(self) -> None:
        """While another member scans: keep for ever what each has in hand and what stands, for the guard here and for
        the turns that are to be cut off here."""
        loop = self._loop = asyncio.get_running_loop()
        await self._protocol.load()
        self._changed.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(beside=True), name="airspace-follow")
            while True:
                settings = self._context.settings
                standing = settings.enabled and self._protocol.state.advisories
                with suppress(TimeoutError):
                    async with asyncio.timeout(settings.tick_s if standing else None):
                        await self._changed.wait()
                began = loop.time()
                self._changed.clear()
                if settings.enabled:
                    now = self._context.clock()
                    await self.observer.stand_by(now)
                    self.looked_at = now
                    self._interrupter.look()
                else:
                    self.observer.forget()
                self.after_look()
                await asyncio.sleep(max(0.0, began + settings.tick_s - loop.time()))

    async def _wait(self) -> None:
        """Until something changed, or until something is due."""
        due = self._due_at()
        timeout = None if due is None else max(0.0, due - self._context.clock())
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()

    def _due_at(self) -> float | None:
        """When the next tick comes by itself (Unix seconds)."""
        if not self._context.settings.enabled:
            return None
        times = [self._protocol.due_at(), self._sample_due_at()]
        if not self._protocol.clear or self.observer.worktrees.no_main():
            times.append(self.looked_at + self._context.settings.tick_s)
        return min((at for at in times if at is not None), default=None)

    def _sample_due_at(self) -> float | None:
        if self._sampled is None or not self._sample().differs(self._sampled):
            return None
        return self._sampled.at + history.EVERY_S

    async def _follow(self, *, beside: bool = False) -> None:
        """Follow the log: an intent asks for a look; an advisory that an answer, a person or the leader changed is
        read. `beside`: another member leads."""
        start = await self._context.store.read(events.last_pos)
        async for batch in tail(self._context.store, start, types=[*POKES, table.CHANGED]):
            if any(event.type in POKES for event in batch):
                self.poke()
                await asyncio.sleep(FOLLOW_EVERY_S)
            if any(event.type == table.CHANGED for event in batch):
                await self._protocol.load()
                await self.count()
                self._show()
                if beside or self._protocol.due_at() is not None:
                    self.poke()

    def merged(self, agent: str) -> None:
        """An agent's branch was merged into the main one. From any thread."""
        self.observer.merged[agent] = self._context.clock()
        self.poke()

    # -- one tick

    async def tick(self) -> None:
        """Look once, act on it, and show it."""
        self.ticks += 1
        settings, now, observer = self._context.settings, self._context.clock(), self.observer
        if not settings.enabled:
            self.looked_at = now
            await self._switched_off()
        elif await observer.worktrees.target() is None and observer.worktrees.no_main():
            # Without a main branch no working set has a base: no advisory begins, and none ends.
            self.looked_at, observer.target = now, None
        else:
            if not await observer.look(settings, now):
                self.poke()
            self.looked_at = now  # not earlier: the state has what was seen at this time
            self.looked.set()
            if await self._protocol.observe(await observer.observation(settings, now)) or not self.precision:
                await self.count()
            await self._protocol.remind()
            self._interrupter.look()
            await self._keep_sample(settings, now)
        self.after_look()
        self._show()

    async def _keep_sample(self, settings: AirspaceSettings, now: float) -> None:
        sample = self._sample()
        waits = self._sampled is not None and now < self._sampled.at + history.EVERY_S
        # A level that is entered may be over before the next sample: it is kept at once.
        if (not waits or sample.worse_than(self._sampled)) and sample.differs(self._sampled):
            keep_s = settings.history_h * 3600.0
            await self._context.store.write(lambda tx: history.put(tx, sample, keep_s))
            self._sampled = sample

    async def _switched_off(self) -> None:
        self.observer.forget()
        state = self._protocol.state
        if state.advisories or state.tracks or state.forecasts:
            await self._protocol.end_all("the airspace is switched off")

    async def count(self) -> None:
        """Read `precision` anew. Raises the store's errors."""
        self.precision = await self._context.store.read(table.counts)

    # -- what is seen

    def levels(self, links: Iterable[Pair]) -> dict[Pair, Level]:
        """The level of each link, as the protocol holds it: of a pair in an open advisory, the advisory's."""
        state = self._protocol.state
        levels = {pair: state.tracks[pair].level if pair in state.tracks else Level.CLEAR for pair in links}
        for advisory in state.advisories.values():
            for pair in levels.keys() & advisory.contacts.keys():
                levels[pair] = max(levels[pair], advisory.level_of(pair))
        return levels

    def links(self) -> dict[Pair, tuple[Assessment, Level]]:
        """What lies between the pairs above the floor, and at which level."""
        links = self.observer.picture.links
        levels = self.levels(links)
        return {pair: (assessment, levels[pair]) for pair, assessment in links.items()}

    @property
    def forecasts(self) -> Mapping[Pair, Assessment]:
        """The clear pairs of which a collision is foretold: these are drawn, told at an edit and counted."""
        ahead = {
            pair: assessment for pair, assessment in self.observer.picture.links.items() if assessment.ahead
        }
        return {pair: ahead[pair] for pair, level in self.levels(ahead).items() if level is Level.CLEAR}

    @property
    def sets(self) -> Mapping[str, WorkingSet]:
        """The working sets as they were last seen, by agent."""
        return self.observer.sets

    def about(self, agent: str) -> str:
        """What an agent was asked last, as far as is known."""
        return self.observer.likeness.about(agent)

    def _sample(self) -> PictureSample:
        return PictureSample(
            self.looked_at,
            self.observer.picture.positions,
            {pair: (assessment.risk, level) for pair, (assessment, level) in self.links().items()},
            tuple(sorted(self._protocol.state.advisories)),
            frozenset(self.forecasts),
        )

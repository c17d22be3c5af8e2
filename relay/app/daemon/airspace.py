"""The airspace of a running room, put together: what is seen, measured, said and guarded.

Invariant: its parts know each other only here; every long-running one is supervised by the daemon.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from relay.airspace.advisories.answers import AnswerFollower
from relay.airspace.advisories.edit_guard import AirspaceGuard, Interrupter
from relay.airspace.advisories.lock_intents import LockIntents
from relay.airspace.advisories.merge_outcomes import MergeOutcomes
from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.live.graph_keeper import GraphKeeper, outline
from relay.airspace.live.measure import LiveMeasure
from relay.airspace.live.scanner import Scanner
from relay.airspace.live.service import AirspaceService
from relay.airspace.scan.profile_registry import PROFILES
from relay.airspace.scan.scan import Profile
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.turns import WorktreeActions
from relay.airspace.worktrees.watcher import WorktreeWatcher
from relay.airspace.worktrees.working_sets import WorkingSetSource
from relay.app.guard import git_hook
from relay.app.guard.questions import Unasked
from relay.app.wiring.asked import asked
from relay.app.wiring.worktree_events import recorder, tell_trouble
from relay.config.airspace import AirspaceSettings
from relay.config.settings import Settings
from relay.git.merge_state import merge_heads
from relay.log import follow
from relay.model import Board, HeldPath
from relay.room.advisory_voice import RoomVoice
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.worker import Drain
from relay.store.ports import Store

Start = Callable[[str, Callable[[], Awaitable[None]]], None]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Around:
    """What the airspace needs of the rest of the room. `publish(type, data)` tells connected clients."""

    settings: Callable[[], Settings]
    roster: Callable[[], Roster]
    board: Board
    drain: Drain
    publish: Callable[[str, Json], None]
    #: The locks that hold now.
    held: Callable[[], Awaitable[Sequence[HeldPath]]]


class Tower:
    """One room's airspace. `start` its tasks once the room is built; `close` after they have ended."""

    def __init__(self, store: Store, around: Around) -> None:
        self._store = store
        self._around = around
        self._applied = asyncio.Event()
        self.registry = WorktreeRegistry(around.settings(), recorder(store), outline=outline)
        self.ground = WorktreeActions(self.registry)
        self.watcher = WorktreeWatcher(self.registry)
        self.working_sets = WorkingSetSource(self.registry, self._working, changed=self._poke)
        self.graph_keeper = GraphKeeper(store, lambda: self.measure, self.working_sets.text, self._poke)
        self.watcher.code = self.graph_keeper.changed
        self.measure = LiveMeasure(
            self._profile, lambda: self._settings().floor, graph_state=self.graph_keeper.state
        )
        voice = RoomVoice(around.roster)
        self.protocol = AdvisoryProtocol(
            store, voice, self._settings, thresholds=lambda: self._profile().thresholds, board=around.board
        )
        self.scanner = Scanner(
            store,
            self.protocol,
            self.working_sets,
            self.measure,
            self._settings,
            agents=self._agents,
            publish=around.publish,
            after_tick=self._after_tick,
            held=LockIntents(around.held, self.measure.files),
            asked=lambda agents: asked(store, agents),
        )
        self.live = AirspaceService(
            store, self.protocol, self.scanner, self._settings, cloud=self.graph_keeper.cloud
        )
        self.guard = AirspaceGuard(
            self.protocol,
            lambda: self.scanner.sets,
            self._settings,
            links=lambda: self.scanner.forecasts,
            about=self.scanner.about,
            changed=self._poke,
        )
        self.interrupter = Interrupter(
            self.protocol,
            self._settings,
            working=self._working,
            guarded=self._guarded,
            interrupt=around.drain.interrupt,
        )
        self.followers: tuple[follow.Follower, ...] = (
            AnswerFollower(
                voice,
                in_hand=lambda agent, paths, but: self.live.in_hand(agent, paths, but=but),
            ),
            MergeOutcomes(self.protocol, self.scanner.merged),
        )
        follow.check_acyclic(self.followers)
        around.drain.workplaces = self.ground
        around.drain.touched = self.working_sets.named

    def start(self, start: Start) -> None:
        """Start all that runs for ever."""
        start("worktrees", self._keep_worktrees)
        start("airspace", self._scan)
        start("airspace-changes", self._listen)
        start("airspace-graph", self._keep_graph)
        start("airspace-interrupts", self.interrupter.run)
        for one in self.followers:
            start(one.name, lambda one=one: follow.run(self._store, one))  # type: ignore[misc]

    async def apply(self, settings: Settings) -> None:
        """Take over a configuration."""
        await self.registry.apply(settings)
        self._applied.set()
        self._poke()

    async def close(self) -> None:
        await self.graph_keeper.close()

    # -- what the parts ask of each other

    def _settings(self) -> AirspaceSettings:
        return self._around.settings().airspace

    def _profile(self) -> Profile:
        return PROFILES[self._settings().profile]

    def _agents(self) -> Collection[str]:
        return self._around.roster().names

    def _working(self) -> Mapping[str, float]:
        return {name: running.plan.started_at for name, running in self._around.drain.running.items()}

    def _guarded(self, agent: str) -> bool:
        seat = self._around.drain.seat(agent)
        return seat is not None and seat.guarded

    def root_of(self, agent: str) -> Path | None:
        """The top of the checkout that an agent's edits are in; None for a name that is no agent's."""
        seat = self._around.drain.seat(agent)
        if seat is None:
            return None
        repo = self._around.settings().repo
        top, own = self.home(), seat.cwd or repo
        return self.working_sets.root(agent) or (top if own.is_relative_to(top) else own)

    async def brought(self, agent: str, path: str) -> bool:
        """Does a file of the agent's worktree stand there as on the main branch, as a merge of that leaves it?"""
        target = await self.registry.target()
        worktree = self.registry.worktrees.get(agent)
        if target is None or worktree is None:
            return False
        checkout = worktree.checkout
        at = self.registry.scratch.git(checkout, checkout.index)
        place = {name: value for name, value in at.env.items() if value is not None}
        run = partial(git_hook.git, "-C", str(checkout.top), place=place, config=at.config)
        heads = (target.commit, *await merge_heads(checkout))

        def look() -> bool:
            known = run("ls-tree", target.commit, "--", path)
            if "\ufffd" in path or (not known and os.path.lexists(checkout.top / path)):
                return False  # git does not know it, so it is in no difference
            return not git_hook.own(run, {path}, heads, target.commit, only=path)

        try:
            return await asyncio.to_thread(look)
        except (Unasked, OSError):
            return False

    def home(self) -> Path:
        """The top of the main checkout."""
        return self.registry.main.top if self.registry.main is not None else self._around.settings().repo

    def checkouts(self) -> list[Path]:
        """The tops of all checkouts of the codebase that the room knows: the main one and the agents'."""
        main = [self.registry.main.top] if self.registry.main is not None else []
        return [*main, *(worktree.checkout.top for worktree in self.registry.worktrees.values())]

    def _poke(self) -> None:
        self.scanner.poke()

    def _after_tick(self) -> None:
        self.interrupter.look()

    # -- tasks

    async def _keep_worktrees(self) -> None:
        await self.registry.open()
        await tell_trouble(self._store, self.registry.trouble)
        await self.ground.recover()
        await self.watcher.run()

    async def _scan(self) -> None:
        """After a start, what stands is not clear because nobody has looked yet."""
        await self.registry.surveyed.wait()
        await self.scanner.run()

    async def _listen(self) -> None:
        """A working set that changed asks for a look."""
        feed = self.registry.listen()
        try:
            async for agents in feed:
                await self.ground.give_up_stale(agents)
                self.scanner.poke()
        finally:
            feed.close()

    async def _keep_graph(self) -> None:
        await self.registry.open()
        while self.registry.main is None or not self._settings().enabled:
            self._applied.clear()
            await self._applied.wait()
        await self.graph_keeper.run(self.registry.main.top)

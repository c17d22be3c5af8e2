"""The worktrees and the airspace of a running room, put together: what is seen, measured, said and guarded.

Invariant: their parts know each other only here; the daemon supervises every task that runs for ever.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from relay.airspace.advisories.lock_intents import LockIntents
from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.context import LiveContext
from relay.airspace.live.answers import AnswerFollower
from relay.airspace.live.edit_guard import AirspaceGuard
from relay.airspace.live.edit_joins import EditJoins
from relay.airspace.live.graph_keeper import GraphKeeper, outline
from relay.airspace.live.interrupter import Interrupter
from relay.airspace.live.likeness import WorkLikeness
from relay.airspace.live.measure import LiveMeasure
from relay.airspace.live.merge_outcomes import MergeOutcomes
from relay.airspace.live.observer import Observer
from relay.airspace.live.scanner import Scanner
from relay.airspace.live.service import AirspaceService
from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.turns import TurnWorktrees
from relay.airspace.worktrees.watcher import WorktreeWatcher
from relay.airspace.worktrees.working_sets import WorkingSetSource
from relay.app.fleet.branches import FleetBranches
from relay.app.fleet.fleet import Fleet
from relay.app.fleet.one_airspace import OneAirspace
from relay.app.guard import git_hook
from relay.app.guard.asker import Unasked
from relay.app.wiring.merge_tools import MergeTools
from relay.app.wiring.request_texts import asked
from relay.app.wiring.worktree_room import StoredWorktreeRoom
from relay.app.worktrees.desk import WorktreeDesk
from relay.config.airspace import AirspaceSettings
from relay.config.settings import LiveSettings
from relay.coordination.writes.fencing import LockCheck
from relay.git.merge_state import merge_heads
from relay.log import follow
from relay.model import Board, Holds
from relay.room.advisory_voice import RoomVoice
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.running import RunningTurns
from relay.room.journal.live_bus import Live
from relay.store.ports import Store

Start = Callable[[str, Callable[[], Awaitable[None]]], None]


class WorktreeParts:
    """The agents' worktrees: made, watched and merged."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        judge: LockCheck,
        roster: Roster,
        holds: Holds,
        live: Live,
    ) -> None:
        self._settings, self._roster = settings, roster
        self.merge_tools = MergeTools(lambda: settings.current.merge)
        folder = settings.current.runtime_dir / "checks-merge"
        room = StoredWorktreeRoom(store, judge, self.merge_tools, folder, RoomVoice(roster, holds))
        self.registry = WorktreeRegistry(settings.current, room, outline=outline)
        self.branch_updates = BranchUpdates(self.registry)
        self.actions = WorktreeActions(self.registry, self.branch_updates)
        self.watcher = WorktreeWatcher(self.registry)
        self.turns = TurnWorktrees(self.registry, self.branch_updates)
        self.desk = room.desk = WorktreeDesk(store, settings, self.registry, live)

    async def run(self) -> None:
        """Make the worktrees, and watch them for ever."""
        await self.registry.open()
        member = self._settings.current.member
        await self.registry.room.report_trouble(self.registry.trouble, member)
        await self.branch_updates.recover()
        await self.watcher.run()

    async def close(self) -> None:
        """End what runs and merges there, once their tasks have ended."""
        await self.desk.close()
        await self.merge_tools.close()

    def root_of(self, agent: str) -> Path | None:
        """The top of the checkout that an agent's edits are in; None for a name that is no agent's."""
        member = self._roster.members.get(agent)
        if member is None:
            return None
        repo = self._settings.current.repo
        top, own = self.home(), member.cwd or repo
        worktree = self.registry.worktrees.get(agent)
        if worktree is not None:
            return worktree.checkout.top
        return top if own.is_relative_to(top) else own

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
        return self.registry.main.top if self.registry.main is not None else self._settings.current.repo

    def checkouts(self) -> list[Path]:
        """The tops of all checkouts of the codebase that the room knows: the main one and the agents'."""
        main = [self.registry.main.top] if self.registry.main is not None else []
        return [*main, *(worktree.checkout.top for worktree in self.registry.worktrees.values())]


class AgentTurns:
    """The turns that the room's agents are at (`relay.model.TurnsAtWork`)."""

    def __init__(self, roster: Roster, turns: RunningTurns) -> None:
        self._roster, self._turns = roster, turns
        self.interrupt = turns.interrupt

    def agents(self) -> Collection[str]:
        return self._roster.names

    def working(self) -> Mapping[str, float]:
        return {name: turn.plan.started_at for name, turn in self._turns.by_agent.items()}

    def guarded(self, agent: str) -> bool:
        """Or told of an advisory within its turn, and so not cut off for it."""
        member, turn = self._roster.members.get(agent), self._turns.by_agent.get(agent)
        return (member is not None and member.guarded) or (turn is not None and turn.inbox.hears)


class AirspaceParts:
    """What is measured between the agents, said to them and held against their edits. `close` it after its tasks have
    ended."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        worktrees: WorktreeParts,
        *,
        roster: Roster,
        turns: RunningTurns,
        live: Live,
        board: Board,
        judge: LockCheck,
        holds: Holds,
        fleet: Fleet,
    ) -> None:
        self._store, self._settings, self._worktrees, self._live = store, settings, worktrees, live
        self._fleet = fleet
        at_work = AgentTurns(roster, turns)
        self._applied = asyncio.Event()
        measure, voice = LiveMeasure(self._current), RoomVoice(roster, holds)
        context = LiveContext(store, self._current, fleet.now)
        self.protocol = AdvisoryProtocol(context, voice, board, thresholds=lambda: measure.profile.thresholds)
        self.working_sets = WorkingSetSource(worktrees.registry, at_work, changed=self._poke, clock=fleet.now)
        observer = Observer(
            context,
            self.protocol,
            self.working_sets,
            measure,
            WorkLikeness(self.working_sets, partial(asked, store)),
            LockIntents(store, judge),
        )
        self.interrupter = Interrupter(context, self.protocol, at_work)
        self.scanner = Scanner(context, self.protocol, observer, self.interrupter)
        self.graph_keeper = GraphKeeper(store, measure, self.working_sets, self.scanner)
        worktrees.watcher.code.append(self.graph_keeper.changed)
        worktrees.registry.semantic.changed = self._poke
        self.live = AirspaceService(context, self.protocol, self.scanner, self.graph_keeper)
        self.branches = FleetBranches(settings, worktrees.registry, lambda: fleet.room)
        self.one = OneAirspace(
            store, settings, fleet, self.working_sets, self.scanner, self.live, self.branches
        )
        self._edit_joins = EditJoins(worktrees.registry)
        self.guard = AirspaceGuard(context, self.protocol, self.scanner, self._edit_joins)
        self.followers: tuple[follow.Follower, ...] = (
            AnswerFollower(voice, self.live, clock=fleet.now),
            MergeOutcomes(self.protocol, self.scanner),
        )

    def start(self, start: Start, lead: Start) -> None:
        """Start all that runs for ever. `lead`: what one member of the fleet does alone."""
        lead("airspace", self._scan)
        start("airspace-show", self._show)
        start("airspace-changes", self._listen)
        start("airspace-semantic", self._worktrees.registry.semantic.run)
        start("airspace-graph", self._keep_graph)
        # At each member: a turn is cut off where it runs, by the advisory that the database has.
        start("airspace-interrupts", self.interrupter.run)
        if not self._fleet.alone:
            start("airspace-stand-by", self._fleet.unled(self._stand_by))
            start("airspace-tell", self.one.tell)
            start("airspace-hear", self.one.hear)
            start("airspace-push", self.one.push)
            lead("airspace-fetch", self.one.fetch)
            lead("airspace-picture", self.one.show)
        for follower in self.followers:
            lead(follower.name, partial(follow.run, self._store, follower))

    async def apply(self) -> None:
        """Take over a changed configuration."""
        await self._worktrees.registry.apply(self._settings.current)
        self._worktrees.desk.wake()
        self._applied.set()
        self._poke()

    async def close(self) -> None:
        await self._edit_joins.close()
        await self.graph_keeper.close()

    # -- what the parts ask of each other

    def _current(self) -> AirspaceSettings:
        return self._settings.current.airspace

    def _poke(self) -> None:
        self.scanner.poke()

    # -- tasks

    async def _scan(self) -> None:
        """Scan for ever, after the first survey of every worktree: before it, no pair counts as clear."""
        await self._worktrees.registry.surveyed.wait()
        await self.scanner.run()

    async def _stand_by(self) -> None:
        await self._worktrees.registry.surveyed.wait()
        await self.scanner.stand_by()

    async def _show(self) -> None:
        async for frame in self.live.frames(self._live.listened):
            self._live.publish("airspace", frame)

    async def _listen(self) -> None:
        """Ask for a scan whenever a working set changed."""
        listener = self._worktrees.registry.listen()
        try:
            async for agents in listener:
                await self._worktrees.branch_updates.give_up_stale(agents)
                self.scanner.poke()
        finally:
            listener.close()

    async def _keep_graph(self) -> None:
        registry = self._worktrees.registry
        await registry.open()
        while registry.main is None or not self._current().enabled:
            self._applied.clear()
            await self._applied.wait()
        await self.graph_keeper.run(registry.main.top)

"""What the daemon does around each turn: the transcript, the worktree, the airspace, the timeline, the memory, the
metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relay.app.daemon.agent_states import AgentStates
from relay.app.daemon.airspace import AirspaceParts, WorktreeParts
from relay.app.daemon.metrics import Metrics
from relay.app.entries.files import RoomFiles
from relay.app.verification.landing_handover import LandingHandover
from relay.app.verification.sources import ChangeSources
from relay.app.wiring.memory.turn_memories import TurnMemories
from relay.app.wiring.running_turns import first_tree
from relay.app.wiring.timeline import TimelineRecording
from relay.model import Changes, Kind, Location, Message, Workplace
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.running import TurnHooks
from relay.room.dispatch.turns import Plan, Recollection
from relay.room.transcript.tail import Transcript
from relay.store.ports import Store, Tx


class DaemonHooks(TurnHooks):
    """Hands each call to the part of the daemon that it concerns."""

    def __init__(
        self,
        store: Store,
        transcript: Transcript,
        worktrees: WorktreeParts,
        airspace: AirspaceParts,
        timeline: TimelineRecording,
        metrics: Metrics,
        states: AgentStates,
        memories: TurnMemories,
        sources: ChangeSources,
        landings: LandingHandover | None,
        roster: Roster,
        files: RoomFiles,
    ) -> None:
        self._store = store
        self._transcript, self._worktrees, self._airspace = transcript, worktrees, airspace
        self._timeline, self._metrics, self._states = timeline, metrics, states
        self._memories, self._sources = memories, sources
        self._landings, self._roster, self._files = landings, roster, files

    async def recollect(self, agent: str, messages: Sequence[Message]) -> Recollection | None:
        return await self._memories.recollect(agent, messages)

    async def bring(self, text: str) -> str:
        return await self._files.bring(text)

    async def before_turn(self, plan: Plan, *, take_main: bool) -> Workplace | None:
        missing = await self.bring(f"{plan.context}\n{plan.prompt}")
        # What was handed on is not brought up to date: its rules were checked as it is.
        exact = any(message.kind is Kind.ADVISORY and "handoff" in message.meta for message in plan.messages)
        if self._landings is not None:
            await self._landings.catch_up()
        # First: what a setup writes is no change of the turn's.
        told = await self._worktrees.desk.before_turn(plan.agent)
        place = await self._worktrees.turns.before_turn(plan.agent, take_main=take_main, exact=exact)
        if place is None:
            own = self._roster.own.get(plan.agent)
            if not missing or own is None or own.cwd is None:
                return None
            return Workplace(own.cwd, own.may_edit, note=missing)
        await self._timeline.turn_began(plan, place)
        turns = self._worktrees.turns
        turns.first_trees[plan.agent] = await first_tree(self._store, turns.registry, plan, place)
        env = await self._worktrees.desk.setups.agent_env(plan.agent)
        notes = [place.note, told, await self._timeline.taken_back(plan.agent), missing]
        return replace(place, note="\n\n".join(filter(None, notes)), env=env)

    async def processes_ended(self) -> None:
        await self._transcript.before_end()

    async def after_turn(self, plan: Plan) -> Changes | None:
        changes = await self._worktrees.turns.after_turn(plan.agent)
        return await self._timeline.turn_ends(plan, changes)

    async def record_changes(self, tx: Tx, plan: Plan, changes: Changes) -> None:
        await self._timeline.record(tx, plan, changes)
        await self._sources.turn_ended(tx, plan, changes)

    def state_changed(self, agent: str) -> None:
        self._states.changed(agent)

    def locations_named(self, agent: str, locations: Sequence[Location]) -> None:
        self._airspace.working_sets.named(agent, locations)
        self._timeline.tools.named(agent, locations)

    def command_run(self, agent: str, command: str) -> None:
        self._timeline.tools.ran(agent, command)

    def turn_ended(self, agent: str, result: str, seconds: float) -> None:
        self._metrics.turn_ended(agent, result, seconds)

    def cycle_decided(self, action: str) -> None:
        self._metrics.decided(action)

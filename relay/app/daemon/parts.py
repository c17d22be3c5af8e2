"""The parts of a running room, each built from those above it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import get_args

import structlog

import relay
from relay.access.agent_keys import AgentKeys
from relay.airspace.worktrees.changes import RepoChanges
from relay.app.attach.codex_wake import CodexWaker
from relay.app.attach.desk import SessionDesk
from relay.app.attach.shell_writes import ShellWrites
from relay.app.daemon.agent_states import AgentStates
from relay.app.daemon.agents import Agents
from relay.app.daemon.airspace import AirspaceParts, WorktreeParts
from relay.app.daemon.config_reload import Reload
from relay.app.daemon.coordination import CoordinationTasks
from relay.app.daemon.metrics import Metrics
from relay.app.daemon.recovery import Recovery
from relay.app.daemon.supervisor import Supervisor
from relay.app.daemon.trouble import Trouble
from relay.app.daemon.turn_hooks import DaemonHooks
from relay.app.entries.files import RoomFiles
from relay.app.entries.files_elsewhere import FleetFiles
from relay.app.fleet.fleet import Fleet
from relay.app.fleet.people import FleetPeople
from relay.app.fleet.shared_agents import keep_to_one, lives_at
from relay.app.fleet.work_elsewhere import WorkElsewhere
from relay.app.merge.behaviour_checks import BehaviourChecks
from relay.app.merge.exploration.room_actions import ExplorationActions
from relay.app.merge.exploration.worker import ExplorationWorker
from relay.app.merge.resolving import ConflictService
from relay.app.needs.config_orders import ConfigOrders
from relay.app.needs.elsewhere import NeedsElsewhere
from relay.app.needs.inbox import AdvisoryMarks, NeedsInbox, SinceOrders
from relay.app.notify.teller import Teller, inbox_of, tells
from relay.app.review.reviews import Reviews
from relay.app.review.suggestions import Suggestions
from relay.app.runtime.instance import InstanceRecord
from relay.app.runtime.room_token import RoomToken
from relay.app.tasks.given_tasks import GivenTasks
from relay.app.tasks.landed import landed
from relay.app.verification.metrics.gauges import MetricGauges
from relay.app.verification.parts import VerificationParts
from relay.app.wiring.conflicts.conflict_log import ConflictLog
from relay.app.wiring.conflicts.finding_log import FindingLog
from relay.app.wiring.handoffs.checks import HandoffChecks
from relay.app.wiring.handoffs.orders import HandoffOrders
from relay.app.wiring.handoffs.steps import HandoffSteps
from relay.app.wiring.memory.knowledge import RoomKnowledge
from relay.app.wiring.memory.observing import RoomMemory
from relay.app.wiring.memory.room_commands import MemoryActions
from relay.app.wiring.memory.turn_memories import TurnMemories
from relay.app.wiring.room_actions import TimelineActions
from relay.app.wiring.timeline import TimelineRecording
from relay.app.wiring.timeline_journal import TimelineJournal
from relay.app.worktrees.desk import IN_WORKTREES, ShownApps
from relay.base.durations import now_iso
from relay.base.git_checkouts import top_of
from relay.config.settings import LiveSettings, Settings
from relay.coordination.tasks.board import Board
from relay.coordination.writes.fencing import LockCheck
from relay.coordination.writes.lock_guard import LockGuard
from relay.faces.http.requests.auth import Auth
from relay.faces.landing import check_undone
from relay.faces.rewinds import RewindService
from relay.faces.room import IntentService, rules_of
from relay.faces.room_locks import RoomHolds
from relay.faces.services import embedding_model, services_of
from relay.faces.timeline import TimelineService
from relay.git.run import GitError
from relay.log import follow
from relay.memory.episodic.vectors import Vectors
from relay.model import actions
from relay.room.advisory_voice import RoomVoice
from relay.room.dispatch.permissions import PermissionBroker
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.running import RunningTurns
from relay.room.dispatch.worker import WorkerPool
from relay.room.journal import ledger
from relay.room.journal.live_bus import Live
from relay.room.parsing import line_format
from relay.room.person_actions import PersonActions
from relay.room.poster import Poster
from relay.room.reader import Reader
from relay.room.routing.local_model import Dispatcher
from relay.room.routing.router import Router
from relay.room.service import About, Room, Status
from relay.room.steward.handlers import ActionHandlers
from relay.room.steward.overview import Overview
from relay.room.steward.worker import Steward
from relay.room.transcript.tail import Transcript
from relay.store.ports import Store
from relay.timeline.rewind import history

log = structlog.get_logger(__name__)
#: What the reviews carry out.
REVIEWING = (actions.ShowReview, actions.MarkReviewed, actions.ApplySuggestion)


class Parts:
    """What a running room is made of. `record` is the daemon's, `token` the room's; `fold`: the repository's file
    system folds case."""

    def __init__(
        self, store: Store, settings: LiveSettings, record: InstanceRecord, token: str, *, fold: bool
    ) -> None:
        now = settings.current
        self.store, self.settings = store, settings
        self.live, self.metrics = Live(), Metrics()
        self.roster, self.turns = Roster(rules=rules_of(now)), RunningTurns()
        self.fleet = Fleet(store, settings, record, self.turns)
        self.people = FleetPeople(store, self.fleet, self.live)
        self.fleet.changed = self._meet
        self.fleet.show = lambda: self.live.publish("fleet", self.fleet.as_json())
        self.supervisor = Supervisor(store)
        self.judge = judge = LockCheck(fold=fold)
        holds = RoomHolds(fold=fold, root=top_of(now.repo))

        self.states = AgentStates(store, self.live, self.roster, self.turns)
        self.worktrees = WorktreeParts(store, settings, judge, self.roster, holds, self.live)
        services = services_of(
            store,
            settings,
            roster=self.roster,
            fold=fold,
            changes=RepoChanges(now.repo, self.worktrees.registry),
            checkouts=self.worktrees,
        )
        services.landings.check = partial(check_undone, self.worktrees.registry)
        self.board = board = Board(claims=services.work.claims, landed=landed)
        self.given_tasks = GivenTasks(store, board)
        self.airspace = AirspaceParts(
            store,
            settings,
            self.worktrees,
            roster=self.roster,
            turns=self.turns,
            live=self.live,
            board=board,
            judge=judge,
            holds=holds,
            fleet=self.fleet,
        )
        self.services = replace(services, intents=IntentService(store, settings, self.airspace.live))
        self.gauges = MetricGauges(store, self.services.metrics)
        self.metrics.registry.register(self.gauges)
        self.timeline = TimelineRecording(
            store, self.worktrees.registry, settings, others=lambda: bool(self.fleet.others)
        )
        self.worktrees.watcher.code.append(self.timeline.edits.changed)
        findings = FindingLog(store)
        self.conflicts = ConflictLog(store, self.airspace.scanner, findings)
        self.behaviour = BehaviourChecks(store, settings, self.worktrees.registry, findings)
        self.journal = TimelineJournal(store, self.worktrees.registry)
        self.rewinds = RewindService(store, self.worktrees.registry, self.timeline, now.member)
        self.moments = TimelineService(store, self.worktrees.registry)
        self.coordination = CoordinationTasks(store, settings, self.services, self.turns, judge)
        self.memory = RoomMemory(store, settings)
        self.vectors = Vectors(store, lambda: embedding_model(settings.current))
        self.knowledge = RoomKnowledge(store, settings)
        voice, registry = RoomVoice(self.roster, holds), self.worktrees.registry
        self.verification = VerificationParts(
            store,
            settings,
            registry,
            self.worktrees.actions,
            self.worktrees.branch_updates,
            voice,
            services.work.claims,
            self._printed,
            self.airspace.protocol,
            self.fleet,
            self.worktrees.desk.setups.lend,
        )
        follow.check_acyclic(
            [
                *self.airspace.followers,
                *self.verification.followers,
                self.verification.statuses,
                *self.coordination.followers,
                self.given_tasks,
                self.memory.follower,
                self.knowledge.follower,
            ]
        )

        self.worktrees.watcher.trees.append(self.timeline.tools.changed)
        self.permissions = PermissionBroker(store, self.live, told=lambda: tells(settings, "permission"))
        self.guard = LockGuard(
            store, judge, self.airspace.guard, self.coordination, self.worktrees, self.timeline.tools
        )
        self.agent_keys = AgentKeys(store, services.keys, record.holder, now.member)
        self.agents = Agents(
            now, self.roster, guard=self.guard, permits=self.permissions, keys=self.agent_keys
        )

        self.transcript = Transcript(
            store,
            now.transcript_path,
            line_format.lock_path(now.runtime_dir, now.transcript_path),
            self.roster,
            clock=self.fleet.now,
            member=now.member,
        )
        self.files = (
            RoomFiles(store, settings) if self.fleet.alone else FleetFiles(store, settings, self.fleet)
        )
        hooks = DaemonHooks(
            store,
            self.transcript,
            self.worktrees,
            self.airspace,
            self.timeline,
            self.metrics,
            self.states,
            TurnMemories(store, settings),
            self.verification.sources,
            self.verification.handover,
            self.roster,
            self.files,
        )
        clock = self.fleet.now
        self.workers = WorkerPool(
            store, self.live, self.roster, self.turns, hooks, holder=record.holder, clock=clock
        )
        self.router = Router(store, self.live, _dispatcher(now), self.roster, hooks, clock=clock)
        self.overview = Overview(
            self.roster,
            self.turns,
            board,
            holds,
            self.live,
            self.router,
            config=str(now.path),
            here=lambda: self.fleet.here,
            lives_at=lambda agent: lives_at(agent, self.fleet.members),
        )
        orders = HandoffOrders(settings, registry, self.turns, voice)
        checks = HandoffChecks(store, settings, registry)
        self.handoffs = HandoffSteps(store, settings, registry, voice, checks)
        self.explorations = ExplorationWorker(
            store, settings, registry, verify=self.verification.verifier.must_pass
        )
        elsewhere = WorkElsewhere(
            self.fleet,
            registry,
            self.worktrees.actions,
            self.airspace.working_sets,
            self.airspace.branches,
            self.verification.common,
        )
        self.conflict_service = ConflictService(
            store,
            self.worktrees.actions,
            voice,
            self.behaviour.not_run,
            None if self.fleet.alone else elsewhere,
            self.worktrees.branch_updates,
        )
        self.services.conflicts.standing = self.conflict_service.standing
        self.reload = Reload(settings, self)
        self.needs = NeedsInbox(self.roster, self.turns, board, self.permissions, settings, clock=clock)
        self.needs.desk = self.worktrees.desk
        if not self.fleet.alone:
            self.needs.elsewhere = NeedsElsewhere(store, self.fleet, self.live, self.needs.own)
        self.teller = Teller(
            store, settings, inbox_of(store, self.needs), lambda: self.overview.address, clock
        )
        suggestions = Suggestions(store, registry, self.worktrees.actions, self.worktrees.branch_updates)
        self.reviews = Reviews(store, registry, suggestions, settings)
        handlers = ActionHandlers(
            board,
            self.roster,
            self.turns,
            holds,
            self.airspace.live,
            self.permissions,
            self.overview,
            orders,
            TimelineActions(self.rewinds, self.moments),
            MemoryActions(store, hop_decay=lambda: settings.current.memory.hop_decay),
            outside={
                **dict.fromkeys((actions.Resolve, *get_args(actions.OnBranch)), self.conflict_service),
                **dict.fromkeys(
                    (actions.RaiseBudget, actions.SetAgent, actions.RequireLanding),
                    ConfigOrders(self.reload, self.reload),
                ),
                actions.MarkAdvisory: AdvisoryMarks(store, self.airspace.live),
                actions.ShowSince: SinceOrders(store, self.needs, clock),
                **dict.fromkeys(REVIEWING, self.reviews),
                **dict.fromkeys(IN_WORKTREES, self.worktrees.desk),
            },
            orders={
                actions.Exploring: ExplorationActions(settings, registry),
                actions.Verifying: self.verification.orders,
                actions.Needing: self.needs,
                actions.InWorktrees: ShownApps(self.worktrees.desk.apps),
            },
            checks={actions.Land: self.verification.orders.check},
        )
        self.steward = Steward(
            store,
            handlers,
            self.overview,
            self.roster,
            self.turns,
            clock=clock,
            leads=lambda: self.fleet.leads,
        )

        self.shell_writes = ShellWrites(store, settings, registry, judge)
        self.attached = SessionDesk(
            store, settings, self.roster, services.sessions, holds, registry, self.shell_writes
        )
        self.codex_waker = CodexWaker(store, settings)
        self.auth = Auth(token, store, keys=services.keys)
        self.token = RoomToken(store, self.auth, now.token_path, now.member)
        self.trouble = Trouble(store, self.supervisor, self.transcript, self.token)
        self.recovery = Recovery(store, settings, self.turns, record.holder, self.fleet, self.roster)
        about = About(
            name=now.room_name,
            version=relay.__version__,
            started_at=now_iso(),
            repo=now.repo,
            engine=store.engine,
            database=store.place if now.storage == "postgres" else str(now.db_path),
        )
        reader = Reader(store, self.roster, self.turns, board, holds)
        poster = Poster(store, self.roster, self.live, holds)
        self.room = Room(
            reader,
            poster,
            PersonActions(reader, poster, self.steward, board, self.reload),
            self.live,
            Status(about, reader, self.live, self.router, self.transcript, self.fleet.as_json),
            self.trouble,
            cut_off=lambda: self.fleet.cut_off,
        )

    async def _meet(self) -> None:
        """Another member of the fleet has changed."""
        self.agents.meet(self.fleet.others)
        self.airspace.one.met()
        self.recovery.soon()
        self.workers.poke()
        await self.states.publish()

    async def tell_fleet(self, url: str = "", port: int = 0) -> None:
        """Tell the other members what the agents here are by now, and where this relay is."""
        if why := await self.fleet.tell(self.agents.told(), url, port):
            log.warning("the other members are not told of a change", reason=why)
            await self.notice(f"The changed configuration is not taken over by the fleet: {why}.")

    def _printed(self, number: int, policy: str, tail: str) -> None:
        self.live.publish("output", {"verification": number, "policy": policy, "tail": tail})

    async def take_over(self, before: Settings) -> None:
        """Make this the room of the settings that are in use now. `before`: those before."""
        now = self.settings.current
        self.agents.apply(now)
        await self.agent_keys.provide(self.agents.types())
        self.workers.update()
        # Worktrees take their time: a turn that needs one waits for it itself.
        self.supervisor.start("worktrees-settle", self.airspace.apply)
        if before.dispatcher != now.dispatcher:
            await self.router.use(_dispatcher(now)).retire()
            self.live.publish("dispatcher", self.router.state_json())
        await self.knowledge.apply()
        await self.agents.probe()
        await self.tell_fleet()
        await self.recovery.recover()
        await self.states.publish()

    async def settle_before_work(self) -> None:
        """As `settle_rewinds`, before anybody works in the worktrees. What git cannot do now is tried again later."""
        if await self.store.read(lambda tx: history.begun(tx, self.settings.current.member)):
            try:
                await self.settle_rewinds()
            except (GitError, OSError) as error:
                log.warning("what was being taken back is not settled yet", reason=str(error))

    async def keep_to_one(self) -> None:
        """Keep the agents that other members have too to one turn at a time, for ever."""
        lease_s = lambda: self.settings.current.fleet.lease_s  # noqa: E731
        await keep_to_one(lambda: self.fleet.unheard_s, lease_s, self.turns)

    async def settle_rewinds(self) -> None:
        """Finish what a killed daemon had begun to take back, or give it up."""
        await self.worktrees.registry.open()
        await self.rewinds.recover()

    async def notice(self, text: str) -> None:
        """Say in the room what became of a changed configuration."""
        meta = {"notice": "config"}
        await self.store.write(lambda tx: ledger.say(tx, text, meta=meta))

    async def close(self) -> None:
        """End what the parts hold, once their tasks have ended."""
        await self.verification.close()
        await self.journal.close()
        await self.airspace.close()
        await self.worktrees.close()
        await self.agent_keys.close()
        await self.router.dispatcher.close()


def _dispatcher(settings: Settings) -> Dispatcher:
    chosen = settings.dispatcher
    return Dispatcher(
        chosen.model, host=chosen.ollama_host, timeout_s=chosen.timeout_s, enabled=chosen.enabled
    )

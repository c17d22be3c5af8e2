"""The parts of a running room, each built from those above it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import relay
from relay.access.agent_keys import AgentKeys
from relay.airspace.worktrees.changes import RepoChanges
from relay.app.daemon.agent_states import AgentStates
from relay.app.daemon.agents import Agents
from relay.app.daemon.airspace import AirspaceParts, WorktreeParts
from relay.app.daemon.config_reload import Reload
from relay.app.daemon.coordination import CoordinationTasks
from relay.app.daemon.metrics import Metrics
from relay.app.daemon.recovery import Recovery
from relay.app.daemon.supervisor import Supervisor
from relay.app.daemon.trouble import Trouble
from relay.app.runtime.instance import InstanceRecord, holder_is_dead
from relay.base.durations import now_iso
from relay.base.git_checkouts import top_of
from relay.config.settings import LiveSettings, Settings
from relay.coordination.tasks.board import Board
from relay.coordination.writes.guard import LockGuard
from relay.coordination.writes.lock_check import LockJudge
from relay.faces.http.requests.auth import Auth
from relay.faces.room import IntentService, rules_of
from relay.faces.room_locks import RoomHolds
from relay.faces.services import services_of
from relay.log import follow
from relay.room.dispatch.permissions import PermissionDesk
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.worker import Drain
from relay.room.journal import ledger
from relay.room.journal.live_bus import Live
from relay.room.parsing import line_format
from relay.room.routing.dispatcher import Dispatcher
from relay.room.routing.router import Router
from relay.room.service import About, Room
from relay.room.steward.handlers import Acts
from relay.room.steward.worker import Desk, Surroundings
from relay.room.transcript.tail import Transcript
from relay.store.ports import Store


class Parts:
    """What a running room is made of. `record` is the daemon's, `token` the room's; `fold`: the repository's file
    system folds case."""

    def __init__(
        self, store: Store, settings: LiveSettings, record: InstanceRecord, token: str, *, fold: bool
    ) -> None:
        now = settings.current
        #: Where the page is; empty until the doors are open.
        self.url = ""
        self.store, self.settings = store, settings
        self.live, self.roster, self.metrics = Live(), Roster(), Metrics()
        self.supervisor = Supervisor(store)
        self.judge = judge = LockJudge(fold=fold)
        holds = RoomHolds(fold=fold, root=top_of(now.repo))

        self.drain = Drain(store, self.live, holder=record.holder)
        self.states = AgentStates(store, self.live, self.roster, self.drain)
        self.drain.turn_seconds = self.metrics.turn_ended
        self.drain.changed = self.states.changed

        self.worktrees = WorktreeParts(store, settings, judge, self.drain)
        services = services_of(
            store,
            settings,
            fold=fold,
            changes=RepoChanges(now.repo, self.worktrees.registry),
            root_of=self.worktrees.root_of,
        )
        board = Board(claims=services.work.claims)
        self.airspace = AirspaceParts(
            store,
            settings,
            self.worktrees,
            roster=self.roster,
            drain=self.drain,
            live=self.live,
            board=board,
            judge=judge,
        )
        self.services = replace(services, intents=IntentService(store, settings, self.airspace.live))
        self.coordination = CoordinationTasks(store, settings, self.services, self.drain)
        follow.check_acyclic([*self.airspace.followers, *self.coordination.followers])

        self.permissions = PermissionDesk(self.live, self._say)
        self.guard = LockGuard(
            store, judge, self.airspace.guard, self.coordination.refused, self.worktrees.brought
        )
        self.agent_keys = AgentKeys(store, services.keys, record.holder, holder_is_dead)
        self.agents = Agents(
            now, self.roster, guard=self.guard, permits=self.permissions, keys=self.agent_keys
        )

        self.router = Router(store, self.live, _dispatcher(now), lambda: self.roster)
        self.router.decided = self.metrics.decided
        self.transcript = Transcript(
            store,
            now.transcript_path,
            line_format.lock_path(now.runtime_dir, now.transcript_path),
            rules=lambda: rules_of(settings.current),
            max_entry_bytes=now.workspace.max_entry_bytes,
        )
        self.drain.before_end = self.transcript.before_end
        acts = Acts(
            board,
            lambda: self.roster,
            airspace=self.airspace.live,
            permissions=self.permissions,
            holds=holds,
        )
        self.desk = Desk(store, acts, board, self.drain, lambda: self.roster, self._surroundings, holds=holds)

        self.auth = Auth(token, store, keys=services.keys)
        self.trouble = Trouble(store, self.supervisor, self.transcript, self.auth)
        self.recovery = Recovery(store, settings, self.drain, record.holder)
        self.reload = Reload(settings, self)
        self.room = Room(
            store,
            About(
                name=now.room_name,
                version=relay.__version__,
                started_at=now_iso(),
                repo=now.repo,
                config=now.path,
                engine=store.engine,
                database=store.place if now.storage == "postgres" else str(now.db_path),
                max_entry_bytes=now.workspace.max_entry_bytes,
            ),
            live=self.live,
            board=board,
            drain=self.drain,
            router=self.router,
            desk=self.desk,
            transcript=self.transcript,
            roster=lambda: self.roster,
            rules=lambda: rules_of(settings.current),
            set_agent=self.reload.set_agent,
            trouble=self.trouble.text,
            holds=holds,
        )

    async def take_over(self, before: Settings) -> None:
        """Make this the room of the settings that are in use now. `before`: those before."""
        now = self.settings.current
        self.agents.apply(now)
        await self.agent_keys.provide(self.agents.types())
        self.drain.set_seats(dict(self.agents.seats()))
        # Worktrees take their time: a turn that needs one waits for it itself.
        self.supervisor.start("worktrees-settle", self.airspace.apply)
        if before.dispatcher != now.dispatcher:
            await self.router.use(_dispatcher(now)).retire()
            self.live.publish("dispatcher", self.router.state_json())
        await self.agents.probe()
        await self.recovery.recover()
        await self.states.publish()

    async def notice(self, text: str) -> None:
        """Say in the room what became of a changed configuration."""
        await self._say(text, {"notice": "config"})

    async def close(self) -> None:
        """End what the parts hold, once their tasks have ended."""
        await self.airspace.close()
        await self.agent_keys.close()
        await self.router.dispatcher.close()

    async def _say(self, text: str, meta: Mapping[str, Any]) -> None:
        await self.store.write(lambda tx: ledger.say(tx, text, now=time.time(), meta=meta))

    def _surroundings(self) -> Surroundings:
        path = str(self.settings.current.path)
        return Surroundings(self.live.people, self.router.state_json(), self.url, path)


def _dispatcher(settings: Settings) -> Dispatcher:
    chosen = settings.dispatcher
    return Dispatcher(
        chosen.model, host=chosen.ollama_host, timeout_s=chosen.timeout_s, enabled=chosen.enabled
    )

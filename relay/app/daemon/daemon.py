"""The daemon: it claims a room, opens its database, builds its parts, runs them, and closes them.

Invariants: one daemon a room, proven by its record; every long-running task is supervised; at a stop nobody is
cut off before `stop.drain_s`, and what was said is on disk before the record goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial

import structlog

from relay.app.daemon.http_server import CannotListen, HttpServer
from relay.app.daemon.parts import Parts
from relay.app.daemon.watchdog import Watchdog
from relay.app.entries.files_elsewhere import FleetFiles
from relay.app.runtime import instance
from relay.app.runtime.instance import InstanceLost, InstanceRecord, died_here, holder_is_dead
from relay.app.runtime.room_token import is_shared, token_at_start
from relay.app.wiring.schema import SCHEMAS
from relay.base.files import write_atomically
from relay.config.command_line import script
from relay.config.settings import LiveSettings, Settings
from relay.coordination.tasks.projection import TasksFile
from relay.faces.coordination import folds
from relay.faces.http.hub import AWAY
from relay.faces.http.requests.auth import TokenError
from relay.faces.http.requests.connections import raise_open_files, tell_full_seldom
from relay.room.transcript.joining import ForeignTranscript
from relay.store.open import opened_store
from relay.store.ports import AnotherDaemon, Store

log = structlog.get_logger(__name__)
#: Seconds between two looks whether agents can run.
PROBE_EVERY_S = 15.0
#: Seconds that the first decisions wait for the first look. An agent without an answer by then counts as installed.
FIRST_PROBE_S = 3.0


class CannotStart(Exception):
    """The daemon cannot run; the message says why and what to do."""


class Daemon:
    """One room, running. `run` returns when it was asked to stop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._record = InstanceRecord.own()
        self._probed = asyncio.Event()
        self._stop = asyncio.Event()
        #: The daemon that has the room's database now, instead of this one.
        self._replaced: AnotherDaemon | None = None

    def ask_to_stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        """Run the room until it is asked to stop. Raises CannotStart, ConfigError, StoreError, OSError."""
        async with self._claimed():
            loop = asyncio.get_running_loop()
            raise_open_files()
            tell_full_seldom(loop)
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.ask_to_stop)
            async with self._opened() as store:
                watchdog = Watchdog(loop)
                watchdog.start()
                try:
                    await self._run(await self._build(store), watchdog)
                finally:
                    watchdog.stop()
            if self._replaced is not None:
                raise self._replaced

    # -- open

    @contextlib.asynccontextmanager
    async def _claimed(self) -> AsyncIterator[None]:
        """The room's record is this daemon's. Raises CannotStart."""
        settings = self.settings
        settings.runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings.runtime_dir.chmod(0o700)
        os.environ["RELAY_CONFIG"] = str(settings.path)
        try:
            self._record = await asyncio.to_thread(instance.claim, settings.lock_path, settings.locks.ttl)
        except instance.AlreadyRunning as error:
            raise CannotStart(str(error)) from error
        try:
            write_atomically(settings.pid_path, f"{os.getpid()}\n", durable=False)
            yield
        finally:
            settings.pid_path.unlink(missing_ok=True)
            settings.state_path.unlink(missing_ok=True)
            with contextlib.suppress(instance.InstanceError):
                instance.release(settings.lock_path, self._record)

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[Store]:
        """The room's database. Raises CannotStart, StoreError."""
        async with opened_store(self.settings, SCHEMAS, keeper=True) as store:
            try:
                yield store
            except store.errors as error:
                raise CannotStart(
                    f"the database {store.place} cannot be used: {error}. {script('healthcheck.sh')} names what "
                    "is damaged, and docs/service.md says what to do"
                ) from error

    # -- build

    async def _build(self, store: Store) -> Parts:
        settings = self.settings
        try:
            token = await token_at_start(store, settings.token_path, settings.member or self._record.host)
        except TokenError as error:
            raise CannotStart(str(error)) from error
        fold = await asyncio.to_thread(folds, settings)
        parts = Parts(store, LiveSettings(settings), self._record, token, fold=fold)
        if not parts.fleet.alone:
            # A member has what it missed before it takes anything, and knows whom a line may name.
            await parts.fleet.look()
            try:
                await parts.transcript.catch_up()
            except ForeignTranscript as error:
                raise CannotStart(str(error)) from error
        await parts.fleet.join(parts.agents.told())
        if not parts.fleet.alone:
            # From here on: whatever a start takes, it is no absence.
            parts.supervisor.start("fleet", lambda: self._stay_sole(parts.fleet.run))
        await parts.recovery.recover()
        await asyncio.to_thread(parts.worktrees.desk.end_left)
        await parts.settle_before_work()
        await parts.agent_keys.clear(died_here if is_shared(store) else holder_is_dead)
        await parts.agent_keys.provide(parts.agents.types())
        return parts

    # -- run and close

    async def _run(self, parts: Parts, watchdog: Watchdog) -> None:
        server = HttpServer(parts)
        try:
            try:
                parts.overview.address = await server.open(self.settings)
            except CannotListen as error:
                raise CannotStart(str(error)) from error
            # Whoever looks at a relay that no longer hears the room is told so, also where no connection broke.
            parts.fleet.lost = partial(server.hub.cut_off, AWAY)
            self._start(parts, server, watchdog)
            log.info(
                "room is open", url=parts.overview.address, agents=list(parts.roster.names), pid=os.getpid()
            )
            told = partial(parts.tell_fleet, parts.overview.address, server.port)
            # Supervised, as all that runs from here on: the database may be away by now.
            parts.supervisor.start("fleet-told", told)
            await self._stop.wait()
            drain_s = 0.0 if self._replaced else self.settings.stop.drain_s
            log.info("stopping", drain_s=drain_s)
            await parts.workers.stop(drain_s)
        finally:
            await server.close()
            await parts.supervisor.stop()
            await parts.fleet.leave()
            await parts.close()
        # What was acknowledged is in the database; it also belongs in the file before the daemon goes.
        if self._replaced is None:
            with contextlib.suppress(OSError, ForeignTranscript):
                await parts.transcript.sync()
        log.info("room is closed")

    def _start(self, parts: Parts, server: HttpServer, watchdog: Watchdog) -> None:
        """Start all that runs for ever."""
        start, settings = parts.supervisor.start, self.settings

        def lead(name: str, run: Callable[[], Awaitable[None]]) -> None:
            """What there must be one of in the fleet."""
            start(name, parts.fleet.led(run))

        start("heartbeat", lambda: self._heartbeat(parts.overview.address))
        start("token", parts.token.run)
        lead("database-check", parts.trouble.check_database)
        start("sole", lambda: self._stay_sole(parts.store.stay_sole))
        if not parts.fleet.alone:
            start("fleet-members", parts.fleet.follow)
            start("fleet-people-tell", parts.people.tell)
            start("fleet-people-hear", parts.people.hear)
            if isinstance(parts.files, FleetFiles):
                start("fleet-files", parts.files.give)
            if parts.needs.elsewhere is not None:
                start("fleet-needs-tell", parts.needs.elsewhere.tell)
                start("fleet-needs-hear", parts.needs.elsewhere.hear)
            start("fleet-stops", parts.steward.stop_turns)
            start("fleet-shared", parts.keep_to_one)
            lead("fleet-watch", parts.fleet.watch)
        start("transcript", parts.transcript.run)
        start("queue", parts.workers.run)
        start("steward", parts.steward.run)
        lead("router", lambda: self._route(parts))
        start("agents", lambda: self._probe(parts))
        start("recover", parts.recovery.run)
        start("agent-states", parts.states.run)
        start("tasks-file", TasksFile(parts.store, settings.tasks_path).run)
        start("config", parts.reload.watch)
        start("worktrees", parts.worktrees.run)
        start("worktrees-desk", parts.worktrees.desk.run)
        start("attached-sessions", parts.attached.run)
        start("attached-codex", parts.codex_waker.run)
        start("attached-writes", parts.shell_writes.run)
        start("attached-work", parts.attached.follow_work)
        lead("memory-observed", parts.memory.run)
        lead("memory-past", parts.memory.take_in_past)
        lead("memory-vectors", parts.vectors.run)
        lead("knowledge", parts.knowledge.run)
        lead("knowledge-model", parts.knowledge.read_with_model)
        lead("notify", parts.teller.run)
        start("timeline-rewinds", parts.settle_rewinds)
        lead("handoffs", parts.handoffs.run)
        lead("explorations", parts.explorations.run)
        start("timeline-snapshots", parts.timeline.prune)
        lead("timeline-journal", parts.journal.run)
        start("timeline-tools", parts.timeline.tools.run)
        start("timeline-edits", parts.timeline.edits.run)
        lead("timeline-conflicts", parts.conflicts.run)
        lead("behaviour-checks", parts.behaviour.run)
        parts.airspace.start(start, lead)
        parts.coordination.start(start, lead)
        lead(parts.given_tasks.name, parts.given_tasks.run)
        parts.verification.start(start, lead)
        start(
            "metrics",
            lambda: parts.metrics.run(parts.store, parts.roster, parts.transcript, server.hub, watchdog),
        )
        start("metric-gauges", parts.gauges.run)
        parts.workers.update()

    # -- tasks

    async def _heartbeat(self, url: str) -> None:
        """Keep the record fresh; a daemon whose record was taken must not go on."""
        settings = self.settings
        while True:
            record = replace(self._record, address=url)
            try:
                self._record = await asyncio.to_thread(instance.heartbeat, settings.lock_path, record)
            except InstanceLost as error:
                log.error("another daemon has this room, or its record is gone: stopping", error=str(error))
                self.ask_to_stop()
                return
            await asyncio.sleep(settings.locks.ttl / 3)

    async def _stay_sole(self, stay: Callable[[], Awaitable[None]]) -> None:
        """Keep this daemon's place in the database; one that finds another there, after a lost connection, stops."""
        try:
            await stay()
        except AnotherDaemon as error:
            log.error("this daemon has no place in the database any more: stopping", error=str(error))
            self._replaced = error
            self.ask_to_stop()

    async def _route(self, parts: Parts) -> None:
        """Route messages after the first look at the agents, so that none counts as missing before it. A hanging
        program delays this by `FIRST_PROBE_S` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_PROBE_S):
                await self._probed.wait()
        await parts.router.run()

    async def _probe(self, parts: Parts) -> None:
        async def changed() -> None:
            parts.workers.poke()
            await parts.states.publish()

        while True:
            await parts.agents.probe(changed)
            self._probed.set()
            await asyncio.sleep(PROBE_EVERY_S)

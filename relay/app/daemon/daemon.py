"""The composition root: builds the parts of the room, runs them, and owns their end.

Invariants: one daemon a room, proven by its record; every long-running task is supervised; at a stop nobody is
cut off before `stop.drain_s`, and what was said is on disk before the record goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web

import relay
from relay import faces
from relay.access.agent_keys import AgentKeys
from relay.access.keys import Keys
from relay.airspace.worktrees.changes import RepoChanges
from relay.app.daemon.agents import Seats
from relay.app.daemon.airspace import Around, Tower
from relay.app.daemon.config_reload import Reload
from relay.app.daemon.coordination import CoordinationDesk
from relay.app.daemon.metrics import Metrics
from relay.app.daemon.supervisor import Supervisor
from relay.app.daemon.watchdog import Watchdog
from relay.app.runtime import instance
from relay.app.runtime.identity import spelled
from relay.app.runtime.instance import InstanceLost, InstanceRecord
from relay.app.wiring.holds import RoomHolds
from relay.app.wiring.merge_permission import may_land
from relay.app.wiring.merge_words import tell
from relay.app.wiring.schema import WINGS
from relay.app.wiring.services import folds, services_of
from relay.app.wiring.worktree_events import recordable
from relay.app.wiring.worktrees import WorktreesDoor
from relay.base.durations import now_iso
from relay.base.files import stamp_of, write_atomically
from relay.base.git_checkouts import top_of
from relay.config.command_line import script
from relay.config.settings import Settings
from relay.coordination.sessions import Heartbeat
from relay.coordination.tasks.board import Board
from relay.coordination.tasks.projection import TasksFile
from relay.coordination.writes.guard import LockGuard, checked
from relay.coordination.writes.lock_check import LockJudge
from relay.faces.http.app import DOORWAY, HUB, create_app
from relay.faces.http.requests.auth import Auth, TokenError, ensure_token, owner
from relay.faces.http.requests.connections import raise_open_files, tell_full_seldom
from relay.faces.http.routes.airspace import AirspaceDoors
from relay.faces.http.routes.guard import GuardDoor
from relay.faces.http.routes.locks import HeldDoors
from relay.faces.http.routes.permissions import PermissionDoors
from relay.faces.http.routes.worktrees import WorktreeDoors
from relay.log import follow
from relay.log.follow import tail
from relay.model import RESERVED_NAMES
from relay.room.dispatch import queue
from relay.room.dispatch.permissions import PermissionDesk
from relay.room.dispatch.worker import Drain
from relay.room.journal import ledger
from relay.room.journal.frames import LOCK_EVENTS, SHOWN, TASK_EVENTS
from relay.room.journal.ledger import Rules
from relay.room.journal.live_bus import Live
from relay.room.parsing import line_format
from relay.room.routing.dispatcher import Dispatcher
from relay.room.routing.router import Router
from relay.room.service import About, Room
from relay.room.steward.handlers import Acts
from relay.room.steward.worker import Desk, Surroundings
from relay.room.transcript.tail import Transcript
from relay.store.open import open_store
from relay.store.ports import AnotherDaemon, Store, StoreError, Tx

log = structlog.get_logger(__name__)
STATIC = Path(faces.__file__).parent / "static"
#: Seconds between two looks whether agents can run.
PROBE_EVERY_S = 15.0
#: Seconds that the first decisions wait for the first look; who has not answered then counts as installed.
FIRST_PROBE_S = 3.0
#: Seconds between two looks for jobs whose holder has died.
RECOVER_EVERY_S = 30.0
#: Seconds between two looks at the token's file.
TOKEN_EVERY_S = 2.0
#: Bytes of a request's first line: a path of 4096 characters, each of four bytes, each byte escaped, and the rest.
MOST_LINE = 65536


class CannotStart(Exception):
    """The daemon cannot run; the message says why and what to do."""


async def open_room_store(settings: Settings, *, create: bool = True, keeper: bool = False) -> Store:
    """The room's database, created (or StoreMissing raised) and migrated when needed; `keeper`: as its daemon.
    Raises StoreError."""
    return await open_store(settings, WINGS, create=create, keeper=keeper)


class Daemon:
    """One room, running. `run` returns when it was asked to stop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._stop = asyncio.Event()
        #: Why it must not go on: another daemon has its database.
        self._replaced: AnotherDaemon | None = None
        self._record: InstanceRecord | None = None
        self._url = ""
        #: What is wrong with the database's data, and with the token's file; empty when nothing is.
        self._damage = self._token_trouble = ""
        self._changed = asyncio.Event()
        self._changed_agents: set[str] = set()

    def ask_to_stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        """Run the room until it is asked to stop. Raises CannotStart, ConfigError, StoreError, OSError."""
        settings = self.settings
        _make_runtime(settings)
        os.environ["RELAY_CONFIG"] = str(settings.path)
        try:
            self._record = await asyncio.to_thread(instance.claim, settings.lock_path, settings.locks.ttl)
        except instance.AlreadyRunning as error:
            raise CannotStart(str(error)) from error
        try:
            write_atomically(settings.pid_path, f"{os.getpid()}\n", durable=False)
            await self._run_claimed()
        finally:
            settings.pid_path.unlink(missing_ok=True)
            settings.state_path.unlink(missing_ok=True)
            with contextlib.suppress(instance.InstanceError):
                instance.release(settings.lock_path, self._record)

    async def _run_claimed(self) -> None:
        loop = asyncio.get_running_loop()
        raise_open_files()
        tell_full_seldom(loop)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ask_to_stop)
        store = await open_room_store(self.settings, keeper=True)
        watchdog = Watchdog(loop)
        watchdog.start()
        try:
            await self._run_room(store, watchdog)
        except store.errors as error:
            raise CannotStart(
                f"the database {store.place} cannot be used: {error}. {script('healthcheck.sh')} names what is "
                "damaged, and docs/service.md says what to do"
            ) from error
        finally:
            watchdog.stop()
            await store.close()
        if self._replaced is not None:
            raise self._replaced

    def _root_of(self, agent: str) -> Path | None:
        return self._tower.root_of(agent)

    def _build(self, store: Store, fold: bool) -> None:
        settings = self.settings
        self._store = store
        self._live = Live()
        self._metrics = Metrics()
        self._supervisor = Supervisor(store)
        self._permissions = PermissionDesk(self._live, self._permission_notice)
        self._reload = Reload(settings, self._take_over, self._notice)
        self._holds = RoomHolds(fold=fold, root=top_of(settings.repo))
        self._holder = holder = _holder_of(self._record or InstanceRecord.own())
        self._drain = Drain(store, self._live, holder=holder)
        self._drain.turn_seconds = lambda agent, result, seconds: self._metrics.turns.labels(
            agent, result
        ).observe(max(0.0, seconds))
        self._drain.changed = self._agent_changed
        self._services = services_of(
            store,
            settings,
            current=lambda: self.settings,
            keys=self._keys,
            fold=fold,
            changes=lambda: RepoChanges(self.settings.repo, self._tower.registry),
            root_of=self._root_of,
            in_hand=lambda agent, paths: self._tower.live.in_hand(agent, paths),  # noqa: PLW0108 -- made later
        )
        self._judge: LockJudge = self._services.more["judge"]
        self._board = Board(claims=self._services.more["claims"])
        self._agent_keys = AgentKeys(store, self._keys, holder, _holder_is_dead)
        self._coordination = CoordinationDesk(
            store,
            settings.runtime_dir,
            lambda: self.settings.coordination,
            Heartbeat(settings.coordination, fold=fold),
            agents=lambda: self._seats.roster.names,
            running=lambda: {name: one.plan.session for name, one in self._drain.running.items()},
            sweeps=self._services.more["sweeps"],
        )
        self._tower = Tower(
            store,
            Around(
                settings=lambda: self.settings,
                roster=lambda: self._seats.roster,
                board=self._board,
                drain=self._drain,
                publish=self._live.publish,
                held=lambda: store.read(self._judge.held),
            ),
        )
        self._tower.registry.may_land = may_land(store, self._judge)
        self._tower.registry.tell = tell(store)
        follow.check_acyclic([*self._tower.followers, *self._coordination.followers])
        self._guard = LockGuard(
            store, self._judge, self._tower.guard, self._coordination.refused, self._tower.brought
        )
        self._seats = Seats(settings, guard=self._guard, permits=self._permissions, key=self._agent_keys.of)
        self._router = Router(store, self._live, _dispatcher(settings), lambda: self._seats.roster)
        self._router.decided = lambda action: self._metrics.decisions.labels(action).inc()
        self._transcript = Transcript(
            store,
            settings.transcript_path,
            line_format.lock_path(settings.runtime_dir, settings.transcript_path),
            rules=self._rules,
            max_entry_bytes=settings.workspace.max_entry_bytes,
        )
        self._drain.before_end = self._transcript.before_end
        acts = Acts(
            self._board,
            lambda: self._seats.roster,
            airspace=self._tower.live,
            permissions=self._permissions,
            holds=self._holds,
        )
        self._desk = Desk(
            store,
            acts,
            self._board,
            self._drain,
            lambda: self._seats.roster,
            self._surroundings,
            holds=self._holds,
        )
        self._room = Room(
            store,
            About(
                name=settings.room_name,
                version=relay.__version__,
                started_at=now_iso(),
                repo=settings.repo,
                config=settings.path,
                engine=store.engine,
                database=store.place if settings.storage == "postgres" else str(settings.db_path),
                max_entry_bytes=settings.workspace.max_entry_bytes,
            ),
            live=self._live,
            board=self._board,
            drain=self._drain,
            router=self._router,
            desk=self._desk,
            transcript=self._transcript,
            roster=lambda: self._seats.roster,
            rules=self._rules,
            set_agent=self._reload.set_agent,
            trouble=self._trouble,
            holds=self._holds,
        )

    def _reserved(self) -> Collection[str]:
        return RESERVED_NAMES | set(self._seats.roster.names)

    async def _permission_notice(self, text: str, meta: Mapping[str, Any]) -> None:
        await self._store.write(lambda tx: ledger.say(tx, text, now=time.time(), meta=meta))

    def _trouble(self) -> str:
        troubles = self._supervisor.troubles
        # Where the database is away all fail together, each in its own words: the last of them are told.
        failing = [one for one in (self._store.trouble, self._damage, self._token_trouble) if one]
        failing += [one.error for one in troubles if one.away and not self._store.trouble][-1:]
        failing += [f"{one.task} fails: {one.error}" for one in troubles if not one.away]
        return "; ".join([*failing, self._transcript.trouble] if self._transcript.trouble else failing)

    def _rules(self) -> Rules:
        jitter = self.settings.jitter
        return Rules(
            agents=self._seats.roster.names,
            busy=jitter.busy,
            medium=jitter.medium,
            busy_s=jitter.busy_s,
            medium_s=jitter.medium_s,
            quiet_s=jitter.quiet_s,
            hop_limit=self.settings.room.hop_limit,
            agent_mentions=self.settings.room.agent_mentions,
        )

    def _surroundings(self) -> Surroundings:
        return Surroundings(self._live.people, self._router.state_json(), self._url, str(self.settings.path))

    async def _run_room(self, store: Store, watchdog: Watchdog) -> None:
        self._keys = Keys(store, lambda: self._seats.roster.names)
        self._build(store, await asyncio.to_thread(folds, self.settings))
        settings = self.settings
        await self._recover()
        await self._agent_keys.clear()
        await self._agent_keys.provide(self._seats.types())
        token = await asyncio.to_thread(ensure_token, settings.token_path)
        self._auth = Auth(token, store, keys=self._keys)
        app = create_app(
            self._room,
            self._auth,
            settings=settings,
            static=STATIC,
            metrics=self._metrics.text,
            reserved=self._reserved,
            services=self._services,
        )
        app.router.add_post("/api/repair", self._repair)
        doors = GuardDoor(
            self._guard,
            self._tower.root_of,
            home=self._tower.home,
            checkouts=self._tower.checkouts,
            spelled=lambda name: spelled(name, self._seats.roster.names),
            check=checked(store, self._judge),
            owner=owner(),
        )
        app.add_routes(doors.table())
        app.add_routes(PermissionDoors(lambda: self._permissions.pending, self._room, self._reserved).table())
        app.add_routes(
            AirspaceDoors(
                self._tower.live, self._room, self._reserved, agents=lambda: self._seats.roster.names
            ).table()
        )
        app.add_routes(HeldDoors(self._room, self._reserved).table())
        tower = self._tower
        door = WorktreesDoor(
            tower.registry,
            tower.ground,
            lambda: recordable(self._store),
            lambda: tower.watcher.polling,
            tower.protocol.behind,
            tower.protocol.decided,
        )
        app.add_routes(WorktreeDoors(door, reserved=self._reserved, owner=owner()).table())
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
        await runner.setup()
        listening: asyncio.Server | None = None
        try:
            listening = await self._open_doors(app, runner)
            self._start_tasks(app, watchdog)
            log.info("room is open", url=self._url, agents=list(self._seats.roster.names), pid=os.getpid())
            await self._stop.wait()
            drain_s = 0.0 if self._replaced else settings.stop.drain_s
            log.info("stopping", drain_s=drain_s)
            await self._drain.stop(drain_s)
        finally:
            if listening is not None:
                listening.close()
            await runner.cleanup()
            await self._supervisor.stop()
            await self._tower.close()
            await self._agent_keys.close()
            await self._router.dispatcher.close()
        # What was acknowledged is in the database; it also belongs in the file before we go.
        if self._replaced is None:
            with contextlib.suppress(OSError):
                await self._transcript.sync()
        log.info("room is closed")

    async def _open_doors(self, app: web.Application, runner: web.AppRunner) -> asyncio.Server:
        ui, loop = self.settings.ui, asyncio.get_running_loop()
        assert runner.server is not None
        doorway = app[DOORWAY]
        connections = doorway.factory(runner.server, max_line_size=MOST_LINE)
        try:
            listening = await loop.create_server(connections, ui.host, ui.port, backlog=doorway.backlog)
        except OSError as error:
            raise CannotStart(
                f"{ui.host}:{ui.port} cannot be opened: {error.strerror}. Something else may use the port; "
                "set `ui.port` in the configuration (0 takes any free one)"
            ) from error
        host, port = listening.sockets[0].getsockname()[:2]
        shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
        self._url = f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
        state = {
            "url": self._url,
            "host": host,
            "port": port,
            "pid": os.getpid(),
            "version": relay.__version__,
            "started_at": now_iso(),
        }
        await asyncio.to_thread(write_atomically, self.settings.state_path, json.dumps(state) + "\n")
        return listening

    def _start_tasks(self, app: web.Application, watchdog: Watchdog) -> None:
        start = self._supervisor.start
        probed = asyncio.Event()
        start("heartbeat", self._heartbeat)
        start("token", self._keep_token)
        start("database-check", self._check_database)
        start("sole", self._stay_sole)
        start("transcript", self._tail)
        start("queue", self._drain.dispatch_drain_loop)
        start("steward", self._desk.run)
        start("router", self._after(probed, self._router.run))
        start("agents", lambda: self._probe_agents(probed))
        start("recover", self._recover_for_ever)
        start("agent-states", self._publish_agents)
        start("tasks-file", TasksFile(self._store, self.settings.tasks_path).run)
        start("config", self._reload.watch)
        self._tower.start(start)
        self._coordination.start(start)
        start(
            "metrics",
            lambda: self._metrics.run(
                self._store,
                self._drain,
                lambda: self._seats.roster,
                watchdog,
                lambda: app[HUB].clients,
                lambda: self._transcript.ingested,
            ),
        )
        self._drain.set_seats(dict(self._seats.seats()))

    def _after(self, ready: asyncio.Event, run: Any) -> Any:
        """Nobody is called "not installed" before the first look, but a program that hangs holds nobody up."""

        async def wait_and_run() -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_PROBE_S):
                    await ready.wait()
            await run()

        return wait_and_run

    async def _tail(self) -> None:
        await self._transcript.sync()
        self._room.catching_up = False
        await self._transcript.run()

    async def _check_database(self) -> None:
        """Once, beside the room's work: the start itself reads only little of the database."""
        wrong = await self._store.check()
        if not wrong:
            return
        self._damage = f"the database is damaged: {'; '.join(wrong[:3])}"
        log.error("the database is damaged", damage=wrong)
        text = (
            f"The database is damaged: {'; '.join(wrong[:3])}. New messages may be lost. Stop relay with "
            f"{script('stop.sh')}, and see docs/service.md."
        )
        with contextlib.suppress(StoreError, self._store.errors):
            await self._store.write(
                lambda tx: ledger.say(tx, text, now=time.time(), meta={"notice": "database"})
            )

    async def _keep_token(self) -> None:
        """The text of the token's file is a key of the room, always: one that was removed comes back, and another one
        that a person put there is taken over."""
        path = self.settings.token_path
        last: tuple[int, int, int] | None = None
        while True:
            stamp = await asyncio.to_thread(stamp_of, path)
            if stamp is None or stamp != last:
                try:
                    token = await asyncio.to_thread(ensure_token, path, self._auth.token)
                except (TokenError, OSError) as error:
                    self._token_trouble = str(error)
                else:
                    self._token_trouble = ""
                    if token != self._auth.token:
                        log.warning("the token was replaced; the new one is the room's now", path=str(path))
                        self._auth.token = token
                    elif stamp is None:
                        log.warning("the token was removed; it is there again", path=str(path))
                    stamp = await asyncio.to_thread(stamp_of, path)
                last = stamp
            await asyncio.sleep(TOKEN_EVERY_S)

    async def _heartbeat(self) -> None:
        """Keep the record fresh; a daemon whose record was taken must not go on."""
        settings = self.settings
        assert self._record is not None
        while True:
            record = replace(self._record, address=self._url)
            try:
                self._record = await asyncio.to_thread(instance.heartbeat, settings.lock_path, record)
            except InstanceLost as error:
                log.error("another daemon has this room, or its record is gone: stopping", error=str(error))
                self.ask_to_stop()
                return
            await asyncio.sleep(settings.locks.ttl / 3)

    async def _stay_sole(self) -> None:
        """One daemon a database: who finds another there, after a lost connection, must not go on."""
        try:
            await self._store.stay_sole()
        except AnotherDaemon as error:
            log.error("another daemon has this room's database: stopping", error=str(error))
            self._replaced = error
            self.ask_to_stop()

    # -- agents

    async def _probe_agents(self, probed: asyncio.Event) -> None:
        while True:
            await self._seats.probe(self._probe_changed)
            probed.set()
            await asyncio.sleep(PROBE_EVERY_S)

    async def _probe_changed(self) -> None:
        self._drain.poke()
        await self._publish(None)

    async def _publish(self, only: list[str] | None) -> None:
        for agent in await self._room.agents(only):
            self._live.publish("agent", agent)

    async def _publish_agents(self) -> None:
        """Tell connected clients how agents stand, whenever something happened to one; bursts become one."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._gather_changes(), name="agent-changes")
            while True:
                await self._changed.wait()
                self._changed.clear()
                named, self._changed_agents = sorted(self._changed_agents), set()
                await self._publish(named)
                await asyncio.sleep(0.05)

    def _agent_changed(self, name: str) -> None:
        self._changed_agents.add(name)
        self._changed.set()

    async def _gather_changes(self) -> None:
        start = await self._room.last_cursor()
        # What is done to locks and tasks says nothing of an agent's turns, and is the most there is.
        types = {*SHOWN, ledger.AGENT_STATE} - {*LOCK_EVENTS, *TASK_EVENTS}
        async for batch in tail(self._store, start, types=sorted(types)):
            for event in batch:
                told = event.outputs or {}
                for job in told.get("jobs", ()):
                    self._agent_changed(job["agent"])
                if "agent" in told:
                    self._agent_changed(told["agent"])

    # -- configuration

    async def _take_over(self, settings: Settings) -> None:
        """Make this room one with these settings."""
        before, self.settings = self.settings, settings
        self._seats.apply(settings)
        await self._agent_keys.provide(self._seats.types())
        self._drain.set_seats(dict(self._seats.seats()))
        # Worktrees take their time: a turn that needs one waits for it itself.
        self._supervisor.start("worktrees-settle", lambda: self._tower.apply(settings))
        if before.dispatcher != settings.dispatcher:
            await self._router.use(_dispatcher(settings)).retire()
            self._live.publish("dispatcher", self._router.state_json())
        await self._seats.probe()
        await self._recover()
        await self._publish(None)

    async def _notice(self, text: str) -> None:
        meta = {"notice": "config"}
        await self._store.write(lambda tx: ledger.say(tx, text, now=time.time(), meta=meta))

    # -- recovery

    async def _recover(self) -> int:
        async def work(tx: Tx) -> int:
            jobs = await queue.recover_stale_active(
                tx,
                now=time.time(),
                stale_after_s=self.settings.queue.stale_after_s,
                holder=self._holder,
                is_dead=_holder_is_dead,
                running=self._in_hand(),
            )
            return len(jobs)

        recovered = await self._store.write(work)
        names = self._seats.roster.names
        await self._store.write(lambda tx: queue.skip_unknown(tx, names, now=time.time()))
        if recovered:
            log.info("jobs of a dead daemon are pending again", jobs=recovered)
        return recovered

    def _in_hand(self) -> set[int]:
        """The jobs whose turns run here."""
        return {job.id for turn in self._drain.running.values() for job in turn.plan.jobs}

    async def _recover_for_ever(self) -> None:
        while True:
            await asyncio.sleep(RECOVER_EVERY_S)
            await self._recover()

    async def _repair(self, request: web.Request) -> web.Response:
        """`healthcheck.sh --repair` with a live daemon comes here, so that one process mends."""
        from relay.app.health.repair import repair_live

        repaired = await repair_live(
            self._store,
            self.settings,
            time.time(),
            holder=self._holder,
            running=self._in_hand,
            is_dead=_holder_is_dead,
        )
        return web.json_response({"repaired": [one.as_json() for one in repaired]})


def _dispatcher(settings: Settings) -> Dispatcher:
    one = settings.dispatcher
    return Dispatcher(one.model, host=one.ollama_host, timeout_s=one.timeout_s, enabled=one.enabled)


def _make_runtime(settings: Settings) -> None:
    settings.runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings.runtime_dir.chmod(0o700)


def _holder_of(record: InstanceRecord) -> str:
    """How this daemon signs the jobs it holds: enough to tell later whether it still lives."""
    return json.dumps([record.pid, record.started_at, record.host, record.mark])


def _holder_is_dead(holder: str) -> bool:
    """Is the process gone that holds a job? Unknown (another machine) is not dead: its lease decides."""
    try:
        pid, started_at, host, mark = json.loads(holder)
    except (ValueError, TypeError):
        return True
    if host != socket.gethostname():
        return False
    return instance.process_of(InstanceRecord(pid, started_at, host, 0.0, mark=mark)) is None

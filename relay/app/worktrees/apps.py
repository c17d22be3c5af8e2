"""Runs the app of an agent's branch in its worktree, with the ports of that (docs/worktrees.md).

Invariants: one app a worktree. It ends with all that it started: when it is stopped, when the room stops, and when
the daemon is killed; what ended with the room is known until it is run again. That it listens on a port is what the
system says, not what was configured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from relay.airspace.worktrees.tracked_worktree import TrackedWorktree
from relay.app.worktrees import record as records
from relay.app.worktrees.commands import CannotRun, running
from relay.app.worktrees.live_output import LiveOutput
from relay.app.worktrees.ports import PortRange, listening_ports, listens
from relay.app.worktrees.record import RunningApp
from relay.app.worktrees.setups import Say, WorktreeSetups
from relay.base.child_process import ChildProcess
from relay.base.durations import now_iso
from relay.config.settings import LiveSettings
from relay.model import Refusal
from relay.model.names import STEWARD, listed
from relay.room.dispatch.permissions import code_span

State = Literal["starting", "running", "listening", "stopping", "stopped", "exited", "interrupted"]
#: The states of an app that is not over.
ALIVE = ("starting", "running", "listening", "stopping")
#: Seconds between two looks for its ports: until it listens, and then.
LOOK_S, LOOK_AGAIN_S = 0.5, 5.0
#: Addresses that mean "every one": a link needs one that can be opened.
_EVERY = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}


@dataclass(slots=True)
class App:
    """One run. `ports`: on which it listens; `code`: its exit code, None while it runs or where a signal ended it;
    `reason`: how it ended, or why it did not begin, without a full stop."""

    agent: str
    by: str
    key: str
    assigned: PortRange
    output: LiveOutput
    state: State = "starting"
    started_at: str = field(default_factory=now_iso)
    ports: tuple[int, ...] = ()
    code: int | None = None
    reason: str = ""
    stopped_by: str = ""
    ended_at: str = ""
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        return self.state in ALIVE

    @property
    def port(self) -> int | None:
        """The one that its link goes to: the first of its own range where it listens there."""
        own = [port for port in self.ports if port in self.assigned.ports()]
        return next(iter([*own, *self.ports]), None)


class WorktreeApps:
    """Of the worktrees that `setups` knows. `say` tells the room."""

    def __init__(
        self, settings: LiveSettings, setups: WorktreeSetups, say: Say, changed: Callable[[str], None]
    ) -> None:
        self._settings, self._setups, self._say, self._changed = settings, setups, say, changed
        self._apps: dict[str, App] = {}
        self._closed = False

    def find(self, agent: str) -> App | None:
        """The app of an agent's worktree that runs, or ran last."""
        return self._apps.get(agent)

    def last(self, worktree: TrackedWorktree) -> App | None:
        """The app of a worktree that runs, or ran last, also before the room stopped. Blocks."""
        if (app := self._apps.get(worktree.name)) is not None or not self._setups.current.run:
            return app
        if (ran := records.running_app(worktree.checkout.git_dir, worktree.name)) is None:
            return None
        app = App(worktree.name, ran.by, "", PortRange(0, 0), LiveOutput(lambda _: None), "interrupted")
        app.started_at, app.reason = ran.started_at, "was running when the room stopped"
        return app

    async def tell_interrupted(self, worktrees: Sequence[TrackedWorktree]) -> None:
        """Tell the room once which apps a stop of it has ended. Raises OSError."""

        def untold() -> list[str]:
            names = []
            for each in worktrees:
                git_dir, app = each.checkout.git_dir, self.last(each)
                ran = records.running_app(git_dir, each.name)
                if app is not None and app.state == "interrupted" and ran is not None and not ran.told:
                    records.put_app(git_dir, each.name, replace(ran, told=True))
                    names.append(each.name)
            return names

        if names := await asyncio.to_thread(untold):
            were = "apps of {} were" if len(names) > 1 else "app of {} was"
            again = f"`/app @{names[0]} run` starts {'one' if len(names) > 1 else 'it'} again."
            text = f"The {were.format(listed(names))} running when the room stopped. {again}"
            await self._say(names[0], text, "")

    def running(self) -> list[App]:
        return [app for app in self._apps.values() if app.alive]

    def ended(self) -> list[App]:
        """Those that nobody stopped, of worktrees that are there."""
        return [app for app in self._apps.values() if app.state == "exited" and self._setups.has(app.agent)]

    def url(self, app: App) -> str | None:
        """Where it is opened on this machine; None: it does not listen."""
        if app.port is None or not app.alive:
            return None
        host = self._settings.current.ui.host
        host = _EVERY.get(host, f"[{host}]" if ":" in host else host)
        return f"http://{host}:{app.port}"

    def as_json(self, app: App, *, output: bool) -> dict[str, Any]:
        """`output`: with the newest of what it printed."""
        shown = {
            "state": app.state,
            "by": app.by,
            "started_at": app.started_at,
            "ports": list(app.ports) if app.alive else [],
            "port": app.port if app.alive else None,
            "url": self.url(app),
            "code": app.code,
            "reason": app.reason,
        }
        return shown | ({"output": app.output.text} if output else {})

    async def start(self, agent: str, by: str, key: str = "") -> App:
        """Start the app in an agent's worktree, once that is set up. `key`: of the order; the same one starts it
        once. Raises Refusal, OSError."""
        worktree = self._setups.find(agent)
        if not self._setups.current.run:
            raise Refusal(
                "No command is configured that runs the app.",
                "Write it as `worktrees.run` into config.json (docs/worktrees.md).",
            )
        name, before = worktree.name, self._apps.get(worktree.name)
        if before is not None and before.alive:
            if key and before.key == key:
                return before
            at = f" at {url}" if (url := self.url(before)) else ""
            raise Refusal(f"The app of {name} runs already{at}.", f"`/app @{name} stop` ends it.")
        self._setups.check_stays(name)
        ports = (await self._setups.record(worktree)).ports
        assert ports is not None
        busy = await asyncio.to_thread(lambda: [port for port in ports.ports() if listens(port)])
        if busy:
            # Another app may have come meanwhile, by another order.
            raise Refusal(
                f"Something else listens on port {busy[0]}, which is one of {name}'s.",
                "End it, or set another `worktrees.ports.first`.",
            )
        if (other := self._apps.get(name)) is not None and other.alive:
            raise Refusal(f"The app of {name} runs already.", f"`/app @{name} stop` ends it.")
        # Nothing is awaited between this look and the app that `leave` finds then.
        self._setups.check_stays(name)
        worktree = self._setups.find(name)
        app = App(name, by, key, ports, LiveOutput(lambda text: self._changed(name)))
        self._apps[name] = app
        app.task = asyncio.create_task(self._run(app, worktree), name=f"worktree-app-{name}")
        self._changed(name)
        return app

    async def stop(self, agent: str, by: str) -> App:
        """End an agent's app, and all that it started. Raises Refusal."""
        # Also where somebody has deleted the worktree meanwhile.
        app = self._apps.get(agent) or self._apps.get(agent.upper())
        if app is None or not app.alive:
            name = self._setups.find(agent).name
            raise Refusal(f"The app of {name} does not run.", f"`/app @{name} run` starts it.")
        await self._stop(app, by)
        return app

    async def leave(self, agent: str, by: str) -> None:
        """End an agent's app, if it runs, and forget one that ended with the room: its worktree is taken away."""
        worktree = self._setups.find(agent)
        app = self._apps.get(worktree.name)
        if app is not None and app.alive:
            await self._stop(app, by)
        await self._note(worktree, None)

    async def _stop(self, app: App, by: str) -> None:
        app.stopped_by = app.stopped_by or by
        self._set(app, "stopping")
        app.stop.set()
        assert app.task is not None
        await asyncio.wait([app.task])

    async def close(self) -> None:
        """End all of them. What ran is known after the next start."""
        self._closed = True
        for app in self.running():
            app.stopped_by = app.stopped_by or STEWARD
            app.stop.set()
        tasks = [app.task for app in self._apps.values() if app.task is not None and not app.task.done()]
        if tasks:
            await asyncio.wait(tasks)

    def _set(self, app: App, state: State) -> None:
        if app.state != state:
            app.state = state
            self._changed(app.agent)

    async def _run(self, app: App, worktree: TrackedWorktree) -> None:
        """From the start to the end."""
        try:
            if not await self._before(app, self._setups.settled(worktree)):
                return
            self._setups.check_stays(app.agent)
            env = await self._setups.env(worktree)
            await self._note(worktree, RunningApp(app.by, app.started_at))
            async with running(self._setups.current.run, env, worktree.checkout.top) as process:
                if not app.stop.is_set():
                    self._set(app, "running")
                await self._follow(app, process)
            ended = process.exit
            if ended is not None:
                app.code, app.reason = ended.code, str(ended)
        except (CannotRun, OSError, Refusal) as error:
            app.reason = f"could not be started: {error}".rstrip(".")
        finally:
            app.output.close()
            app.ports, app.ended_at = (), now_iso()
            if app.stopped_by:
                app.reason = f"{app.stopped_by} stopped it"
            if not (self._closed and app.stopped_by == STEWARD):
                await self._note(worktree, None)
            self._set(app, "stopped" if app.stopped_by else "exited")
        if not app.stopped_by:
            await self._say(app.agent, f"The app of {app.agent} {_ended(app)}.", "app")

    @staticmethod
    async def _note(worktree: TrackedWorktree, app: RunningApp | None) -> None:
        # It runs all the same where this cannot be written.
        with suppress(OSError):
            await asyncio.to_thread(records.put_app, worktree.checkout.git_dir, worktree.name, app)

    async def _before(self, app: App, wait: Any) -> bool:
        """Wait for the setup; False: it was stopped meanwhile."""
        waiting = asyncio.ensure_future(wait)
        stopped = asyncio.create_task(app.stop.wait())
        try:
            await asyncio.wait([waiting, stopped], return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                return False
            waiting.result()
            return not app.stop.is_set()
        finally:
            await _cancelled(waiting, stopped)

    async def _follow(self, app: App, process: ChildProcess) -> None:
        """Take in what it prints and look for its ports, until it ends or is to be ended."""
        reading = asyncio.create_task(self._read(app, process))
        looking = asyncio.create_task(self._look(app, process))
        stopped = asyncio.create_task(app.stop.wait())
        try:
            await asyncio.wait([reading, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancelled(reading, looking, stopped)

    async def _read(self, app: App, process: ChildProcess) -> None:
        async for _, data in process.output():
            app.output.add(data)

    async def _look(self, app: App, process: ChildProcess) -> None:
        said = False
        while True:
            if process.pid is not None:
                pid = process.pid
                found = await asyncio.to_thread(listening_ports, pid)
                # What a container of it publishes is another process's.
                found = found or await asyncio.to_thread(
                    lambda: [port for port in app.assigned.ports() if listens(port)]
                )
                if tuple(found) != app.ports:
                    app.ports = tuple(found)
                    if not app.stop.is_set():
                        self._set(app, "listening" if found else "running")
                        self._changed(app.agent)
                if found and not said:
                    said = True
                    await self._say(app.agent, f"The app of {app.agent} listens: {self.url(app)}", "")
            await asyncio.sleep(LOOK_AGAIN_S if app.ports else LOOK_S)


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task


def _ended(app: App) -> str:
    """How an app ended that nobody stopped, with the last line that it printed."""
    lines = [line for line in app.output.text.rstrip().splitlines() if line.strip()]
    return f"{app.reason or 'ended'}" + (f". Its last line: {code_span(lines[-1][:300])}" if lines else "")

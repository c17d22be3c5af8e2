"""The agents' worktrees as people work with them: what is set up and what runs there, and what they take of the disk.

Invariant: whatever a button or a command orders comes here, by `carry_out`; and what every interface shows of it is
`told`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import structlog

from relay.airspace.worktrees.registry import EDITORS, WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree
from relay.airspace.worktrees.view import looked_for
from relay.app.worktrees.apps import App, WorktreeApps
from relay.app.worktrees.commands import end_left
from relay.app.worktrees.record import WorktreeRecord
from relay.app.worktrees.setups import WorktreeSetups
from relay.app.worktrees.space import SOON_S, WorktreeSpace
from relay.base.durations import iso
from relay.base.terminal_text import fenced, safe
from relay.config.settings import LiveSettings
from relay.git.checkout import UnusableCheckout
from relay.log import events
from relay.model import Refusal
from relay.model.actions import Action, RunApp, SetUp, ShowApps, ShowOutput, StopApp
from relay.room.journal import ledger
from relay.room.journal.live_bus import Live
from relay.store.ports import Store, StoreError, Tx

log = structlog.get_logger(__name__)
#: The setting that says what was last said of a full disk.
_TOLD = "worktrees_full"
#: What people order here.
IN_WORKTREES = (RunApp, StopApp, SetUp, ShowOutput)
#: Lines of what was printed that the room shows.
MOST_LINES = 20


class WorktreeDesk:
    """Of one registry. `live`: who looks is shown what changes; None = nobody looks, and no app runs here."""

    def __init__(
        self, store: Store, settings: LiveSettings, registry: WorktreeRegistry, live: Live | None = None
    ) -> None:
        self._store, self._settings, self._registry, self._live = store, settings, registry, live
        self._wake, self._in_turn = asyncio.Event(), asyncio.Lock()
        #: Of which agents' worktrees a change is to be shown, and what shows them.
        self._pending: set[str] = set()
        self._publishing: set[asyncio.Task[None]] = set()
        self.setups = WorktreeSetups(settings, registry, self._say, self._changed, self._over)
        self.apps = WorktreeApps(settings, self.setups, self._say, self._changed)
        self.space = WorktreeSpace(settings, registry, self._busy)

    # -- what a running room does

    def end_left(self) -> None:
        """End what a killed daemon of this room left running in its worktrees. Blocks; before anything is run."""
        end_left(self._settings.current.runtime_dir)

    async def run(self) -> None:
        """Set up what is new and measure what it takes, for ever."""
        await self._registry.surveyed.wait()
        with suppress(OSError):
            await self.apps.tell_interrupted(list(self._registry.worktrees.values()))
        while True:
            self._wake.clear()
            await self.setups.set_up_all()
            if await self.space.measure():
                self._changed("")
            await self._tell_full()
            with suppress(TimeoutError):
                async with asyncio.timeout(SOON_S):
                    await self._wake.wait()

    def wake(self) -> None:
        """A worktree was made, or the configuration changed: look at once."""
        self._wake.set()

    async def before_turn(self, agent: str) -> str:
        """Wait until the agent's worktree is made and set up; what the agent is to be told of it."""
        await self.setups.is_back(agent)
        settings, now = self._registry.settings.agent(agent), self.setups.current
        edits = settings is not None and settings.kind in EDITORS
        if edits and (now.setup or now.copy) and self._registry.find(agent) is None:
            await self._registry.open()
        self.space.touch(agent)
        return await self.setups.ready(agent)

    @asynccontextmanager
    async def leaving(self, agent: str, by: str, done: str) -> AsyncIterator[Callable[[], Awaitable[bool]]]:
        """While a worktree is removed, or its work discarded (`WorktreeRoom.leaving`)."""
        name = self.setups.find(agent).name

        async def archive() -> bool:
            await self.apps.leave(name, by)
            return await self.setups.archive(name, done)

        try:
            with self.setups.left_alone(name):
                yield archive
        finally:
            # Also where it stays after all: what was archived or cut off is set up again.
            self._over(name)

    async def check_space(self, agent: str) -> None:
        """Raise UnusableCheckout where no worktree may be made for an agent; the room is told once."""
        try:
            await self.space.check(agent)
        except UnusableCheckout:
            self.wake()
            raise

    async def close(self) -> None:
        """End all that runs in the worktrees."""
        await self.apps.close()
        await self.setups.close()

    def _busy(self, agent: str) -> bool:
        app = self.apps.find(agent)
        return bool(self.setups.at_work(agent)) or (app is not None and app.alive)

    # -- what people order

    async def looked_for(self, agent: str) -> None:
        """Wait until it is known whether the agent has a worktree here. Raises Refusal."""
        await looked_for(self._registry, agent)

    async def carry_out(self, action: Action, *, by: str, source_key: str) -> str:
        """What reaches outside of the database (`relay.model.ports.Timeline`). Raises Refusal."""
        if isinstance(action, IN_WORKTREES):
            for agent in action.named():
                await self.looked_for(agent)
        try:
            match action:
                case RunApp(agent):
                    app = await self.apps.start(agent, by, source_key)
                    return f"{by} started the app of {app.agent}, with the ports {app.assigned}."
                case StopApp(agent):
                    app = await self.apps.stop(agent, by)
                    return f"{by} stopped the app of {app.agent}."
                case SetUp(agents):
                    return self._set_up(agents)
                case ShowOutput(agent):
                    return await self.printed(agent)
        except OSError as error:
            raise Refusal(f"It could not be done: {error}.", "") from error
        raise Refusal(f"The room does not know how to do {action!r}.")

    def _set_up(self, agents: Sequence[str]) -> str:
        """Raises Refusal: of none it could begin."""
        said, refused = list[str](), list[Refusal]()
        for agent in agents:
            try:
                said.append(self.setups.set_up(agent))
            except Refusal as refusal:
                refused.append(refusal)
        if not said:
            raise refused[0]
        return "\n".join([*said, *(f"{refusal.message} {refusal.fix}".strip() for refusal in refused)])

    # -- what is shown

    async def told(self, agent: str, *, output: bool = False) -> dict[str, Any]:
        """`{agent, ports, setup, app, busy, disk}` of an agent's worktree; `output`: with what was printed. Raises
        Refusal."""
        worktree = self.setups.find(agent)
        known, app = await asyncio.to_thread(lambda: (self.setups.known(worktree), self.apps.last(worktree)))
        return {"agent": worktree.name, **self._row(worktree, known, app, output=output)}

    async def printed(self, agent: str) -> str:
        """The newest of what the setup and the app of an agent's worktree printed, as markdown. Raises Refusal."""
        told, parts = await self.told(agent, output=True), list[str]()
        for name, part in (("setup", told["setup"]), ("app", told["app"])):
            if part is not None:
                lines = part["output"].rstrip().splitlines()[-MOST_LINES:]
                how = f": {part['reason']}" if part["reason"] else ""
                printed = f"printed:\n\n{fenced(safe(chr(10).join(lines)))}" if lines else "has no output."
                parts.append(f"The {name} of {told['agent']} ({part['state']}{how}) {printed}")
        return "\n\n".join(parts) or f"Nothing has run in the worktree of {told['agent']}."

    async def rows(self) -> dict[str, dict[str, Any]]:
        """The same for each agent, without what was printed."""
        worktrees = [
            each for name, each in self._registry.worktrees.items() if name not in self._registry.guests
        ]
        known = await asyncio.to_thread(
            lambda: [(each, self.setups.known(each), self.apps.last(each)) for each in worktrees]
        )
        return {each.name: self._row(each, record, app, output=False) for each, record, app in known}

    def trees(self) -> dict[str, str]:
        """By agent, the tree that stands in its worktree, empty where nothing of it is to land. Not in it: one that
        was empty at the last look and has been written to since, as by a turn that has just ended."""
        known = self._registry.worktrees.values()
        return {
            each.name: work.snapshot.tree if work.records else ""
            for each in known
            if (work := each.work) is not None
            and (work.records or each.snapshot is None or each.snapshot.tree == work.snapshot.tree)
        }

    def merging(self) -> dict[str, bool]:
        """By agent, whether a merge is under way in its worktree."""
        known = self._registry.worktrees.values()
        return {each.name: bool(each.work.snapshot.merging) for each in known if each.work}

    def conflicting(self, choices: int) -> frozenset[str]:
        """As of `MergeTrials.conflicting`."""
        return self._registry.merge_trials.conflicting(choices)

    def summary(self) -> dict[str, Any]:
        """`{commands, disk}` of all of them. `commands`: which are configured."""
        now = self.setups.current
        commands = {"setup": bool(now.setup or now.copy), "run": bool(now.run), "archive": bool(now.archive)}
        return {"commands": commands, "disk": self.space.as_json()}

    def _row(
        self, worktree: TrackedWorktree, known: WorktreeRecord, app: App | None, *, output: bool
    ) -> dict[str, Any]:
        setup, size = known.setup, self.space.size(worktree.name)
        shown_setup = None if setup is None else setup.as_json(output=output)
        if shown_setup is not None and output and (now := self.setups.output(worktree.name)) is not None:
            shown_setup["output"] = now
        return {
            "ports": None if known.ports is None else [known.ports.first, known.ports.last],
            "setup": shown_setup,
            "app": None if app is None else self.apps.as_json(app, output=output),
            "busy": self.setups.at_work(worktree.name),
            "disk": None if size is None else {"bytes": size.bytes, "whole": size.whole, "at": iso(size.at)},
        }

    # -- what is told

    def _changed(self, agent: str) -> None:
        if self._live is None:
            return
        if agent:
            self.space.touch(agent)
        if agent not in self._pending:
            self._pending.add(agent)
            task = asyncio.create_task(self._publish(agent))
            self._publishing.add(task)
            task.add_done_callback(self._publishing.discard)

    def _over(self, agent: str) -> None:
        self.space.forget(agent)
        self.wake()

    async def _publish(self, agent: str) -> None:
        assert self._live is not None
        # In the order of the changes, and of what waits the newest only.
        async with self._in_turn:
            self._pending.discard(agent)
            told: dict[str, Any] = {"agent": ""}
            if agent:
                with suppress(Refusal, OSError):
                    told = await self.told(agent, output=True)
            self._live.publish("worktree", told)

    async def _say(self, agent: str, text: str, failed: str) -> None:
        """`failed`: as of `Say`. Whatever becomes of the message: what it is about has happened."""
        meta = {"notice": "worktree_run", "agent": agent, **({"failed": failed} if failed else {})}
        try:
            await self._store.write(lambda tx: ledger.say(tx, text, meta=meta))
        except (StoreError, self._store.transient, self._store.errors, OSError) as error:
            log.warning("not said in the room", text=text, reason=str(error))

    async def _tell_full(self) -> None:
        """Tell the room once that the disk is full to the limit, and forget it when it is not."""
        member, full = self._settings.current.member, self.space.full
        told = f"{_TOLD}:{member}" if member else _TOLD

        async def work(tx: Tx) -> None:
            if (await events.setting(tx, told) or "") == ("full" if full else ""):
                return
            await events.put_setting(tx, told, "full" if full else "")
            if full:
                at = f" at {member}" if member else ""
                text = f"No new worktree is made{at}: {self.space.said()}."
                await ledger.say(tx, text, meta={"notice": "worktrees"})

        if (await self._store.read(lambda tx: events.setting(tx, told)) or "") != ("full" if full else ""):
            await self._store.write(work)


class ShownApps:
    """`/app` alone (`relay.model.ports.Orders`)."""

    def __init__(self, apps: WorktreeApps) -> None:
        self._apps = apps

    async def carry_out(self, tx: Any, action: ShowApps, *, by: str, cause: Sequence[str] = ()) -> str:
        """Which apps run here, as markdown."""
        lines = []
        for app in self._apps.running():
            url = self._apps.url(app)
            lines.append(
                f"- **{app.agent}**: {f'listens at {url}' if url else app.state} ({app.by} started it)"
            )
        return "\n".join(lines) if lines else "No app runs. `/app @AGENT run` starts one."

"""Makes agents' worktrees usable: each has ports of its own, is set up before its agent's first turn, and is archived
before it is taken away (docs/worktrees.md).

Invariants: one command at a time in a worktree, its app aside. A turn waits for a setup, and begins also when that
has failed; its agent is told then. A setup that a stopped daemon cut off is due again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree, WorktreeGone
from relay.airspace.worktrees.view import missing
from relay.app.worktrees import record as records
from relay.app.worktrees.commands import command_env, run_to_end
from relay.app.worktrees.copying import Copied, copy_files
from relay.app.worktrees.live_output import LiveOutput
from relay.app.worktrees.ports import PortRange, first_port, free_range
from relay.app.worktrees.record import MOST_OUTPUT, MOST_REASON, Setup, WorktreeRecord, last_lines
from relay.base.durations import now_iso
from relay.config.airspace import WorktreeSettings
from relay.config.command_line import command
from relay.config.settings import LiveSettings
from relay.git.run import GitError
from relay.model import Refusal
from relay.room.dispatch.permissions import code_span

log = structlog.get_logger(__name__)
#: Commands that a turn waits for, one after the other: an archive, then the setup that is due by it.
MOST_WAITS = 3
#: Says something in the room about an agent's worktree: the agent, the text, and what failed (`setup`), "" = nothing.
Say = Callable[[str, str, str], Awaitable[None]]


@dataclass(slots=True)
class _Work:
    """A setup or an archive that runs."""

    what: str
    task: asyncio.Task[Any]
    output: LiveOutput


class WorktreeSetups:
    """Of one registry. `say` tells the room; `changed` is told of each agent whose worktree stands differently,
    `over` of each in whose worktree a command has ended."""

    def __init__(
        self,
        settings: LiveSettings,
        registry: WorktreeRegistry,
        say: Say,
        changed: Callable[[str], None],
        over: Callable[[str], None],
    ) -> None:
        self._settings, self._registry, self._say = settings, registry, say
        self._changed, self._over = changed, over
        self._work: dict[str, _Work] = {}
        #: Worktrees that are being taken away, with what is set when that is over.
        self._leaving: dict[str, asyncio.Event] = {}
        self._assigning = asyncio.Lock()
        #: How the last setup of each worktree ended, as far as it was looked at.
        self._last: dict[str, Setup] = {}
        self._lent: list[PortRange] = []  # to programs that run outside of the worktrees

    @property
    def current(self) -> WorktreeSettings:
        """What is configured now."""
        return self._settings.current.worktrees

    def find(self, agent: str) -> TrackedWorktree:
        """Raises Refusal."""
        if (worktree := self._registry.find(agent)) is None:
            raise missing(self._registry, agent)
        return worktree

    def has(self, agent: str) -> bool:
        """Is there a worktree of the agent?"""
        return self._registry.find(agent) is not None

    def failed(self) -> dict[str, Setup]:
        """By agent, the setups that failed and are not run again now, of worktrees that are there."""
        there = {name: setup for name, setup in self._last.items() if self.has(name)}
        return {
            name: each for name, each in there.items() if each.state == "failed" and name not in self._work
        }

    # -- what is known of a worktree

    async def record(self, worktree: TrackedWorktree) -> WorktreeRecord:
        """What is kept of a worktree, with its ports, which it gets now when it has none. Raises OSError, and Refusal
        where no port is free."""
        known = await asyncio.to_thread(records.load, worktree.checkout.git_dir)
        if known.ports is not None and known.ports.fits(*self._wanted):
            return known
        async with self._assigning:
            return await asyncio.to_thread(self._assign, worktree)

    @property
    def _wanted(self) -> tuple[int, int]:
        """Where the ports of the worktrees begin, and how many each has."""
        ports = self.current.ports
        return first_port(ports, self._settings.current.folder), ports.per_worktree

    def _assign(self, worktree: TrackedWorktree) -> WorktreeRecord:
        own = worktree.checkout.git_dir
        known = records.load(own)
        if known.ports is not None and known.ports.fits(*self._wanted):
            return known
        records.save(own, known := replace(known, ports=self._free(own)))
        return known

    def _free(self, own: Path | None = None) -> PortRange:
        """Ports that nobody has, but for the worktree of that git folder. Raises Refusal. Blocks."""
        others = [other.checkout.git_dir for other in list(self._registry.worktrees.values())]
        theirs = [records.load(git_dir).ports for git_dir in others if git_dir != own]
        first, count = self._wanted
        ports = free_range(first, count, [*filter(None, theirs), *self._lent])
        if ports is None:
            message = f"No {count} ports in a row are free from {first} on."
            raise Refusal(message, "Set another `worktrees.ports.first`.")
        return ports

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[dict[str, str]]:
        """Ports that no worktree has, for a program that runs in none, as its variables. Raises OSError, Refusal."""
        async with self._assigning:
            ports = await asyncio.to_thread(self._free)
            self._lent.append(ports)
        try:
            yield ports.as_env()
        finally:
            self._lent.remove(ports)

    def known(self, worktree: TrackedWorktree) -> WorktreeRecord:
        """What is kept of a worktree as it stands: that a setup runs is what this process knows. Blocks."""
        found = records.load(worktree.checkout.git_dir)
        if self.at_work(worktree.name) == "setup":
            return replace(found, setup=replace(found.setup or Setup("running"), state="running", reason=""))
        if found.setup is not None and found.setup.state == "running" and worktree.name not in self._work:
            return replace(found, setup=replace(found.setup, state="due"))
        return found

    def output(self, agent: str) -> str | None:
        """What a setup or an archive of the agent's worktree has printed so far; None: neither runs."""
        work = self._work.get(agent)
        return None if work is None else work.output.text

    def at_work(self, agent: str) -> str:
        """`setup` or `archive` while that runs in the agent's worktree, else ""."""
        work = self._work.get(agent)
        return "" if work is None else work.what

    async def env(self, worktree: TrackedWorktree) -> dict[str, str]:
        """The environment of the configured commands in a worktree. Raises OSError, Refusal."""
        ports, settings = (await self.record(worktree)).ports, self._settings.current
        assert ports is not None
        main = self._registry.main
        return command_env(
            os.environ,
            self.current.env_pass,
            runtime=settings.runtime_dir,
            agent=worktree.name,
            worktree=worktree.checkout.top,
            repo=main.top if main is not None else settings.repo,
            ports=ports,
        )

    async def agent_env(self, agent: str) -> dict[str, str]:
        """The ports of an agent's worktree, for its own program; empty where it has none."""
        worktree = self._registry.find(agent)
        if worktree is None:
            return {}
        try:
            ports = (await self.record(worktree)).ports
        except (OSError, Refusal) as error:
            log.warning("a worktree has no ports", agent=agent, reason=str(error))
            return {}
        return {} if ports is None else ports.as_env()

    # -- setup

    async def ready(self, agent: str) -> str:
        """Wait until the agent's worktree is set up; what the agent is to be told of it, "" = nothing. A caller that
        is cancelled cuts off no setup."""
        worktree = self._registry.find(agent)
        if worktree is None or not worktree.own:
            return ""
        try:
            await self.settled(worktree)
            return await asyncio.to_thread(self._failure, worktree)
        except OSError as error:
            log.warning("a worktree is not set up", agent=agent, reason=str(error))
            return ""

    async def settled(self, worktree: TrackedWorktree) -> None:
        """Wait until no command runs there and no setup is due. Raises OSError."""
        for _ in range(MOST_WAITS):
            await self.set_up_if_due(worktree)
            if (work := self._work.get(worktree.name)) is None:
                return
            await asyncio.wait([work.task])

    def _failure(self, worktree: TrackedWorktree) -> str:
        """What the agent is told of a setup that failed, once."""
        git_dir = worktree.checkout.git_dir
        known = records.load(git_dir)
        setup = known.setup
        if setup is None or setup.told or not (setup.state == "failed" or setup.notes):
            return ""
        records.save(git_dir, replace(known, setup=replace(setup, told=True)))
        lines = ["Your worktree is new, and it is not as it should be."]
        if setup.state == "failed":
            lines.append(f"Its setup command failed: {setup.reason}. What it needs may be missing.")
            if setup.output.strip():
                lines += [
                    "The end of what it printed:",
                    "",
                    *(f"    {line}" for line in last_lines(setup.output, 10)),
                ]
        if setup.notes:
            lines += ["These files were not copied into it:", *(f"- {note}" for note in setup.notes)]
        return "\n".join(lines)

    async def set_up_if_due(self, worktree: TrackedWorktree) -> None:
        """Begin to set a worktree up that never was, or that is to be again. Raises OSError."""
        settings = self.current
        name = worktree.name
        if not worktree.own or name in self._work or name in self._leaving:
            return
        if not (settings.setup or settings.copy):
            return
        known = await asyncio.to_thread(self.known, worktree)
        # Meanwhile another may have begun, or taken the worktree away: nothing is awaited from here on.
        if name in self._work or name in self._leaving:
            return
        if known.setup is None or known.setup.state == "due":
            self._begin("setup", worktree, self._set_up)

    async def set_up_all(self) -> None:
        """Begin to set up all worktrees that are due, and give each its ports."""
        for worktree in list(self._registry.worktrees.values()):
            if worktree.name in self._registry.guests:
                continue
            try:
                if (setup := (await self.record(worktree)).setup) is not None and worktree.own:
                    self._last[worktree.name] = setup
                if worktree.name not in self._registry.turn_trees:
                    await self.set_up_if_due(worktree)
            except (OSError, Refusal) as error:
                log.warning("a worktree is not set up", agent=worktree.name, reason=str(error))

    def set_up(self, agent: str) -> str:
        """Set an agent's worktree up once more; what is said of it. Raises Refusal."""
        worktree = self.find(agent)
        if not worktree.own:
            raise Refusal(
                f"{worktree.checkout.top} is not a worktree that relay made.", "Set it up yourself."
            )
        if not (self.current.setup or self.current.copy):
            raise Refusal(
                "No setup is configured.",
                "Write it as `worktrees.setup` into config.json (docs/worktrees.md).",
            )
        if worktree.name in self._registry.turn_trees:
            raise Refusal(
                f"{worktree.name} is at work: its worktree is not set up during a turn.",
                f"Wait for its answer, or `/cancel @{worktree.name}`.",
            )
        self.check_stays(worktree.name)
        if not self.at_work(worktree.name):
            self._begin("setup", worktree, self._set_up)
        return f"The worktree of {worktree.name} is being set up. The page shows how it goes."

    def _begin(
        self,
        what: str,
        worktree: TrackedWorktree,
        run: Callable[[TrackedWorktree, LiveOutput], Awaitable[Any]],
    ) -> asyncio.Task[Any]:
        name = worktree.name
        output = LiveOutput(lambda text: self._changed(name))

        async def work() -> Any:
            try:
                return await run(worktree, output)
            finally:
                output.close()
                self._work.pop(name, None)
                self._over(name)
                self._changed(name)

        task = asyncio.create_task(work(), name=f"worktree-{what}-{name}")
        self._work[name] = _Work(what, task, output)
        self._changed(name)
        return task

    async def _set_up(self, worktree: TrackedWorktree, output: LiveOutput) -> None:
        settings, git_dir = self.current, worktree.checkout.git_dir
        setup = Setup("running", at=now_iso())
        try:
            known = await self.record(worktree)
            before = known.setup.copied if known.setup is not None else ()
            known = replace(known, setup=setup)
            await asyncio.to_thread(records.save, git_dir, known)
            copied = await self._copied(worktree, settings)
            files = tuple(dict.fromkeys([*before, *copied.files]))
            setup = replace(setup, state="done", copied=files, notes=copied.notes)
            if settings.setup:
                ended = await run_to_end(
                    settings.setup,
                    await self.env(worktree),
                    worktree.checkout.top,
                    timeout_s=settings.setup_timeout_s,
                    heard=output.add,
                )
                setup = replace(setup, seconds=round(ended.seconds, 1), output=output.text[-MOST_OUTPUT:])
                if ended.reason:
                    setup = replace(setup, state="failed", reason=ended.reason[:MOST_REASON])
            await asyncio.to_thread(records.save, git_dir, replace(known, setup=setup))
            self._last[worktree.name] = setup
        except (OSError, Refusal) as error:
            # Nothing could be kept of it: it is gone, or its disk is full.
            log.warning("a worktree is not set up", agent=worktree.name, reason=str(error))
            return
        worktree.mark_stale(None)
        self._registry.wake.set()
        if text := _said(worktree.name, setup):
            await self._say(worktree.name, text, "setup" if setup.state == "failed" else "")

    async def _copied(self, worktree: TrackedWorktree, settings: WorktreeSettings) -> Copied:
        main = self._registry.main
        if main is None or not settings.copy:
            return Copied()
        try:
            async with worktree.lock:
                await worktree.take_snapshot()  # git knows by it what is ignored there
                never = self._registry.settings.runtime_dir
                return await copy_files(
                    main, worktree.checkout, settings.copy, worktree.snapshotter.git, [never]
                )
        except (GitError, WorktreeGone, OSError) as error:
            return Copied((), (f"no file: {error}",))

    # -- archive

    @contextmanager
    def left_alone(self, agent: str) -> Iterator[None]:
        """Nothing is begun in an agent's worktree meanwhile: it is taken away. Raises Refusal: it is already."""
        self.check_stays(agent)
        back = self._leaving[agent] = asyncio.Event()
        try:
            yield
        finally:
            del self._leaving[agent]
            back.set()

    def check_stays(self, agent: str) -> None:
        """Raise Refusal while an agent's worktree is taken away."""
        if agent in self._leaving:
            raise Refusal(
                f"The worktree of {agent} is being removed or discarded.", "Wait for the end of that."
            )

    async def is_back(self, agent: str) -> None:
        """Wait while an agent's worktree is taken away."""
        if (back := self._leaving.get(agent)) is not None:
            await back.wait()

    async def archive(self, agent: str, done: str) -> bool:
        """Before an agent's worktree is removed or its work discarded (`done`): end its setup, and run `archive`;
        true = there is one. Raises Refusal where that fails, and then nothing is taken away."""
        worktree = self.find(agent)
        if not worktree.own:
            return False
        if (work := self._work.get(worktree.name)) is not None:
            work.task.cancel()
            await asyncio.wait([work.task])
        if not self.current.archive:
            return False
        reason, output = await self._begin("archive", worktree, self._archive)
        if reason:
            last = last_lines(output, 1)
            raise Refusal(
                f"`archive` failed in the worktree of {worktree.name}, so nothing is {done}: {reason}."
                + (f" Its last line: {code_span(last[0])}." if last else ""),
                "Mend it, or take `worktrees.archive` out of config.json, and try again.",
            )
        return True

    async def _archive(self, worktree: TrackedWorktree, output: LiveOutput) -> tuple[str, str]:
        settings, git_dir = self.current, worktree.checkout.git_dir
        try:
            known = await self.record(worktree)
            env = await self.env(worktree)
            ended = await run_to_end(
                settings.archive,
                env,
                worktree.checkout.top,
                timeout_s=settings.archive_timeout_s,
                heard=output.add,
            )
            # What it took down is set up again before anybody works there.
            if known.setup is not None and not ended.reason:
                due = replace(known, setup=replace(known.setup, state="due", told=False))
                await asyncio.to_thread(records.save, git_dir, due)
        except OSError as error:
            return str(error), ""
        return ended.reason, output.text

    async def close(self) -> None:
        """End what runs."""
        tasks = [work.task for work in self._work.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _said(agent: str, setup: Setup) -> str:
    """What the room is told of a setup that is not as it should be; "" = nothing."""
    parts = []
    if setup.state == "failed":
        last = last_lines(setup.output, 1)
        again = command(f"worktrees setup {agent}")
        parts.append(f"The setup of {agent}'s worktree failed: {setup.reason}.")
        parts += [f"Its last line: {code_span(last[0])}."] if last else []
        parts.append(
            f"{agent} works there all the same, and is told. `/setup @{agent}` or {again} runs it again."
        )
    if setup.notes:
        parts.append(f"Not copied into the worktree of {agent}: {'; '.join(setup.notes[:5])}.")
    return " ".join(parts)

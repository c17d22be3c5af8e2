"""The run of the swarm with relay: a room whose board has the items, agents that take turns, two people.

Invariants:
- each agent gets its next turn when its branch has landed, and only then;
- the run is over when no item is open, and fails when nothing has happened for `STUCK_S`.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp

from relay.app.demo.narrator import Narrator, beside, until_interrupted
from relay.app.demo.stage import LOOK_S, DemoError, Json, Stage, open_stage
from relay.app.demo.swarm import machines
from relay.app.demo.swarm.database import database
from relay.app.demo.swarm.found import look
from relay.app.demo.swarm.outcome import Plan, Ran
from relay.app.demo.swarm.processes import running
from relay.app.demo.swarm.progress import Progress
from relay.app.demo.swarm.turn import NO_WORKTREE
from relay.store.postgres.address import VARIABLE

#: Seconds without anything landed after which the run has failed.
STUCK_S = 180.0
#: Seconds that landings are gathered before those agents are told to go on.
_GATHER_S = 0.15


async def play(
    folder: Path, plan: Plan, port: int, progress: Progress, narrator: Narrator, *, stay: bool
) -> Ran:
    """Raises DemoError."""
    try:
        paths = await asyncio.to_thread(machines.build, folder, plan, port)
    except OSError as error:
        raise DemoError(f"{folder} cannot be made: {error.strerror}") from None
    async with AsyncExitStack() as stack:
        environ = {}
        if plan.machines > 1:
            environ[VARIABLE] = await stack.enter_async_context(database())
        stages = [await stack.enter_async_context(open_stage(path, **environ)) for path in paths]
        await narrator.link(stages[0])
        swarm = Swarm(stages, plan)
        await swarm.submit()
        seconds = await _run(swarm, folder, progress)
        await machines.all_follow(folder, plan)
        ran = await _counted(swarm, folder, seconds)
        if stay:
            narrator.scene("The room stays open: look at its board and its page Landing. Ctrl-C goes on.")
            await until_interrupted()
    return ran


async def _run(swarm: Swarm, folder: Path, progress: Progress) -> float:
    """Until no item is open; gives the seconds of it."""
    stage, pace = swarm.stage, str(swarm.plan.pace_s)
    words = {}
    for name in swarm.plan.people:
        number, place, main = machines.person(folder, swarm.plan, name)
        at = ("--name", name, "--url", swarm.stages[number].url, "--pace", pace, *main)
        words[name] = ("person", place, at)
    token = stage.settings.token_path.read_text().strip()
    began = time.monotonic()
    with progress:
        async with (
            beside(swarm.kept(swarm.follow())),
            beside(swarm.kept(swarm.drive())),
            running(words, folder, RELAY_SWARM_TOKEN=token) as programs,
        ):
            await swarm.start()
            while swarm.open:
                progress.show(len(swarm.plan.items) - len(swarm.open), swarm.doing())
                if failed := programs.failed() or swarm.trouble():
                    raise DemoError(failed)
                await asyncio.sleep(LOOK_S)
            seconds = time.monotonic() - began
            await programs.wait()
    if failed := programs.failed():
        raise DemoError(failed)
    return seconds


class Swarm:
    """The room as the one who runs the demo sees it. `stages`: the machines; the first one has the repository."""

    def __init__(self, stages: Sequence[Stage], plan: Plan) -> None:
        self.stages, self.plan = stages, plan
        #: Who speaks next.
        self._speaks = itertools.cycle(plan.people)
        self.stage = stages[0]
        #: The tasks that are not over, by number, and what the board says of each.
        self.open: dict[int, Json] = {}
        #: The entries of the landing queue, by number, as they were told last; and those that are over.
        self.queue: dict[int, Json] = {}
        self.over: dict[int, Json] = {}
        #: What the queue has tested.
        self.batches: set[int] = set()
        #: Seconds that agents took to answer advisories, and the messages that these were.
        self.told_s = 0.0
        self._told: set[str] = set()
        self._go_on: list[str] = []
        #: The branches that did not go with others of their batch, each an entry and its commit.
        self.crossed: set[tuple[int, str]] = set()
        #: How often the room could give a turn no worktree.
        self.without_worktree = 0
        self._wake = asyncio.Event()
        self._happened = time.monotonic()
        self._dead = ""

    async def submit(self) -> None:
        """Put each item on the board."""
        for item in self.plan.items:
            asked = {
                "task_type": "item",
                "task_description": item.title,
                "input_data": item.as_json(),
                "files": list(item.files),
                "name": self.plan.people[0],
            }
            made = await self.stage.post("/work/submit", asked)
            self.open[made["number"]] = {"status": "pending"}

    async def start(self) -> None:
        self._happened = time.monotonic()
        items = f"there are {len(self.plan.items)} items on the board"
        await self._ask(self.plan.agents, f"{items}: take one after the other")

    async def _ask(self, agents: Sequence[str], text: str) -> None:
        body = f"{' '.join(f'@{name}' for name in agents)} {text}"
        await self.stage.post("/api/messages", {"body": body, "name": next(self._speaks)})

    async def kept(self, going: Coroutine[Any, Any, None]) -> None:
        """Let this go on, and the run end where it does not."""
        try:
            await going
            self._dead = "the room has closed its WebSocket"
        except (DemoError, aiohttp.ClientError, TimeoutError) as error:
            self._dead = f"the room cannot be asked any more: {error}"

    async def drive(self) -> None:
        """Give each agent its next turn, for ever."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(_GATHER_S)
            self._wake.clear()
            agents, self._go_on = self._go_on, []
            await self._ask(agents, "your branch has left the queue, go on")

    async def follow(self) -> None:
        """Keep what the room tells, for ever."""
        async for frame in self.stage.frames():
            data = frame["data"]
            match frame["type"]:
                case "task":
                    for task in data["changed"]:
                        self._task(task)
                case "landing":
                    self._landing(data)
                    if data["change"] == "held":
                        await self._held()
                case "entry" if data["speaker"] in self.plan.agents and NO_WORKTREE in data["body"]:
                    self.without_worktree += 1
                    self._next(data["speaker"])
                case "entry" if data["kind"] == "advisory":
                    self._told.add(data["id"])
                case "verification" if data["change"] == "ended":
                    self.batches.add(data["number"])
                case "receipt":
                    self._receipt(data)

    async def _held(self) -> None:
        """Branches that wait since they conflict with others that are tested: conflicts too."""
        for entry in (await self.stage.get("/api/landing"))["queue"]:
            if entry["note"].startswith("it conflicts with"):
                self.crossed.add((entry["number"], entry["at_commit"]))

    def _receipt(self, job: Json) -> None:
        if job["state"] == "dead":
            self._dead = f"{job['agent']}'s turn failed: {job['reason']}"
        if job["state"] == "done" and job["message_id"] in self._told:
            began, ended = (datetime.fromisoformat(job[key]) for key in ("started_at", "ended_at"))
            self.told_s += (ended - began).total_seconds()

    def _task(self, task: Json) -> None:
        if task["number"] not in self.open:
            return
        if task["status"] == "done":
            self.open.pop(task["number"])
            self._happened = time.monotonic()
        else:
            self.open[task["number"]] = task

    def _landing(self, told: Json) -> None:
        number = told["number"]
        self.queue[number] = told
        if told["change"] in ("landed", "put_out", "cancelled"):
            self.over[number] = self.queue.pop(number)
            self._happened = time.monotonic()
        # One that is put out is told by the room itself.
        if told["change"] in ("landed", "cancelled") and told["agent"] in self.plan.agents:
            self._next(told["agent"])

    def _next(self, agent: str) -> None:
        """This agent gets a turn."""
        self._go_on.append(agent)
        self._wake.set()

    def doing(self) -> str:
        at_work = sum(task["status"] == "in_progress" for task in self.open.values())
        put_out = sum(told["change"] == "put_out" for told in self.over.values())
        sent_back = f", {put_out} sent back" * bool(put_out)
        return f"{at_work} in hand, {len(self.queue)} of them in the landing queue{sent_back}"

    def trouble(self) -> str:
        """Why the run cannot go on; empty: it can."""
        if self._dead:
            return self._dead
        if time.monotonic() - self._happened > STUCK_S:
            log = self.stage.settings.log_file
            return f"nothing has landed for {STUCK_S:g} s; {len(self.open)} items are open; {log} has the details"
        return ""


async def _counted(swarm: Swarm, folder: Path, seconds: float) -> Ran:
    """What the run came to: git's word on the merges, and the board's on the seconds."""
    found = await look(folder, swarm.plan.items)
    told = [task["result"] async for task in _completed(swarm.stage)]
    metrics = {each["name"]: each for each in (await swarm.stage.get("/api/metrics"))["metrics"]}
    # What conflicted has not landed, so main does not have it: the log does.
    refused = int(metrics["lock_conflicts"]["value"] or 0) + len(swarm.crossed)
    found.conflicts += refused
    said = (await swarm.stage.get("/api/airspace/advisories?limit=500"))["advisories"]
    return Ran(
        True,
        seconds,
        found,
        tried=found.merges + refused,
        worked_s=sum(result["worked_s"] for result in told),
        lock_s=sum(result["waited_s"] for result in told),
        landing_s=sum(result["landing_s"] for result in told),
        told_s=swarm.told_s,
        again=sum(result["again"] for result in told),
        advisories=len(said),
        put_out=sum(each["change"] == "put_out" for each in swarm.over.values()),
        batches=len(swarm.batches),
        without_worktree=swarm.without_worktree,
    )


async def _completed(stage: Stage) -> AsyncIterator[Json]:
    """The tasks that are done."""
    after = ""
    while True:
        page = await stage.get(f"/work?status=completed&limit=100{after}")
        for task in page["tasks"]:
            yield task
        if not page["next"]:
            return
        after = f"&cursor={page['next']}"

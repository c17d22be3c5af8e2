"""A variant's turn within its budget, with real processes that would go on for ever."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.agents.factory import AgentSpec, CommandAgent
from relay.app.merge.exploration.variant_turn import Progress, run_within
from relay.merge.exploration.config import Budget
from relay.merge.exploration.usage import Usage
from relay.model import Availability, EndPart, Part, SessionPart, TextPart, ToolPart, Turn, UsagePart
from tests.app.merge.exploration_room import living

_TELL = "import os, sys, time, signal; f = open('pids', 'a'); f.write(f'{os.getpid()}\\n'); f.close()\n"
SLEEPING = _TELL + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)"
CPU_BOUND = _TELL + "while True: pass"
#: Each child leaves the process group, ignores SIGTERM, and keeps the pipe open.
FORKING = (
    _TELL
    + """
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            f = open('pids', 'a'); f.write(f'{os.getpid()}\\n'); f.close()
            while True: time.sleep(60)
        f = open('pids', 'a'); f.write(f'{os.getpid()}\\n'); f.close()
        while True: time.sleep(60)
while True: time.sleep(60)
"""
)


async def noted(_: Progress) -> None:
    """Nobody watches."""


async def within(agent: CommandAgent | Told, budget: Budget, cwd: Path) -> tuple[str | None, Progress]:
    progress = Progress(Usage())
    turn = Turn("BOT", "go", cwd=cwd, may_edit=True)
    return await run_within(agent, turn, budget, progress, noted, poll_s=0.05), progress


@pytest.mark.parametrize("program", [SLEEPING, CPU_BOUND, FORKING], ids=["sleeping", "cpu-bound", "forking"])
async def test_variant_killed(program: str, tmp_path: Path) -> None:
    """A variant that does not end is ended with all that it started: no orphan."""
    agent = CommandAgent(AgentSpec("BOT", cmd=(sys.executable, "-c", program), cwd=tmp_path))
    count = 7 if program is FORKING else 1

    async def started() -> None:
        pids = tmp_path / "pids"
        while not pids.exists() or len(pids.read_text().split()) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    progress = Progress(Usage())
    turn = Turn("BOT", "go", cwd=tmp_path, may_edit=True)
    limit = Budget(3600.0)
    running = asyncio.create_task(run_within(agent, turn, limit, progress, noted, poll_s=0.05))
    async with asyncio.timeout(60):
        await started()
    # Its time is over now: as if it had run for an hour.
    progress.began -= 3600.0
    assert await running == "max_duration_seconds"
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == count
    assert living(pids) == []


async def test_a_turn_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    agent = CommandAgent(AgentSpec("BOT", cmd=(sys.executable, "-c", SLEEPING), cwd=tmp_path))
    running = asyncio.create_task(within(agent, Budget(), tmp_path))
    async with asyncio.timeout(60):
        while not (tmp_path / "pids").exists() or not (tmp_path / "pids").read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert living([int(pid) for pid in (tmp_path / "pids").read_text().split()]) == []


class Told:
    """An agent that gives these parts, and then waits for ever unless it has ended."""

    name, kind = "BOT", "told"

    def __init__(self, *parts: Part) -> None:
        self.parts, self.closed = parts, False

    async def probe(self) -> Availability:
        return Availability(True)

    async def run(self, turn: Turn) -> AsyncIterator[Part]:
        try:
            for part in self.parts:
                yield part
            if not isinstance(self.parts[-1], EndPart):
                await asyncio.Event().wait()
        finally:
            self.closed = True


@pytest.mark.parametrize(
    ("budget", "parts", "which"),
    [
        (Budget(max_tokens=100), [UsagePart(60, 41)], "max_tokens"),
        (Budget(max_cost_usd=2.0), [UsagePart(5, 5, 2.01)], "max_cost_usd"),
        (Budget(max_tool_calls=2), [ToolPart("read")] * 3, "max_tool_calls"),
        (Budget(max_tokens=100), [UsagePart(500, 0), EndPart()], "max_tokens"),
        (Budget(max_tokens=100), [UsagePart(50, cache_read_tokens=900), EndPart()], None),
        (Budget(max_tool_calls=2), [*[ToolPart("read")] * 2, ToolPart(""), EndPart()], None),
        (Budget(max_cost_usd=0.5), [UsagePart(5, 5, 0.0), EndPart()], None),
    ],
)
async def test_a_limit_that_the_agent_reports_ends_it(
    budget: Budget, parts: list[Part], which: str | None, tmp_path: Path
) -> None:
    agent = Told(*parts)
    assert (await within(agent, budget, tmp_path))[0] == which
    assert agent.closed


async def test_what_an_agent_does_not_tell_is_unknown_and_not_0(tmp_path: Path) -> None:
    silent = Told(TextPart("done"), EndPart())
    _, progress = await within(silent, Budget(), tmp_path)
    assert (progress.usage.tokens, progress.usage.cost_usd) == (None, None)
    priceless = Told(UsagePart(5, 5, 0.0), EndPart())
    _, progress = await within(priceless, Budget(), tmp_path)
    assert (progress.usage.tokens, progress.usage.cost_usd) == (10, None)
    free = Progress(Usage(), free=True)
    free.take(UsagePart(5, 5, 0.0))
    assert free.usage.cost_usd == 0.0


async def test_an_attempt_adds_to_the_ones_before(tmp_path: Path) -> None:
    progress = Progress(Usage(100.0, 1000, 4, 1.5))
    for part in (SessionPart("c1"), ToolPart("write"), UsagePart(10, 10, 0.25), UsagePart(20, 10, 0.5)):
        progress.take(part)
    usage = progress.usage
    assert (usage.tokens, usage.tool_calls, usage.cost_usd) == (1030, 5, 2.0)
    assert usage.seconds >= 100.0
    assert progress.conversation == "c1"

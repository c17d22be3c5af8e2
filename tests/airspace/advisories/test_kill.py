"""A daemon that is killed in the middle of a tick says nothing twice and loses nothing."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from pathlib import Path

import pytest

from relay.airspace.advisories import table
from relay.airspace.readings import Level
from relay.model import Kind
from relay.room.journal.values import JobState
from tests.airspace.parts import FILE, AirspaceRoom, near, open_airspace_store, work
from tests.engines import Clock, check_log
from tests.room.parts import all_jobs, all_messages

#: The risk of one pair from phase to phase, and what the room hears at its beginning.
PHASES = [(0.9, Level.RESOLUTION), (0.0, Level.CLEAR), (0.5, Level.TRAFFIC), (0.9, Level.RESOLUTION)]
KILLS = 3
ROOT = Path(__file__).parents[3]


async def tick(folder: Path, phase: int) -> None:
    """What the process does: take what is there, and look once."""
    store = await open_airspace_store(folder)
    airspace = AirspaceRoom(store, Clock(2_000_000_000.0 + 1000.0 * phase))
    airspace.sets = {"CLAUDE": work("CLAUDE", FILE, committed=1.0), "CODEX": work("CODEX", FILE)}
    risk, _ = PHASES[phase]
    if risk:
        airspace.seen[("CLAUDE", "CODEX")] = near(risk)
    await airspace.protocol.load()
    print("ready", flush=True)
    await airspace.protocol.observe(airspace.observation())
    print("done", flush=True)
    await store.close()


async def run(folder: Path, phase: int, kill_after_s: float | None) -> bool:
    """Did it come to the end of the tick?"""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.airspace.advisories.test_kill", json.dumps([str(folder), phase])),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    if kill_after_s is not None:
        await asyncio.sleep(kill_after_s)
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
    rest = await process.stdout.read()
    await process.wait()
    return rest.endswith(b"done\n")


@pytest.mark.faults
async def test_killed_in_the_middle_of_ticks(tmp_path: Path) -> None:
    chance = random.Random(7)
    ended = 0
    for phase in range(len(PHASES)):
        for _ in range(KILLS):
            ended += await run(tmp_path, phase, chance.uniform(0.0, 0.04))
        assert await run(tmp_path, phase, None)
    store = await open_airspace_store(tmp_path)
    try:
        said = [one for one in await all_messages(store) if one.kind is Kind.ADVISORY]
        assert [one.meta["level"] for one in said] == [heard.word for _, heard in PHASES]
        found = await store.read(lambda tx: table.latest(tx, 10))
        assert [one.open for one in found] == [True, False]
        jobs = [(job.agent, job.state) for job in await all_jobs(store)]
        assert len(jobs) == 6 and jobs[4:] == [(n, JobState.PENDING) for n in ("CLAUDE", "CODEX")]
        assert {state for _, state in jobs[:4]} == {JobState.SKIPPED}
        await check_log(store)
    finally:
        await store.close()
    print(f"{ended} of {KILLS * len(PHASES)} ticks ended before the kill")


if __name__ == "__main__":
    told_folder, told_phase = json.loads(sys.argv[1])
    asyncio.run(tick(Path(told_folder), told_phase))

"""Faults of a fleet, short and with a fixed seed; `scripts/faults fleet` does them at length."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from tests import postgres
from tests.faults.fleet import cage
from tests.faults.fleet.members import faketime
from tests.outside import REPO

pytestmark = pytest.mark.faults

#: A fault outlasts what the server waits for a transaction that says nothing (8 s), and the lease behind it.
SPAN_S, LEASE_S, PAUSE_S = 14, 6, 0.5


async def faults(tmp_path: Path, *more: str) -> tuple[int, str]:
    """Run them in a cage; exit code and what was said."""
    if why := cage.missing():
        pytest.skip(why)
    if postgres.binaries() is None:
        postgres.server()  # says what is missing
    words = ("--span", f"{SPAN_S}", "--lease", f"{LEASE_S}", "--pause", f"{PAUSE_S}", "--keep", str(tmp_path))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.fleet", *words, *more),
        cwd=REPO,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        said = (await process.stdout.read()).decode()
        return await process.wait(), said
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


#: Of each kind some, and the shortest first: the suite has no time for all twenty.
FAULTS = (
    "kill_leader,fail_over,crash_server,kill_and_restart",
    "freeze_writing,fill,cut_both,cut_in,freeze_leader",
)


@pytest.mark.parametrize("which", FAULTS)
async def test_nothing_is_lost_or_doubled_whatever_happens_to_a_fleet(tmp_path: Path, which: str) -> None:
    code, said = await faults(tmp_path, "--seed", "1", "--faults", which)
    assert code == 0, said
    assert "1 of 1 held" in said


async def test_each_fault_does_what_it_says() -> None:
    if why := cage.missing():
        pytest.skip(why)
    process = await asyncio.create_subprocess_exec(
        *(*cage.words(), sys.executable, "-m", "tests.faults.fleet.trial"),
        cwd=REPO,
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate()
    found = json.loads(told)
    assert found["out"] == {"out": True, "in": False}
    assert found["in"] == {"out": False, "in": True}
    assert found["both"] == {"out": True, "in": True}
    assert found["pulled"]["in"]  # what a machine sends without a cable may wait there, as with a real one
    assert found["full"]
    assert not found["empty"]
    assert found["ended"] == -signal.SIGKILL
    if faketime() is not None:
        assert found["clock"] == {"0": 0.0, "3600": 1.0, "-3600": -1.0}


async def test_what_a_run_started_ends_with_it(tmp_path: Path) -> None:
    """Also when it is killed: the kernel ends all that is in the cage."""
    if why := cage.missing():
        pytest.skip(why)
    command = [
        *cage.words(),
        "sh",
        "-c",
        f"mount -t tmpfs none {cage.FLOOR}; sleep 300 & echo $!; echo there; wait",
    ]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    while (await process.stdout.readline()).strip() != b"there":
        pass
    namespaces = {Path(f"/proc/{pid}/ns/pid").readlink() for pid in _children(process.pid)}
    process.kill()
    await process.wait()
    assert await process.stdout.read() == b""  # whoever held its other end has ended
    mine = Path("/proc/self/ns/pid").readlink()
    assert namespaces
    assert mine not in namespaces
    assert str(cage.FLOOR) not in [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

"""Threads and processes at one database: never two holders, never a nameless one, nothing acknowledged lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.coordination.locks.service import Locks
from relay.coordination.sessions import Heartbeat
from relay.model import Caller
from tests import engines
from tests.coordination.conftest import SCHEMAS
from tests.engines import BOTH, all_events

pytestmark = BOTH

#: One client: takes and frees what it is told to, and writes down what it saw.
CLIENT = """
import asyncio, json, sys
from pathlib import Path
from relay.coordination.locks.service import Locks
from relay.coordination.sessions import Heartbeat
from relay.config.coordination import CoordinationSettings
from relay.model import Caller
from tests.coordination.conftest import SCHEMAS
from tests.engines import join

async def main(folder, address, name, rounds, path, hold):
    store = await join(address, SCHEMAS)
    locks = Locks(store, Heartbeat(CoordinationSettings(process_lease_s=2)))
    me = Caller(name, name, process=True)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    got = blocked = 0
    mark = folder / "inside"
    for _ in range(rounds):
        answer = await locks.acquire(me, [path])
        if answer["success"]:
            # Made by who is inside alone: a second one fails here.
            mark.touch(exist_ok=False)
            got += 1
            if hold:
                print(json.dumps(answer), flush=True)
                await asyncio.sleep(60)
            mark.unlink()
            assert (await locks.release(me, path, fencing_token=answer["fencing_token"]))["released"]
        else:
            assert answer["locked_by"] and answer["locked_by_session"] and answer["expires_at"], answer
            blocked += 1
    print(json.dumps({"got": got, "blocked": blocked}), flush=True)
    await store.close()

folder, address, name, rounds, path, hold = sys.argv[1:]
asyncio.run(main(Path(folder), address, name, int(rounds), path, hold == "hold"))
"""
HERE = Path(__file__).parents[3]


async def client(
    folder: Path, name: str, rounds: int, path: str, hold: str = ""
) -> asyncio.subprocess.Process:
    address = engines.address_of(folder)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CLIENT, str(folder), address, name, str(rounds), path, hold),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(HERE)},
    )


async def line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()


def go(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.write(b"go\n")


async def test_processes_at_one_path(tmp_path: Path) -> None:
    clients = [await client(tmp_path, f"c{number}", 60, "src/app.py") for number in range(3)]
    try:
        assert [await line(one) for one in clients] == ["ready"] * 3
        for one in clients:
            go(one)
        told = [json.loads(await line(one)) for one in clients]
        assert [await asyncio.wait_for(one.wait(), 60) for one in clients] == [0, 0, 0]
    finally:
        for one in clients:
            if one.returncode is None:
                one.kill()
                await one.wait()
    assert all(one["got"] + one["blocked"] == 60 for one in told)
    assert sum(one["got"] for one in told) > 0
    store = await engines.open_store(tmp_path, SCHEMAS)
    types = ["lock.acquired", "lock.released", "lock.refreshed", "lock.forced"]
    logged = await all_events(store, *types)
    left = await Locks(store, Heartbeat()).check(Caller("ann", "s1"))
    await store.close()
    # In the order of the log: taken, freed, taken, freed.
    assert [event.type for event in logged] == ["lock.acquired", "lock.released"] * sum(
        one["got"] for one in told
    )
    assert left == []


async def test_stores_of_one_process_on_their_own_threads(tmp_path: Path) -> None:
    stores = [await engines.open_store(tmp_path, SCHEMAS) for _ in range(8)]
    inside: list[str] = []

    async def work(number: int) -> int:
        locks, me, got = Locks(stores[number], Heartbeat()), Caller(f"t{number}", f"t{number}"), 0
        for turn in range(15):
            path = ("src/a.py", "src/*.py", "src")[(number + turn) % 3]
            answer: Any = await locks.acquire(me, [path])
            if answer["success"]:
                inside.append(me.agent)
                await asyncio.sleep(0)
                assert inside == [me.agent]
                inside.remove(me.agent)
                await locks.release(me, path)
                got += 1
            else:
                assert answer["locked_by"] and answer["expires_at"]
        return got

    got = await asyncio.gather(*(work(number) for number in range(8)))
    for store in stores:
        await store.close()
    assert sum(got) > 0


@pytest.mark.faults
async def test_a_holder_that_is_killed_is_followed_by_who_waits(tmp_path: Path) -> None:
    holder = await client(tmp_path, "dot", 1, "src/app.py", "hold")
    try:
        assert await line(holder) == "ready"
        go(holder)
        held = json.loads(await line(holder))
    finally:
        holder.send_signal(signal.SIGKILL)
        await holder.wait()
    store = await engines.open_store(tmp_path, SCHEMAS)
    locks, bob = Locks(store, Heartbeat()), Caller("bob", "s1")
    try:
        first = await locks.acquire(bob, ["src/**"])
        assert (first["locked_by"], first["held"]["fencing_token"]) == ("dot", held["fencing_token"]), (
            "what was acknowledged is there"
        )
        # Its lock lasts half an hour, its session two seconds.
        got = await asyncio.wait_for(locks.acquire(bob, ["src/**"], wait_s=30), 60)
        assert got["success"] and got["fencing_token"] > held["fencing_token"]
    finally:
        await store.close()

"""The critical operations as functions of PostgreSQL: they say what the general way says, and keep apart."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.coordination.critical.stored_functions import Q
from relay.coordination.tasks.projection import strays
from relay.log import events
from relay.log.encoding import dumps
from relay.model import Caller, Refusal
from relay.store.ports import Queries
from relay.store.postgres.transaction import drive
from tests import engines
from tests.coordination.conftest import SCHEMAS
from tests.coordination.desk import A, B, Desk, at, over
from tests.engines import BOTH, all_events, check_log

pytestmark = [BOTH, pytest.mark.parametrize("engine", ["postgres"], indirect=True)]
HERE = Path(__file__).parents[2]
SAYS = Queries(Path(__file__).parent)


async def story(desk: Desk) -> list[Any]:
    """A bit of everything that has a short way; what was answered."""
    told: list[Any] = []

    async def ask(doing: Any) -> Any:
        try:
            told.append(await doing)
        except Refusal as no:
            told.append(no.as_json())
        return told[-1]

    data = {"b": [1, 2.5, None, True, {'ü\n"\\': "\u2028😀"}], "a": {}, "": "/", "Z": -1e-07}
    for number in range(4):
        await desk.submit(f"Task {number}", input_data=data if number == 1 else number or None)
        desk.clock.now += 0.25
    await desk.locks.check(A)
    for path in ('src/ä "b".py', "src", 'src/ä "b".py', "api:GET /x", "./c/", 'src/ä "b".py'):
        await ask(desk.locks.acquire(A, [path], reason="why \\ not", ttl_s=61.5))
        await ask(desk.locks.acquire(B, [path], mode="shared"))
        desk.clock.now += 1.000123
    await ask(desk.locks.acquire(B, ["doc"], mode="shared"))
    await ask(desk.locks.acquire(A, ["doc/x.md"], mode="shared"))
    await ask(desk.locks.acquire(A, ["doc/x.md"]))
    await ask(desk.locks.acquire(B, ["lib/**"]))
    await ask(desk.locks.acquire(A, ["lib/a.py"]))
    await ask(desk.locks.acquire(A, ["library"]))
    for who, path in ((A, "src"), (A, "doc/x.md"), (B, "src"), (A, "doc/x.md"), (B, "none")):
        await ask(desk.locks.release(who, path))
    for who, types, done in (
        (A, None, {"b": 1, "a": [0.5]}),
        (B, ["fix"], None),
        (B, ["nix"], None),
        (A, None, "ü"),
    ):
        got = await ask(desk.work.get(who, types, lease_s=90.0))
        desk.clock.now += 6
        if got["task_id"]:
            how = {
                "result": done,
                "error_message": None if done else "no\0".strip("\0"),
                "fencing_token": None,
            }
            await ask(desk.work.complete(who, got["task_id"], bool(done), **how))
            await ask(desk.work.complete(who, got["task_id"], bool(done), **how))
    for _ in range(3):
        await ask(desk.work.get(A))
    return told


async def test_what_is_answered_and_recorded_is_what_the_general_way_says(tmp_path: Path) -> None:
    seen = []
    for general in (False, True):
        folder = tmp_path / str(general)
        folder.mkdir()
        desk = await at(folder)
        used = count_functions(desk)
        if general:
            desk.locks._functions = desk.work._functions = None
        answers = await story(desk)
        found = await all_events(desk.store)
        ids = {task: f"task {number}" for number, task in enumerate(task_ids(found))}
        seen.append(
            [plain([answers, [(one.type, one.lane_key, one.clock, one.outputs) for one in found]], ids)]
        )
        stored = await desk.store.read(lambda tx: tx.all(events.Q.events_after, after=0, limit=1000))
        # The stored bytes are the canonical form, whoever wrote them: no blank, keys in order, floats as Python's.
        assert all(row["outputs"] == dumps(json.loads(row["outputs"])) for row in stored)
        await check_log(desk.store)
        assert await desk.store.read(strays) == []
        if not general:
            assert used["acquired"] >= 6 and used["refreshed"] >= 2 and used["blocked"] >= 3, used
            assert (
                used["released"] >= 2 and used["claimed"] >= 3 and used["done"] >= 2 and used["none"] >= 1
            ), used
        await desk.store.close()
    assert seen[0] == seen[1]


def count_functions(desk: Desk) -> dict[str, int]:
    """How often a function answered what."""
    used: dict[str, int] = {}
    for short in (desk.locks._functions, desk.work._functions):
        asked = short.ask  # type: ignore[union-attr]

        async def counted(*one: Any, _asked: Any = asked, **more: Any) -> Any:
            row = await _asked(*one, **more)
            said = "general" if row is None else row["outcome"]
            used[said] = used.get(said, 0) + 1
            return row

        short.ask = counted  # type: ignore[union-attr]
    return used


def task_ids(found: list[Any]) -> list[str]:
    told = [one.outputs["tasks"][0]["after"] for one in found if one.type == "task.created"]
    return [task["id"] for task in told]


def plain(value: Any, ids: dict[str, str]) -> Any:
    """Without what is drawn by chance."""
    text = json.dumps(value, default=str)
    for id_, name in ids.items():
        text = text.replace(id_, name)
    return json.loads(text)


async def test_many_at_one_path_by_functions_and_the_general_way(tmp_path: Path) -> None:
    stores = [await engines.open_store(tmp_path, SCHEMAS, connections=4) for _ in range(8)]
    inside: list[str] = []

    async def work(number: int) -> int:
        locks, me, got = over(stores[number]).locks, Caller(f"t{number}", f"t{number}"), 0
        for turn in range(20):
            # Every third call of every third one goes the general way; one path is above the others.
            kept = locks._functions
            if (number + turn) % 3 == 0:
                locks._functions = None
            path = ("src/a.py", "src/a.py", "src", "src/*.py")[(number * 7 + turn) % 4]
            answer: Any = await locks.acquire(me, [path])
            locks._functions = kept
            if answer["success"]:
                inside.append(me.agent)
                await asyncio.sleep(0)
                assert inside == [me.agent]
                inside.remove(me.agent)
                assert (await locks.release(me, path, fencing_token=answer["fencing_token"]))["released"]
                got += 1
            else:
                assert answer["locked_by"] and answer["locked_by_session"] and answer["expires_at"], answer
        return got

    got = await asyncio.gather(*(work(number) for number in range(8)))
    told = await all_events(stores[0])
    await check_log(stores[0])
    for store in stores:
        await store.close()
    assert sum(got) > 8
    # In the order of the log: taken, freed, taken, freed, and each token greater than the one before.
    locks = [one for one in told if one.type.startswith("lock.")]
    assert [one.type for one in locks] == ["lock.acquired", "lock.released"] * sum(got)
    tokens = [one.outputs["lock"]["fencing_token"] for one in locks[::2]]
    assert tokens == sorted(set(tokens))


async def test_calls_that_come_together_are_one_transaction_and_keep_apart(tmp_path: Path) -> None:
    store = await engines.open_store(tmp_path, SCHEMAS)
    other = await engines.open_store(tmp_path, SCHEMAS)
    used = (await asyncio.gather(*(together(one) for one in (store, other))))[0]
    assert used["acquired"] >= 8 and used["blocked"] >= 8, used
    # Several of what stands now were taken in one transaction, and no two hold the same.
    locks, callers = over(store).locks, [Caller(f"own{number}", "s") for number in range(8)]
    for who in callers:
        await locks.check(who)
        await locks.acquire(who, [f"{who.agent}/first"])
    answers = await asyncio.gather(*(locks.acquire(who, [f"{who.agent}/a.py"]) for who in callers))
    assert all(answer["action"] == "acquired" for answer in answers)
    rows = await store.read(lambda tx: tx.all(SAYS.transactions))
    assert 1 < len(rows) < 8, rows
    told = await all_events(store)
    await check_log(store)
    tokens = [one.outputs["lock"]["fencing_token"] for one in told if one.type == "lock.acquired"]
    assert tokens == sorted(set(tokens))
    await asyncio.gather(store.close(), other.close())


async def together(store: Any) -> dict[str, int]:
    """Eight callers at once, on one path or under one folder, by a store that another uses too."""
    locks, used, inside = over(store).locks, {}, []
    asked = locks._functions.ask  # type: ignore[union-attr]

    async def counted(*one: Any, **more: Any) -> Any:
        row = await asked(*one, **more)
        said = "general" if row is None else row["outcome"]
        used[said] = used.get(said, 0) + 1
        return row

    locks._functions.ask = counted  # type: ignore[union-attr]

    async def work(number: int) -> None:
        me = Caller(f"t{number}", f"{id(store)}", person=number == 7)
        for turn in range(12):
            path = ("src/a.py", f"src/b{number}.py", "src")[(number + turn) % 3]
            answer: Any = await locks.acquire(me, [path])
            if not answer["success"]:
                assert answer["locked_by"] and answer["locked_by_session"] and answer["expires_at"], answer
                continue
            if path == "src":
                assert not inside
                inside.append(me)
                await asyncio.sleep(0)
                inside.remove(me)
            assert (await locks.release(me, path, fencing_token=answer["fencing_token"]))["released"]

    await asyncio.gather(*(work(number) for number in range(8)))
    return used


async def test_a_joined_call_waits_for_nobody(tmp_path: Path) -> None:
    """What it does not get at once goes the general way: everybody waits for the order of events that it holds."""
    store = await engines.open_store(tmp_path, SCHEMAS)
    locks = over(store).locks
    for who in (A, B):
        await locks.check(who)
        await locks.acquire(who, [f"{who.agent}.py"])
        await locks.acquire(who, [f"{who.agent}.py"])

    def release(who: Caller, alone: bool) -> Any:
        of = {
            "agent": who.agent,
            "session": who.session,
            "person": False,
            "lease_s": 1800.0,
            "claim_s": 300.0,
        }
        return lambda tx: tx.one(
            Q.release_lock, **of, kind="path", key=f"{who.agent}.py", token=None, alone=alone
        )

    async with store._open.lent(store._open.short) as one:
        async with one.transaction():
            tx = store._tx(one)
            assert (await drive(release(A, alone=False), tx))["outcome"] == "released"
            waits = asyncio.create_task(store.write(release(B, alone=True), single=True))
            async with store._open.lent(store._open.short) as other:
                while not await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert (await drive(release(B, alone=False), tx))["outcome"] == "general"
        assert (await waits)["outcome"] == "released"
    await store.close()


async def test_what_no_text_of_the_database_can_hold_goes_the_general_way(tmp_path: Path) -> None:
    desk = await at(tmp_path)
    used = count_functions(desk)
    for text in ("x\0y", "plain"):
        await desk.submit("Task", input_data={"a\0": [text]})
    for _ in range(2):
        await desk.work.get(B, ["none"])
    for text in ("x\0y", "plain"):
        got = await desk.work.get(B)
        assert got["input_data"] == {"a\0": [text]}
        assert (await desk.work.complete(B, got["task_id"], True, result={"said": text}))["success"]
        assert (await desk.work.task(B, got["task_id"]))["result"] == {"said": text}
    # And what a function cannot do for another reason: told, and done.
    deep: Any = "x"
    for _ in range(800):
        deep = [deep]
    await desk.submit("Task", input_data=deep)
    assert (await desk.work.get(B))["input_data"] == deep
    assert used["general"] >= 5, used
    await check_log(desk.store)
    await desk.store.close()


#: A process with two loops that claim until nothing is left.
CLAIMER = """
import asyncio, json, sys
from relay.model import Caller
from tests import engines
from tests.coordination.desk import over
from tests.engines import SCHEMAS

async def loop(store, name):
    work, got, me = over(store).work, [], Caller(name, name)
    while (answer := await work.get(me))["task_id"]:
        got.append(answer["task_id"])
        assert (await work.complete(me, answer["task_id"], True, fencing_token=answer["fencing_token"]))["success"]
    return got

async def main(address, name):
    store = await engines.join(address, SCHEMAS)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(json.dumps(sum(await asyncio.gather(loop(store, name + "1"), loop(store, name + "2")), [])), flush=True)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_twenty_tasks_and_four_loops_in_two_processes(tmp_path: Path) -> None:
    desk = await at(tmp_path)
    ids = [await desk.submit(f"Task {number}") for number in range(20)]
    claimers = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CLAIMER, engines.address_of(tmp_path), name),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(HERE)},
        )
        for name in ("p", "q")
    ]
    try:
        for one in claimers:
            assert one.stdout is not None and one.stdin is not None
            assert (await asyncio.wait_for(one.stdout.readline(), 60)).strip() == b"ready"
        for one in claimers:
            one.stdin.write(b"go\n")  # type: ignore[union-attr]
        told = [json.loads(await asyncio.wait_for(one.stdout.readline(), 60)) for one in claimers]  # type: ignore[union-attr]
        assert [await asyncio.wait_for(one.wait(), 60) for one in claimers] == [0, 0]
    finally:
        for one in claimers:
            if one.returncode is None:
                one.kill()
                await one.wait()
    assert sorted(told[0] + told[1]) == sorted(ids)
    assert await desk.states(*ids) == ["completed"] * 20
    await check_log(desk.store)
    await desk.whole()
    await desk.store.close()

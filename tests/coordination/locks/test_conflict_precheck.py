"""What a request of many patterns costs, and that it is compared before its turn to write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.coordination import sqlite_functions
from relay.coordination.locks.acquisition import Acquisition
from relay.coordination.locks.conflict_precheck import compare
from relay.coordination.locks.lock import lock_request
from relay.coordination.paths.patterns import MAX_REQUEST_WEIGHT
from relay.coordination.paths.targets import target
from relay.model import Refusal
from relay.store.ports import Store, StoreError
from tests import engines
from tests.coordination.conftest import Room
from tests.engines import BOTH, SCHEMAS, Clock


async def test_the_patterns_of_one_request_are_bounded_together(room: Room) -> None:
    large = [f"src/**/{number}{'a*b' * 90}.py" for number in range(256)]
    with pytest.raises(Refusal) as refused:
        await room.locks.acquire(room.ann, large)
    assert refused.value.code == "bad_path" and f"{MAX_REQUEST_WEIGHT:,}" in refused.value.message
    assert refused.value.fix
    assert (await room.locks.acquire(room.ann, large[:10]))["success"]
    assert (await room.locks.acquire(room.ann, [f"src/{number}/**/*.py" for number in range(256)]))["success"]
    assert (await room.locks.acquire(room.bob, [f"docs/{'x' * 200}/{number}.md" for number in range(256)]))[
        "success"
    ]


def never(*asked: Any) -> bool:
    raise AssertionError(f"compared in the writer's turn: {asked}")


@BOTH
async def test_nothing_is_compared_in_the_writers_turn_that_stood_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    store = await engines.open_store(tmp_path, SCHEMAS, clock=clock)
    room = Room(store, clock)
    held = [f"src/**/h{number}*.py" for number in range(5)]
    assert (await room.locks.acquire(room.ann, held))["success"]
    assert (await room.locks.acquire(room.ann, ["old/**/*.py"], ttl_s=1.0))["success"]
    clock.now += 2
    await store.close()
    if engines.current() == "sqlite":
        monkeypatch.setitem(sqlite_functions.FUNCTIONS, "relay_overlaps", (4, never))
    else:
        engines.change(
            tmp_path,
            "CREATE OR REPLACE FUNCTION relay_overlaps(a_kind text, a_key text, a_shape jsonb, b_kind text, "
            "b_key text, b_shape jsonb) RETURNS boolean LANGUAGE plpgsql AS $x "
            "BEGIN RAISE EXCEPTION 'compared'; END $x".replace("$x", "'X'").replace("'X'", "$" + "$"),
        )
    store = await engines.open_store(tmp_path, SCHEMAS, clock=clock)
    room = Room(store, clock)
    try:
        blocked = await room.locks.acquire(room.bob, ["docs/*.md", "src/**/h3x.py"])
        assert (blocked["success"], blocked["held"]["file_path"]) == (False, "src/**/h3*.py")
        wanted = ["src/**/w*.py", "src/x/a.py", "docs/*.md", "old/a.py"]
        assert (await room.locks.acquire(room.bob, wanted))["success"]
        # What came between the look and the turn is compared in it.
        meant = tuple(map(target, ["lib/**/*.py", "lib/a.py"]))
        before = await Acquisition(room.heartbeat, room.bob, lock_request(meant)).compared(room.store)
        assert (await room.locks.acquire(room.ann, ["lib/**/a.py", "lib/b"]))["success"]
        with pytest.raises((StoreError, *errors_of(store))):
            await store.write(before.attempt, actor=room.bob)
    finally:
        await store.close()


@BOTH
async def test_what_came_between_the_look_and_the_turn_is_in_the_way(room: Room) -> None:
    assert (await room.locks.acquire(room.ann, ["lib/**/old*.py"]))["success"]
    meant = tuple(map(target, ["lib/**/n*.py", "docs"]))
    before = await Acquisition(room.heartbeat, room.bob, lock_request(meant)).compared(room.store)
    assert (await room.locks.acquire(room.ann, ["lib/**/new.py"]))["success"]
    outcome = await room.store.write(before.attempt, actor=room.bob)
    assert outcome.as_json()["held"]["file_path"] == "lib/**/new.py"
    assert (await room.locks.release(room.ann, "lib/**/new.py"))["success"]
    outcome = await room.store.write(before.attempt, actor=room.bob)
    assert outcome.as_json()["success"]


def errors_of(store: Store) -> tuple[type[BaseException], ...]:
    return store.errors if isinstance(store.errors, tuple) else (store.errors,)


NAMES = st.sampled_from(["a", "b", "src", "a.py", "*.py", "**", "*", "a*", "{a,b}"])
TEXTS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@given(st.lists(TEXTS, min_size=1, max_size=6), st.lists(TEXTS, max_size=12))
def test_it_finds_what_a_comparison_of_each_pair_finds(wanted: list[str], held: list[str]) -> None:
    targets, others = list(map(target, wanted)), list(map(target, held))
    rows = [(one.kind, one.key, one.base) for one in dict.fromkeys(others)]
    found = compare(targets, rows, 7)
    for one in targets:
        told = found.of(one)
        met = {f"{other.kind}:{other.key}" for other in others if one.meets(other.kind, other.key)}
        assert told["compared"] == 7 and set(json.loads(told["met"])) == met

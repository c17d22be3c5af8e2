from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.coordination.tasks.dependencies import Needed, Policy, dependency_status, find_cycle
from relay.coordination.tasks.task import Status
from relay.model import Fault
from tests.coordination.desk import ANN, A, B, Desk, refused
from tests.engines import BOTH

pytestmark = BOTH

MET, OPEN = Needed("1", 1, Status.COMPLETED), Needed("2", 2, Status.CLAIMED)
FELL, DEAD = Needed("3", 3, Status.FAILED), Needed("4", 4, Status.DEAD)
GONE, KEPT = Needed("5", 5, Status.PENDING, archived=True), Needed("6", 6, Status.COMPLETED, archived=True)
BLOCK, CASCADE, IGNORE = Policy


@pytest.mark.parametrize(
    ("needs", "policy", "status", "note"),
    [
        ([], BLOCK, Status.PENDING, None),
        ([MET, KEPT], BLOCK, Status.PENDING, None),
        ([MET, OPEN], BLOCK, Status.BLOCKED, None),
        ([MET, FELL], BLOCK, Status.BLOCKED, "Blocked by what it needs: t3 failed."),
        ([OPEN, DEAD, GONE], BLOCK, Status.BLOCKED, 
         "Blocked by what it needs: t4 is dead, t5 was taken off the board."),
        ([OPEN, FELL], CASCADE, Status.FAILED, "Failed with what it needs: t3 failed."),
        ([OPEN], CASCADE, Status.BLOCKED, None),
        ([FELL, OPEN], IGNORE, Status.BLOCKED, None),
        ([FELL, DEAD, GONE, MET], IGNORE, Status.PENDING, None),
    ],
)  # fmt: skip
def test_where_a_task_stands(needs: list[Needed], policy: Policy, status: Status, note: str | None) -> None:
    stands = dependency_status(needs, policy)
    assert (stands.status, stands.note) == (status, note)


@pytest.mark.parametrize(
    ("needs", "edges", "way"),
    [
        (["b"], {}, None),
        (["a"], {}, ["a", "a"]),
        (["b"], {"b": ["a"]}, ["a", "b", "a"]),
        (["b", "c"], {"b": ["d"], "c": ["d"], "d": ["e"]}, None),
        (["b", "c"], {"c": ["d"], "d": ["a"]}, ["a", "c", "d", "a"]),
    ],
)
def test_circles(needs: list[str], edges: dict[str, list[str]], way: list[str] | None) -> None:
    assert find_cycle("a", needs, edges) == way


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=15),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_a_way_is_shown_exactly_when_there_is_one(pairs: list[tuple[int, int]], task: int, need: int) -> None:
    edges: dict[str, list[str]] = {}
    for one, other in pairs:
        edges.setdefault(str(one), []).append(str(other))
    reached = {str(need)}
    for _ in range(6):
        reached |= {other for one in reached for other in edges.get(one, ())}
    way = find_cycle(str(task), [str(need)], edges)
    assert (way is not None) == (str(task) in reached)
    if way:
        assert (way[0], way[-1], way[1]) == (str(task), str(task), str(need))
        assert all(other in edges[one] for one, other in itertools.pairwise(way[1:]))


async def test_a_task_waits_for_what_it_needs(desk: Desk) -> None:
    first, second = await desk.submit("first"), await desk.submit("second")
    last = await desk.work.submit(B, "fix", "last", depends_on=[first, f"#{2}", first], priority=1)
    assert last["status"] == "blocked"
    assert (await desk.told(last["task_id"]))["depends_on"] == [
        {"id": first, "number": 1}, {"id": second, "number": 2},
    ]  # fmt: skip
    for task in (first, second):
        assert (await desk.work.get(A))["task_id"] == task
    nothing = await desk.work.get(A)
    assert (nothing["task_id"], nothing["why"]["blocked"]) == (None, 1)
    assert (await desk.work.complete(A, first, True))["unblocked"] == []
    assert (await desk.work.complete(A, second, True))["unblocked"] == [last["task_id"]]
    assert (await desk.work.get(B))["task_id"] == last["task_id"]
    assert (await desk.log())[-3:] == [
        ("completed", "a1/CLAUDE", [2]), ("unblocked", "a1/CLAUDE", [3]), ("claimed", "b1/CODEX", [3]),
    ]  # fmt: skip


async def test_a_failure_is_followed_as_the_policy_says(desk: Desk) -> None:
    first = await desk.submit()
    block, cascade, ignore = [await desk.submit(one, depends_on=[first], on_failed=one) for one in Policy]
    further = await desk.submit("further", depends_on=[cascade], on_failed="cascade")
    stays = await desk.submit("stays", depends_on=[further])
    await desk.work.get(A)
    done = await desk.work.complete(A, first, False, error_message="no disk")
    assert (done["unblocked"], done["cascaded"]) == ([ignore], [cascade, further])
    states = await desk.states(block, cascade, ignore, further, stays)
    assert states == ["blocked", "failed", "pending", "failed", "blocked"]
    assert (await desk.told(block))["note"] == "Blocked by what it needs: t1 failed."
    assert (await desk.told(further))["badge"] == "failed"
    assert (await desk.told(further))["error_message"] == "Failed with what it needs: t3 failed."
    # Who depends on what has failed already is told at once.
    late = await desk.work.submit(A, "fix", "late", depends_on=[first], on_failed="cascade")
    assert (late["status"], late["note"]) == ("failed", "Failed with what it needs: t1 failed.")
    # A person who opens it again lets what is blocked wait anew, and what went on stop; what failed stays.
    await desk.work.reopen(ANN, first, reason="there is a disk now")
    assert await desk.states(block, cascade, ignore) == ["blocked", "failed", "blocked"]
    assert (await desk.told(block))["note"] is None
    await desk.move(1, "done")
    assert await desk.states(block, ignore) == ["pending", "pending"]


async def test_a_persons_moves_are_followed_and_undone(desk: Desk) -> None:
    first = await desk.submit("first")
    second = await desk.submit("second", depends_on=[first])
    third = await desk.submit("third", depends_on=[second])
    await desk.move(1, "done")
    assert await desk.states(first, second, third) == ["completed", "pending", "blocked"]
    await desk.undo()
    assert await desk.states(first, second, third) == ["pending", "blocked", "blocked"]
    # A person may take up a blocked one all the same, and what is given back waits again.
    await desk.move(2, "in_progress")
    await desk.move(2, "pending")
    assert await desk.states(second) == ["blocked"]
    await desk.undo()
    assert await desk.states(second) == ["claimed"]
    await desk.undo()
    await desk.move(1, "done")
    assert (await desk.work.get(A))["task_id"] == second
    # What somebody works on is not taken away.
    await desk.move(1, "pending")
    assert await desk.states(second) == ["claimed"]
    await desk.work.release(A, second)
    assert await desk.states(second) == ["blocked"]


async def test_what_is_taken_off_the_board_unfinished_has_failed_and_undo_brings_it_back(desk: Desk) -> None:
    first, done = await desk.submit("first"), await desk.submit("done")
    await desk.move(2, "done")
    await desk.clear()
    waits = await desk.submit("waits", depends_on=[first, done])
    assert (await desk.told(waits))["note"] == "Blocked by what it needs: t1 was taken off the board."
    await desk.undo()  # the last change of a person: `waits` itself
    await desk.undo()
    assert await desk.states(first) == ["pending"]
    assert (await desk.told(first))["archived"] is False


async def test_needs_can_be_said_anew_but_never_in_a_circle(desk: Desk) -> None:
    one, two, three = [await desk.submit(said) for said in ("one", "two", "three")]
    assert (await desk.work.set_needs(A, two, [one]))["status"] == "blocked"
    assert (await desk.work.set_needs(A, three, [two]))["status"] == "blocked"
    no = await refused(desk.work.set_needs(A, one, [three]))
    assert (no.fault, no.code, "t1 -> t3 -> t2 -> t1" in no.message) == (
        Fault.REFUSED,
        "dependency_cycle",
        True,
    )
    assert [step["id"] for step in no.details["cycle"]] == [one, three, two, one]
    assert (await refused(desk.work.set_needs(A, one, ["#1"]))).code == "self_dependency"
    missing = "0198f0a0-0000-7000-8000-000000000001"
    gone = await refused(desk.work.set_needs(A, one, [two, missing]))
    assert (gone.fault, gone.code, gone.details) == (
        Fault.UNKNOWN,
        "unknown_dependency",
        {"unknown": [missing]},
    )
    assert (await desk.work.set_needs(A, three, []))["status"] == "pending"
    assert (await desk.work.get(A))["task_id"] == one
    await desk.work.complete(A, one, True)
    assert (await refused(desk.work.set_needs(A, one, [three]))).code == "already_completed"


async def test_thousands_that_wait_are_told_in_parts(desk: Desk) -> None:
    first = await desk.submit("first")
    waiting: list[Any] = [await desk.submit("waits", depends_on=[first]) for _ in range(250)]
    await desk.work.get(A)
    assert (await desk.work.complete(A, first, True))["unblocked"] == waiting
    parts = [len(numbers) for change, _, numbers in await desk.log() if change == "unblocked"]
    assert parts == [200, 50]

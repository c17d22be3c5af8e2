from __future__ import annotations

from dataclasses import replace

import pytest

from relay.coordination.tasks import task as work
from relay.coordination.tasks import transitions
from relay.coordination.tasks.task import Claim, Column, Need, Status, Task
from relay.model import Refusal

NOW = 1_800_000_000.0
TASK = Task(
    id="01", number=3, task_type="task", task_description="Fix it", rank=1.0, status=Status.PENDING,
    created_by="ann", created_at=NOW - 60, updated_at=NOW - 60, fence=4, attempts=1,
)  # fmt: skip
TAKEN = replace(TASK, status=Status.CLAIMED, claimed_by="CLAUDE", claimed_at=NOW - 30, lease_until=NOW + 30)
OVER = replace(TAKEN, status=Status.COMPLETED, result={"ok": 1}, completed_at=NOW - 5, lease_until=None)
FAILED = replace(OVER, status=Status.FAILED, result=None, error_message="it broke")


@pytest.mark.parametrize(
    ("status", "column", "badge", "active"),
    [
        (Status.PENDING, "pending", None, True),
        (Status.BLOCKED, "pending", "blocked", True),
        (Status.CLAIMED, "in_progress", None, True),
        (Status.COMPLETED, "done", None, False),
        (Status.FAILED, "done", "failed", False),
        (Status.DEAD, "done", "dead", False),
    ],
)
def test_where_a_task_stands(status: Status, column: str, badge: str | None, active: bool) -> None:
    task = replace(TASK, status=status)
    told = task.as_json()
    assert (told["status"], told["badge"], task.active) == (column, badge, active)


def test_a_task_has_the_shape_of_the_interfaces() -> None:
    assert TAKEN.as_json() == {
        "id": "01", "number": 3, "title": "Fix it", "status": "in_progress", "badge": None,
        "assignee": "CLAUDE", "created_by": "ann", "created_at": "2027-01-15T07:59:00.000Z",
        "updated_at": "2027-01-15T07:59:00.000Z", "priority": 5, "task_type": "task", "description": "Fix it",
        "attempts": 1, "max_attempts": 3, "not_before": None, "error_message": None,
        "depends_on": [], "note": None, "lease_until": "2027-01-15T08:00:30.000Z", "files": [], "body": "",
            "given": [], "source": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("why", "task", "to", "expected"),
    [
        ("a person takes it up", TASK, Column.IN_PROGRESS, (Status.CLAIMED, "bob", 1)),
        ("done without being taken up", TASK, Column.DONE, (Status.COMPLETED, None, 1)),
        ("taken from an agent", TAKEN, Column.PENDING, (Status.PENDING, None, 1)),
        ("done keeps who did it", TAKEN, Column.DONE, (Status.COMPLETED, "CLAUDE", 1)),
        ("reopened: a new attempt", OVER, Column.PENDING, (Status.PENDING, None, 2)),
        ("reopened by taking it up", OVER, Column.IN_PROGRESS, (Status.CLAIMED, "bob", 2)),
        ("a failure is tried again", FAILED, Column.PENDING, (Status.PENDING, None, 2)),
        ("a failure is declared done", FAILED, Column.DONE, (Status.COMPLETED, "CLAUDE", 1)),
        ("a blocked one is taken up", replace(TASK, status=Status.BLOCKED), Column.IN_PROGRESS,
         (Status.CLAIMED, "bob", 1)),
    ],
)  # fmt: skip
def test_moves(why: str, task: Task, to: Column, expected: tuple[Status, str | None, int]) -> None:
    after = transitions.moved(task, to, by="bob", now=NOW, fence=9)
    assert (after.status, after.claimed_by, after.attempts) == expected, why
    assert (after.fence, after.lease_until, after.updated_at) == (9, None, NOW), why
    assert (after.completed_at is not None) == (to is Column.DONE), why
    assert after.error_message is None, why
    if task is OVER:
        assert after.result is None, why


@pytest.mark.parametrize(
    ("task", "to", "fix"),
    [
        (TASK, Column.PENDING, "/move t3 in_progress"),
        (TAKEN, Column.IN_PROGRESS, "/move t3 pending"),
        (OVER, Column.DONE, "/move t3 pending"),
        (replace(TASK, status=Status.BLOCKED), Column.PENDING, "/move t3 in_progress"),
    ],
)
def test_a_move_to_where_it_is_is_refused(task: Task, to: Column, fix: str) -> None:
    with pytest.raises(Refusal) as refused:
        transitions.moved(task, to, by="bob", now=NOW, fence=9)
    assert "already" in refused.value.message
    assert fix in refused.value.fix


@pytest.mark.parametrize(
    ("word", "column"),
    [("done", Column.DONE), (" In-Progress ", Column.IN_PROGRESS), ("in progress", Column.IN_PROGRESS)],
)
def test_columns_by_name(word: str, column: Column) -> None:
    assert work.column(word) is column


def test_an_unknown_column_names_the_nearest() -> None:
    with pytest.raises(Refusal, match="Did you mean `pending`"):
        work.column("pendin")


@pytest.mark.parametrize("title", ["", "  \n ", "\x1b\x07", "x" * 201])
def test_titles_that_are_none(title: str) -> None:
    with pytest.raises(Refusal):
        work.clean_title(title)


def test_a_title_is_one_line_without_control_characters() -> None:
    assert work.clean_title(" Fix\n the \x1b[31mlogin ") == "Fix the [31mlogin"


def test_records_and_rows_come_back_the_same() -> None:
    task = replace(
        FAILED,
        input_data={"files": ["a.py"]},
        depends_on=(Need("02", 2),),
        files=("a.py",),
        past_claims=(Claim("CODEX", "s", 2),),
        archived_at=NOW,
    )
    assert Task.of_record({**task.record(), "column_of_a_later_relay": 1}) == task
    assert Task.of_row(task.columns()) == task


def test_undoing_never_brings_an_old_claim_to_life() -> None:
    cleared = replace(TAKEN, archived_at=NOW, fence=5, lease_until=None)
    back = transitions.restored(cleared, TAKEN, now=NOW + 1, fence=9)
    assert (back.archived_at, back.claimed_by, back.fence) == (None, "CLAUDE", 9)
    assert transitions.restored(TASK, None, now=NOW, fence=9).archived_at == NOW


def test_an_agents_claim_that_a_person_ended_is_past() -> None:
    held = replace(TAKEN, claimed_session="s", claimed_type="claude")
    ended = transitions.moved(held, Column.PENDING, by="bob", now=NOW, fence=9)
    assert (ended.claim, ended.past_claims) == (None, (Claim("CLAUDE", "s", 4),))
    cleared = transitions.archived(held, now=NOW, fence=9)
    back = transitions.restored(cleared, held, now=NOW + 1, fence=10)
    assert (back.status, back.claimed_by, back.fence) == (Status.PENDING, None, 10)
    assert back.had("CLAUDE", "s")


@pytest.mark.parametrize(
    ("attempts", "most", "status", "wait_s"),
    [
        (0, 3, Status.PENDING, 5),
        (1, 3, Status.PENDING, 10),
        (2, 3, Status.DEAD, None),
        (20, 99, Status.PENDING, 600),
    ],
)
def test_a_lost_attempt_waits_longer_each_time_and_then_is_dead(
    attempts: int, most: int, status: Status, wait_s: float | None
) -> None:
    held = replace(TAKEN, claimed_session="s", attempts=attempts, max_attempts=most)
    lost = transitions.lapsed(
        held, at=NOW, now=NOW + 3, fence=9, why="it fell", back_off=transitions.BackOff()
    )
    assert (lost.status, lost.attempts, lost.claim) == (status, attempts + 1, None)
    assert lost.not_before == (0.0 if wait_s is None else NOW + wait_s)
    assert "it fell" in (lost.note or "")


def test_a_title_is_the_first_line_that_says_something() -> None:
    assert work.title_of(" \n  Fix\tit \nbecause") == "Fix it"
    assert work.title_of("x" * 300) == "x" * 199 + "…"
    assert work.retitled("\n a\nb\nc", "z") == "z\nb\nc"


def test_priority_is_first_and_waiting_catches_up() -> None:
    urgent, usual = work.rank(NOW, 1), work.rank(NOW, 5)
    assert urgent < usual
    assert work.rank(NOW - 5 * work.RANK_STEP_S, 5) < urgent


def test_numbers_for_people() -> None:
    assert work.numbers([4, 1, 2, 3, 7]) == "t1-t4, t7"

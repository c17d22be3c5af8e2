"""What people change of a task, give to agents and import, on both engines."""

from __future__ import annotations

import json

import pytest

from relay.coordination.tasks.board import Board
from relay.coordination.tasks.edits import TakenIn, parse_issues, priority_of
from relay.coordination.tasks.projection import rebuild, strays
from relay.coordination.tasks.task import MAX_TITLE, Status, body_of, described
from relay.log.events import Lane
from relay.model import Refusal
from relay.store.ports import Store
from tests.coordination.tasks.test_board import ANN, Person, refusal
from tests.engines import BOTH

LANE = Lane("room", "given:1", short=True)


@BOTH
async def test_a_task_is_changed_and_each_change_is_undone(store: Store) -> None:
    ann = Person(store)
    await ann.do("create", "Fix it", body="- one\n- two")
    await ann.do("create", "First")
    for changes, said in (
        ({"body": "# Why\n\nBecause"}, "changed the description of t1: Fix it"),
        ({"title": "Mend it"}, "changed the title of t1: Mend it"),
        ({"priority": 1}, "changed the priority of t1: Mend it"),
        ({"files": ["./src//app.py", "docs/**"]}, "changed the files of t1: Mend it"),
        ({"depends_on": ["t2"]}, "changed the dependencies of t1: Mend it"),
    ):
        assert (await ann.do("edit", [1], changes)).summary() == said
    task = await store.read(lambda tx: ann.board.get(tx, 1))
    assert (task.title, task.body) == ("Mend it", "# Why\n\nBecause")
    assert (task.priority, task.files, task.status) == (1, ("src/app.py", "docs/**"), Status.BLOCKED)

    assert "like that already" in str(await refusal(ann.do("edit", [1], {"priority": 1})))
    assert "cycle" in str(await refusal(ann.do("edit", [2], {"depends_on": ["t1"]})))
    assert "leads out" in str(await refusal(ann.do("edit", [1], {"files": ["../x"]})))
    for _ in range(5):
        await ann.do("undo")
    task = await store.read(lambda tx: ann.board.get(tx, 1))
    assert (task.title, task.body, task.priority, task.files) == ("Fix it", "- one\n- two", 5, ())
    assert task.status is Status.PENDING
    assert await store.read(strays) == []


@BOTH
async def test_a_given_task_follows_its_message(store: Store) -> None:
    ann = Person(store)
    await ann.do("create", "Fix it")
    await ann.do("give", 1, "AVA", ("m-1", 17))

    async def stands(message: str, agent: str, why: str | None) -> tuple[str, str | None, str | None]:
        await store.write(
            lambda tx: ann.board.message_stands(tx, 1, message, agent, why, lane=LANE, cause=[])
        )
        task = await store.read(lambda tx: ann.board.get(tx, 1))
        return str(task.status), task.given_to, task.note

    had = ("claimed", "AVA", None)
    # Another message, or the same one of another agent, says nothing about it.
    assert await stands("m-0", "AVA", "x") == had and await stands("m-1", "BEN", "x") == had
    assert await stands("m-1", "AVA", "AVA was skipped.") == ("pending", None, "AVA was skipped.")
    assert await stands("m-1", "AVA", None) == had
    # Somebody else has it by then: a late word about the message changes nothing.
    await ann.do("move", 1, "pending")
    await ann.do("move", 1, "in_progress")
    assert await stands("m-1", "AVA", "x") == ("claimed", None, None)
    await ann.do("move", 1, "done")
    assert "t1 is done" in str(await refusal(ann.do("give", 1, "AVA", ("m-2", 18))))
    assert await store.write(rebuild) == 1
    assert await store.read(strays) == []


@BOTH
async def test_many_issues_are_one_task_each(store: Store) -> None:
    issues = [{"title": f"Issue {n}", "url": f"https://h/a/issues/{n}"} for n in range(450)]
    board = Board()

    async def take_in() -> TakenIn:
        found = parse_issues(json.dumps(issues), TakenIn())
        return await store.write(lambda tx: board.take_in(tx, found, by="ann", lane=ANN))

    assert len((await take_in()).made) == 450
    assert len((await take_in()).unchanged) == 450
    assert len(await store.read(board.list)) == 450
    assert await store.read(strays) == []


def test_a_description_is_its_title_and_what_is_below() -> None:
    assert body_of(described("Title", "\n\nBody\n")) == "Body" and body_of("\n Title \n\n\nBody") == "Body"
    assert body_of("Title") == "" and described("Title", "  \n") == "Title"
    long = "x" * (MAX_TITLE + 1)
    assert body_of(f"{long}\nmore") == f"{long}\nmore", "what the title has not is not lost"


@pytest.mark.parametrize(
    ("labels", "priority"),
    [
        (["bug"], None),
        (["priority: high", "bug"], 2),
        (["Priority/Critical"], 1),
        (["P0"], 1),
        (["P1"], 1),
        (["P2", "bug"], 2),
        (["priority: 10"], 10),
        (["P11"], None),
        (["p3", "prio-1"], 1),
        (["low-priority"], 7),
        (["urgent"], 1),
        (["high"], None),
        (["priority: someday"], None),
        (["1"], None),
    ],
)
def test_only_a_plain_label_says_a_priority(labels: list[str], priority: int | None) -> None:
    assert priority_of(labels) == priority


def test_what_is_no_import_is_refused() -> None:
    for written in ("", "3", "no json", '"text"'):
        with pytest.raises(Refusal):
            parse_issues(written, TakenIn())

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from relay.coordination.tasks import task_events as wing
from relay.coordination.tasks.board import Board, Changed
from relay.coordination.tasks.projection import rebuild, strays
from relay.coordination.tasks.task import Status, Task
from relay.coordination.tasks.task_events import CHANGED, CREATED, Change
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.log.verify import verify
from relay.model import Refusal
from relay.store.ports import Store, Tx
from tests import engines
from tests.engines import BOTH

ANN, BOB = Lane("room", "human:ann"), Lane("room", "human:bob")


class Person:
    """Ann or Bob at the board, each change in a transaction of its own."""

    def __init__(self, store: Store, lane: Lane = ANN) -> None:
        self.store, self.lane = store, lane
        ticks = itertools.count()
        self.board = Board(clock=lambda: 1_800_000_000.0 + next(ticks))

    async def do(self, what: str, *args: Any, **more: Any) -> Changed:
        by = self.lane.name.removeprefix("human:")
        method = getattr(self.board, what)
        return await self.store.write(lambda tx: method(tx, *args, by=by, lane=self.lane, **more))

    async def shown(self) -> list[tuple[int, str, str]]:
        return [(t.number, str(t.column), t.title) for t in await self.store.read(self.board.list)]


async def refusal(doing: Coroutine[Any, Any, Changed]) -> Refusal:
    with pytest.raises(Refusal) as refused:
        await doing
    return refused.value


@BOTH
async def test_a_change_is_its_event_with_its_cause(store: Store) -> None:
    ann = Person(store)
    asked = await store.write(lambda tx: events.append(tx, NewEvent(type="message.posted", lane=ANN)))
    made = await ann.do("create", "Fix it", cause=[asked.id], priority=2, input_data={"files": ["a.py"]})
    took = await ann.do("move", 1, "in_progress", cause=[made.event_id])
    found = [await store.read(lambda tx, e=e: events.get(tx, e)) for e in (made.event_id, took.event_id)]
    assert [event.type for event in found] == [CREATED, CHANGED]
    assert found[0].parents == (asked.id,)
    assert found[1].outputs["tasks"] == [{"before": made.task.record(), "after": took.task.record()}]
    assert (took.task.claimed_by, took.task.input_data) == ("ann", {"files": ["a.py"]})
    assert took.summary() == "moved task t1 to in_progress: Fix it"


@BOTH
async def test_the_board_is_in_the_order_of_its_columns(store: Store) -> None:
    ann = Person(store)
    for title in "abc":
        await ann.do("create", title)
    await ann.do("move", 1, "done")
    await ann.do("move", 2, "in_progress")
    assert await ann.shown() == [(3, "pending", "c"), (2, "in_progress", "b"), (1, "done", "a")]


@BOTH
async def test_a_refusal_changes_nothing_and_says_what_there_is(store: Store) -> None:
    ann = Person(store)
    assert "the board is empty" in (await refusal(ann.do("move", 9, "done"))).message
    assert "empty" in (await refusal(ann.do("clear_all"))).message
    assert "no active" in (await refusal(ann.do("move_all", "done"))).message
    assert "no change" in (await refusal(ann.do("undo"))).message
    for title in "abcd":
        await ann.do("create", title)
    before = await store.read(events.last_pos)
    assert "the board has t1-t4" in (await refusal(ann.do("move", 9, "done"))).message
    assert "already" in (await refusal(ann.do("move", 2, "pending"))).message
    assert "already" in (await refusal(ann.do("move_all", "pending"))).message
    assert "already" in (await refusal(ann.do("rename", 2, " b "))).message
    assert "priority" in (await refusal(ann.do("create", "x", priority=11))).message
    assert "no column" in (await refusal(ann.do("move", 2, "later"))).message
    assert await store.read(events.last_pos) == before
    assert (await ann.do("create", "e")).task.number == 5


@BOTH
async def test_moveall_moves_active_tasks_only(store: Store) -> None:
    ann = Person(store)
    for title in "abc":
        await ann.do("create", title)
    finished = (await ann.do("move", 1, "done")).task
    await ann.do("move", 2, "in_progress")
    changed = await ann.do("move_all", "pending")
    assert [task.number for task in changed.tasks] == [2]
    assert await store.read(lambda tx: ann.board.get(tx, 1)) == finished


@BOTH
async def test_undo_walks_back_through_everybodys_changes(store: Store) -> None:
    ann, bob = Person(store), Person(store, BOB)
    assert await store.read(ann.board.undoable) == ""
    await ann.do("create", "a")
    await bob.do("create", "b")
    await ann.do("move", 1, "done")
    assert await store.read(ann.board.undoable) == "ann moved task t1 to done: a"
    await bob.do("rename", 2, "c")
    await ann.do("clear_all")
    assert await ann.shown() == []
    assert "/undo" in (await refusal(ann.do("move", 1, "done"))).fix
    first = await bob.do("undo")
    assert (first.undid, first.by) == (Change.CLEARED, "bob")
    assert await ann.shown() == [(2, "pending", "c"), (1, "done", "a")]
    assert await store.read(ann.board.undoable) == "bob renamed task t2: c"
    undone = [await ann.do("undo") for _ in range(3)]
    assert [each.undid for each in undone] == [Change.RENAMED, Change.MOVED, Change.CREATED]
    assert [each.summary() for each in undone] == [
        "undid a new title (t2, by bob): b",
        "undid the move of t1 to done: a",
        "undid a new task (t2, by bob): b",
    ]
    assert await ann.shown() == [(1, "pending", "a")]
    await ann.do("undo")
    assert await store.read(ann.board.undoable) == ""
    assert "no change" in (await refusal(ann.do("undo"))).message
    assert (await ann.do("create", "d")).task.number == 3


@BOTH
async def test_undo_brings_a_result_back_but_no_claim(store: Store) -> None:
    ann = Person(store)
    await ann.do("create", "a")
    finished = (await ann.do("move", 1, "done")).task
    reopened = (await ann.do("move", 1, "pending")).task
    back = (await ann.do("undo")).task
    assert (reopened.attempts, back.attempts, back.completed_at) == (1, 0, finished.completed_at)
    assert finished.fence < reopened.fence < back.fence


@BOTH
async def test_undo_leaves_alone_what_changed_past_the_board(store: Store) -> None:
    ann = Person(store)
    await ann.do("create", "a")
    taken = (await ann.do("move", 1, "in_progress")).task
    ended = replace(taken, status=Status.FAILED, error_message="it broke")
    await store.write(lambda tx: tx.execute(wing.Q.put_task, **ended.columns()))
    no = await refusal(ann.do("undo"))
    assert (no.message, no.fix) == (
        "t1 has been changed since: it is done (failed) now.",
        "`/move t1 pending` (or `in_progress`, `done`) moves it where you want it.",
    )
    assert await store.read(lambda tx: ann.board.get(tx, 1)) == ended


@BOTH
async def test_the_tables_are_made_anew_from_the_log(store: Store) -> None:
    ann = Person(store)
    for title in "abc":
        await ann.do("create", title)
    await ann.do("move", 2, "done")
    await ann.do("move_all", "in_progress")
    await ann.do("undo")

    async def rows(tx: Tx) -> list[list[dict[str, Any]]]:
        return [[dict(r) for r in await tx.all(q)] for q in (wing.Q.all_tasks, wing.Q.all_changes)]

    async def lose(tx: Tx) -> None:
        await tx.execute(wing.Q.forget_tasks)
        await tx.execute(wing.Q.forget_changes)

    before = await store.read(rows)
    assert await store.read(strays) == []
    await store.write(lose)
    assert len(await store.read(strays)) == 4
    assert await store.write(rebuild) == 3
    assert await store.read(rows) == before
    assert (await ann.do("undo")).undid is Change.MOVED


@dataclass
class Card:
    title: str
    column: str = "pending"
    owner: str | None = None
    attempts: int = 0
    shown: bool = True


class BoardMachine(RuleBasedStateMachine):
    """The board against a dictionary of cards and a list of its earlier copies."""

    engine = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.stack = ExitStack()
        self.stack.enter_context(engines.on_engine(self.engine))
        opening = engines.open_store(Path(self.folder.name), [events.FOLDER, wing.FOLDER])
        self.store = self.runner.run(opening)
        self.person = Person(self.store)
        self.cards: dict[int, Card] = {}
        self.past: list[dict[int, Card]] = []
        self.made = 0

    def teardown(self) -> None:
        try:
            assert self.runner.run(self.store.read(strays)) == []
            assert self.runner.run(verify(self.store)) == []
        finally:
            self.runner.run(self.store.close())
            self.runner.close()
            self.stack.close()
            self.folder.cleanup()

    def act(self, fits: bool, what: str, *args: Any) -> bool:
        """Do it; it must be refused exactly when it does not fit."""
        done = False
        with suppress(Refusal):
            self.runner.run(self.person.do(what, *args))
            done = True
        assert done == fits, (what, args)
        if done and what != "undo":
            self.past.append(deepcopy(self.cards))
        return done

    def put(self, card: Card, column: str) -> None:
        if card.column == "done":
            card.attempts += 1
        card.owner = {"pending": None, "in_progress": "ann", "done": card.owner}[column]
        card.column = column

    @rule(title=st.sampled_from(["a", "b"]))
    def create(self, title: str) -> None:
        assert self.act(True, "create", title)
        self.made += 1
        self.cards[self.made] = Card(title)

    @rule(number=st.integers(1, 6), column=st.sampled_from(["pending", "in_progress", "done"]))
    def move(self, number: int, column: str) -> None:
        card = self.cards.get(number)
        fits = card is not None and card.shown and card.column != column
        if self.act(fits, "move", number, column):
            self.put(self.cards[number], column)

    @rule(column=st.sampled_from(["pending", "in_progress", "done"]))
    def move_all(self, column: str) -> None:
        active = [c for c in self.cards.values() if c.shown and c.column not in ("done", column)]
        if self.act(bool(active), "move_all", column):
            for card in active:
                self.put(card, column)

    @rule(number=st.integers(1, 6), title=st.sampled_from(["a", "b", "c"]))
    def rename(self, number: int, title: str) -> None:
        card = self.cards.get(number)
        fits = card is not None and card.shown and card.title != title
        if self.act(fits, "rename", number, title):
            self.cards[number].title = title

    @rule()
    def clear(self) -> None:
        shown = [card for card in self.cards.values() if card.shown]
        if self.act(bool(shown), "clear_all"):
            for card in shown:
                card.shown = False

    @rule()
    def undo(self) -> None:
        if self.act(bool(self.past), "undo"):
            self.cards = self.past.pop()

    @precondition(lambda self: self.made > 0)
    @rule()
    def lose_and_rebuild(self) -> None:
        self.runner.run(self.store.write(rebuild))

    @invariant()
    def shows_the_same(self) -> None:
        tasks: list[Task] = self.runner.run(self.store.read(self.person.board.list))
        found = {t.number: (t.title, str(t.column), t.claimed_by, t.attempts) for t in tasks}
        assert found == {
            number: (card.title, card.column, card.owner, card.attempts)
            for number, card in self.cards.items()
            if card.shown
        }


TestBoardMachine = BoardMachine.TestCase
TestBoardMachine.settings = settings(
    max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


class BoardOnPostgres(BoardMachine):
    engine = "postgres"


TestBoardOnPostgres = BoardOnPostgres.TestCase
# The rules are the same; what is looked for is a statement that does otherwise.
TestBoardOnPostgres.settings = settings(TestBoardMachine.settings, max_examples=6)

"""The work queue under random interleavings, against a plain model of it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from relay.coordination.tasks.task import rank
from relay.log.verify import verify
from relay.model import Caller, Refusal
from tests import engines
from tests.coordination.desk import A2, ANN, A, B, at

WHO = {"a": A, "a2": A2, "b": B}
LEASE_S = 30.0
COLUMN = {"pending": "pending", "blocked": "pending", "claimed": "in_progress"}


@dataclass
class Card:
    number: int
    rank: float
    needs: int | None
    status: str = "pending"
    holder: str | None = None
    token: int = 0
    until: float | None = None
    attempts: int = 0
    most: int = 2
    not_before: float = 0.0
    said: tuple[Any, ...] = ()
    past: set[str] = field(default_factory=set)

    @property
    def free(self) -> bool:
        return self.status in ("pending", "blocked")

    @property
    def over(self) -> bool:
        return self.status in ("completed", "failed", "dead")

    def drop(self) -> None:
        """Nobody holds it any more; a person was never in a session."""
        if self.holder in WHO and not self.over:
            self.past.add(self.holder)
        self.holder, self.until = None, None


class QueueMachine(RuleBasedStateMachine):
    engine = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(engines.on_engine(self.engine))
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.desk = self.runner.run(at(Path(self.folder.name) / "events.db"))
        self.ids: dict[int, str] = {}
        self.cards: dict[int, Card] = {}
        self.tokens = [0]

    def teardown(self) -> None:
        try:
            self.runner.run(self.desk.whole())
            assert self.runner.run(verify(self.desk.store)) == []
        finally:
            self.runner.run(self.desk.store.close())
            self.runner.close()
            self.stack.close()
            self.folder.cleanup()

    @property
    def now(self) -> float:
        return self.desk.clock.now

    def ask(self, doing: Coroutine[Any, Any, Any]) -> tuple[str, Any]:
        """("", answer) or (code, details)."""
        try:
            return "", self.runner.run(doing)
        except Refusal as no:
            return no.code, no.details

    def calls(self, who: str) -> Caller:
        """A call of the session: its claims live on."""
        for card in self.cards.values():
            if card.holder == who and card.status == "claimed" and (card.until or 0) > self.now:
                card.until = self.now + LEASE_S
        return WHO[who]

    def settle(self) -> None:
        for card in self.cards.values():
            if card.free:
                met = card.needs is None or self.cards[card.needs].status == "completed"
                card.status = "pending" if met else "blocked"

    def lapse(self, card: Card, since: float) -> None:
        card.drop()
        card.attempts += 1
        dead = card.attempts >= card.most
        card.status = "dead" if dead else "pending"
        card.not_before = 0.0 if dead else since + 5.0 * 2 ** (card.attempts - 1)
        self.settle()

    def holds(self, card: Card, who: str) -> bool:
        return card.status == "claimed" and card.holder == who and (card.until or 0) > self.now

    def code(self, card: Card, who: str) -> str:
        """Why `who` has no claim of it."""
        if card.holder == who and card.status == "claimed":
            return "stale_token"
        if card.holder != who and who in card.past:
            return "stale_token"
        if card.status in ("completed", "failed"):
            return "already_completed"
        return "stale_token" if who in card.past else "not_yours"

    @rule(priority=st.sampled_from([1, 5]), waits=st.booleans())
    def submit(self, priority: int, waits: bool) -> None:
        if len(self.cards) == 5:
            return
        needs = max(self.cards) if waits and self.cards else None
        more = {"priority": priority, "max_attempts": 2, "depends_on": [self.ids[needs]] if needs else []}
        made = self.runner.run(self.desk.work.submit(ANN, "fix", "x", **more))
        number = made["number"]
        self.ids[number] = made["task_id"]
        self.cards[number] = Card(number, rank(self.now, priority), needs)
        self.settle()
        assert made["status"] == self.cards[number].status

    @rule(who=st.sampled_from(sorted(WHO)))
    def get(self, who: str) -> None:
        caller = self.calls(who)
        ready = [one for one in self.cards.values() if one.status == "pending" and one.not_before <= self.now]
        first = min(ready, key=lambda one: (one.rank, one.number), default=None)
        answer = self.runner.run(self.desk.work.get(caller, lease_s=LEASE_S))
        assert answer.get("number") == (first and first.number)
        if first is None:
            return
        assert answer["fencing_token"] > self.tokens[-1]
        assert answer["attempt"] == first.attempts + 1
        self.tokens.append(answer["fencing_token"])
        first.status, first.holder, first.token = "claimed", who, self.tokens[-1]
        first.until = self.now + LEASE_S

    @rule(
        who=st.sampled_from(sorted(WHO)), number=st.integers(1, 5), success=st.booleans(),
        result=st.sampled_from([None, 1]), old=st.booleans(),
    )  # fmt: skip
    def complete(self, who: str, number: int, success: bool, result: int | None, old: bool) -> None:
        card = self.cards.get(number)
        if card is None:
            return
        caller = self.calls(who)
        token = card.token if old else None
        code, answer = self.ask(
            self.desk.work.complete(caller, self.ids[number], success, result=result, fencing_token=token)
        )
        said = ("completed" if success else "failed", result, caller.agent)
        if self.holds(card, who):
            card.status, card.until, card.said = said[0], None, said
            self.settle()
            assert (code, answer["status"]) == ("", said[0])
        elif card.said == said and card.status == said[0]:
            assert (code, answer.get("repeated")) == ("", True)
        else:
            assert code == self.code(card, who)

    @rule(who=st.sampled_from(sorted(WHO)), number=st.integers(1, 5))
    def release(self, who: str, number: int) -> None:
        card = self.cards.get(number)
        if card is None:
            return
        code, answer = self.ask(self.desk.work.release(self.calls(who), self.ids[number]))
        if self.holds(card, who):
            self.lapse(card, self.now)
            assert (code, answer["status"]) == ("", card.status)
        else:
            assert code == self.code(card, who)

    @rule(number=st.integers(1, 5), to=st.sampled_from(["pending", "in_progress", "done"]))
    def move(self, number: int, to: str) -> None:
        card = self.cards.get(number)
        if card is None:
            return
        stands = COLUMN.get(card.status, "done")
        fits = stands != to or (to == "done" and card.status != "completed")
        try:
            self.runner.run(self.desk.move(number, to))
        except Refusal:
            assert not fits
            return
        assert fits
        self.moved(card, to)

    def moved(self, card: Card, to: str) -> None:
        holder = card.holder
        if card.over and to != "done":
            if holder in WHO:
                card.past.add(holder)  # a new attempt: who ended the last one has lost it
            card.attempts += card.status != "dead"
            card.most += 1
            card.said = ()
        card.drop()
        card.not_before = 0.0
        if to == "done":
            agent = WHO[holder].agent if holder in WHO else holder
            result = card.said[1] if card.said else None
            card.status, card.holder, card.said = "completed", None, ("completed", result, agent)
        else:
            card.status = "pending" if to == "pending" else "claimed"
            card.holder = "ann" if to == "in_progress" else None
        self.settle()

    @rule(seconds=st.sampled_from([5.0, 10.0, 30.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.desk.clock.now += seconds
        # Whoever looks is told so, though nobody has taken it back.
        for card in sorted(self.cards.values(), key=lambda one: one.until or 0):
            if card.status == "claimed" and card.until is not None and card.until <= self.now:
                self.lapse(card, card.until)

    @invariant()
    def stands_the_same(self) -> None:
        told = {task["number"]: task for task in self.runner.run(self.shown())}
        for number, card in self.cards.items():
            found = told[number]
            assert (found["status"], found["attempts"]) == (card.status, card.attempts), number
            assert found["assignee"] == self.assignee(card), number

    def assignee(self, card: Card) -> str | None:
        if card.status == "claimed":
            return WHO[card.holder].agent if card.holder in WHO else card.holder
        return card.said[2] if card.over and card.said else None

    async def shown(self) -> list[dict[str, Any]]:
        return [await self.desk.told(one) for one in self.ids.values()]


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


class QueueOnPostgres(QueueMachine):
    engine = "postgres"


# The rules are the same; what is looked for is a function of the database that does otherwise.
QueueOnPostgres.TestCase.settings = settings(QueueMachine.TestCase.settings, max_examples=6)
TestQueueOnPostgres = QueueOnPostgres.TestCase

"""Any history of posts, turns, failures, deaths and time, over the real store: what must hold after each step.

Invariants: an agent's active jobs have one holder; no job is tried more often than allowed; a job that is done
has exactly one answer, and no other has any; when everything is driven to its end, every job has ended; the log
is sound.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from relay.log.verify import verify
from relay.model import FailureClass, Kind
from relay.room.dispatch import queue
from relay.room.dispatch.breaker import BreakerState
from relay.room.dispatch.budget import Budget
from relay.room.dispatch.recovery import recover_stale_active
from relay.room.dispatch.roster import Policy
from relay.room.dispatch.turns import Idle, Outcome, Plan
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, JobState
from relay.store.ports import Tx
from tests import engines
from tests.engines import Clock, all_events
from tests.room.parts import all_jobs, all_messages, claim, end, open_room, post

T = TypeVar("T")
POLICIES = {
    "ALPHA": Policy("ALPHA", threshold=2, max_attempts=3, names=("ALPHA", "BETA")),
    "BETA": Policy("BETA", threshold=3, max_attempts=2, budget=Budget(turns_per_hour=4)),
}
AGENTS = st.sampled_from(sorted(POLICIES))
OUTCOMES = st.sampled_from(
    [
        Outcome(text="done"),
        Outcome(interrupted=True),
        *(Outcome(failure=failure, detail=str(failure)) for failure in FailureClass),
    ]
)
ENDED = {JobState.DONE, JobState.SKIPPED, JobState.DEAD}


class QueueMachine(RuleBasedStateMachine):
    engine = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.stack = ExitStack()
        self.stack.enter_context(engines.on_engine(self.engine))
        self.clock = Clock()
        self.plans: dict[str, Plan] = {}
        self.given_up: list[Plan] = []
        self.lives = 0

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @initialize()
    def open(self) -> None:
        self.store = self.do(open_room(Path(self.folder.name)))

    @property
    def holder(self) -> str:
        return f"daemon {self.lives}"

    @rule(agents=st.sampled_from(["@ALPHA", "@BETA", "@all"]))
    def someone_asks(self, agents: str) -> None:
        self.do(post(self.store, f"{agents} please", self.clock.move(0.5)))

    @rule(agent=AGENTS)
    def a_worker_claims(self, agent: str) -> None:
        found = self.do(claim(self.store, POLICIES[agent], self.clock(), self.holder))
        if isinstance(found, Plan):
            assert agent not in self.plans, "two turns of one agent"
            self.plans[agent] = found

    @precondition(lambda self: self.plans)
    @rule(data=st.data(), outcome=OUTCOMES, took=st.sampled_from([0.1, 5.0, 700.0]))
    def a_turn_ends(self, data: st.DataObject, outcome: Outcome, took: float) -> None:
        plan = self.plans.pop(data.draw(st.sampled_from(sorted(self.plans))))
        if outcome.failure is FailureClass.RATE_LIMIT:
            outcome = replace(outcome, retry_at=self.clock() + 50)
        assert self.do(end(self.store, plan, outcome, self.clock.move(took), 0.5))
        self.given_up.append(plan)

    @precondition(lambda self: self.given_up)
    @rule(data=st.data())
    def a_turn_that_was_given_up_comes_late(self, data: st.DataObject) -> None:
        plan = data.draw(st.sampled_from(self.given_up))
        assert not self.do(end(self.store, plan, Outcome(text="late"), self.clock()))

    @rule()
    def the_daemon_dies_and_comes_back(self) -> None:
        dead = self.holder
        self.lives += 1
        self.given_up += self.plans.values()
        self.plans.clear()
        self.do(
            self.store.write(
                lambda tx: recover_stale_active(
                    tx,
                    now=self.clock(),
                    stale_after_s=600.0,
                    holder=self.holder,
                    is_dead=lambda job: job.holder == dead,
                )
            )
        )

    @rule(agent=AGENTS, times=st.integers(2, 4))
    def a_daemon_keeps_dying(self, agent: str, times: int) -> None:
        for _ in range(times):
            self.the_daemon_dies_and_comes_back()
            self.a_worker_claims(agent)

    @rule(agent=AGENTS, times=st.integers(2, 4))
    def an_agent_keeps_failing_while_people_ask(self, agent: str, times: int) -> None:
        for _ in range(times):
            self.someone_asks(f"@{agent}")
            self.clock.move(301.0)
            if agent not in self.plans:
                self.a_worker_claims(agent)
            if plan := self.plans.pop(agent, None):
                crash = Outcome(failure=FailureClass.CRASH)
                assert self.do(end(self.store, plan, crash, self.clock(), 0.5))
                self.given_up.append(plan)

    @rule(seconds=st.sampled_from([1.0, 30.0, 301.0, 3601.0, -5.0, -4000.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.move(seconds)

    @rule(agent=AGENTS, paused=st.booleans())
    def an_agent_is_paused(self, agent: str, paused: bool) -> None:
        self.do(self.store.write(lambda tx: tx.execute(Q.set_paused, name=agent, paused=int(paused))))

    @rule()
    def someone_tries_again_what_is_dead(self) -> None:
        async def work(tx: Tx) -> None:
            for row in await tx.all(Q.jobs_in_state, state="dead", limit=10):
                job = Job.of_row(row)
                await ledger.change_job(tx, job, JobState.PENDING, now=self.clock(), attempts=0)

        self.do(self.store.write(work))

    @invariant()
    def one_holder_an_agent(self) -> None:
        active: dict[str, set[tuple[int, str | None]]] = {}
        for job in self.do(all_jobs(self.store)):
            if job.state is JobState.ACTIVE:
                active.setdefault(job.agent, set()).add((job.id, job.holder))
        assert active == {
            agent: {(job.id, self.holder) for job in plan.jobs} for agent, plan in self.plans.items()
        }

    @invariant()
    def nothing_is_tried_too_often(self) -> None:
        for job in self.do(all_jobs(self.store)):
            assert 0 <= job.attempts <= POLICIES[job.agent].max_attempts, job

    @invariant()
    def an_answer_for_what_is_done_and_for_nothing_else(self) -> None:
        jobs = self.do(all_jobs(self.store))
        answers = {m.id: m for m in self.do(all_messages(self.store)) if m.kind is Kind.AGENT}
        assert all((job.answer_id is not None) == (job.state is JobState.DONE) for job in jobs)
        assert {job.answer_id for job in jobs if job.answer_id} == set(answers)
        assert max(Counter(answer.job for answer in answers.values()).values(), default=1) == 1
        assert len({(job.message_id, job.agent) for job in jobs}) == len(jobs)

    def teardown(self) -> None:
        try:
            if hasattr(self, "store"):
                self.drive_to_the_end()
                self.do(self.store.close())
        finally:
            self.runner.close()
            self.stack.close()
            self.folder.cleanup()

    def drive_to_the_end(self) -> None:
        for plan in self.plans.values():
            assert self.do(end(self.store, plan, Outcome(text="done"), self.clock()))
        for agent, policy in POLICIES.items():
            self.do(self.store.write(lambda tx, one=agent: tx.execute(Q.set_paused, name=one, paused=0)))
            for _ in range(8):
                found = self.do(claim(self.store, policy, self.clock.move(61.0), self.holder))
                if isinstance(found, Idle) and found.until is not None:
                    # Its rate limit was named before the clock was put back.
                    self.clock.now = max(self.clock.now, found.until)
                if isinstance(found, Plan):
                    breaker = self.do(self.store.read(lambda tx, one=policy: queue.load_breaker(tx, one)))
                    assert breaker.state is not BreakerState.OPEN
                    assert self.do(end(self.store, found, Outcome(text="done"), self.clock()))
        jobs = self.do(all_jobs(self.store))
        assert {job.state for job in jobs} <= ENDED, jobs
        assert self.do(verify(self.store)) == []
        told: dict[int, str] = {}
        for event in self.do(all_events(self.store)):
            told |= {job["id"]: job["state"] for job in (event.outputs or {}).get("jobs", ())}
        assert told == {job.id: str(job.state) for job in jobs}, "the log and the table differ"


QueueMachine.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestQueueMachine = QueueMachine.TestCase


class QueueOnPostgres(QueueMachine):
    engine = "postgres"


# The rules are the same; what is looked for is a statement that does otherwise.
QueueOnPostgres.TestCase.settings = settings(QueueMachine.TestCase.settings, max_examples=6)
TestQueueOnPostgres = QueueOnPostgres.TestCase

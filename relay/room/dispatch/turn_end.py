"""The end of a turn: its jobs, its answer or its failure, breaker and spending, in one transaction.

Invariants:
- a turn ends only the jobs that its holder still holds: a turn that was given up for dead cannot answer any more;
- an answer and the end of its job are one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from relay.base.durations import clock_time
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import NewEvent
from relay.model import FailureClass, Kind, Message, references
from relay.room.dispatch import helpers
from relay.room.dispatch.breaker import BreakerState, CircuitBreaker, Fate, backoff_s, fate, in_a_row
from relay.room.dispatch.queue import ADVISORY, keep_breaker, load_breaker
from relay.room.dispatch.turns import Outcome, Plan
from relay.room.journal import ledger
from relay.room.journal.agent_mentions import pass_on
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, JobState
from relay.room.parsing.handoff_footer import footer
from relay.store.ports import Row, Tx


async def finish(
    tx: Tx, plan: Plan, outcome: Outcome, *, now: float, chance: float, answer_id: str | None = None
) -> bool:
    """End a turn: its jobs, its answer or its failure, breaker and spending, in one transaction.

    False when the jobs are not this holder's any more; nothing is changed then.
    """
    held = await tx.all(Q.held_jobs, ids=dumps([job.id for job in plan.all_jobs]), holder=plan.holder)
    began = {job.id: job.started_at for job in plan.all_jobs}
    if {row["id"]: row["started_at"] for row in held} != began:
        return False
    if outcome.needless:
        await _end(tx, plan, {JobState.SKIPPED: plan.all_jobs}, outcome, now=now)
        return True
    why = "its turn was cut off" if outcome.interrupted else "its turn ended"
    await helpers.fold(tx, plan.lane, why, at_work=outcome.helpers, role=plan.role)
    # Also of a turn that was cut off: what it cost is spent.
    await tx.execute(
        Q.put_turn,
        agent=plan.agent,
        job=plan.primary.id,
        started_at=plan.started_at,
        ended_at=now,
        failure="interrupted" if outcome.interrupted else outcome.failure and str(outcome.failure),
        **outcome.usage.as_json(),
    )
    if outcome.interrupted:
        await _end(tx, plan, {JobState.PENDING: plan.all_jobs}, outcome, now=now, interrupted=True)
        # Neither a stop of the daemon nor an advisory is the job's fault: the attempt is given back.
        await tx.execute(Q.refund_attempt, ids=dumps([job.id for job in plan.all_jobs]))
    elif outcome.failure is None:
        await _answer(tx, plan, outcome, now=now, answer_id=answer_id or ledger.new_id())
    else:
        await _fail(tx, plan, outcome, outcome.failure, now=now, chance=chance)
    return True


async def _end(
    tx: Tx,
    plan: Plan,
    ends: Mapping[JobState, Sequence[Job]],
    outcome: Outcome,
    *,
    now: float,
    answer_id: str | None = None,
    retry_at: float = 0.0,
    interrupted: bool = False,
) -> events.Event:
    """Bring the turn's jobs into the states of `ends`, with one event."""
    rows: list[Row] = []
    for state, jobs in ends.items():
        # What only waits for the next turn was not cancelled.
        next_turns = state is JobState.PENDING and outcome.failure is FailureClass.CANCELLED
        rows += await tx.all(
            Q.end_jobs,
            ids=dumps([job.id for job in jobs]),
            state=str(state),
            error=None if next_turns else outcome.advice or outcome.detail or None,
            error_class=None
            if next_turns
            else ADVISORY
            if outcome.advice
            else outcome.failure and str(outcome.failure),
            answer_id=answer_id,
            not_before=retry_at if state is JobState.FAILED else 0.0,
            now=now,
            primary_job=plan.primary.id,
            holder=plan.holder,
            interrupted=int(interrupted),
        )
    return await events.append(
        tx,
        NewEvent(
            type=ledger.TURN_ENDED,
            lane=plan.lane,
            parents=[plan.event_id],
            inputs={"turn": plan.event_id},
            outputs={
                "jobs": [Job.of_row(row).as_fact() for row in sorted(rows, key=lambda row: int(row["id"]))],
                "failure": outcome.failure and str(outcome.failure),
                "usage": outcome.usage.as_json(),
                "tools": list(outcome.tools),
            },
            role=plan.role,
        ),
    )


async def _answer(tx: Tx, plan: Plan, outcome: Outcome, *, now: float, answer_id: str) -> None:
    ended = await _end(tx, plan, {JobState.DONE: plan.all_jobs}, outcome, now=now, answer_id=answer_id)
    meta: dict[str, Any] = {}
    if outcome.tools:
        meta["tools"] = list(outcome.tools)[-50:]
    if outcome.usage.counted or outcome.usage.cache_read_tokens:
        meta["usage"] = outcome.usage.as_json()
    if outcome.truncated:
        meta["truncated"] = True
    if outcome.changes is not None and outcome.changes.files:
        meta["worktree"] = outcome.changes.as_json()
    if plan.given.memories:
        meta["memories"] = [dict(memory) for memory in plan.given.memories]
    if plan.heard:
        meta["heard"] = [
            {
                "message": message.id,
                "number": message.number,
                "speaker": message.speaker,
                "after": job.heard_after,
            }
            for job, message in plan.heard
        ]
    chips = footer(outcome.text)
    if chips is not None:
        meta["footer"] = chips.as_meta()
    answer, event = await ledger.put_message(
        tx,
        ledger.NewMessage(
            speaker=plan.agent,
            kind=Kind.AGENT,
            body=outcome.text,
            at=now,
            id=answer_id,
            lane=plan.lane,
            parents=[ended.id],
            in_reply_to=plan.asked.id,
            job=plan.primary.id,
            meta=meta,
        ),
    )
    await tx.execute(Q.set_shown, name=plan.agent, shown_number=plan.shown_number)
    before = await load_breaker(tx, plan.policy)
    after = before.succeeded()
    if after != before:
        await keep_breaker(tx, plan.agent, after)
        if before.state is not BreakerState.CLOSED:
            await ledger.agent_state(tx, plan.agent, "circuit_closed", plan.asked.id, [ended.id])
            await ledger.say(
                tx,
                f"{plan.agent} answers again; its circuit is closed.",
                now=now,
                about=plan.asked.id,
                parents=[ended.id],
                meta={"notice": "circuit_closed", "agent": plan.agent},
            )
    # An answer to nothing but advisories gives nobody a turn.
    if plan.policy.agent_mentions and any(message.kind is not Kind.ADVISORY for message in plan.all_messages):
        policy = plan.policy
        await pass_on(tx, answer, event.id, names=policy.names, hop_limit=policy.hop_limit, now=now)


async def _fail(
    tx: Tx, plan: Plan, outcome: Outcome, failure: FailureClass, *, now: float, chance: float
) -> None:
    policy = plan.policy
    # Each job by its own attempts: one that arrived meanwhile does not prolong those it was joined to.
    fates = {job: fate(failure, job.attempts, policy.max_attempts) for job in plan.all_jobs}
    since = [
        job
        for job, message in zip(plan.all_jobs, plan.all_messages, strict=True)
        if outcome.before is not None and message.number >= outcome.before
    ]
    fates |= dict.fromkeys(since, Fate.NEXT)
    before = await load_breaker(tx, policy)
    after = before.failed(failure, now, outcome.retry_at)
    if after != before:
        await keep_breaker(tx, plan.agent, after)
    wait = now + backoff_s(plan.primary.attempts, policy.backoff_s, policy.backoff_max_s, chance)
    ends = {
        _STATE_OF[what]: [job for job in plan.all_jobs if fates[job] is what]
        for what in dict.fromkeys(fates.values())
    }
    ended = await _end(tx, plan, ends, outcome, now=now, retry_at=wait)
    if failure is FailureClass.RATE_LIMIT:
        # The limit is not the job's fault: the attempt is given back.
        await tx.execute(Q.refund_attempt, ids=dumps([job.id for job in plan.all_jobs]))
    elif since:
        await tx.execute(Q.refund_attempt, ids=dumps([job.id for job in since]))
    for what in dict.fromkeys(fates.values()):
        about = [
            message
            for job, message in zip(plan.all_jobs, plan.all_messages, strict=True)
            if fates[job] is what
        ]
        if text := _words(plan, outcome, failure, what, after, about, now):
            await ledger.say(
                tx,
                text,
                now=now,
                about=about[-1].id,
                parents=[ended.id],
                job=plan.primary.id,
                meta={"notice": str(what), "agent": plan.agent, "error": str(failure)},
            )
    # A probe that proved nothing (cancelled, rate limited) leaves open what was open: nothing new to be said.
    if after.state is BreakerState.OPEN and after.failures > before.failures:
        counts = {key: value for key, value in asdict(after).items() if key != "state"}
        await ledger.agent_state(tx, plan.agent, "circuit_open", plan.asked.id, [ended.id], **counts)
        await ledger.say(
            tx,
            f"{plan.agent}'s circuit is open after {in_a_row(after.failures)}: it gets no work until "
            f"{clock_time(after.retry_at or now, now)}, then one attempt. `/try @{plan.agent}` makes it now.",
            now=now,
            about=plan.asked.id,
            parents=[ended.id],
            meta={"notice": "circuit_open", "agent": plan.agent},
        )


_STATE_OF = {
    Fate.RETRY: JobState.FAILED,
    Fate.PARK: JobState.PENDING,
    Fate.NEXT: JobState.PENDING,
    Fate.SKIP: JobState.SKIPPED,
    Fate.DEAD: JobState.DEAD,
}


def _words(
    plan: Plan,
    outcome: Outcome,
    failure: FailureClass,
    what: Fate,
    breaker: CircuitBreaker,
    about: Sequence[Message],
    now: float,
) -> str:
    detail = outcome.detail.rstrip(". ") or str(failure).replace("_", " ")
    if what is Fate.DEAD:
        again = " or ".join(f"`/retry {references.message(message.number)}`" for message in about[-3:])
        return f"{plan.agent} could not answer: {detail}. {again} tries again."
    if what is Fate.SKIP:
        return f"{plan.agent} does not answer: {detail}."
    if what is Fate.PARK:
        until = clock_time(breaker.parked_until or now, now)
        return f"{plan.agent} is rate limited until {until}: {detail}. It continues then."
    return ""

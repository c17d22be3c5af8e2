"""The dispatch queue (002, section 1): who works on what, durably.

Invariants:
- a job is held by one holder;
- an agent has one turn at a time, in the order of its jobs. The jobs that arrive meanwhile become one next turn;
- whatever keeps a turn from beginning (breaker, budget, not installed) is decided in the claim's transaction. The
  jobs are skipped with the reason, and the room says so.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from relay.base.durations import clock_time
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Lane, NewEvent
from relay.model import FailureClass, Message
from relay.room.dispatch import helpers
from relay.room.dispatch.breaker import BreakerState, CircuitBreaker, Verdict, in_a_row
from relay.room.dispatch.budget import DAY_S, HOUR_S, Exhausted, Spent, exhausted
from relay.room.dispatch.roster import Policy
from relay.room.dispatch.turns import Given, Idle, Plan, Recollection, message_text
from relay.room.entries import changes, pins, threads
from relay.room.journal import hop_limit, ledger
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, JobState, message_of_row
from relay.store.ports import Tx, of_row

#: Messages that become one turn, and room entries that are looked at for its context.
MOST_JOBS = 20
MOST_CONTEXT = 400
#: Characters of why a turn failed that are told with why there is no other.
MOST_ERROR = 160
#: How a reason ends that has both.
NO_TRY = " leaves no further try"
#: The error class of a job whose turn was cut off for an advisory. The job's error is the advice.
ADVISORY = "advisory"


def new_session(agent: str) -> str:
    """The id of a new conversation: what the agent's processes get as RELAY_SESSION_ID."""
    return f"{agent.lower()}-{secrets.token_hex(4)}"


async def load_breaker(tx: Tx, policy: Policy) -> CircuitBreaker:
    row = await tx.one(Q.breaker, agent=policy.agent)
    if row is None:
        return CircuitBreaker(policy.threshold, policy.reset_timeout)
    rules = {"threshold": policy.threshold, "reset_timeout": policy.reset_timeout}
    return of_row(CircuitBreaker, row, state=BreakerState(row["state"]), **rules)


async def keep_breaker(tx: Tx, agent: str, breaker: CircuitBreaker) -> None:
    await tx.execute(
        Q.put_breaker,
        agent=agent,
        state=str(breaker.state),
        failures=breaker.failures,
        opened_at=breaker.opened_at,
        parked_until=breaker.parked_until,
    )


async def load_spent(tx: Tx, agent: str, now: float) -> Spent:
    row = await tx.one(Q.spent, agent=agent, hour_ago=now - HOUR_S, day_ago=now - DAY_S)
    return Spent() if row is None else of_row(Spent, row)


async def waiting_messages(tx: Tx, agent: str) -> list[Message]:
    """The messages that wait for this agent, the oldest job's first; at most as many as become one turn."""
    rows = await tx.all(Q.open_jobs_of_agent, agent=agent)
    ids = [row["message_id"] for row in rows[:MOST_JOBS]]
    if not ids:
        return []
    by_id = {row["id"]: message_of_row(row) for row in await tx.all(Q.messages_by_ids, ids=dumps(ids))}
    return [by_id[id] for id in ids if id in by_id]


async def claim_next_dispatch(
    tx: Tx, policy: Policy, *, holder: str, now: float, recollection: Recollection | None = None
) -> Plan | Idle:
    """Claim the next turn of an agent, or say until when there is none. Skips what cannot be dispatched.
    `recollection`: what the room remembers that bears on it."""
    waiting = [Job.of_row(row) for row in await tx.all(Q.open_jobs_of_agent, agent=policy.agent)]
    if not waiting:
        return Idle()
    await tx.execute(Q.ensure_agent, name=policy.agent)
    state = await tx.one(Q.agent, name=policy.agent)
    assert state is not None
    if policy.unable:
        await skip_all(tx, waiting, policy.unable, FailureClass.NOT_INSTALLED, now=now)
        return Idle()
    if state["paused"]:
        return Idle()
    before = await load_breaker(tx, policy)
    breaker, verdict = before.ask(now)
    if verdict is Verdict.WAIT:
        return Idle(breaker.parked_until)
    if verdict is Verdict.SKIP:
        at = breaker.retry_at or now
        reason = f"circuit open after {in_a_row(breaker.failures)}"
        # Only said now: the job keeps why it was skipped, which stays true once the circuit is closed.
        then = f"one attempt at {clock_time(at, now)}, or now by `/try @{policy.agent}`"
        more = f" ({in_a_row(breaker.failures)}; {then})"
        if rest := await _skip_failed(tx, waiting, "open circuit", more, now=now):
            await skip_all(tx, rest, reason, "circuit_open", now=now, then=f"; {then}")
        return Idle()
    if policy.budget.any:
        spent = exhausted(policy.budget, await load_spent(tx, policy.agent, now), now)
        if spent is not None:
            more = f" ({spent.text}; it can work again at {clock_time(spent.frees_at, now)})"
            if rest := await _skip_failed(tx, waiting, "budget", more, now=now):
                await skip_all(tx, rest, _spent_words(spent, now), "budget", now=now)
            return Idle()
    claimed = await tx.all(
        Q.claim,
        agent=policy.agent,
        holder=holder,
        lease_until=now + policy.lease_s,
        now=now,
        far=now + 2 * policy.backoff_max_s + 1.0,
        most=MOST_JOBS,
    )
    if not claimed:
        busy = await tx.one(Q.next_due, agent=policy.agent)
        return Idle(max(now + 0.05, busy["not_before"]) if busy and busy["not_before"] > now else None)
    if breaker != before:
        await keep_breaker(tx, policy.agent, breaker)
    jobs = sorted((Job.of_row(row) for row in claimed), key=lambda job: job.id)
    taken = {job.id for job in jobs}
    # The claim clears the reason why a job waits: it is read from the rows as they were.
    advice = [job.error for job in waiting if job.id in taken and job.error and job.error_class == ADVISORY]
    plan = await _begin(tx, policy, jobs, state, holder=holder, now=now, recollection=recollection)
    return replace(plan, advice="\n".join(dict.fromkeys(advice)))


async def _skip_failed(tx: Tx, waiting: Sequence[Job], what: str, then: str, *, now: float) -> Sequence[Job]:
    """Skip what has failed before and now gets no other try, since `what` forbids it: each keeps why it failed, which
    another try would only meet again. Gives the jobs that are left. `then`: as of `skip_all`."""
    failed = [job for job in waiting if job.state is JobState.FAILED and job.error]
    for error in dict.fromkeys(job.error or "" for job in failed):
        jobs = [job for job in failed if job.error == error]
        cut = error if len(error) <= MOST_ERROR else f"{error[: MOST_ERROR - 1]}…"
        reason = f"{cut.rstrip('. ')}, and its {what}{NO_TRY}"
        await skip_all(tx, jobs, reason, jobs[0].error_class or "crash", now=now, then=then)
    return [job for job in waiting if job not in failed]


def _spent_words(spent: Exhausted, now: float) -> str:
    return f"budget spent: {spent.text}; it can work again at {clock_time(spent.frees_at, now)}"


@dataclass(frozen=True, slots=True)
class Prospect:
    """What becomes of a job of this agent that is queued now. `why`: what keeps it waiting, "" = it begins; not
    `able`: it would be skipped; `probes`: it runs only as the one attempt of an open circuit (`probe_now`)."""

    why: str = ""
    able: bool = True
    probes: bool = False


async def prospect(tx: Tx, policy: Policy, now: float, *, absence: str = "") -> Prospect:
    """The same questions as `claim_next_dispatch` asks, in its order, before a person is told that it is tried.
    `absence`: why the agent's machine cannot be reached, "" = it can."""
    if policy.unable:
        return Prospect(policy.unable, able=False)
    state = await tx.one(Q.agent, name=policy.agent)
    if state is not None and state["paused"]:
        return Prospect(f"it is paused, and waits for `/resume @{policy.agent}`")
    if absence:
        return Prospect(f"it waits for its machine: {absence}")
    breaker, verdict = (await load_breaker(tx, policy)).ask(now)
    if verdict is Verdict.WAIT:
        return Prospect(f"it is rate limited, and waits until {clock_time(breaker.parked_until or now, now)}")
    spent = (
        exhausted(policy.budget, await load_spent(tx, policy.agent, now), now) if policy.budget.any else None
    )
    if spent is not None:
        return Prospect(_spent_words(spent, now), able=False)
    if verdict is Verdict.SKIP:
        return Prospect("its circuit is open, and this attempt closes it or leaves it open", probes=True)
    return Prospect()


async def probe_now(tx: Tx, policy: Policy) -> None:
    """An open circuit lets its one attempt through at once."""
    await keep_breaker(
        tx, policy.agent, replace(await load_breaker(tx, policy), state=BreakerState.HALF_OPEN)
    )


async def _begin(
    tx: Tx,
    policy: Policy,
    jobs: list[Job],
    state: Any,
    *,
    holder: str,
    now: float,
    recollection: Recollection | None,
) -> Plan:
    await hop_limit.worked(tx)
    session = state["session"] or new_session(policy.agent)
    if not state["session"]:
        await tx.execute(
            Q.set_session, name=policy.agent, session=session, resume=None, resume_at=policy.member
        )
    await helpers.fold(tx, Lane(session, policy.agent), "its turn was cut off", role=policy.role)
    rows = await tx.all(Q.messages_by_ids, ids=dumps([job.message_id for job in jobs]))
    asking = {row["id"]: message_of_row(row) for row in rows}
    messages = tuple([await changes.with_new_text(tx, asking[job.message_id]) for job in jobs])
    newest = await tx.one(Q.last_number)
    upto = newest["number"] if newest else 0
    unseen = await tx.all(Q.messages_between, after=state["shown_number"], upto=upto, limit=MOST_CONTEXT)
    heard = {row["message_id"] for row in await tx.all(Q.heard, agent=policy.agent, limit=MOST_CONTEXT)}
    # Another machine's program does not know the conversation.
    resume = state["resume"] if state["resume_at"] in ("", policy.member) else None
    beside = await threads.given(
        tx,
        list(asking.values()),
        without=[*asking, *heard],
        but="" if resume is None else policy.agent,
        characters=policy.context_len // 2,
    )
    aside = {message.id for message in beside}
    shown = _fit(
        await changes.context(
            tx,
            [
                message
                for message in map(message_of_row, unseen)
                # What the room says of itself (skips, outages) is for people; it would crowd out what they said.
                if message.speaker != policy.agent
                and message.id not in asking
                and message.id not in heard
                and message.id not in aside
                and "notice" not in message.meta
            ],
            shown=lambda edited: edited["number"] <= state["shown_number"] or edited["message"] in heard,
            asked=asking,
        ),
        policy.context_len - sum(len(message.body) for message in beside),
    )
    ids = [*asking, *(message.id for message in [*beside, *shown])]
    kept = await pins.given(tx, after=0 if resume is None else state["shown_number"], known=ids)
    ids += [message.id for message in kept]
    seen_events = [row["event_id"] for row in await tx.all(Q.events_of_messages, ids=dumps(ids))]
    lane = Lane(session, policy.agent)
    given = (
        Given()
        if recollection is None
        else await recollection.give(tx, lane, messages=asking, seen=seen_events)
    )
    event = await events.append(
        tx,
        NewEvent(
            type=ledger.TURN_STARTED,
            lane=lane,
            parents=list(dict.fromkeys(job.cause_event for job in jobs)),
            causal_deps=list(dict.fromkeys([*seen_events, *given.events])),
            inputs={
                "messages": [message.id for message in messages],
                "memories": [memory["id"] for memory in given.memories],
            },
            outputs={"jobs": [job.as_fact() for job in jobs]},
            role=policy.role,
        ),
    )
    return Plan(
        policy=policy,
        holder=holder,
        jobs=tuple(jobs),
        messages=messages,
        context="\n".join(
            [
                *(message_text(pin, mark="pinned", files=policy.files) for pin in kept),
                *(message_text(message, mark="in this thread", files=policy.files) for message in beside),
                *(message_text(message, files=policy.files) for message in shown),
            ]
        ),
        shown_number=upto,
        session=session,
        resume=resume,
        event_id=event.id,
        started_at=now,
        given=given,
    )


def _fit(newest_first: Sequence[Message], characters: int) -> list[Message]:
    """The newest messages whose lines fit together into `characters`, oldest first. The newest that is too
    long by itself is cut to its end, where the point usually is."""
    fitting: list[Message] = []
    left = characters
    for message in newest_first:
        size = len(message.speaker) + len(message.body) + 4
        if size > left:
            room = left - len(message.speaker) - 5
            if not fitting and room > 0:
                fitting.append(replace(message, body=f"…{message.body[-room:]}"))
            break
        fitting.append(message)
        left -= size
    return fitting[::-1]


async def skip_all(
    tx: Tx, jobs: Sequence[Job], reason: str, error_class: str | FailureClass, *, now: float, then: str = ""
) -> None:
    """Skip jobs that no turn holds, and say so in the room: once for one agent's jobs. `then` follows the reason in
    the room's message only."""
    for job in jobs:
        await ledger.change_job(
            tx, job, JobState.SKIPPED, now=now, reason=reason, error_class=str(error_class)
        )
    last = jobs[-1]
    await ledger.say(
        tx,
        f"{last.agent} does not answer: {reason.rstrip('. ')}{then}.",
        now=now,
        about=last.message_id,
        meta={"notice": "skipped", "agent": last.agent, "jobs": [job.id for job in jobs]},
    )

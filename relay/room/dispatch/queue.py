"""The dispatch queue (002, section 1): who works on what, durably.

Invariants:
- a job is held by one holder, and a turn ends only the jobs that its holder still holds: a turn that was given
  up for dead cannot answer any more;
- an agent has one turn at a time, in the order of its jobs; what arrived meanwhile becomes one next turn;
- an answer and the end of its job are one transaction;
- whatever keeps a turn from beginning (breaker, budget, not installed) is decided in the claim's transaction,
  is a skip with its reason, and the room says so.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from relay.base.durations import clock_time
from relay.base.terminal_text import lines, safe
from relay.log import events
from relay.log.events import Lane, NewEvent, dumps
from relay.model import STEWARD, Changes, FailureClass, Kind, Message, UsagePart, references
from relay.room.dispatch.breaker import BreakerState, CircuitBreaker, Fate, Verdict, backoff_s, fate
from relay.room.dispatch.budget import DAY_S, HOUR_S, Exhausted, Spent, exhausted
from relay.room.dispatch.roster import Policy
from relay.room.journal import hop_limit, ledger
from relay.room.journal.agent_mentions import pass_on
from relay.room.journal.ledger import Q
from relay.room.journal.rules import Rules
from relay.room.journal.values import Job, JobState, message_of_row
from relay.room.parsing.handoff_footer import footer
from relay.store.ports import Row, Tx

#: Messages that become one turn, and room entries that are looked at for its context.
MOST_JOBS = 20
MOST_CONTEXT = 400
#: Seconds after which a job is given back that its living holder has not in hand.
LOST_AFTER_S = 30.0
#: Why a job waits whose turn was cut off for an advisory, which is the job's reason then.
ADVISORY = "advisory"
#: Interruptions after which a job is dead.
MOST_INTERRUPTIONS = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """A turn that was claimed. `primary` is the newest of its jobs: the answer replies to its message."""

    policy: Policy
    holder: str
    jobs: tuple[Job, ...]
    messages: tuple[Message, ...]
    context: str
    shown_number: int
    session: str
    resume: str | None
    event_id: str
    started_at: float
    #: What its last turn was cut off for; it stands in front of the prompt.
    advice: str = ""

    @property
    def agent(self) -> str:
        return self.policy.agent

    @property
    def primary(self) -> Job:
        return self.jobs[-1]

    @property
    def asked(self) -> Message:
        return self.messages[-1]

    @property
    def interrupted(self) -> bool:
        return any(job.interruptions for job in self.jobs)

    @property
    def prompt(self) -> str:
        asked = [told(message, indent=False) for message in self.messages]
        return "\n\n".join([said(f"[{STEWARD}]", self.advice), *asked] if self.advice else asked)

    @property
    def lane(self) -> Lane:
        return Lane(self.session, self.agent)


@dataclass(frozen=True, slots=True)
class Idle:
    """No turn now. `until`: when to look again (Unix seconds), None = when something changes."""

    until: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn ended. `failure` None: `text` is the answer."""

    text: str = ""
    failure: FailureClass | None = None
    detail: str = ""
    retry_at: float | None = None
    truncated: bool = False
    tools: tuple[str, ...] = ()
    usage: UsagePart = field(default_factory=UsagePart)
    #: The job waits for another turn, and its agent is told that it was cut off: the daemon stops, or there is
    #: `advice` that it has to read before it goes on.
    interrupted: bool = False
    advice: str = ""
    #: What the turn changed in its agent's worktree.
    changes: Changes | None = None
    #: The agent was not asked, since nothing was left to do (`detail`); it reads the messages in its next turn.
    needless: bool = False


def told(message: Message, *, indent: bool = True) -> str:
    """A message as an agent reads it. No line of it but the first can pass for the beginning of another one."""
    tag = f"[{message.speaker}, unverified]" if "unverified" in message.meta else f"[{message.speaker}]"
    return said(tag, message.body, indent=indent or "unverified" in message.meta)


def said(tag: str, text: str, *, indent: bool = True) -> str:
    """`text` under a tag. Its further lines are moved in: all, or those that would pass for a tag of their own."""
    first, *rest = lines(text)
    moved = (f"  {line}" if indent or _POSES.match(_as_seen(line)) else line for line in rest)
    return "\n".join([f"{tag} {first}", *moved])


#: The first letter of the line stands behind a bracket.
_POSES = re.compile(r"[\W_]*\[")


def _as_seen(line: str) -> str:
    """The line's beginning without what nobody sees, and with compatibility forms (a wide bracket) as plain ones."""
    return unicodedata.normalize("NFKC", safe(line[:400]))


def new_session(agent: str) -> str:
    """The id of a new conversation: what the agent's processes get as RELAY_SESSION_ID."""
    return f"{agent.lower()}-{secrets.token_hex(4)}"


async def load_breaker(tx: Tx, policy: Policy) -> CircuitBreaker:
    row = await tx.one(Q.breaker, agent=policy.agent)
    if row is None:
        return CircuitBreaker(policy.threshold, policy.reset_timeout)
    return CircuitBreaker(
        policy.threshold,
        policy.reset_timeout,
        BreakerState(row["state"]),
        row["failures"],
        row["opened_at"],
        row["parked_until"],
    )


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
    if row is None:
        return Spent()
    return Spent(**dict(row))


async def claim_next_dispatch(tx: Tx, policy: Policy, *, holder: str, now: float) -> Plan | Idle:
    """Claim the next turn of an agent, or say until when there is none. Skips what cannot be dispatched."""
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
        reason = (
            f"circuit open after {breaker.failures} failure{'' if breaker.failures == 1 else 's'} in a row"
        )
        # Only said now: the job keeps why it was skipped, which stays true once the circuit is closed.
        then = f"; one attempt at {clock_time(at, now)}, or now by `/try @{policy.agent}`"
        await skip_all(tx, waiting, reason, "circuit_open", now=now, then=then)
        return Idle()
    if policy.budget.any:
        spent = exhausted(policy.budget, await load_spent(tx, policy.agent, now), now)
        if spent is not None:
            await skip_all(tx, waiting, _spent_words(spent, now), "budget", now=now)
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
    plan = await _begin(tx, policy, jobs, state, holder=holder, now=now)
    return replace(plan, advice="\n".join(dict.fromkeys(advice)))


def _spent_words(spent: Exhausted, now: float) -> str:
    return f"budget spent: {spent.text}; it can work again at {clock_time(spent.frees_at, now)}"


@dataclass(frozen=True, slots=True)
class Prospect:
    """What becomes of a job of this agent that is queued now. `why` in words, "" when it just begins; not `able`: it
    would be skipped; `probes`: only as the one attempt of an open circuit (`probe_now`)."""

    why: str = ""
    able: bool = True
    probes: bool = False


async def prospect(tx: Tx, policy: Policy, now: float) -> Prospect:
    """The same questions as `claim_next_dispatch` asks, in its order, before a person is told that it is tried."""
    if policy.unable:
        return Prospect(policy.unable, able=False)
    state = await tx.one(Q.agent, name=policy.agent)
    if state is not None and state["paused"]:
        return Prospect(f"it is paused, and waits for `/resume @{policy.agent}`")
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


async def _begin(tx: Tx, policy: Policy, jobs: list[Job], state: Any, *, holder: str, now: float) -> Plan:
    await hop_limit.worked(tx)
    session = state["session"] or new_session(policy.agent)
    if not state["session"]:
        await tx.execute(Q.set_session, name=policy.agent, session=session, resume=None)
    rows = await tx.all(Q.messages_by_ids, ids=dumps([job.message_id for job in jobs]))
    asking = {row["id"]: message_of_row(row) for row in rows}
    messages = tuple(asking[job.message_id] for job in jobs)
    newest = await tx.one(Q.last_number)
    upto = newest["number"] if newest else 0
    unseen = await tx.all(Q.messages_between, after=state["shown_number"], upto=upto, limit=MOST_CONTEXT)
    shown = _fit(
        [
            message
            for message in map(message_of_row, unseen)
            # What the room says of itself (skips, outages) is for people; it would crowd out what they said.
            if message.speaker != policy.agent and message.id not in asking and "notice" not in message.meta
        ],
        policy.context_len,
    )
    ids = [*asking, *(message.id for message in shown)]
    seen_events = [row["event_id"] for row in await tx.all(Q.events_of_messages, ids=dumps(ids))]
    event = await events.append(
        tx,
        NewEvent(
            type=ledger.TURN_STARTED,
            lane=Lane(session, policy.agent),
            parents=list(dict.fromkeys(job.cause_event for job in jobs)),
            causal_deps=seen_events,
            inputs={"messages": [message.id for message in messages], "context": [m.id for m in shown]},
            outputs={"jobs": [job.as_json() for job in jobs]},
            role="agent",
        ),
    )
    return Plan(
        policy=policy,
        holder=holder,
        jobs=tuple(jobs),
        messages=messages,
        context="\n".join(told(message) for message in shown),
        shown_number=upto,
        session=session,
        resume=state["resume"],
        event_id=event.id,
        started_at=now,
    )


def _fit(newest_first: Sequence[Message], characters: int) -> list[Message]:
    """The newest messages whose lines fit together into `characters`, oldest first. The newest that is too
    long by itself is cut to its end, where the point usually is."""
    kept: list[Message] = []
    left = characters
    for message in newest_first:
        size = len(message.speaker) + len(message.body) + 4
        if size > left:
            room = left - len(message.speaker) - 5
            if not kept and room > 0:
                kept.append(replace(message, body=f"…{message.body[-room:]}"))
            break
        kept.append(message)
        left -= size
    return kept[::-1]


async def skip_all(
    tx: Tx, jobs: Sequence[Job], reason: str, error_class: str | FailureClass, *, now: float, then: str = ""
) -> None:
    """Skip jobs that no turn holds, and say so in the room: once for one agent's jobs. `then` follows the reason
    there, and is kept nowhere."""
    for job in jobs:
        await ledger.change_job(
            tx, job, JobState.SKIPPED, now=now, reason=reason, error_class=str(error_class)
        )
    last = jobs[-1]
    await ledger.say(
        tx,
        f"{last.agent} was skipped: {reason}{then}.",
        now=now,
        about=last.message_id,
        meta={"notice": "skipped", "agent": last.agent, "jobs": [job.id for job in jobs]},
    )


async def finish(
    tx: Tx, plan: Plan, outcome: Outcome, *, now: float, chance: float, answer_id: str | None = None
) -> bool:
    """End a turn: its jobs, its answer or its failure, breaker and spending, in one transaction.

    False when the jobs are not this holder's any more; nothing is changed then.
    """
    held = await tx.all(Q.held_jobs, ids=dumps([job.id for job in plan.jobs]), holder=plan.holder)
    if len(held) != len(plan.jobs) or any(
        row["started_at"] != job.started_at for row, job in zip(held, plan.jobs, strict=True)
    ):
        return False
    if outcome.needless:
        await _end(tx, plan, {JobState.SKIPPED: plan.jobs}, outcome, now=now)
        return True
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
        await _end(tx, plan, {JobState.PENDING: plan.jobs}, outcome, now=now, interrupted=True)
        # Neither a stop of the daemon nor an advisory is the job's fault: the attempt is given back.
        await tx.execute(Q.refund_attempt, ids=dumps([job.id for job in plan.jobs]))
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
        rows += await tx.all(
            Q.end_jobs,
            ids=dumps([job.id for job in jobs]),
            state=str(state),
            error=outcome.advice or outcome.detail or None,
            error_class=ADVISORY if outcome.advice else outcome.failure and str(outcome.failure),
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
                "jobs": [Job.of_row(row).as_json() for row in sorted(rows, key=lambda row: int(row["id"]))],
                "failure": outcome.failure and str(outcome.failure),
                "usage": outcome.usage.as_json(),
                "tools": list(outcome.tools),
            },
            role="agent",
        ),
    )


async def _answer(tx: Tx, plan: Plan, outcome: Outcome, *, now: float, answer_id: str) -> None:
    ended = await _end(tx, plan, {JobState.DONE: plan.jobs}, outcome, now=now, answer_id=answer_id)
    meta: dict[str, Any] = {}
    if outcome.tools:
        meta["tools"] = list(outcome.tools)[-50:]
    if outcome.usage.counted or outcome.usage.cache_read_tokens:
        meta["usage"] = outcome.usage.as_json()
    if outcome.truncated:
        meta["truncated"] = True
    if outcome.changes is not None:
        meta["worktree"] = outcome.changes.as_json()
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
            await _agent_state(tx, plan, "circuit_closed", [ended.id])
            await ledger.say(
                tx,
                f"{plan.agent} answers again; its circuit is closed.",
                now=now,
                about=plan.asked.id,
                parents=[ended.id],
                meta={"notice": "circuit_closed", "agent": plan.agent},
            )
    # What an agent answers to an advisory alone sets nobody to work.
    if plan.policy.agent_mentions and any(one.kind is not Kind.ADVISORY for one in plan.messages):
        policy = plan.policy
        await pass_on(tx, answer, event.id, names=policy.names, hop_limit=policy.hop_limit, now=now)


async def _fail(
    tx: Tx, plan: Plan, outcome: Outcome, failure: FailureClass, *, now: float, chance: float
) -> None:
    policy = plan.policy
    # Each job by its own attempts: one that arrived meanwhile does not prolong those it was joined to.
    fates = {job: fate(failure, job.attempts, policy.max_attempts) for job in plan.jobs}
    before = await load_breaker(tx, policy)
    after = before.failed(failure, now, outcome.retry_at)
    if after != before:
        await keep_breaker(tx, plan.agent, after)
    wait = now + backoff_s(plan.primary.attempts, policy.backoff_s, policy.backoff_max_s, chance)
    ends = {
        _STATE_OF[what]: [job for job in plan.jobs if fates[job] is what]
        for what in dict.fromkeys(fates.values())
    }
    ended = await _end(tx, plan, ends, outcome, now=now, retry_at=wait)
    if failure is FailureClass.RATE_LIMIT:
        # The limit is not the job's fault: the attempt is given back.
        await tx.execute(Q.refund_attempt, ids=dumps([job.id for job in plan.jobs]))
    for what in dict.fromkeys(fates.values()):
        about = [message for job, message in zip(plan.jobs, plan.messages, strict=True) if fates[job] is what]
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
        await _agent_state(tx, plan, "circuit_open", [ended.id], after)
        await ledger.say(
            tx,
            f"{plan.agent}'s circuit is open after {after.failures} failures in a row: it gets no work until "
            f"{clock_time(after.retry_at or now, now)}, then one attempt. `/try @{plan.agent}` makes it now.",
            now=now,
            about=plan.asked.id,
            parents=[ended.id],
            meta={"notice": "circuit_open", "agent": plan.agent},
        )


_STATE_OF = {
    Fate.RETRY: JobState.FAILED,
    Fate.PARK: JobState.PENDING,
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
        return f"{plan.agent} was skipped: {detail}."
    if what is Fate.PARK:
        until = clock_time(breaker.parked_until or now, now)
        return f"{plan.agent} is rate limited until {until}: {detail}. It continues then."
    return ""


async def _agent_state(
    tx: Tx, plan: Plan, state: str, parents: Sequence[str], breaker: CircuitBreaker | None = None
) -> None:
    outputs: dict[str, Any] = {"agent": plan.agent, "state": state}
    if breaker is not None:
        outputs |= {key: value for key, value in asdict(breaker).items() if key != "state"}
    await events.append(
        tx,
        NewEvent(
            type=ledger.AGENT_STATE,
            lane=ledger.cycle_lane(plan.asked.id),
            parents=parents,
            outputs=outputs,
        ),
    )


async def lift_hops(tx: Tx, rules: Rules, *, now: float, parents: Sequence[str]) -> str:
    """`/continue`: the count begins anew, and what was held back is dispatched. Says what was done."""
    await hop_limit.reset(tx)
    told: list[str] = []
    for held in await hop_limit.release(tx):
        message = await ledger.message(tx, held.message_id)
        if message is None:
            continue
        if held.agents:
            jobs = await ledger.queue_jobs(tx, message.id, held.agents, parents=parents, now=now)
            told += [f"{references.message(message.number)} goes to {job.agent}" for job in jobs]
        elif await tx.one(Q.cycle, message_id=message.id) is None:
            await ledger.open_cycle(tx, message, rules, now=now)
            told.append(f"{references.message(message.number)} is routed")
    if not told:
        return "The hop limit starts again. Nothing was held."
    more = f" and {len(told) - 20} more" if len(told) > 20 else ""
    return f"Released: {', '.join(told[:20])}{more}."


async def skip_unknown(tx: Tx, names: Sequence[str], *, now: float) -> list[str]:
    """Skip what waits for agents that the configuration does not have any more, and say so in the room."""
    gone = []
    for row in await tx.all(Q.open_counts):
        if row["agent"] not in names and row["agent"] != STEWARD:
            jobs = [Job.of_row(one) for one in await tx.all(Q.open_jobs_of_agent, agent=row["agent"])]
            await skip_all(tx, jobs, "it is not in the configuration any more", "not_configured", now=now)
            gone.append(row["agent"])
    return gone


async def recover_stale_active(
    tx: Tx,
    *,
    now: float,
    stale_after_s: float,
    holder: str,
    is_dead: Callable[[str], bool],
    running: Container[int] = (),
) -> list[Job]:
    """Give back the jobs of holders that are dead, or that hold them for longer than `stale_after_s` with an
    expired lease (002, section 1). The agent's next turn is told that it was cut off.

    `running` are the jobs that `holder`, who asks, really has in hand: one that it only seems to hold (its end
    could not be recorded) is given back like those of the dead.
    """
    recovered = []
    for row in await tx.all(Q.active_jobs):
        job = Job.of_row(row)
        if job.holder == holder and (job.id in running or now - (job.started_at or 0.0) < LOST_AFTER_S):
            continue
        old = now - (job.started_at or 0.0) > stale_after_s and (row["lease_until"] or 0.0) < now
        lost = job.holder is None or job.holder == holder or is_dead(job.holder)
        if not (old or lost):
            continue
        times = job.interruptions + 1
        if times >= MOST_INTERRUPTIONS:
            # A turn that ends its daemon would do so at every start.
            reason = f"its turn was cut off {times} times"
            recovered.append(
                await ledger.change_job(
                    tx, job, JobState.DEAD, now=now, reason=reason, error_class="interrupted"
                )
            )
            await ledger.say(
                tx,
                f"{job.agent} could not answer: {reason}. `/retry` tries again.",
                now=now,
                about=job.message_id,
                meta={"notice": "dead", "agent": job.agent},
            )
            continue
        # The end of a daemon is not the job's fault: the attempt is given back.
        attempts = max(0, job.attempts - 1)
        recovered.append(
            await ledger.change_job(
                tx, job, JobState.PENDING, now=now, interruptions=times, attempts=attempts
            )
        )
    return recovered

"""Jobs that nobody works on any more: their holder is dead, their agent is gone, or the hop limit holds them."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence

from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.model import STEWARD, references
from relay.room.dispatch import helpers
from relay.room.dispatch.queue import skip_all
from relay.room.journal import hop_limit, ledger
from relay.room.journal.admission_rules import Rules
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, JobState
from relay.store.ports import Tx

#: Seconds after which a job is given back that its living holder has not in hand.
LOST_AFTER_S = 30.0
#: How a person's own session signs the jobs that it heard of (docs/attach.md): they end with it, and with no daemon.
SESSION_HOLDER = "session:"
#: Interruptions after which a job is dead.
MOST_INTERRUPTIONS = 20


async def recover_stale_active(
    tx: Tx,
    *,
    now: float,
    stale_after_s: float,
    holder: str,
    is_dead: Callable[[Job], bool],
    running: Container[int] = (),
) -> list[Job]:
    """Give back the jobs of holders that are dead, or that hold them for longer than `stale_after_s` with an
    expired lease (002, section 1). The agent's next turn is told that it was cut off. `is_dead`: is the job's holder
    dead, or gone so that the job does not wait for it?

    `running` are the jobs that `holder`, who asks, really has in hand: one that it only seems to hold (its end
    could not be recorded) is given back like those of the dead.
    """
    recovered = []
    for row in await tx.all(Q.active_jobs):
        job = Job.of_row(row)
        if (job.holder or "").startswith(SESSION_HOLDER):
            continue
        if job.holder == holder and (job.id in running or now - (job.started_at or 0.0) < LOST_AFTER_S):
            continue
        old = now - (job.started_at or 0.0) > stale_after_s and (row["lease_until"] or 0.0) < now
        lost = job.holder is None or job.holder == holder or is_dead(job)
        if not (old or lost):
            continue
        await _fold_helpers(tx, job.agent)
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


async def take_back(tx: Tx, running: Iterable[int], holder: str) -> list[Job]:
    """Jobs that were given back although their turns still run in the daemon that signs as `holder`: where nobody has
    begun them anew, they are its again, so that a turn's end counts."""
    taken = []
    for id in sorted(running):
        row = await tx.one(Q.hold_again, id=id, holder=holder)
        if row is None:
            continue
        job = Job.of_row(row)
        await events.append(
            tx,
            NewEvent(
                type=ledger.CHANGED,
                lane=ledger.cycle_lane(job.message_id),
                parents=[job.cause_event],
                inputs={"job": job.id, "agent": job.agent},
                outputs={"jobs": [job.as_fact()]},
            ),
        )
        taken.append(job)
    return taken


async def _fold_helpers(tx: Tx, agent: str) -> None:
    """The helpers of its turn are gone with it."""
    state = await tx.one(Q.agent, name=agent)
    if state is not None and state["session"]:
        await helpers.fold(tx, Lane(state["session"], agent), "its turn was cut off")


async def skip_unknown(tx: Tx, names: Sequence[str], *, now: float) -> list[str]:
    """Skip what waits for agents that the configuration does not have any more, and say so in the room."""
    gone = []
    for row in await tx.all(Q.open_counts):
        if row["agent"] not in names and row["agent"] != STEWARD:
            jobs = [Job.of_row(job_row) for job_row in await tx.all(Q.open_jobs_of_agent, agent=row["agent"])]
            await skip_all(tx, jobs, "it is not in the configuration any more", "not_configured", now=now)
            gone.append(row["agent"])
    return gone


async def give_up(tx: Tx, agents: Sequence[str], reason: str, *, now: float) -> int:
    """Skip all that waits for agents whose machine nobody expects any more, and what their turns had there. The
    caller tells the room. Gives the number of messages."""
    await recover_stale_active(
        tx, now=now, stale_after_s=math.inf, holder="", is_dead=lambda job: job.agent in agents
    )
    messages = set()
    for agent in agents:
        for row in await tx.all(Q.open_jobs_of_agent, agent=agent):
            job = Job.of_row(row)
            await ledger.change_job(
                tx, job, JobState.SKIPPED, now=now, reason=reason, error_class="not_configured"
            )
            messages.add(job.message_id)
    return len(messages)


async def lift_hops(tx: Tx, rules: Rules, *, now: float, parents: Sequence[str]) -> str:
    """`/continue`: the count begins anew, and what was held back is dispatched. Says what was done."""
    await hop_limit.reset(tx)
    released: list[str] = []
    for held in await hop_limit.release(tx):
        message = await ledger.message(tx, held.message_id)
        if message is None:
            continue
        if held.agents:
            jobs = await ledger.queue_jobs(tx, message.id, held.agents, parents=parents, now=now)
            released += [f"{references.message(message.number)} goes to {job.agent}" for job in jobs]
        elif await tx.one(Q.cycle, message_id=message.id) is None:
            await ledger.open_cycles(tx, [message], rules, now=now)
            released.append(f"{references.message(message.number)} is routed")
    if not released:
        return "The hop limit starts again. Nothing was held."
    more = f" and {len(released) - 20} more" if len(released) > 20 else ""
    return f"Released: {', '.join(released[:20])}{more}."

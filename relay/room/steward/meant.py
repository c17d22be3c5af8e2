"""What people mean by a number, or by an agent's name: a message, or jobs."""

from __future__ import annotations

from collections.abc import Collection

from relay.log.encoding import dumps
from relay.model import STEWARD, Message, Refusal, references
from relay.room.dispatch.budget import DAY_S
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, JobState, message_of_row
from relay.store.ports import Tx

#: Jobs that ended badly, among which those are that nobody took up.
MOST_JOBS = 100


async def message_of(tx: Tx, number: int) -> Message:
    """Raises Refusal."""
    row = await tx.one(Q.message_by_number, number=number)
    if row is None:
        raise Refusal(f"There is no message {references.message(number)}.", "Each message shows its number.")
    return message_of_row(row)


def refuse_deleted(message: Message) -> None:
    """Raises Refusal: nobody is asked what was taken back."""
    if "deleted" in message.meta:
        raise Refusal(f"{references.message(message.number)} was deleted.", "Send a new message.")


async def jobs_of(tx: Tx, number: int, of: str) -> list[Job]:
    """The jobs that people mean by a number: of the message, of the answer's question, or the job itself.
    Raises Refusal."""
    if of != "job":
        row = await tx.one(Q.message_by_number, number=number)
        if row is not None:
            jobs = [Job.of_row(job) for job in await tx.all(Q.jobs_of_message, message_id=row["id"])]
            if not jobs and row["in_reply_to"]:
                jobs = [Job.of_row(j) for j in await tx.all(Q.jobs_of_message, message_id=row["in_reply_to"])]
            jobs = [job for job in jobs if job.agent != STEWARD]
            if jobs or of == "message":
                return jobs
    row = await tx.one(Q.job, id=number)
    if row is None:
        raise Refusal(
            f"There is no message {references.message(number)} and no job {references.job(number)}.",
            "`/queue` shows the jobs.",
        )
    return [Job.of_row(row)]


async def given_up(tx: Tx, agents: Collection[str], now: float) -> list[tuple[Job, Message]]:
    """What these agents were asked in the last day and will not answer by themselves, with its message, the newest
    first: of the last 100 jobs that ended badly, those that nobody cancelled and no other agent took over."""
    jobs = [
        job
        for job in [Job.of_row(row) for row in await tx.all(Q.last_skips, limit=MOST_JOBS)]
        if job.agent in agents
        and now - (job.ended_at or job.created_at) <= DAY_S
        and job.error_class not in ("cancelled", "not_configured")
        and job.folded_into is None
    ]
    if not jobs:
        return []
    rows = await tx.all(Q.messages_by_ids, ids=dumps(sorted({job.message_id for job in jobs})))
    messages = {row["id"]: message_of_row(row) for row in rows}
    return [
        (job, message)
        for job in jobs
        if (message := messages.get(job.message_id)) is not None
        and "deleted" not in message.meta
        and not await taken_over(tx, job)
    ]


async def taken_over(tx: Tx, job: Job) -> bool:
    """Does another agent answer the job's message by now, or has one?"""
    others = [Job.of_row(row) for row in await tx.all(Q.jobs_of_message, message_id=job.message_id)]
    taken = (JobState.PENDING, JobState.ACTIVE, JobState.FAILED, JobState.DONE)
    return any(other.id > job.id and other.state in taken for other in others)

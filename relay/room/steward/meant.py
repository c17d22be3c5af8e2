"""What people mean by a number: a message, or jobs."""

from __future__ import annotations

from relay.model import STEWARD, Message, Refusal, references
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, message_of_row
from relay.store.ports import Tx


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

"""Tasks that wait for a person's word: their agent has answered, and nobody has said that they are done."""

from __future__ import annotations

from collections.abc import Collection

from relay.app.needs.need import Kind, Need, NeedAction
from relay.app.needs.words import short
from relay.model import Board, actions, references
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, JobState
from relay.store.ports import Tx

#: Characters of a title.
MOST_TITLE = 80


async def answered_tasks(tx: Tx, board: Board, questions: Collection[str]) -> list[Need]:
    """Tasks that were given to an agent, which has answered the message and has not ended the task. `questions`:
    answers (`m17`) of which another need says that they ask something."""
    found = []
    for task in await board.list(tx):
        if task.given_to is None:
            continue
        message, _, agent = task.given[-1]
        jobs = [Job.of_row(row) for row in await tx.all(Q.jobs_of_message, message_id=message)]
        done = next((job for job in jobs if job.agent == agent and job.state is JobState.DONE), None)
        row = None if done is None or done.answer_id is None else await tx.one(Q.message, id=done.answer_id)
        if done is None or row is None or references.message(row["number"]) in questions:
            continue
        title = short(task.title, MOST_TITLE)
        text = f"{agent} has answered {task.ref} “{title}” ({references.message(row['number'])}). Is it done?"
        id = f"answered:{task.ref}"
        buttons = (
            NeedAction("done", "It is done", actions.MoveTask(task.number, actions.Status.DONE)),
            NeedAction("again", "Give it again", actions.Give((task.number,), agent)),
            NeedAction("later", "Later", actions.PutOff(id)),
        )
        found.append(
            Need(id, Kind.ANSWERED, done.ended_at or done.created_at, agent, text, buttons, task.ref)
        )
    return found

"""Whether the work for a task is in the main branch.

Invariant: the inbox, the board, the task's dialog, `/task t3` and `relay work show` say it by this one function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from relay.airspace.worktrees.lifecycle import CHANGED, DISCARDED, FORWARDED, MERGED, RESTORED
from relay.airspace.worktrees.merging.takebacks import taken_merge
from relay.base.durations import parse_iso
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event
from relay.model import BoardTask
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, JobState, message_of_row
from relay.store.ports import Tx

#: Tasks that are looked at, those given last; jobs of a message; changes of worktrees, the newest.
MOST_TASKS, MOST_JOBS, MOST_CHANGES = 100, 10, 1000


class Landing(NamedTuple):
    """`commit`: the merge; `at`: when, in Unix seconds."""

    commit: str
    at: float


async def landed(tx: Tx, tasks: Sequence[BoardTask]) -> Mapping[str, Landing | None]:
    """By the id of a task, the merge that brought what its last agent changed for it into the main branch; None: it
    is in that agent's branch still, or again. Not in it: a task that nobody was given or changed anything for, and
    one whose work is in neither, as far as the room knows."""
    last = sorted((task for task in tasks if task.given), key=lambda task: task.given[-1][1])[-MOST_TASKS:]
    if not last:
        return {}
    # What it was given again for, it may have changed before.
    ids = [message for task in last for message, _, agent in task.given if agent == task.given[-1][2]]
    rows = await tx.all(Q.jobs_of_messages, ids=dumps(ids), limit=MOST_JOBS * len(ids))
    jobs = {(job.message_id, job.agent): job for job in map(Job.of_row, rows) if job.state is JobState.DONE}
    answers = dumps([job.answer_id for job in jobs.values() if job.answer_id])
    told = {row["id"]: message_of_row(row) for row in await tx.all(Q.messages_by_ids, ids=answers)}
    if not told:
        return {}
    # Of all agents at once: the log is looked through once, however many there are.
    changes = await events.about(tx, '"change"', types=[CHANGED], limit=MOST_CHANGES)
    found = dict[str, Landing | None]()
    for task in last:
        agent = task.given[-1][2]
        for message, _, _ in reversed(task.given):
            job = jobs.get((message, agent))
            answer = None if job is None or job.answer_id is None else told.get(job.answer_id)
            if job is None or answer is None or not answer.meta.get("worktree"):
                continue
            merge, there = _merge(changes, agent, job.ended_at or job.created_at)
            if merge is not None or there:
                found[task.id] = merge
            break
    return found


def _merge(changes: Sequence[Event], agent: str, since: float) -> tuple[Landing | None, bool]:
    """The merge by which the agent's work of that time came into the main branch; None: it did not land, was
    discarded before, or was taken back. And whether it is in the agent's branch and not in the main branch.
    `changes`: the newest first."""
    merge, gone, there = None, False, True
    for event in reversed(changes):
        told = event.outputs
        if told["agent"] != agent or parse_iso(event.at) < since:
            continue
        if told["change"] in (DISCARDED, RESTORED) and merge is None:
            gone = told["change"] == DISCARDED
            there = not gone
        elif told["change"] == FORWARDED:
            there = False  # it had nothing of its own any more
        elif told["change"] == MERGED and not gone:
            merge = merge or Landing(told["commit"], parse_iso(event.at))
        elif merge is not None and taken_merge(told) == merge.commit:
            merge, there = None, True
    return merge, there and merge is None

"""What becomes of a task that a person gave to an agent, by what becomes of the message that gave it.

Invariants:
- a task is its agent's as long as the message waits, is worked on, or was answered. An answer alone ends no task: the
  agent does (`complete_work`), or a person;
- a message that was skipped or given up leaves its task open to others, with the reason; when it is tried again, the
  task is its agent's again;
- each is a change of the task with its event, in the transaction that moves the cursor.
"""

from __future__ import annotations

from typing import Any

from relay.base.terminal_text import flat
from relay.coordination.tasks.board import Board
from relay.coordination.tasks.task_events import CHANGED as TASK_CHANGED
from relay.log import follow
from relay.log.events import Event, Lane
from relay.room.journal import ledger
from relay.room.journal.values import JobState
from relay.store.ports import Store, Tx

#: Characters of the reason that a task's note has.
MOST_REASON = 300


class GivenTasks:
    """A follower of the log (`relay.log.follow`)."""

    name = "given-tasks"
    reads = frozenset({ledger.CHANGED, ledger.TURN_ENDED})
    emits = frozenset({TASK_CHANGED})

    def __init__(self, store: Store, board: Board) -> None:
        self._store, self._board = store, board

    async def run(self) -> None:
        """Follow the log. Never ends."""
        await follow.run(self._store, self)

    async def apply(self, tx: Tx, event: Event) -> None:
        for job in (event.outputs or {}).get("jobs") or ():
            if job.get("state") not in (JobState.SKIPPED, JobState.DEAD, JobState.PENDING):
                continue
            message = await ledger.message(tx, str(job["message_id"]))
            given = None if message is None else message.meta.get("given")
            if message is None or message.kind != "human" or not isinstance(given, dict):
                continue
            lane = Lane("room", f"given:{event.id}:{job['id']}", short=True)
            why = None if job["state"] == JobState.PENDING else _why(job)
            await self._board.message_stands(
                tx, int(given["number"]), message.id, str(job["agent"]), why, lane=lane, cause=[event.id]
            )


def _why(job: dict[str, Any]) -> str:
    how = "could not answer" if job["state"] == JobState.DEAD else "did not answer"
    reason = flat(str(job.get("reason") or "")).rstrip(". ")[:MOST_REASON]
    return f"{job['agent']} {how}{': ' * bool(reason)}{reason}."

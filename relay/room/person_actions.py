"""What people do in the page.

Invariant: an action and its answer are messages of the room, as if the person had typed the command. So everybody
sees who did what.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from relay.log.events import Lane
from relay.model import TASK_STATUSES, AgentConfig, Board, Fault, Message, Refusal, references
from relay.model.actions import (
    Action,
    AddTask,
    Answer,
    Cancel,
    EditTasks,
    Give,
    MoveTask,
    Retry,
    Route,
    SendReview,
    SetAgent,
    Status,
    Steer,
)
from relay.room.journal import ledger
from relay.room.poster import Poster
from relay.room.reader import Reader
from relay.room.steward.worker import Steward
from relay.store.ports import Tx

#: Seconds that an action waits for the steward.
ANSWER_S = 20.0


class PersonActions:
    """Every method raises Refusal. `by` is the person's name."""

    def __init__(
        self,
        reader: Reader,
        poster: Poster,
        steward: Steward,
        board: Board,
        config: AgentConfig,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._reader, self._poster, self._steward = reader, poster, steward
        self._board, self._config, self._clock = board, config, clock

    async def act(
        self,
        action: Action,
        *,
        by: str,
        also: Callable[[Tx, Message], Awaitable[None]] | None = None,
        reply_to: str | None = None,
    ) -> Answer:
        """Do what a person orders, and give the room's answer. Where it is a message for agents, `also`: what else is
        written with it; `reply_to`: the id of the message that it answers."""
        for agent in action.named():
            # A turn may run on after its agent has left the configuration; sessions hear and are given tasks, too.
            gone = isinstance(action, Cancel) and self._reader.is_working(agent)
            if not gone and not (isinstance(action, Give | Steer) and agent in await self._reader.sessions()):
                self._reader.require_agent(agent)
        if isinstance(action, Steer | SendReview):
            # A message: its receipts are its answer.
            posted = await self._poster.post(action.line(), name=by, also=also, in_reply_to=reply_to)
            return Answer(True, f"Said to {', '.join(action.named())} ({references.message(posted.number)}).")
        id = ledger.new_id()
        with self._steward.answer_to(id) as answer:
            await self._poster.post(action.line(), name=by, action=action, id=id)
            try:
                async with asyncio.timeout(ANSWER_S):
                    return await answer
            except TimeoutError:
                # Done, and lost on its way here: a commit whose connection broke, or a steward that began anew.
                if stored := await self._steward.stored_answer(id):
                    return stored
                raise Refusal(
                    "The room has not processed it yet.", "It is queued: look in the room.", Fault.BUSY
                ) from None

    async def route(self, message_id: str, agents: Sequence[str], *, by: str) -> Answer:
        message = await self._reader.message(message_id)
        if not agents:
            raise Refusal("No agent was named.", self._reader.agents_fix, Fault.MALFORMED)
        return await self.act(Route(tuple(dict.fromkeys(agents)), message.number), by=by)

    async def retry(self, job: int, *, by: str) -> Answer:
        await self._reader.job(job)
        return await self.act(Retry(job, "job"), by=by)

    async def set_agent(self, action: SetAgent, *, by: str) -> dict[str, Any]:
        """What the action sets is written into the configuration; it applies at once, and the room is told."""
        self._reader.require_agent(action.agent)
        result = await self._config.set_agent(action.agent, action.changes)
        if result.get("success"):
            meta, text = {"notice": "agent_settings"}, action.said(by)
            await self._poster.write(lambda tx: ledger.say(tx, text, now=self._clock(), meta=meta))
        return result

    async def create_task(self, title: str, description: str | None = None, *, by: str) -> dict[str, Any]:
        """A new task, as `/task` makes it. `description`: Markdown."""
        title = " ".join(title.split())
        if not title:
            raise Refusal("The title is empty.", "Give the task a title.", Fault.MALFORMED)
        description = (description or "").strip("\n").rstrip() or None
        answer = await self.act(AddTask(title, description), by=by)
        if not answer.success or answer.task is None:
            raise Refusal(answer.text, "`/help /task` shows how.", Fault.MALFORMED)
        task = await self._reader.task(answer.task)
        if task is None:
            raise Refusal(
                f"Task {references.task(answer.task)} was taken off the board meanwhile.",
                "`/undo` brings it back.",
                Fault.UNKNOWN,
            )
        return task

    async def change_task(
        self, number: int, changes: Mapping[str, Any], edits: Sequence[EditTasks] = (), *, by: str
    ) -> dict[str, Any]:
        """Move or rename a task, and make these `edits` of it, one after another. A refusal is a Refusal. With `undo`
        in what it gives: the command that takes the one change back."""
        task = await self._reader.task(number)
        if task is None:
            raise Refusal(
                f"There is no task {references.task(number)}.", "GET /api/tasks lists them.", Fault.UNKNOWN
            )
        status, title = changes.get("status"), changes.get("title")
        if status is None and title is None and not edits:
            raise Refusal("Nothing to change.", "Give `status` or `title`.", Fault.MALFORMED)
        if status is not None and status not in TASK_STATUSES:
            raise Refusal(
                f"There is no status {status!r}.", f"One of: {', '.join(TASK_STATUSES)}.", Fault.MALFORMED
            )
        if title is not None and title != task["title"]:
            await self._rename(number, str(title), by)
        orders, back = list[Action](edits), ""
        if status is not None and status != task["status"]:
            orders.append(MoveTask(number, Status(status)))
        for order in orders:
            answer = await self.act(order, by=by)
            if not answer.success:
                raise Refusal(answer.text, "GET /api/tasks shows the board.")
            back = answer.undo if len(orders) == 1 else ""
        task = await self._reader.task(number) or task
        return {**task, "undo": back} if back else task

    async def _rename(self, number: int, title: str, by: str) -> None:
        speaker = self._poster.person(by)

        async def work(tx: Tx) -> None:
            text = f"{speaker} renamed task {references.task(number)} to “{' '.join(title.split())}”."
            _, event = await ledger.say(tx, text, now=self._clock(), meta={"notice": "task"})
            lane = Lane(event.session, event.lane, short=True)
            await self._board.rename(tx, number, title, by=speaker, lane=lane, cause=[event.id])

        try:
            await self._poster.write(work)
        except Refusal as refusal:
            if refusal.fault in (Fault.BUSY, Fault.UNAVAILABLE):
                raise  # the store's, not the board's: the client asks again
            raise Refusal(refusal.message, refusal.fix or "GET /api/tasks shows the board.") from None

"""The steward's desk: commands and what is asked of RELAY, answered by the room itself, without a model.

Invariant: a job of the steward is carried out, answered and ended in one transaction; killed at any instant, it
is either done and answered or still waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from relay.config.command_line import command
from relay.log import events
from relay.log.events import NewEvent
from relay.model import STEWARD, Board, Holds, Message, Refusal
from relay.room.dispatch import roster
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.worker import Drain
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job
from relay.room.parsing import commands
from relay.room.steward import answers
from relay.room.steward.actions import Act, Acts, Done
from relay.store.ports import Store, Tx

log = structlog.get_logger(__name__)
POLL_S = 5.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the steward can say of the room that is not in the database."""

    people: Sequence[str]
    dispatcher: Mapping[str, Any]
    address: str
    config: str


class Desk:
    """Answers the steward's jobs, one after the other."""

    def __init__(
        self,
        store: Store,
        acts: Acts,
        board: Board,
        drain: Drain,
        roster: Callable[[], Roster],
        surroundings: Callable[[], Surroundings],
        *,
        holds: Holds | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._acts = acts
        self._board = board
        self._drain = drain
        self._roster = roster
        self._surroundings = surroundings
        self._holds = holds
        self._clock = clock

    async def run(self) -> None:
        """Answer for ever."""
        wakeup = self._store.wakeup(ledger.OF_THE_ROOM)
        try:
            while True:
                waiting = await self._store.read(
                    lambda tx: tx.all(Q.open_jobs_of_agent, agent=STEWARD), single=True
                )
                for row in waiting:
                    await self._answer(Job.of_row(row))
                if not waiting:
                    await wakeup.wait(POLL_S)
        finally:
            wakeup.close()

    async def _answer(self, job: Job) -> None:
        asked_by = ""

        async def work(tx: Tx) -> Done:
            nonlocal asked_by
            row = await tx.one(Q.job, id=job.id)
            message = await ledger.message(tx, job.message_id)
            if row is None or row["state"] not in ("pending", "failed") or message is None:
                return Done("")
            asked_by = message.speaker
            done, meta = await self._carry_out(tx, message)
            await self._end(tx, job, message, done.text, meta)
            return done

        try:
            done = await self._store.write(work)
        except Refusal as refusal:
            # What the act had begun is rolled back; the refusal is the answer.
            text = str(refusal)
            await self._store.write(lambda tx: self._refuse(tx, job, text))
            return
        except self._store.transient:
            raise
        except Exception as error:
            log.exception("steward failed", job=job.id, message=job.message_id)
            text = (
                f"That went wrong inside the room ({type(error).__name__}); {command('log')} has the details."
            )
            await self._store.write(lambda tx: self._refuse(tx, job, text))
            return
        for agent, held in done.cancel:
            self._drain.cancel(agent, asked_by, held)
        if done.after is not None:
            done.after()

    async def _refuse(self, tx: Tx, job: Job, text: str) -> None:
        message = await ledger.message(tx, job.message_id)
        if message is not None:
            await self._end(tx, job, message, text, {"error": True})

    async def _carry_out(self, tx: Tx, message: Message) -> tuple[Done, dict[str, Any]]:
        now = self._clock()
        command = commands.parse(message.body, dict.fromkeys([*self._roster().names, *self._drain.running]))
        if isinstance(command, commands.Problem):
            return Done(command.text), {"error": True}
        if command is None:
            return Done(answers.answer(message.body, await self.view(tx, message.speaker))), {}
        event = await tx.one(Q.event_of_message, id=message.id)
        act = Act(
            by=message.speaker,
            message=message,
            event_id=event["event_id"] if event else "",
            verified="unverified" not in message.meta,
            now=now,
        )
        done = await self._acts.obey(tx, command, act, lambda: self.view(tx, message.speaker))
        meta: dict[str, Any] = {"command": message.body.split(maxsplit=1)[0]}
        if done.task is not None:
            meta["task"] = done.task
        return done, meta

    async def view(self, tx: Tx, asker: str) -> Any:
        """The room as the steward sees it now."""
        around = self._surroundings()
        return await roster.steward_view(
            tx,
            self._roster(),
            self._drain.running,
            now=self._clock(),
            asker=asker,
            people=around.people,
            tasks=[task.as_json() for task in await self._board.list(tx)],
            locks=await self._holds.locks(tx) if self._holds is not None else (),
            sessions=await self._holds.sessions(tx) if self._holds is not None else (),
            dispatcher=around.dispatcher,
            address=around.address,
            config=around.config,
        )

    async def _end(self, tx: Tx, job: Job, message: Message, text: str, meta: dict[str, Any]) -> None:
        now = self._clock()
        answer_id = ledger.new_id()
        row = await tx.one(Q.steward_done, id=job.id, now=now, answer_id=answer_id)
        if row is None:
            return
        ended = await events.append(
            tx,
            NewEvent(
                type=ledger.TURN_ENDED,
                lane=ledger.cycle_lane(message.id),
                parents=[job.cause_event],
                outputs={"jobs": [Job.of_row(row).as_json()]},
            ),
        )
        await ledger.say(
            tx, text, now=now, about=message.id, parents=[ended.id], job=job.id, meta=meta, id=answer_id
        )

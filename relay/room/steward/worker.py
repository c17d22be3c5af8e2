"""The steward: commands and questions to RELAY, answered by the room itself, without a model.

Invariants: in a fleet the member that leads answers, but for what only another member can do, which that one
answers; a job of the steward is carried out, answered and ended in one transaction; killed at any instant, it
is either done and answered or still waiting. What writes files is done before that, and once: a job that waited on
is answered with what was done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import structlog

from relay.config.command_line import command
from relay.log import events
from relay.log.encoding import loads
from relay.log.events import NewEvent
from relay.log.follow import tail
from relay.model import STEWARD, Message, Refusal, actions
from relay.model.actions import Action, Answer
from relay.model.names import listed
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.running import RunningTurns
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.journal.orders import Order, Result
from relay.room.journal.values import Job
from relay.room.parsing import commands
from relay.room.steward import answers
from relay.room.steward.guarded import OUTSIDE
from relay.room.steward.handlers import ActionHandlers
from relay.room.steward.overview import Overview
from relay.store.ports import Store, Tx

log = structlog.get_logger(__name__)
POLL_S = 5.0
#: Seconds after which whoever leads answers what no other member of the fleet has.
ELSEWHERE_S = 5.0


class Steward:
    """Answers its jobs, one after the other."""

    def __init__(
        self,
        store: Store,
        handlers: ActionHandlers,
        overview: Overview,
        roster: Roster,
        turns: RunningTurns,
        *,
        clock: Callable[[], float] = time.time,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        """`leads`: does this member of the fleet do what one of them does alone?"""
        self._store, self._handlers, self._overview, self._clock = store, handlers, overview, clock
        self._leads = leads
        self._roster, self._turns = roster, turns
        #: By message id: what a caller awaits as the answer.
        self._awaited: dict[str, asyncio.Future[Answer]] = {}

    @contextmanager
    def answer_to(self, message_id: str) -> Iterator[asyncio.Future[Answer]]:
        """The answer to a message that is about to be posted, once it stands in the room."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._awaited[message_id] = answer
        try:
            yield answer
        finally:
            del self._awaited[message_id]

    async def stored_answer(self, message_id: str) -> Answer | None:
        """The answer that stands in the room, whoever gave it; None = there is none yet."""
        row = await self._store.read(lambda tx: tx.one(Q.steward_answer, message_id=message_id))
        if row is None:
            return None
        meta = loads(row["meta"])
        return Answer(not meta.get("error"), row["body"], meta.get("task"), meta.get("undo", ""))

    async def run(self) -> None:
        """Answer for ever."""
        with closing(self._store.wakeup(ledger.OF_THE_ROOM)) as wakeup:
            while True:
                rows = await self._store.read(
                    lambda tx: tx.all(Q.open_jobs_of_agent, agent=STEWARD), single=True
                )
                waiting = [job for job in map(Job.of_row, rows) if await self._is_ours(job)]
                for job in waiting:
                    await self._answer(job)
                if not waiting:
                    await self._hear()
                    await wakeup.wait(POLL_S)

    async def stop_turns(self) -> None:
        """End the turns here that another member was told to end, for ever."""
        start = await self._store.read(events.last_pos)
        async for batch in tail(self._store, start, types=[ledger.TURN_STOPPED]):
            for event in batch:
                told = event.outputs or {}
                if told["agent"] in self._turns.by_agent:
                    self._turns.cancel(told["agent"], told["by"], told["job"], before=told.get("before"))

    async def _is_ours(self, job: Job) -> bool:
        """Is it for this member to answer the job? Not what is to be written at the member where its agent lives, and
        not what another one was asked to permit; whoever leads has the rest."""
        if not any(member.home for member in self._roster.members.values()):
            return self._leads()
        try:
            ordered = await self._store.read(lambda tx: self._ordered(tx, job))
        except Refusal:
            return self._leads()
        action = None if ordered is None else ordered[0]
        if isinstance(action, actions.Permit):
            late = self._clock() - job.created_at > ELSEWHERE_S
            return self._handlers.asks(action) or (late and self._leads())
        if isinstance(action, OUTSIDE):
            members = self._roster.members
            homes = [members[name] for name in action.named() if name in members]
            if homes and not homes[0].away:
                return not homes[0].home
        return self._leads()

    async def _hear(self) -> None:
        """Give the answers that another member gave to those who wait for them here."""
        for id, awaited in list(self._awaited.items()):
            if not awaited.done() and (stored := await self.stored_answer(id)) and not awaited.done():
                awaited.set_result(stored)

    async def _answer(self, job: Job) -> None:
        try:
            performed = await self._perform(job)
            result = await self._store.write(lambda tx: self._carry_out(tx, job, performed))
            if result is None:
                return
            answer = Answer(True, result.text, result.task, result.meta.get("undo", ""))
        except self._store.transient:
            raise
        except Exception as error:
            # What the action had begun is rolled back; why is the answer.
            result = Result(self._why_not(job, error))
            answer = Answer(False, result.text)
            await self._store.write(lambda tx: self._end(tx, job, answer.text, {"error": True}))
        awaited = self._awaited.get(job.message_id)
        if awaited is not None and not awaited.done():
            awaited.set_result(answer)
        self._handlers.after_commit(result)

    def _why_not(self, job: Job, error: Exception) -> str:
        if isinstance(error, Refusal):
            return str(error)
        log.error("steward failed", job=job.id, message=job.message_id, exc_info=error)
        return f"That went wrong inside the room ({type(error).__name__}); {command('log')} has the details."

    async def _perform(self, job: Job) -> Result | None:
        """Do what the job's message orders, where that is not done in the transaction of its answer. Raises
        Refusal."""
        ordered = await self._store.read(lambda tx: self._ordered(tx, job))
        if ordered is None:
            return None
        action, order = ordered
        if action is None:
            return None
        if isinstance(action, actions.SetUp):
            self._one_home(action)
        return await self._handlers.perform(action, order)

    def _one_home(self, action: actions.SetUp) -> None:
        """Raise Refusal where the worktrees are on several machines: the member that answers has only its own."""
        by_home: dict[str, list[str]] = {}
        for name in action.agents:
            member = self._roster.members.get(name)
            by_home.setdefault(member.home if member is not None else "", []).append(name)
        if len(by_home) > 1:
            text = (
                f"{listed(action.agents)} are on {len(by_home)} machines, and one order reaches one of them."
            )
            each = [f"`{replace(action, agents=tuple(names)).line()}`" for names in by_home.values()]
            raise Refusal(text, f"Nothing was begun. Send {listed(each)}.")

    async def _ordered(self, tx: Tx, job: Job) -> tuple[Action | None, Order] | None:
        """The action that the job's message orders (None = it is a question), and who orders it; None = the job has
        ended already. Raises Refusal."""
        row = await tx.one(Q.job, id=job.id)
        message = await ledger.message(tx, job.message_id)
        if row is None or row["state"] not in ("pending", "failed") or message is None:
            return None
        event = await tx.one(Q.event_of_message, id=message.id)
        return await self._action(tx, job, message), Order(
            by=message.speaker,
            message=message,
            cause=[event["event_id"]] if event else [],
            verified="unverified" not in message.meta,
            now=self._clock(),
        )

    async def _carry_out(self, tx: Tx, job: Job, performed: Result | None) -> Result | None:
        """Do what the job's message orders or asks, unless it was `performed`, and end the job with the answer;
        None = the job has ended already. Raises Refusal."""
        ordered = await self._ordered(tx, job)
        if ordered is None:
            return None
        action, order = ordered
        message = order.message
        if action is None:
            view = await self._overview.read(tx)
            result = Result(answers.answer(message.body, view))
            nobody = not view.active and result.text == answers.no_agent_answer(view)
            await self._end(tx, job, result.text, {"notice": "no_agent"} if nobody else {})
            return result
        result = performed or await self._handlers.handle(tx, action, order)
        await self._stop_elsewhere(tx, result, order)
        meta: dict[str, Any] = {"command": message.body.split(maxsplit=1)[0]}
        if result.task is not None:
            meta["task"] = result.task
        if result.for_people:
            meta["notice"] = "recall"
        await self._end(tx, job, result.text, {**meta, **result.meta}, to=result.to, asks=result.asks)
        return result

    async def _stop_elsewhere(self, tx: Tx, result: Result, order: Order) -> None:
        """The turns that are to be ended and run at other members of the fleet: those hear it from the log."""
        for ending in result.cancel:
            member = self._roster.members.get(ending.agent)
            if member is not None and member.home:
                lane = ledger.cycle_lane(order.message.id)
                stopped = NewEvent(ledger.TURN_STOPPED, lane, parents=order.cause, outputs=ending._asdict())
                await events.append(tx, stopped)

    async def _action(self, tx: Tx, job: Job, message: Message) -> Action | None:
        """What the message orders: the action that was posted with it, else what its text says; None = it is a
        question. Raises Refusal when the text is not understood."""
        cause = await events.get(tx, job.cause_event)
        ordered = (cause.outputs or {}).get("action") if cause is not None else None
        if ordered is not None:
            return actions.of_json(ordered)
        agents = dict.fromkeys([*self._roster.names, *self._turns.by_agent])
        parsed = commands.parse(message.body, agents)
        if isinstance(parsed, commands.Problem):
            # A task is all that a command gives to a person's own session.
            given = commands.parse(message.body, (*agents, *await self._handlers.sessions(tx)))
            if not isinstance(given, actions.Give):
                raise Refusal(parsed.text)
            return given
        return parsed

    async def _end(
        self,
        tx: Tx,
        job: Job,
        text: str,
        meta: dict[str, Any],
        *,
        to: Sequence[str] = (),
        asks: bool = False,
    ) -> None:
        """`to`: who hears the answer while they work; `asks`: it is a job of theirs."""
        now = self._clock()
        meta = {**meta, "urgent": True} if to else meta
        answer_id = ledger.new_id()
        row = await tx.one(Q.steward_done, id=job.id, now=now, answer_id=answer_id)
        if row is None:
            return
        ended = await events.append(
            tx,
            NewEvent(
                type=ledger.TURN_ENDED,
                lane=ledger.cycle_lane(job.message_id),
                parents=[job.cause_event],
                outputs={"jobs": [Job.of_row(row).as_fact()]},
            ),
        )
        said, event = await ledger.say(
            tx,
            text,
            now=now,
            about=job.message_id,
            parents=[ended.id],
            job=job.id,
            meta=meta,
            id=answer_id,
            to=to,
        )
        if asks and to:
            await ledger.queue_jobs(tx, said.id, to, parents=[event.id], now=now)

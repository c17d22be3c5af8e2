"""Routing: who answers a message that mentions nobody (002, sections 2, 3 and 7).

Invariants:
- a cycle commits with its message in the state `routing`, so a restart resumes it; the decision and the queue
  rows commit together;
- only the latest waiting message opens a cycle: the earlier ones are folded into it and are in its context;
- when the dispatcher fails, every active agent gets the message, and the room says so once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import structlog

from relay.log.encoding import dumps
from relay.model import DISPATCHER, STEWARD, Message
from relay.room.dispatch import queue
from relay.room.dispatch.breaker import Verdict
from relay.room.dispatch.roster import Member, Roster
from relay.room.dispatch.running import TurnHooks
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.journal.live_bus import Live
from relay.room.journal.values import CycleState, Job, JobState
from relay.room.routing.decision import Action, AgentBrief, Decision, RoomLine
from relay.room.routing.fallback import SHOWN_BY_PROBE, Cause, DispatcherUnavailable, Fallback, step
from relay.room.routing.local_model import Dispatcher
from relay.store.ports import Row, Store, Tx

log = structlog.get_logger(__name__)
#: The longest that typing on can put a cycle off, in seconds, and the entries that the dispatcher is shown.
LONGEST_WAIT_S = 10.0
RECENT = 12
#: Seconds between two looks whether the dispatcher is back.
PROBE_EVERY_S = 15.0


class Router:
    """Decides waiting cycles, one after the other."""

    def __init__(
        self,
        store: Store,
        live: Live,
        dispatcher: Dispatcher,
        roster: Roster,
        hooks: TurnHooks,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._live = live
        self.dispatcher = dispatcher
        self._roster = roster
        self._hooks = hooks
        self._clock = clock
        self._fallback = Fallback()
        self._known = False
        #: Why it cannot decide, by the latest decision or look; None since it was seen to.
        self._trouble: DispatcherUnavailable | None = None

    def state_json(self) -> dict[str, Any]:
        """The dispatcher as the interfaces show it."""
        if not self.dispatcher.enabled:
            state = "off"
        elif self._trouble is not None:
            state = "fallback"
        else:
            state = "ok" if self._known else "unknown"
        return {
            "enabled": self.dispatcher.enabled,
            "model": self.dispatcher.model,
            "host": self.dispatcher.host,
            "state": state,
            "detail": str(self._trouble) if state == "fallback" else "",
        }

    def _found(self, trouble: DispatcherUnavailable | None) -> None:
        """Take in what a decision or a probe has just shown. The interfaces show it at once; the room hears of it
        when `Fallback` finds that it lasts."""
        before = self.state_json()
        self._known = self._known or trouble is None
        self._trouble = trouble
        if self.state_json() != before:
            self._live.publish("dispatcher", self.state_json())

    def use(self, dispatcher: Dispatcher) -> Dispatcher:
        """Decide with this dispatcher from now on. Gives the one before, which may be in the middle of a decision.

        For another server or model all that was known of the dispatcher is forgotten.
        """
        before, self.dispatcher = self.dispatcher, dispatcher
        if (before.host, before.model) != (dispatcher.host, dispatcher.model):
            self._fallback, self._known, self._trouble = Fallback(), False, None
        return before

    async def run(self) -> None:
        """Decide cycles for ever."""
        with closing(self._store.wakeup(ledger.OF_THE_ROOM)) as wakeup:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._probe(), name="dispatcher-probe")
                while True:
                    waiting = await self._store.read(lambda tx: tx.all(Q.routing), single=True)
                    if not waiting:
                        await wakeup.wait(5.0)
                    elif (pause := self._pause(waiting)) > 0:
                        await wakeup.wait(pause)
                    else:
                        await self._decide(waiting[-1])

    async def _able(self, tx: Tx) -> list[Member]:
        """The agents that a message can go to: the active ones. Those with an open circuit are left out while there
        are others."""
        active = await self._roster.active(tx)
        now = self._clock()
        able = []
        for member in active:
            breaker = await queue.load_breaker(tx, member.policy)
            if breaker.ask(now)[1] is not Verdict.SKIP:
                able.append(member)
        return able or active

    def _pause(self, waiting: Any) -> float:
        """Seconds until the latest cycle is due; also bounded when the clock was stepped."""
        now = self._clock()
        due = min(waiting[-1]["due_at"], waiting[0]["opened_at"] + LONGEST_WAIT_S)
        pause: float = due - now
        return pause if pause <= LONGEST_WAIT_S else 0.0

    async def _decide(self, cycle: Row) -> None:
        async def look(tx: Tx) -> tuple[Message | None, list[RoomLine], list[Member], list[str]]:
            message = await ledger.message(tx, cycle["message_id"])
            rows = await tx.all(Q.messages_between, after=0, upto=cycle["number"] - 1, limit=RECENT)
            recent = [RoomLine(row["speaker"], row["body"]) for row in reversed(rows)]
            every = [member.name for member in await self._roster.active(tx)]
            return message, recent, await self._able(tx), every

        message, recent, active, every = await self._store.read(look)
        if message is None:
            return
        if not active:
            await self._settle(
                message, CycleState.STEWARD, {"action": "steward", "agents": [STEWARD]}, [STEWARD]
            )
            return
        dispatcher = self.dispatcher
        try:
            briefs = [AgentBrief(member.name, member.about) for member in active]
            decision = await dispatcher.decide(message, recent, briefs)
        except DispatcherUnavailable as error:
            if dispatcher is not self.dispatcher:
                return  # its failure is no news of the one that has replaced it: the cycle is decided anew
            if error.cause is not Cause.DISABLED:
                self._found(error)
            log.info("dispatcher falls back", cause=str(error.cause), message=message.id)
            self._hooks.cycle_decided("fallback")
            what = "off" if not self.dispatcher.enabled else "fallback"
            reason = "the dispatcher is off: every active agent is asked"
            if what == "fallback":
                reason = f"the dispatcher cannot decide ({error.cause}): every active agent is asked"
            # Those too whose circuit is open: the queue skips them, and the message's receipts say so.
            shown = {"action": what, "agents": every, "reason": reason}
            await self._settle(message, CycleState.ROUTED, shown, every, error=error)
            return
        self._hooks.cycle_decided(str(decision.action))
        await self._carry_out(message, decision)

    async def _carry_out(self, message: Message, decision: Decision) -> None:
        self._found(None)
        state = {
            Action.ROUTE: CycleState.ROUTED,
            Action.ABSORB: CycleState.ABSORBED,
            Action.CLARIFY: CycleState.CLARIFIED,
        }[decision.action]
        log.info(
            "dispatcher decided",
            action=str(decision.action),
            agents=list(decision.agents),
            took_ms=round(decision.took_ms),
            message=message.id,
        )
        await self._settle(message, state, decision.as_meta(), list(decision.agents), reply=decision.reply)

    async def _settle(
        self,
        message: Message,
        state: CycleState,
        decision: dict[str, Any],
        agents: list[str],
        *,
        reply: str = "",
        error: DispatcherUnavailable | None = None,
    ) -> None:
        fallback, notice = self._fallback, None
        if error is not None or state is not CycleState.STEWARD:
            fallback, notice = step(self._fallback, error)

        async def work(tx: Tx) -> None:
            now = self._clock()
            if await ledger.decide(tx, message, state, decision, agents=agents, now=now) is None:
                return  # a person has routed it meanwhile
            if reply:
                await ledger.say(
                    tx, reply, now=now, about=message.id, speaker=DISPATCHER, meta={"decision": decision}
                )
            if notice:
                await ledger.say(tx, notice, now=now, about=message.id, meta={"notice": "dispatcher"})

        await self._store.write(work)
        self._fallback = fallback

    async def _probe(self) -> None:
        """Look whether the dispatcher is there: at the start, and while the room has fallen back."""
        while True:
            if self.dispatcher.enabled and (self._fallback.out or self._trouble or not self._known):
                dispatcher = self.dispatcher
                trouble = await dispatcher.trouble()
                if dispatcher is not self.dispatcher:
                    continue
                # That it is there again says nothing of what made its decisions fail otherwise.
                if trouble is not None or self._trouble is None or self._trouble.cause in SHOWN_BY_PROBE:
                    self._found(trouble)
                fallback, notice = step(self._fallback, trouble, probe=True)
                if notice:
                    text = notice
                    await self._store.write(
                        lambda tx, text=text: ledger.say(  # type: ignore[misc]
                            tx, text, now=self._clock(), meta={"notice": "dispatcher"}
                        )
                    )
                self._fallback = fallback
            await asyncio.sleep(PROBE_EVERY_S)


async def overrule(
    tx: Tx, message: Message, agents: list[str], *, by: str, now: float, parents: Sequence[str]
) -> list[str]:
    """A person says who answers. Jobs that wait for others are skipped; running turns go on.

    Returns the agents that got a job by it, a new one or one that had ended badly.
    """
    decision = {"action": "route", "agents": agents, "reason": f"{by} chose", "by": by}
    taken = await tx.one(Q.decide_cycle, message_id=message.id, state="routed", decision=dumps(decision))
    if taken is None:
        await tx.execute(
            Q.put_cycle,
            message_id=message.id,
            number=message.number,
            state="routed",
            opened_at=now,
            due_at=now,
            decision=dumps(decision),
        )
    await ledger.add_meta(tx, message.id, decision=decision)
    again: list[str] = []
    for row in await tx.all(Q.jobs_of_message, message_id=message.id):
        job = Job.of_row(row)
        if job.agent in agents and job.state in ("skipped", "dead"):
            await ledger.change_job(tx, job, JobState.PENDING, now=now, attempts=0, parents=parents)
            again.append(job.agent)
        elif job.agent not in agents and job.state in ("pending", "failed"):
            await ledger.change_job(
                tx,
                job,
                JobState.SKIPPED,
                now=now,
                reason=f"{by} routed it elsewhere",
                error_class="overruled",
                parents=parents,
            )
    cycles = [{"message_id": message.id, "state": "routed", **decision}]
    jobs = await ledger.queue_jobs(
        tx, message.id, agents, parents=parents, now=now, extra={"cycles": cycles}, type=ledger.DECIDED
    )
    return [*again, *(job.agent for job in jobs)]

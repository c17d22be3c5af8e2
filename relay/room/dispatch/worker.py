"""The workers: one task for each agent, each running one turn at a time (002, section 1).

Invariants:
- agents work in parallel and none waits for another; a worker that fails is restarted, with backoff;
- a turn's jobs end in one transaction, or, when the daemon dies first, are given back at the next start;
- at a stop, running turns get `drain_s` seconds to end. One that does not is cut off, its processes are ended,
  its jobs wait for the next start, and the agent is told then.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

import structlog

from relay.model import (
    BriefPart,
    Channel,
    DebriefPart,
    DeliveredPart,
    EndPart,
    FailureClass,
    Hears,
    LogPart,
    Message,
    Part,
    SessionPart,
    SteeringMessage,
    TextPart,
    ToolPart,
    Turn,
    TurnLimits,
    UsagePart,
)
from relay.room.dispatch import helpers, queue, steering
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.room.dispatch.running import RunningTurn, RunningTurns, TurnHooks, whole_text
from relay.room.dispatch.turn_end import finish
from relay.room.dispatch.turn_output import TurnOutput, cut_short, outcome_of, takes_main, within
from relay.room.dispatch.turns import Idle, Outcome, Plan, Recollection
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.journal.live_bus import Live
from relay.store.ports import Store, StoreBusy, StoreError, Tx, is_away

log = structlog.get_logger(__name__)
#: Seconds: the safety net when no wake-up comes; between two renewals of the leases of turns that run.
POLL_S, RENEW_S = 2.0, 5.0
#: On top of an agent's own timeout, in seconds: an agent that ignores it is cut off here.
GRACE_S = 30.0
#: How a turn hears that its program's hook asks for.
HOOK = Channel("hook after a tool", Hears.BOUNDARY, "Its hook asks the room after each tool.")
#: Seconds that a hook waits for what is there when it asks first; that what was found in the memory is taken as it
#: is, while a turn waits for its beginning.
FILLED_S, RECOLLECTED_S = 0.5, 30.0


class WorkerPool:
    """Runs the turns of all agents."""

    def __init__(
        self,
        store: Store,
        live: Live,
        roster: Roster,
        turns: RunningTurns,
        hooks: TurnHooks,
        *,
        holder: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._live = live
        self._roster = roster
        self._turns = turns
        self._hooks = hooks
        self._holder = holder
        self._clock = clock
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._wakes: dict[str, asyncio.Event] = {}
        #: By agent: for which messages something was looked for in the memory, when, and what was found.
        self._recollected: dict[str, tuple[tuple[str, ...], float, Recollection | None]] = {}

    def update(self) -> None:
        """The roster has changed: start a worker for each new agent. An agent that has gone ends its turn first."""
        for name in self._roster.own:
            if name not in self._workers or self._workers[name].done():
                self._wakes[name] = asyncio.Event()
                self._workers[name] = asyncio.create_task(self._supervised(name), name=f"agent-{name}")
            self._wakes[name].set()

    def poke(self, agent: str | None = None) -> None:
        """Something changed for one agent, or for any."""
        for name, wake in self._wakes.items():
            if agent is None or name == agent:
                wake.set()

    async def run(self) -> None:
        """Wake the workers of agents for whom something waits, and keep this daemon's leases. Runs for ever."""
        with contextlib.closing(self._store.wakeup(ledger.OF_THE_ROOM)) as wakeup:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._renew(), name="turn-leases")
                while True:
                    await wakeup.wait(POLL_S)
                    for turn in self._turns.by_agent.values():
                        turn.news.set()
                    for row in await self._store.read(lambda tx: tx.all(Q.open_counts), single=True):
                        self.poke(row["agent"])

    async def stop(self, drain_s: float) -> None:
        """Let running turns end for `drain_s` seconds, then cut them off. No new turn begins."""
        self._turns.stopping = True
        running = [turn.task for turn in self._turns.by_agent.values()]
        if running:
            log.info("waiting for turns to end", agents=sorted(self._turns.by_agent), drain_s=drain_s)
            await asyncio.wait(running, timeout=drain_s)
        # First the turns, which record how they ended, and then the workers that wait for them.
        for tasks in (running, list(self._workers.values())):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            if self._turns.by_agent:
                lease = min(turn.plan.policy.lease_s for turn in self._turns.by_agent.values())
                values = {"holder": self._holder, "lease_until": self._clock() + lease}
                await self._store.write(lambda tx, values=values: tx.execute(Q.renew, **values))  # type: ignore[misc]

    async def _supervised(self, name: str) -> None:
        wait = 0.2
        while self._own(name) is not None and not self._turns.stopping:
            try:
                await self._work(name)
                return
            except Exception as error:
                away = is_away(error)  # which the store itself logs
                if not away:
                    log.exception("agent worker failed", agent=name, again_in_s=wait)
                await asyncio.sleep(wait)
                wait = min(wait * 2, 5.0 if away else 30.0)

    async def _work(self, name: str) -> None:
        wake = self._wakes[name]
        while not self._turns.stopping:
            member = self._own(name)
            if member is None:
                return
            wake.clear()
            now = self._clock()
            claimed = await self._claim(member.policy, now)
            if isinstance(claimed, Idle):
                pause = POLL_S * 15 if claimed.until is None else min(max(claimed.until - now, 0.01), 30.0)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await wake.wait()
            else:
                # As the configuration has it by now.
                await self._run_turn(self._own(name) or member, claimed)

    def _own(self, name: str) -> Member | None:
        return self._roster.own.get(name)

    async def _run_turn(self, member: Member, plan: Plan) -> None:
        name = member.name
        task = asyncio.create_task(self._turn(member, plan), name=f"turn-{name}-{plan.primary.id}")
        self._turns.begin(plan, task)
        self._hooks.state_changed(name)
        turn = self._turns.by_agent[name]
        feeding = asyncio.create_task(self._feed(turn), name=f"feed-{name}")
        try:
            await asyncio.wait([task])
            if task.cancelled():
                # Cancelled before its first step: nothing of it ran that could have recorded its end.
                await self._record(plan, self._cancelled(plan))
        finally:
            feeding.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            self._turns.end(name)
            self._hooks.state_changed(name)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _feed(self, turn: RunningTurn) -> None:
        """Tell a turn what is urgent. A turn goes on when that fails: what it does not hear comes with the next."""
        name = turn.plan.agent
        while True:
            try:
                await steering.feed(self._store, turn, self._hooks, lambda: self._only_steers(name))
                return
            except Exception as error:
                log.warning("turn is not told what is urgent", agent=name, error=str(error))
                await asyncio.sleep(POLL_S)

    def _only_steers(self, name: str) -> bool:
        member = self._own(name)
        return member is not None and member.policy.inbox is Hears.NEXT

    async def take(self, agent: str, session: str) -> list[SteeringMessage]:
        """What a hook of the agent's program tells it now. The first question opens the turn's inbox, where nothing
        else tells that turn anything."""
        turn = self._turns.by_agent.get(agent)
        if turn is None or turn.plan.session != session:
            return []
        if not turn.inbox.hears:
            turn.inbox.open(HOOK)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FILLED_S):
                    await turn.inbox.filled.wait()
        return turn.inbox.take() if turn.inbox.channel == HOOK else []

    async def heard(
        self, agent: str, ids: Collection[str], after: str, *, session: str | None = None
    ) -> bool:
        """The running turn of this agent has taken these messages in. It is recorded whole, also when its turn is cut
        off meanwhile. False: the turn is over. `session`: that of the turn that is meant, None = whichever runs."""
        turn = self._turns.by_agent.get(agent)
        if turn is not None and session in (None, turn.plan.session):
            work = steering.hear(self._store, turn, ids, after, stopping=lambda: self._turns.stopping)
            await asyncio.shield(asyncio.create_task(work, name=f"heard-{agent}"))
            return not turn.over_soon
        return False

    async def _claim(self, policy: Policy, now: float) -> Plan | Idle:
        # A read takes no lock; only work to do takes the write lock.
        waiting = await self._store.read(lambda tx: queue.waiting_messages(tx, policy.agent))
        if not waiting or (policy.shared and self._turns.unsure):
            return Idle()
        recollection = await self._recollect(policy.agent, waiting, now)
        claim = partial(queue.claim_next_dispatch, policy=policy, holder=self._holder, now=now)
        # A server that forgot it would let another member begin the same turn while it runs here.
        try:
            return await self._store.write(partial(claim, recollection=recollection), durable=policy.shared)
        except self._store.transient:
            raise
        except Exception:
            if recollection is None:
                raise
            # What is remembered must not keep a turn from beginning.
            log.exception("turn begins without what is remembered", agent=policy.agent)
            return await self._store.write(claim, durable=policy.shared)

    async def _recollect(self, agent: str, messages: Sequence[Message], now: float) -> Recollection | None:
        """What is remembered that bears on these messages; not looked for anew at each look whether a turn that waits
        may begin."""
        asked = tuple(message.id for message in messages)
        last = self._recollected.get(agent)
        if last is None or last[0] != asked or not 0 <= now - last[1] < RECOLLECTED_S:
            last = self._recollected[agent] = (asked, now, await self._hooks.recollect(agent, messages))
        return last[2]

    async def _turn(self, member: Member, plan: Plan) -> None:
        bound = log.bind(agent=plan.agent, job=plan.primary.id, message=plan.asked.id)
        bound.info("turn started", attempt=plan.primary.attempts, interrupted=plan.interrupted)
        output = TurnOutput()
        try:
            async with asyncio.timeout(member.timeout_s + GRACE_S):
                await self._read(member, plan, output)
            outcome = outcome_of(output, "".join(self._turns.by_agent[plan.agent].text))
        except TimeoutError:
            detail = f"timed out after {member.timeout_s:g} s"
            outcome = cut_short(output, Outcome(failure=FailureClass.TIMEOUT, detail=detail))
        except asyncio.CancelledError:
            outcome = cut_short(output, self._cancelled(plan))
        except Exception as error:
            bound.exception("agent crashed inside the room")
            detail = f"{type(error).__name__}: {error}"
            outcome = cut_short(output, Outcome(failure=FailureClass.CRASH, detail=detail))
        await self._record(plan, outcome)

    def _cancelled(self, plan: Plan) -> Outcome:
        turn = self._turns.by_agent[plan.agent]
        by = turn.stopped_by
        if by is None and turn.advice and not self._turns.stopping:
            turn.cut_off = True
            return Outcome(interrupted=True, detail="cut off for an advisory", advice=whole_text(turn.advice))
        if by is None:
            return Outcome(interrupted=True, detail="cut off by a stop of the daemon")
        return Outcome(failure=FailureClass.CANCELLED, detail=f"cancelled by {by}", before=turn.before)

    async def _record(self, plan: Plan, outcome: Outcome) -> None:
        """A turn that has an outcome records it, also when it is cancelled now."""
        turn = self._turns.by_agent[plan.agent]
        turn.inbox.close()
        finishing = asyncio.create_task(self._end(plan, outcome), name=f"finish-{plan.primary.id}")
        while not finishing.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([finishing])
        finishing.result()

    async def _read(self, member: Member, plan: Plan, output: TurnOutput) -> None:
        """Run the agent, and take in the parts of its turn."""
        assert member.agent is not None
        take_main = [takes_main(message, plan.agent) for message in plan.messages]
        place = await self._hooks.before_turn(plan, take_main=any(take_main))
        if place and place.done and all(take_main):
            output.needless = place.done
            return
        turn = Turn(
            agent=plan.agent,
            prompt=f"{plan.prompt}\n\n{place.note}" if place and place.note else plan.prompt,
            context=plan.context,
            memories=plan.given.text,
            cwd=place.cwd if place else member.cwd,
            root=place.root if place else None,
            resume=plan.resume,
            room_session=plan.session,
            may_edit=place.may_edit if place else member.may_edit,
            interrupted=plan.interrupted,
            job=plan.primary.id,
            limits=TurnLimits(timeout_s=member.timeout_s),
            inbox=self._turns.by_agent[plan.agent].inbox,
            env=place.env if place else {},
        )
        async with aclosing(member.agent.run(turn)) as parts:  # type: ignore[type-var]
            async for part in parts:
                await self._take(plan, output, part, turn)

    async def _take(self, plan: Plan, output: TurnOutput, part: Part, turn: Turn) -> None:
        match part:
            case TextPart(text):
                self._stream(plan, text)
            case BriefPart() | DebriefPart():
                await helpers.take(self._store, plan, output.helpers, part)
            case ToolPart(name, summary):
                if part.places:
                    locations = await asyncio.to_thread(within, part.places, turn.cwd, turn.root)
                    if locations:
                        self._hooks.locations_named(plan.agent, locations)
                if not name:
                    return
                if part.command:
                    self._hooks.command_run(plan.agent, part.command)
                line = whole_text(f"{name}: {summary}" if summary else name)
                output.tools.append(line)
                if part.helper in output.helpers:
                    output.helpers[part.helper].tools.append(line)
                self._stream(plan, "", tool=line)
                self._turns.note(plan.agent, line)
            case UsagePart():
                output.usage = part
            case SessionPart(id):
                # At once: a turn that is cut off is resumed in this conversation.
                await self._keep_session(plan, id)
            case DeliveredPart(ids, after):
                await self.heard(plan.agent, ids, after or (output.tools[-1] if output.tools else ""))
            case LogPart(line):
                self._turns.note(plan.agent, line)
            case EndPart():
                output.end = part

    def _stream(self, plan: Plan, text: str, tool: str = "") -> None:
        turn = self._turns.by_agent[plan.agent]
        data = turn.stream(text, turn.length, tool)
        turn.tool = tool or turn.tool
        turn.text.append(text)
        turn.length += len(text.encode("utf-16-le", "surrogatepass")) // 2
        self._live.publish("stream", data)

    async def _keep_session(self, plan: Plan, resume: str) -> None:
        at = plan.policy.member
        values = {"name": plan.agent, "session": plan.session, "resume": resume, "resume_at": at}
        try:
            await self._store.write(lambda tx: tx.execute(Q.set_session, **values))
        except (StoreError, self._store.transient) as error:
            # The turn is worth more than its going on in the same conversation.
            log.warning("conversation not kept", agent=plan.agent, error=str(error))

    async def _end(self, plan: Plan, outcome: Outcome) -> None:
        try:
            await self._hooks.processes_ended()
        except Exception as error:
            # The file is out of reach: its tail says so, and the answer must not wait for it.
            log.warning("transcript not read before the end of a turn", agent=plan.agent, error=str(error))
        try:
            changes = await self._hooks.after_turn(plan)
        except Exception:
            # The answer exists only here, and is worth more than what it changed.
            log.exception("changes of a turn not read", agent=plan.agent)
            changes = None
        turn = self._turns.by_agent[plan.agent]
        async with turn.hearing:
            turn.over_soon = True
        await self._finish(turn.plan, replace(outcome, changes=changes))

    async def _finish(self, plan: Plan, outcome: Outcome) -> None:
        """Record the end; a locked or full database is waited for, since the answer exists only here."""
        wait = 0.2
        while True:
            now = self._clock()

            async def work(tx: Tx, now: float = now, outcome: Outcome = outcome) -> bool:
                # What stands in the worktree stands there, also when the turn was given up meanwhile.
                if outcome.changes is not None:
                    await self._hooks.record_changes(tx, plan, outcome.changes)
                return await finish(tx, plan, outcome, now=now, chance=random.random())

            try:
                was_held = await self._store.write(work, durable=True)
                break
            except (StoreBusy, OSError, self._store.transient) as error:
                log.warning("answer waits for the database", agent=plan.agent, error=str(error))
                self._turns.note(plan.agent, f"the answer waits for the database: {error}")
                if self._turns.stopping:
                    raise
                await asyncio.sleep(wait)
                wait = min(wait * 2, 5.0)
            except Exception as error:
                if outcome.changes is not None and outcome.changes.touches:
                    log.exception("changes of a turn cannot be recorded", agent=plan.agent)
                    outcome = replace(outcome, changes=replace(outcome.changes, touches=()))
                    continue
                if outcome.failure is not None:
                    raise
                # An answer that cannot be recorded must not keep its agent busy for ever.
                log.exception("answer cannot be recorded", agent=plan.agent, job=plan.primary.id)
                detail = f"its answer could not be recorded ({type(error).__name__})"
                outcome = Outcome(failure=FailureClass.CRASH, detail=detail)
        result = "interrupted" if outcome.interrupted else str(outcome.failure or "done")
        self._hooks.turn_ended(plan.agent, result, max(0.0, now - plan.started_at))
        log.info(
            "turn ended" if was_held else "turn was given up before its end",
            agent=plan.agent,
            job=plan.primary.id,
            message=plan.asked.id,
            result=result,
            seconds=round(now - plan.started_at, 3),
            detail=outcome.detail or None,
        )
        if outcome.detail:
            self._turns.note(plan.agent, outcome.detail)
        self.poke(plan.agent)

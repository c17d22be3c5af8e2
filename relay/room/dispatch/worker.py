"""The dispatch loop: one worker an agent, each running one turn at a time (002, section 1).

Invariants:
- agents work in parallel and none waits for another; a worker that fails is started again, with backoff;
- a turn's jobs end in one transaction, or, when the daemon dies first, are given back at the next start;
- at a stop, running turns get `drain_s` seconds to end; one that does not is cut off, its processes are ended,
  and its jobs wait for the next start, where the agent is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog

from relay.base.durations import now_iso
from relay.model import (
    TAKE_MAIN,
    Agent,
    Changes,
    EndPart,
    FailureClass,
    Kind,
    Location,
    LogPart,
    Message,
    Part,
    SessionPart,
    TextPart,
    ToolPart,
    Turn,
    TurnLimits,
    UsagePart,
    Workplace,
    Workplaces,
)
from relay.room.dispatch import queue
from relay.room.dispatch.queue import Idle, Outcome, Plan, Policy
from relay.room.dispatch.tool_locations import within
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.journal.live_bus import Live
from relay.store.ports import Store, StoreBusy, StoreError, Tx, is_away

log = structlog.get_logger(__name__)
#: Seconds: the safety net when no wake-up comes; between two renewals of the leases of turns that run.
POLL_S, RENEW_S = 2.0, 5.0
#: Lines kept of an agent's log.
LOG_LINES = 500
#: On top of an agent's own timeout, in seconds: an agent that ignores it is cut off here.
GRACE_S = 30.0


@dataclass(frozen=True, slots=True)
class Seat:
    """An agent of the room as floor 4 sets it up. `policy` is asked anew before each turn. `guarded`: it is asked
    about each edit before it makes it."""

    agent: Agent
    policy: Callable[[], Policy]
    timeout_s: float = 600.0
    cwd: Path | None = None
    may_edit: bool = False
    guarded: bool = False


@dataclass(slots=True)
class Running:
    """A turn under way. `stopped_by` is the person who cancelled it, `advice` what it is cut off for."""

    plan: Plan
    task: asyncio.Task[None]
    text: list[str] = field(default_factory=list)
    length: int = 0
    stopped_by: str | None = None
    advice: str = ""
    #: It ended because of the advice.
    cut_off: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def jobs(self) -> frozenset[int]:
        return frozenset(job.id for job in self.plan.jobs)


@dataclass(slots=True)
class Heard:
    """What a turn has said so far."""

    tools: list[str] = field(default_factory=list)
    usage: UsagePart = field(default_factory=UsagePart)
    end: EndPart | None = None
    #: Why the agent was not asked.
    needless: str = ""


class Drain:
    """Runs the turns of all agents."""

    def __init__(
        self, store: Store, live: Live, *, holder: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._live = live
        self._holder = holder
        self._clock = clock
        self._seats: dict[str, Seat] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._wakes: dict[str, asyncio.Event] = {}
        self._running: dict[str, Running] = {}
        self._logs: dict[str, deque[dict[str, str]]] = {}
        self._stopping = False
        #: Jobs that were cancelled between their claim and the beginning of their turn, and by whom.
        self._unwanted: dict[int, str] = {}
        #: Awaited when a turn's processes have ended and its jobs have not: what they wrote is still theirs.
        self.before_end: Callable[[], Awaitable[None]] = _nothing
        #: Told when an agent begins or ends a turn.
        self.changed: Callable[[str], None] = lambda agent: None
        #: Gives turns a place to work in, and tells what they changed there.
        self.workplaces: Workplaces | None = None
        self.turn_seconds: Callable[[str, str, float], None] = lambda agent, result, seconds: None
        #: Told of the places that a working agent's tools name, relative to the top of its checkout (else its turn's
        #: folder), none outside it.
        self.touched: Callable[[str, Sequence[Location]], None] = lambda agent, places: None

    @property
    def running(self) -> dict[str, Running]:
        return self._running

    def log_of(self, agent: str, limit: int) -> list[dict[str, str]]:
        return list(self._logs.get(agent, ()))[-limit:]

    def seat(self, name: str) -> Seat | None:
        return self._seats.get(name)

    def set_seats(self, seats: dict[str, Seat]) -> None:
        """Take over a new set of agents. A running turn of an agent that has gone ends by itself."""
        self._seats = dict(seats)
        for name in seats:
            self._logs.setdefault(name, deque(maxlen=LOG_LINES))
            if name not in self._workers or self._workers[name].done():
                self._wakes[name] = asyncio.Event()
                self._workers[name] = asyncio.create_task(self._supervised(name), name=f"agent-{name}")
            self._wakes[name].set()

    def poke(self, agent: str | None = None) -> None:
        """Something changed for one agent, or for any."""
        for name, wake in self._wakes.items():
            if agent is None or name == agent:
                wake.set()

    async def dispatch_drain_loop(self) -> None:
        """Wake the workers at every commit, and keep this daemon's leases. Runs for ever."""
        wakeup = self._store.wakeup(ledger.OF_THE_ROOM)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._renew(), name="drain-leases")
                while True:
                    woken = await wakeup.wait(POLL_S)
                    for row in await self._store.read(lambda tx: tx.all(Q.open_counts), single=True):
                        self.poke(row["agent"])
                    if not woken:
                        self.poke()
        finally:
            wakeup.close()

    async def stop(self, drain_s: float) -> None:
        """Let running turns end for `drain_s` seconds, then cut them off. No new turn begins."""
        self._stopping = True
        turns = [running.task for running in self._running.values()]
        if turns:
            log.info("waiting for turns to end", agents=sorted(self._running), drain_s=drain_s)
            await asyncio.wait(turns, timeout=drain_s)
        # First the turns, which record how they ended, and then those who wait for them.
        for tasks in (turns, list(self._workers.values())):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def cancel(self, agent: str, by: str, job: int | None = None) -> bool:
        """End the running turn of an agent (only if it is at `job`, when one is given); False when it has none.

        A turn that is claimed and has not begun yet is ended as soon as it would begin.
        """
        running = self._running.get(agent)
        if running is None:
            if job is not None:
                self._unwanted[job] = by
            return False
        if running.stopped_by is not None or (job is not None and job not in running.jobs):
            return False
        running.stopped_by = by
        running.task.cancel()
        return True

    async def interrupt(self, agent: str, advice: str) -> bool:
        """Cut the running turn of an agent off, so that it begins again at once with `advice` (not empty) in
        front of its prompt, in the same conversation. No failure: neither its attempts nor its breaker count it.

        Returns when its processes have ended and its jobs wait again; False when there was nothing to cut off
        (it has no turn, is being cancelled, or has just ended).
        """
        running = self._running.get(agent)
        if running is None or self._stopping or running.stopped_by is not None or running.advice:
            return False
        running.advice = advice
        running.task.cancel()
        await running.over.wait()
        return running.cut_off

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            if self._running:
                lease = min(r.plan.policy.lease_s for r in self._running.values())
                until = self._clock() + lease

                async def work(tx: Tx, until: float = until) -> int:
                    return await tx.execute(Q.renew, holder=self._holder, lease_until=until)

                await self._store.write(work)

    async def _supervised(self, name: str) -> None:
        wait = 0.2
        while name in self._seats and not self._stopping:
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
        while not self._stopping:
            seat = self._seats.get(name)
            if seat is None:
                return
            wake.clear()
            policy = seat.policy()
            now = self._clock()
            found = await self._claim(policy, now)
            if isinstance(found, Idle):
                pause = POLL_S * 15 if found.until is None else min(max(found.until - now, 0.01), 30.0)
                try:
                    async with asyncio.timeout(pause):
                        await wake.wait()
                except TimeoutError:
                    pass
                continue
            task = asyncio.create_task(self._turn(seat, found), name=f"turn-{name}-{found.primary.id}")
            self._running[name] = Running(found, task)
            self.changed(name)
            wish = next((self._unwanted[job.id] for job in found.jobs if job.id in self._unwanted), None)
            self._unwanted.clear()
            if wish is not None:
                self.cancel(name, wish)
            try:
                await asyncio.wait([task])
                if task.cancelled():
                    # Cancelled before its first step: nothing of it ran that could have recorded its end.
                    await self._record(found, self._cancelled(found))
            finally:
                if not task.done():
                    task.cancel()
                    await asyncio.wait([task])
                self._running.pop(name).over.set()
                self.changed(name)
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _claim(self, policy: Policy, now: float) -> Plan | Idle:
        async def waiting(tx: Tx) -> bool:
            return bool(await tx.all(Q.open_jobs_of_agent, agent=policy.agent))

        # A look on the reader costs nothing; only work to do takes the write lock.
        if not await self._store.read(waiting):
            return Idle()
        return await self._store.write(
            lambda tx: queue.claim_next_dispatch(tx, policy, holder=self._holder, now=now)
        )

    async def _turn(self, seat: Seat, plan: Plan) -> None:
        bound = log.bind(agent=plan.agent, job=plan.primary.id, message=plan.asked.id)
        bound.info("turn started", attempt=plan.primary.attempts, interrupted=plan.interrupted)
        heard = Heard()
        try:
            async with asyncio.timeout(seat.timeout_s + GRACE_S):
                await self._listen(seat, plan, heard)
            outcome = self._outcome(plan, heard)
        except TimeoutError:
            detail = f"timed out after {seat.timeout_s:g} s"
            outcome = self._cut_short(heard, Outcome(failure=FailureClass.TIMEOUT, detail=detail))
        except asyncio.CancelledError:
            outcome = self._cut_short(heard, self._cancelled(plan))
        except Exception as error:
            bound.exception("agent crashed inside the room")
            detail = f"{type(error).__name__}: {error}"
            outcome = self._cut_short(heard, Outcome(failure=FailureClass.CRASH, detail=detail))
        await self._record(plan, outcome)

    def _cancelled(self, plan: Plan) -> Outcome:
        running = self._running[plan.agent]
        by = running.stopped_by
        if by is None and running.advice and not self._stopping:
            running.cut_off = True
            return Outcome(interrupted=True, detail="cut off for an advisory", advice=_whole(running.advice))
        if by is None:
            return Outcome(interrupted=True, detail="cut off by a stop of the daemon")
        return Outcome(failure=FailureClass.CANCELLED, detail=f"cancelled by {by}")

    async def _record(self, plan: Plan, outcome: Outcome) -> None:
        """A turn that has an outcome records it, also when it is cancelled now."""
        finishing = asyncio.create_task(self._end(plan, outcome), name=f"finish-{plan.primary.id}")
        while not finishing.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([finishing])
        finishing.result()

    async def _listen(self, seat: Seat, plan: Plan, heard: Heard) -> None:
        place = await self._place(plan) if self.workplaces else None
        if place and place.done and all(_takes_main(one, plan.agent) for one in plan.messages):
            heard.needless = place.done
            return
        turn = Turn(
            agent=plan.agent,
            prompt=f"{plan.prompt}\n\n{place.note}" if place and place.note else plan.prompt,
            context=plan.context,
            cwd=place.cwd if place else seat.cwd,
            root=place.root if place else None,
            resume=plan.resume,
            room_session=plan.session,
            may_edit=place.may_edit if place else seat.may_edit,
            interrupted=plan.interrupted,
            job=plan.primary.id,
            limits=TurnLimits(timeout_s=seat.timeout_s),
        )
        async with aclosing(seat.agent.run(turn)) as parts:  # type: ignore[type-var]
            async for part in parts:
                await self._hear(plan, heard, part, turn)

    async def _place(self, plan: Plan) -> Workplace | None:
        assert self.workplaces is not None
        asked = any(_takes_main(one, plan.agent) for one in plan.messages)
        return await self.workplaces.before_turn(plan.agent, take_main=asked)

    async def _hear(self, plan: Plan, heard: Heard, part: Part, turn: Turn) -> None:
        match part:
            case TextPart(text):
                self._stream(plan, text)
            case ToolPart(name, summary):
                if part.places:
                    found = await asyncio.to_thread(within, part.places, turn.cwd, turn.root)
                    if found:
                        self.touched(plan.agent, found)
                if not name:
                    return
                note = _whole(f"{name}: {summary}" if summary else name)
                heard.tools.append(note)
                self._stream(plan, "", tool=note)
                self._note(plan.agent, note)
            case UsagePart():
                heard.usage = part
            case SessionPart(id):
                # At once: a turn that is cut off is resumed in this conversation.
                await self._keep_session(plan, id)
            case LogPart(line):
                self._note(plan.agent, line)
            case EndPart():
                heard.end = part

    def _stream(self, plan: Plan, text: str, tool: str | None = None) -> None:
        running = self._running[plan.agent]
        data: dict[str, Any] = {
            "job": plan.primary.id,
            "agent": plan.agent,
            "message_id": plan.asked.id,
            "text": _whole(text),
            "offset": running.length,
        }
        if tool:
            data["tool"] = tool
        running.text.append(text)
        running.length += len(text.encode("utf-16-le", "surrogatepass")) // 2
        self._live.publish("stream", data)

    def _note(self, agent: str, text: str) -> None:
        self._logs.setdefault(agent, deque(maxlen=LOG_LINES)).append(
            {"ts": now_iso(), "text": _whole(text[:2000])}
        )

    async def _keep_session(self, plan: Plan, resume: str) -> None:
        async def work(tx: Tx) -> None:
            await tx.execute(Q.set_session, name=plan.agent, session=plan.session, resume=resume)

        try:
            await self._store.write(work)
        except (StoreError, self._store.transient) as error:
            # The turn is worth more than its going on in the same conversation.
            log.warning("conversation not kept", agent=plan.agent, error=str(error))

    @staticmethod
    def _cut_short(heard: Heard, outcome: Outcome) -> Outcome:
        """What a turn used until it was cut off is spent all the same."""
        return replace(
            outcome,
            detail=_whole(outcome.detail),
            tools=tuple(heard.tools),
            usage=heard.usage,
        )

    def _outcome(self, plan: Plan, heard: Heard) -> Outcome:
        if heard.needless:
            return Outcome(detail=heard.needless, needless=True)
        end = heard.end or EndPart(FailureClass.CRASH, "the agent ended without saying how")
        text = "".join(self._running[plan.agent].text) if end.text is None else end.text
        failure, detail = end.failure, end.detail
        if failure is None and not text.strip():
            failure, detail = FailureClass.EMPTY, "it answered nothing"
        return Outcome(
            text=_whole(text.strip()),
            failure=failure,
            detail=_whole(detail),
            retry_at=end.retry_at,
            truncated=end.truncated,
            tools=tuple(heard.tools),
            usage=heard.usage,
        )

    async def _end(self, plan: Plan, outcome: Outcome) -> None:
        try:
            await self.before_end()
        except Exception as error:
            # The file is out of reach: its tail says so, and the answer must not wait for it.
            log.warning("transcript not read before the end of a turn", agent=plan.agent, error=str(error))
        await self._finish(plan, replace(outcome, changes=await self._changes(plan.agent)))

    async def _changes(self, agent: str) -> Changes | None:
        if self.workplaces is None:
            return None
        try:
            return await self.workplaces.after_turn(agent)
        except Exception:
            # The answer exists only here, and is worth more than what it changed.
            log.exception("changes of a turn not read", agent=agent)
            return None

    async def _finish(self, plan: Plan, outcome: Outcome) -> None:
        """Record the end; a locked or full database is waited for, since the answer exists only here."""
        wait = 0.2
        while True:
            now = self._clock()
            try:
                kept = await self._store.write(
                    lambda tx, now=now, outcome=outcome: queue.finish(  # type: ignore[misc]
                        tx, plan, outcome, now=now, chance=random.random()
                    ),
                    durable=True,
                )
                break
            except (StoreBusy, OSError, self._store.transient) as error:
                log.warning("answer waits for the database", agent=plan.agent, error=str(error))
                self._note(plan.agent, f"the answer waits for the database: {error}")
                if self._stopping:
                    raise
                await asyncio.sleep(wait)
                wait = min(wait * 2, 5.0)
            except Exception as error:
                if outcome.failure is not None:
                    raise
                # An answer that cannot be recorded must not keep its agent busy for ever.
                log.exception("answer cannot be recorded", agent=plan.agent, job=plan.primary.id)
                detail = f"its answer could not be recorded ({type(error).__name__})"
                outcome = Outcome(failure=FailureClass.CRASH, detail=detail)
        result = "interrupted" if outcome.interrupted else str(outcome.failure or "done")
        self.turn_seconds(plan.agent, result, now - plan.started_at)
        log.info(
            "turn ended" if kept else "turn was given up before its end",
            agent=plan.agent,
            job=plan.primary.id,
            message=plan.asked.id,
            result=result,
            seconds=round(now - plan.started_at, 3),
            detail=outcome.detail or None,
        )
        if outcome.detail:
            self._note(plan.agent, outcome.detail)
        self.poke(plan.agent)


def _takes_main(message: Message, agent: str) -> bool:
    """Does it ask this agent to take the main branch in? Only the room itself may: a person's message has no such
    field."""
    return message.kind is Kind.ADVISORY and agent in message.meta.get(TAKE_MAIN, ())


def _whole(text: str) -> str:
    """Without halves of characters, which an agent's JSON may hold and no database or socket takes; two
    halves that belong together become one."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


async def _nothing() -> None:
    """Nothing to be done before the end of a turn."""

"""Carries out what people order the room to do, through whichever interface.

Invariant: an action, its events and the room's answer are one transaction. What reaches outside the database (ending
a process) is returned in `Result` and done after the commit, so it is never done for an action that did not happen.
An unverified entry may ask, but lifts no guard.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from relay.log.encoding import dumps
from relay.model import (
    Airspace,
    Board,
    Handoffs,
    Holds,
    Message,
    Orders,
    Refusal,
    Remembered,
    Timeline,
    actions,
    references,
)
from relay.model.actions import Action
from relay.model.names import listed
from relay.room.dispatch import queue
from relay.room.dispatch.breaker import BreakerState, CircuitBreaker
from relay.room.dispatch.permissions import ALLOW, REJECT, PermissionBroker, code_span
from relay.room.dispatch.recovery import lift_hops
from relay.room.dispatch.roster import Policy, Roster
from relay.room.dispatch.running import RunningTurns
from relay.room.entries import orders as entries
from relay.room.journal import ledger, usage
from relay.room.journal.admission_rules import Rules
from relay.room.journal.ledger import Q
from relay.room.journal.orders import Ending, Order, Result
from relay.room.journal.values import Job, JobState
from relay.room.routing import router
from relay.room.steward import answers
from relay.room.steward.guarded import GUARDED, OUTSIDE, OWN, QUOTED
from relay.room.steward.meant import given_up, jobs_of, message_of, refuse_deleted
from relay.room.steward.overview import Overview
from relay.room.steward.tasks import TaskActions
from relay.store.ports import Tx

#: What people look at and agents need not.
_FOR_PEOPLE = (actions.ShowNeeds, actions.ShowApps)

#: Latest jobs that ended badly, among which `/try` looks for one of the agent's.
LATEST = 200


class ActionHandlers:
    """Carries out actions in the caller's transaction. Raises Refusal, with nothing changed."""

    def __init__(
        self,
        board: Board,
        roster: Roster,
        turns: RunningTurns,
        holds: Holds,
        airspace: Airspace,
        permissions: PermissionBroker,
        overview: Overview,
        handoffs: Handoffs,
        timeline: Timeline | None = None,
        memory: Remembered | None = None,
        outside: Mapping[type[Action], Timeline] | None = None,
        orders: Mapping[type[Action], Orders] | None = None,
        checks: Mapping[type[Action], Callable[[Any], Awaitable[None]]] | None = None,
    ) -> None:
        """`outside`: by action, what carries out one of `OUTSIDE` that is none of the timeline's; `orders`: by a kind
        of actions, the wing that carries them out; `checks`: by action, what may refuse it before its transaction."""
        self._checks = checks or {}
        self._roster, self._turns, self._holds = roster, turns, holds
        self._tasks = TaskActions(board, roster, holds)
        #: As of `TaskActions`.
        self.sessions = self._tasks.sessions
        self._airspace, self._permissions, self._overview = airspace, permissions, overview
        self._handoffs = handoffs
        self._timeline, self._memory = timeline, memory
        self._outside, self._orders = outside or {}, orders or {}

    def asks(self, permit: actions.Permit) -> bool:
        """Does what it answers wait here, in this member of the fleet?"""
        try:
            self._permissions.find(permit.request)
        except Refusal:
            return False
        return True

    def after_commit(self, result: Result) -> None:
        """Do what reaches outside of the database."""
        for turn in result.cancel:
            self._turns.cancel(*turn)
        if result.permission is not None:
            self._permissions.answer(*result.permission)

    async def perform(self, action: Action, order: Order) -> Result | None:
        """Carry out what cannot be done in a transaction; None: the action can. A second time gives what was answered
        the first time. Raises Refusal."""
        if isinstance(action, actions.Recall):
            # A look, which the one transaction that writes need not wait for.
            return Result(await self._remembered().recall(action), for_people=True)
        check = self._checks.get(type(action))
        if check is None and not isinstance(action, OUTSIDE | actions.AnswerHandoff | actions.RunPipeline):
            return None
        if isinstance(action, GUARDED):
            _verify(action, order)
        if check is not None:
            await check(action)
            return None
        if isinstance(action, actions.AnswerHandoff | actions.RunPipeline):
            await self._handoffs.check(action)
            return None
        part = self._outside.get(type(action), self._timeline)
        if part is None:
            raise Refusal("This room has no timeline.", "")
        text = await part.carry_out(action, by=order.by, source_key=f"order:{order.message.id}")
        return Result(text, for_people=isinstance(action, OWN))

    async def handle(self, tx: Tx, action: Action, order: Order) -> Result:
        """Carry out the action. Its `Result` goes to `after_commit`."""
        if isinstance(action, GUARDED):
            _verify(action, order)
        match action:
            case actions.OfBoard():
                return await self._tasks.carry_out(tx, action, order)
            case actions.ShowHelp(name):
                return Result(answers.render_help(name))
            case actions.ShowWho():
                return Result(answers.render_who(await self._overview.read(tx)))
            case actions.ShowQueue():
                return Result(answers.render_queue(await self._overview.read(tx)))
            case actions.ShowCost():
                return Result(usage.said(await usage.day_use(tx, order.now)))
            case actions.ShowTasks():
                return Result(answers.render_tasks(await self._overview.read(tx)))
            case actions.Route(agents, number):
                return await self.route(tx, await message_of(tx, number), list(agents), order)
            case actions.Retry(number, of):
                return await self.retry(tx, await jobs_of(tx, number, of), order)
            case actions.RetryAll(agent):
                missed = await given_up(tx, [agent], order.now)
                return await self.retry(tx, [job for job, _ in reversed(missed)], order)
            case actions.Cancel(agents):
                return await self.cancel(tx, agents, order)
            case actions.Pause(agents):
                return await self.pause(tx, agents, order)
            case actions.Resume(agents):
                return await self.resume(tx, agents, order)
            case actions.TryNow(agents):
                return await self.try_now(tx, agents, order)
            case actions.Continue():
                rules = Rules(agents=self._roster.names)
                return Result(await lift_hops(tx, rules, now=order.now, parents=order.cause))
            case actions.OnEntries():
                return await entries.carry_out(tx, action, order, self._roster.names)
            case actions.ShowAirspace():
                return Result(self._airspace.who_is_near())
            case actions.DeclareIntent(agent):
                paths = await self._airspace.declare(tx, action, by=order.by, cause=order.cause)
                names = ", ".join(f"`{path}`" for path in paths)
                text = f"{agent} intends to touch {names}." if paths else f"{agent} has no declared intent."
                return Result("\n\n".join([text, *self._airspace.in_hand(agent, paths)]))
            case actions.GoFirst(agent):
                return Result(await self._airspace.go_first(tx, agent, by=order.by, cause=order.cause))
            case actions.Stop(agents):
                return await self.stop(tx, agents, order)
            case actions.TakeMain(agents):
                take_main, by, cause = self._airspace.take_main, order.by, order.cause
                return Result(" ".join([await take_main(tx, name, by=by, cause=cause) for name in agents]))
            case actions.Permit():
                return self._permit(action, order)
            case actions.ShowLocks(path):
                return await self._show_locks(tx, path)
            case actions.ForceRelease():
                return await self._unlock(tx, action, order)
            case actions.HandOn():
                return Result(await self._handoffs.hand_on(tx, action, by=order.by, cause=order.cause))
            case actions.AnswerHandoff():
                return Result(await self._handoffs.answer(tx, action, by=order.by, cause=order.cause))
            case actions.Remember() | actions.Decide() | actions.Forget() | actions.JudgeMemory():
                by, message, cause = order.by, order.message, order.cause
                carry_out = self._remembered().carry_out
                return Result(await carry_out(tx, action, by=by, message=message, cause=cause))
            case actions.Exploring() | actions.Verifying() | actions.Needing() | actions.InWorktrees():
                wing = next((wing for kind, wing in self._orders.items() if isinstance(action, kind)), None)
                if wing is None:
                    raise Refusal("This room has no part that does it.", "")
                text = await wing.carry_out(tx, action, by=order.by, cause=order.cause)
                return Result(text, for_people=isinstance(action, _FOR_PEOPLE))
            case actions.Steer() | actions.SendReview():
                # A person's is a message and never comes here; this is a line that proves nobody.
                raise Refusal(
                    f"A line of the transcript file is no `{action.word}`.",
                    f"Say it in the page or with join.py, or mention @{action.named()[0]}.",
                )
            case actions.RunPipeline():
                return Result(await self._handoffs.pipeline(tx, action, by=order.by, cause=order.cause))
            case _:
                raise Refusal(f"The room does not know how to do {action!r}.")

    def _remembered(self) -> Remembered:
        """The room's memory. Raises Refusal."""
        if self._memory is None:
            raise Refusal("This room has no memory.", "")
        return self._memory

    async def _show_locks(self, tx: Tx, path: str | None) -> Result:
        view = await self._overview.read(tx)
        if path is None:
            return Result(answers.render_locks(view))
        locks = await self._holds.meeting(tx, path)
        keys = frozenset(
            (str(lock["file_path"]), str(lock["locked_by"]), str(lock["session"])) for lock in locks
        )
        return Result(answers.render_locks_at(view, path, keys))

    async def _unlock(self, tx: Tx, action: actions.ForceRelease, order: Order) -> Result:
        taken = await self._holds.force_release(tx, action, by=order.by, cause=order.cause)
        names = list(dict.fromkeys(str(lock["locked_by"]) for lock in taken))
        verbs = ("holds", "is told") if len(names) == 1 else ("hold", "are told")
        shown = code_span(str(taken[0]["file_path"]))
        return Result(f"{shown} is free: {listed(names)} no longer {verbs[0]} it, and {verbs[1]}.")

    def _permit(self, action: actions.Permit, order: Order) -> Result:
        """Answer what an agent asks for. The agent gets the answer after the commit."""
        pending = self._permissions.find(action.request)
        option = pending.option(action.option, ALLOW if action.allow else REJECT)
        allowed = option is not None and option.kind in ALLOW
        if allowed != action.allow:
            word, other = ("refuses", "deny") if action.allow else ("allows", "allow")
            raise Refusal(f"That option {word} it.", f"`/{other} {references.request(pending.number)}` does.")
        if allowed:
            _verify(action, order)
        verb, request = "allows" if allowed else "refuses", pending.request
        name = f" ({code_span(option.label)})" if option is not None else ""
        text = f"{order.by} {verb} {request.agent}: {code_span(request.title)}{name}."
        return Result(text, permission=(pending.id, option, order.by))

    async def route(self, tx: Tx, message: Message, agents: list[str], order: Order) -> Result:
        """Overrule the dispatcher for one message."""
        if message.kind != "human" or "claims" in message.meta:
            raise Refusal(
                f"{references.message(message.number)} is not a person's message.",
                "Route one that a person wrote.",
            )
        refuse_deleted(message)
        self._known(agents)
        asked = await router.overrule(tx, message, agents, by=order.by, now=order.now, parents=order.cause)
        named = ", ".join(agents)
        goes = f"goes to {named}." if asked else f"is with {named} already."
        waits = []
        for name in agents:
            prospect = await self._prospect(tx, self._policy(name), order)
            waits += [f"{name}: {prospect.why}."] if prospect.why and prospect.able else []
        return Result(" ".join([f"{references.message(message.number)} {goes}", *waits]))

    async def retry(self, tx: Tx, jobs: Sequence[Job], order: Order) -> Result:
        """Queue those of the jobs again that ended badly."""
        again = [job for job in jobs if job.state in (JobState.DEAD, JobState.SKIPPED, JobState.FAILED)]
        if not again:
            states = ", ".join(f"{job.agent} {job.state}" for job in jobs) or "nobody was asked"
            raise Refusal(f"There is nothing to try again: {states}.", "`/queue` shows what failed.")
        for id in dict.fromkeys(job.message_id for job in again):
            if (asked := await ledger.message(tx, id)) is not None:
                refuse_deleted(asked)
        tried: list[str] = []
        waits: list[str] = []
        refused: list[str] = []
        for job in again:
            policy = self._policy(job.agent)
            prospect = await self._prospect(tx, policy, order)
            if not prospect.able:
                refused.append(f"{job.agent} cannot be asked now: {prospect.why}.")
                continue
            if prospect.probes:
                await queue.probe_now(tx, policy)
            await ledger.change_job(tx, job, JobState.PENDING, now=order.now, attempts=0, parents=order.cause)
            tried.append(job.agent)
            waits += [f"{job.agent}: {prospect.why}."] if prospect.why else []
        if not tried:
            raise Refusal(" ".join(dict.fromkeys(refused)), "`/who` shows how the agents are.")
        names = list(dict.fromkeys(tried))
        many = f" ({len(tried)} messages)" if len(tried) > len(names) else ""
        return Result(" ".join([f"Trying again: {listed(names)}{many}.", *dict.fromkeys([*waits, *refused])]))

    async def try_now(self, tx: Tx, agents: Sequence[str], order: Order) -> Result:
        """The one attempt of an open circuit, at once: with the latest message that the agent could not answer."""
        texts = []
        for name in self._known(agents):
            policy = self._policy(name)
            prospect = await self._prospect(tx, policy, order)
            # One whose pause is over waits for its attempt too.
            closed = (await queue.load_breaker(tx, policy)).state is BreakerState.CLOSED
            missed = [Job.of_row(row) for row in await tx.all(Q.last_skips, limit=LATEST)]
            latest = max((job for job in missed if job.agent == name), key=lambda job: job.id, default=None)
            if not prospect.probes and prospect.why:
                raise Refusal(
                    f"{name} cannot be tried now: {prospect.why}.", "`/who` shows how the agents are."
                )
            if not prospect.probes and closed:
                fix = (
                    f"`{actions.Retry(latest.id, 'job').line()}` asks again"
                    if latest
                    else "Send it a message"
                )
                raise Refusal(f"{name} works: it gets every message.", f"{fix}.")
            if latest is not None:
                texts.append((await self.retry(tx, [latest], order)).text)
                continue
            await queue.probe_now(tx, policy)
            texts.append(
                f"The next message for {name} is its one attempt: if it succeeds, the circuit closes and "
                f"{name} gets work again."
            )
        return Result(" ".join(texts))

    def _policy(self, agent: str) -> Policy:
        member = self._roster.members.get(agent)
        if member is None:
            return Policy(agent, unable="it is not in the configuration any more")
        return member.policy

    async def _prospect(self, tx: Tx, policy: Policy, order: Order) -> queue.Prospect:
        member = self._roster.members.get(policy.agent)
        return await queue.prospect(tx, policy, order.now, absence=member.absence if member else "")

    async def cancel(
        self, tx: Tx, agents: Sequence[str], order: Order, *, waiting_too: bool = True
    ) -> Result:
        """End running turns, and (`waiting_too`) skip what waits behind them: those of what was said before the
        command."""
        active = await tx.all(Q.active_jobs)
        # An agent that was taken out of the configuration may still be at work.
        self._known([name for name in agents if all(row["agent"] != name for row in active)], none=True)
        running: list[Ending] = []
        waiting: list[str] = []
        for name in agents:
            waits = await tx.all(Q.open_jobs_of_agent, agent=name)
            rows = [*(row for row in active if row["agent"] == name), *waits]
            asked = await tx.all(Q.messages_by_ids, ids=dumps([row["message_id"] for row in rows]))
            since = {row["id"] for row in asked if row["number"] > order.message.number}
            before = [row for row in rows if row["message_id"] not in since]
            held = [row for row in before if row["state"] == JobState.ACTIVE]
            if held:
                job = held[-1]
                running.append(Ending(name, order.by, job["id"], job["started_at"], order.message.number))
            for row in before[len(held) :] if waiting_too else ():
                await ledger.change_job(
                    tx,
                    Job.of_row(row),
                    JobState.SKIPPED,
                    now=order.now,
                    reason=f"cancelled by {order.by}",
                    error_class="cancelled",
                    parents=order.cause,
                )
                waiting.append(name)
        if not running and not waiting:
            raise Refusal(f"{' and '.join(agents)} had nothing to cancel.", "`/queue` shows who works.")
        parts = [f"ending {ending.agent}'s turn" for ending in running]
        if waiting:
            parts.append(f"{len(waiting)} waiting message{'s' * (len(waiting) != 1)} taken back")
        text = ", ".join(parts)
        return Result(f"{text[0].upper()}{text[1:]}.", cancel=tuple(running))

    async def stop(self, tx: Tx, agents: Sequence[str], order: Order) -> Result:
        """End running turns, and give these agents no new turn: what waits goes on waiting."""
        names = self._known(agents)
        await self.pause(tx, names, order)
        try:
            done = await self.cancel(tx, names, order, waiting_too=False)
        except Refusal:
            # Nothing runs: then it is only kept from beginning anew.
            done = Result("")
        ended = f" {done.text}" if done.text else ""
        again = f"/resume {' '.join(f'@{name}' for name in names)}"
        text = f"{order.by} stopped {listed(names)}.{ended} Messages wait until `{again}`."
        return Result(text, cancel=done.cancel)

    async def pause(self, tx: Tx, agents: Sequence[str], order: Order) -> Result:
        """Give these agents no new turn; a running one goes on."""
        names = self._known(agents or self._roster.names)
        for name in names:
            await tx.execute(Q.set_paused, name=name, paused=1)
            await ledger.agent_state(tx, name, "paused", order.message.id, order.cause, by=order.by)
        return Result(f"{listed(names)} paused. New messages wait until `/resume`.")

    async def resume(self, tx: Tx, agents: Sequence[str], order: Order) -> Result:
        """Give these agents turns again; also closes an open breaker and ends a rate limit's wait."""
        names = self._known(agents or self._roster.names)
        for name in names:
            await tx.execute(Q.set_paused, name=name, paused=0)
            await queue.keep_breaker(tx, name, CircuitBreaker())
            await ledger.agent_state(tx, name, "resumed", order.message.id, order.cause, by=order.by)
        return Result(f"{listed(names)} may work again.")

    def _known(self, agents: Sequence[str], *, none: bool = False) -> list[str]:
        names = self._roster.names
        for name in agents:
            if name not in names:
                have = ", ".join(names) or "none"
                raise Refusal(f"There is no agent {name}.", f"The room has: {have}.")
        if not agents and not none:
            raise Refusal("The room has no agents.", "Add one to config.json.")
        return list(agents)


def _verify(action: Action, order: Order) -> None:
    """Raises Refusal when the action comes from an entry that proves nobody."""
    if not order.verified:
        does = "is the word of whoever says it" if isinstance(action, QUOTED) else "lifts a guard"
        raise Refusal(
            f"`{action.line().split()[0]}` {does}, and a line written straight into the transcript proves nobody.",
            "Say it in the page or with join.py while the room runs.",
        )

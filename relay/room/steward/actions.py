"""What people order the room to do: the commands, and the same acts from the page's buttons.

Invariant: an act, its events and the room's answer are one transaction; what reaches outside the database
(ending a process) is returned as `after` and done once that is committed, so it is never done for an act that
did not happen. An unverified entry may ask, but lifts no guard.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from relay.log import events
from relay.log.events import NewEvent
from relay.model import STEWARD, Airspace, Board, Holds, Message, Refusal, references
from relay.room.dispatch import queue
from relay.room.dispatch.breaker import BreakerState
from relay.room.dispatch.permissions import ALLOW, REJECT, PermissionDesk, code_span
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.view import StewardView
from relay.room.journal import ledger
from relay.room.journal.ledger import Q, Rules
from relay.room.journal.values import Job, JobState, message_of_row
from relay.room.parsing import commands
from relay.room.routing import router
from relay.room.steward import answers
from relay.store.ports import Tx

#: Jobs that ended badly among which the one is looked for that an agent is tried with.
LATEST = 200


@dataclass(frozen=True, slots=True)
class Act:
    """Who does something, because of which event, on behalf of which message."""

    by: str
    message: Message
    event_id: str
    verified: bool
    now: float


@dataclass(frozen=True, slots=True)
class Done:
    """`text` is the room's answer. `cancel`: (agent, job) of the turns to be ended after the commit."""

    text: str
    cancel: tuple[tuple[str, int], ...] = ()
    #: The room number of the task that the act is about.
    task: int | None = None
    #: Called after the commit.
    after: Callable[[], object] | None = None


class Acts:
    """Carries out commands in the caller's transaction. Raises Refusal, with nothing changed."""

    def __init__(
        self,
        board: Board,
        roster: Callable[[], Roster],
        airspace: Airspace | None = None,
        permissions: PermissionDesk | None = None,
        holds: Holds | None = None,
    ) -> None:
        self._board = board
        self._roster = roster
        self._airspace = airspace
        self._permissions = permissions
        self._holds = holds

    async def obey(
        self, tx: Tx, command: commands.Command, act: Act, view: Callable[[], Awaitable[StewardView]]
    ) -> Done:
        """Do what `command` says, and answer. `view` looks at the room, which costs as much as the room is large."""
        match command:
            case commands.ShowHelp(name):
                return Done(answers.render_help(name))
            case commands.ShowWho():
                return Done(answers.render_who(await view()))
            case commands.ShowQueue():
                return Done(answers.render_queue(await view()))
            case commands.ShowTasks():
                return Done(answers.render_tasks(await view()))
            case commands.Route(number, agents):
                self._guard(act, "/route")
                return await self.route(tx, await _message(tx, number), list(agents), act)
            case commands.Retry(number, of):
                self._guard(act, "/retry")
                return await self.retry(tx, await _jobs_of(tx, number, of), act)
            case commands.Cancel(agents):
                return await self.cancel(tx, agents, act)
            case commands.Pause(agents):
                return await self.pause(tx, agents, act)
            case commands.Resume(agents):
                return await self.resume(tx, agents, act)
            case commands.TryNow(agents):
                return await self.try_now(tx, agents, act)
            case commands.Continue():
                self._guard(act, "/continue")
                rules = Rules(agents=self._roster().names)
                return Done(await queue.lift_hops(tx, rules, now=act.now, parents=[act.event_id]))
            case commands.ShowAirspace():
                return Done(self._sky().who_is_near())
            case commands.DeclareIntent(agent, paths):
                kept = await self._sky().declare(tx, agent, paths, by=act.by, cause=[act.event_id])
                told = ", ".join(f"`{path}`" for path in kept)
                said = f"{agent} intends to touch {told}." if kept else f"{agent} has no declared intent."
                return Done("\n\n".join([said, *self._sky().in_hand(agent, kept)]))
            case commands.GoFirst(agent):
                self._guard(act, "/first")
                return Done(await self._sky().go_first(tx, agent, by=act.by, cause=[act.event_id]))
            case commands.Stop(agents):
                return await self.stop(tx, agents, act)
            case commands.TakeMain(agents):
                asked = [
                    await self._sky().take_main(tx, name, by=act.by, cause=[act.event_id]) for name in agents
                ]
                return Done(" ".join(asked))
            case commands.Permit(request, option, allow):
                return self._permit(request, option, allow, act)
            case commands.ShowLocks(path):
                return await self._show_locks(tx, path, await view())
            case commands.ForceRelease(path, reason):
                self._guard(act, "/unlock")
                return await self._unlock(tx, path, reason, act)
            case _:
                return await self._board_command(tx, command, act)

    async def _show_locks(self, tx: Tx, path: str | None, view: StewardView) -> Done:
        if path is None or self._holds is None:
            return Done(answers.render_locks(view))
        met = await self._holds.meeting(tx, path)
        keys = frozenset((str(one["file_path"]), str(one["locked_by"]), str(one["session"])) for one in met)
        return Done(answers.render_locks_at(view, path, keys))

    async def _unlock(self, tx: Tx, path: str, reason: str, act: Act) -> Done:
        if self._holds is None:
            raise Refusal("This room has no locks.")
        taken = await self._holds.force_release(tx, path, by=act.by, reason=reason, cause=[act.event_id])
        names = list(dict.fromkeys(str(one["locked_by"]) for one in taken))
        verb, told = ("holds", "is told") if len(names) == 1 else ("hold", "are told")
        where = code_span(str(taken[0]["file_path"]))
        return Done(f"{where} is free: {_list(names)} no longer {verb} it, and {told}.")

    def _permit(self, request: str, option: str | None, allow: bool, act: Act) -> Done:
        """Answer what an agent asks for; it hears of it once this is committed."""
        if self._permissions is None:
            raise Refusal("No agent in this room asks for permission.")
        one = self._permissions.find(request)
        kinds = ALLOW if allow else REJECT
        chosen = one.option(option, kinds)
        allowed = chosen is not None and chosen.kind in ALLOW
        if allowed != allow:
            word = "refuses" if allow else "allows"
            raise Refusal(
                f"That option {word} it.",
                f"`/{'deny' if allow else 'allow'} {references.request(one.number)}` does.",
            )
        if allowed:
            self._guard(act, "/allow")
        desk, asked = self._permissions, one.request
        named = f" ({code_span(chosen.name)})" if chosen is not None else ""
        text = (
            f"{act.by} {'allows' if allowed else 'refuses'} {asked.agent}: {code_span(asked.title)}{named}."
        )
        return Done(text, after=lambda: desk.answer(one.id, chosen, act.by))

    def _sky(self) -> Airspace:
        if self._airspace is None:
            raise Refusal(
                "This room has no airspace.", "Set `airspace.enabled` to true and restart the room."
            )
        return self._airspace

    async def _board_command(self, tx: Tx, command: commands.Command, act: Act) -> Done:
        lane, cause = ledger.cycle_lane(act.message.id), [act.event_id]
        match command:
            case commands.AddTask(title):
                made = await self._board.create(tx, title, by=act.by, lane=lane, cause=cause)
            case commands.MoveTask(number, status):
                made = await self._board.move(tx, number, str(status), by=act.by, lane=lane, cause=cause)
            case commands.MoveAll(status):
                made = await self._board.move_all(tx, str(status), by=act.by, lane=lane, cause=cause)
            case commands.ClearAll():
                made = await self._board.clear_all(tx, by=act.by, lane=lane, cause=cause)
            case commands.Undo():
                made = await self._board.undo(tx, by=act.by, lane=lane, cause=cause)
            case _:
                raise Refusal(f"The room does not know how to do {command!r}.")
        about = made.task.number if isinstance(command, commands.AddTask | commands.MoveTask) else None
        return Done(f"{act.by} {made.summary()}", task=about)

    async def rename(self, tx: Tx, number: int, title: str, act: Act) -> Done:
        lane = ledger.cycle_lane(act.message.id)
        made = await self._board.rename(tx, number, title, by=act.by, lane=lane, cause=[act.event_id])
        return Done(f"{act.by} {made.summary()}")

    async def route(self, tx: Tx, message: Message, agents: list[str], act: Act) -> Done:
        """Overrule the dispatcher for one message."""
        if message.kind != "human" or "claims" in message.meta:
            raise Refusal(
                f"{references.message(message.number)} is not a person's message.",
                "Route one that a person wrote.",
            )
        self._known(agents)
        asked = await router.overrule(tx, message, agents, by=act.by, now=act.now, parents=[act.event_id])
        named = ", ".join(agents)
        if not asked:
            return Done(f"{references.message(message.number)} is with {named} already.")
        return Done(f"{references.message(message.number)} goes to {named}.")

    async def retry(self, tx: Tx, jobs: Sequence[Job], act: Act) -> Done:
        """Queue jobs anew that ended badly."""
        again = [job for job in jobs if job.state in (JobState.DEAD, JobState.SKIPPED, JobState.FAILED)]
        if not again:
            states = ", ".join(f"{job.agent} {job.state}" for job in jobs) or "nobody was asked"
            raise Refusal(f"There is nothing to try again: {states}.", "`/queue` shows what failed.")
        tried: list[str] = []
        waits: list[str] = []
        refused: list[str] = []
        for job in again:
            policy = self._policy(job.agent)
            found = await queue.prospect(tx, policy, act.now)
            if not found.able:
                refused.append(f"{job.agent} cannot be asked now: {found.why}.")
                continue
            if found.probes:
                self._guard(act, "/retry")
                await queue.probe_now(tx, policy)
            await ledger.change_job(
                tx, job, JobState.PENDING, now=act.now, attempts=0, parents=[act.event_id]
            )
            tried.append(job.agent)
            waits += [f"{job.agent}: {found.why}."] if found.why else []
        if not tried:
            raise Refusal(" ".join(dict.fromkeys(refused)), "`/who` shows how the agents are.")
        return Done(" ".join([f"Trying again: {_list(tried)}.", *dict.fromkeys([*waits, *refused])]))

    async def try_now(self, tx: Tx, agents: Sequence[str], act: Act) -> Done:
        """The one attempt of an open circuit, at once: with the latest message that the agent could not answer."""
        self._guard(act, "/try")
        said = []
        for name in self._known(agents):
            policy = self._policy(name)
            found = await queue.prospect(tx, policy, act.now)
            if not found.probes:
                why = f": {found.why}" if found.why else ": its circuit is closed, so it gets work"
                raise Refusal(
                    f"{name} has nothing to try{why}.", "`/retry m<number>` asks again for a message."
                )
            missed = [Job.of_row(row) for row in await tx.all(Q.last_skips, limit=LATEST)]
            latest = max((job for job in missed if job.agent == name), key=lambda job: job.id, default=None)
            if latest is not None:
                said.append((await self.retry(tx, [latest], act)).text)
                continue
            await queue.probe_now(tx, policy)
            said.append(
                f"The next message for {name} is its one attempt: if it succeeds, the circuit closes and "
                f"{name} gets work again."
            )
        return Done(" ".join(said))

    def _policy(self, agent: str) -> queue.Policy:
        member = self._roster().members.get(agent)
        if member is None:
            return queue.Policy(agent, unable="it is not in the configuration any more")
        return member.policy

    async def cancel(self, tx: Tx, agents: Sequence[str], act: Act) -> Done:
        """End running turns, and skip what waits behind them."""
        active = await tx.all(Q.active_jobs)
        # An agent that was taken out of the configuration may still be at work.
        self._known([name for name in agents if all(row["agent"] != name for row in active)], none=True)
        running: list[tuple[str, int]] = []
        waiting: list[str] = []
        for name in agents:
            held = [row["id"] for row in active if row["agent"] == name]
            if held:
                running.append((name, held[-1]))
            for row in await tx.all(Q.open_jobs_of_agent, agent=name):
                await ledger.change_job(
                    tx,
                    Job.of_row(row),
                    JobState.SKIPPED,
                    now=act.now,
                    reason=f"cancelled by {act.by}",
                    error_class="cancelled",
                    parents=[act.event_id],
                )
                waiting.append(name)
        if not running and not waiting:
            raise Refusal(f"{' and '.join(agents)} had nothing to cancel.", "`/queue` shows who works.")
        told = [f"ending {name}'s turn" for name, _ in running]
        if waiting:
            told.append(f"{len(waiting)} waiting message{'s' * (len(waiting) != 1)} taken back")
        text = ", ".join(told)
        return Done(f"{text[0].upper()}{text[1:]}.", cancel=tuple(running))

    async def stop(self, tx: Tx, agents: Sequence[str], act: Act) -> Done:
        """End running turns, skip what waits, and give these agents no new turn."""
        names = self._known(agents)
        await self.pause(tx, names, act)
        try:
            done = await self.cancel(tx, names, act)
        except Refusal:
            # Nothing runs and nothing waits: then it is only kept from beginning anew.
            done = Done("")
        ended = f" {done.text}" if done.text else ""
        again = f"/resume {' '.join(f'@{name}' for name in names)}"
        text = f"{act.by} stopped {_list(names)}.{ended} New messages wait until `{again}`."
        return Done(text, cancel=done.cancel)

    async def pause(self, tx: Tx, agents: Sequence[str], act: Act) -> Done:
        """Give these agents no new turn; a running one goes on."""
        names = self._known(agents)
        for name in names:
            await tx.execute(Q.set_paused, name=name, paused=1)
            await self._say_state(tx, name, "paused", act)
        return Done(f"{_list(names)} paused. New messages wait until `/resume`.")

    async def resume(self, tx: Tx, agents: Sequence[str], act: Act) -> Done:
        """Give these agents turns again; also closes an open breaker and ends a rate limit's wait."""
        self._guard(act, "/resume")
        names = self._known(agents)
        for name in names:
            await tx.execute(Q.set_paused, name=name, paused=0)
            await tx.execute(
                Q.put_breaker,
                agent=name,
                state=str(BreakerState.CLOSED),
                failures=0,
                opened_at=None,
                parked_until=None,
            )
            await self._say_state(tx, name, "resumed", act)
        return Done(f"{_list(names)} may work again.")

    async def _say_state(self, tx: Tx, agent: str, state: str, act: Act) -> None:
        await events.append(
            tx,
            NewEvent(
                type=ledger.AGENT_STATE,
                lane=ledger.cycle_lane(act.message.id),
                parents=[act.event_id],
                outputs={"agent": agent, "state": state, "by": act.by},
            ),
        )

    def _known(self, agents: Sequence[str], *, none: bool = False) -> list[str]:
        names = self._roster().names
        for name in agents:
            if name not in names:
                have = ", ".join(names) or "none"
                raise Refusal(f"There is no agent {name}.", f"The room has: {have}.")
        if not agents and not none:
            raise Refusal("The room has no agents.", "Add one to config.json.")
        return list(agents)

    def _guard(self, act: Act, what: str) -> None:
        if not act.verified:
            raise Refusal(
                f"`{what}` lifts a guard, and a line written straight into the transcript proves nobody.",
                "Say it in the page or with join.py while the room runs.",
            )


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


async def _message(tx: Tx, number: int) -> Message:
    row = await tx.one(Q.message_by_number, number=number)
    if row is None:
        raise Refusal(f"There is no message {references.message(number)}.", "Each message shows its number.")
    return message_of_row(row)


async def _jobs_of(tx: Tx, number: int, of: str) -> list[Job]:
    """The jobs that people mean by a number: of the message, of the answer's question, or the job itself."""
    if of != "job":
        row = await tx.one(Q.message_by_number, number=number)
        if row is not None:
            jobs = [Job.of_row(job) for job in await tx.all(Q.jobs_of_message, message_id=row["id"])]
            if not jobs and row["in_reply_to"]:
                jobs = [Job.of_row(j) for j in await tx.all(Q.jobs_of_message, message_id=row["in_reply_to"])]
            jobs = [job for job in jobs if job.agent != STEWARD]
            if jobs or of == "message":
                return jobs
    row = await tx.one(Q.job, id=number)
    if row is None:
        raise Refusal(
            f"There is no message {references.message(number)} and no job {references.job(number)}.",
            "`/queue` shows the jobs.",
        )
    return [Job.of_row(row)]

"""Carries handoffs from step to step: look at what was left, check it, set the receiver's worktree, or try again.

Invariants:
- each step ends in one transaction with what the room says, its event, the turn that it asks for, and the row's next
  state; all that is done to git before it may be done again. So a daemon that is killed goes on where it was, and
  nothing happens twice;
- a worktree is written under its lock and while no turn runs in it. That lock is held until the turn of the agent is
  queued, so the turn finds exactly the tree that was handed on;
- what a step cannot do is said in the room, with the answers that there are; nothing is tried in a loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import WorktreeGone
from relay.app.wiring.handoffs.checks import HandoffChecks
from relay.app.wiring.handoffs.orders import lane_of, with_role
from relay.app.wiring.handoffs.worktrees import HandoffWorktrees
from relay.config.settings import LiveSettings
from relay.git.run import GitError
from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.model import Refusal
from relay.room.advisory_voice import RoomVoice
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, JobState
from relay.store.ports import Store, StoreError, Tx, is_away
from relay.store.wakeup import go_on
from relay.timeline.checkpoints import maybe_first_green
from relay.timeline.file_changes import record_tree
from relay.timeline.handoffs import journal, wording
from relay.timeline.handoffs.event import outputs_of
from relay.timeline.handoffs.journal import HANDED_ON, Handoff, State

log = structlog.get_logger(__name__)
#: Seconds between two looks when nothing wakes it: while a handoff is open, and while none is.
POLL_S, IDLE_S = 2.0, 60.0
#: Changes of jobs and handoffs.
_WAKES = (*ledger.OF_THE_ROOM, HANDED_ON)
#: The rule whose first success on a tree is a milestone.
_TESTS = "AllTestsPass"
#: States in which there is something to do without an agent or a person.
_AT_WORK = (State.CHECKING, State.RETRYING, State.PASSED, State.LEAVING)


class HandoffSteps:
    """Drives every open handoff of a room. `registry`: its worktrees."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        registry: WorktreeRegistry,
        voice: RoomVoice,
        checks: HandoffChecks,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._settings, self._registry = store, settings, registry
        self._voice, self._checks, self._clock = voice, checks, clock
        self._worktrees = HandoffWorktrees(store, registry)
        self._running: dict[int, asyncio.Task[None]] = {}
        self._cleaned = False

    async def run(self) -> None:
        """Go on with what is open, for ever."""
        await go_on(self._store.wakeup(_WAKES), self.look, self._running, POLL_S, IDLE_S)

    async def look(self) -> bool:
        """Begin what can be done now; each handoff has one task at most. Is any open?"""
        if not self._cleaned and self._registry.main is not None:
            self._cleaned = True
            await self._checks.clean()
        for number in [number for number, task in self._running.items() if task.done()]:
            del self._running[number]
        handoffs = await self._store.read(journal.open_handoffs)
        for handoff in handoffs:
            if handoff.number in self._running:
                continue
            if handoff.state in (State.WORKING, State.FINISHING):
                await self._wait_for_turn(handoff)
            elif handoff.state in _AT_WORK and self._registry.main is not None:
                task = asyncio.create_task(self._go(handoff), name=f"handoff-{handoff.number}")
                self._running[handoff.number] = task
        return bool(handoffs)

    async def _go(self, handoff: Handoff) -> None:
        """One step. What is in the way is said."""
        step = {
            State.CHECKING: self._check,
            State.RETRYING: self._try_again,
            State.PASSED: self._hand_over,
            State.LEAVING: self._leave,
        }[handoff.state]
        try:
            await step(handoff)
        except (Refusal, GitError, WorktreeGone, OSError) as error:
            text = str(error) or type(error).__name__
            log.warning("handoff cannot go on", handoff=handoff.number, reason=text)
            await self._ask_people(handoff, text)
        except (StoreError, self._store.transient) as error:
            if not is_away(error):
                log.warning("handoff put off", handoff=handoff.number, reason=str(error))
        except Exception as error:
            log.exception("handoff failed", handoff=handoff.number)
            await self._ask_people(
                handoff, f"{type(error).__name__} inside the room; its log has the details."
            )

    async def _ask_people(self, handoff: Handoff, why: str) -> None:
        async def work(tx: Tx) -> None:
            row = await journal.load(tx, handoff.number)
            if row.state is handoff.state:
                await journal.save(tx, replace(row, state=State.ASKED))
                await self._say(tx, row, wording.stuck(row, why), why=why)

        await self._store.write(work)

    # -- an agent is at work

    async def _wait_for_turn(self, handoff: Handoff) -> None:
        """When the turn that was asked for has ended well, go on. A turn that failed can be tried again as any."""
        agent = handoff.source if handoff.state is State.WORKING else handoff.target

        async def ended(tx: Tx) -> bool:
            jobs = [Job.of_row(row) for row in await tx.all(Q.jobs_of_message, message_id=handoff.message)]
            return any(job.agent == agent and job.state is JobState.DONE for job in jobs)

        if not await self._store.read(ended):
            return

        async def work(tx: Tx) -> None:
            row = await journal.load(tx, handoff.number)
            if row.state is not handoff.state or row.message != handoff.message:
                return
            if row.state is State.WORKING:
                await journal.save(tx, replace(row, state=State.CHECKING))
                return
            await journal.save(tx, replace(row, state=State.DONE))
            await self._say(tx, row, wording.finished(row))

        await self._store.write(work)
        if handoff.state is State.WORKING:
            await self.look_again(handoff)

    async def look_again(self, handoff: Handoff) -> None:
        """Go on at once with one whose state has just changed."""
        row = await self._store.read(lambda tx: journal.load(tx, handoff.number))
        if row.state in _AT_WORK and row.number not in self._running and self._registry.main is not None:
            self._running[row.number] = asyncio.create_task(self._go(row), name=f"handoff-{row.number}")

    # -- what was left, and its check

    async def _check(self, handoff: Handoff) -> None:
        if handoff.tree is None:
            seen = await self._look_at(handoff)
            if seen is None:
                return  # its turn runs: another look comes when it ends
            handoff = seen
        checked = await self._checks.check(handoff)
        passed, results = checked.validation.passed, checked.validation.results
        places = self._worktrees.places
        assert handoff.tree is not None and handoff.at_commit is not None
        name = handoff.checkpoint
        commit = await places.keep_for_ever(handoff.tree, handoff.at_commit, name, name)

        async def work(tx: Tx) -> None:
            row = await journal.load(tx, handoff.number)
            if row.state is not State.CHECKING or row.tree != handoff.tree:
                return
            metrics = await self._checks.measure(tx, row, checked)
            lane = await self._lane_of(tx, row.source)
            event = await events.append(
                tx,
                NewEvent(
                    HANDED_ON,
                    lane or lane_of(row),
                    outputs=outputs_of(row, results, checked.artifacts, metrics),
                    parents=[each for each in (row.event or row.cause,) if each],
                    role=row.source_role,
                    branch=row.branch,
                    snapshot=row.tree,
                    file_touches=[artifact["path"] for artifact in checked.artifacts],
                ),
            )
            row = replace(row, event=event.id)
            if any(result.rule == _TESTS and result.state == "passed" for result in results):
                await maybe_first_green(
                    tx, handoff.tree or "", lane or lane_of(row), rule=_TESTS, parents=[event.id]
                )
            await journal.mark(tx, lane or lane_of(row), row, event, passed=passed, commit=commit)
            if passed:
                await journal.save(tx, replace(row, state=State.PASSED))
                await self._say(tx, row, wording.passed(row, results), event)
                return
            # Another attempt gets a branch of its own.
            again = replace(row, state=State.RETRYING, branch=None)
            asked = replace(row, state=State.ASKED)
            await journal.save(tx, again if row.attempt < row.allowed else asked)
            await self._say(tx, row, wording.failed(row, results), event)

        await self._store.write(work)
        await self._next(handoff)

    async def _look_at(self, handoff: Handoff) -> Handoff | None:
        """What the source left, kept and noted; None while its turn runs. Refuses early what cannot be received."""
        source = self._worktrees.of(handoff.source)
        main = await self._worktrees.main_commit()
        target = self._worktrees.of(handoff.target)
        async with source.lock:
            if self._worktrees.busy(handoff.source):
                return None
            snapshot = await source.take_snapshot(everything=True)
            lane = await self._store.read(lambda tx: self._lane_of(tx, handoff.source))
            branch = snapshot.head.branch or ""
            trailers = await self._registry.room.trailers(handoff.source, branch, snapshot.tree)
            subject = f"Hand on to {handoff.target} ({handoff.target_role})"
            about = f"Handoff {handoff.name} of {handoff.source} ({handoff.source_role})."
            text = "\n".join([subject, "", about, *(["", *trailers] if trailers else []), ""])
            key = (lane or lane_of(handoff)).key
            left = await self._worktrees.places.leave(handoff.source, snapshot, key, text)
            if handoff.branch is not None and left.branch == handoff.branch:
                # Each attempt is on its branch, so that they can be compared.
                await self._worktrees.places.settle(source.checkout, left.commit)
                source.mark_stale(None)
        async with target.lock:
            if not self._worktrees.busy(handoff.target):
                await self._worktrees.check_free(handoff.target, target, left.commit, main)
        base = handoff.base or await self._checks.base_of(handoff, left.commit, main)
        looked = replace(handoff, tree=left.tree, at_commit=left.commit, base=base)

        async def work(tx: Tx) -> None:
            row = await journal.load(tx, handoff.number)
            if row.state is State.CHECKING:
                await journal.save(tx, looked)

        await self._store.write(work)
        return looked

    # -- it passed

    async def _hand_over(self, handoff: Handoff) -> None:
        assert handoff.tree is not None and handoff.at_commit is not None and handoff.event is not None
        if self._worktrees.busy(handoff.target):
            return  # another look comes when its turn ends
        await self._worktrees.send_home(handoff)
        worktree = self._worktrees.of(handoff.target)
        if not worktree.own:
            raise Refusal(f"relay writes nothing in {worktree.checkout.top}.")
        async with worktree.lock:
            if self._worktrees.busy(handoff.target):
                return
            commit, tree = handoff.at_commit, handoff.tree
            home = await self._worktrees.home_for(worktree, commit)
            await self._worktrees.set_to(handoff, worktree, commit, tree, branch=home)
            await self._store.write(lambda tx: self._handed_over(tx, handoff))
        await self._next(handoff)

    async def _handed_over(self, tx: Tx, handoff: Handoff) -> None:
        row = await journal.load(tx, handoff.number)
        if row.state is not State.PASSED or row.event is None or row.tree is None:
            return
        event = await events.get(tx, row.event)
        assert event is not None
        settings = self._settings.current
        then = None
        if row.rest:
            agent = with_role(settings, row.rest[0])
            then = f"{agent.name} ({row.rest[0]})"
        lane = await self._lane_of(tx, row.target) or lane_of(row)
        read = await record_tree(tx, lane, row.target, row.tree, parents=[event.id], source="handoff")
        body = wording.receiver_prompt(row, event, await self._said(tx, row), then)
        spoken = await self._say_to(tx, row, body, row.target, [event.id, read.id])
        done = replace(row, state=State.DONE, written=None)
        if row.rest is None:
            await journal.save(tx, done)
        elif not row.rest:
            await journal.save(tx, replace(done, state=State.FINISHING, message=spoken))
        else:
            await journal.save(tx, done)
            following = Handoff(
                number=await journal.next_number(tx),
                state=State.WORKING,
                source=row.target,
                source_role=row.target_role,
                target=with_role(settings, row.rest[0]).name,
                target_role=row.rest[0],
                text=row.text,
                asker=row.asker,
                allowed=settings.handoffs.max_retries,
                began=event.pos,
                cause=event.id,
                rest=row.rest[1:],
                base=row.tree,
                message=spoken,
            )
            await journal.save(tx, following)

    # -- it did not

    async def _try_again(self, handoff: Handoff) -> None:
        assert handoff.tree is not None and handoff.at_commit is not None and handoff.event is not None
        branch = handoff.branch or await self._checks.retry_branch(handoff)
        worktree = self._worktrees.of(handoff.source)
        async with worktree.lock:
            if self._worktrees.busy(handoff.source):
                return
            await self._worktrees.places.take_branch(branch, handoff.at_commit)
            commit, tree = handoff.at_commit, handoff.tree
            await self._worktrees.set_to(handoff, worktree, commit, tree, branch=branch, free=False)
            trying = replace(
                handoff,
                state=State.WORKING,
                attempt=handoff.attempt + 1,
                branch=branch,
                tree=None,
                at_commit=None,
                written=None,
            )

            async def work(tx: Tx) -> None:
                row = await journal.load(tx, handoff.number)
                if row.state is not State.RETRYING or row.event is None or row.tree is None:
                    return
                event = await events.get(tx, row.event)
                assert event is not None
                lane = await self._lane_of(tx, row.source) or lane_of(row)
                read = await record_tree(tx, lane, row.source, row.tree, parents=[event.id], source="retry")
                body = wording.retry_prompt(trying, event)
                spoken = await self._say_to(tx, row, body, row.source, [event.id, read.id])
                await journal.save(tx, replace(trying, message=spoken))

            await self._store.write(work)

    async def _leave(self, handoff: Handoff) -> None:
        if not await self._worktrees.leave_branch(handoff):
            return

        async def work(tx: Tx) -> None:
            row = await journal.load(tx, handoff.number)
            if row.state is State.LEAVING:
                await journal.save(tx, replace(row, state=State.ENDED))

        await self._store.write(work)

    # -- small things

    async def _next(self, handoff: Handoff) -> None:
        """The next step of the same handoff, when there is one, in the same task."""
        row = await self._store.read(lambda tx: journal.load(tx, handoff.number))
        if row.state in _AT_WORK and row.state is not handoff.state:
            await self._go(row)

    async def _said(self, tx: Tx, handoff: Handoff) -> str:
        """The last answer of the outgoing agent."""
        rows = await tx.all(Q.answers_since, since=0.0, agent=handoff.source, limit=1)
        return str(rows[0]["body"]) if rows else ""

    async def _say_to(self, tx: Tx, handoff: Handoff, body: str, agent: str, cause: Sequence[str]) -> str:
        """Ask an agent; the message's id."""
        spoken = await self._voice.say(
            tx,
            body,
            now=self._clock(),
            lane=lane_of(handoff),
            to=[agent],
            ask=[agent],
            cause=cause,
            meta={"handoff": handoff.number},
        )
        return spoken.id

    async def _say(
        self, tx: Tx, handoff: Handoff, text: str, event: Event | None = None, *, why: str = ""
    ) -> None:
        """`why`: what is in the way, where it cannot go on; the inbox tells it."""
        meta = {"notice": "handoff", "handoff": handoff.number, **({"why": why} if why else {})}
        await ledger.say(
            tx, text, now=self._clock(), parents=[event.id] if event is not None else [], meta=meta
        )

    async def _lane_of(self, tx: Tx, agent: str) -> Lane | None:
        """The lane of an agent's conversation; None: it has none yet."""
        row = await tx.one(Q.agent, name=agent)
        return Lane(row["session"], agent) if row is not None and row["session"] else None

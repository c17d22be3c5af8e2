"""Carries explorations from step to step: the variants side by side, their comparison, the choice and the merge (003,
section 5).

Invariants:
- each step ends in one transaction with the row's next state, and all that is done to git before it may be done
again; so
  a process that is killed half-way is gone on from, and nothing is merged twice;
- one process carries an exploration, which holds the lock of its folder: the kernel gives it back when that process
dies; - the main branch, its files and its index are as they were until the winner is merged.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from relay.airspace.worktrees.lifecycle import is_ancestor
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.merge.exploration import orders
from relay.app.merge.exploration.choosing import Chooser
from relay.app.merge.exploration.measuring import Measures
from relay.app.merge.exploration.places import VariantPlaces
from relay.app.merge.exploration.variant_turn import POLL_S, Progress, run_within
from relay.app.merge.exploration.winner import MergeWinner, NotSeen
from relay.app.runtime.built_agents import build
from relay.base.files import alone_in
from relay.checks.runner import CheckRunner
from relay.config.settings import AgentSettings, LiveSettings
from relay.git.checkout import UnusableCheckout
from relay.git.run import GitError
from relay.log import events
from relay.merge.exploration import journal, wording
from relay.merge.exploration.journal import OVER, Exploration, State, Status, VariantRun
from relay.merge.exploration.scoring import compare
from relay.merge.exploration.selection import Candidate, choose
from relay.model import FailureClass, Refusal, Turn, TurnLimits
from relay.room.journal import ledger
from relay.store.ports import Store, StoreAway, StoreBusy, StoreError, Tx

log = structlog.get_logger(__name__)
#: How often the agent of a variant is started: once more where relay was ended while it ran.
ATTEMPTS = 2
#: Seconds between attempts to record how a variant has ended.
WAITS_S = (0.2, 1.0, 5.0, 15.0, 30.0, 60.0)
#: Seconds that an agent's own limit is above the budget's, which acts first.
_AFTER_S = 60.0


@dataclass(frozen=True, slots=True)
class ExplorerParts:
    """What an explorer needs: the room's store and settings, its worktrees, what runs commands in exported trees, and
    what merges a winner. `tell`: is called whenever something has changed, for whoever watches; `clock`: Unix
    seconds."""

    store: Store
    settings: LiveSettings
    registry: WorktreeRegistry
    runner: CheckRunner
    merge: MergeWinner
    tell: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.time
    poll_s: float = POLL_S


class BusyElsewhere(Exception):
    """Another process carries this exploration."""


class Explorer:
    """Carries explorations of one room."""

    def __init__(self, parts: ExplorerParts) -> None:
        self._parts, self._store, self._settings = parts, parts.store, parts.settings
        self.places = VariantPlaces(parts.registry)
        self._chooser = Chooser(self.places)

    async def go(self, number: int) -> Exploration:
        """Go on with an exploration until it is over or waits for people. Raises BusyElsewhere, Refusal,
        StoreError."""
        folder = await asyncio.to_thread(self.places.make_folder, number)
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(alone_in(folder, 0.0))
            except TimeoutError as error:
                raise BusyElsewhere from error
            await self._claim(number)
            while True:
                exploration = await self._store.read(lambda tx: journal.load(tx, number))
                if exploration.state in (*OVER, State.WAITING):
                    await self._tidy(exploration)
                    return exploration
                await self._step(exploration)
                self._parts.tell()

    async def _claim(self, number: int) -> None:
        """A database may be shared by machines, each with a repository of its own: the first that begins an
        exploration carries it to its end, since its worktrees are there. Raises BusyElsewhere."""
        own, name = f"{socket.gethostname()}:{self.places.folder(number)}", f"exploration:{number}:place"

        async def work(tx: Tx) -> str:
            if (there := await events.setting(tx, name)) is None:
                await events.put_setting(tx, name, own)
            return there or own

        if await self._store.write(work) != own:
            raise BusyElsewhere

    async def _step(self, exploration: Exploration) -> None:
        step = {
            State.RUNNING: self._run,
            State.COMPARING: self._compare,
            State.REVIEWING: self._review,
            State.MERGING: self._merge,
        }[exploration.state]
        try:
            await step(exploration)
        except (Refusal, GitError, UnusableCheckout, OSError) as error:
            text = str(error) or type(error).__name__
            log.warning("exploration cannot go on", exploration=exploration.number, reason=text)
            await self._end(exploration.number, text)

    # -- the variants

    async def _run(self, exploration: Exploration) -> None:
        if exploration.base is None:
            exploration = await self._begin(exploration)
        runs = await self._runs(exploration.number)
        async with asyncio.TaskGroup() as group:
            for run in runs:
                if not run.ended:
                    name = f"exploration-{exploration.number}-{run.name}"
                    group.create_task(self._variant(exploration, run), name=name)
        await self._move(exploration, State.COMPARING)

    async def _begin(self, exploration: Exploration) -> Exploration:
        """Fix the commit and the branches that the variants begin with, and say so."""
        base = await self.places.base()
        runs = []
        for run in await self._runs(exploration.number):
            wanted = exploration.config.variants[run.place].branch
            runs.append(replace(run, branch=await self.places.branch_of(exploration, run.name, wanted)))
        begun = replace(exploration, base=base)

        async def work(tx: Tx) -> None:
            await journal.save(tx, begun)
            for run in runs:
                await journal.save_variant(tx, run)
            await self._say(tx, begun, wording.begun(begun, runs))

        await self._store.write(work)
        return begun

    async def _variant(self, exploration: Exploration, run: VariantRun) -> None:
        """One variant, from where it stands to its end; whatever goes wrong is how it ends."""
        try:
            ended = await self._worked(exploration, run)
        except (Refusal, GitError, UnusableCheckout, OSError) as error:
            ended = replace(run, status=Status.FAILED, detail=str(error) or type(error).__name__)
        await self._written(lambda tx: journal.end_variant(tx, exploration, ended))
        with contextlib.suppress(GitError, OSError):
            await self.places.remove(ended)
        self._parts.tell()

    async def _worked(self, exploration: Exploration, run: VariantRun) -> VariantRun:
        assert exploration.base is not None
        interrupted = run.status is Status.IN_PROGRESS
        if interrupted and run.attempt >= ATTEMPTS:
            return await self._left(exploration, run, Status.FAILED, "relay was ended while it ran, twice")
        checkout = await self.places.ensure(run, exploration.base)
        agent_settings = self._agent(exploration, run)
        built = build(self._settings.current, agent_settings, apart=True)
        if built.agent is None:
            raise Refusal(f"{run.agent} cannot run: {built.trouble}")
        run = replace(run, status=Status.IN_PROGRESS, attempt=run.attempt + 1)
        await self._written(lambda tx: journal.save_variant(tx, run))
        budget = exploration.config.budget
        turn = Turn(
            run.agent,
            wording.variant_prompt(exploration.config, exploration.config.variants[run.place]),
            cwd=checkout.top,
            resume=run.conversation,
            may_edit=True,
            interrupted=interrupted,
            limits=TurnLimits(budget.max_duration_seconds + _AFTER_S),
        )
        progress = Progress(run.usage, free=agent_settings.kind == "ollama")

        async def note(now: Progress) -> None:
            with contextlib.suppress(StoreError, self._store.transient):
                await self._store.write(lambda tx: journal.save_variant(tx, _used(run, now)))
                self._parts.tell()

        which = await run_within(built.agent, turn, budget, progress, note, poll_s=self._parts.poll_s)
        run = _used(run, progress)
        if which is not None:
            return await self._left(exploration, run, Status.BUDGET_EXCEEDED, which)
        end = progress.end
        if end is None or end.failure not in (None, FailureClass.EMPTY):
            why = "its stream ended without an end" if end is None else end.detail or str(end.failure)
            return await self._left(exploration, run, Status.FAILED, why)
        return await self._left(exploration, run, Status.COMPLETED, "")

    async def _left(
        self, exploration: Exploration, run: VariantRun, status: Status, detail: str
    ) -> VariantRun:
        """The variant as it ends, with what it left kept by a ref."""
        assert exploration.base is not None
        left = await self.places.keep(run, exploration.base, wording.commit_message(exploration, run))
        if status is Status.COMPLETED and not left.files:
            status, detail = Status.FAILED, "it changed no file"
        notes = {"files": left.note} if left.note else {}
        changed = left.files > 0
        return replace(
            run,
            status=status,
            detail=detail,
            files=left.files,
            notes=notes,
            at_commit=left.commit if changed else None,
            tree=left.tree if changed else None,
            ref=left.ref,
        )

    def _agent(self, exploration: Exploration, run: VariantRun) -> AgentSettings:
        """The agent's settings, as the variant wants them. Raises Refusal."""
        found = self._settings.current.agent(run.agent)
        if found is None:
            raise Refusal(f"There is no agent {run.agent} any more.")
        variant = exploration.config.variants[run.place]
        changes: dict[str, Any] = {}
        if variant.model is not None:
            changes["model"] = variant.model
        if variant.effort is not None:
            changes["effort"] = variant.effort
        return replace(found, cwd=None, **changes)

    # -- the comparison

    async def _compare(self, exploration: Exploration) -> None:
        assert exploration.base is not None
        runs = await self._runs(exploration.number)
        settings, config = self._settings.current, exploration.config
        measures = Measures(self._parts.runner, settings)
        measured = [
            await measures.measured(config, run, exploration.base) if run.status is Status.COMPLETED else run
            for run in runs
        ]
        finished = [run for run in measured if run.status is Status.COMPLETED]
        compared = compare(config.metrics, config.weights, {run.name: run.metrics for run in finished})
        measured = [replace(run, score=compared.scores.get(run.name)) for run in measured]
        candidates = [_candidate(run) for run in measured if run.score is not None]
        choice = choose(config.policy, candidates, compared.noise)
        state = State.WAITING
        if choice.winner is not None:
            state = State.MERGING
        elif not any(run.at_commit for run in measured):
            state = State.ENDED
        elif config.reviewer is not None and finished and _able(measured):
            state = State.REVIEWING
        done = replace(
            exploration,
            state=state,
            matrix=compared.rows,
            winner=choice.winner,
            recommendation=choice.reason,
        )

        async def work(tx: Tx) -> None:
            event = await journal.record_comparison(tx, done, measured)
            await self._say(tx, done, wording.compared(done, measured), event.id)
            if state is State.ENDED:
                await journal.finish(tx, done)

        await self._store.write(work)

    async def _review(self, exploration: Exploration) -> None:
        """Let the reviewer choose among those that pass; people do where it names none."""
        runs = await self._runs(exploration.number)
        config, able = exploration.config, _able(runs)
        assert config.reviewer is not None and exploration.base is not None
        settings = self._settings.current
        found = settings.agent(config.reviewer)
        agent = (
            None
            if found is None
            else build(settings, replace(found, permissions="read-only"), apart=True).agent
        )
        if agent is None:
            winner, why = None, f"{config.reviewer}, who should review them, cannot run."
        else:
            review = await self._chooser.review(agent, exploration, runs, able, self._parts.poll_s)
            winner, why = review.winner, review.reason
        state = State.WAITING if winner is None else State.MERGING
        chosen = replace(exploration, state=state, winner=winner, recommendation=why)

        async def work(tx: Tx) -> None:
            await journal.save(tx, chosen)
            if winner is None:
                await self._say(tx, chosen, f"{chosen.name}: {why}\n\n{wording.how_to_choose(chosen, runs)}")

        await self._store.write(work)

    # -- the end

    async def _merge(self, exploration: Exploration) -> None:
        """Merge the winner; what cannot be merged waits for people again."""
        runs = {run.name: run for run in await self._runs(exploration.number)}
        run = runs[exploration.winner or ""]
        try:
            taken = {path: runs[name] for path, name in exploration.taken.items()}
            commit = await self.places.composed(exploration, run, taken)
            target = await self._parts.registry.target()
            if target is not None and await is_ancestor(self.places.git, commit, target.commit):
                merged, into = target.commit, target.name  # of a process that was killed behind the merge
            else:
                text = wording.merge_message(exploration, run)
                seen = wording.shown_tree(exploration.trouble)
                by = await self._store.read(lambda tx: orders.taken_by(tx, exploration))
                taken_by_person = by is not None and self._settings.current.agent(by) is None
                merged, into = await self._parts.merge(
                    run, commit, exploration.asker, text, seen, taken_by_person
                )
        except (Refusal, GitError) as error:
            await self._put_off(exploration, runs, error)
            return
        done = replace(exploration, state=State.DONE, merged=merged, trouble="")

        async def work(tx: Tx) -> None:
            event = await journal.finish(tx, done)
            await self._say(tx, done, wording.merged(done, into), event.id)

        await self._store.write(work, durable=True)

    async def _put_off(
        self, exploration: Exploration, runs: Mapping[str, VariantRun], error: Refusal | GitError
    ) -> None:
        """Let people choose again, and say why the winner was not merged."""
        why = wording.joined(error.tree, str(error)) if isinstance(error, NotSeen) else str(error)
        waiting = replace(exploration, state=State.WAITING, trouble=why)
        parts = [wording.not_merged(waiting, why)]
        if isinstance(error, NotSeen):
            parts += [wording.fenced(error.output, "")] * bool(error.output) + [wording.fenced(error.diff)]
        text = "\n\n".join([*parts, wording.how_to_choose(waiting, list(runs.values()))])

        async def work(tx: Tx) -> None:
            await journal.save(tx, waiting)
            await self._say(tx, waiting, text)

        await self._store.write(work)

    async def _end(self, number: int, why: str) -> None:
        """End an exploration that cannot go on."""

        async def work(tx: Tx) -> None:
            exploration = await journal.load(tx, number)
            if exploration.state in OVER:
                return
            ended = replace(exploration, state=State.ENDED, trouble=why, recommendation=why)
            event = await journal.finish(tx, ended)
            await self._say(tx, ended, wording.ended(ended), event.id)

        await self._store.write(work)

    async def _tidy(self, exploration: Exploration) -> None:
        """Remove what variants worked in. While people choose, the branches stay, to be looked at."""
        runs = await self._runs(exploration.number)
        with contextlib.suppress(GitError, OSError, Refusal):
            if exploration.state in OVER:
                await self.places.tidy(exploration, runs)
            else:
                for run in runs:
                    await self.places.remove(run)

    # -- small things

    async def _runs(self, number: int) -> list[VariantRun]:
        return await self._store.read(lambda tx: journal.variants_of(tx, number))

    async def _written(self, work: Callable[[Tx], Coroutine[Any, Any, None]]) -> None:
        """As `Store.write`, and again while the database cannot take it: else one variant's end would end those that
        are at work."""
        for wait in (*WAITS_S, None):
            try:
                await self._store.write(work)
                return
            except (StoreAway, StoreBusy, self._store.transient):
                if wait is None:
                    raise
                await asyncio.sleep(wait)

    async def _move(self, exploration: Exploration, state: State) -> None:
        await self._store.write(
            lambda tx: journal.change(tx, exploration.number, exploration.state, state=state)
        )

    async def _say(self, tx: Tx, exploration: Exploration, text: str, *parents: str) -> None:
        meta = {"notice": "exploration", "exploration": exploration.number}
        await ledger.say(tx, text, now=self._parts.clock(), parents=parents, meta=meta)


def _used(run: VariantRun, progress: Progress) -> VariantRun:
    conversation = progress.conversation or run.conversation
    return replace(run, usage=progress.usage, events=run.events + progress.events, conversation=conversation)


def _candidate(run: VariantRun) -> Candidate:
    assert run.score is not None
    rate = run.metrics.get("test_pass_rate")
    return Candidate(run.name, run.score, run.passing, rate, run.usage.cost_usd, run.usage.seconds)


def _able(runs: list[VariantRun]) -> list[str]:
    """Those that may win: that have finished, and pass where any was tested."""
    finished = [run for run in runs if run.status is Status.COMPLETED]
    tested = any(run.passing is not None for run in finished)
    return [run.name for run in finished if run.passing or not tested]

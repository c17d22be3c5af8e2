"""Taking back, undoing and redoing, as each interface asks for it: HTTP, and the command line without a running room.

Invariants: what is planned is planned from what stands in the worktree now, while nobody else writes there. What the
main branch got is recorded first, so it is known what has landed. A preview is the plan, checked as `apply` would.
While a turn of the agent runs whose work it is, nothing is written, wherever it stands; a preview is given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Protocol

import structlog

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree, WorktreeGone
from relay.base.terminal_text import safe_line
from relay.git.checkout import Checkout
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.run import GitError
from relay.git.snapshot import Snapshot
from relay.log import events
from relay.log.events import Lane
from relay.model import Fault, Refusal
from relay.model.actions import Rewind
from relay.room.journal import ledger
from relay.store.ports import Store, StoreError, Tx
from relay.timeline import moments, reading
from relay.timeline.projection import last_tree
from relay.timeline.rewind import history
from relay.timeline.rewind.history import REDONE, REWOUND, UNDONE, Operation, State, Target
from relay.timeline.rewind.plan import MAIN, RewindPlaces, RewindPlan, RewindRequest
from relay.timeline.rewind.service import Rewinds
from relay.timeline.rewind.tree_entries import existing
from relay.timeline.rewind.wording import MOST_NAMED, rest

log = structlog.get_logger(__name__)
_VERBS = {REWOUND: "took back", UNDONE: "brought back", REDONE: "took back again"}


@dataclass(frozen=True, slots=True)
class RewindOrder:
    """Who orders it: `by`, on this `lane`. `person`: may take back others' work. `source_key`: makes it happen once,
    for an order whose giver is answered in the room; None: the room is told that it was done."""

    by: str
    lane: Lane
    person: bool = True
    source_key: str | None = None

    @classmethod
    def of_person(cls, name: str) -> RewindOrder:
        return cls(name, ledger.person_lane(name))


class MainBranchLog(Protocol):
    """Who records what comes onto the main branch; the composition root has it."""

    async def catch_up(self) -> None:
        """Record what came onto it since the log last knew it. Raises GitError."""
        ...


class RewindService:
    """The rewinds of one room. `registry`: its worktrees, opened; `log`: records the main branch; `member`: of the
    fleet, whose worktrees they are."""

    def __init__(
        self, store: Store, registry: WorktreeRegistry, log: MainBranchLog, member: str = ""
    ) -> None:
        self._store, self._registry, self._log, self._member = store, registry, log, member
        #: One for all requests, so that they wait for each other and for the start.
        self._made: tuple[Checkout, Rewinds] | None = None

    async def recover(self) -> list[Operation]:
        """Settle what a killed process began, while nobody else writes there. Raises Refusal while a turn runs in a
        worktree that it stands in; GitError, OSError."""
        if self._registry.main is None:
            return []
        begun = await self._store.read(lambda tx: history.begun(tx, self._member))
        async with AsyncExitStack() as held:
            await held.enter_async_context(self._registry.exclusive)
            worktrees = [worktree for each in begun if (worktree := self._worktree_at(each)) is not None]
            for worktree in {worktree.name: worktree for worktree in worktrees}.values():
                await held.enter_async_context(worktree.lock)
                if worktree.name in self._registry.turn_trees:
                    raise Refusal(f"{worktree.name}'s turn is running.", "What was begun waits for its end.")
                worktree.mark_stale(None)
            return await self._rewinds().recover()

    async def rewind(
        self,
        order: RewindOrder,
        lane: str,
        to: str,
        *,
        into: str | None = None,
        dry_run: bool = False,
        partial: bool = False,
    ) -> dict[str, Any]:
        """Take back what `lane` (a name or a lane's key) did since the moment `to`. The answer: INTERFACES.md. Raises
        Refusal."""
        if not order.person and name_in(lane).casefold() != order.by.casefold():
            raise Refusal(
                f"{order.by} takes back its own work alone.",
                "Ask a person for it.",
                Fault.FORBIDDEN,
                "not_own",
            )
        if lane.casefold() in (MAIN, reading.MAIN_LANE.key) and self._registry.find(lane) is None:
            raise Refusal(
                f"What stands on {MAIN} is the work of agents and people.",
                "Name the one whose work is to be taken back.",
                Fault.MALFORMED,
            )
        moment = await self._store.read(lambda tx: moments.resolve(tx, to))
        await self._store.read(lambda tx: reading.check_known(tx, lane))
        request = RewindRequest(lane, to, moment.pos, order.by, order.lane, into, partial, order.person)
        worktree = self._registry.find(name_in(lane))

        async def plan(rewinds: Rewinds, places: RewindPlaces) -> RewindPlan:
            return await rewinds.plan(request, places)

        return await self._do(plan, worktree, worktree, order, dry_run)

    async def undo(
        self, order: RewindOrder, *, dry_run: bool = False, partial: bool = False
    ) -> dict[str, Any]:
        """Undo the newest rewind that stands. Raises Refusal."""
        operation = await self._rewinds().next_undo()

        async def plan(rewinds: Rewinds, places: RewindPlaces) -> RewindPlan:
            return await rewinds.plan_undo(order.by, order.lane, places, partial=partial)

        return await self._do(plan, self._worktree_at(operation), self._worker(operation), order, dry_run)

    async def redo(
        self, order: RewindOrder, *, dry_run: bool = False, partial: bool = False
    ) -> dict[str, Any]:
        """Redo the rewind that was undone last. Raises Refusal."""
        operation = await self._rewinds().next_redo()

        async def plan(rewinds: Rewinds, places: RewindPlaces) -> RewindPlan:
            return await rewinds.plan_redo(order.by, order.lane, places, partial=partial)

        return await self._do(plan, self._worktree_at(operation), self._worker(operation), order, dry_run)

    async def _done_before(self, order: RewindOrder) -> dict[str, Any] | None:
        """What was answered when this order was carried out, by a process that ended before it could say so."""
        if order.source_key is None:
            return None
        key = order.source_key
        event = await self._store.read(lambda tx: events.of_source(tx, key))
        if event is None:
            return None
        id = event.id
        await self.recover()
        operation = await self._store.read(lambda tx: history.of_event(tx, id))
        if operation is None or operation.state is State.GIVEN_UP:
            raise Refusal("The room was ended while it did that, and nothing was changed.", "Say it again.")
        return {**event.outputs, "rewind": event.inputs["rewind"] or event.id, "event": event.id}

    async def _do(
        self,
        plan: Any,
        worktree: TrackedWorktree | None,
        worker: TrackedWorktree | None,
        order: RewindOrder,
        dry_run: bool,
    ) -> dict[str, Any]:
        """`worktree`: whose files stand there now is looked at; `worker`: that of the agent whose work it is."""
        registry, by = self._registry, order.by
        if (before := await self._done_before(order)) is not None:
            return before
        try:
            rewinds = self._rewinds()
            await self._log.catch_up()
            async with AsyncExitStack() as held:
                # As a merge does it: nobody else moves the main branch or writes the worktree meanwhile.
                await held.enter_async_context(registry.exclusive)
                places = RewindPlaces(await registry.main_head())
                for each in registry.beside([each for each in (worktree, worker) if each is not None]):
                    # A turn says that it runs, then waits for this lock.
                    await held.enter_async_context(each.lock)
                    if each.name in registry.turn_trees and not dry_run:
                        raise Refusal(
                            f"{each.name}'s turn is running.",
                            f"Wait until it ends, or `/cancel @{each.name}`.",
                        )
                if worktree is not None:
                    snapshot = await self._counted(worktree)
                    places = RewindPlaces(places.head, (worktree.checkout, snapshot))
                planned = await plan(rewinds, places)
                new = planned.operation
                if new is not None and new.target is Target.MAIN:
                    await registry.room.check_merge(new.lane, by, planned.paths)
                if dry_run:
                    await rewinds.check(planned)
                    return dict(planned.answer)
                if new is not None:
                    planned = replace(planned, operation=replace(new, source_key=order.source_key))
                answer = await rewinds.apply(planned)
                if order.source_key is None and new is not None:
                    await self._say(by, planned, answer)
        except (GitError, WorktreeGone, OSError) as error:
            raise Refusal(
                f"git could not do it: {error or type(error).__name__}.", "Nothing was changed."
            ) from error
        if worktree is not None:
            worktree.mark_stale(None)
        if new is not None and new.target is Target.MAIN:
            with contextlib.suppress(GitError):  # else it is recorded with the next look at the main branch
                await self._log.catch_up()
        registry.wake.set()
        return answer

    async def _counted(self, worktree: TrackedWorktree) -> Snapshot:
        """What stands in a worktree, with the files that the log knows there and that git ignores since then."""
        name, target = self._registry.checkout_name(worktree.name), await self._registry.target()
        snapshot = await worktree.take_snapshot(everything=True)
        known = await self._store.read(lambda tx: last_tree(tx, name))
        if known is None or not await existing(worktree.snapshotter.git, [known.tree]):
            return snapshot
        commit = target.commit if target else None
        tree = await worktree.snapshotter.with_ignored(snapshot.tree, known.tree, commit)
        return snapshot if tree == snapshot.tree else replace(snapshot, tree=tree, dirty=True)

    async def _say(self, by: str, planned: RewindPlan, answer: Mapping[str, Any]) -> None:
        """Tell the room what was done. What is done stays done when the room cannot be told."""
        paths, new = planned.paths, planned.operation
        assert new is not None
        named = ", ".join(safe_line(path) for path in paths[:MOST_NAMED])
        more = f" and {len(paths) - MOST_NAMED} more" * (len(paths) > MOST_NAMED)
        since = f" since {safe_line(new.to)}" if new.to else ""
        where = f" on the branch {answer['branch']}" if answer["branch"] else ""
        back = "takes it out again" if new.kind == UNDONE else "brings it back"
        act = f"{by} {_VERBS[new.kind]} what {new.lane} did{since}{where}"
        into = Rewind(new.lane, new.to, "worktree").line()
        text = f"{act}: {named}{more}. `{answer['undo_with']}` {back}."
        text = " ".join([text, *rest(answer, new.kind, into)])
        if not paths:
            why = safe_line(answer.get("skipped", "Nothing of it stood there any more."))
            text = f"{by} undid the rewind of {new.lane}. {why} No file has changed."
        meta = {"notice": "rewind", "rewind": answer["rewind"]}

        async def work(tx: Tx) -> None:
            await ledger.say(tx, text, parents=[answer["event"]], meta=meta)

        try:
            await self._store.write(work)
        except (StoreError, self._store.transient) as error:
            log.warning("the room was not told of a rewind", reason=str(error))

    def _rewinds(self) -> Rewinds:
        main = self._registry.main
        if main is None:
            reason = self._registry.trouble or "the repository is not known yet"
            raise Refusal(
                f"There is no timeline: {reason}.", "Try again when that is mended.", Fault.UNAVAILABLE
            )
        if self._made is None or self._made[0] != main:
            scratch = self._registry.scratch
            self._made = main, Rewinds(self._store, scratch, main, KeptSnapshots(scratch, main), self._member)
        return self._made[1]

    def _worktree_at(self, operation: Operation | None) -> TrackedWorktree | None:
        if operation is None:
            return None
        worktrees = self._registry.worktrees.values()
        return next((each for each in worktrees if str(each.checkout.top) == operation.place), None)

    def _worker(self, operation: Operation | None) -> TrackedWorktree | None:
        """The worktree of the agent whose work it is about."""
        return None if operation is None else self._registry.find(name_in(operation.lane))


def name_in(lane: str) -> str:
    """The name in a lane's key, or the name itself."""
    return lane.rpartition("/")[2]

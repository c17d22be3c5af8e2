"""Rewind, undo and redo, from the request to the answer.

Invariants:
- `plan` writes nothing but objects, and what it shows is what `apply` does; `apply` refuses where a branch or a
  file has changed in between;
- both trees, before and after, are kept as snapshots before anything is written, so nothing is lost and every rewind
  can be undone as long as snapshots are kept;
- a request that is cancelled is carried out to its end; what a killed process began is settled by `recover`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from relay.config.command_line import command
from relay.git.checkout import Checkout, head_of
from relay.git.diff import changed_files, touches_of
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.run import GitError
from relay.git.scratch_repository import ScratchRepository
from relay.log import events
from relay.log.archived import archived_upto
from relay.log.events import Lane
from relay.model.refusals import Fault, Refusal
from relay.model.touches import paths_of
from relay.store.ports import Store, Tx
from relay.timeline.projection import CHANGED
from relay.timeline.rewind import history
from relay.timeline.rewind.apply import HEADS, RewindApplier
from relay.timeline.rewind.checkout_writer import Outcome
from relay.timeline.rewind.engine import take_back
from relay.timeline.rewind.history import (
    REDO,
    REDONE,
    REWOUND,
    UNDO,
    UNDONE,
    NewOperation,
    Operation,
    Target,
)
from relay.timeline.rewind.named_touches import TouchedEvent
from relay.timeline.rewind.plan import (
    RewindPlaces,
    RewindPlan,
    RewindRequest,
    answer_of,
    choose,
    in_history,
    invalidated,
    lane_events,
    newest_of_each_lane,
    skipped_undo,
    steps,
    steps_again,
    touches_in,
)
from relay.timeline.rewind.tree_entries import existing

log = structlog.get_logger(__name__)
BRANCHES = "rw/"


class Rewinds:
    """The rewinds of one repository, whose main checkout is `main`."""

    def __init__(
        self, store: Store, scratch: ScratchRepository, main: Checkout, kept: KeptSnapshots, member: str = ""
    ) -> None:
        """`member`: whose checkouts they write; what another member began is for that one to settle."""
        self._store, self._scratch, self._main, self._kept, self._member = store, scratch, main, kept, member
        self._applier = RewindApplier(scratch, main)
        self._one_at_a_time = asyncio.Lock()

    async def plan(self, request: RewindRequest, places: RewindPlaces) -> RewindPlan:
        """What taking back would do. Raises Refusal, GitError, OSError."""
        lane = request.lane
        cut = await self._store.read(archived_upto)
        if request.after < cut:
            raise Refusal(
                f"What was done up to #{cut} is archived, so not all since then can be taken back.",
                f"Take back to #{cut} or later.",
            )
        since = await self._store.read(lambda tx: lane_events(tx, lane, request.after))
        landed, open_ = list(since.landed), list(since.open)
        if open_ and (trees := await self._trees_since(since.base, places)):
            found = in_history([*landed, *open_], since.others, trees)
            landed += (event for event in open_ if event.id in found)
            open_ = [event for event in open_ if event.id not in found]
        out = await self._taken_out(since.rewinds, places)
        taken, into = choose(request, places, landed, open_, out)
        target, place, base, tree, parents = await self._place(into, bool(landed), lane, places)
        git, removed = self._scratch.git(self._main), {event.id for event in taken}
        # An event that is out already counts as another's: so does what took it out, and their renames meet.
        others = [*since.others, *(event for event in (*landed, *open_) if event.id not in removed)]
        result = await take_back(git, tree, steps(taken, others))
        later = [*since.others, *since.reads]
        read = await self._store.read(lambda tx: invalidated(tx, taken, later))
        in_order = [event.id for event in sorted(taken, key=lambda event: event.pos)]
        branch = place.removeprefix(HEADS) if target is Target.BRANCH else None
        if target is Target.MAIN:
            branch = places.head.branch
        answer = answer_of(lane, request.to, in_order, result, read, branch, UNDO)
        stays = [event for event in open_ if event.id not in removed | out["worktree"]]
        if left := [event.id for event in (*stays, *since.uncommitted)]:
            # Not in the main branch, so nothing of it is to be taken out there.
            answer["left"] = left
            answer["left_files"] = paths_of(touch for event in stays for touch in touches_in(event))
            open_edits = (touch for event in since.uncommitted for touch in touches_in(event))
            answer["uncommitted_files"] = paths_of(open_edits)
        if result.tree == tree or (result.conflicts and not request.partial):
            return RewindPlan(answer, None)
        new = NewOperation(
            kind=REWOUND,
            of=None,
            lane=lane,
            to=request.to,
            target=target,
            place=place,
            base=base,
            before=tree,
            after=result.tree,
            answer=answer,
            author=request.author,
            by=request.by,
            causes=newest_of_each_lane(taken),
            removed=[event.id for event in taken if not {*(event.file_touches or ())} & {*result.conflicts}],
            worktree=taken[-1].outputs.get("worktree", "") if target is Target.WORKTREE else "",
        )
        return RewindPlan(answer, new, parents)

    async def next_undo(self) -> Operation | None:
        """The rewind that `plan_undo` would undo: its `place` says which checkout to look at."""
        return await self._store.read(history.to_undo)

    async def next_redo(self) -> Operation | None:
        """The undo that `plan_redo` would take back."""
        return await self._store.read(history.to_redo)

    async def plan_undo(
        self, author: str, by: Lane, places: RewindPlaces, *, partial: bool = False
    ) -> RewindPlan:
        """What undoing the newest rewind would do. Raises Refusal, GitError, OSError."""
        newest = await self.next_undo()
        if newest is None:
            raise Refusal("There is no rewind to undo.", "", Fault.UNKNOWN)
        return await self._plan_again(UNDONE, newest, newest.event, author, by, places, partial)

    async def plan_redo(
        self, author: str, by: Lane, places: RewindPlaces, *, partial: bool = False
    ) -> RewindPlan:
        """What redoing the rewind that was undone last would do. Raises Refusal, GitError, OSError."""
        newest = await self.next_redo()
        if newest is None:
            raise Refusal("There is no undone rewind to redo.", "", Fault.UNKNOWN)
        (about,) = await self._store.read(lambda tx: events.read_after(tx, newest.rewind - 1, limit=1))
        return await self._plan_again(REDONE, newest, about.id, author, by, places, partial)

    async def _plan_again(
        self,
        kind: str,
        operation: Operation,
        of: str,
        author: str,
        by: Lane,
        places: RewindPlaces,
        partial: bool,
    ) -> RewindPlan:
        """Take an operation out, as a rewind takes out events, so that later work stays."""
        git = self._scratch.git(self._main)
        missing = {operation.before, operation.after} - await existing(
            git, (operation.before, operation.after)
        )
        if missing:
            raise Refusal(
                f"What the files of {operation.lane} were before and after is not kept any more.",
                "`timeline.keep_days` says how long snapshots are kept.",
            )
        if (
            kind == UNDONE
            and operation.target is Target.WORKTREE
            and not await asyncio.to_thread(Path(operation.place).exists)
        ):
            return skipped_undo(
                operation, of, author, by, f"The worktree {operation.place} is gone, and what stood in it."
            )
        if kind == UNDONE and (thrown := await self._thrown_away(operation)):
            return skipped_undo(operation, of, author, by, thrown)
        target, place, base, tree, parents = await self._place_again(operation, places)
        touched = await self._touched(operation)
        later = await self._store.read(
            lambda tx: events.read_after(tx, operation.pos, types=(CHANGED,), limit=100_000)
        )
        result = await take_back(git, tree, steps_again(operation.event, touched, later))
        if result.tree == tree and not result.conflicts and kind == REDONE:
            gone = f"Nothing of what was brought back of {operation.lane} stands there any more."
            raise Refusal(gone, f"Look at it with {command('timeline log')}; what was taken back stays so.")
        branch = place.removeprefix(HEADS) if target is Target.BRANCH else None
        if target is Target.MAIN:
            branch = places.head.branch
        undo_with = REDO if kind == UNDONE else UNDO
        if result.tree == tree:
            # Nothing is written, but the rewind before it is the next to be undone.
            branch, undo_with = None, ""
        answer = answer_of(operation.lane, "", [operation.event], result, (), branch, undo_with)
        if result.conflicts and (not partial or result.tree == tree):
            return RewindPlan(answer, None)
        new = NewOperation(
            kind=kind,
            of=of,
            lane=operation.lane,
            to="",
            target=target,
            place=place,
            base=base,
            before=tree,
            after=result.tree,
            answer=answer,
            author=author,
            by=by,
            causes=[operation.event],
            worktree=await self._worktree_of(operation),
        )
        return RewindPlan(answer, new, parents)

    async def _worktree_of(self, operation: Operation) -> str:
        event = await self._store.read(lambda tx: events.get(tx, operation.event))
        name: str = event.inputs["worktree"] if event is not None else ""
        return name

    async def _touched(self, operation: Operation) -> TouchedEvent:
        """An operation as an event that is to be taken out."""
        git = self._scratch.git(self._main)
        records = await changed_files(git, operation.before, operation.after)
        touches = touches_of(records)
        if (left := await self._store.read(lambda tx: history.left_by_undo(tx, operation))) is not None:
            touches = tuple(touch for touch in touches if touch.path in left)
        return TouchedEvent(operation.event, touches, operation.before, operation.after)

    async def _taken_out(self, rewinds: Sequence[Operation], places: RewindPlaces) -> dict[str, set[str]]:
        """The ids of events that rewinds have taken out of the worktree, and out of the main branch: there, or on a
        branch that was merged into it since."""
        out: dict[str, set[str]] = {"worktree": set(), "main": set()}
        top = None if places.worktree is None else str(places.worktree[0].top)
        for rewind in rewinds:
            if rewind.target is Target.WORKTREE and rewind.place == top:
                out["worktree"] |= {*rewind.removed}
            elif rewind.target is Target.MAIN or (
                rewind.target is Target.BRANCH and await self._is_merged(rewind.place, places)
            ):
                out["main"] |= {*rewind.removed}
        return out

    async def _is_merged(self, ref: str, places: RewindPlaces) -> bool:
        """Does the main branch have this branch's commit? Not when the branch is gone."""
        if places.head.commit is None:
            return False
        asked = ("merge-base", "--is-ancestor", ref, places.head.commit)
        return (await self._main.git.run(*asked, ok=(0, 1, 128))).code == 0

    async def _trees_since(self, base: str | None, places: RewindPlaces) -> set[str]:
        """The trees of all commits that came onto the main branch since it stood at this one, by merges too."""
        head, git = places.head.commit, self._main.git
        if head is None:
            return set()
        since = [] if base is None or not await existing(git, [base]) else [f"^{base}"]
        listed = await git.line("log", "--format=%T", head, *since, "--")
        return set(listed.split())

    async def _place(
        self, into: str, landed: bool, lane: str, places: RewindPlaces
    ) -> tuple[Target, str, str | None, str, tuple[str, ...]]:
        """Where it is written, on which commit, and the tree and the parents of what stands there now."""
        if into == "worktree" or (into == "new" and not landed and places.worktree is not None):
            if places.worktree is None:
                raise Refusal(
                    f"{lane} has no worktree of its own.", "Leave out `--into`, or say `--into new`."
                )
            checkout, snapshot = places.worktree
            parents = (snapshot.head.commit,) if snapshot.head.commit else ()
            if into == "worktree":
                if snapshot.unsettled or snapshot.merging:
                    raise Refusal(
                        f"In {checkout.top} a merge is under way.", "Settle it or give it up first."
                    )
                return Target.WORKTREE, str(checkout.top), None, snapshot.tree, parents
            base = snapshot.head.commit
            if snapshot.dirty or base is None:
                # Of the repository itself: the commit of a snapshot is in the scratch alone.
                base = (await self._keep(snapshot.tree, parents, lane, f"before a rewind of {lane}")).commit
            return Target.BRANCH, await self._free_branch(lane), base, snapshot.tree, parents
        tree, commit = await self._main_tree(places)
        if into == "main":
            return Target.MAIN, str(self._main.top), commit, tree, (commit,)
        return Target.BRANCH, await self._free_branch(lane), commit, tree, (commit,)

    async def _place_again(
        self, operation: Operation, places: RewindPlaces
    ) -> tuple[Target, str, str | None, str, tuple[str, ...]]:
        """Where an operation is taken out: where it was written, or what that was merged into."""
        match operation.target:
            case Target.WORKTREE:
                worktree = places.worktree
                if worktree is None or str(worktree[0].top) != operation.place:
                    raise Refusal(
                        f"No agent works in {operation.place}.",
                        "Put its agent back into the configuration and give it a turn, or remove that folder: then "
                        "the undo goes on to the rewind before.",
                    )
                return await self._place("worktree", False, operation.lane, places)
            case Target.MAIN:
                await self._still_out(operation, places)
                return await self._place("main", True, operation.lane, places)
        git = self._main.git
        commit = await git.maybe("rev-parse", "-q", "--verify", f"{operation.place}^{{commit}}")
        if commit is None or await self._is_merged(operation.place, places):
            return await self._place("new", True, operation.lane, places)
        tree = await git.line("rev-parse", f"{commit}^{{tree}}")
        return Target.BRANCH, operation.place, commit, tree, (commit,)

    async def _thrown_away(self, operation: Operation) -> str:
        """Why nothing of a rewind of the main branch stands there: somebody set the branch back behind it. Else
        empty."""
        if operation.target is not Target.MAIN or operation.before == operation.after:
            return ""
        event = await self._store.read(lambda tx: events.get(tx, operation.event))
        if event is None or await self._applier.stands(operation, event):
            return ""
        branch = event.branch or "the main branch"
        return f"Neither its commit nor the one that it was made on is in {branch} any more."

    async def _still_out(self, operation: Operation, places: RewindPlaces) -> None:
        """Refuse while another branch is checked out than the one that the operation is on."""
        event = await self._store.read(lambda tx: events.get(tx, operation.event))
        branch = None if event is None else event.branch
        if branch is None or branch == places.head.branch:
            return
        if await self._main.git.maybe("rev-parse", "-q", "--verify", f"{HEADS}{branch}") is not None:
            raise Refusal(
                f"That was done on the branch {branch}, and {self._main.top} is on "
                f"{places.head.branch or 'no branch'}.",
                f"Check out {branch} there first.",
            )

    async def _main_tree(self, places: RewindPlaces) -> tuple[str, str]:
        if places.head.commit is None:
            raise Refusal(f"{self._main.top} has no commit yet.", "Make its first commit.")
        await self._scratch.borrow([self._main])
        return await self._main.git.line("rev-parse", f"{places.head.commit}^{{tree}}"), places.head.commit

    async def _free_branch(self, lane: str) -> str:
        """The ref `rw/LANE-N` with the first number above those that are there."""
        name = lane.rpartition("/")[2]
        slug = re.sub(r"[^a-z0-9_]+", "-", name.casefold()).strip("-") or "lane"
        prefix = f"{HEADS}{BRANCHES}{slug}-"
        listed = await self._main.git.run("for-each-ref", "--format=%(refname)", f"{HEADS}{BRANCHES}")
        if await self._main.git.maybe("rev-parse", "-q", "--verify", f"{HEADS}{BRANCHES[:-1]}") is not None:
            raise Refusal(
                f"A branch `{BRANCHES[:-1]}` is in the way of {BRANCHES}{slug}-1.", "Give it another name."
            )
        numbers = [ref.removeprefix(prefix) for ref in listed.text.split("\n") if ref.startswith(prefix)]
        return f"{prefix}{max((int(number) for number in numbers if number.isdecimal()), default=0) + 1}"

    async def _keep(self, tree: str, parents: Sequence[str], lane: str, reason: str) -> Any:
        return await self._kept.keep(tree, parents, lane=lane, reason=reason, at=time.time())

    async def check(self, plan: RewindPlan) -> None:
        """Raise the Refusal with which `apply` would answer now, as for a preview. GitError."""
        if (new := plan.operation) is not None:
            await self._applier.check(new.target, new.place, new.before, new.after)
            await self._unmoved(new)
        elif not plan.answer["conflicts"]:
            raise Refusal(
                f"Nothing of what {plan.answer['lane']} did since then stands there any more.",
                "Name an earlier moment, or another place.",
            )

    async def apply(self, plan: RewindPlan) -> dict[str, Any]:
        """Do what the plan says; the answer, with the rewind's event. Raises Refusal, GitError, OSError, and then
        nothing was changed."""
        if plan.operation is None:
            await self.check(plan)
            return dict(plan.answer)
        # Whoever asked may go away; half a rewind must not stay.
        return await asyncio.shield(asyncio.ensure_future(self._apply(plan, plan.operation)))

    async def _apply(self, plan: RewindPlan, new: NewOperation) -> dict[str, Any]:
        async with self._one_at_a_time:
            await self._settle()
            await self.check(plan)
            kept = await self._keep(new.before, plan.parents, new.lane, f"before a rewind of {new.lane}")
            await self._keep(new.after, [kept.commit], new.lane, f"after a rewind of {new.lane}")
            ours = replace(new, member=self._member)
            event = await self._store.write(lambda tx: history.begin(tx, ours), durable=True)
            operation = await self._store.read(lambda tx: history.of_event(tx, event.id))
            assert operation is not None
            try:
                await self._applier.apply(operation, event)
            except (Refusal, GitError, OSError) as error:
                said = str(error)
                await self._store.write(lambda tx: history.give_up(tx, operation, said, new.by), durable=True)
                raise
            await self._store.write(lambda tx: history.finish(tx, operation), durable=True)
        return {**plan.answer, "rewind": new.of or event.id, "event": event.id}

    async def _unmoved(self, new: NewOperation) -> None:
        """Refuse where the main branch moved since it was planned, or is not checked out."""
        if new.target is not Target.MAIN or new.before == new.after:
            return
        head, branch = await head_of(self._main.git), new.answer["branch"]
        if head.branch != branch or branch is None:
            raise Refusal(f"{self._main.top} is not on {branch or 'a branch'}.", "Check it out there first.")
        if head.commit != new.base:
            raise Refusal(f"{branch} has moved since this was planned.", "Look at it again.")

    async def recover(self) -> list[Operation]:
        """At a start: finish what was begun, or give it up; gives what there was. Raises GitError, OSError for what
        cannot be settled yet, which stays begun."""
        async with self._one_at_a_time:
            return await self._settle()

    async def _settle(self) -> list[Operation]:
        found = await self._store.read(lambda tx: history.begun(tx, self._member))
        for operation in found:
            await self._settle_one(operation)
        return found

    async def _settle_one(self, operation: Operation) -> None:
        event = await self._store.read(lambda tx: events.get(tx, operation.event))
        assert event is not None
        outcome = await self._applier.recover(operation, event)
        log.info("a rewind was settled", event_id=operation.event, outcome=outcome.value)

        async def settle(tx: Tx) -> None:
            if outcome is Outcome.FINISHED:
                await history.finish(tx, operation)
            else:
                by = Lane("room", f"rewind:{operation.event[:12]}", short=True)
                await history.give_up(tx, operation, "the process that carried it out was ended", by)

        await self._store.write(settle, durable=True)

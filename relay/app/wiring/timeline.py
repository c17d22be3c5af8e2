"""What agents and people do to the files of a room, recorded as it happens.

Invariants:
- a turn's changes are the difference of its worktree's trees, so edits by shell commands are among them. What its
  tools tell is recorded while it runs (`ToolTouches`), the rest in the transaction that records the turn's end;
- what stands in a worktree when a turn begins, and is not what the log last knew, was brought by the main branch
  where it stands there too; else an interrupted turn of this agent wrote it, or somebody unknown to the room;
- a commit of the main branch is recorded once, whichever members of a fleet look at it. One that no other clone has
  keeps none of them from recording its own;
- a turn goes on when git cannot say what changed: that is logged, and the next look finds it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import structlog

from relay.airspace.worktrees.lifecycle import ABORTED, RESTORED, TAKEN_BACK, TAKEN_IN, is_ancestor
from relay.airspace.worktrees.lifecycle import CHANGED as WORKTREE_CHANGED
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.wiring.commit_parts import parts_of
from relay.app.wiring.kept_variants import prune_variants
from relay.app.wiring.main_commits import (
    MAIN,
    MainCommit,
    Trailers,
    arrival,
    commits_between,
    known_here,
    merged_side,
    trailers_of,
    tree_with_part,
)
from relay.app.wiring.person_edits import PersonEdits
from relay.app.wiring.person_lanes import PersonLanes
from relay.app.wiring.told_rewinds import concerns, told
from relay.app.wiring.tool_touches import ToolTouches
from relay.checks import results as check_results
from relay.config.settings import LiveSettings
from relay.git.diff import changed_files, touches_of
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.merge_state import started_merge
from relay.git.run import Git, GitError
from relay.log import events
from relay.log.events import Event, Lane
from relay.model import Changes, Workplace
from relay.model.touches import Source, Touch, paths_of
from relay.room.dispatch.turns import Plan
from relay.store.ports import Store, StoreError, Tx
from relay.timeline import checkpoints
from relay.timeline.file_changes import on_main_already, record_changes, record_reads, record_tree
from relay.timeline.handoffs.journal import held_trees
from relay.timeline.projection import UNKNOWN_LANE, KnownTree, last_tree
from relay.timeline.reading import MAIN_LANE, Filter, page
from relay.timeline.rewind.history import GIVEN_UP, REDONE, REWOUND, UNDONE
from relay.verification import journal as verifications

log = structlog.get_logger(__name__)
#: What relay does to an agent's worktree between turns that sets its files, and as which source they are read then.
_SET_BY_RELAY = {TAKEN_IN: "merge", ABORTED: "abort", RESTORED: "restore", TAKEN_BACK: "restore"}
#: The setting that says up to where in the log an agent was told of rewinds.
_TOLD = "rewinds_told"
#: Seconds between two looks for snapshots that are not to be kept any more.
PRUNE_EVERY_S = 3600.0


class _MovedOn(Exception):
    """Another member of the fleet recorded something of the main branch meanwhile."""


class TimelineRecording:
    """Records the turns' changes, and those of the main branch. `registry`: the room's worktrees; `others`: has the
    room other members?"""

    def __init__(
        self,
        store: Store,
        registry: WorktreeRegistry,
        settings: LiveSettings,
        others: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store, self._registry, self._settings, self._others = store, registry, settings, others
        self._member = settings.current.member
        self._catching_up = asyncio.Lock()
        #: The newest event of the main branch, as the pass that catches up has read or written it.
        self._newest: str | None = None
        #: Up to which place in the log the agent of a running turn is told what was taken back.
        self._told_until: dict[str, int] = {}
        self.tools = ToolTouches(store, registry, self)
        self._people = PersonLanes(registry, settings)
        self.edits = PersonEdits(store, registry, self._people, self, self._member)

    # -- turns

    async def turn_began(self, plan: Plan, place: Workplace) -> None:
        """Record what was done to the worktree since the log last knew it, and keep it as it stands. Never raises for
        git or the store."""
        if not place.tree:
            return
        try:
            await self.catch_up()
            async with self.tools.entering(plan.agent, place) as stands:
                if stands is not None:
                    await self._between_turns(plan, stands)
                await self._keep((stands or place).tree, place.commits, plan, "a turn began")
                await self.tools.begin(plan, stands or place)
        except (GitError, OSError, StoreError, self._store.transient, self._store.errors) as error:
            log.warning("timeline not brought up to a turn", agent=plan.agent, reason=str(error))

    async def turn_ends(self, plan: Plan, changes: Changes | None) -> Changes | None:
        """Keep what the turn leaves; gives what of it is still to be recorded. Its agent has been told what was taken
        back before it. Never raises for git or the store."""
        changes = await self.tools.finish(plan, changes)
        told_until = self._told_until.pop(plan.agent, None)
        try:
            if changes is not None:
                await self._keep(changes.after, changes.commits, plan, "a turn ended")
            if told_until is not None:
                name = f"{_TOLD}:{plan.agent}"
                await self._store.write(lambda tx: events.put_setting(tx, name, str(told_until)))
        except (GitError, OSError, StoreError, self._store.transient, self._store.errors) as error:
            log.warning("end of a turn not kept for the timeline", agent=plan.agent, reason=str(error))
        return changes

    async def taken_back(self, agent: str) -> str:
        """What the agent is told of rewinds since its last turn that wrote its worktree, or took its work out of the
        main branch; empty: nothing. Never raises for the store."""

        async def work(tx: Tx) -> list[Event]:
            after = int(await events.setting(tx, f"{_TOLD}:{agent}") or 0)
            found = await events.read_after(tx, after, types=(REWOUND, UNDONE, REDONE, GIVEN_UP))
            undone = {event.outputs["rewind"] for event in found if event.type == GIVEN_UP}
            name = self._registry.checkout_name(agent)
            return [
                event
                for event in found
                if event.type != GIVEN_UP and event.id not in undone and concerns(event, agent, name)
            ]

        try:
            operations = await self._store.read(work)
        except (StoreError, self._store.transient, self._store.errors) as error:
            log.warning("what was taken back is not known", agent=agent, reason=str(error))
            return ""
        if not operations:
            return ""
        self._told_until[agent] = operations[-1].pos
        return "\n".join(told(event, agent) for event in operations)

    async def record(self, tx: Tx, plan: Plan, changes: Changes) -> None:
        """Append what the turn changed and no tool has told of."""
        await record_changes(
            tx,
            plan.lane,
            changes.touches,
            source=Source.TREE,
            before=changes.before,
            after=changes.after,
            worktree=self._registry.checkout_name(plan.agent),
            parents=[plan.event_id],
            role=plan.role,
            branch=changes.branch,
        )

    async def _between_turns(self, plan: Plan, place: Workplace) -> None:
        name = self._registry.checkout_name(plan.agent)
        known = await self._store.read(lambda tx: last_tree(tx, name))
        if known is None:
            await self._store.write(
                lambda tx: record_tree(tx, plan.lane, name, place.tree, parents=[plan.event_id])
            )
        elif known.tree != place.tree:
            await self._record_between(plan, known, place.tree)

    async def _record_between(self, plan: Plan, known: KnownTree, tree: str) -> None:
        touches = await self._touches(known.tree, tree)
        own = {touch.path for touch in await self._touches(await self._main_tree(), tree)}
        own -= await self._merged_in(plan.agent, tree)
        change, set_by_relay = await self._set_by_relay(plan.agent, known, tree, own)
        own -= set_by_relay
        brought = {touch.path: touch.after for touch in touches if touch.path not in own}
        others = [touch for touch in touches if touch.path in own]
        name, shared = self._registry.checkout_name(plan.agent), self._registry.is_shared(plan.agent)

        async def work(tx: Tx) -> None:
            await record_reads(
                tx,
                plan.lane,
                brought,
                source=_SET_BY_RELAY.get(change, "merge"),
                worktree=name,
                tree=tree,
                parents=[plan.event_id],
                role=plan.role,
            )
            await record_changes(
                tx,
                plan.lane if plan.interrupted and not shared else UNKNOWN_LANE,
                others,
                source=Source.TREE,
                before=known.tree,
                after=tree,
                worktree=name,
            )

        await self._store.write(work)

    async def _merged_in(self, agent: str, tree: str) -> set[str]:
        """The files of a worktree that stand as relay left them when it began to merge the main branch there, with
        their markers."""
        worktree = self._registry.worktrees.get(agent)
        started = None if worktree is None else await started_merge(worktree.checkout)
        if started is None:
            return set()
        left = {touch.path for touch in await self._touches(started.commit, tree)}
        return {touch.path for touch in await self._touches(started.head, started.commit)} - left

    async def _set_by_relay(
        self, agent: str, known: KnownTree, tree: str, paths: set[str]
    ) -> tuple[str, set[str]]:
        """What relay did to this worktree last since the log knew it (empty: nothing that sets files), and which of
        these paths stand as that, or what it did before, left them: merged by git, as before a merge, or back."""

        async def work(tx: Tx) -> list[Event]:
            since = await events.get(tx, known.event)
            return await page(tx, Filter(agent, types=(WORKTREE_CHANGED,), after=since.pos if since else 0))

        stands, change = set[str](), ""
        for event in await self._store.read(work):
            if event.outputs["change"] not in _SET_BY_RELAY or not (commit := event.outputs["commit"]):
                continue
            change, first = str(event.outputs["change"]), f"{commit}^1"
            # A takeback gives the branch what main had before it.
            left = await self._touches(first if change == TAKEN_BACK else commit, tree)
            as_left = paths - {touch.path for touch in left}
            if change == TAKEN_IN:
                # The first parent is the agent's side: what stood uncommitted is in it.
                as_left &= {touch.path for touch in await self._touches(first, commit)}
            stands |= as_left
        return change, stands

    # -- the main branch

    async def catch_up(self) -> None:
        """Record what came onto the main branch since the log last knew it. Raises GitError."""
        async with self._catching_up:
            while True:
                with suppress(_MovedOn):
                    return await self._catch_up()

    async def _catch_up(self) -> None:
        """One pass. Raises _MovedOn, GitError."""
        target = await self._registry.target()
        if target is None or self._registry.main is None:
            return
        known = await self._store.read(lambda tx: last_tree(tx, MAIN))
        self._newest = known.event if known else None
        if known is None:
            tree = await self._git.line("rev-parse", f"{target.commit}^{{tree}}")
            await self._write(
                lambda tx: record_tree(tx, MAIN_LANE, MAIN, tree, commit=target.commit, branch=target.name)
            )
            return
        if (known := await self._known_here(known, target.commit, target.name)) is None:
            return
        id = known.event
        event = await self._store.read(lambda tx: events.get(tx, id))
        if event is not None and event.branch not in (None, target.name):
            known = await self._record_switch(known, event.branch, target.name, target.commit)
        if known.commit != target.commit:
            await self._record_commits(known, target.commit, target.name)

    async def _known_here(self, known: KnownTree, head: str, branch: str | None) -> KnownTree | None:
        return await known_here(self._git, self._store, known, head, branch) if self._others() else known

    async def _write(self, work: Callable[[Tx], Awaitable[Event]]) -> None:
        """Record it, if the log knows no more of the main branch than this pass does. Raises _MovedOn."""

        async def checked(tx: Tx) -> Event:
            known = await last_tree(tx, MAIN)
            if (known.event if known else None) != self._newest:
                raise _MovedOn
            return await work(tx)

        self._newest = (await self._store.write(checked)).id

    async def _record_switch(self, known: KnownTree, before: str | None, branch: str, head: str) -> KnownTree:
        """What was committed on the former branch, then the switch; gives where on this one it came to."""
        assert self._registry.main is not None
        left, came = await arrival(self._registry.main.git, branch, known.commit, head)
        if self._others() and known.commit is not None and await is_ancestor(self._git, came, known.commit):
            return known  # the log has that this clone came there, or another member did
        if left is not None and left != known.commit:
            since = await self._known_here(known, left, before)
            if since is not None:
                await self._record_commits(since, left, before)
        tree = await self._git.line("rev-parse", f"{came}^{{tree}}")
        paths = paths_of(await self._touches(f"{left}^{{tree}}" if left else known.tree, tree))
        await self._write(
            lambda tx: record_tree(
                tx, MAIN_LANE, MAIN, tree, commit=came, source="switch", branch=branch, paths=paths
            )
        )
        assert self._newest is not None
        return KnownTree(tree, came, self._newest)

    async def _record_commits(self, known: KnownTree, head: str, branch: str | None) -> None:
        """One event for each commit on the way to `head`, two where it has an agent's work and a person's; one for
        all where there is no short way."""
        before, commit = known.tree, known.commit
        way = await commits_between(self._git, commit, head)
        lanes = await self._people.of({made.author for made in way if made.author is not None})
        agents = self._settings.current.agent_names
        for made in way:
            person = None if made.author is None else lanes[made.author]
            # An agent's own commit came by whoever works in the main checkout.
            signed = made.author is not None and made.author.name not in agents
            by = person if person is not None and signed else await self._people.own()
            each = replace(made, branch=branch)
            trailers = await trailers_of(self._git, self._store, commit, made.commit)
            await self._record_commit(each, before, person, by.name.removeprefix("human:"), trailers)
            before, commit = made.tree, made.commit

    async def _record_commit(
        self, made: MainCommit, before: str, person: Lane | None, by: str, trailers: Trailers
    ) -> None:
        side = await merged_side(self._git, made, self._registry.room.join)
        touches = await self._touches(before, made.tree)
        had = set[str]()
        if self._others():
            # Merges and rebases bring what another clone had, and is recorded already.
            had = await self._store.read(lambda tx: on_main_already(tx, touches))
            touches = tuple(touch for touch in touches if touch.path not in had)
        parts = await self._store.read(lambda tx: parts_of(tx, made, person, touches, side, by, self._member))
        tree = made.tree
        if len(parts) > 1:
            brought, own = parts
            paths = {touch.path for touch in brought.touches}
            index = self._registry.scratch.folder / "index-main-branch-brought"
            between = await tree_with_part(self._git, before, made.tree, paths, index)
            if between is None:
                parts = [replace(own, touches=[*brought.touches, *own.touches])]
            else:
                tree = between
                await self._keep_between(tree, made.parents[:1])
                # A rename of which one half was brought is none.
                brought = replace(brought, touches=await self._touches(before, tree))
                known = {*brought.committed, *own.committed, *had}
                left = [each for each in await self._touches(tree, made.tree) if each.path not in known]
                parts = [brought, replace(own, touches=left)]

        async def work(tx: Tx) -> Event:
            recorded: Event | None = None
            at = before
            for part in parts:
                last = part is parts[-1]
                recorded = await record_changes(
                    tx,
                    part.lane,
                    part.touches,
                    source=Source.TREE if part.lane == MAIN_LANE else Source.PERSON,
                    before=at,
                    after=made.tree if last else tree,
                    worktree=MAIN,
                    # Between the two no commit has the files.
                    commit=made.commit if last else None,
                    parents=[*part.causes, *([recorded.id] if recorded else ())],
                    committed=part.committed,
                    came=side.came(part.touches),
                    carried=part.carried,
                    merged=part.merged,
                    trailers=[
                        *(trailers.brought if part is parts[0] else ()),
                        *(trailers.own if last else ()),
                    ],
                    branch=made.branch,
                )
                at = tree
            if recorded is None:
                (part,) = parts
                recorded = await record_tree(
                    tx,
                    part.lane,
                    MAIN,
                    made.tree,
                    commit=made.commit,
                    parents=part.causes,
                    branch=made.branch,
                    trailers=[*trailers.brought, *trailers.own],
                )
            return recorded

        await self._write(work)

    async def _keep_between(self, tree: str, parents: Sequence[str]) -> None:
        """Keep the files that have what agents wrote of a change, and not yet what its author did."""
        if (kept := self.kept) is not None:
            reason = "an agent's work was merged by hand"
            await kept.keep(tree, parents, lane=MAIN_LANE.key, reason=reason, at=time.time())

    # -- snapshots

    async def prune(self) -> None:
        """Let go of the snapshots that the configuration does not keep, and of results of checks and variants of
        explorations that are as old, now and then. Runs for ever."""
        while True:
            await asyncio.sleep(PRUNE_EVERY_S)
            if (kept := self.kept) is not None:
                try:
                    oldest = time.time() - self._settings.current.timeline.keep_days * 86_400
                    await check_results.forget(self._store, oldest)
                    await verifications.forget_output(self._store, oldest)
                    held = await self._store.read(checkpoints.trees) | await self._store.read(held_trees)
                    gone = await kept.prune(self._settings.current.timeline, time.time(), held)
                    assert self._registry.main is not None
                    variants = await prune_variants(
                        self._registry.main.git, self._store, self._settings.current.timeline
                    )
                    log.info("snapshots let go", count=len(gone), variants=len(variants))
                except (GitError, StoreError, self._store.transient, self._store.errors) as error:
                    log.warning("snapshots not looked at", reason=str(error))

    @property
    def kept(self) -> KeptSnapshots | None:
        """The kept snapshots of the repository; None without one."""
        main = self._registry.main
        return None if main is None else KeptSnapshots(self._registry.scratch, main)

    async def _keep(self, tree: str, commits: Sequence[str], plan: Plan, reason: str) -> None:
        if (kept := self.kept) is not None:
            await kept.keep(tree, commits, lane=plan.lane.key, reason=reason, at=time.time())

    @property
    def _git(self) -> Git:
        assert self._registry.main is not None
        return self._registry.scratch.git(self._registry.main)

    async def _main_tree(self) -> str:
        target = await self._registry.target()
        if target is None:
            raise GitError("rev-parse", 1, self._registry.no_main or "there is no main branch")
        return await self._git.line("rev-parse", f"{target.commit}^{{tree}}")

    async def _touches(self, before: str, after: str) -> tuple[Touch, ...]:
        return touches_of(await changed_files(self._git, before, after))

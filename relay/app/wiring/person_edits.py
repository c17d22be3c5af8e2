"""What people save in the main checkout and have not committed, recorded when it is quiet there.

Invariants:
- what HEAD brings (a commit, a merge, another branch) is no edit: the main branch's own events say it. A commit of
  what was recorded here is no second write (`relay.timeline.file_changes.committed_edits`);
- what an agent had written (a squash, a checkout of its branch) is on the main branch's lane, as its commit would be;
- nobody's files are written. While relay writes there, or a merge or rebase is under way, nothing is looked at;
- where an agent works in the main checkout itself it is not known whose an edit is, and none is recorded. What a
  person's own session (docs/attach.md) writes there is that person's;
- each member of a fleet has a main checkout of its own, and compares it with what it knew of that one alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import structlog

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.wiring.main_commits import tree_with_part
from relay.app.wiring.person_lanes import PersonLanes
from relay.faces.rewinds import MainBranchLog
from relay.git.checkout import Checkout, Head
from relay.git.diff import changed_files, touches_of
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.merge_state import operation_under_way
from relay.git.run import Git, GitError, name_of
from relay.git.snapshot import Snapshot, Snapshotter
from relay.log.events import Lane
from relay.model.touches import Source, Touch
from relay.store.ports import Store, StoreError
from relay.timeline.file_changes import agents_writes, record_changes, record_tree
from relay.timeline.projection import UNCOMMITTED, KnownTree, last_tree
from relay.timeline.reading import MAIN_LANE
from relay.timeline.rewind.named_touches import oid_of
from relay.timeline.rewind.tree_entries import changes_between, entries_at, existing, tree_with

log = structlog.get_logger(__name__)
#: Seconds without a change before a look, and seconds of changes after which it comes all the same.
QUIET_S, MOST_S = 3.0, 60.0


class PersonEdits:
    """Follows the main checkout. `main` records the main branch."""

    def __init__(
        self,
        store: Store,
        registry: WorktreeRegistry,
        lanes: PersonLanes,
        main: MainBranchLog,
        member: str = "",
    ) -> None:
        self._store, self._registry, self._lanes, self._main = store, registry, lanes, main
        self._member = member
        self._snapshotter: Snapshotter | None = None
        self._changed = asyncio.Event()

    def changed(self, _paths: frozenset[str] | None) -> None:
        """Files of the main checkout changed (`WorktreeWatcher.code`)."""
        self._changed.set()

    async def run(self) -> None:
        """Look whenever it has become quiet. Runs for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            until = loop.time() + MOST_S
            with suppress(TimeoutError):
                while self._changed.is_set() and loop.time() < until:
                    self._changed.clear()
                    async with asyncio.timeout(QUIET_S):
                        await self._changed.wait()
            try:
                if not await self.look():
                    self._changed.set()
                    await asyncio.sleep(QUIET_S)
            except (GitError, OSError, StoreError, self._store.transient, self._store.errors) as error:
                log.warning("edits of the main checkout not recorded", reason=str(error))

    async def look(self) -> bool:
        """Record what people did since the last look; False: not now. Raises GitError, OSError and the store's
        errors."""
        registry, main = self._registry, self._registry.main
        agents = (each for name, each in registry.worktrees.items() if name not in registry.guests)
        if main is None or any(each.checkout.top == main.top for each in agents):
            return True
        await self._main.catch_up()
        async with registry.exclusive:
            if await operation_under_way(main):
                return False
            target = await registry.target()
            snapshot = await self._take(main)
            if target is None or snapshot.head.commit != target.commit:
                return True  # an older commit is looked at: that is no edit
            known = await self._store.read(lambda tx: last_tree(tx, UNCOMMITTED, member=self._member))
            if known is None or not await self._is_there(known):
                await self._begin(snapshot)
            elif (stands := await self._counted(known, snapshot)).tree != known.tree:
                await self._record(known, stands)
        return True

    async def _take(self, main: Checkout) -> Snapshot:
        if self._snapshotter is None or self._snapshotter.checkout != main:
            excluded = self._registry.not_work(main.top)
            self._snapshotter = Snapshotter(self._registry.scratch, main, "main-checkout", excluded)
        # All of it: the scratch may have been emptied, and HEAD moved.
        return await self._snapshotter.take()

    async def _counted(self, known: KnownTree, snapshot: Snapshot) -> Snapshot:
        """With the files that were open before and that git ignores since then: they are not deleted."""
        assert self._snapshotter is not None
        tree = await self._snapshotter.with_ignored(snapshot.tree, known.tree, known.commit)
        return replace(snapshot, tree=tree)

    async def _is_there(self, known: KnownTree) -> bool:
        """Has git what the log last knew? Not when its snapshot was let go, or its commit was."""
        wanted = {known.tree, known.commit or known.tree}
        return await existing(self._git, wanted) == wanted

    async def _begin(self, snapshot: Snapshot) -> None:
        """Take for granted what is open at the first look: a commit of it says what it is."""
        lane = await self._lanes.own()
        await self._keep(snapshot.tree, snapshot.parents, lane)
        await self._store.write(
            lambda tx: record_tree(
                tx, lane, UNCOMMITTED, snapshot.tree, commit=snapshot.head.commit, member=self._member
            )
        )

    async def _record(self, known: KnownTree, snapshot: Snapshot) -> None:
        before, brought = await self._brought(known, snapshot)
        # A submodule whose folder is not at the commit that HEAD brought is nobody's edit; its commit says more.
        records = [
            record
            for record in await changed_files(self._git, before, snapshot.tree)
            if not record.is_submodule
        ]
        touches = [touch for touch in touches_of(records) if brought.get(touch.path, "") != touch.after]
        if not touches:
            return
        lane = await self._lanes.own()
        await self._keep(snapshot.tree, snapshot.parents, lane)
        writes = await self._store.read(lambda tx: agents_writes(tx, touches, uncommitted=True))
        merged = [touch for touch in touches if touch.path in writes]
        own = [touch for touch in touches if touch.path not in writes]
        between = snapshot.tree
        if merged and own:
            index = self._registry.scratch.folder / "index-main-checkout-brought"
            paths = {touch.path for touch in merged}
            found = await tree_with_part(self._git, before, snapshot.tree, paths, index)
            if found is None:
                merged, own = [], touches
            else:
                between = found
                await self._keep(between, snapshot.parents, MAIN_LANE)
        if merged:
            causes = list(dict.fromkeys(writes.values()))
            await self._put(MAIN_LANE, merged, before, between, snapshot.head, causes)
            before = between
        await self._put(lane, own, before, snapshot.tree, snapshot.head)

    async def _put(
        self,
        lane: Lane,
        touches: Sequence[Touch],
        before: str,
        after: str,
        head: Head,
        causes: Sequence[str] = (),
    ) -> None:
        await self._store.write(
            lambda tx: record_changes(
                tx,
                lane,
                touches,
                source=Source.TREE if causes else Source.PERSON,
                before=before,
                after=after,
                worktree=UNCOMMITTED,
                member=self._member,
                commit=head.commit,
                branch=head.branch,
                parents=causes,
                carried=bool(causes),
            )
        )

    async def _brought(self, known: KnownTree, snapshot: Snapshot) -> tuple[str, dict[str, str | None]]:
        """The tree that was known, with what HEAD has brought since where nobody had edited it; and all that HEAD has
        brought, by path."""
        commit = snapshot.head.commit
        if known.commit is None or commit is None or known.commit == commit:
            return known.tree, {}
        trees = [await self._git.line("rev-parse", f"{name}^{{tree}}") for name in (known.commit, commit)]
        old, new = trees
        changes = (await changes_between(self._git, [(old, new)])).get((old, new), {})
        stood = await entries_at(self._git, known.tree, list(changes))
        clean = {path: after for path, (before, after) in changes.items() if stood.get(path) == before}
        index = self._registry.scratch.folder / "index-main-checkout-brought"
        tree = await tree_with(self._git, known.tree, clean, index)
        return tree, {name_of(path): oid_of(after) for path, (_, after) in changes.items()}

    async def _keep(self, tree: str, parents: Sequence[str], lane: Lane) -> None:
        assert self._registry.main is not None
        kept = KeptSnapshots(self._registry.scratch, self._registry.main)
        await kept.keep(tree, parents, lane=lane.key, reason="files were saved", at=time.time())

    @property
    def _git(self) -> Git:
        assert self._registry.main is not None
        return self._registry.scratch.git(self._registry.main)

"""The agents' worktrees, as work is handed from one to another.

Invariant: a worktree is written under its lock, while no turn runs in it, and the row of the handoff says so before.
"""

from __future__ import annotations

import time
from dataclasses import replace

from relay.airspace.worktrees.lifecycle import is_ancestor
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree
from relay.base.terminal_text import safe_line
from relay.git.checkout import head_of
from relay.git.kept_snapshots import KeptSnapshots
from relay.model import Refusal
from relay.store.ports import Store, Tx
from relay.timeline.handoffs import journal
from relay.timeline.handoffs.journal import Handoff
from relay.timeline.handoffs.placing import HandoffPlaces


class HandoffWorktrees:
    """The worktrees of one room. `registry` has them."""

    def __init__(self, store: Store, registry: WorktreeRegistry) -> None:
        self._store, self._registry = store, registry

    def of(self, agent: str) -> TrackedWorktree:
        """An agent's worktree. Raises Refusal."""
        worktree = self._registry.worktrees.get(agent)
        if worktree is None:
            why = self._registry.troubles.get(agent) or self._registry.trouble or "it is gone"
            raise Refusal(f"{agent} has no worktree: {safe_line(why)}.")
        return worktree

    def busy(self, agent: str) -> bool:
        """Does the agent's turn run?"""
        return agent in self._registry.turn_trees

    async def check_free(self, agent: str, worktree: TrackedWorktree, commit: str, main: str | None) -> None:
        snapshot = await worktree.take_snapshot(everything=True)
        landed = self._registry.merge_trials.contains
        await self.places.check_free(agent, worktree.checkout, snapshot, commit, main, landed)

    async def set_to(
        self,
        handoff: Handoff,
        worktree: TrackedWorktree,
        commit: str,
        tree: str,
        *,
        branch: str | None = None,
        free: bool = True,
    ) -> None:
        """Set a worktree, whose lock is held, to a commit with this tree, on `branch` or the one that it is on.
        `free`: refuse where it has work that is not in that."""
        places, checkout = self.places, worktree.checkout
        if handoff.written is not None:
            await places.recover(checkout, *handoff.written)
        worktree.mark_stale(None)
        snapshot = await worktree.take_snapshot(everything=True)
        if free:
            await self.check_free(worktree.name, worktree, commit, await self.main_commit())
        await places.keep_staged(checkout, snapshot.tree)
        if snapshot.tree != tree:
            await self._kept.keep(
                snapshot.tree, snapshot.parents, lane=worktree.name, reason="before a handoff", at=time.time()
            )
            await self._note_written(handoff, (snapshot.tree, tree))
            await places.write(checkout, snapshot.tree, tree)
        await places.settle(checkout, commit, branch)
        worktree.mark_stale(None)
        if (await worktree.take_snapshot(everything=True)).tree != tree:
            raise Refusal(
                f"{worktree.name}'s worktree was edited while it was set.",
                "Let nobody write there meanwhile.",
            )
        self._registry.wake.set()

    async def _note_written(self, handoff: Handoff, written: tuple[str, str]) -> None:
        async def work(tx: Tx) -> None:
            row = await journal.load(tx, handoff.number)
            await journal.save(tx, replace(row, written=written))

        await self._store.write(work, durable=True)

    async def send_home(self, handoff: Handoff) -> None:
        """Let the source's own branch have what it handed on, so that it has no work of its own left."""
        worktree = self._registry.worktrees.get(handoff.source)
        if worktree is None or not worktree.own or handoff.at_commit is None:
            return
        async with worktree.lock:
            if handoff.source in self._registry.turn_trees:
                return
            worktree.mark_stale(None)
            snapshot = await worktree.take_snapshot(everything=True)
            if not snapshot.merging:
                if snapshot.tree == handoff.tree:
                    await self.places.settle(worktree.checkout, handoff.at_commit)
                # Else it has gone on, and keeps what it has.
                await self._go_back(handoff, worktree)
            worktree.mark_stale(None)
        self._registry.wake.set()

    async def leave_branch(self, handoff: Handoff) -> bool:
        """Let the source of a handoff that has ended go on where it is, on its own branch. False while its turn
        runs."""
        worktree = self._registry.worktrees.get(handoff.source)
        if worktree is None or not worktree.own:
            return True
        async with worktree.lock:
            if self.busy(handoff.source):
                return False
            await self._go_back(handoff, worktree)
            worktree.mark_stale(None)
        self._registry.wake.set()
        return True

    async def _go_back(self, handoff: Handoff, worktree: TrackedWorktree) -> None:
        """From the branch of an attempt to the agent's own."""
        head = await head_of(worktree.checkout.git)
        if head.branch is not None and head.branch == handoff.branch and head.commit is not None:
            await self.places.go_back(worktree.checkout, head.commit, worktree.branch)

    async def home_for(self, worktree: TrackedWorktree, commit: str) -> str | None:
        """The branch on which a receiver goes on: its own when nothing of that is lost by moving it to the commit;
        None: the one that it is on."""
        git, main = worktree.checkout.git, await self.main_commit()
        there = await git.maybe("rev-parse", "-q", "--verify", f"refs/heads/{worktree.branch}^{{commit}}")
        if there is None:
            return worktree.branch
        for into in filter(None, (commit, main)):
            if await is_ancestor(git, there, into):
                return worktree.branch
        return None

    async def main_commit(self) -> str | None:
        """Where the main branch stands; None: not known."""
        target = await self._registry.target()
        return None if target is None else target.commit

    @property
    def places(self) -> HandoffPlaces:
        """The repository's checkouts."""
        assert self._registry.main is not None
        return HandoffPlaces(self._registry.scratch, self._registry.main)

    @property
    def _kept(self) -> KeptSnapshots:
        assert self._registry.main is not None
        return KeptSnapshots(self._registry.scratch, self._registry.main)

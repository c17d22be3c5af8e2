"""The work that is to land, looked at where its branch is: from then on it is one commit.

Invariant: in a fleet the commit is at the common remote before its entry says which it is.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.merging.refusals import NothingToMerge
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.room import LockedFiles
from relay.airspace.worktrees.view import ELSEWHERE
from relay.app.fleet.common_main import CommonMain
from relay.app.verification.landing_approvals import LandingApprovals
from relay.app.verification.landing_git import LandingGit
from relay.app.verification.landing_record import LandingRecord
from relay.git.run import GitError
from relay.model import Refusal
from relay.store.ports import Store, Tx
from relay.verification import approvals
from relay.verification.landing import journal
from relay.verification.landing.entry import Entry, EntryState


class LandingPins:
    """`common`: as of `LandingQueue`."""

    def __init__(
        self,
        store: Store,
        registry: WorktreeRegistry,
        actions: WorktreeActions,
        git: LandingGit,
        record: LandingRecord,
        asked: LandingApprovals,
        common: CommonMain | None,
    ) -> None:
        self._store, self._registry, self._actions = store, registry, actions
        self._git, self._record, self._approvals = git, record, asked
        self._common = common

    async def pin(self, entry: Entry) -> None:
        """Look at the work that is to land: from here on it is this commit, whatever the agent does next."""
        at_work = f"{entry.agent} is at work: its turn ends first"
        if self._is_at_work(entry):
            await self._record.hold(entry, at_work)
            return
        try:
            proposal, head = await self._actions.pin(entry.agent, entry.asker)
        except Refusal as refusal:
            if self._is_at_work(entry):  # its turn has begun meanwhile
                await self._record.hold(entry, at_work)
            elif isinstance(refusal, LockedFiles):
                await self._record.hold(entry, str(refusal), say=True)
            elif refusal.code == ELSEWHERE:
                note = f"{refusal.message} It is brought here when both relays run"
                await self._record.hold(entry, note, say=True)
            elif not (isinstance(refusal, NothingToMerge) and await self._too(entry)):
                # Else another member has the work: it looks at it when this one has told that it has none.
                await self._record.put_out(entry, str(refusal))
            return
        if not await self.brought(entry, head):
            return
        tree = await self._git.git.line("rev-parse", f"{head}^{{tree}}")
        pinned = replace(
            entry,
            state=EntryState.WAITING,
            branch=proposal.branch,
            at_commit=head,
            tree=tree,
            note="",
            approval=None,
        )
        pinned = replace(pinned, policies=await self._approvals.policies_of(pinned))
        too = await self._too(entry)
        carried = await self._carried(head)

        async def work(tx: Tx) -> None:
            now = await journal.load(tx, entry.number)
            if now.state is not EntryState.ASKED:
                return
            await approvals.withdraw_of_entry(tx, entry.number, "other work of the branch is to land")
            await journal.change(tx, pinned, journal.QUEUED, carried=carried)
            if too:
                await self._record.say_also(tx, pinned, too)

        await self._store.write(work)

    async def brought(self, entry: Entry, head: str) -> bool:
        """Where main is shared, bring the work to where all members can have it; False: it cannot be now, or is put
        out since something in it looks like a secret."""
        if self._common is None or not await self._common.is_shared():
            return True
        try:
            await self._common.hand_over(entry.agent, head)
        except Refusal as refusal:
            await self._record.put_out(entry, str(refusal))
            return False
        except GitError as error:
            note = f"its branch cannot be brought to `{self._common.remote}`: {error.last_words}"
            await self._record.hold(entry, note, say=True)
            return False
        return True

    async def _carried(self, head: str) -> list[dict[str, str]]:
        """What people have on main here that lands with this work."""
        if self._common is None or not await self._common.is_shared():
            return []
        return [asdict(each) for each in await self._common.carried(head)]

    async def _too(self, entry: Entry) -> tuple[str, ...]:
        """The other members that have work of the agent."""
        return () if self._common is None else await self._common.too(entry.agent)

    def _is_at_work(self, entry: Entry) -> bool:
        worktree = self._registry.find(entry.agent)
        return worktree is not None and worktree.name in self._registry.turn_trees

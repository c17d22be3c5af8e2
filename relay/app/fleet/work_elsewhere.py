"""The work of agents of the fleet's other members against the main branch, for whoever decides a conflict of it here.

Invariant: it is the work as its member told of it last, from the common remote; where it cannot be had, that is said.
"""

from __future__ import annotations

from dataclasses import replace

from relay.airspace.shared.shared_work import SharedWork
from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.merging.proposal import Resolvable
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.working_sets import WorkingSetSource
from relay.app.fleet.branches import FleetBranches
from relay.app.fleet.common_main import CommonMain
from relay.app.fleet.fleet import Fleet
from relay.git.run import GitError
from relay.model import Refusal


class WorkElsewhere:
    """Of one member."""

    def __init__(
        self,
        fleet: Fleet,
        registry: WorktreeRegistry,
        actions: WorktreeActions,
        sets: WorkingSetSource,
        branches: FleetBranches,
        common: CommonMain,
    ) -> None:
        self._fleet, self._registry, self._actions = fleet, registry, actions
        self._sets, self._branches, self._common = sets, branches, common

    async def resolvable(self, agent: str) -> Resolvable:
        """As `WorktreeActions.resolvable`, wherever the agent lives. Raises Refusal."""
        work = await self._work(agent)
        if work is None:
            return await self._actions.resolvable(agent)
        try:
            found = await self._actions.against_main(await self._commit(work))
        except GitError as error:
            raise Refusal(f"git could not try the merge: {error}.") from error
        return replace(found, member=work.member, begun=work.merging)

    async def _work(self, agent: str) -> SharedWork | None:
        """What another member has of the agent; None: what is meant is here, or nowhere."""
        work = self._sets.others.get(agent)
        if work is None or not work.commit:
            return None
        if self._fleet.home_of(agent) is None:
            member = (await self._fleet.place_of(agent)).member
            if member is None or member.name == self._fleet.name:
                return None
        return work

    async def _commit(self, work: SharedWork) -> str:
        """The commit that is to be merged, brought here. Raises Refusal, GitError."""
        assert self._registry.main is not None
        if work.commit not in await self._branches.fetch([replace(work, pushed=True)]):
            why = await self._common.why_not_here(work.agent) or (
                f"the branch of {work.agent} has not come to `{self._common.remote}` yet"
            )
            raise Refusal(
                f"What {work.agent} has cannot be looked at here: {why}.",
                f"Choose at {work.member}: in its page, or by `relay merge resolve` there.",
            )
        if not work.merging:
            return work.commit
        # What relay merges into its branch is given up for what the room decides: the work is what it was before.
        return await self._registry.scratch.git(self._registry.main).line("rev-parse", f"{work.commit}^1")

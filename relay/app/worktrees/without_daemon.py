"""The worktrees of a room whose daemon does not run, for `relay worktrees`."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.fleet.told_works import read_others
from relay.app.wiring.merge_tools import MergeTools
from relay.app.wiring.schema import SCHEMAS
from relay.app.wiring.worktree_room import StoredWorktreeRoom
from relay.base.case_folding import folds_case
from relay.config.settings import LiveSettings, Settings
from relay.coordination.writes.fencing import LockCheck
from relay.faces.worktrees import WorktreesService
from relay.store.open import opened_store
from relay.verification.policy_list import Policies


@asynccontextmanager
async def opened_worktrees(settings: Settings) -> AsyncIterator[WorktreesService]:
    """The worktrees without a daemon: those that are there; none is made."""
    async with opened_store(settings, SCHEMAS) as store:
        with tempfile.TemporaryDirectory(prefix="relay-worktrees-") as made:
            tools = MergeTools(lambda: settings.merge)
            judge = LockCheck(fold=folds_case(settings.repo))
            room = StoredWorktreeRoom(store, judge, tools, Path(made) / "checks")
            registry = WorktreeRegistry(settings, room, scratch=Path(made) / "scratch.git", make=False)
            try:
                await registry.open()
                await registry.refresh()
                registry.merge_trials.others = await read_others(store, settings.member)
                actions = WorktreeActions(registry, BranchUpdates(registry))
                yield WorktreesService(store, registry, actions, Policies(store, LiveSettings(settings)))
            finally:
                await tools.close()

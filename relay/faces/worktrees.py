"""The worktrees as each interface asks for them: HTTP, and the command line without a running room.

Invariants: what git cannot do is a Refusal with git's reason. Nothing is changed while the room's database cannot
take a record of it: what the store raised comes out then, as of every other call.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.merging.proposal import MergeOptions
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.view import difference, missing, rows
from relay.airspace.worktrees.watcher import WorktreeWatcher
from relay.git.run import GitError
from relay.log import events
from relay.model import Refusal
from relay.model.actions import DiscardWork, GiveUpMerge, MergeBranch, OnBranch, RestoreWork, TakeBackMerge
from relay.room.journal import ledger
from relay.store.ports import Store, StoreError
from relay.verification import present

#: A row that is really written: a disk that is full, or that may only be read, shows in nothing less.
_PROBE = "worktrees_asked"


#: Of a worktree that is elsewhere, and of all where no room runs.
_NOTHING_RUNS: dict[str, Any] = {"ports": None, "setup": None, "app": None, "busy": "", "disk": None}
_UNKNOWN: dict[str, Any] = {"commands": {"setup": False, "run": False, "archive": False}, "disk": None}


class Desk(Protocol):
    """What the worktrees' desk says of them (`relay.app.worktrees.desk`), which stands above this floor."""

    async def rows(self) -> dict[str, dict[str, Any]]: ...

    def summary(self) -> dict[str, Any]: ...


class WorktreesService:
    """One room's worktrees. `watcher`, `protocol` and `desk` are of a running room only: they know why changes are
    polled for, whom an agent has the right of way over, and what runs in the worktrees."""

    def __init__(
        self,
        store: Store,
        registry: WorktreeRegistry,
        actions: WorktreeActions,
        watcher: WorktreeWatcher | None = None,
        protocol: AdvisoryProtocol | None = None,
        desk: Desk | None = None,
    ) -> None:
        self._store, self._registry, self._actions = store, registry, actions
        self._watcher, self._protocol, self._desk = watcher, protocol, desk

    async def state(self) -> dict[str, Any]:
        """`{worktrees: [...], order: [...], trouble, troubles, polling, commands, disk}`."""
        registry = self._registry
        worktrees, order = await rows_of(registry, self._protocol, self._store)
        if any(row["member"] for row in worktrees):
            jobs = await self._store.read(lambda tx: tx.all(ledger.Q.active_jobs))
            at_work = {job["agent"] for job in jobs} - registry.turn_trees.keys()
            for row in worktrees:
                row["working"] |= row["member"] is not None and row["agent"] in at_work
        more = {} if self._desk is None else await self._desk.rows()
        for row in worktrees:
            row.update(_NOTHING_RUNS if row["member"] is not None else more.get(row["agent"], _NOTHING_RUNS))
        unread = {name: worktree.trouble for name, worktree in registry.worktrees.items() if worktree.trouble}
        return {
            "worktrees": worktrees,
            "order": order,
            "trouble": registry.trouble or registry.no_main,
            "troubles": {**registry.troubles, **unread},
            "polling": "" if self._watcher is None else self._watcher.polling,
            **(_UNKNOWN if self._desk is None else self._desk.summary()),
        }

    def check(self, agent: str, words: str) -> None:
        """Raise Refusal where the agent has no worktree here: there is none, or it is at another member of the fleet.
        `words`: of the command that does there what is wanted."""
        if self._registry.find(agent) is None:
            raise missing(self._registry, agent, words)

    async def diff(self, agent: str, path: str = "") -> dict[str, Any] | None:
        """What a worktree changes against its base, with the text of one file where `path` names it; None: no such
        worktree. Raises Refusal."""
        try:
            return await difference(self._registry, agent, path)
        except GitError as error:
            raise Refusal(f"git could not show it: {error}.") from error

    async def actions(self) -> WorktreeActions:
        """What changes a worktree. Raises what keeps the database from taking a record of a change."""
        await self._store.write(lambda tx: events.put_setting(tx, _PROBE, str(time.time())), durable=True)
        return self._actions


async def ordered(actions: WorktreeActions, action: OnBranch, by: str) -> dict[str, Any]:
    """Do what is ordered of an agent's branch, through whichever interface: `{success, reason, commit, ...}`. Raises
    Refusal, and then nothing was done."""
    agent = action.agent
    match action:
        case MergeBranch(_, squash, text, head, joined, untested):
            return await actions.merge(agent, by, MergeOptions(squash, text, head, joined, untested))
        case DiscardWork():
            return await actions.discard(agent, by)
        case RestoreWork(_, kept):
            return await actions.restore(agent, by, kept or "")
        case GiveUpMerge(_, settle):
            return await actions.abort(agent, by, settle=settle)
        case TakeBackMerge(_, commit):
            return await actions.take_back(agent, by, commit)


async def merge_order(
    registry: WorktreeRegistry, protocol: AdvisoryProtocol | None, store: Store
) -> list[str]:
    """The agents in the order in which their branches are best merged, as every interface shows it. `protocol`: knows
    whom an agent has the right of way over, and what people decided; None = nobody does."""
    return [str(step["agent"]) for step in (await rows_of(registry, protocol, store))[1]]


async def rows_of(
    registry: WorktreeRegistry, protocol: AdvisoryProtocol | None, store: Store
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """As `rows`, by what the protocol and the verifications know."""

    async def verified(trees: Mapping[str, str]) -> dict[str, dict[str, Any]] | None:
        try:
            found = await store.read(lambda tx: present.of_work(tx, trees))
        except (StoreError, store.transient, store.errors):
            return None  # what git knows is told while the database is away
        return {agent: standing.as_json() for agent, standing in found.items()}

    if protocol is None:
        return await rows(registry, verified=verified)
    yields = protocol.behind
    return await rows(registry, lambda agent, other: agent in yields(other), protocol.decided(), verified)

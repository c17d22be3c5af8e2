"""The worktrees as every door asks for them: HTTP, and the command without a room.

Invariants: what git cannot do is a Refusal with git's reason; nothing is changed while the room's database cannot
take a record of it: then what the store raised comes out, as of every other call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from relay.airspace.worktrees.merge import MergeOptions
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.turns import WorktreeActions
from relay.airspace.worktrees.view import difference, rows
from relay.git.run import GitError
from relay.model import Refusal


class WorktreesDoor:
    """One room's worktrees. `recordable` raises while nothing can be recorded; `polling` says why changes are
    polled for, empty when they are told; `behind` whom an agent has the right of way over; `decided` of whom a person
    said that it goes first."""

    def __init__(
        self,
        registry: WorktreeRegistry,
        ground: WorktreeActions,
        recordable: Callable[[], Awaitable[None]],
        polling: Callable[[], str] = lambda: "",
        behind: Callable[[str], Collection[str]] = lambda agent: (),
        decided: Callable[[], Collection[str]] = lambda: (),
    ) -> None:
        self._registry, self._ground, self._polling = registry, ground, polling
        self._recordable, self._behind, self._decided = recordable, behind, decided

    async def state(self) -> dict[str, Any]:
        found, order = await rows(
            self._registry, lambda one, other: one in self._behind(other), self._decided()
        )
        return {
            "worktrees": found,
            "order": order,
            "trouble": self._registry.trouble or self._registry.no_main,
            "troubles": {**self._registry.troubles, **self._unread()},
            "polling": self._polling(),
        }

    def _unread(self) -> dict[str, str]:
        return {
            name: worktree.trouble for name, worktree in self._registry.worktrees.items() if worktree.trouble
        }

    def has(self, agent: str) -> bool:
        return self._registry.find(agent) is not None

    async def diff(self, agent: str) -> dict[str, Any] | None:
        try:
            return await difference(self._registry, agent)
        except GitError as error:
            raise Refusal(f"git could not show it: {error}.") from error

    async def propose(self, agent: str, by: str, squash: bool) -> dict[str, Any]:
        await self._recordable()
        return await self._ground.propose(agent, by, MergeOptions(squash=squash))

    async def merge(
        self, agent: str, by: str, *, squash: bool = False, text: str = "", head: str = ""
    ) -> dict[str, Any]:
        await self._recordable()
        return await self._ground.merge(agent, by, MergeOptions(squash, text, head))

    async def discard(self, agent: str, by: str) -> dict[str, Any]:
        await self._recordable()
        return await self._ground.discard(agent, by)

    async def restore(self, agent: str, by: str, ref: str) -> dict[str, Any]:
        await self._recordable()
        return await self._ground.restore(agent, by, ref)

    async def abort(self, agent: str, by: str) -> dict[str, Any]:
        await self._recordable()
        return await self._ground.abort(agent, by)

    async def remove(self, agent: str, by: str) -> dict[str, Any]:
        await self._recordable()
        return await self._ground.remove(agent, by)

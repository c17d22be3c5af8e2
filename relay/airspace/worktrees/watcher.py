"""Keeps the registry of worktrees up to date: follows file changes and refreshes it.

Invariant: while the watcher stands, only what it tells is looked at; when it cannot be had (no watches left, no
process), everything is looked at every `POLL_S` seconds, and `polling` says why.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import structlog

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.git.folder_watch import Watched, changes

log = structlog.get_logger(__name__)
#: Seconds between two looks at everything when changes cannot be told.
POLL_S = 10.0
#: Seconds until a watcher that failed is tried again.
AGAIN_S = 60.0
#: Seconds that changes are gathered before they are looked at: an agent that writes ten files writes them together.
GATHER_S = 0.05


class WorktreeWatcher:
    """Follows the worktrees of one registry for ever."""

    def __init__(self, registry: WorktreeRegistry, *, poll_s: float = POLL_S) -> None:
        self._registry, self._poll_s = registry, poll_s
        #: Why everything is polled; empty while the watcher stands.
        self.polling = ""
        #: Told what changed in the main checkout: paths below its top, None for anything.
        self.code: list[Callable[[frozenset[str] | None], None]] = []
        #: Told of each change in an agent's worktree: its name, and the paths below its top, None for anything.
        self.trees: list[Callable[[str, frozenset[str] | None], None]] = []
        #: Set while the watches stand.
        self.watching = asyncio.Event()

    async def run(self) -> None:
        """Open the registry and follow what changes."""
        registry = self._registry
        await registry.open()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_for_ever(), name="worktrees-follow")
            while True:
                await registry.wake.wait()
                registry.wake.clear()
                await asyncio.sleep(GATHER_S)
                await registry.refresh()

    async def _follow_for_ever(self) -> None:
        registry = self._registry
        while True:
            registry.folders_changed.clear()
            if not registry.worktrees:
                await registry.folders_changed.wait()
                continue
            following = asyncio.create_task(self._follow(), name="worktrees-watch")
            moved = asyncio.create_task(registry.folders_changed.wait(), name="worktrees-moved")
            try:
                await asyncio.wait([following, moved], return_when=asyncio.FIRST_COMPLETED)
                if following.done() and (error := following.exception()) is not None:
                    self.polling = str(error)
                    log.warning("worktrees are polled", every_s=self._poll_s, reason=self.polling)
                    await self._poll()
            finally:
                self.watching.clear()
                following.cancel()
                moved.cancel()
                await asyncio.gather(following, moved, return_exceptions=True)

    async def _poll(self) -> None:
        """Look at everything now and then, until the watcher is worth another try."""
        until = time.monotonic() + AGAIN_S
        while time.monotonic() < until and not self._registry.folders_changed.is_set():
            self._all_stale()
            self._tell_code(None)
            await asyncio.sleep(self._poll_s)

    def _all_stale(self) -> None:
        for worktree in self._registry.worktrees.values():
            worktree.mark_stale(None)
            self._tell_tree(worktree.name, None)
        self._registry.wake.set()

    def _tell_tree(self, name: str, paths: frozenset[str] | None) -> None:
        for told in self.trees:
            told(name, paths)

    def _tell_code(self, paths: frozenset[str] | None) -> None:
        for told in self.code:
            told(paths)

    async def _follow(self) -> None:
        watched = await asyncio.to_thread(self._watched)
        async with aclosing(changes(watched)) as batches:
            async for batch in batches:
                if not batch:
                    self._tell_code(None)
                    # The watches stand: what changed before them is found by a look at all.
                    self.polling = ""
                    self.watching.set()
                    self._all_stale()
                for key, paths in batch.items():
                    kind, _, name = key.partition(":")
                    if kind == "code":
                        self._tell_code(paths)
                    worktree = self._registry.worktrees.get(name)
                    if worktree is not None:
                        worktree.mark_stale(paths if kind == "tree" else None)
                        if kind == "tree":
                            self._tell_tree(name, paths)
                self._registry.wake.set()

    def _watched(self) -> Watched:
        registry = self._registry
        worktrees = [worktree for worktree in registry.worktrees.values() if worktree.checkout.top.is_dir()]
        gits = {f"git:{worktree.name}": worktree.checkout.git_dir.resolve() for worktree in worktrees}
        refs: dict[str, Path] = {}
        if registry.main is not None:
            gits["main:"] = registry.main.common.resolve()
            gits["head:"] = registry.main.git_dir.resolve()
            refs["refs:"] = (registry.main.common / "refs").resolve()
        trees = {f"tree:{worktree.name}": worktree.checkout.top.resolve() for worktree in worktrees}
        if self.code and registry.main is not None:
            trees["code:"] = registry.main.top.resolve()
        return Watched(trees, refs, gits, (registry.settings.runtime_dir.resolve(),))

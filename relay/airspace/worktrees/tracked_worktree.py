"""One tracked checkout: its last snapshot, and the paths that changed since.

Invariant: only the holder of `lock` takes a snapshot or writes. A path that changes while a snapshot is taken is read
again by the next one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from relay.airspace.worktrees.survey import Work
from relay.git.checkout import Checkout
from relay.git.run import GitError
from relay.git.snapshot import Snapshot, Snapshotter


class WorktreeGone(Exception):
    """The folder of the checkout is gone."""


@dataclass(slots=True)
class TrackedWorktree:
    """`named`: the path that it was asked for by. `own`: relay made this worktree, and may write in it; then
    `branch` is the one that it was made for, else empty."""

    name: str
    named: Path
    checkout: Checkout
    snapshotter: Snapshotter
    own: bool
    branch: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    snapshot: Snapshot | None = None
    work: Work | None = None
    stale: set[bytes] = field(default_factory=set)
    all_stale: bool = True
    first_seen: dict[bytes, float] = field(default_factory=dict)
    trouble: str = ""

    async def is_there(self) -> bool:
        return await asyncio.to_thread(self.checkout.top.is_dir)

    def mark_stale(self, paths: Iterable[str] | None) -> None:
        """These paths changed; None: anything may have."""
        if paths is None:
            self.all_stale = True
        else:
            self.stale.update(os.fsencode(path) for path in paths)

    async def take_snapshot(self, everything: bool = False) -> Snapshot:
        """The checkout as it stands now. Raises GitError, WorktreeGone."""
        if not await self.is_there():
            raise WorktreeGone
        stale, whole = self.stale, everything or self.all_stale or self.snapshot is None
        self.stale, self.all_stale = set(), False
        try:
            if whole:
                self.snapshot = await self.snapshotter.take()
            elif stale:
                self.snapshot = await self.snapshotter.update(stale)
        except GitError:
            self.all_stale = True
            raise
        assert self.snapshot is not None
        return self.snapshot

"""One checkout in the hangar: what was seen of it last, and what has changed since.

Invariant: only the holder of `lock` looks or writes. What was told as changed while a look was under way is
looked at again.
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
from relay.git.snapshot import Camera, Snapshot


class Lost(Exception):
    """The folder of the checkout is gone."""


@dataclass(slots=True)
class Berth:
    """`named`: the path that it was asked for by. `own`: relay made this worktree, and may write in it."""

    name: str
    named: Path
    checkout: Checkout
    camera: Camera
    own: bool
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    seen: Snapshot | None = None
    work: Work | None = None
    stale: set[bytes] = field(default_factory=set)
    all_stale: bool = True
    first_seen: dict[bytes, float] = field(default_factory=dict)
    trouble: str = ""

    async def is_there(self) -> bool:
        return await asyncio.to_thread(self.checkout.top.is_dir)

    def touched(self, paths: Iterable[str] | None) -> None:
        """These paths changed; None: anything may have."""
        if paths is None:
            self.all_stale = True
        else:
            self.stale.update(os.fsencode(path) for path in paths)

    async def look(self, everything: bool = False) -> Snapshot:
        """The checkout as it stands now. Raises GitError, Lost."""
        if not await self.is_there():
            raise Lost
        stale, whole = self.stale, everything or self.all_stale or self.seen is None
        self.stale, self.all_stale = set(), False
        try:
            if whole:
                self.seen = await self.camera.take()
            elif stale:
                self.seen = await self.camera.update(stale)
        except GitError:
            self.all_stale = True
            raise
        assert self.seen is not None
        return self.seen

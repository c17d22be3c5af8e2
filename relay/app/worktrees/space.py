"""What the worktrees take of the disk, and whether another one may be made.

Invariant: nothing is deleted here. What could be removed is only named: a worktree whose work is on the main branch,
and in which nobody is at work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.worktrees.disk import DiskUse, measure, megabytes
from relay.config.command_line import command
from relay.config.settings import LiveSettings
from relay.git.checkout import UnusableCheckout

#: Seconds after which a size is measured again: of a worktree in which something was done, and of any.
SOON_S, LATER_S = 60.0, 900.0
#: Worktrees that are named as what could be removed.
MOST_NAMED = 5


class WorktreeSpace:
    """Of the worktrees that relay made. `busy`: does an app or a command run in an agent's worktree?"""

    def __init__(
        self, settings: LiveSettings, registry: WorktreeRegistry, busy: Callable[[str], bool]
    ) -> None:
        self._settings, self._registry, self._busy = settings, registry, busy
        self._sizes: dict[str, DiskUse] = {}
        self._touched: set[str] = set()
        self._measuring = asyncio.Lock()

    def touch(self, agent: str) -> None:
        """Something was done in an agent's worktree: its size is measured again soon."""
        self._touched.add(agent)

    def forget(self, agent: str) -> None:
        """An agent's worktree is another one by now: its size is measured with the next look."""
        self._sizes.pop(agent, None)

    def size(self, agent: str) -> DiskUse | None:
        """What an agent's own worktree takes; None = it was not measured yet."""
        return self._sizes.get(agent)

    @property
    def cap(self) -> int | None:
        """Bytes above which no worktree is made; None = any."""
        cap = self._settings.current.worktrees.disk_cap_mb
        return None if cap is None else cap * 1_000_000

    @property
    def total(self) -> int:
        return sum(size.bytes for size in self._sizes.values())

    @property
    def full(self) -> bool:
        return self.cap is not None and self.total > self.cap

    def removable(self) -> list[str]:
        """The agents whose worktrees could be removed and nothing would be lost, the largest first."""
        names = []
        for name, worktree in self._registry.worktrees.items():
            work = worktree.work
            landed = work is not None and not work.records and not work.snapshot.dirty
            if worktree.own and landed and name not in self._registry.turn_trees and not self._busy(name):
                names.append(name)
        return sorted(names, key=lambda name: -(size.bytes if (size := self.size(name)) else 0))

    def as_json(self) -> dict[str, Any]:
        """`{bytes, cap, full, removable}`."""
        return {"bytes": self.total, "cap": self.cap, "full": self.full, "removable": self.removable()}

    async def measure(self, older_s: float = LATER_S) -> bool:
        """Measure what is to be measured now, one after the other; True when a size is another one. `older_s`:
        seconds after which a size is measured again."""
        changed = False
        async with self._measuring:
            own = await asyncio.to_thread(self._own)
            for name in self._sizes.keys() - own.keys():
                del self._sizes[name]
            for name, folder in own.items():
                before = self._sizes.get(name)
                age = time.time() - before.at if before is not None else None
                due = SOON_S if name in self._touched else older_s
                if age is not None and 0 <= age < due:
                    continue
                self._touched.discard(name)
                found = self._sizes[name] = await asyncio.to_thread(measure, folder)
                changed |= before is None or before.bytes != found.bytes
        return changed

    async def check(self, agent: str) -> None:
        """Raise UnusableCheckout where no worktree may be made for an agent."""
        if self.cap is None:
            return
        await self.measure(SOON_S)
        if self.full:
            raise UnusableCheckout(f"no worktree is made for {agent}: {self._reached()}")

    def _reached(self) -> str:
        allowed = megabytes(self.cap or 0)
        return f"the worktrees take {megabytes(self.total)}, and `worktrees.disk_cap_mb` allows {allowed}"

    def said(self) -> str:
        """How full it is, and what could be removed, once all were looked at; without a full stop."""
        text, names = self._reached(), self.removable()
        if not names:
            return f"{text}. None is landed and idle: land or discard work, or raise the limit"
        first = command(f"worktrees remove {names[0]}")
        shown = ", ".join(
            f"{name} ({megabytes(size.bytes)})" if (size := self.size(name)) else name
            for name in names[:MOST_NAMED]
        )
        return f"{text}. Landed and idle: {shown}. {first} removes one"

    def _own(self) -> dict[str, Path]:
        """The folders of all that relay made, by agent: as the disk has them, also while a start looks for them."""
        with suppress(OSError):
            return {
                each.name.upper(): each
                for each in self._settings.current.worktrees_dir.iterdir()
                if each.is_dir() and not each.is_symlink()
            }
        return {}

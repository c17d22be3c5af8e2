"""Locks in memory, to be asked which of them meets a target: many questions for one look into the table.

Invariant: what is found is what `lock_table.meeting` finds among the same locks, whatever the target is.

Pure. (docs/coordination.md, "Work": a task whose files are held is passed over.)
"""

from __future__ import annotations

from collections.abc import Iterable

from relay.coordination.locks.lock import Lock
from relay.coordination.paths.targets import Target, above


class Standing:
    """The locks that stand in somebody's way, whatever their mode: what is asked for is wanted exclusively."""

    def __init__(self, locks: Iterable[Lock]) -> None:
        self._all = sorted(locks, key=lambda lock: -lock.expires_at)
        self._on: dict[tuple[str, str], Lock] = {}
        self._below: dict[str, Lock] = {}
        self._globs = [lock for lock in self._all if lock.target.kind == "glob"]
        self._found: dict[Target, Lock | None] = {}
        for lock in self._all:
            self._on.setdefault((lock.target.kind, lock.target.key), lock)
            if lock.target.kind == "path":
                for folder in above(lock.target.key)[:-1]:
                    self._below.setdefault(folder, lock)

    def first(self, target: Target) -> Lock | None:
        """The one that lasts longest of those that meet it, None when none does."""
        if target not in self._found:
            met = [lock for lock in self._near(target) if lock is not None]
            self._found[target] = max(met, key=lambda lock: lock.expires_at, default=None)
        return self._found[target]

    def _near(self, target: Target) -> list[Lock | None]:
        if target.kind == "key":
            return [self._on.get(("key", target.key))]
        if target.kind == "glob":
            return [next((one for one in self._all if one.target.meets(target.kind, target.key)), None)]
        names = above(target.key)
        globs = (one for one in self._globs if one.target.meets(target.kind, target.key))
        return [
            *(self._on.get(("path", name)) for name in names),
            self._below.get(target.key),
            next(globs, None),
        ]

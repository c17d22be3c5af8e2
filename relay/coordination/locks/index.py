"""Locks in memory, to be asked about many paths after one read of the table.

Invariant: `meeting` finds what `table.meeting` finds among the same locks, whatever the target is.

Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from relay.coordination.locks.lock import Lock
from relay.coordination.paths.targets import Target, above


def longest(locks: Iterable[Lock]) -> Lock | None:
    """The lock that lasts longest, and among equals the older one; None when there is none."""
    return max(locks, key=lambda lock: (lock.expires_at, -lock.token), default=None)


class LockIndex:
    """Which of these locks meet a target, and which are about a file, whatever their mode."""

    def __init__(self, locks: Iterable[Lock]) -> None:
        self._all = list(locks)
        self._on: dict[tuple[str, str], list[Lock]] = defaultdict(list)
        self._below: dict[str, list[Lock]] = defaultdict(list)
        self._globs: dict[str, list[Lock]] = defaultdict(list)
        self._longest: dict[Target, Lock | None] = {}
        for lock in self._all:
            target = lock.target
            self._on[target.kind, target.key].append(lock)
            if target.kind == "glob":
                self._globs[target.base or ""].append(lock)
            elif target.kind == "path":
                for folder in above(target.key)[:-1]:
                    self._below[folder].append(lock)

    def meeting(self, target: Target) -> list[Lock]:
        """All that stand in the way of a lock on the target."""
        if target.kind == "key":
            return self._on.get(("key", target.key), [])
        if target.kind == "glob":
            return [lock for lock in self._all if lock.target.meets(target.kind, target.key)]
        globs = (lock for locks in self._globs.values() for lock in locks)
        return [
            *self._by_path(target.key),
            *(lock for lock in globs if lock.target.meets("path", target.key)),
        ]

    def longest_meeting(self, target: Target) -> Lock | None:
        """The one of those that lasts longest. An answer is kept: a search asks about the same files again."""
        if target not in self._longest:
            self._longest[target] = longest(self.meeting(target))
        return self._longest[target]

    def concerning(self, target: Target) -> Sequence[Lock]:
        """All that are about this file (`Lock.concerns`); of a pattern or a key all that meet it."""
        if target.kind != "path" or not self._all:
            return self.meeting(target) if self._all else ()
        # A pattern stands for nothing outside of its base.
        near = (lock for base in ("", *above(target.key)) for lock in self._globs.get(base, ()))
        return [*self._by_path(target.key), *(lock for lock in near if lock.concerns(target))]

    def _by_path(self, key: str) -> Iterator[Lock]:
        for name in above(key):
            yield from self._on.get(("path", name), ())
        yield from self._below.get(key, ())

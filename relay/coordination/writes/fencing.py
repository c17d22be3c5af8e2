"""May this file be written now? What a hook, git and a changeset ask before a write is let through.

Invariants:
- a write is refused where another holds what meets the file, shared or not: shared is for reading;
- it is refused where the writer's own lease on what meets the file is over and it holds none on it now: it slept, and
  does not know what was written meanwhile;
- who never asked for a lock may write what nobody holds.

Pure; `relay.coordination.writes.lock_check` asks the store. (Issue 3, "Locks": the fencing token is demanded where
a write happens.)
"""

from __future__ import annotations

from collections.abc import Sequence

from relay.coordination.locks.lock import Lock, Verdict
from relay.coordination.paths.patterns import stands_for
from relay.coordination.paths.targets import Target


def concerns(lock: Lock, file: Target) -> bool:
    """Is the lock about this file? A path may be a folder, and meets patterns of what is below; a file is none. What
    is no path meets as locks do."""
    if lock.target.kind == "glob" and file.kind == "path":
        return stands_for(lock.target.key, file.key)
    return file.meets(lock.target.kind, lock.target.key)


def decide(path: str, other: Lock | None, mine: Sequence[Lock], living: Sequence[Lock]) -> Verdict:
    """Each of what concerns the file: `other`: one of another holder that lives; `mine`: the rows of the writer;
    `living`: those of them that hold."""
    if other is not None:
        return Verdict(path, "locked", other)
    if living or not mine:
        return Verdict(path, "ok")
    return Verdict(path, "stale", max(mine, key=lambda lock: lock.token))

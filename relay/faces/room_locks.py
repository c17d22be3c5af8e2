"""The locks and sessions of agents, for the room's state, its `/locks` and a person's `/unlock`
(`relay.model.Holds`).

Invariant: everything runs in the caller's transaction, so that a forced release commits with the command that asked
for it and with the room's answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relay.coordination import sessions
from relay.coordination.locks import table, wait_line
from relay.coordination.locks.lock import Lock, Wait
from relay.coordination.paths.links import followed
from relay.coordination.paths.targets import Target, target
from relay.model import Fault, Refusal
from relay.model.actions import ForceRelease
from relay.room.steward.answers import near
from relay.store.ports import Tx

Json = dict[str, Any]
#: Locks that a refusal names.
MOST_NAMED = 5


class RoomHolds:
    """`fold`: the repository's file system folds case; `root`: the top of its main checkout, None = unknown."""

    def __init__(self, *, fold: bool = False, root: Path | None = None) -> None:
        self._fold, self._root = fold, root

    def _target(self, path: str) -> Target:
        return target(path if self._root is None else followed(path, self._root), self._fold)

    async def locks(self, tx: Tx) -> Sequence[Json]:
        """LOCK of each that holds now, the oldest first, with `waiting`: who stands in line for what meets it."""
        line = await wait_line.line(tx)
        locks = sorted(await table.living(tx), key=lambda lock: (lock.acquired_at, lock.path))
        return [
            {**lock.as_json(), "waiting": [_waiter(wait) for wait in line if _wants(wait, lock)]}
            for lock in locks
        ]

    async def meeting(self, tx: Tx, path: str) -> Sequence[Json]:
        """LOCK of each that meets `path` now, as `relay locks show` has them. Raises Refusal."""
        return [lock.as_json() for lock in await table.meeting(tx, self._target(path))]

    async def sessions(self, tx: Tx) -> Sequence[Json]:
        """SESSION of each that lives now, the latest first."""
        now = await tx.now()
        rows = await tx.all(sessions.Q.living_sessions, now=now)
        return [sessions.with_counts(row, now) for row in rows]

    async def force_release(
        self, tx: Tx, action: ForceRelease, *, by: str, cause: Sequence[str] = ()
    ) -> Sequence[Json]:
        """Take exactly this from whoever holds it; the LOCKs as they were. Raises Refusal."""
        meant = self._target(action.path)
        taken, met = await table.force_release(tx, action, meant, by=by, cause=cause)
        if not taken:
            raise await _not_held(tx, meant, met)
        return [lock.as_json() for lock in taken]


def _wants(wait: Wait, lock: Lock) -> bool:
    """Does this wait stand before that lock?"""
    if wait.holder == lock.holder or (wait.mode == lock.mode == "shared"):
        return False
    return any(wanted.meets(lock.target.kind, lock.target.key) for wanted in wait.wanted)


def _waiter(wait: Wait) -> Json:
    fields = wait.as_json()
    return {name: fields[name] for name in ("agent", "session", "since", "until")}


async def _not_held(tx: Tx, meant: Target, met: Sequence[Lock]) -> Refusal:
    """Nobody holds exactly this: what meets it, else what stands near it."""
    others = met or [lock for lock in await table.living(tx) if near(meant.path, lock.path)]
    named = [f"`{lock.path}` ({lock.agent})" for lock in others[:MOST_NAMED]]
    more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
    where = "What meets it" if met else "Near it"
    fix = f"{where}: {', '.join(named)}{more}." if named else "`/locks` shows the locks."
    return Refusal(f"Nobody holds a lock on exactly `{meant.path}`.", fix, Fault.REFUSED, "not_held")

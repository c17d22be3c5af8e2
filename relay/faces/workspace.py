"""The files that somebody touched, as every interface shows them (003, section 2.4)."""

from __future__ import annotations

from typing import Any

from relay.coordination.locks.service import Locks
from relay.store.ports import Tx
from relay.timeline import reading


async def workspace(tx: Tx, locks: Locks, path: str = "") -> list[dict[str, Any]]:
    """`reading.workspace` with each file's `lock`: the LOCK that covers it now, null where none does."""
    files = await reading.workspace(tx, path)
    covered = await locks.covering(tx, [file["path"] for file in files])
    return [{**file, "lock": covered.get(file["path"])} for file in files]

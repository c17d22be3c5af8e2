"""Small stand-ins for what the queue is built with, where a test is not about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from relay.log.store import Tx
from relay.model import Caller


class Beats:
    """A heartbeat that notes who called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def fresh(self, tx: Tx, caller: Caller) -> None:
        return None

    async def touch(self, tx: Tx, caller: Caller) -> str:
        self.calls.append(caller.agent)
        return caller.session

    async def promise(self, tx: Tx, caller: Caller, session: Any, until: float) -> None:
        self.calls.append(f"{caller.agent} until {until:g}")


@dataclass
class Told:
    answer: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return self.answer


@dataclass
class PathLocks:
    """Locks of exact paths, in memory: who holds which, for which task."""

    held: dict[str, tuple[str, str | None]] = field(default_factory=dict)

    def targets(self, paths: Sequence[str]) -> Sequence[str]:
        return paths

    async def acquire_in(
        self, tx: Tx, caller: Caller, wanted: Any, mode: str = "", ttl_s: float = 0.0,
        reason: str | None = None, task_id: str | None = None,
    ) -> Told:  # fmt: skip
        for path in wanted:
            holder = self.held.get(path, (caller.agent, None))[0]
            if holder != caller.agent:
                return Told({"success": False, "file_path": path, "locked_by": holder, "expires_at": "later"})
        self.held |= {path: (caller.agent, task_id) for path in wanted}
        return Told({"success": True})

    async def release_of_task(self, tx: Tx, task_id: str, *, by: str, reason: str | None = None) -> None:
        self.held = {path: held for path, held in self.held.items() if held[1] != task_id}

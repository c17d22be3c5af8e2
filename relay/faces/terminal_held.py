"""The locks that hold, as a terminal counts them: what is told, less what is over by the time it says itself.

Pure but for its own state; `now` is Unix time in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Key = tuple[str, str, str]


@dataclass(slots=True)
class HeldLocks:
    """Locks by path, holder and session, each with the time of its end. What is no lock is passed over."""

    until: dict[Key, float] = field(default_factory=dict)

    def anew(self, locks: list[dict[str, Any]]) -> None:
        """These are all."""
        self.until = {_key(lock): _end(lock) for lock in locks}

    def change(self, data: dict[str, Any]) -> None:
        """A `lock` frame."""
        lock = data.get("lock")
        if not isinstance(lock, dict):
            return
        if data.get("change") in ("released", "forced"):
            self.until.pop(_key(lock), None)
        else:
            self.until[_key(lock)] = _end(lock)

    def session(self, data: dict[str, Any]) -> None:
        """A `session` frame: what an ended one held is free."""
        session = data.get("session")
        if isinstance(session, dict) and data.get("change") == "ended":
            whose = (str(session.get("agent_id")), str(session.get("session_id")))
            self.until = {key: end for key, end in self.until.items() if key[1:] != whose}

    def count(self, now: float) -> int:
        return sum(end > now for end in self.until.values())


def _key(lock: dict[str, Any]) -> Key:
    return str(lock.get("file_path")), str(lock.get("locked_by")), str(lock.get("session"))


def _end(lock: dict[str, Any]) -> float:
    try:
        return datetime.fromisoformat(str(lock.get("expires_at"))).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0

"""The locks that hold, and who is here, as a terminal counts them: what is told, less what is over by its own time.

Pure but for its own state; `now` is Unix time in seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from relay.base.durations import parse_iso
from relay.room.journal.visitors import Visitor, visitors

Key = tuple[str, str, str]


@dataclass(slots=True)
class HeldLocks:
    """Locks by path, holder and session, each with the time of its end; living sessions by agent and id. What is
    neither is passed over."""

    until: dict[Key, float] = field(default_factory=dict)
    sessions: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def anew(self, locks: list[dict[str, Any]], sessions: Iterable[dict[str, Any]] = ()) -> None:
        """These are all."""
        self.until = {_key(lock): _end(lock) for lock in locks}
        self.sessions = {_whose(session): session for session in sessions}

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
        if not isinstance(session, dict):
            return
        whose = _whose(session)
        if data.get("change") != "ended":
            self.sessions[whose] = session
            return
        self.sessions.pop(whose, None)
        self.until = {key: end for key, end in self.until.items() if key[1:] != whose}

    def visitors(self, own: Iterable[str]) -> tuple[Visitor, ...]:
        """Agents that somebody runs beside the room's `own`, with the locks that are told."""
        counts = Counter((holder, session) for _, holder, session in self.until)
        return visitors([{**one, "locks": counts[whose]} for whose, one in self.sessions.items()], own)

    def count(self, now: float) -> int:
        return sum(end > now for end in self.until.values())


def _whose(session: dict[str, Any]) -> tuple[str, str]:
    return str(session.get("agent_id")), str(session.get("session_id"))


def _key(lock: dict[str, Any]) -> Key:
    return str(lock.get("file_path")), str(lock.get("locked_by")), str(lock.get("session"))


def _end(lock: dict[str, Any]) -> float:
    try:
        return parse_iso(str(lock.get("expires_at")))
    except (ValueError, OverflowError, OSError):
        return 0.0

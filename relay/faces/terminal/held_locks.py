"""The locks that hold and the sessions that live, as a terminal counts them from frames. A lock counts until its end.

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
    """`until`: the end of each lock, by path, holder and session. `sessions`: the living ones, by agent and id.
    Malformed values are ignored."""

    until: dict[Key, float] = field(default_factory=dict)
    sessions: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def anew(self, locks: list[dict[str, Any]], sessions: Iterable[dict[str, Any]] = ()) -> None:
        """Replace all locks and sessions."""
        self.until = {_key(lock): _end(lock) for lock in locks}
        self.sessions = {_whose(session): session for session in sessions}

    def change(self, data: dict[str, Any]) -> None:
        """Apply a `lock` frame."""
        lock = data.get("lock")
        if not isinstance(lock, dict):
            return
        if data.get("change") in ("released", "forced"):
            self.until.pop(_key(lock), None)
        else:
            self.until[_key(lock)] = _end(lock)

    def session(self, data: dict[str, Any]) -> None:
        """Apply a `session` frame. The locks of an ended session are free."""
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
        """The agents that run beside the room's `own` ones, with the number of their locks."""
        counts = Counter((holder, session) for _, holder, session in self.until)
        return visitors(
            [{**session, "locks": counts[whose]} for whose, session in self.sessions.items()], own
        )

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

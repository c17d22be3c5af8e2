"""How long does the room wait before a cycle, so that a person can finish typing?

Invariant: the busier the room, the shorter the wait (002, section 2). Pure.
"""

from __future__ import annotations

BUSY_S = 0.5
MEDIUM_S = 1.0
QUIET_S = 2.0


def delay_s(
    entries_last_minute: int,
    busy: int = 5,
    medium: int = 3,
    *,
    busy_s: float = BUSY_S,
    medium_s: float = MEDIUM_S,
    quiet_s: float = QUIET_S,
) -> float:
    """Seconds to wait: 0.5 from `busy` entries in the last minute on, 1.0 from `medium` on, else 2.0."""
    if entries_last_minute >= busy:
        return busy_s
    return medium_s if entries_last_minute >= medium else quiet_s

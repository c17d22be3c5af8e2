"""What admitting a message depends on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """The agents' names, the size limit, the bounds and delays of the debounce, and the hop limit.

    A cycle waits so that a person can finish typing: the busier the room, the shorter (002, section 2).
    """

    agents: tuple[str, ...] = ()
    max_entry_bytes: int = 4 << 20
    busy: int = 5
    medium: int = 3
    busy_s: float = 0.5
    medium_s: float = 1.0
    quiet_s: float = 2.0
    hop_limit: int = 4
    agent_mentions: bool = False

    def delay_s(self, entries_last_minute: int) -> float:
        """Seconds to wait before a cycle: `busy_s` from `busy` entries on, `medium_s` from `medium` on."""
        if entries_last_minute >= self.busy:
            return self.busy_s
        return self.medium_s if entries_last_minute >= self.medium else self.quiet_s

"""The names that are the room's own, and what a key or a task may say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

STEWARD = "RELAY"
DISPATCHER = "DISPATCHER"
#: Names nobody may post under; the names of the configured agents come on top.
RESERVED_NAMES = frozenset({STEWARD, DISPATCHER, "ALL"})
#: What a key may allow: to read, to hold locks, to take and end work, to remember, to speak in the room; `admin` is
#: an operator's: keys, others' sessions; with a person's key, forced release too.
SCOPES = frozenset({"read", "locks", "work", "memory", "room"})
ADMIN = "admin"
#: Types of events whose content belongs to one session: no other agent reads it, and it leaves the room with none.
PRIVATE_EVENTS = frozenset({"working.stored", "working.compressed"})
#: The first and the last event on the lane of a helper that an agent started (relay.room.dispatch.helpers).
HELPER_STARTED, HELPER_ENDED = "helper.started", "helper.ended"
#: Longest client_id of a message, in characters.
MAX_CLIENT_ID = 128
#: Where a task of the board can stand.
TASK_STATUSES = ("pending", "in_progress", "done")


@dataclass(frozen=True, slots=True)
class Program:
    """An agent's program that relay knows (`relay.agents.programs`): what people call it, and the commands that
    install it and sign in."""

    title: str
    install: str
    sign_in: str


def listed(names: Sequence[str]) -> str:
    """`A, B and C`; there is one at least."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last

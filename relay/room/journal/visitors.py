"""Who works in the room without being run by it: agents that people started themselves, known by their sessions.

Invariant: a visitor is the name of a living session, no person's and no agent's of the configuration. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay.model import RESERVED_NAMES, references
from relay.model.speaker_names import skeleton


@dataclass(frozen=True, slots=True)
class Visitor:
    """`kind` is what it says that it is; `heard_at` (ISO 8601) its last call; the counts are of all its sessions."""

    name: str
    kind: str
    heard_at: str
    locks: int = 0
    claims: int = 0

    def as_json(self) -> dict[str, Any]:
        """VISITOR (docs/coordination.md)."""
        told = {"name": self.name, "agent_type": self.kind, "heard_at": self.heard_at}
        return told | {"locks": self.locks, "claims": self.claims}

    @property
    def holds(self) -> str:
        """`2 locks, 1 task`, or nothing."""
        counts = ((self.locks, "lock"), (self.claims, "task"))
        return ", ".join(f"{count} {word}{'s' * (count != 1)}" for count, word in counts if count)


def visitors(sessions: Iterable[Mapping[str, Any]], own: Iterable[str]) -> tuple[Visitor, ...]:
    """Of these SESSIONs (docs/coordination.md), by name. `own`: the names of the room's agents."""
    taken = {skeleton(name) for name in (*own, *RESERVED_NAMES)}
    found: dict[str, Visitor] = {}
    for one in sessions:
        name = str(one.get("agent_id"))
        if not one.get("alive") or one.get("agent_type") == "person" or skeleton(name) in taken:
            continue
        seen = found.get(name, Visitor(name, "", ""))
        heard, kind = str(one.get("heartbeat_at")), str(one.get("agent_type") or "agent")
        latest = heard >= seen.heard_at
        found[name] = Visitor(
            name,
            kind if latest else seen.kind,
            heard if latest else seen.heard_at,
            seen.locks + _count(one.get("locks")),
            seen.claims + _count(one.get("claims")),
        )
    return tuple(found[name] for name in sorted(found, key=str.casefold))


def people(sessions: Iterable[Mapping[str, Any]], spoke: Iterable[str] = ()) -> tuple[str, ...]:
    """The persons of these SESSIONs, and those who `spoke` as persons, each once, by name."""
    living = [one for one in sessions if one.get("alive") and one.get("agent_type") == "person"]
    found = {name.casefold(): name for name in (*spoke, *(str(one.get("agent_id")) for one in living))}
    return tuple(found[name] for name in sorted(found))


def told_apart(names: Sequence[str], number: int) -> str:
    """What becomes of message `number` for visitors that it names, in sentences."""
    who, one = ", ".join(f"@{name}" for name in names), len(names) == 1
    return (
        f"{who} {'works on its own' if one else 'work on their own'}: the room does not start "
        f"{'it' if one else 'them'}. {'It reads' if one else 'They read'} {references.message(number)} with "
        f"{'its' if one else 'their'} next look at the room (`read_room`)."
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0

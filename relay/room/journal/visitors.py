"""Agents that people started themselves: they work in the room, are not run by it, and are known by their sessions.

Invariant: a visitor has a living session, and is neither a person nor an agent of the configuration. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay.model import RESERVED_NAMES, Fault, Refusal, references
from relay.model.speaker_names import posing_as, skeleton


@dataclass(frozen=True, slots=True)
class Visitor:
    """`kind`: the type that it gives of itself; `heard_at` (ISO 8601): its last call; `locks`, `claims`: how many all
    its sessions hold; `attached`: what is told of a person's own session that the room reaches by its program's hooks
    (docs/attach.md), None = it is none."""

    name: str
    kind: str
    heard_at: str
    locks: int = 0
    claims: int = 0
    attached: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """VISITOR (docs/coordination.md)."""
        who = {"name": self.name, "agent_type": self.kind, "heard_at": self.heard_at}
        return who | {"locks": self.locks, "claims": self.claims, "attached": self.attached}

    @property
    def holds(self) -> str:
        """What it holds, like `2 locks, 1 task`; empty when it holds nothing."""
        counts = ((self.locks, "lock"), (self.claims, "task"))
        return ", ".join(f"{count} {word}{'s' * (count != 1)}" for count, word in counts if count)

    @property
    def state(self) -> str:
        """What an attached session does, like `working on main, at src/cart.py`; empty for any other visitor."""
        if self.attached is None:
            return ""
        state = "waits for its person" if self.attached["state"] == "waiting" else str(self.attached["state"])
        branch, paths = self.attached["branch"], self.attached["paths"]
        return f"{state}{f' on {branch}' if branch else ''}{f', at {paths[-1]}' if paths else ''}"


def visitors(sessions: Iterable[Mapping[str, Any]], own: Iterable[str]) -> tuple[Visitor, ...]:
    """The visitors among the holders of these SESSIONs (docs/coordination.md), sorted by name. `own`: the names of
    the room's agents."""
    taken = {skeleton(name) for name in (*own, *RESERVED_NAMES)}
    by_name: dict[str, Visitor] = {}
    for session in sessions:
        name = str(session.get("agent_id"))
        if not session.get("alive") or session.get("agent_type") == "person" or skeleton(name) in taken:
            continue
        known = by_name.get(name, Visitor(name, "", ""))
        heard_at, kind = str(session.get("heartbeat_at")), str(session.get("agent_type") or "agent")
        is_latest = heard_at >= known.heard_at
        by_name[name] = Visitor(
            name,
            kind if is_latest else known.kind,
            heard_at if is_latest else known.heard_at,
            known.locks + _count(session.get("locks")),
            known.claims + _count(session.get("claims")),
            session.get("attached") or known.attached,
        )
    return tuple(by_name[name] for name in sorted(by_name, key=str.casefold))


def reached(present: Iterable[Visitor]) -> dict[str, str]:
    """Those of these that a message reaches by their program's hooks, and what each does."""
    return {visitor.name: str(visitor.attached["state"]) for visitor in present if visitor.attached}


def people(sessions: Iterable[Mapping[str, Any]], spoke: Iterable[str] = ()) -> tuple[str, ...]:
    """The persons of these SESSIONs, and those who `spoke` as persons, each once, sorted by name."""
    here = [
        str(session.get("agent_id"))
        for session in sessions
        if session.get("alive") and session.get("agent_type") == "person"
    ]
    names = {name.casefold(): name for name in (*spoke, *here)}
    return tuple(names[name] for name in sorted(names))


def refuse_posing(name: str, here: Iterable[str]) -> None:
    """Raises Refusal where `name` reads like another name of these."""
    if (other := posing_as(name, here)) is not None:
        raise Refusal(
            f"{name} reads like {other}, who is in this room.",
            "Choose a name that cannot be mistaken for theirs.",
            Fault.FORBIDDEN,
            "reserved",
        )


def told_waits(names: Sequence[str], number: int) -> str:
    """What message `number` does for attached sessions that do nothing now."""
    who, single = " and ".join(names), len(names) == 1
    return (
        f"{who} {'is' if single else 'are'} idle: {references.message(number)} waits for "
        f"{'its' if single else 'their'} next prompt."
    )


def told_apart(names: Sequence[str], number: int) -> str:
    """What message `number` does for the visitors that it names, in sentences."""
    who, single = ", ".join(f"@{name}" for name in names), len(names) == 1
    return (
        f"{who} {'works on its own' if single else 'work on their own'}: the room does not start "
        f"{'it' if single else 'them'}. {'It reads' if single else 'They read'} {references.message(number)} with "
        f"{'its' if single else 'their'} next look at the room (`read_room`)."
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0

"""What leaves the room: the lanes that `timeline.share` names, without the secrets that are in them.

Invariants:
- lanes are private unless they are named. Of a private event nothing leaves but a stub, and that only when a shared
  event has it as a cause: id, lane, seq and parents;
- a payload (`inputs`, `outputs`) in which something looks like a secret stays at home, as a whole. Masking a part of
  it would break the event's hash; instead its digest goes, which the hash is made of, so the event is checked as
  any other. Of a secret with little to guess a digest would tell something; most kinds have 100 bits and more
  (`relay.base.secret_text`), save passwords in addresses, whose digest covers the rest of the payload as well;
- what one session holds ready for itself (`PRIVATE_EVENTS`) stays at home in the same way;
- the other columns (branch, paths, role, source key) are hashed as they are. An event with a secret in one of them
  cannot leave, nor what comes behind it on its lane, since lanes have no gaps: the lane is held back from there on,
  and is named. Then it is private as others are;
- a text that only looks like a secret passes by its digest, which names that text alone (`SuspectText`);
- what has left cannot be called back: a name that is taken off the list stops what comes, and no more;
- a shared event's clock names the lanes that its author had seen, private ones among them, with how far. The clock is
  hashed, so it goes. The contents of its snapshot are looked through by `relay.timeline.sync.tree_secrets`.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from relay.base.secret_text import secrets_in
from relay.log.imported import ROOM

_PERSON = "human:"
#: What cannot be left out of an event, and what can.
OPEN = ("lane", "session", "type", "role", "branch", "file_touches", "source_key")
PAYLOADS = ("inputs", "outputs")


@dataclass(frozen=True, slots=True)
class Sharing:
    """Whose lanes leave the room. `names`: of agents and people, whatever their case. `secrets`: texts that are
    secrets though they do not look like one, such as the room's token; `not_secret`: the digests of texts that only
    look like one."""

    names: frozenset[str] = frozenset()
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    not_secret: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, names: Collection[str], secrets: Collection[str] = (), not_secret: Collection[str] = ()
    ) -> Sharing:
        named = frozenset(name.casefold().removeprefix(_PERSON) for name in names)
        return cls(named, frozenset(secrets), frozenset(not_secret))

    def has(self, session: str, lane: str) -> bool:
        """Does this lane leave? In the room's own session only those of people do: an agent's is its conversation."""
        name = lane.removeprefix(_PERSON)
        if session == ROOM and name == lane:
            return False
        return name.casefold() in self.names


@dataclass(frozen=True, slots=True)
class SuspectText:
    """A text that looks like a secret, by its `digest` ("": one that nothing lets pass). `where`: the path of a file
    of the event's snapshot, or the column of the event."""

    event: str
    where: str
    digest: str


def suspects(row: Mapping[str, Any], sharing: Sharing, columns: Iterable[str]) -> list[SuspectText]:
    """What looks like a secret in these columns of an event."""
    return [
        SuspectText(row["id"], name, digest)
        for name in columns
        if row[name] is not None
        for digest in dict.fromkeys(secrets_in(row[name], sharing.secrets, sharing.not_secret))
    ]

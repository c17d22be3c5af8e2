"""What leaves the room: the lanes that `timeline.share` names, without the secrets that are in them.

Invariants:
- lanes are private unless they are named. Of a private event nothing leaves but a stub, and that only when a shared
  event has it as a cause: id, lane, seq and parents;
- a payload (`inputs`, `outputs`) in which something looks like a secret stays at home, as a whole. Masking a part of
  it would break the event's hash; instead its digest goes, which the hash is made of, so the event is checked as
  any other. Of a secret with little to guess a digest would tell something; the kinds below have 100 bits and more,
  save passwords in addresses, whose digest covers the rest of the payload as well;
- the other columns (branch, paths, role, source key) are hashed as they are. An event with a secret in one of them
  cannot leave, nor what comes behind it on its lane, since lanes have no gaps: the lane is held back from there on,
  and is named. Then it is private as others are;
- what has left cannot be called back: a name that is taken off the list stops what comes, and no more;
- a shared event's clock names the lanes that its author had seen, private ones among them, with how far. The clock is
  hashed, so it goes. Contents of files are not looked through: a shared event's snapshot goes as it is.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from relay.log.imported import ROOM

_PERSON = "human:"
#: What looks like a secret: relay's own keys and sign-in links; keys and tokens of the usual services, which begin in
#: a way of their own; private keys; tokens of three parts (RFC 7519); a password in an address.
_SECRET = re.compile(
    r"rk_[0-9a-f]{16}_[A-Za-z0-9_-]{43}"
    r"|#link=[A-Za-z0-9_-]{43}"
    r"|\bsk-[A-Za-z0-9_-]{20,}"
    r"|\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,}|glpat-[A-Za-z0-9_-]{20,})"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{20,}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|\bAIza[A-Za-z0-9_-]{35}"
    r"|\b(?:sk|rk|pk)_live_[A-Za-z0-9]{20,}"
    r"|\b(?:npm_|hf_)[A-Za-z0-9]{30,}"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
    r"|[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'\\]{0,200}:[^\s/:@\"'\\]{1,200}@"
)
_OPEN = ("lane", "session", "type", "role", "branch", "file_touches", "source_key")
PAYLOADS = ("inputs", "outputs")


@dataclass(frozen=True, slots=True)
class Sharing:
    """Whose lanes leave the room. `names`: of agents and people, whatever their case."""

    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Collection[str]) -> Sharing:
        return cls(frozenset(name.casefold().removeprefix(_PERSON) for name in names))

    def has(self, session: str, lane: str) -> bool:
        """Does this lane leave? In the room's own session only those of people do: an agent's is its conversation."""
        name = lane.removeprefix(_PERSON)
        if session == ROOM and name == lane:
            return False
        return name.casefold() in self.names


def withheld(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The payloads of an event that stay at home."""
    return tuple(name for name in PAYLOADS if row[name] is not None and _SECRET.search(row[name]))


def tells_a_secret(row: Mapping[str, Any]) -> bool:
    """Is something like a secret in what cannot be left out of the event?"""
    return any(row[name] is not None and _SECRET.search(row[name]) for name in _OPEN)

"""Conflicts of levels 3 and 4 between two agents' work, found while both work (003, sections 6.1 to 6.3).

Invariants:
- a row and the event of its finding or its end are one transaction;
- one between the same two, of one kind on one definition, is found once, and again only after it was gone. What a
  later look says of it replaces what its row says, and is no event.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Lane, NewEvent
from relay.merge.conflicts.conflict import Conflict, Severity, Side
from relay.merge.resolution.journal import FOUND, RESOLVED, SETTLED
from relay.model import references
from relay.store.ports import Queries, Row, Tx

Q = Queries(Path(__file__).parent)
#: Open ones that are read.
MOST_OPEN = 10_000

#: Two agents, in the order of their names.
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of `merge_findings`. `pair`: whose sides the conflict's a and b are; `id`: of the conflict when it was
    found; `event`: of its finding, or of its end."""

    number: int
    id: str
    pair: Pair
    conflict: Conflict
    event: str
    at: str

    @property
    def key(self) -> tuple[Pair, int, str, str | None, str | None]:
        """What makes two findings the same."""
        return key_of(self.pair, self.conflict)

    @property
    def name(self) -> str:
        return references.conflict(self.number)

    def as_json(self) -> dict[str, Any]:
        """A conflict's value (docs/conflicts.md) with its number; the other fields are those of level 2."""
        return {
            **self.conflict.as_json(),
            "id": self.id,
            "number": self.number,
            "reference": self.name,
            "agents": list(self.pair),
            "lines": dict.fromkeys(("base", "a", "b")),
            "answers": [],
            "agent": None,
            "into": None,
            "ours_at": None,
            "theirs_at": None,
            "resolution": None,
            "at": self.at,
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Finding:
        """From the form of `as_json`, which has no event."""
        first, second = value["agents"]
        conflict = Conflict.of_json(value)
        return cls(value["number"], value["id"], (first, second), conflict, "", value["at"])


def key_of(pair: Pair, conflict: Conflict) -> tuple[Pair, int, str, str | None, str | None]:
    """What makes two findings the same: whose they are, and what they are about."""
    return pair, conflict.level, conflict.kind, conflict.path, conflict.entity


async def record(tx: Tx, pair: Pair, conflict: Conflict) -> Finding:
    """Append `conflict.found`: the conflict's value, with `number`, `sides` (the two agents) and `paths`. Its causes
    are the last writes of both sides, as far as they are recorded."""
    number = await events.next_number(tx, "merge-conflict")
    value = conflict.as_json()
    paths = [conflict.path] if conflict.path else []
    outputs = {**value, "number": number, "conflict": conflict.id, "sides": list(pair), "paths": paths}
    causes = [side.event for side in (conflict.a, conflict.b) if side.event]
    new = NewEvent(FOUND, _lane(number), outputs=outputs, parents=causes, file_touches=_touched(conflict))
    event = await events.append(tx, new)
    found = Finding(number, conflict.id, pair, conflict, event.id, event.at)
    await _put(tx, found)
    return found


async def renew(tx: Tx, finding: Finding, conflict: Conflict) -> Finding:
    """What a later look says of it."""
    made = replace(finding, conflict=conflict)
    await _put(tx, made)
    return made


async def end(tx: Tx, finding: Finding) -> Finding:
    """Append `conflict.resolved`: it is there no more."""
    conflict = replace(finding.conflict, state=SETTLED)
    paths = [conflict.path] if conflict.path else []
    outputs = {
        **conflict.as_json(),
        "id": finding.id,
        "number": finding.number,
        "conflict": finding.id,
        "sides": list(finding.pair),
        "paths": paths,
        "resolution": None,
    }
    new = NewEvent(
        RESOLVED,
        _lane(finding.number),
        outputs=outputs,
        parents=[finding.event],
        file_touches=_touched(conflict),
    )
    event = await events.append(tx, new)
    made = replace(finding, conflict=conflict, event=event.id, at=event.at)
    await _put(tx, made)
    return made


async def newest(tx: Tx, *, only_open: bool = False, limit: int = MOST_OPEN) -> list[Finding]:
    """The newest first."""
    query = Q.open_findings if only_open else Q.newest_findings
    return [_of_row(row) for row in await tx.all(query, limit=limit)]


async def finding(tx: Tx, number: int) -> Finding | None:
    """The one of this number."""
    row = await tx.one(Q.finding, number=number)
    return None if row is None else _of_row(row)


def changes(
    standing: Iterable[Finding], seen: Mapping[Pair, Sequence[Conflict] | None], level: int
) -> tuple[list[Finding], list[tuple[Finding, Conflict]], list[tuple[Pair, Conflict]]]:
    """What is gone, what is there as another, and what is new, of one level. `seen`: of each pair what was found,
    None = nobody knows, and then all of it stands; a pair that is not in it has nothing any more. Pure."""
    there = {key_of(pair, each): (pair, each) for pair, found in seen.items() for each in found or ()}
    mine = [each for each in standing if each.conflict.level == level]
    gone = [each for each in mine if each.key not in there and seen.get(each.pair, ()) is not None]
    other = [
        (each, there[each.key][1])
        for each in mine
        if each.key in there and not _alike(each.conflict, there[each.key][1])
    ]
    known = {each.key for each in mine}
    return gone, other, [about for key, about in there.items() if key not in known]


def _alike(one: Conflict, other: Conflict) -> bool:
    """But for who wrote last."""

    def said(conflict: Conflict) -> Conflict:
        sides = (replace(side, lane=None, event=None) for side in (conflict.a, conflict.b))
        a, b = sides
        return replace(conflict, a=a, b=b, base=None, places=())

    return said(one) == said(other)


def _touched(conflict: Conflict) -> list[str]:
    return [conflict.path] if conflict.path else []


def _lane(number: int) -> Lane:
    return Lane("room", f"merge-conflict:{number}", short=True)


async def _put(tx: Tx, made: Finding) -> None:
    conflict = made.conflict
    await tx.execute(
        Q.put_finding,
        number=made.number,
        id=made.id,
        level=conflict.level,
        kind=conflict.kind,
        severity=str(conflict.severity),
        path=conflict.path or "",
        entity=conflict.entity or "",
        a=made.pair[0],
        b=made.pair[1],
        side_a=dumps(conflict.a.as_json()),
        side_b=dumps(conflict.b.as_json()),
        base=conflict.base,
        evidence=dumps(list(conflict.evidence)),
        state=conflict.state,
        event=made.event,
        at=made.at,
    )


def _of_row(row: Row) -> Finding:
    conflict = Conflict(
        row["level"],
        row["kind"],
        Severity(row["severity"]),
        row["path"] or None,
        row["entity"] or None,
        Side.of_json(json.loads(row["side_a"])),
        Side.of_json(json.loads(row["side_b"])),
        tuple(json.loads(row["evidence"])),
        row["base"],
        row["state"],
    )
    return Finding(row["number"], row["id"], (row["a"], row["b"]), conflict, row["event"], row["at"])

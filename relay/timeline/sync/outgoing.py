"""The lines of this room's events that go into its packs.

Invariants:
- a replica gives what it recorded itself, and no event of another: that one has a ref of its own;
- what is shared goes by `relay.timeline.sync.privacy`: whole lanes, without the payloads that stay at home, and
  with a stub of each private cause before the event that has it. The copy that never leaves the room (`sharing` None)
  has everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from relay.log.encoding import dumps, loads
from relay.log.events import Q
from relay.log.imported import ImportedRow, as_recorded
from relay.model.names import PRIVATE_EVENTS
from relay.store.ports import Row, Tx
from relay.timeline.projection import CHANGED
from relay.timeline.sync.packs import Stub, event_line, of_body, stub_line
from relay.timeline.sync.privacy import OPEN, PAYLOADS, Sharing, SuspectText, suspects

#: Events that are looked at in one transaction.
PAGE = 2000


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """Its `lines`, those of its stubs first; the `tree` of its snapshot; why payloads of it are `withheld`."""

    lines: tuple[str, ...]
    tree: str | None
    withheld: tuple[SuspectText, ...]


@dataclass(slots=True)
class Outgoing:
    """What a page of the log gives, by id. `upto`: the place in the log behind which the next page begins; `held`:
    lanes (keys) that are held back, each from which event of its on, and `why`."""

    upto: int
    held: dict[str, int]
    why: list[SuspectText] = field(default_factory=list)
    events: dict[str, OutgoingEvent] = field(default_factory=dict)


async def read_page(tx: Tx, after: int, sharing: Sharing | None, held: Mapping[str, int]) -> Outgoing:
    """What goes out of the events behind this place; `held`: what earlier pages held back."""
    rows = await tx.all(Q.events_after, after=after, limit=PAGE)
    page = Outgoing(rows[-1]["pos"] if rows else after, dict(held))
    own: list[dict[str, Any]] = []
    for row in await as_recorded(tx, rows):
        if not isinstance(row, ImportedRow):
            own.append(dict(row))
        elif row.origin is None:
            own.append(row.recorded)
    going = own if sharing is None else [row for row in own if _leaves(row, sharing, page)]
    causes = {row["id"]: of_body(row, short=False).needs for row in going}
    wanted = sorted({id for event, needs in causes.items() for id in (event, *needs)})
    places: dict[str, Row] = {row["id"]: row for row in await tx.all(Q.events_known, ids=dumps(wanted))}
    # Of what is archived a stub is here.
    absent = dumps([id for id in wanted if id not in places])
    places |= {row["id"]: {**row, "origin": None} for row in await tx.all(Q.stubs_known, ids=absent)}
    for row in going:
        stubs: list[str] = []
        found: list[SuspectText] = []
        if sharing is not None:
            causing = [places[id] for id in dict.fromkeys(causes[row["id"]]) if id in places]
            stubs = [_stub_line(place) for place in causing if _is_private(place, sharing, page.held)]
            found = [] if row["type"] in PRIVATE_EVENTS else suspects(row, sharing, PAYLOADS)
        stays = {suspect.where for suspect in found}
        if sharing is not None and row["type"] in PRIVATE_EVENTS:
            stays = {name for name in PAYLOADS if row[name] is not None}
        line = event_line(row, short=bool(places[row["id"]]["short"]), withhold=stays)
        tree = row["snapshot"] if row["type"] == CHANGED else None
        page.events[row["id"]] = OutgoingEvent((*stubs, line), tree, tuple(found))
    return page


def _leaves(row: Mapping[str, Any], sharing: Sharing, page: Outgoing) -> bool:
    """Does the event leave? Notes where its lane is held back."""
    if not sharing.has(row["session"], row["lane"]):
        return False
    key = f"{row['session']}/{row['lane']}"
    if key not in page.held and (found := suspects(row, sharing, OPEN)):
        page.held[key] = row["seq"]
        page.why += found
    return key not in page.held


def _is_private(place: Row, sharing: Sharing, held: Mapping[str, int]) -> bool:
    """Does this cause stay at home? One of another replica is that one's to give."""
    if place["origin"] is not None:
        return False
    key = f"{place['session']}/{place['lane']}"
    return not sharing.has(place["session"], place["lane"]) or place["seq"] >= held.get(key, 2**62)


def _stub_line(place: Row) -> str:
    parents = tuple(loads(place["parents"]))
    return stub_line(Stub(place["id"], place["session"], place["lane"], place["seq"], parents))

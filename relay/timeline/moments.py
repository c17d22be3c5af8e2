"""What people and programs call a moment of the timeline: an event, a number, a time, a tree.

Invariant: a text means one moment or none. What is unknown or ambiguous is refused with the candidates, and a text of
no known form with the forms.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from relay.base.durations import clock_time, iso
from relay.log import events
from relay.model import Fault, Refusal
from relay.store.ports import Row, Tx
from relay.timeline.moment_forms import HEX, NUMBER, time_of
from relay.timeline.projection import Q

FORMS = "an event's id (8 digits are enough), #NUMBER, a time (14:00, 2026-11-23 14:00), or -1h"
#: Candidates that a refusal names.
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Moment:
    """Right behind the event at `pos`, 0 = before the first. `event`: its id; `words`: the moment for people."""

    pos: int
    event: str | None
    words: str


async def resolve(tx: Tx, text: str, now: float | None = None) -> Moment:
    """The moment that `text` means. `now`: Unix seconds, None = this machine's clock. Raises Refusal: MALFORMED for a
    text of no form, UNKNOWN (with `candidates` in the details) for what is not there or means several."""
    wanted, now = text.strip(), time.time() if now is None else now
    if (at := time_of(wanted, now)) is not None:
        if at > now:
            raise _unknown(f"{wanted} is still to come: {clock_time(at, now)}.")
        return await _at(tx, at, now)
    # `12345678` is a number first: an id without a letter in its first eight digits is rare, and can be given longer.
    if match := NUMBER.fullmatch(wanted):
        row = await tx.one(Q.event_at, pos=int(match[1]))
        if row is not None:
            return Moment(row["pos"], row["id"], f"#{row['pos']}")
        if wanted.startswith("#") or not HEX.fullmatch(wanted):
            raise _unknown(f"There is no event #{match[1]}.")
    if not HEX.fullmatch(wanted.lower()):
        raise Refusal(f"{wanted[:60]!r} is no moment.", f"Give {FORMS}.", Fault.MALFORMED, "bad_moment")
    # Hexadecimal digits sort before `g`.
    rows = await tx.all(
        Q.events_from_id, id=wanted.lower(), behind=f"{wanted.lower()}g", limit=MOST_NAMED + 1
    )
    if len(rows) == 1:
        return Moment(rows[0]["pos"], rows[0]["id"], f"event {rows[0]['id'][:8]}")
    if not rows:
        raise _unknown(f"There is no event {wanted}.")
    named = [_named(row) for row in rows[:MOST_NAMED]]
    more = " and more" if len(rows) > MOST_NAMED else ""
    raise _unknown(f"{wanted} is the beginning of {', '.join(named)}{more}.", named)


async def _at(tx: Tx, at: float, now: float) -> Moment:
    """Behind the last event that is not later: found by halving, since this room's events stand in the
    order of time."""
    wanted, words = iso(at), clock_time(at, now)
    low, high, found = 0, await events.last_pos(tx), None
    while low < high:
        middle = (low + high + 1) // 2
        row = await tx.one(Q.event_until, pos=middle, low=low)
        if row is None:
            low = middle
        elif row["at"] <= wanted:
            low, found = middle, row
        else:
            high = row["pos"] - 1
    return Moment(found["pos"], found["id"], words) if found else Moment(0, None, words)


def _named(row: Row) -> str:
    return f"{row['id'][:12]} (#{row['pos']} {row['type']} of {row['lane']})"


def _unknown(message: str, candidates: list[str] | None = None) -> Refusal:
    fix = "Give more digits." if candidates else "`relay timeline log` lists the events."
    return Refusal(message, fix, Fault.UNKNOWN, "unknown_moment", details={"candidates": candidates or []})

"""What people and programs call a moment of the timeline: an event, a number, a time, a checkpoint, a tree.

Invariant: a text means one moment or none. What is unknown or ambiguous is refused with the candidates, and a text of
no known form with the forms.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

from relay.base.durations import clock_time, iso
from relay.config.command_line import command
from relay.log import events
from relay.log.archived import archived_upto
from relay.model import Fault, Refusal
from relay.store.ports import Row, Tx
from relay.timeline import checkpoints
from relay.timeline.moment_forms import BACK, HEX, NUMBER, is_no_time, time_of
from relay.timeline.projection import Q

FORMS = (
    "an event's id or a snapshot's (8 digits are enough), #NUMBER, a time (14:00, 2026-11-23 14:00, now), -1h, "
    "or a checkpoint (NAME, NAME~1 = the one before)"
)
#: Candidates that a refusal names.
MOST_NAMED = 5
_DATED = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class Moment:
    """Right behind the event at `pos`, 0 = before the first. `event`: its id; `words`: the moment for people. `tree`:
    the files that the text names (of a snapshot, a checkpoint, an event that has one): git's id of a tree, or of a
    commit; None: the text says when, and not which files. `passed`: of a handoff's checkpoint, did its rules hold."""

    pos: int
    event: str | None
    words: str
    tree: str | None = None
    passed: bool | None = None

    def as_json(self) -> dict[str, Any]:
        return {"words": self.words, "number": self.pos, "event": self.event}


async def newest(tx: Tx) -> Moment:
    """Behind everything that was recorded."""
    pos = await events.last_pos(tx)
    row = await tx.one(Q.event_at, pos=pos)
    return Moment(pos, row["id"] if row else None, "now")


async def resolve(tx: Tx, text: str, now: float | None = None) -> Moment:
    """The moment that `text` means. `now`: Unix seconds, None = this machine's clock. Raises Refusal: MALFORMED for a
    text of no form, UNKNOWN (with `candidates` in the details) for what is not there or means several."""
    wanted, now = text.strip(), time.time() if now is None else now
    if wanted.lower() == "now":
        return await newest(tx)
    if (at := time_of(wanted, now)) is not None:
        if at > now:
            raise _unknown(f"{wanted} is still to come: {clock_time(at, now)}.")
        return await _at(tx, at, now)
    # `12345678` is a number first: an id without a letter in its first eight digits is rare, and can be given longer.
    if match := NUMBER.fullmatch(wanted):
        row = await tx.one(Q.event_at, pos=int(match[1]))
        if row is not None:
            return Moment(row["pos"], row["id"], f"#{row['pos']}", row["snapshot"])
        if wanted.startswith("#") or not HEX.fullmatch(wanted):
            cut = await archived_upto(tx)
            if 0 < int(match[1]) <= cut:
                raise _archived(int(match[1]), cut)
            raise _unknown(f"There is no event #{match[1]}.")
    if HEX.fullmatch(wanted.lower()):
        return await _by_id(tx, wanted.lower())
    return await _checkpoint(tx, wanted)


async def _by_id(tx: Tx, wanted: str) -> Moment:
    """An event, or a snapshot at the last moment that it stood somewhere. Hexadecimal digits sort before `g`."""
    span = {"id": wanted, "behind": f"{wanted}g", "limit": MOST_NAMED + 1}
    found = await tx.all(Q.events_from_id, **span)
    trees = await tx.all(Q.trees_from_id, **span)
    if len(found) == 1 and not trees:
        row = found[0]
        return Moment(row["pos"], row["id"], f"event {row['id'][:8]}", row["snapshot"])
    if len(trees) == 1 and not found:
        tree = trees[0]
        row_at = await tx.one(Q.event_at, pos=tree["pos"])
        return Moment(
            tree["pos"], row_at["id"] if row_at else None, f"snapshot {tree['tree'][:8]}", tree["tree"]
        )
    if not found and not trees:
        raise _unknown(f"There is no event and no snapshot {wanted}.")
    names = [_named(row) for row in found] + [f"{row['tree'][:12]} (a snapshot)" for row in trees]
    more = " and more" if len(names) > MOST_NAMED else ""
    raise _unknown(
        f"{wanted} is the beginning of {', '.join(names[:MOST_NAMED])}{more}.",
        "Give more digits.",
        names[:MOST_NAMED],
    )


async def _checkpoint(tx: Tx, wanted: str) -> Moment:
    match = BACK.fullmatch(wanted)
    name, back = (match[1], int(match[2])) if match else (wanted, 0)
    if not checkpoints.is_name(name) or _DATED.match(name):
        raise _malformed(wanted)
    found = await checkpoints.find(tx, name, back)
    if found is not None:
        passed = found.metadata.get("validation_passed")
        return Moment(found.pos, found.event, f"checkpoint {wanted}", found.tree, passed)
    if is_no_time(wanted):
        raise _malformed(wanted)
    if back and await checkpoints.find(tx, name) is not None:
        raise _unknown(
            f"There are not that many checkpoints {name!r}.", "Leave out `~N` for the newest.", [name]
        )
    names = await checkpoints.names_like(tx, name, MOST_NAMED)
    fix = (
        f"Checkpoints: {', '.join(names)}." if names else f"{command('timeline checkpoint NAME')} makes one."
    )
    raise _unknown(f"There is no checkpoint {name!r}.", fix, names)


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


def _malformed(wanted: str) -> Refusal:
    return Refusal(f"{wanted[:60]!r} is no moment.", f"Give {FORMS}.", Fault.MALFORMED, "bad_moment")


def _archived(number: int, cut: int) -> Refusal:
    return _unknown(
        f"#{number} is archived: the events up to #{cut} are not in the database any more.",
        f'Give a later moment; "#{cut + 1}" is the first that it can be. {command("timeline log")} lists the events.',
    )


def _unknown(message: str, fix: str = "", candidates: list[str] | None = None) -> Refusal:
    fix = fix or f"{command('timeline log')} lists the events."
    return Refusal(message, fix, Fault.UNKNOWN, "unknown_moment", details={"candidates": candidates or []})

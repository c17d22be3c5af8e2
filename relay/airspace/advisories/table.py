"""The rows of the airspace's advisories, each with its event.

Invariants: a row of `advisories` and the event that says why it is so commit together, in the caller's
transaction; of one pair at most one advisory is open, and who opens it first has latched its order, for every
process on this database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from relay.airspace.advisories import wording
from relay.airspace.advisories.rules import forecasts, outcomes
from relay.airspace.advisories.rules.advisory import Advisory
from relay.airspace.advisories.rules.edit_check import EditNotice
from relay.airspace.advisories.rules.forecasts import Forecast
from relay.airspace.advisories.rules.hysteresis import Rules, Track
from relay.airspace.advisories.rules.observation import AirspaceState
from relay.airspace.advisories.rules.set_back import track_of
from relay.airspace.readings import Level
from relay.log import events
from relay.log.encoding import dumps, loads
from relay.log.events import Event, Lane, NewEvent
from relay.log.imported import PREFIX
from relay.model.working_set import Pair
from relay.store.ports import Queries, Row, Tx

FOLDER = Path(__file__).parents[1]
Q = Queries(FOLDER)
CHANGED = "advisory.changed"
ROOM = "room"


def lane_of(advisory_id: str) -> Lane:
    """The short lane of an advisory: what the room does about it orders nobody."""
    return Lane(ROOM, f"advisory:{advisory_id}", short=True)


async def load_state(tx: Tx) -> AirspaceState:
    """What is kept from one tick to the next."""
    tracks = {
        (row["a"], row["b"]): Track.of_record(loads(row["track"])) for row in await tx.all(Q.pair_tracks)
    }
    advisories = [of_row(row) for row in await tx.all(Q.standing_advisories)]
    ahead = {
        (row["a"], row["b"]): Forecast(row["began_at"], tuple(loads(row["worked"])), bool(row["asked"]))
        for row in await tx.all(Q.open_lookaheads)
    }
    notices = frozenset((row["agent"], row["other"], row["path"]) for row in await tx.all(Q.told_edits))
    return AirspaceState(tracks, {advisory.id: advisory for advisory in advisories}, ahead, notices)


async def save_forecasts(tx: Tx, before: Mapping[Pair, Forecast], after: Mapping[Pair, Forecast]) -> None:
    """Keep the look-aheads that are another than `before`."""
    for (a, b), forecast in after.items():
        row = {"a": a, "b": b, "worked": dumps(list(forecast.worked)), "asked": int(forecast.asked)}
        if (a, b) in before:
            await tx.execute(Q.keep_lookahead, ended_at=forecast.ended_at, outcome=str(forecast.came), **row)
        else:
            await tx.execute(Q.begin_lookahead, began_at=forecast.began_at, **row)


async def save_edit_notices(tx: Tx, before: frozenset[EditNotice], after: frozenset[EditNotice]) -> None:
    """Keep what agents were told at an edit, and forget what is over."""
    for query, some in ((Q.forget_told_edit, before - after), (Q.put_told_edit, after - before)):
        for agent, other, path in sorted(some):
            await tx.execute(query, agent=agent, other=other, path=path)


async def save_tracks(tx: Tx, tracks: Mapping[Pair, Track], rules: Rules, now: float) -> None:
    """Keep how pairs stand. A clear one whose cool-down is over is forgotten."""
    for (a, b), track in tracks.items():
        said_at = max(track.said.values(), default=float("-inf"))
        if track.level is Level.CLEAR and said_at + rules.cooldown_s <= now:
            await tx.execute(Q.forget_pair, a=a, b=b)
        else:
            await tx.execute(Q.keep_pair, a=a, b=b, track=dumps(asdict(track)), changed_at=now)


async def insert_open(tx: Tx, advisory: Advisory) -> bool:
    """Open the advisory in one row; False when another process has opened one for this pair."""
    return await tx.one(Q.open_advisory, opened_at=advisory.opened_at, **_row(advisory)) is not None


async def save_change(
    tx: Tx,
    advisory: Advisory,
    what: Sequence[str],
    *,
    cause: Sequence[str] = (),
    by: str | None = None,
) -> Advisory:
    """Record that the advisory is so now: its row and its event. Gives it with the event as the last of its lane.

    `cause`: the events that made it so, beside the one before it.
    """
    parents = [*([advisory.event_id] if advisory.event_id else []), *cause]
    outputs: dict[str, Any] = {"advisory": wording.shown(advisory), "what": list(what)}
    if by is not None:
        outputs["by"] = by
    # What `bring_back` makes the row from.
    inputs = {"record": advisory.record()}
    new = NewEvent(CHANGED, lane_of(advisory.id), parents=parents, inputs=inputs, outputs=outputs)
    event = await events.append(tx, new)
    recorded = replace(advisory, event_id=event.id)
    await tx.execute(Q.keep_advisory, **_row(recorded))
    return recorded


async def bring_back(tx: Tx, now: float) -> int:
    """Make the rows anew from events that came back from a copy of the log (`relay.log.imported`); gives how many. So
    what stood and was said is not said again. What was asked went with its messages, and nobody owes it."""
    last: dict[str, Event] = {}
    after = 0
    while batch := await events.read_after(tx, after, types=(PREFIX + CHANGED,), limit=500):
        after = batch[-1].pos
        last |= {event.lane: event for event in batch if event.session == ROOM}
    count = 0
    for event in last.values():
        if event.inputs is None:
            continue  # recorded before the record was part of it
        was = Advisory.of_record(event.inputs["record"])
        if was.open:
            was = replace(was, asked={}, not_asked={}, deadline_at=None, number=0)
            for pair, level in _heard(was).items():
                track = Track(level, level, {level.word: now})
                await tx.execute(
                    Q.keep_pair, a=pair[0], b=pair[1], track=dumps(asdict(track)), changed_at=now
                )
        row = _row(replace(was, event_id=event.id))
        row["founders"] = row["founders"] or "|"  # of one that is over they keep nothing apart
        count += await tx.one(Q.open_advisory, opened_at=was.opened_at, **row) is not None
    return count


def _heard(advisory: Advisory) -> dict[Pair, Level]:
    """The levels that the room has heard of an open advisory and that stand, by what is kept of pairs."""
    if advisory.message_id is None:
        return {}
    levels = {pair: contact.level for pair, contact in advisory.contacts.items()}
    backs = advisory.set_back.items()
    return levels | {track_of(name, back.commit): Level.RESOLUTION for name, back in backs if not back.untold}


def _row(advisory: Advisory) -> dict[str, Any]:
    # The first of its pairs now: one that has parted may meet elsewhere, and then opens another advisory.
    founders = "|".join(min(advisory.contacts)) if advisory.contacts else None
    if founders is None and advisory.set_back:
        # Its pair may meet anew meanwhile, and that is another advisory.
        founders = f"{min(advisory.set_back)}|"
    return {
        "id": advisory.id,
        "founders": founders,
        "closed_at": advisory.closed_at,
        "worst": int(advisory.worst),
        # One without a pair forecasts nothing, so it counts nowhere (`outcomes`).
        "said": int(advisory.message_id is not None and bool(advisory.pairs)),
        "outcome": advisory.outcome and str(advisory.outcome),
        "mark": advisory.mark and str(advisory.mark),
        "body": dumps(advisory.record()),
    }


def of_row(row: Row) -> Advisory:
    return Advisory.of_record(loads(row["body"]))


async def advisory(tx: Tx, advisory_id: str) -> Advisory | None:
    row = await tx.one(Q.advisory, id=advisory_id)
    return None if row is None else of_row(row)


async def of_message(tx: Tx, message_id: str) -> Advisory | None:
    """The advisory that this message of the room asks an answer for."""
    row = await tx.one(Q.advisory_of_message, message_id=message_id)
    return None if row is None else await advisory(tx, row["advisory_id"])


async def latest(tx: Tx, limit: int) -> list[Advisory]:
    """The newest advisories, newest first."""
    return [of_row(row) for row in await tx.all(Q.latest_advisories, limit=limit)]


async def counts(tx: Tx) -> dict[str, Any]:
    """The precision so far, by kind (`outcomes.precision`); `lookahead`: `forecasts.precision`."""
    advisories = outcomes.precision(await tx.all(Q.advisory_counts))
    return {**advisories, "lookahead": forecasts.precision(await tx.all(Q.lookahead_counts))}

"""What other rooms recorded, as it is shown beside what this one did.

Invariants:
- an event of another room keeps the type `imported:TYPE`, so nothing takes it for this room's own; what this room
  recorded itself and has back from a copy is shown as it was recorded;
- what others wrote is never among this room's `touches`: their changes of files are folded here, for those who look;
- their payloads are of any shape, and may be missing. What cannot be read says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, from_row
from relay.log.imported import PREFIX
from relay.store.ports import Row, Tx
from relay.timeline.projection import CHANGED, Q

#: Changes of others that are folded: the newest ones.
MOST_CHANGES = 2000
#: Digits of a replica that tell it from others.
SHORT = 8


def recorded_type(event: Event) -> str:
    """The type as it was recorded. Pure."""
    return event.type.removeprefix(PREFIX)


def with_imported(types: Sequence[str]) -> list[str]:
    """These types, and as which they are imported. Pure."""
    return [*types, *(f"{PREFIX}{each}" for each in types)]


async def with_origins(tx: Tx, rows: Sequence[Row]) -> list[tuple[Row, str | None]]:
    """The rows, each with the replica that recorded it; None: this room. What this room has back from a copy has its
    own type again."""
    imported = [row["pos"] for row in rows if row["type"].startswith(PREFIX)]
    if not imported:
        return [(row, None) for row in rows]
    notes = await tx.all(events.Q.imported_notes, positions=dumps(imported))
    origins = {note["pos"]: note["origin"] for note in notes}
    return [
        (
            row if row["pos"] in origins else {**row, "type": row["type"].removeprefix(PREFIX)},
            origins.get(row["pos"]),
        )
        for row in rows
    ]


async def origins_of(tx: Tx, found: Iterable[Event]) -> dict[int, str]:
    """By its place in the log, the replica of each event that another room recorded."""
    imported = [event.pos for event in found if event.type.startswith(PREFIX)]
    if not imported:
        return {}
    notes = await tx.all(events.Q.imported_notes, positions=dumps(imported))
    return {note["pos"]: str(note["origin"]) for note in notes}


async def as_shown(tx: Tx, event: Event) -> Event:
    """The event as `reading.page` has it: this room's own with its own type."""
    return event if await origins_of(tx, [event]) else replace(event, type=recorded_type(event))


def touches_of_event(event: Event) -> list[dict[str, Any]]:
    """The touches that a change of files tells of, as far as they have the form of one. Pure."""
    outputs = event.outputs
    touches = outputs.get("touches") if isinstance(outputs, dict) else None
    return [touch for touch in touches if _is_touch(touch)] if isinstance(touches, list) else []


def _is_touch(value: object) -> bool:
    if not isinstance(value, dict) or not {"path", "before", "after", "kind"} <= value.keys():
        return False
    return isinstance(value["path"], str) and all(
        value[side] is None or isinstance(value[side], str) for side in ("before", "after")
    )


async def workspace_of_others(tx: Tx, path: str = "") -> list[dict[str, Any]]:
    """Each file that other rooms touched, with who wrote it last there: `[{path, blob, by, replica, event, at}]` by
    path and replica. `path`: of a file or a folder, "" = of all. Of the newest changes only (`MOST_CHANGES`)."""
    wanted = path.strip("/")
    inside, behind = (f"{wanted}/", f"{wanted}0") if wanted else ("", "\U0010ffff")
    scope = {"path": wanted, "inside": inside, "behind": behind, "lanes": "[]", "every": 1}
    found = await tx.all(Q.imported_of_path, **scope, after=0, before=2**62, limit=MOST_CHANGES)
    positions = dumps(sorted(row["pos"] for row in found))
    files: dict[tuple[str, str], dict[str, Any]] = {}
    for row, replica in await with_origins(tx, await tx.all(Q.events_at, positions=positions)):
        event = from_row(row)
        if replica is None or recorded_type(event) != CHANGED:
            continue
        for touch in touches_of_event(event):
            if touch["path"] == wanted or inside <= touch["path"] < behind:
                files[touch["path"], replica] = {
                    "path": touch["path"],
                    "blob": touch["after"],
                    "by": event.lane_key,
                    "replica": replica,
                    "event": event.id,
                    "at": event.at,
                }
    return [files[key] for key in sorted(files)]

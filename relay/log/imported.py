"""Events that were recorded elsewhere, or before the database was lost, in this log.

Invariants:
- nothing in the room acts on such an event: its row has the type `imported:TYPE` and the source key
  `imported:ID:KEY`, which no follower, page, projection or writer of this room asks for;
- the body that was hashed is known nevertheless (`as_recorded`), so `verify` checks these events as all others;
- a lane of the session `room` has the same key in every room. Here it is of `room@ORIGIN`, in the row as in the
  clock, so that it is never taken for this room's own, and no clock says that something of this room was seen
  which was not. What a replica calls `room@OWN` is `room` here;
- a cause that stayed at home is a stub: its id, lane, seq and parents.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

import secrets
from collections.abc import Container, Mapping, Sequence
from typing import Any

from relay.log.encoding import dumps, loads
from relay.log.event_hash import Withheld
from relay.log.events import Q, put_setting, setting
from relay.store.ports import Row, Tx

PREFIX = "imported:"
#: The session whose lanes every room has.
ROOM = "room"
_REPLICA = "timeline.replica"
_KEY_AT = len(PREFIX) + 64 + 1


class ImportedRow(dict[str, Any]):
    """A row of `events` as it is stored. `recorded`: the columns as they were hashed; `origin`: the replica that did;
    None: this one; `stubs`: those of its causes that stayed at home."""

    recorded: dict[str, Any]
    origin: str | None
    stubs: frozenset[str]


async def replica_id(tx: Tx) -> str | None:
    """This room's id among its replicas (16 hex digits); None: it has none yet."""
    return await setting(tx, _REPLICA)


async def make_replica_id(tx: Tx, known: str | None = None) -> str:
    """The room's id among its replicas, made where it has none (of `known` where a lost database had one)."""
    own = await replica_id(tx)
    if own is None:
        own = known or secrets.token_hex(8)
        await put_setting(tx, _REPLICA, own)
    return own


def to_local(row: Mapping[str, Any], origin: str, own: str, kept: Container[str] = ()) -> dict[str, Any]:
    """The row of `events` for a body that `origin` recorded. Where this room did (`origin` equal to `own`), it comes
    back from a copy, and what is of the types `kept` is as it was. Pure."""
    local = dict(row)
    if origin == own and row["type"] in kept:
        return local
    if origin != own:
        local["session"] = local_session(row["session"], origin, own)
        local["clock"] = _renamed(row["clock"], {ROOM: f"{ROOM}@{origin}", f"{ROOM}@{own}": ROOM})
    local["type"] = PREFIX + row["type"]
    if row["source_key"] is not None:
        local["source_key"] = f"{PREFIX}{row['id']}:{row['source_key']}"
    return local


def local_session(session: str, origin: str, own: str) -> str:
    """What a session of `origin` is called here. Pure."""
    names = {} if origin == own else {ROOM: f"{ROOM}@{origin}", f"{ROOM}@{own}": ROOM}
    return names.get(session, session)


def to_recorded(row: Row, note: Row | None, own: str) -> dict[str, Any]:
    """The body that was hashed, of a row of `events`; `note`: its row of `imported_events`. Pure."""
    body = dict(row)
    if not row["type"].startswith(PREFIX):
        return body
    body["type"] = row["type"].removeprefix(PREFIX)
    if row["source_key"] is not None:
        body["source_key"] = row["source_key"][_KEY_AT:]
    if note is not None:
        names = {f"{ROOM}@{note['origin']}": ROOM, ROOM: f"{ROOM}@{own}"}
        body["session"] = names.get(row["session"], row["session"])
        body["clock"] = _renamed(row["clock"], names)
        for payload in ("inputs", "outputs"):
            if note[payload] is not None:
                body[payload] = Withheld(note[payload])
    return body


def _renamed(clock: str, sessions: Mapping[str, str]) -> str:
    """A stored clock with the sessions of its lanes renamed."""
    if f'"{ROOM}' not in clock:
        return clock
    entries = ((*key.partition("/")[::2], count) for key, count in loads(clock).items())
    return dumps({f"{sessions.get(session, session)}/{lane}": count for session, lane, count in entries})


async def as_recorded(tx: Tx, rows: Sequence[Row]) -> list[Row]:
    """The same rows, and those that were imported as `ImportedRow`."""
    imported = [row for row in rows if row["type"].startswith(PREFIX)]
    if not imported:
        return list(rows)
    own = await replica_id(tx) or ""
    positions = dumps([row["pos"] for row in imported])
    notes = {note["pos"]: note for note in await tx.all(Q.imported_notes, positions=positions)}
    causes = {row["pos"]: _causes(row) for row in imported}
    wanted = dumps(sorted(frozenset[str]().union(*causes.values())))
    stubs = frozenset(row["id"] for row in await tx.all(Q.stubs_known, ids=wanted))
    result: list[Row] = []
    for row in rows:
        if row["type"].startswith(PREFIX):
            here = ImportedRow(row)
            note = notes.get(row["pos"])
            here.recorded, here.origin = to_recorded(row, note, own), None if note is None else note["origin"]
            here.stubs = stubs & causes[row["pos"]]
            result.append(here)
        else:
            result.append(row)
    return result


def _causes(row: Row) -> frozenset[str]:
    """The ids that an event names as its causes; none where they cannot be read, which `verify` says."""
    try:
        return frozenset(map(str, (*loads(row["parents"]), *loads(row["causal_deps"]))))
    except (ValueError, TypeError):
        return frozenset()

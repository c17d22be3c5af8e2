"""Archives of the timeline: old events leave the database in packs, and can be read and checked as before.

Invariants:
- an archive is on disk, with its digest in an event of the log, in the transaction in which its events leave. A
  killed process leaves the log as it was, or one archive further; a file without such an event is overwritten;
- an archive has every event of its part of the log as it was recorded. Those stay in the database besides that the
  room's tables are made from or point to: of each path the last write, of each worktree its last tree, rewinds,
  checkpoints, tasks. What the tables say of the others leaves with them, so `rebuild` makes the same tables;
- `check_archives` reads an archive as `relay.log.verify` reads the log: a changed byte, a missing event or file, and
  a lane that does not end where the log goes on are named.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relay.base.files import sync_folder
from relay.log.archived import ARCHIVED, LANE, ArchivedPart, archived_parts, archived_upto
from relay.log.encoding import dumps, loads
from relay.log.events import NewEvent, append
from relay.log.imported import ImportedRow, as_recorded
from relay.log.verify import LogFault
from relay.store.ports import Row, Store, Tx
from relay.timeline.projection import Q
from relay.timeline.sync.packs import BadLine, BadPack, PackedEvent, event_line, pack, read_line, unpack

#: Of the room's own folder: where the transcript's archives are too.
FOLDER = "archive"
#: Events of one archive, and of one read.
AT_ONCE, BATCH = 20_000, 2_000
#: What the tables of the timeline are rebuilt from, by the beginnings of their types.
KEPT_TYPES = ("timeline.", "checkpoint.", "handoff", "conflict.", ARCHIVED)


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """`events` that are in the archives `parts` now, of which `kept` stay in the database besides. `before`, `after`:
    bytes that the database uses; `size`: of the archives."""

    upto: int
    events: int = 0
    kept: int = 0
    before: int = 0
    after: int = 0
    parts: tuple[ArchivedPart, ...] = ()

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


@dataclass(slots=True)
class _Packing:
    """The lines of the next archive, and where its lanes stand behind it."""

    lines: list[str] = field(default_factory=list)
    heads: dict[str, tuple[int, str]] = field(default_factory=dict)
    first: int = 0
    upto: int = 0


@dataclass(frozen=True, slots=True)
class Need:
    """Why the events from the place `pos` on cannot be archived yet: `what`, a sentence without its end."""

    what: str
    pos: int


async def needs(store: Store, upto: int) -> list[Need]:
    """What of the log needs events at or before the place `upto`, by the first place."""

    async def work(tx: Tx) -> list[Need]:
        found = [Need(row["what"], row["pos"]) for row in await tx.all(Q.needed_events, upto=upto)]
        for row in await tx.all(Q.sent_settings):
            sent = int(loads(row["value"])["pos"])
            if sent < upto:
                found.append(Need(f"{row['name'].partition(':')[2]} has not got all of them", sent + 1))
        return found

    return sorted(await store.read(work), key=lambda need: need.pos)


async def preview(store: Store, upto: int) -> ArchiveResult:
    """What `archive` would do: the events at or before the place `upto` that are not archived yet. Writes nothing."""

    async def work(tx: Tx) -> ArchiveResult:
        cut = await archived_upto(tx)
        rows = await tx.all(Q.count_events, after=cut, upto=upto)
        kept = await tx.all(Q.kept_events, after=cut, upto=upto, types=dumps(list(KEPT_TYPES)))
        used = await used_bytes(tx)
        return ArchiveResult(upto, rows[0]["n"], len(kept), used, used)

    return await store.read(work, long=True)


async def archive(store: Store, folder: Path, upto: int, kept_types: Sequence[str] = ()) -> ArchiveResult:
    """Move the events at or before the place `upto` into archives in `folder`. `kept_types`: beginnings of the types
    that other tables of the room are made from; they stay. Raises OSError, and what the store raises; what was
    archived before stays so, and the same call goes on from there."""
    types = dumps([*KEPT_TYPES, *kept_types])
    before = await store.read(used_bytes, long=True)
    parts: list[ArchivedPart] = []
    events = kept = 0
    while (packing := await _read_part(store, upto)).lines:
        part = await asyncio.to_thread(_write_file, folder, packing)

        async def work(tx: Tx, part: ArchivedPart = part) -> int:
            stays = [
                row["pos"]
                for row in await tx.all(Q.kept_events, after=part.first - 1, upto=part.upto, types=types)
            ]
            scope: dict[str, Any] = {"after": part.first - 1, "upto": part.upto, "kept": dumps(stays)}
            await append(tx, NewEvent(ARCHIVED, LANE, outputs=part.as_json()))
            await tx.execute(Q.put_archived_stubs, **scope)
            await tx.execute(Q.drop_archived_touches, **scope)
            await tx.execute(Q.drop_archived_trees, **scope)
            await tx.execute(Q.drop_archived_notes, **scope)
            await tx.execute(Q.drop_archived_events, **scope)
            return len(stays)

        stay = await store.write(work)
        parts.append(part)
        events, kept = events + part.events, kept + stay
    after = await store.read(used_bytes, long=True)
    return ArchiveResult(upto, events, kept, before, after, tuple(parts))


async def used_bytes(tx: Tx) -> int:
    """Bytes of the database that are in use: what events leave behind in the file is used again."""
    rows = await tx.all(Q.used_bytes)
    return int(rows[0]["n"])


# -- writing


async def _read_part(store: Store, upto: int) -> _Packing:
    """The events of the next archive; no line when all are archived."""
    packing = _Packing()
    packing.upto = await store.read(archived_upto)
    packing.first = packing.upto + 1
    while len(packing.lines) < AT_ONCE:

        async def work(tx: Tx, after: int = packing.upto) -> tuple[list[Row], frozenset[str]]:
            rows = await tx.all(Q.events_between, after=after, upto=upto, limit=BATCH)
            short = await tx.all(Q.short_lanes_among, after=after, upto=upto, limit=BATCH)
            return await as_recorded(tx, rows), frozenset(f"{row['session']}/{row['lane']}" for row in short)

        rows, short = await store.read(work, long=True)
        if not rows:
            break
        for row in rows:
            key = f"{row['session']}/{row['lane']}"
            body: Mapping[str, Any] = row.recorded if isinstance(row, ImportedRow) else row
            line = {"pos": row["pos"], "lane": key, "event": event_line(body, short=key in short)}
            if isinstance(row, ImportedRow):
                line["origin"] = row.origin
            packing.lines.append(dumps(line))
            packing.heads[key] = (row["seq"], row["id"])
            packing.upto = row["pos"]
    return packing


def _write_file(folder: Path, packing: _Packing) -> ArchivedPart:
    """Put the archive on disk. Its name says which part of the log it is."""
    data = pack(packing.lines)
    name = f"timeline-{packing.first:010}-{packing.upto:010}.z"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    half = folder / f".{name}.part"
    with half.open("wb") as file:
        half.chmod(0o600)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    half.replace(folder / name)
    sync_folder(folder)
    digest = hashlib.sha256(data).hexdigest()
    return ArchivedPart(
        packing.first, packing.upto, len(packing.lines), name, digest, len(data), packing.heads
    )


# -- reading


@dataclass(frozen=True, slots=True)
class ArchivedEvent:
    """An event of an archive. `pos`: its place in the log, `lane` its lane's key there; `origin`: the replica that
    recorded it, None = this one."""

    pos: int
    lane: str
    event: PackedEvent
    origin: str | None


def read_archive(folder: Path, part: ArchivedPart) -> list[ArchivedEvent]:
    """The events of an archive in the order of the log, each checked against its hash. Raises BadPack, BadLine,
    OSError."""
    data = (folder / part.file).read_bytes()
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise BadPack("its content is not what was archived")
    found = []
    for text in unpack(data):
        line = loads(text)
        event = read_line(line["event"])
        if not isinstance(event, PackedEvent):
            raise BadLine(event.id, "it is no event")
        found.append(ArchivedEvent(line["pos"], line["lane"], event, line.get("origin")))
    return found


async def check_archives(store: Store, folder: Path) -> list[LogFault]:
    """What is wrong with the archives of a log; empty when nothing is."""
    parts = await store.read(archived_parts)
    faults: list[LogFault] = []
    known: set[str] = set()
    heads: dict[str, tuple[int, str]] = {}
    upto = 0
    for part in parts:
        if part.first != upto + 1:
            faults.append(LogFault(part.first, part.file, f"the archive before it ends at {upto}"))
        upto = part.upto
        try:
            events = await asyncio.to_thread(read_archive, folder, part)
        except FileNotFoundError:
            faults.append(LogFault(part.first, part.file, "the archive is not there"))
            continue
        except (BadPack, BadLine, OSError, ValueError, KeyError, TypeError) as error:
            faults.append(LogFault(part.first, part.file, f"the archive cannot be read: {error}"))
            continue
        faults += await _check_part(store, part, events, known, heads)
    return faults


async def _check_part(
    store: Store,
    part: ArchivedPart,
    events: Sequence[ArchivedEvent],
    known: set[str],
    heads: dict[str, tuple[int, str]],
) -> list[LogFault]:
    """Every lane of an archive goes on from where it stood, every cause came before, and it ends as the log says."""
    faults = []
    if len(events) != part.events or any(not part.first <= found.pos <= part.upto for found in events):
        faults.append(LogFault(part.first, part.file, "the archive has other events than were archived"))
    outside = {cause for found in events for cause in found.event.causes} - known
    outside -= {found.event.id for found in events}
    # What stayed where it was recorded.
    stubs = await store.read(lambda tx: tx.all(Q.stubs_of, ids=dumps(sorted(outside))))
    known |= {row["id"] for row in stubs}
    for found in events:
        event = found.event
        seq, head = heads.get(found.lane, (0, None))
        missing = [cause for cause in event.causes if cause not in known]
        if missing:
            faults.append(LogFault(found.pos, event.id, f"its cause {missing[0]} is missing"))
        if event.seq != seq + 1 or (head is not None and head != event.prev):
            faults.append(LogFault(found.pos, event.id, f"its lane jumps from {seq} to {event.seq}"))
        heads[found.lane] = (event.seq, event.id)
        known.add(event.id)
    if wrong := [key for key, head in part.heads.items() if heads.get(key) != head]:
        faults.append(
            LogFault(part.upto, part.file, f"the lane {wrong[0]} does not end where the log goes on")
        )
    return faults

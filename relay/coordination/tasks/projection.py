"""What is derived from the task events: the table `work_queue`, and the file tasks.json.

Invariants:
- the tables are the fold of the log: `rebuild` makes the same rows from nothing. Only the lease of a claim is not in
  the log, since every call of its session extends it: a rebuild keeps the one that it finds;
- the file is the board as it stands, whole: written beside and renamed into place, so a reader never sees
  half of one; it is compared byte by byte, so a lost, old or damaged one is found and written anew.

The file's effect is outside the database and idempotent: writing it twice is writing it once.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog

from relay.base.files import read_regular, write_atomically
from relay.coordination.tasks.board import Board
from relay.coordination.tasks.task import Task
from relay.coordination.tasks.task_events import BY_PEOPLE, CHANGED, TASK_EVENTS, Change, Q, pairs_of, put
from relay.log import events
from relay.model import references
from relay.store.ports import Store, Tx
from relay.store.wakeup import Wakeup

log = structlog.get_logger(__name__)
VERSION = 1
#: Seconds between two looks whether the file is still there and as it was written.
POLL_S = 5.0
#: Seconds to wait after a commit for more of a burst, so a busy room costs few reads and fewer writes.
SETTLE_S = 0.05
_BATCH = 500
#: Inode, size and time of the last change.
_Stamp = tuple[int, int, int]


@dataclass(slots=True)
class Folded:
    """What the log says: each task by its id, and each task event's place and undo."""

    tasks: dict[str, Task] = field(default_factory=dict)
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)


async def fold(tx: Tx) -> Folded:
    """Read every task event of the log. Runs in the caller's transaction."""
    folded, after = Folded(), 0
    while page := await events.read_after(tx, after, types=sorted(TASK_EVENTS), limit=_BATCH):
        for event in page:
            after = event.pos
            for _, task in pairs_of(event):
                folded.tasks[task.id] = task
            folded.changes[event.id] = {
                "pos": event.pos,
                "event_id": event.id,
                "undoable": int(event.outputs["change"] in BY_PEOPLE),
                "undone_by": None,
            }
            if event.type == CHANGED and event.outputs["change"] == Change.UNDONE:
                folded.changes[event.outputs["undid"]["event"]]["undone_by"] = event.id
    return folded


async def strays(tx: Tx) -> list[str]:
    """Where the tables are not what the log says, for people; empty when they are."""
    folded = await fold(tx)
    stored = {row["id"]: Task.of_row(row) for row in await tx.all(Q.all_tasks)}
    differences = [
        f"task {references.task((folded.tasks.get(id) or stored[id]).number)} differs from the log"
        for id in sorted({*folded.tasks, *stored})
        if _unleased(folded.tasks.get(id)) != _unleased(stored.get(id))
    ]
    needs = {(row["task_id"], row["needs"]) for row in await tx.all(Q.all_needs)}
    if needs != {(task.id, need.id) for task in folded.tasks.values() for need in task.depends_on}:
        differences.append("the list of what tasks need differs from the log")
    if folded.changes != {row["event_id"]: dict(row) for row in await tx.all(Q.all_changes)}:
        differences.append("the list of task changes differs from the log")
    return differences


async def rebuild(tx: Tx) -> int:
    """Make `work_queue`, `work_needs` and `task_changes` anew from the log, in the caller's transaction; how many
    tasks."""
    folded = await fold(tx)
    leases = {(row["id"], row["fence"]): row["lease_until"] for row in await tx.all(Q.leases)}
    await tx.execute(Q.forget_tasks)
    await tx.execute(Q.forget_all_needs)
    await tx.execute(Q.forget_changes)
    for task in folded.tasks.values():
        lease = leases.get((task.id, task.fence), task.lease_until)
        await put(tx, replace(task, lease_until=lease) if task.claim else task, rewired=True)
    for change in folded.changes.values():
        made = {name: change[name] for name in ("pos", "event_id", "undoable")}
        await tx.execute(Q.put_change, **made)
        if change["undone_by"]:
            await tx.execute(Q.mark_undone, event_id=change["event_id"], undone_by=change["undone_by"])
    return len(folded.tasks)


def _unleased(task: Task | None) -> Task | None:
    return None if task is None else replace(task, lease_until=None)


async def _last_change(tx: Tx) -> int:
    row = await tx.one(Q.last_change)
    return row["pos"] if row else 0


async def render(tx: Tx) -> bytes:
    """The bytes that tasks.json must hold now: `{"version", "cursor", "tasks": [TASK...]}`; `cursor` is the
    place of the newest task event."""
    tasks = await Board().list(tx)
    content: Mapping[str, Any] = {
        "version": VERSION,
        "cursor": await _last_change(tx),
        "tasks": [task.as_json() for task in tasks],
    }
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


class TasksFile:
    """Keeps tasks.json at `path` current. `run` never ends; `sync` does it once."""

    def __init__(
        self, store: Store, path: Path, *, poll_s: float = POLL_S, settle_s: float = SETTLE_S
    ) -> None:
        self._store, self._path = store, path
        self._poll_s, self._settle_s = poll_s, settle_s
        self._cursor = -1
        self._seen: _Stamp | None = None

    async def run(self) -> None:
        """Follow the board; raises OSError when the file cannot be written."""
        wakeup = self._store.wakeup(TASK_EVENTS)
        try:
            while True:
                await self.sync()
                await self._until_stale(wakeup)
        finally:
            wakeup.close()

    async def _until_stale(self, wakeup: Wakeup) -> None:
        """Wait until the board changed, or the file did (which is looked at every `poll_s`)."""
        looked = time.monotonic()
        while True:
            if await wakeup.wait(max(0.0, looked + self._poll_s - time.monotonic())):
                await asyncio.sleep(self._settle_s)
                if await self._store.read(_last_change) != self._cursor:
                    return
            if time.monotonic() >= looked + self._poll_s:
                if await asyncio.to_thread(_stamp, self._path) != self._seen:
                    return
                looked = time.monotonic()

    async def sync(self) -> bool:
        """Write the file if it is not what it must be; says whether it wrote."""

        async def look(tx: Tx) -> tuple[int, bytes]:
            return await _last_change(tx), await render(tx)

        cursor, wanted = await self._store.read(look)
        wrote, self._seen = await asyncio.to_thread(_make, self._path, wanted)
        if wrote and cursor == self._cursor:
            log.warning("tasks.json was lost or damaged and is written again", path=str(self._path))
        self._cursor = cursor
        return wrote

    async def is_current(self) -> bool:
        """Does the file hold what it must?"""
        wanted = await self._store.read(render)
        return await asyncio.to_thread(_holds, self._path, wanted)


def _stamp(path: Path) -> _Stamp | None:
    """What changes when the file does; None when there is none."""
    try:
        return _stamp_of(path.stat())
    except OSError:
        return None


def _stamp_of(stat: os.stat_result) -> _Stamp:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _holds(path: Path, wanted: bytes) -> bool:
    try:
        return read_regular(path, len(wanted)) == wanted
    except OSError:
        return False


def _make(path: Path, wanted: bytes) -> tuple[bool, _Stamp | None]:
    """Write the file unless it holds what it must; whether it did, and the stamp of exactly these bytes."""
    # The stamp is taken before the look, and of the file before it is in place: a change between the two
    # then shows as another stamp, never as ours.
    stamp: _Stamp | None = _stamp(path)
    if _holds(path, wanted):
        return False, stamp
    return True, _stamp_of(write_atomically(path, wanted))

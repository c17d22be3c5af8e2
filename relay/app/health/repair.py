"""Mends what a crash, a kill or a hand can leave behind in a room.

Invariants:
- with a daemon there, only the daemon mends (`repair_live`, behind POST /api/repair); without one, whoever asks
  (`repair_stopped`), and a job is given back only while the database's write lock is held and no daemon is
  there: one that starts meanwhile waits, and finds it done;
- nothing that a person or an agent said is changed or dropped;
- each step stands alone: one that fails is told, and the others go on. Whether the room is well then is for a
  second look to say.
"""

from __future__ import annotations

import asyncio
import math
import os
import stat
from collections.abc import Awaitable, Callable, Container
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from relay.app.fleet.fleet import dead_holders
from relay.app.health.data import JOURNAL_BYTES
from relay.app.health.process import pid_of
from relay.app.runtime import instance
from relay.base.files import write_atomically
from relay.config.settings import Settings
from relay.coordination.tasks.projection import TasksFile, rebuild, strays
from relay.faces.http.requests.auth import ensure_token
from relay.room.dispatch.recovery import recover_stale_active
from relay.room.journal.values import Job
from relay.room.transcript import file_position
from relay.room.transcript.checkpoint import PlaceMoved, begin_anew, kept_place
from relay.room.transcript.joining import fresh_place
from relay.store.open import has_saved, open_store, put_back
from relay.store.ports import Store, StoreError, StoreMissing, Tx

log = structlog.get_logger(__name__)
#: The holder of no daemon: every job belongs to another.
_NOBODY = ""


@dataclass(frozen=True, slots=True)
class Repaired:
    """One thing that was mended, under the name of its check; `done` False: it could not be, and why."""

    name: str
    detail: str
    done: bool = True

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


Step = Callable[[], Awaitable[list[Repaired]]]


async def repair_live(
    store: Store,
    settings: Settings,
    now: float,
    *,
    holder: str,
    running: Callable[[], Container[int]],
    dead: Callable[[Tx], Awaitable[Callable[[Job], bool]]],
    stale_after_s: float,
) -> list[Repaired]:
    """Mend a running room, in its daemon. `now`: Unix seconds; `dead` says which holders of jobs are.

    Given back are jobs of dead holders, and those past both their lease and `stale_after_s`; never a job
    whose turn is running in this daemon: `holder` is how it signs, `running()` the numbers of those jobs. The
    tail looks after itself while it runs.
    """

    async def jobs() -> list[Repaired]:
        async def work(tx: Tx) -> list[Repaired]:
            return await _give_back(tx, now, stale_after_s, await dead(tx), holder=holder, running=running())

        return await store.write(work, durable=True)

    return await _each(
        store.errors,
        ("folder", lambda: asyncio.to_thread(_folder, settings)),
        ("lock", lambda: asyncio.to_thread(_own_pid, settings)),
        ("queue", jobs),
        ("projections", lambda: _projections(store, settings)),
        ("database", lambda: _checkpoint(store, whole=False)),
    )


async def repair_stopped(settings: Settings, now: float) -> list[Repaired]:
    """Repair a room whose daemon is gone."""
    mended = await _each(
        StoreError,
        ("folder", lambda: asyncio.to_thread(_folder, settings)),
        ("lock", lambda: asyncio.to_thread(_stale, settings)),
        ("database", lambda: asyncio.to_thread(_saved, settings)),
    )
    try:
        # As a daemon would, so that none begins meanwhile and none that runs elsewhere is disturbed.
        store = await open_store(settings, create=False, keeper=True)
    except StoreMissing:
        return mended
    except (StoreError, OSError) as error:
        return [*mended, Repaired("database", str(error), done=False)]

    async def jobs() -> list[Repaired]:
        async def work(tx: Tx) -> list[Repaired]:
            if _daemon_is_there(settings):
                return []
            if settings.storage != "postgres":
                return await _give_back(tx, now, 0.0, lambda _: True)
            # Others of its fleet may be at work.
            dead = await dead_holders(tx, settings, but=settings.member_name)
            return await _give_back(tx, now, math.inf, dead)

        return await store.write(work, durable=True)

    try:
        mended += await _each(
            store.errors,
            ("queue", jobs),
            ("transcript", lambda: _tail(store, settings, now)),
            ("projections", lambda: _projections(store, settings)),
            ("database", lambda: _checkpoint(store, whole=True)),
        )
    finally:
        await store.close()
    return mended


async def _each(of_the_engine: type[Exception], *steps: tuple[str, Step]) -> list[Repaired]:
    mended: list[Repaired] = []
    for name, step in steps:
        try:
            mended += await step()
        except (StoreError, of_the_engine, OSError, instance.InstanceError) as error:
            log.warning("repair failed", name=name, error=str(error))
            mended.append(Repaired(name, f"{type(error).__name__}: {error}", done=False))
    return mended


def _daemon_is_there(settings: Settings) -> bool:
    try:
        return instance.running(settings) is not None
    except instance.DamagedRecord:
        return False


def _folder(settings: Settings) -> list[Repaired]:
    mended, path = [], settings.runtime_dir
    if not path.exists():
        path.mkdir(mode=0o700, parents=True)
        mended.append(Repaired("folder", f"made {path.name}"))
    for place, mode in ((path, 0o700), (settings.token_path, 0o600)):
        if place.exists() and stat.S_IMODE(place.stat().st_mode) & 0o077:
            place.chmod(mode)
            mended.append(Repaired("folder", f"closed {place.name} to other users (mode {mode:o})"))
    if settings.db_path.exists() and not os.path.lexists(settings.token_path):
        ensure_token(settings.token_path)
        mended.append(Repaired("folder", f"made {settings.token_path.name}"))
    return mended


def _own_pid(settings: Settings) -> list[Repaired]:
    """In the daemon: its pid file names it."""
    record, pid = instance.read(settings.lock_path), os.getpid()
    if record is None or record.pid != pid or pid_of(settings.pid_path) == pid:
        return []
    write_atomically(settings.pid_path, f"{pid}\n", durable=False)
    return [Repaired("lock", f"wrote {settings.pid_path.name} again")]


def _stale(settings: Settings) -> list[Repaired]:
    mended = []
    if instance.remove_stale(settings.lock_path, settings.locks.ttl):
        mended.append(Repaired("lock", f"removed the stale {settings.lock_path.name}"))
    # With no record there is no daemon whose pid this could be.
    if settings.pid_path.exists() and not settings.lock_path.exists():
        settings.pid_path.unlink(missing_ok=True)
        mended.append(Repaired("lock", f"removed {settings.pid_path.name}, which named no running daemon"))
    return mended


def _saved(settings: Settings) -> list[Repaired]:
    """Put back what a daemon saved of a database whose files were removed or replaced beneath it."""
    if not has_saved(settings):
        return []
    if _daemon_is_there(settings):
        return [Repaired("database", "a saved copy is put back when relay is stopped", done=False)]
    text = put_back(settings)
    return [Repaired("database", text)] if text else []


async def _give_back(
    tx: Tx,
    now: float,
    stale_after_s: float,
    is_dead: Callable[[Job], bool],
    *,
    holder: str = _NOBODY,
    running: Container[int] = (),
) -> list[Repaired]:
    jobs = await recover_stale_active(
        tx, now=now, stale_after_s=stale_after_s, holder=holder, is_dead=is_dead, running=running
    )
    text = "is pending again; its agent is told that it was cut off"
    return [Repaired("queue", f"job {job.id} of {job.agent} {text}") for job in jobs]


async def _tail(store: Store, settings: Settings, now: float) -> list[Repaired]:
    """A place that the file does not have any more: what is in the file now is history (as the tail has it)."""
    path, member = settings.transcript_path, settings.member

    here = await store.read(lambda tx: kept_place(tx, member))
    if here is None:
        return []
    chunk = await asyncio.to_thread(file_position.read, path, here, settings.workspace.max_entry_bytes)
    if not chunk.replaced:
        return []
    fresh = await fresh_place(store, path, member, here, chunk.size)

    async def work(tx: Tx) -> list[Repaired]:
        if _daemon_is_there(settings) or await kept_place(tx, member) != here:
            return []
        await begin_anew(tx, member, here, fresh, now=now)
        return [Repaired("transcript", f"it is read from here on; {chunk.size:,} bytes count as history")]

    try:
        return await store.write(work, durable=True)
    except PlaceMoved:
        return []


async def _projections(store: Store, settings: Settings) -> list[Repaired]:
    mended = []
    if wrong := await store.read(strays):
        count = await store.write(rebuild)
        mended.append(Repaired("projections", f"rebuilt the board from the log ({count} tasks): {wrong[0]}"))
    if await TasksFile(store, settings.tasks_path).sync():
        mended.append(Repaired("projections", f"wrote {settings.tasks_path.name} again"))
    return mended


async def _checkpoint(store: Store, *, whole: bool) -> list[Repaired]:
    """Carry the journal over into the database; told where that was overdue, since else it is what any room does."""
    before = (await store.size()).journal
    if not before:
        return []
    done = await store.checkpoint(whole=whole)
    if before <= JOURNAL_BYTES:
        return []
    if not done:
        text = "the database is in use: not all of its write-ahead log could be checkpointed"
        return [Repaired("database", text, done=False)]
    return [Repaired("database", f"checkpointed the write-ahead log ({before >> 10:,} KiB)")]

"""Following the log: readers with a cursor, and followers whose cursor is kept.

Invariants: a follower's effect inside the database commits with its cursor, so it happens exactly once, and only
where the cursor still is where the events were read (a rebuild sets it back meanwhile); an event that fails a
follower five times is parked and announced, and the follower goes on; what followers read and emit is acyclic.
Wake-ups are hints: the read decides, so a lost one costs a poll and nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import structlog

from relay.base.durations import now_iso
from relay.log import events
from relay.log.events import Event, Lane, NewEvent, Q
from relay.store.fence import Fenced
from relay.store.ports import OutcomeUnknown, Store, StoreAway, StoreBusy, StoreError, Tx

log = structlog.get_logger(__name__)
#: After this many failures on one event it is parked.
PARK_AFTER = 5
#: Seconds between two looks without a wake-up, as a safety net. The store itself looks far more often.
POLL_S = 60.0
#: Seconds after which a follower lets others write: a post waits for it no longer.
STEP_S = 0.01
#: Events that are taken together at most, for the same reason: memories of messages take 0.2 to 0.3 ms each.
TOGETHER = 50
PARKED = "follower.parked"


class Follower(Protocol):
    """A reaction to events. `apply` runs in the transaction that moves the cursor."""

    name: str
    reads: frozenset[str]
    emits: frozenset[str]

    async def apply(self, tx: Tx, event: Event) -> None: ...


@runtime_checkable
class BatchFollower(Follower, Protocol):
    """One that takes the events of a transaction together, for less than one by one."""

    async def apply_all(self, tx: Tx, new: Sequence[Event]) -> None: ...


async def tail(
    store: Store, after: int, *, types: Sequence[str] | None = None, batch: int = 500, first: bool = False
) -> AsyncIterator[list[Event]]:
    """Batches of events behind the cursor `after`, first the stored, then the live, without a gap. Never ends.
    `first`: it reads before whoever else waits for the same commit."""
    wakeup = store.wakeup(types, first=first)
    try:
        while True:
            new = await store.read(
                partial(events.read_after, after=after, types=types, limit=batch), single=True
            )
            if new:
                after = new[-1].pos
                yield new
            if len(new) < batch:
                await wakeup.wait(POLL_S)
    finally:
        wakeup.close()


def check_acyclic(followers: Iterable[Follower]) -> None:
    """Raise StoreError naming a cycle, if what some followers emit is, in the end, read by themselves."""
    nodes = list(followers)
    feeds = {f.name: [g.name for g in nodes if f.emits & g.reads] for f in nodes}
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            raise StoreError(f"followers feed each other in a cycle: {' -> '.join([*path, name])}")
        if name not in done:
            for following in feeds[name]:
                visit(following, [*path, name])
            done.add(name)

    for node in nodes:
        visit(node.name, [])


@dataclass(frozen=True, slots=True)
class Progress:
    """What one step did: the cursor now, the events applied, and the one that failed. `moved`: somebody else has set
    the cursor meanwhile, so it is to be read anew."""

    pos: int
    applied: int
    failed: Event | None = None
    error: Exception | None = None
    moved: bool = False


async def run(store: Store, follower: Follower) -> None:
    """Drive one follower for ever, from its kept cursor on."""
    wakeup = store.wakeup(follower.reads)
    wanted = sorted(follower.reads)
    seen, heard = -1, True
    try:
        while True:
            # Most looks find no event. The kept cursor moves with an event, so it is not read then; it also moves
            # over the events of others, but only while it is quiet: who archives the log asks how far all came.
            if seen >= 0 and not await store.read(
                partial(events.read_after, after=seen, types=wanted, limit=1), single=True
            ):
                if not heard and await store.read(events.last_pos) > seen:
                    seen = await store.write(partial(_pass_over, follower=follower, seen=seen))
                heard = await wakeup.wait(POLL_S)
                continue
            progress = await step(store, follower)
            seen = -1 if progress.moved else progress.pos
            if progress.moved:
                continue
            if progress.failed is not None and progress.error is not None:
                await _record_failure(store, follower, progress.failed, progress.error)
                await wakeup.wait(0.2)
            elif not progress.applied:
                heard = await wakeup.wait(POLL_S)
    finally:
        wakeup.close()


async def catch_up(store: Store, follower: Follower, until: int, *, batch: int, pause_s: float) -> None:
    """Drive one follower from its kept cursor to `until`, `batch` events a transaction with a pause of `pause_s`
    seconds behind each, so that others come in between. Goes on where it was when it was ended. Its cursor stays:
    `drop_cursor` once it is never driven again."""
    row = await store.read(lambda tx: tx.one(Q.follower, name=follower.name))
    if until <= (row["pos"] if row else 0):
        return
    while True:
        progress = await step(store, follower, batch=batch)
        if progress.failed is not None and progress.error is not None:
            await _record_failure(store, follower, progress.failed, progress.error)
        elif not progress.moved and (not progress.applied or progress.pos >= until):
            return
        await asyncio.sleep(pause_s)


async def put_cursor(tx: Tx, follower: Follower, pos: int) -> None:
    """Let a follower go on behind this place in the log."""
    await tx.execute(Q.put_follower, name=follower.name, pos=pos)


async def drop_cursor(tx: Tx, follower: Follower) -> None:
    """A follower has done its work: nothing waits for it any more."""
    await tx.execute(Q.drop_follower, name=follower.name)


async def step(store: Store, follower: Follower, *, batch: int = 200) -> Progress:
    """Apply the next events, with the cursor in the same transaction; a new one begins after `STEP_S`.

    When one fails, those before it are committed on their own and the failing one is returned. Where they are taken
    together and that fails, they are taken one by one, which shows whose fault it was.
    """
    wanted = sorted(follower.reads)

    async def read(tx: Tx) -> tuple[int, list[Event]]:
        row = await tx.one(Q.follower, name=follower.name)
        cursor = row["pos"] if row else 0
        return cursor, await events.read_after(tx, cursor, types=wanted, limit=batch)

    cursor, new = await store.read(read)
    done = 0
    if isinstance(follower, BatchFollower) and len(new) > 1:
        try:
            for part in (new[at : at + TOGETHER] for at in range(0, len(new), TOGETHER)):
                await store.write(partial(_apply_all, follower=follower, part=part, cursor=cursor))
                done, cursor = done + len(part), part[-1].pos
        except _Moved:
            return Progress(cursor, done, moved=True)
        except (OutcomeUnknown, StoreBusy, StoreAway, Fenced, store.transient):
            raise  # no event's fault, and perhaps they are applied
        except Exception:
            log.warning("events are taken one by one", follower=follower.name, exc_info=True)
    while done < len(new):
        group = new[done:]

        async def work(tx: Tx, group: Sequence[Event] = group, cursor: int = cursor) -> int:
            until = time.monotonic() + STEP_S
            applied = 0
            for event in group:
                try:
                    await follower.apply(tx, event)
                except Exception as error:
                    raise _ApplyFailed(event, error) from error
                applied += 1
                if time.monotonic() > until:
                    break
            await _move(tx, follower, cursor, group[applied - 1].pos)
            return applied

        try:
            done += await store.write(work)
            cursor = new[done - 1].pos
        except _Moved:
            return Progress(cursor, done, moved=True)
        except _ApplyFailed as failure:
            good = [event for event in group if event.pos < failure.event.pos]
            try:
                while good:
                    applied = await store.write(partial(work, group=good, cursor=cursor))
                    done, cursor, good = done + applied, good[applied - 1].pos, good[applied:]
            except _Moved:
                return Progress(cursor, done, moved=True)
            return Progress(cursor, done, failure.event, failure.error)
    return Progress(cursor, done)


async def _apply_all(tx: Tx, *, follower: BatchFollower, part: Sequence[Event], cursor: int) -> None:
    await follower.apply_all(tx, part)
    await _move(tx, follower, cursor, part[-1].pos)


async def _pass_over(tx: Tx, follower: Follower, seen: int) -> int:
    """Put the cursor behind the newest event where none after `seen` is the follower's; where it is then, -1: to be
    read anew."""
    end = await events.last_pos(tx)
    if await events.read_after(tx, seen, types=sorted(follower.reads), limit=1):
        return seen
    return end if await tx.execute(Q.move_follower, name=follower.name, before=seen, pos=end) else -1


async def _move(tx: Tx, follower: Follower, before: int, pos: int) -> None:
    if not await tx.execute(Q.move_follower, name=follower.name, before=before, pos=pos):
        raise _Moved


class _Moved(Exception):
    """The cursor is not where the events were read."""


class _ApplyFailed(Exception):
    def __init__(self, event: Event, error: Exception) -> None:
        super().__init__(str(error))
        self.event = event
        self.error = error


async def _record_failure(store: Store, follower: Follower, event: Event, error: Exception) -> None:
    async def work(tx: Tx) -> bool:
        row = await tx.one(Q.follower, name=follower.name)
        pos = row["pos"] if row else 0
        counted = await tx.one(Q.follower_failed, name=follower.name, pos=pos, event_id=event.id)
        if counted is None or counted["failures"] < PARK_AFTER:
            return False
        text = f"{type(error).__name__}: {error}"
        await tx.execute(Q.park_event, follower=follower.name, event_id=event.id, error=text, at=now_iso())
        await tx.execute(Q.put_follower, name=follower.name, pos=event.pos)
        await events.append(
            tx,
            NewEvent(
                type=PARKED,
                lane=Lane("room", f"follower:{follower.name}:{event.id[:12]}", short=True),
                inputs={"follower": follower.name, "event": event.id},
                outputs={"error": text},
                parents=[event.id],
            ),
        )
        return True

    parked = await store.write(work)
    log.warning("follower failed", follower=follower.name, event_id=event.id, error=str(error), parked=parked)

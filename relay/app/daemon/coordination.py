"""Coordination in a running room: what the daemon does about locks, sessions and tasks without being asked.

Invariants: nothing here decides who holds what, which is decided when somebody asks; here people are told, sessions
of turns that run are kept alive, and what was overridden while the room was away is taken in once. Every task is
supervised by the daemon.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from relay.app.daemon.notices import EndedIntents, Notices
from relay.app.guard.sqlite_lookup import KEPT
from relay.base.files import reading
from relay.config.coordination import CoordinationSettings
from relay.coordination.sessions import Heartbeat, Q, Session, Sessions
from relay.coordination.writes.guard import MOST_TOLD, MOST_WHY, OVERRIDDEN, REFUSED, caller_of, record
from relay.log import events, follow
from relay.log.events import Lane, NewEvent
from relay.model import SESSION_ID, Caller, LockRefusal
from relay.store.ports import Store, StoreError, Tx, is_away

log = structlog.get_logger(__name__)
Start = Callable[[str, Callable[[], Awaitable[None]]], None]
#: Refused edits that wait to be recorded; an agent that asks faster than that is in a loop, and the log says so.
MOST_WAITING = 1000
#: A session is kept alive this often in the time of its lease, and at least every `BEAT_S` seconds.
BEATS = 4
BEAT_S = 60.0
#: Bytes of the hooks' file that are taken in at once.
MOST_KEPT = 1_048_576


class CoordinationDesk:
    """`sweeps` are called every `sweep_s`, with the sessions' own (each ends on record what is over); `running` gives
    the session of each agent whose turn runs."""

    def __init__(
        self,
        store: Store,
        runtime_dir: Path,
        settings: Callable[[], CoordinationSettings],
        heartbeat: Heartbeat,
        *,
        agents: Callable[[], Sequence[str]],
        running: Callable[[], Mapping[str, str]],
        sweeps: Sequence[Callable[[], Awaitable[object]]] = (),
    ) -> None:
        self._store, self._runtime_dir, self._settings = store, runtime_dir, settings
        self._heartbeat = heartbeat
        self._running = running
        self._sweeps = (Sessions(store, heartbeat).sweep, *sweeps)
        self._waiting: deque[tuple[Caller, tuple[LockRefusal, ...]]] = deque()
        self._refused = asyncio.Event()
        self.followers: tuple[follow.Follower, ...] = (Notices(agents), EndedIntents())

    def start(self, start: Start) -> None:
        """Start all that runs for ever."""
        start("coordination-sweep", self._sweep_for_ever)
        start("coordination-beats", self._beat_for_ever)
        start("coordination-refusals", self._record_refusals)
        for one in self.followers:
            start(one.name, lambda one=one: follow.run(self._store, one))  # type: ignore[misc]

    def refused(self, caller: Caller, found: Sequence[LockRefusal]) -> None:
        """An edit was refused: it is recorded soon, since the edit does not wait for that."""
        if len(self._waiting) >= MOST_WAITING:
            log.warning("refused edit not recorded", agent=caller.agent, path=found[0].path)
            return
        self._waiting.append((caller, tuple(found)))
        self._refused.set()

    # -- tasks

    async def _sweep_for_ever(self) -> None:
        while True:
            await self.sweep()
            await asyncio.sleep(self._settings().sweep_s)

    async def sweep(self) -> None:
        """Once: what died is ended on record, what was overridden is taken in."""
        for one in self._sweeps:
            try:
                await one()
            except (StoreError, self._store.transient) as error:
                if not is_away(error):  # the store itself logs that
                    log.warning("sweep put off", error=str(error))
        await take_in(self._store, self._runtime_dir)

    async def _beat_for_ever(self) -> None:
        while True:
            await asyncio.sleep(min(BEAT_S, self._settings().session_lease_s / BEATS))
            await self.beat()

    async def beat(self) -> None:
        """Once: who works is alive, though it says nothing for long. A session that never called, or whose lease is
        over, is not brought to life by that."""
        for agent, session in list(self._running().items()):
            caller = Caller(agent, session)
            try:
                if await self._store.read(lambda tx, caller=caller: _lives(tx, caller)):  # type: ignore[misc]
                    await self._store.write(lambda tx, caller=caller: self._heartbeat.touch(tx, caller))  # type: ignore[misc]
            except (StoreError, self._store.transient) as error:
                if not is_away(error):
                    log.warning("heartbeat put off", agent=agent, error=str(error))

    async def _record_refusals(self) -> None:
        while True:
            await self._refused.wait()
            self._refused.clear()
            while self._waiting:
                batch = list(self._waiting)

                async def work(tx: Tx, batch: Sequence[tuple[Caller, Sequence[LockRefusal]]] = batch) -> None:
                    for caller, found in batch:
                        await record(tx, caller, found, act="edit")

                await self._store.write(work)
                for _ in batch:
                    self._waiting.popleft()


async def _lives(tx: Tx, caller: Caller) -> bool:
    who = {"agent": caller.agent, "session": caller.session}
    now = await tx.now()
    row = await tx.one(Q.session, **who, now=now, claim_s=0.0, gap=0.0)
    return row is not None and Session.of_row(row).alive(now)


async def take_in(store: Store, folder: Path) -> int:
    """Take in what git's hooks refused or let through while the room did not run; how many. Each counts once."""
    lines = await asyncio.to_thread(_read, folder / KEPT)
    if not lines:
        return 0

    async def work(tx: Tx) -> None:
        for line in lines:
            await _take(tx, line)

    await store.write(work, durable=True)
    await asyncio.to_thread(_drop, folder / KEPT, lines)
    return len(lines)


async def _take(tx: Tx, line: bytes) -> None:
    told = _parsed(line)
    person = told.get("person") is not False
    session = told.get("session")
    if not isinstance(session, str) or not SESSION_ID.fullmatch(session):
        session = None
    caller = caller_of(str(told.get("agent") or "someone"), session, person=person)
    paths, refusals, at = told.get("paths"), told.get("refusals"), told.get("at")
    outputs = {
        "paths": [str(one) for one in paths][:MOST_TOLD] if isinstance(paths, list) else [],
        "more": told.get("more") if isinstance(told.get("more"), int) else 0,
        "reason": str(told.get("reason") or "")[:MOST_WHY],
        "by": caller.agent,
        "act": str(told.get("act") or "write"),
        "unasked": str(told.get("unasked") or "")[:MOST_WHY],
        "refusals": refusals[:MOST_TOLD] if isinstance(refusals, list) else [],
    }
    await events.append(
        tx,
        NewEvent(
            REFUSED if told.get("type") == REFUSED else OVERRIDDEN,
            Lane(caller.session, caller.agent),
            outputs=outputs,
            role="human" if person else "agent",
            source_key=f"guard:{hashlib.sha256(line).hexdigest()}",
            at=at if isinstance(at, str) else None,
        ),
    )


def _parsed(line: bytes) -> dict[str, Any]:
    """A line that somebody damaged is taken for an override: that one must not be lost."""
    try:
        told = json.loads(line)
    except ValueError:
        told = None
    return told if isinstance(told, dict) else {"reason": line.decode("utf-8", "replace")}


def _read(file: Path) -> list[bytes]:
    """Its whole lines. Blocking."""
    try:
        with reading(file) as handle:
            data = handle.read(MOST_KEPT)
    except FileNotFoundError:
        return []
    return [line for line in data[: data.rfind(b"\n") + 1].split(b"\n") if line.strip()]


def _drop(file: Path, lines: Sequence[bytes]) -> None:
    """Take these lines out again. What a hook adds at that very moment may be taken in once more, which its hash
    keeps from counting twice, and is not lost: the file is moved away before it is read. Blocking."""
    aside = file.with_name(f"{file.name}.taken")
    file.rename(aside)
    left = _read(aside)[len(lines) :]
    if left:
        with file.open("ab") as handle:
            handle.write(b"".join(line + b"\n" for line in left))
    aside.unlink()

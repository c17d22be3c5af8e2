"""What the daemon does about locks, sessions and tasks without being asked.

Invariants: who holds what is decided when somebody asks, never here. Here the sessions of running turns are kept
alive, dead ones are ended on record, refused edits become events, and the lines that git's hooks wrote while the room
was away are read once. The daemon supervises every task.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from relay.app.attach.told_messages import AgentsMentions, tell
from relay.app.daemon.notices import EndedIntents, Notices, UndeclaredWrites
from relay.app.guard.lookup import KEPT
from relay.base.files import reading
from relay.config.settings import LiveSettings
from relay.coordination import attached
from relay.coordination.writes.fencing import LockCheck
from relay.coordination.writes.lock_guard import (
    MOST_TOLD,
    MOST_WHY,
    OVERRIDDEN,
    REFUSED,
    caller_of,
    record,
)
from relay.faces.services import Services
from relay.log import events, follow
from relay.log.events import Lane, NewEvent
from relay.model import LOCKED, SESSION_ID, Caller, LockRefusal
from relay.room.dispatch.permissions import code_span
from relay.room.dispatch.running import RunningTurns
from relay.room.journal import ledger
from relay.room.journal.frames import LOCK_EVENTS
from relay.store.ports import Store, StoreError, Tx, is_away

log = structlog.get_logger(__name__)
Start = Callable[[str, Callable[[], Awaitable[None]]], None]
#: Refused edits that wait to be recorded; an agent that asks faster than that is in a loop, and the log says so.
MOST_WAITING = 1000
#: A session is kept alive this often in the time of its lease, and at least every `BEAT_S` seconds.
BEATS = 4
#: What a line of the room says of a lock that came free.
FREED = "lock.free"
BEAT_S = 60.0
#: Bytes of the hooks' file that are taken in at once.
MOST_KEPT = 1_048_576


class CoordinationTasks:
    """The tasks of a running room that concern its locks, sessions and tasks."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        services: Services,
        turns: RunningTurns,
        lock_check: LockCheck,
    ) -> None:
        self._store, self._settings, self._services, self._turns = store, settings, services, turns
        self._waiting: deque[tuple[Caller, tuple[LockRefusal, ...]]] = deque()
        self._refused = asyncio.Event()
        self.followers: tuple[follow.Follower, ...] = (
            Notices(settings),
            EndedIntents(),
            AgentsMentions(),
            UndeclaredWrites(settings, lock_check),
        )

    def start(self, start: Start, lead: Start) -> None:
        """Start all that runs for ever. `lead`: what one member of the fleet does alone."""
        lead("coordination-sweep", partial(self._for_ever, self.sweep))
        start("coordination-hooks", partial(self._for_ever, self._take_in))
        start("coordination-beats", self._beat_for_ever)
        start("coordination-refusals", self._record_refusals)
        start("coordination-freed", self._tell_freed)
        for follower in self.followers:
            lead(follower.name, partial(follow.run, self._store, follower))

    def refused(self, caller: Caller, refusals: Sequence[LockRefusal]) -> None:
        """An edit was refused: it is recorded soon, since the edit does not wait for that."""
        self._services.locks.was_refused(caller, [one.path for one in refusals if one.code == LOCKED])
        if len(self._waiting) >= MOST_WAITING:
            log.warning("refused edit not recorded", agent=caller.agent, path=refusals[0].path)
            return
        self._waiting.append((caller, tuple(refusals)))
        self._refused.set()

    async def tell_freed(self) -> None:
        """Tell each agent at work, and each attached session, of the paths that it was refused in this turn and that
        nothing keeps it from now. Once each."""
        locks, running = self._services.locks, self._turns.by_agent
        if not locks.refused:
            return
        at_work = {(agent, turn.plan.session) for agent, turn in running.items()}
        at_work |= {(one.agent, one.session) for one in await self._store.read(attached.here)}
        for agent, session in list(locks.refused):
            if session is None or (agent, session) not in at_work:
                del locks.refused[agent, session]
                continue
            caller = Caller(agent, session)
            freed = []
            for path in list(locks.refused[agent, session]):
                now = await locks.explain(caller, path)
                if now["free"] or now["yours"]:
                    del locks.refused[agent, session][path]
                    freed += [path] if now["free"] else []
            if freed:
                names = ", ".join(code_span(path) for path in freed)
                text = f"@{agent}: {names} {'is' if len(freed) == 1 else 'are'} free now. Acquire before you write."
                meta = {"coordination": FREED, "urgent": True}

                async def work(tx: Tx, text: str = text, agent: str = agent, meta: Any = meta) -> None:
                    message, said = await ledger.say(tx, text, to=[agent], meta=meta)
                    await tell(tx, message, said.id, [agent])

                await self._store.write(work)

    # -- tasks

    async def _for_ever(self, once: Callable[[], Awaitable[None]]) -> None:
        while True:
            await once()
            await asyncio.sleep(self._settings.current.coordination.sweep_s)

    async def _take_in(self) -> None:
        """Read what git's hooks wrote. Once."""
        await take_in(self._store, self._settings.current.runtime_dir)

    async def sweep(self) -> None:
        """End on record what died. Once."""
        services = self._services
        for step in (services.sessions.sweep, services.work.take_back, services.locks.prune):
            try:
                await step()
            except (StoreError, self._store.transient) as error:
                if not is_away(error):  # the store itself logs that
                    log.warning("sweep put off", error=str(error))

    async def _beat_for_ever(self) -> None:
        while True:
            await asyncio.sleep(min(BEAT_S, self._settings.current.coordination.session_lease_s / BEATS))
            await self.beat()

    async def _tell_freed(self) -> None:
        with closing(self._store.wakeup(LOCK_EVENTS)) as wakeup:
            while True:
                # A lease that runs out is no event.
                await wakeup.wait(self._settings.current.coordination.sweep_s)
                try:
                    await self.tell_freed()
                except (StoreError, self._store.transient) as error:
                    if not is_away(error):
                        log.warning("free locks not told", error=str(error))

    async def beat(self) -> None:
        """Keep the sessions of running turns alive, though they say nothing for long. Once."""
        for agent, turn in list(self._turns.by_agent.items()):
            try:
                await self._services.sessions.keep_alive(Caller(agent, turn.plan.session))
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
                    for caller, refusals in batch:
                        await record(tx, caller, refusals, act="edit")

                await self._store.write(work)
                for _ in batch:
                    self._waiting.popleft()


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
    entry = _parsed(line)
    person = entry.get("person") is not False
    session = entry.get("session")
    if not isinstance(session, str) or not SESSION_ID.fullmatch(session):
        session = None
    caller = caller_of(str(entry.get("agent") or "someone"), session, person=person)
    paths, refusals, at = entry.get("paths"), entry.get("refusals"), entry.get("at")
    outputs = {
        "paths": [str(path) for path in paths][:MOST_TOLD] if isinstance(paths, list) else [],
        "more": entry.get("more") if isinstance(entry.get("more"), int) else 0,
        "reason": str(entry.get("reason") or "")[:MOST_WHY],
        "by": caller.agent,
        "act": str(entry.get("act") or "write"),
        "unasked": str(entry.get("unasked") or "")[:MOST_WHY],
        "refusals": refusals[:MOST_TOLD] if isinstance(refusals, list) else [],
    }
    await events.append(
        tx,
        NewEvent(
            REFUSED if entry.get("type") == REFUSED else OVERRIDDEN,
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
        entry = json.loads(line)
    except ValueError:
        entry = None
    return entry if isinstance(entry, dict) else {"reason": line.decode("utf-8", "replace")}


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

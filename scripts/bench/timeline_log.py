"""The timeline in the log: recording with touches, pages of many events, verifying, merging clocks.

Each figure stands beside the same rows written or read by plain `sqlite3` in the same run.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.app.wiring.schema import SCHEMAS
from relay.base import vector_clock
from relay.log import events
from relay.log.encoding import dumps, loads
from relay.log.events import Lane
from relay.log.verify import verify
from relay.store.ports import query_text
from relay.store.sqlite.store import SqliteStore, open_store
from relay.timeline import projection, reading
from relay.timeline.reading import Filter
from scripts.bench.figures import Figure, at_most, spread, stopwatch
from scripts.bench.log import fill, together
from scripts.bench.log_writer import raw_connection

LANES, PAGE = 200, 500
#: One event in so many changes files, each two of so many paths.
EVERY, PATHS = 4, 20_000
#: Events of one statement as the large log is made.
AT_ONCE = 20_000
_TYPES = ("files.changed", "turn.started", "turn.ended", "message.posted")


@dataclass(frozen=True, slots=True)
class LogSizes:
    """`events` of the log of pages, `recorded` of the log that is recorded into, by `writers` for `seconds`."""

    events: int
    recorded: int
    writers: int
    seconds: float
    verified: tuple[int, ...]
    samples: int


def record(folder: Path, sizes: LogSizes) -> Iterator[Figure]:
    """One fact without files, and one with five touches, the verdict and its dependencies."""
    path, plain = folder / "record.db", folder / "record-raw.db"
    asyncio.run(_make_tables(path))
    asyncio.run(fill(path, sizes.recorded))
    shutil.copy(path, plain)
    where = f"{sizes.recorded:,} events there, {sizes.writers} processes, 5/s each"
    kinds = (
        ("record", "ours", "raw", at_most(p95=2.0, p99=5.0)),
        ("record with 5 touches", "touches", "touches-raw", at_most(p95=4.0, p99=10.0)),
    )
    for name, ours, raw, limits in kinds:
        for kind, file, goal in ((ours, path, limits), (raw, plain, None)):
            reports = together(file, kind, sizes.writers, 5.0, sizes.seconds)
            samples = [value for report in reports for value in report["took"]]
            yield spread(
                name if goal else f"{name}, raw",
                samples,
                limits=goal if sizes.recorded >= 100_000 else None,
                note=where,
            )


def pages(folder: Path, sizes: LogSizes) -> Iterator[Figure]:
    """A lane's newest heads, those of all lanes, and the last write of a path, in a large log."""
    path = folder / "pages.db"
    make_log(path, sizes.events)
    note = f"{sizes.events:,} events, {LANES} lanes mixed, {path.stat().st_size / 1e9:.2f} GB"
    large = sizes.events >= 2_000_000
    yield from asyncio.run(_pages(path, sizes, note, at_most(p95=10.0) if large else None))
    yield from asyncio.run(_last_writes(path, sizes, note, at_most(p95=2.0) if large else None))
    path.unlink()


async def _pages(path: Path, sizes: LogSizes, note: str, limits: Any) -> list[Figure]:
    dice = random.Random(2)
    store = await open_store(path, SCHEMAS)
    plain = raw_connection(path)
    plain.row_factory = sqlite3.Row
    lane_took: list[float] = []
    all_took: list[float] = []
    raw_took: list[float] = []
    try:
        for _ in range(sizes.samples):
            number, before = dice.randrange(LANES), dice.randrange(sizes.events // 2, sizes.events)
            wanted = Filter(name=_lane(number).key, before=before)
            with stopwatch(lane_took):
                heads = await store.read(lambda tx, wanted=wanted: reading.heads(tx, wanted, PAGE))
            assert heads
            with stopwatch(all_took):
                await store.read(lambda tx, before=before: reading.heads(tx, Filter(before=before), PAGE))
            with stopwatch(raw_took):
                plain.execute(
                    "SELECT pos, id, type, at FROM events WHERE session = ? AND lane = ? AND pos < ? "
                    "ORDER BY seq DESC LIMIT ?",
                    (_lane(number).session, _lane(number).name, before, PAGE),
                ).fetchall()
    finally:
        plain.close()
        await store.close()
    return [
        spread(f"lane page of {PAGE} heads", lane_took, limits=limits, note=note),
        spread(f"page of {PAGE} heads of all lanes", all_took, limits=limits, note=note),
        spread(f"lane page of {PAGE} heads, raw", raw_took, note=f"{note}; four columns"),
    ]


async def _last_writes(path: Path, sizes: LogSizes, note: str, limits: Any) -> list[Figure]:
    dice = random.Random(3)
    store = await open_store(path, SCHEMAS)
    plain = raw_connection(path)
    took: list[float] = []
    raw_took: list[float] = []
    ask = query_text(projection.Q.last_writes, "sqlite")
    try:
        for _ in range(sizes.samples * 5):
            wanted = {"paths": dumps([_path(dice.randrange(PATHS))]), "lane": "nobody/nobody"}
            with stopwatch(took):
                rows = await store.read(lambda tx, wanted=wanted: tx.all(projection.Q.last_writes, **wanted))
            with stopwatch(raw_took):
                plain.execute(ask, wanted).fetchall()
            assert len(rows) <= 1
    finally:
        plain.close()
        await store.close()
    return [
        spread("last write of a path", took, limits=limits, note=note),
        spread("last write of a path, raw", raw_took, note=note),
    ]


def verifies(folder: Path, sizes: LogSizes) -> Iterator[Figure]:
    """Every hash, cause and lane of a log; `raw`: reading its rows and hashing their bytes."""
    limits = {1_000: at_most(p95=100.0), 100_000: at_most(p95=15_000.0)}
    for count in sizes.verified:
        path = folder / f"verify-{count}.db"
        asyncio.run(fill(path, count))
        ours, raw = asyncio.run(_verify(path, 20 if count <= 1_000 else 3))
        yield spread(f"verify {count:,} events", ours, limits=limits.get(count))
        yield spread(f"verify {count:,} events, raw", raw)


async def _verify(path: Path, rounds: int) -> tuple[list[float], list[float]]:
    took: list[float] = []
    raw_took: list[float] = []
    store: SqliteStore = await open_store(path, [events.FOLDER])
    plain = raw_connection(path)
    try:
        for _ in range(rounds):
            with stopwatch(took):
                faults = await verify(store)
            assert not faults
            with stopwatch(raw_took):
                for row in plain.execute("SELECT * FROM events ORDER BY pos"):
                    hashlib.sha256(repr(row).encode()).hexdigest()
    finally:
        plain.close()
        await store.close()
    return took, raw_took


def clocks(sizes: LogSizes) -> Iterator[Figure]:
    """Merging the clocks of two authors who each have seen 20 and 200 lanes."""
    for lanes in (20, LANES):
        left = {_lane(number).key: number for number in range(lanes)}
        right = {_lane(number).key: lanes - number for number in range(lanes)}
        rounds = max(100, sizes.samples * 20)
        yield spread(
            f"clock merge, {lanes} lanes",
            _each(lambda left=left, right=right: vector_clock.merge(left, right), rounds),
            limits=at_most(p95=0.01) if lanes == 20 else None,
        )
        yield spread(
            f"clock merge, {lanes} lanes, raw",
            _each(lambda left=left, right=right: {**left, **right}, rounds),
            note="the union of two dictionaries, without the maximum",
        )


def _each(call: Callable[[], object], rounds: int) -> list[float]:
    took: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return took


# -- the large log


def make_log(path: Path, count: int) -> None:
    """A log of so many events on the lanes in turn at random, written in bulk: real rows of about 900 bytes in the
    real tables. Their hashes are not the bodies', which no page asks about."""
    asyncio.run(_make_tables(path))
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-500000"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("BEGIN")
    seqs = [0] * LANES
    dice = random.Random(1)
    for first in range(1, count + 1, AT_ONCE):
        rows, touches = [], []
        for pos in range(first, min(first + AT_ONCE, count + 1)):
            lane = dice.randrange(LANES)
            seqs[lane] += 1
            rows.append(_row(pos, lane, seqs[lane], dice))
            touches += _touches(rows[-1])
        columns = ", ".join(rows[0])
        connection.executemany(
            f"INSERT INTO events ({columns}) VALUES ({', '.join(f':{name}' for name in rows[0])})", rows
        )
        connection.executemany(
            "INSERT OR IGNORE INTO touches (path, pos, lane, seq, before, after, kind) "
            "VALUES (?, ?, ?, ?, ?, ?, 'write')",
            touches,
        )
    heads = [
        {"session": _lane(lane).session, "lane": _lane(lane).name, "seq": seq, "head": "0", "clock": "{}"}
        for lane, seq in enumerate(seqs)
    ]
    connection.executemany(
        "INSERT INTO lanes (session, lane, seq, head, clock) VALUES (:session, :lane, :seq, :head, :clock)",
        heads,
    )
    connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()


async def _make_tables(path: Path) -> None:
    store = await open_store(path, SCHEMAS)
    await store.close()


def _lane(number: int) -> Lane:
    return Lane(f"session-{number:03}", f"AGENT{number % 20:02}")


def _path(number: int) -> str:
    return f"src/p{number % 200:03}/q{number // 200:03}/file.py"


def _row(pos: int, lane: int, seq: int, dice: random.Random) -> dict[str, Any]:
    id = hashlib.sha256(str(pos).encode()).hexdigest()
    type = _TYPES[pos % EVERY]
    paths = sorted(_path(dice.randrange(PATHS)) for _ in range(2)) if type == "files.changed" else None
    touches = [{"path": path, "before": id[:40], "after": id[24:], "kind": "write"} for path in paths or ()]
    clock = {_lane(other).key: pos // LANES for other in range(lane % 20)} | {_lane(lane).key: seq}
    return {
        **{
            "pos": pos,
            "id": id,
            "v": 1,
            "session": _lane(lane).session,
            "lane": _lane(lane).name,
            "seq": seq,
        },
        **{"type": type, "prev": id, "parents": dumps([id]), "causal_deps": "[]", "clock": dumps(clock)},
        **{"role": "agent", "branch": "relay/agent", "snapshot": id[:40] if paths else None},
        "file_touches": dumps(paths) if paths else None,
        "outputs": dumps(
            {"touches": touches, "source": "tree"} if paths else {"body": "the tests pass, " * 10}
        ),
        "at": f"2026-11-{1 + pos % 28:02}T05:00:00.000000Z",
    }


def _touches(row: dict[str, Any]) -> Sequence[tuple[Any, ...]]:
    if row["file_touches"] is None:
        return ()
    key = f"{row['session']}/{row['lane']}"
    paths = loads(row["file_touches"])
    return [(path, row["pos"], key, row["seq"], row["id"][:40], row["id"][24:]) for path in paths]

"""One writer of the log's benchmark, a process with a lane of its own; started by `scripts.bench.log`.

Prints "ready" when it may begin, and reads the monotonic time at which it is to. Then it prints JSON: `took`
(seconds of each record) and `late` (seconds that each began after its time).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sqlite3
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Lane, NewEvent
from relay.store.ports import query_text
from relay.store.sqlite.store import open_store

#: What a record says: about as much as a line of a conversation.
SAID = {"message": {"body": "the tests of the parser pass now, " * 4, "kind": "agent", "to": ["ann"]}}
Record = Callable[[], Awaitable[None]]


async def pace(record: Record, rate: float, seconds: float, start_at: float) -> dict[str, Any]:
    """Call `record` `rate` times a second (0: without pause) for `seconds`, from `start_at` (monotonic) on, and once
    at least: a machine that sleeps through these seconds still gives a figure, a slow one."""
    took: list[float] = []
    late: list[float] = []
    number = 0
    first = start_at + (random.random() / rate if rate else 0.0)
    await asyncio.sleep(max(0.0, first - time.monotonic()))
    while True:
        due = first + number / rate if rate else time.monotonic()
        if took and due >= start_at + seconds:
            return {"took": took, "late": late}
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        began = time.monotonic()
        await record()
        took.append(time.monotonic() - began)
        late.append(began - due)
        number += 1


async def told_to_start() -> float:
    print("ready", flush=True)
    return float(await asyncio.to_thread(sys.stdin.readline))


async def ours(path: Path, lane: str, args: argparse.Namespace) -> dict[str, Any]:
    store = await open_store(path, [events.FOLDER])
    own = Lane("bench", lane)

    async def record() -> None:
        await store.write(lambda tx: events.append(tx, NewEvent("bench.said", own, outputs=SAID)))

    try:
        await record()  # the first one reads the schema
        return await pace(record, args.rate, args.seconds, await told_to_start())
    finally:
        await store.close()


def raw_connection(path: Path) -> sqlite3.Connection:
    """A connection with the store's settings and nothing of the store."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "wal_autocheckpoint=0", "cache_size=-16000"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def raw_record(connection: sqlite3.Connection, lane: str, seq: int) -> None:
    """The rows of one event in one transaction: no hash, no clock, no lane to read, no other thread."""
    text, id = dumps(SAID), uuid.uuid4().hex * 2
    put_event, put_lane = (query_text(query, "sqlite") for query in (events.Q.put_event, events.Q.put_lane))
    row: Mapping[str, Any] = {
        **dict.fromkeys(("prev", "role", "branch", "snapshot", "file_touches", "inputs", "source_key")),
        **{"id": id, "v": 1, "session": "raw", "lane": lane, "seq": seq, "type": "bench.said"},
        **{"parents": "[]", "causal_deps": "[]", "clock": "{}", "outputs": text, "at": "2026-01-01"},
    }
    stands = {"session": "raw", "lane": lane, "seq": seq, "head": id, "clock": "{}"}
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError:
            time.sleep(random.uniform(0.0002, 0.002))
    connection.execute(put_event, row).fetchone()
    connection.execute(put_lane, {**stands, "short": 0, "parent": None, "depth": 0})
    connection.execute("COMMIT")


async def raw(path: Path, lane: str, args: argparse.Namespace) -> dict[str, Any]:
    connection = raw_connection(path)
    lane = f"{lane}:{uuid.uuid4().hex[:8]}"
    seq = 0

    async def record() -> None:
        nonlocal seq
        seq += 1
        raw_record(connection, lane, seq)

    try:
        await record()
        return await pace(record, args.rate, args.seconds, await told_to_start())
    finally:
        connection.close()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("ours", "raw"))
    parser.add_argument("path", type=Path)
    parser.add_argument("lane")
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    measure = ours if args.kind == "ours" else raw
    json.dump(asyncio.run(measure(args.path, args.lane, args)), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

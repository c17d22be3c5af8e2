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
from relay.model.touches import Kind, Source, Touch
from relay.store.ports import Row, Tx, query_text
from relay.store.sqlite.store import open_store
from relay.timeline import projection
from relay.timeline.file_changes import record_changes

#: What a record says: about as much as a line of a conversation.
SAID = {"message": {"body": "the tests of the parser pass now, " * 4, "kind": "agent", "to": ["ann"]}}
Record = Callable[[], Awaitable[None]]
#: Files that the writers share, and how many of them an event touches.
SHARED, TOUCHED = 500, 5


async def pace(
    record: Record, rate: float, seconds: float, start_at: float, prepare: Record | None = None
) -> dict[str, Any]:
    """Call `record` `rate` times a second (0: without pause) for `seconds`, from `start_at` (monotonic) on, and once
    at least: a machine that sleeps through these seconds still gives a figure, a slow one. `prepare` comes before
    each and does not count."""
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
        if prepare is not None:
            await prepare()
        began = time.monotonic()
        await record()
        took.append(time.monotonic() - began)
        late.append(max(0.0, began - due))
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


async def touching(path: Path, lane: str, args: argparse.Namespace) -> dict[str, Any]:
    """Events with five touches of files that the others write too, two of them blindly: the verdict has to look at
    each, and what stood in the tree becomes a dependency."""
    store = await open_store(path, [events.FOLDER, projection.FOLDER])
    own = Lane("bench", lane)
    dice = random.Random(lane)

    async def record() -> None:
        touches = list(ready)
        tree = touches[0].after or ""
        await store.write(
            lambda tx: record_changes(tx, own, touches, source=Source.TREE, before=tree, after=tree)
        )

    async def before_each() -> None:
        """What an agent's tree has of the files: their last contents, but for two that it has not seen."""
        paths = dice.sample([f"src/p{number:03}.py" for number in range(SHARED)], TOUCHED)

        async def stands(tx: Tx) -> list[Row]:
            return list(await tx.all(projection.Q.last_writes, paths=dumps(sorted(paths)), lane=own.key))

        known = {row["path"]: row["after"] for row in await store.read(stands)}
        ready[:] = [
            Touch(path, known.get(path) if at > 1 else _blob(dice), _blob(dice), Kind.WRITE)
            for at, path in enumerate(paths)
        ]

    ready: list[Touch] = []
    try:
        await before_each()
        await record()
        return await pace(record, args.rate, args.seconds, await told_to_start(), before_each)
    finally:
        await store.close()


def _blob(dice: random.Random) -> str:
    return f"{dice.getrandbits(160):040x}"


def raw_connection(path: Path) -> sqlite3.Connection:
    """A connection with the store's settings and nothing of the store."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    # Others open it at the same moment; from then on nobody waits in SQLite.
    for pragma in (
        "journal_mode=WAL",
        "synchronous=NORMAL",
        "wal_autocheckpoint=0",
        "cache_size=-16000",
        "busy_timeout=0",
    ):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def raw_record(connection: sqlite3.Connection, lane: str, seq: int, touches: str | None = None) -> None:
    """The rows of one event in one transaction: no hash, no clock, no lane to read, no other thread. `touches`: those
    of its files (JSON), none of which is looked at."""
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
    (pos,) = connection.execute(put_event, row).fetchone()
    if touches is not None:
        put_touches = query_text(projection.Q.put_touches, "sqlite")
        told = {"pos": pos, "lane": f"raw/{lane}", "seq": seq, "touches": touches, "unseen": "[]"}
        connection.execute(put_touches, told)
    connection.execute(put_lane, {**stands, "short": 0, "parent": None, "depth": 0})
    connection.execute("COMMIT")


async def raw(path: Path, lane: str, args: argparse.Namespace) -> dict[str, Any]:
    connection = raw_connection(path)
    lane = f"{lane}:{uuid.uuid4().hex[:8]}"
    seq = 0
    dice = random.Random(lane)

    async def record() -> None:
        nonlocal seq
        seq += 1
        touches = [
            Touch(f"src/p{number:03}.py", _blob(dice), _blob(dice), Kind.WRITE).as_json()
            for number in dice.sample(range(SHARED), TOUCHED)
        ]
        raw_record(connection, lane, seq, dumps(touches) if args.kind == "touches-raw" else None)

    try:
        await record()
        return await pace(record, args.rate, args.seconds, await told_to_start())
    finally:
        connection.close()


#: What a writer does, by the name that it is started with.
KINDS = {"ours": ours, "raw": raw, "touches": touching, "touches-raw": raw}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=tuple(KINDS))
    parser.add_argument("path", type=Path)
    parser.add_argument("lane")
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    json.dump(asyncio.run(KINDS[args.kind](args.path, args.lane, args)), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

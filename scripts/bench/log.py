"""The log's figures: recording among twenty processes, without pause, and verifying.

Each figure of ours stands beside the same rows written by plain sqlite3 in the same run, on a copy of the same
database, so that the disk's share and ours can be told apart.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.log.verify import verify
from relay.store.ports import Tx
from relay.store.sqlite.store import SqliteStore, open_store
from scripts.bench.figures import Figure, at_most, run, single, spread
from scripts.bench.log_writer import SAID, raw_connection, raw_record

WRITERS = 20
BATCH = 500
#: Seconds between the word to begin and the beginning, so that every writer has read it.
START_S = 0.5


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    size, seconds = (2_000, 1.0) if quick else (100_000, 20.0)
    writers = 4 if quick else WRITERS
    path, plain = folder / "events.db", folder / "raw.db"
    took = asyncio.run(fill(path, size))
    yield single(f"append in batches of {BATCH}", size / took, "events/s", n=size)
    shutil.copy(path, plain)
    where = f"{size:,} events there, {writers} processes"
    targets = {5.0: at_most(p95=2.0, p99=5.0), 50.0: at_most(p99=15.0, max=250.0)}
    for rate, limits in targets.items():
        for kind, file in (("ours", path), ("raw", plain)):
            reports = together(file, kind, writers, rate, seconds)
            yield spread(
                f"record, {rate:g}/s each, {kind}",
                [value for report in reports for value in report["took"]],
                limits=limits if kind == "ours" else None,
                note=f"{where}; began late by at most {max(max(report['late']) for report in reports) * 1000:.1f} ms",
            )
    for kind, file in (("ours", path), ("raw", plain)):
        reports = together(file, kind, writers, 0.0, seconds / 2)
        samples = [value for report in reports for value in report["took"]]
        least = min(len(report["took"]) for report in reports)
        yield single(
            f"record without pause, {writers} writers, {kind}",
            len(samples) / (seconds / 2),
            "tx/s",
            n=len(samples),
            note=f"the slowest writer made {least}",
        )
        yield spread(f"record without pause, {writers} writers, {kind}", samples)
    count = 500 if quick else 20_000
    yield single("record, one writer, ours", asyncio.run(alone(path, count)), "tx/s", n=count)
    yield single("record, one writer, raw", alone_raw(plain, count), "tx/s", n=count)
    checked, took = asyncio.run(verified(path))
    yield single("verify", checked / took, "events/s", n=checked)


async def fill(path: Path, size: int) -> float:
    """`size` events by the real append, on as many lanes as there will be writers; the seconds it took."""
    store = await open_store(path, [events.FOLDER])
    lanes = [Lane("bench", f"w{number}") for number in range(WRITERS)]
    numbers = iter(range(size))
    started = time.monotonic()
    while batch := list(islice(numbers, BATCH)):

        async def work(tx: Tx, batch: list[int] = batch) -> None:
            for number in batch:
                await events.append(tx, NewEvent("bench.said", lanes[number % WRITERS], outputs=SAID))

        await store.write(work)
    took = time.monotonic() - started
    await store.close()
    return took


def together(path: Path, kind: str, writers: int, rate: float, seconds: float) -> list[dict[str, Any]]:
    """Run the writers at once, from the moment when all are ready, and collect what they say. A checkpoint runs
    beside them, as in a daemon."""
    words = [sys.executable, "-m", "scripts.bench.log_writer", kind, str(path)]
    more = ["--rate", str(rate), "--seconds", str(seconds)]
    running = [
        subprocess.Popen(
            [*words, f"w{number}", *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(writers)
    ]
    try:
        for writer in running:
            assert writer.stdout is not None
            if writer.stdout.readline() != "ready\n":
                raise RuntimeError(f"a writer ended before it was ready, with code {writer.wait()}")
        start_at = time.monotonic() + START_S
        for writer in running:
            assert writer.stdin is not None
            writer.stdin.write(f"{start_at}\n")
            writer.stdin.flush()
        return [json.loads(writer.communicate()[0]) for writer in running]
    finally:
        for writer in running:
            writer.kill()
            writer.wait()


async def alone(path: Path, count: int) -> float:
    store = await open_store(path, [events.FOLDER])
    own = Lane("bench", "alone")
    started = time.monotonic()
    for _ in range(count):
        await store.write(lambda tx: events.append(tx, NewEvent("bench.said", own, outputs=SAID)))
    took = time.monotonic() - started
    await store.close()
    return count / took


def alone_raw(path: Path, count: int) -> float:
    connection = raw_connection(path)
    started = time.monotonic()
    for number in range(count):
        raw_record(connection, "alone", number + 1)
    took = time.monotonic() - started
    connection.close()
    return count / took


async def verified(path: Path) -> tuple[int, float]:
    store: SqliteStore = await open_store(path, [events.FOLDER])
    try:
        count = await store.read(events.last_pos)
        started = time.monotonic()
        faults = await verify(store)
        took = time.monotonic() - started
    finally:
        await store.close()
    if faults:
        raise RuntimeError(f"the log is damaged: {faults[0]}")
    return count, took


if __name__ == "__main__":
    sys.exit(run("log", measure, "Record among twenty processes, without pause, and verify."))

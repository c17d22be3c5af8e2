"""The metrics' figures: the log read from its beginning, and looked at again when some events, or none, have come.

Every event of the log here is one that counts, which no real log's are: 100,000 of them are the work of years.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from relay.base.durations import iso
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.store.ports import Tx
from relay.store.sqlite.store import SqliteStore, open_store
from relay.verification import metrics
from relay.verification.metrics import MetricFold
from relay.verification.metrics_reader import MetricReader
from scripts.bench.figures import Figure, at_most, run, single, spread, stopwatch

BATCH = 500
AGENTS = [f"AGENT{number}" for number in range(8)]
#: Seconds of the log between two events: 100,000 are a year.
EVERY_S = 315.0
BEGAN = 1_800_000_000.0
#: Events that come between two looks.
NEW = 20


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    size, looks = (2_000, 5) if quick else (100_000, 50)
    yield from asyncio.run(_measure(folder / "events.db", size, looks))


async def _measure(path: Path, size: int, looks: int) -> list[Figure]:
    store = await open_store(path, [events.FOLDER])
    for begin in range(0, size, BATCH):
        await record(store, begin, min(BATCH, size - begin))
    reader, lag = MetricReader(store), list[float]()
    beat = asyncio.create_task(_beat(lag))
    began = time.perf_counter()
    await reader.catch_up()
    took = time.perf_counter() - began
    beat.cancel()
    figures = [
        single(f"read {size:,} events from the beginning", took, "s", n=size, limits={"value": ("<=", 30.0)}),
        spread("event loop late by, while it reads", lag, limits=at_most(p99=100.0)),
        single(f"fold of {size:,} events alone", await fold(store), "s", n=size),
    ]
    some, none, values = list[float](), list[float](), list[float]()
    for look in range(looks):
        await record(store, size + look * NEW, NEW)
        with stopwatch(some):
            await reader.catch_up()
        with stopwatch(none):
            await reader.catch_up()
        with stopwatch(values):
            reader.known(30)
    figures += [
        spread(f"look, {NEW} new events", some, limits=at_most(p95=25.0)),
        spread("look, nothing new", none, limits=at_most(p95=5.0)),
        spread("figures of 30 days of a year", values),
    ]
    await store.close()
    return figures


async def _beat(late: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        late.append(max(0.0, time.perf_counter() - began - 0.001))


async def fold(store: SqliteStore) -> float:
    """Seconds for the events alone, once they are in memory, their payloads unread."""
    types, took, after = sorted(metrics.READS), 0.0, 0
    made, last = MetricFold(), await store.read(events.last_pos)
    while after < last:
        upto = after + BATCH
        new = await store.read(
            lambda tx, after=after, upto=upto: events.read_after(  # type: ignore[misc]
                tx, after, types=types, limit=BATCH, upto=upto
            )
        )
        began = time.perf_counter()
        for event in new:
            made.apply(event)
        took += time.perf_counter() - began
        after = upto
    return took


async def record(store: SqliteStore, begin: int, count: int) -> None:
    async def work(tx: Tx) -> None:
        for number in range(begin, begin + count):
            type_, outputs, inputs, agent = happening(number)
            at = iso(BEGAN + number * EVERY_S)
            lane = Lane("bench", agent)
            await events.append(tx, NewEvent(type_, lane, inputs=inputs, outputs=outputs, at=at))

    await store.write(work)


def happening(number: int) -> tuple[str, dict[str, Any], Mapping[str, Any] | None, str]:
    """What happens then, in turns: a day of eight agents who work, meet, verify and land."""
    agent, other = AGENTS[number % 8], AGENTS[(number + 1) % 8]
    files = [f"src/part{number % 40}/module{index}.py" for index in range(10)]
    turn, at = number // 10, BEGAN + number * EVERY_S
    match number % 10:
        case 0 | 1 | 2:
            return metrics.TURN_ENDED, {"jobs": [], "usage": {"cost_usd": 0.05}, "tools": files}, None, agent
        case 3 | 4:
            task = {
                "id": f"t{turn}",
                "status": "claimed" if number % 10 == 3 else "completed",
                "files": files,
            }
            task |= {"task_description": "Mend what is broken there. " * 10}
            return (
                metrics.TASK,
                {"change": "claimed", "tasks": [{"before": None, "after": task}]},
                None,
                agent,
            )
        case 5:
            record = {
                "id": f"a{turn}",
                "message_id": "m",
                "pairs": [[agent, other]],
                "files": files,
                "closed_at": None,
            }
            return metrics.ADVISORY, {"advisory": record, "what": ["said"]}, {"record": record}, agent
        case 6:
            feedback = {"number": turn % 500, "agent_id": agent, "useful": turn % 4 > 0}
            return metrics.FEEDBACK, {"feedback": feedback}, None, agent
        case 7:
            state = "failed" if turn % 7 == 0 else "passed"
            told = {"state": state, "seconds": 60.0, "source": "turn", "about": {}, "files": files}
            return metrics.VERIFIED, {**told, "first_pass": state == "passed"}, None, agent
        case 8:
            told = {"at": iso(at - 90.0), "ended": iso(at), "tested": True, "agent": agent}
            return metrics.LANDED, told, None, agent
    what = "conflicted" if turn % 9 == 0 else "merged"
    change = {"change": what, "agent": agent, "commit": f"{number:040}", "conflicts": files[:1]}
    return metrics.WORKTREE, change, None, agent


if __name__ == "__main__":
    raise SystemExit(run("metrics", measure, __doc__ or ""))

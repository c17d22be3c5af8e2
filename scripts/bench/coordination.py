"""Coordination's figures: locks, claims, memory and the room's reading, in process, by HTTP and MCP, on both stores.

The floor of the locks on SQLite is plain sqlite3 with the same statements and commits, on a copy of the same database
and by turns (`replay.py`). The public references are those of issue 3 ("Checks and figures"), taken on PostgreSQL.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from relay.app.wiring.schema import SCHEMAS
from relay.store.sqlite.store import open_store
from scripts.bench import coordination_doors, coordination_postgres
from scripts.bench import coordination_store as services
from scripts.bench.coordination_figures import gathered, of_claims, rate_of
from scripts.bench.coordination_store import Desk, desk
from scripts.bench.figures import Figure, at_least, beside, run, single, spread, turns
from scripts.bench.replay import Plain, Sent, recorded

PAIRS = "acquire + release"
#: How many agents at once, beside one by itself: as on PostgreSQL (`coordination_postgres`).
SEVERAL = (4, 8)
#: Of one caller's pairs by plain sqlite3 (issue 11).
GOALS = {1: 0.8, 8: 1.2}


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    yield from gathered(on_sqlite(folder / "sqlite", quick))
    yield from coordination_doors.measure(folder, quick)
    yield from coordination_postgres.measure(folder, quick)


async def on_sqlite(folder: Path, quick: bool) -> AsyncIterator[Figure]:
    count, rounds, of_locks = (100, 2, 2) if quick else (500, 5, 20)
    blocked, given = (200, 20) if quick else (5_000, 300)
    async with AsyncExitStack() as stack:

        async def room(name: str) -> Desk:
            return await stack.enter_async_context(desk(open_store(folder / f"{name}.db", SCHEMAS), folder))

        with recorded() as sent:
            at = await room("pairs")
        await services.pairs(at, count, max(SEVERAL))
        await at.store.checkpoint(whole=True)
        shutil.copy(folder / "pairs.db", folder / "plain.db")
        plain = Plain(folder / "plain.db", SCHEMAS)
        stack.callback(plain.close)
        async for figure in of_pairs(at, plain, sent, count, of_locks):
            yield figure
        others = (100, 5) if quick else (services.OTHER_LOCKS, services.OTHER_GLOBS)
        await services.hold_others(at, *others)
        where = f", {others[0]:,} other locks and {others[1]} globs"
        crowded = [await services.pairs(at, count) for _ in range(of_locks // 2)]
        yield single(f"{PAIRS}, SQLite{where}", rate_of(crowded, count), "pairs/s", n=len(crowded) * count)
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


async def of_pairs(at: Desk, plain: Plain, sent: Sent, count: int, rounds: int) -> AsyncIterator[Figure]:
    """One caller and several by turns; what each sent to SQLite is sent again by plain sqlite3, one after the other.
    The floor of all is what one caller sent: a caller of plain sqlite3 has nobody to share a commit with."""
    runs: dict[int, list[Any]] = {callers: [] for callers in (1, *SEVERAL)}
    cpu: dict[int, list[float]] = {callers: [] for callers in runs}
    floors: list[tuple[float, float]] = []
    about = ""
    for callers in turns(runs, rounds):
        sent.clear()
        before, many = time.process_time(), count // callers * callers
        runs[callers].append(await services.pairs(at, count, callers))
        cpu[callers].append((time.process_time() - before) / many)
        said = sent.copy()
        before = time.process_time()
        took = plain.send(said)
        if callers == 1:
            floors.append((took, (time.process_time() - before) / many))
            commits = sum(sql == "COMMIT" for _, sql, _ in said)
            about = f"{len(said) / many:.1f} statements and {commits / many:.1f} commits a pair"
    size = f"{count * (1 + rounds * len(runs)):,} pairs there at the end"
    rate = statistics.median(count / took for took, _ in floors)
    floor = single("the same statements and commits, plain sqlite3", rate, "pairs/s", n=count * rounds)
    used = spread("processor time of the same", [cost for _, cost in floors], unit="us", scale=1e6)
    best = (0.0, "")
    for callers, each in runs.items():
        who = f"{callers} callers" if callers > 1 else "one caller"
        rate = rate_of(each, count // callers * callers)
        best = max(best, (rate, who))
        yield beside(
            single(
                f"{PAIRS}, SQLite, {who}", rate, "pairs/s", n=count * rounds, size=size,
                note=f"each on paths of its own; median of {rounds} runs; the floor: {about}",
            ),
            floor, {"ratio": (">=", GOALS[callers])} if callers in GOALS else {},
        )  # fmt: skip
        yield beside(processor_time(who, cpu[callers]), used)
        yield spread(f"acquire, SQLite, {who}", [took for pairs_run in each for took in pairs_run[1]])
        yield spread(f"release, SQLite, {who}", [took for pairs_run in each for took in pairs_run[2]])
    yield single(
        f"{PAIRS}, SQLite, the best of these", best[0], "pairs/s", n=count * rounds, limits=at_least(2000),
        note=f"of {best[1]}; public reference on PostgreSQL 1,650-4,230",
    )  # fmt: skip


def processor_time(who: str, cpu: list[float]) -> Figure:
    """Of a pair, from the seconds of each run."""
    what = f"processor time of a pair, SQLite, {who}, in {len(cpu)} runs"
    return spread(what, cpu, unit="us", scale=1e6, note="all threads; the load of the machine is not in it")


if __name__ == "__main__":
    sys.exit(run("coordination", measure, "Locks, claims, memory, HTTP and MCP, on both stores."))

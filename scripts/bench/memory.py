"""Memory at 100,000 memories: recall, import, the clock's operations, how useful what was told is, how well memories
are found, and knowledge at a million entries (docs/memory.md).

`python -m scripts.bench.memory [--quick] [--only PART ...] [--repo FOLDER] [--room FOLDER]`

The parts: `clock`, `sqlite`, `postgres`, `ranking`, `knowledge`; with `--room`, `usefulness`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sqlite3
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from relay.app.wiring.schema import SCHEMAS
from relay.base.durations import iso
from relay.base.vector_clock import compare, hop_count, merge
from relay.coordination.idempotency import once
from relay.memory.episodic import recalling
from relay.memory.episodic.importing import import_lines
from relay.memory.episodic.memory import EpisodicMemory
from relay.memory.ranking import hops
from relay.model import Caller
from relay.store.ports import Store
from relay.store.postgres.store import open_store as open_postgres
from relay.store.sqlite.store import open_store
from scripts.bench import memory_knowledge, memory_ranking, postgres_server
from scripts.bench.figures import (
    Figure,
    at_least,
    at_most,
    carry_out,
    options,
    single,
    spread,
    stopwatch,
    unmeasured,
)
from scripts.bench.memory_knowledge import WORDS

PARTS = ("clock", "sqlite", "postgres", "ranking", "knowledge", "usefulness")
#: Entries of a clock, as the source's figure has them, and how often an operation is done for one sample.
ENTRIES, AT_ONCE = 20, 200
T0 = 1_600_000_000.0
CALLER = Caller("BENCH", "bench", person=True)


class _Beats:
    """No session is kept: a call is measured, not its heartbeat."""

    async def touch(self, tx: Any, caller: Caller) -> None:
        return None

    async def fresh(self, tx: Any, caller: Caller) -> bool:
        return True


# -- the clock


def clock_figures(rounds: int) -> Iterator[Figure]:
    pick = random.Random(3)
    one, other = ({f"s{n}/AGENT{n}": pick.randrange(1, 1000) for n in range(ENTRIES)} for _ in range(2))
    operations: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("merge", lambda: merge(one, other)),
        ("compare", lambda: compare(one, one)),
        ("hop_count", lambda: hop_count(one, other)),
        ("between", lambda: hops.between(one, other)),
    )
    for name, operation in operations:
        samples: list[float] = []
        for _ in range(rounds):
            began = time.thread_time()
            for _ in range(AT_ONCE):
                operation()
            samples.append(time.thread_time() - began)
        yield spread(
            f"{name} of clocks with {ENTRIES} entries",
            [sample / AT_ONCE for sample in samples],
            unit="us",
            scale=1e6,
            limits=at_most(p95=10.0),
            note=f"processor time; a sample is the mean of {AT_ONCE}",
        )


# -- recall and import


class Texts:
    """Texts whose words are as common as in prose (Zipf), the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self, words: int) -> str:
        places = (int(self._random.paretovariate(0.6)) for _ in range(words))
        return " ".join(WORDS[min(place, len(WORDS)) - 1] for place in places)

    def line(self, number: int) -> str:
        """A line of an import: one of 40 of a session, a minute apart."""
        told = {
            "key": f"k{number}",
            "event_type": self._random.choice(("message", "answer", "task")),
            "summary": self.text(self._random.randrange(4, 30)),
            "details": self.text(self._random.randrange(1, 60)),
            "session": f"s{number // 40}",
            "agent": f"AGENT{self._random.randrange(12)}",
            "at": iso(T0 + number * 60.0),
        }
        return json.dumps(told)


async def of_store(store: Store, name: str, count: int, rounds: int, *, bound: bool) -> AsyncIterator[Figure]:
    """`bound`: the figures have targets."""
    texts, took = Texts(5), list[float]()
    for start in range(0, count, 10_000):
        lines = [texts.line(number) for number in range(start, min(count, start + 10_000))]
        with stopwatch(took):
            result = await import_lines(store, CALLER, lines, first=start + 1)
        if result.refused:
            raise RuntimeError(f"{len(result.refused)} lines were refused: {result.refused[0]}")
    yield single(
        f"{name}: import, with events",
        count / sum(took),
        "1/s",
        n=count,
        limits=at_least(500.0) if bound else None,
    )
    size = await store.size()
    yield single(f"{name}: size of the database", size.data / 2**20, "MiB", n=count)
    memory, asked = EpisodicMemory(store, sessions=_Beats(), once=once), Texts(11)
    for _ in range(10):
        await memory.recall(CALLER, asked.text(8))
    samples, processor = list[float](), list[float]()
    hits: list[int] = []
    with patch.object(recalling, "_with", counting(recalling._with, hits)):
        for _ in range(rounds):
            question, used = asked.text(8), time.process_time()
            hits.append(0)
            with stopwatch(samples):
                await memory.recall(CALLER, question)
            processor.append(time.process_time() - used)
    load = f"load {os.getloadavg()[0]:.1f}"
    limits = at_most(p95=20.0) if bound else None
    yield spread(f"{name}: recall, 8 words", samples, limits=limits, note=load)
    about = "of this process, all its threads" + ("" if bound else "; the server's is not in it")
    yield spread(f"{name}: recall, 8 words, processor time", processor, note=about)
    yield spread(f"{name}: recall, 8 words, hits read", hits, unit="hits", scale=1.0)


def counting(looked_up: Callable[..., Any], hits: list[int]) -> Callable[..., Any]:
    """The same look-up, which adds how much it found to the last of `hits`."""

    async def counted(*args: Any) -> list[int]:
        numbers: list[int] = await looked_up(*args)
        hits[-1] += len(numbers)
        return numbers

    return counted


async def on_sqlite(folder: Path, count: int, rounds: int) -> AsyncIterator[Figure]:
    store = await open_store(folder / "events.db", SCHEMAS)
    try:
        async for figure in of_store(store, "SQLite", count, rounds, bound=True):
            yield figure
    finally:
        await store.close()


async def on_postgres(folder: Path, count: int, rounds: int) -> AsyncIterator[Figure]:
    """Reported, without targets. The server is one of its own, which does not wait for the disk."""
    programs = postgres_server.binaries()
    if programs is None:
        yield unmeasured("memories on PostgreSQL", postgres_server.LACKING)
        return
    server = await asyncio.to_thread(postgres_server.make_server, programs)
    try:
        name = await asyncio.to_thread(server.new_database)
        store = await open_postgres(server.address(name), SCHEMAS)
        try:
            async for figure in of_store(store, "PostgreSQL", count, rounds, bound=False):
                yield figure
        finally:
            await store.close()
    finally:
        await asyncio.to_thread(server.end)


# -- usefulness


def usefulness(room: Path) -> Figure:
    """The share of the judged memories that their readers called useful, from a room's own `feedback` (source: above
    70 %)."""
    with contextlib.closing(
        sqlite3.connect(f"file:{room / '.relay' / 'events.db'}?mode=ro", uri=True)
    ) as database:
        useful, n = database.execute(
            "SELECT COALESCE(SUM(useful), 0), COUNT(*) FROM memory_feedback"
        ).fetchone()
    share, limits = 100 * useful / max(1, n), at_least(70.0) if n else {}
    return single("memories that readers called useful", share, "%", n=n, limits=limits)


def _each(figures: AsyncIterator[Figure]) -> Iterator[Figure]:
    with asyncio.Runner() as runner:
        while True:
            try:
                yield runner.run(anext(figures))  # type: ignore[arg-type]
            except StopAsyncIteration:
                return


def _measure(folder: Path, args: Namespace) -> Iterator[Figure]:
    count, rounds = (2000, 50) if args.quick else (args.memories, args.rounds)
    for part in args.only or PARTS[: None if args.room else -1]:
        where = folder / part
        where.mkdir()
        match part:
            case "clock":
                yield from clock_figures(20 if args.quick else 1000)
            case "sqlite":
                yield from _each(on_sqlite(where, count, rounds))
            case "postgres":
                yield from _each(on_postgres(where, count, rounds))
            case "usefulness":
                yield usefulness(args.room)
            case "ranking":
                yield from memory_ranking.measure(where, args.repo, 40 if args.quick else args.questions)
            case "knowledge":
                yield from memory_knowledge.measure(where, args)


def main() -> int:
    parser = options("memory", (__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=400, help="questions of each kind")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="these parts only")
    parser.add_argument("--room", type=Path, help="a room's folder, for the usefulness from its feedback")
    memory_ranking.repository(parser)
    memory_knowledge.size(parser)
    args = parser.parse_args()
    if "usefulness" in (args.only or ()) and not args.room:
        parser.error("usefulness is of a room's feedback: name its folder with --room")
    return carry_out("memory", lambda folder: _measure(folder, args), args)


if __name__ == "__main__":
    raise SystemExit(main())

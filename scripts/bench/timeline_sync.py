"""Timelines between rooms: a push and a pull through a bare repository, and the import of ten replicas.

`raw` of push and pull is git alone with the same packs; of an import, the same rows into the same tables by plain
`sqlite3`.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from relay.app.wiring.schema import SCHEMAS
from relay.git.checkout import open_checkout
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.scratch_repository import ScratchRepository
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.log.imported import make_replica_id
from relay.model.touches import Kind, Source, Touch
from relay.store.ports import Store, Tx, query_text
from relay.store.sqlite.store import open_store
from relay.timeline.file_changes import record_changes
from relay.timeline.sync.batch import Incoming
from relay.timeline.sync.exchange import TIMELINES, TimelineExchange
from relay.timeline.sync.importing import import_events
from relay.timeline.sync.outgoing import read_page
from relay.timeline.sync.privacy import Sharing
from scripts.bench.figures import Figure, at_most, single, spread, stopwatch
from scripts.bench.log_writer import raw_connection
from scripts.bench.timeline_rewind import git

#: Lanes of a replica, and the events of one transaction as its log is made.
LANES, AT_ONCE = 5, 500


async def fill(store: Store, name: str, count: int) -> None:
    """Events of five lanes, each of which has seen another's last; one in four changes two files."""
    lanes = [Lane(f"{name}-{number}", "CLAUDE") for number in range(LANES)]
    dice = random.Random(name)
    heads: list[str] = []

    async def work(tx: Tx, numbers: range) -> None:
        for number in numbers:
            lane, shown = lanes[number % LANES], heads[-3:-2]
            if number % 4:
                new = NewEvent("turn.ended", lane, outputs={"text": "the tests pass, " * 8}, parents=shown)
                event = await events.append(tx, new)
            else:
                paths = dice.sample(range(500), 2)
                touches = [Touch(f"src/f{at}.py", None, f"{number:040x}", Kind.WRITE) for at in paths]
                changed = await record_changes(
                    tx, lane, touches, source=Source.TREE, before="0" * 40, after="1" * 40, parents=shown
                )
                assert changed is not None
                event = changed
            heads.append(event.id)

    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        await store.write(lambda tx, numbers=numbers: work(tx, numbers))


# -- push and pull


def exchanges(folder: Path, count: int, rounds: int) -> Iterator[Figure]:
    yield from asyncio.run(_exchanges(folder, count, rounds))


async def _exchanges(folder: Path, count: int, rounds: int) -> list[Figure]:
    took: list[float] = []
    raw: list[float] = []
    for number in range(rounds):
        at = folder / f"round-{number}"
        hub = at / "hub.git"
        hub.mkdir(parents=True)
        git(hub, "init", "-q", "--bare")
        (giver, given), (taker, _) = await _room(at / "ann", hub), await _room(at / "ben", hub)
        try:
            await fill(given, "ann", count)
            with stopwatch(took):
                pushed = await giver.push("origin", Sharing.of(["CLAUDE"]))
                pulled = await taker.pull("origin")
            assert (pushed.events, pulled.added) == (count, count)
            ref = f"{TIMELINES}{pushed.replica}"
            git(hub, "update-ref", "-d", ref)
            with stopwatch(raw):
                git(at / "ann", "push", "-q", "origin", f"{ref}:{ref}")
                git(at / "ben", "fetch", "-q", "origin", f"+{ref}:refs/raw/{number}")
        finally:
            await given.close()
            await _.close()
    note = "through a bare repository on this machine"
    limits = at_most(p95=1000.0) if count >= 1000 else None
    return [
        spread(f"push and pull of {count:,} events", took, limits=limits, note=note),
        spread(f"push and pull of {count:,} events, raw", raw, note=note),
    ]


async def _room(folder: Path, hub: Path) -> tuple[TimelineExchange, Store]:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    git(folder, "remote", "add", "origin", str(hub))
    checkout = await open_checkout(folder)
    scratch = ScratchRepository(folder.parent / f"{folder.name}-scratch")
    await scratch.empty()
    await scratch.borrow([checkout])
    store = await open_store(folder.parent / f"{folder.name}.db", SCHEMAS)
    return TimelineExchange(store, checkout.git, KeptSnapshots(scratch, checkout)), store


# -- import


def imports(folder: Path, replicas: int, count: int) -> Iterator[Figure]:
    yield from asyncio.run(_imports(folder, replicas, count))


async def _imports(folder: Path, replicas: int, count: int) -> list[Figure]:
    packs = [
        await _packed(folder / f"replica-{number}.db", f"r{number}", count) for number in range(replicas)
    ]
    took: list[float] = []
    worked: list[float] = []
    store = await open_store(folder / "import.db", SCHEMAS)
    try:
        own = await store.write(make_replica_id)
        for origin, lines in packs:
            began = time.process_time()
            with stopwatch(took):
                incoming = Incoming()
                await asyncio.to_thread(incoming.read, origin, lines)
                done = await import_events(store, incoming, own)
            worked.append(time.process_time() - began)
            assert (done.added, done.refused, done.waiting) == (count, (), ())
    finally:
        await store.close()
    raw = await asyncio.to_thread(_raw_imports, folder, await _tables(folder / "import-raw.db"), replicas)
    note = f"{replicas} replicas x {count:,} events"
    full = replicas * count >= 100_000
    goal, goal_ratio = ({"value": ("<=", 40.0)}, {"value": ("<=", 1.3)}) if full else (None, None)
    return [
        single(
            "import, all",
            sum(took),
            "s",
            n=replicas,
            limits=goal,
            note=note,
        ),
        single(
            "import, the last beside the first",
            took[-1] / took[0],
            "times",
            n=replicas,
            limits=goal_ratio,
            note=f"{note}; each: {', '.join(f'{value:.2f}' for value in took)} s",
        ),
        single(
            "import, the last beside the first, processor time",
            worked[-1] / worked[0],
            "times",
            n=replicas,
            note=f"{note}; each: {', '.join(f'{value:.2f}' for value in worked)} s",
        ),
        spread("import of a replica", took, note=note),
        spread("import of a replica, raw", raw, note=note),
    ]


async def _packed(path: Path, name: str, count: int) -> tuple[str, list[str]]:
    """A replica's id and the lines of its events."""
    store = await open_store(path, SCHEMAS)
    try:
        own = await store.write(make_replica_id)
        await fill(store, name, count)
        lines: list[str] = []
        after = 0
        while True:
            page = await store.read(lambda tx, after=after: read_page(tx, after, None, {}))
            if page.upto == after:
                return own, lines
            lines += [line for event in page.events.values() for line in event.lines]
            after = page.upto
    finally:
        await store.close()


async def _tables(path: Path) -> Path:
    store = await open_store(path, SCHEMAS)
    await store.close()
    return path


def _raw_imports(folder: Path, path: Path, replicas: int) -> list[float]:
    took: list[float] = []
    connection = raw_connection(path)
    put = query_text(events.Q.record_event, "sqlite")
    try:
        for number in range(replicas):
            source = sqlite3.connect(folder / f"replica-{number}.db")
            source.row_factory = sqlite3.Row
            rows = [dict(row) for row in source.execute("SELECT * FROM events ORDER BY pos")]
            source.close()
            for row in rows:
                row["type"] = f"imported:{row['type']}"
            with stopwatch(took):
                for first in range(0, len(rows), 1000):
                    connection.execute("BEGIN IMMEDIATE")
                    connection.executemany(put, rows[first : first + 1000])
                    connection.execute("COMMIT")
    finally:
        connection.close()
    return took

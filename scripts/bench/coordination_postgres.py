"""Coordination's figures on PostgreSQL: a private server as initdb leaves it, through the same services.

Says with each figure whether row-level security was in use.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import psutil

from relay.app.wiring.schema import SCHEMAS
from relay.store.ports import Queries, Row
from relay.store.postgres import store
from relay.store.postgres.address import read_address
from scripts.bench import coordination_store as services
from scripts.bench import postgres_server as postgres
from scripts.bench.coordination_figures import gathered, of_claims, rate_of
from scripts.bench.coordination_store import Desk, desk
from scripts.bench.figures import Figure, at_least, beside, run, single, spread, turns, unmeasured

Q = Queries(Path(__file__).parent)
PLAIN = Path(__file__).with_name("plain_pairs.sql")
PAIRS = "acquire + release"
#: A server as initdb leaves it, which flushes what it is told to flush; only where it listens is ours.
AS_INITDB = {"listen_addresses": ""}
#: Who owns the databases: no superuser, whom row-level security would not hold.
OWNER = "relay_bench"
#: Connections of the store: one for each of eight callers, beside those that it keeps for one purpose each.
CONNECTIONS = 12


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    programs = postgres.binaries()
    if programs is None:
        yield unmeasured("locks and claims on PostgreSQL", postgres.LACKING)
        return
    server = postgres.make_server(programs, AS_INITDB)
    try:
        asyncio.run(_ask(server.dsn("postgres"), f"CREATE ROLE {OWNER} LOGIN CREATEROLE"))
        yield from gathered(on_postgres(server, folder, quick))
    finally:
        server.end()


async def on_postgres(server: postgres.Server, folder: Path, quick: bool) -> AsyncIterator[Figure]:
    count, rounds = (16, 1) if quick else (480, 12)
    blocked, given = (20, 8) if quick else (5_000, 320)
    async with AsyncExitStack() as stack:

        async def room(name: str) -> Desk:
            await _ask(server.dsn("postgres"), f"CREATE DATABASE {name} OWNER {OWNER}")
            address = read_address(server.dsn(name).replace("relay@", f"{OWNER}@"), "the bench")
            opened = store.open_store(address, SCHEMAS, connections=CONNECTIONS)
            return await stack.enter_async_context(desk(opened, folder))

        at = await room("pairs")
        how = await conditions(at)
        print(f"PostgreSQL: {how}", file=sys.stderr)
        several = (1, 4) if quick else (1, 4, 8, 16)
        plain = await stack.enter_async_context(plain_pairs(server.dsn("pairs"), at, max(several)))
        ours: dict[int, list[Any]] = {callers: [] for callers in several}
        theirs: dict[int, list[Any]] = {callers: [] for callers in several}
        used = dict.fromkeys(several, (0.0, 0.0))
        for callers in turns(several, rounds):
            before = _cpu_s(server)
            ours[callers].append(await services.pairs(at, count, callers))
            spent = (now - then for now, then in zip(_cpu_s(server), before, strict=True))
            used[callers] = tuple(  # type: ignore[assignment]
                so_far + now / (rounds * count) for so_far, now in zip(used[callers], spent, strict=True)
            )
            theirs[callers].append([await plain(count, callers)])
        figures = []
        for callers in several:
            many, who = count // callers * callers, _callers(callers)
            here, there = (seconds * 1e6 for seconds in used[callers])
            note = f"processor time of a pair {here:.0f} us here and {there:.0f} us in the server; {how}"
            floor = single(
                f"a bare function call with the same rows, {who}", rate_of(theirs[callers], many), "pairs/s",
                n=many * rounds,
            )  # fmt: skip
            rate = rate_of(ours[callers], many)
            figures.append(
                beside(
                    single(f"{PAIRS}, PostgreSQL, {who}", rate, "pairs/s", n=many * rounds, note=note), floor
                )
            )
            yield figures[-1]
            yield spread(
                f"acquire, PostgreSQL, {who}", [took for pairs_run in ours[callers] for took in pairs_run[1]]
            )
        best = max(figures, key=lambda figure: figure.values["value"])
        # Either is enough: a slow machine cannot do the one, a fast one not the other.
        goal = at_least(1500) if best.values["value"] >= 1500 else {"ratio": (">=", 0.5)}
        note = f"{best.name.rpartition(', ')[2]}; 1,500 or half of its floor; public reference 1,650-4,230"
        yield replace(best, name=f"{PAIRS}, PostgreSQL, the best of these", limits=goal, note=note)
        free, waiting = await room("free"), await room("waiting")
        await services.block(waiting, blocked)
        for callers in (1,) if quick else (1, 8):
            async for figure in of_claims("PostgreSQL", free, waiting, blocked, given, 3, callers):
                yield figure


@asynccontextmanager
async def plain_pairs(dsn: str, at: Desk, most: int) -> AsyncIterator[Callable[[int, int], Awaitable[float]]]:
    """The floor: the rows of an acquire and of a release, each by one call of a function that looks nothing up. What
    it gives makes so many pairs by so many callers, and says the seconds."""
    await services.pairs(at, 50)
    settings = {"search_path": "relay", "synchronous_commit": (await _conditions(at))["commits"]}
    async with AsyncExitStack() as stack:

        async def connected(number: int) -> asyncpg.Connection:
            made = await asyncpg.connect(dsn, server_settings=settings)
            stack.push_async_callback(made.close)
            if number == 0:
                await made.execute(PLAIN.read_text())
            await made.execute("SELECT bench_begin($1)", f"bench{number}")
            return made

        callers = [await connected(number) for number in range(most)]

        async def one(number: int, count: int) -> None:
            for turn in range(count):
                for act in ("acquire", "release"):
                    path = f"bench/module{number}/file{turn % 50}.py"
                    await callers[number].execute(f"SELECT bench_{act}($1, $2)", f"bench{number}", path)

        async def pairs(count: int, at_once: int) -> float:
            began = time.perf_counter()
            await asyncio.gather(*(one(number, count // at_once) for number in range(at_once)))
            return time.perf_counter() - began

        yield pairs


def _cpu_s(server: postgres.Server) -> tuple[float, float]:
    """Processor seconds so far: of this process, and of the server's that run."""
    assert server.process is not None
    first = psutil.Process(server.process.pid)
    used = [process.cpu_times() for process in (first, *first.children())]
    return time.process_time(), sum(process.user + process.system for process in used)


def _callers(count: int) -> str:
    return "one caller" if count == 1 else f"{count} callers"


async def _ask(dsn: str, sql: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


async def _conditions(at: Desk) -> Row:
    row = await at.store.read(lambda tx: tx.one(Q.conditions))
    assert row is not None
    return row


async def conditions(at: Desk) -> str:
    """What of this the figures depend on, as the server tells it."""
    row = await _conditions(at)
    acting = await at.store.read(lambda tx: tx.one(Q.conditions), actor=services.caller(0))
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
    sys.exit(run("coordination_postgres", measure, "Locks and claims on PostgreSQL."))

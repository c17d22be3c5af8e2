"""Coordination's figures on PostgreSQL: a private server as initdb leaves it, through the same services.

Says with each figure whether row-level security was in use.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import psutil

from relay.app.wiring.schema import SCHEMAS
from relay.store.ports import Queries
from relay.store.postgres import store
from relay.store.postgres.address import read_address
from scripts.bench import coordination_store as services
from scripts.bench import postgres_server as postgres
from scripts.bench.coordination_figures import gathered, of_claims, rate_of
from scripts.bench.coordination_store import Desk, desk
from scripts.bench.figures import Figure, at_least, run, single, spread, unmeasured

Q = Queries(Path(__file__).parent)
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
    count, rounds = (16, 1) if quick else (2_000, 3)
    blocked, given = (20, 8) if quick else (5_000, 320)
    numbers = itertools.count()
    async with AsyncExitStack() as stack:

        async def room() -> Desk:
            name = f"room_{next(numbers)}"
            await _ask(server.dsn("postgres"), f"CREATE DATABASE {name} OWNER {OWNER}")
            address = read_address(server.dsn(name).replace("relay@", f"{OWNER}@"), "the bench")
            opened = store.open_store(address, SCHEMAS, connections=CONNECTIONS)
            return await stack.enter_async_context(desk(opened, folder))

        at = await room()
        how = await conditions(at)
        print(f"PostgreSQL: {how}", file=sys.stderr)
        best = (0.0, "")
        for callers in (1, 4) if quick else (1, 4, 8, 16):
            before = _cpu_s(server)
            runs = [await services.pairs(at, count, callers) for _ in range(rounds)]
            ours, theirs = (
                (now - then) / (rounds * count) * 1e6
                for now, then in zip(_cpu_s(server), before, strict=True)
            )
            rate = rate_of(runs, count // callers * callers)
            best = max(best, (rate, _callers(callers)))
            used = f"processor time of a pair {ours:.0f} us here and {theirs:.0f} us in the server"
            yield single(
                f"{PAIRS}, PostgreSQL, {_callers(callers)}", rate, "pairs/s", n=count * rounds, note=f"{used}; {how}"
            )  # fmt: skip
            yield spread(
                f"acquire, PostgreSQL, {_callers(callers)}",
                [took for pairs_run in runs for took in pairs_run[1]],
            )
        yield single(
            f"{PAIRS}, PostgreSQL, the best of these", best[0], "pairs/s", n=count * rounds,
            limits=at_least(1500), note=f"of {best[1]}; public reference 1,650-4,230",
        )  # fmt: skip
        free, waiting = await room(), await room()
        await services.block(waiting, blocked)
        for callers in (1,) if quick else (1, 8):
            async for figure in of_claims("PostgreSQL", free, waiting, blocked, given, rounds, callers):
                yield figure


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


async def conditions(at: Desk) -> str:
    """What of this the figures depend on, as the server tells it."""
    row = await at.store.read(lambda tx: tx.one(Q.conditions))
    acting = await at.store.read(lambda tx: tx.one(Q.conditions), actor=services.caller(0))
    assert row is not None
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

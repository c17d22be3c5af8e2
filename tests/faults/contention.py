"""Many clients at one path, through every interface at once: never two holders, never a nameless one.

Each client is a process: some call the services on a store of their own, some HTTP with a key, some `relay mcp`.
Who holds the lock makes a file that must not be there and writes its fencing token below the others', which must
grow. By hand: `scripts/faults locks --clients 8 --attempts 3000 --store postgres`.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg

from relay.store.postgres.address import VARIABLE
from tests.acceptance.stores import STORES
from tests.outside import PATIENCE_S, REPO, Json, Outside, room, settings

#: Which interface each next client uses.
KINDS = ("process", "http", "mcp", "process", "http", "mcp", "process", "http")
PATH = "src/über, & co/app.py"


async def contention(
    folder: Path, clients: int, attempts: int, within_s: float, store: str = "sqlite"
) -> tuple[list[str], Json]:
    """What does not hold (empty: all is well), and what was counted."""
    async with STORES[store](folder) as (more, env), room(folder, settings(**more)) as one:
        one.env.update(env)
        await one.start()
        told = await _clients(
            one, [KINDS[number % len(KINDS)] for number in range(clients)], attempts, within_s
        )
        found = [f"{one_told['kind']}: {wrong}" for one_told in told for wrong in one_told["wrong"][:5]]
        got = sum(one_told["got"] for one_told in told)
        found += _tokens((folder / "tokens").read_text().splitlines(), got)
        if any(one_told["got"] + one_told["blocked"] != attempts for one_told in told):
            found.append(f"an attempt is missing: {told}")
        left = (await one.get("/locks")) if got else None
        if left != []:
            found.append(f"what is held afterwards: {left}")
        found += await _log(one, got)
    counts: Json = {"store": store, "clients": clients, "attempts": clients * attempts, "got": got}
    counts["blocked"] = sum(one_told["blocked"] for one_told in told)
    counts["by_interface"] = {
        kind: _of(told, kind) for kind in sorted({one_told["kind"] for one_told in told})
    }
    return found, counts


def _of(told: Sequence[Json], kind: str) -> Json:
    of = [one for one in told if one["kind"] == kind]
    return {
        "clients": len(of),
        "got": sum(one["got"] for one in of),
        "seconds": max(one["seconds"] for one in of),
    }


async def _clients(one: Outside, kinds: Sequence[str], attempts: int, within_s: float) -> list[Json]:
    running = []
    try:
        for number, kind in enumerate(kinds):
            name = f"{kind}-{number}"
            env = {"ROOM_URL": one.url}
            if kind == "http":
                status, made = await one.ask("POST", "/keys", json={"identity": name})
                assert status == 200, made
                env["ROOM_KEY"] = made["key"]
            running.append(
                await asyncio.create_subprocess_exec(
                    *(
                        sys.executable,
                        "-m",
                        "tests.faults.contender",
                        kind,
                        name,
                        str(one.folder),
                        str(attempts),
                        PATH,
                    ),
                    cwd=REPO,
                    env=one.environ(env),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                )
            )
        for process in running:
            assert await _line(process, PATIENCE_S) == "ready"
        for process in running:
            assert process.stdin is not None
            process.stdin.write(b"go\n")
        told = [json.loads(await _line(process, within_s)) for process in running]
        assert [await asyncio.wait_for(process.wait(), PATIENCE_S) for process in running] == [0] * len(
            running
        )
        return told
    finally:
        for process in running:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _line(process: asyncio.subprocess.Process, within_s: float) -> str:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), within_s)
    assert line, "a client ended before it was done"
    return line.decode().strip()


def _tokens(lines: Sequence[str], got: int) -> list[str]:
    """The holders in the order in which they held: each with a new token, larger than all before."""
    rows: list[Any] = [line.split() for line in lines]
    found = [f"it was held {got} times and noted {len(rows)} times"] if len(rows) != got else []
    found += [f"a lock of nobody's was refreshed: {row}" for row in rows if row[1] != "acquired"]
    for before, after in pairwise(rows):
        if int(after[0]) <= int(before[0]):
            found.append(f"token {after[0]} came after {before[0]}")
    return found


async def _log(one: Outside, got: int) -> list[str]:
    """Every change is an event, and the log is whole."""
    address = one.env.get(VARIABLE)
    types = await (_types_at(address) if address else asyncio.to_thread(_types, one.runtime / "events.db"))
    found = []
    if types["lock.acquired"] != got or types["lock.released"] != got or types["lock.refreshed"]:
        found.append(f"{got} times held, and events: {dict(types)}")
    verified = await one.relay("verify")
    if verified.code != 0:
        found.append(f"the log does not verify: {verified.all}")
    return found


_COUNTED = "SELECT type, COUNT(*) FROM {} WHERE type LIKE 'lock.%' GROUP BY type"


def _types(path: Path) -> Counter[str]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return Counter(dict(connection.execute(_COUNTED.format("events")).fetchall()))


async def _types_at(address: str) -> Counter[str]:
    connection = await asyncpg.connect(address)
    try:
        return Counter(dict(await connection.fetch(_COUNTED.format("relay.events"))))
    finally:
        await connection.close()

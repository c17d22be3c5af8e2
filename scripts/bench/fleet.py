"""A fleet: 1, 2 and 4 relays on one PostgreSQL server. What they do a second together, and what the server pays for
it; how soon one member sees what another was told; how soon another one leads; how soon a new member has the room's
past; what members cost that nobody asks; and what a server far away costs (a proxy holds each packet back).

`python -m scripts.bench.fleet [--quick]`. Daemons, server and callers share the machine's processors, so the figures
of more members are to be read beside those of one: the notes give the ratios.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import psutil

from scripts.bench import postgres_server as postgres
from scripts.bench.coordination_figures import gathered
from scripts.bench.figures import Figure, at_most, run, single, spread, unmeasured
from scripts.bench.room_daemon import ROOT, Daemon, cpu_s, running

#: As `initdb` leaves it: it flushes what it is told to flush.
AS_INITDB = {"listen_addresses": "", "max_connections": "200"}
MEMBERS, QUICK_MEMBERS = (1, 2, 4), (1, 2)
#: Round trips to the server in ms, of two members each.
ROUND_TRIPS_MS, QUICK_ROUND_TRIPS_MS = (0, 2, 10), (0, 2)
CALLERS = 8
SOCKET = ".s.PGSQL.5432"
Json = dict[str, Any]


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    programs = postgres.binaries()
    if programs is None:
        yield unmeasured("a fleet", postgres.LACKING)
        return
    server = postgres.make_server(programs, AS_INITDB)
    try:
        yield from gathered(_on(server, folder, quick))
    finally:
        server.end()


async def _on(server: postgres.Server, folder: Path, quick: bool) -> AsyncIterator[Figure]:
    alone: dict[str, float] = {}
    for count in QUICK_MEMBERS if quick else MEMBERS:
        async with _fleet(server, folder / f"of-{count}", count) as doors:
            async for figure in _rates(server, doors, 30 if quick else 1_000, alone):
                yield figure
            if count > 1:
                yield await _seen(doors, 10 if quick else 400)
            yield await _idle(server, doors, 3.0 if quick else 30.0)
            if count == 2:
                yield await _replaced(server, folder, doors, 1 if quick else 5)
    yield await _caught_up(server, folder, 200 if quick else 10_000)
    near: dict[str, float] = {}
    for trip_ms in QUICK_ROUND_TRIPS_MS if quick else ROUND_TRIPS_MS:
        where = f", {trip_ms} ms to the server"
        with _held_back(server, trip_ms / 2) as place:
            async with _fleet(server, folder / f"far-{trip_ms}", 2, place) as doors:
                async for figure in _rates(server, doors, 10 if quick else 200, near, where):
                    yield figure


@contextmanager
def _held_back(server: postgres.Server, delay_ms: float) -> Iterator[Path]:
    """A socket that leads to the server, and holds each packet back; its folder."""
    with tempfile.TemporaryDirectory() as folder:
        listen, target = Path(folder) / SOCKET, server.folder / SOCKET
        words = [sys.executable, "-m", "scripts.bench.held_back", str(listen), str(target), str(delay_ms)]
        proxy = subprocess.Popen(words, cwd=ROOT)
        try:
            while not listen.exists() and proxy.poll() is None:
                time.sleep(0.02)
            yield Path(folder)
        finally:
            proxy.kill()
            proxy.wait()


class Door:
    """One member, as a program asks it."""

    def __init__(self, daemon: Daemon, session: aiohttp.ClientSession, name: str) -> None:
        self.daemon, self.session, self.name = daemon, session, name
        self.url = f"http://127.0.0.1:{daemon.port}"
        self.key = daemon.token

    async def ask(self, method: str, path: str, body: Json | None = None, key: str = "") -> Json:
        headers = {"X-API-Key": key or self.key}
        async with self.session.request(method, self.url + path, json=body, headers=headers) as answer:
            told: Json = await answer.json()
            if answer.status not in (200, 201):
                raise RuntimeError(f"{path}: {answer.status} {told}")
            return told


@asynccontextmanager
async def _fleet(
    server: postgres.Server, folder: Path, count: int, place: Path | None = None
) -> AsyncIterator[list[Door]]:
    """`count` members on a database of their own. `place`: the folder of another socket that leads to the server."""
    name = f"fleet_{folder.name.replace('-', '_')}"
    connection = await asyncpg.connect(server.dsn("postgres"))
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    os.environ["RELAY_POSTGRES_DSN"] = f"postgres://relay@/{name}?host={place or server.folder}"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        with ExitStack() as stack:
            doors = []
            for number in range(1, count + 1):
                daemon = await asyncio.to_thread(
                    stack.enter_context, running(folder / f"m{number}", _settings(f"M{number}"))
                )
                doors.append(Door(daemon, session, f"M{number}"))
            yield doors


def _settings(name: str) -> Json:
    return {"storage": "postgres", "fleet": {"name": name}, "dispatcher": {"enabled": False}, "agents": []}


async def _rates(
    server: postgres.Server, doors: list[Door], count: int, first: dict[str, float], where: str = ""
) -> AsyncIterator[Figure]:
    """Messages, lock pairs and claims a second, of `CALLERS` at each member, `count` in all. `first`: what the first
    run of these did, which this one is compared with."""
    keys = [
        (await door.ask("POST", "/keys", {"identity": f"AGENT-{door.name}-{caller}"}))["key"]
        for door in doors
        for caller in range(CALLERS)
    ]
    for number in range(count):
        task = {"task_type": "bench", "task_description": f"item {number}"}
        await doors[number % len(doors)].ask("POST", "/work/submit", task)

    async def message(door: Door, key: str, number: int) -> None:
        await door.ask("POST", "/api/messages", {"body": f"message {number}", "name": "ann"})

    async def pair(door: Door, key: str, number: int) -> None:
        path = f"src/{key[-6:]}/file{number % 50}.py"
        for act in ("acquire", "release"):
            told = await door.ask("POST", f"/locks/{act}", {"file_path": path}, key)
            if told["success"] is not True:
                raise RuntimeError(f"it was not done: {told}")

    async def claim(door: Door, key: str, number: int) -> None:
        taken = await door.ask("POST", "/work/claim", {"task_types": ["bench"]}, key)
        if taken.get("task_id") is None:
            raise RuntimeError(f"nothing was left: {taken}")
        await door.ask("POST", "/work/complete", {"task_id": taken["task_id"], "success": True}, key)

    for what, act in (("messages", message), ("lock pairs", pair), ("claims", claim)):
        before = _server_cpu_s(server), sum(cpu_s(door.daemon.process.pid) for door in doors)
        took = await _together(doors, keys, count, act)
        used_ms = [
            (now - then) / count * 1e3
            for now, then in zip(
                (_server_cpu_s(server), sum(cpu_s(door.daemon.process.pid) for door in doors)),
                before,
                strict=True,
            )
        ]
        rate = count / took
        times = rate / first.setdefault(what, rate)
        yield single(
            f"{what}, {_named(doors)}{where}",
            rate,
            f"{what}/s",
            n=count,
            note=f"{times:.2f} times the first; processor time of each: {used_ms[0]:.2f} ms in the server, "
            f"{used_ms[1]:.2f} ms in the relays",
        )


async def _together(
    doors: list[Door], keys: list[str], count: int, act: Callable[[Door, str, int], Coroutine[Any, Any, None]]
) -> float:
    """`count` acts by all callers at once; the seconds that it took."""
    numbers = iter(range(count))

    async def caller(place: int) -> None:
        for number in numbers:
            await act(doors[place // CALLERS], keys[place], number)

    began = time.perf_counter()
    await asyncio.gather(*(caller(place) for place in range(len(keys))))
    return time.perf_counter() - began


async def _seen(doors: list[Door], count: int) -> Figure:
    """From before an entry is posted at one member until the page of another has it."""
    first, last = doors[0], doors[-1]
    took: list[float] = []
    headers = {"X-API-Key": last.key}
    async with last.session.ws_connect(last.url + "/ws", headers=headers) as socket:
        await socket.send_json({"after": None, "name": "ann"})
        await socket.receive_json()
        for number in range(count):
            began = time.perf_counter()
            body = {"body": f"seen {number}", "name": "ben"}
            posted = asyncio.create_task(first.ask("POST", "/api/messages", body))
            async with asyncio.timeout(60):
                while f"seen {number}" not in (await socket.receive()).data:
                    pass
            took.append(time.perf_counter() - began)
            await posted
            await asyncio.sleep(0.02)
    return spread(f"an entry of one member at another, {_named(doors)}", took, limits=at_most(p95=250))


async def _idle(server: postgres.Server, doors: list[Door], span_s: float) -> Figure:
    """What the server spends while nobody asks, of one core, for each member."""
    await asyncio.sleep(min(5.0, span_s))
    before, began = _server_cpu_s(server), time.monotonic()
    own = sum(cpu_s(door.daemon.process.pid) for door in doors)
    await asyncio.sleep(span_s)
    passed = time.monotonic() - began
    share = (_server_cpu_s(server) - before) / passed / len(doors) * 100
    relays = (sum(cpu_s(door.daemon.process.pid) for door in doors) - own) / passed / len(doors) * 100
    return single(
        f"idle, the server for each member, {_named(doors)}",
        share,
        "% of a core",
        limits={"value": ("<=", 1.0)},
        note=f"over {passed:.0f} s; each relay itself {relays:.2f} %",
    )


async def _replaced(server: postgres.Server, folder: Path, doors: list[Door], times: int) -> Figure:
    """From the kill -9 of the leader until the other member leads."""
    took = []
    with ExitStack() as stack:
        for number in range(times):
            leader, other = await _leader(doors)
            began = time.monotonic()
            leader.daemon.process.send_signal(signal.SIGKILL)
            while (await other.ask("GET", "/api/state"))["fleet"]["leader"] != other.name:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            took.append(time.monotonic() - began)
            if number + 1 < times:
                again = await asyncio.to_thread(
                    stack.enter_context, running(leader.daemon.folder, _settings(leader.name))
                )
                doors = [other, Door(again, other.session, leader.name)]
    return spread("another member leads after a kill of the leader", took, limits=at_most(max=10_000))


async def _leader(doors: list[Door]) -> tuple[Door, Door]:
    while True:
        name = (await doors[0].ask("GET", "/api/state"))["fleet"]["leader"]
        for door, other in (doors, doors[::-1]):
            if door.name == name:
                return door, other
        await asyncio.sleep(0.1)


async def _caught_up(server: postgres.Server, folder: Path, count: int) -> Figure:
    """A new member's start in a room of `count` entries, less the start of one in an empty room."""
    async with _fleet(server, folder / "late", 1) as (first,):
        with running(folder / "late" / "early", _settings("EARLY")) as early:
            plain = early.ready_s
        numbers = iter(range(count))

        async def caller() -> None:
            for number in numbers:
                body = {"body": f"entry {number}: what was said", "name": "ann"}
                await first.ask("POST", "/api/messages", body)

        await asyncio.gather(*(caller() for _ in range(16)))
        with ExitStack() as stack:
            late = await asyncio.to_thread(
                stack.enter_context, running(folder / "late" / "m2", _settings("LATE"))
            )
            lines = late.transcript.read_text().count("\n")
    if lines < count:
        raise RuntimeError(f"its file has {lines} lines of {count}")
    return single(
        f"a new member has {count:,} entries",
        late.ready_s - plain,
        "s",
        limits={"value": ("<=", 10.0)},
        note=f"ready after {late.ready_s:.2f} s; in an empty room after {plain:.2f} s",
    )


def _server_cpu_s(server: postgres.Server) -> float:
    """Processor seconds of the server's processes so far, of those that have ended too."""
    assert server.process is not None
    first = psutil.Process(server.process.pid)
    used = [process.cpu_times() for process in first.children()]
    own = first.cpu_times()
    ended = own.children_user + own.children_system
    return own.user + own.system + ended + sum(one.user + one.system for one in used)


def _named(doors: list[Door]) -> str:
    return "1 member" if len(doors) == 1 else f"{len(doors)} members"


if __name__ == "__main__":
    sys.exit(run("fleet", measure, __doc__.partition("\n\n")[0]))

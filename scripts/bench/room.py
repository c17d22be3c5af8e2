"""The room's figures: delivery, ingest, the way to an agent, the start, and what it costs to stand idle.

Delivery and ingest stand beside their floors (`room_floors.py`), by turns with them.
Everything runs on this machine: the load that is made takes its share of the same processor cores.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import uuid_utils

from relay.model import Kind, Message
from relay.room.parsing import line_format
from scripts.bench.figures import Figure, at_least, at_most, beside, run, single, spread, turns
from scripts.bench.graph import made_of_copies
from scripts.bench.room_daemon import ROOT, Daemon, cpu_s, running
from scripts.bench.room_floors import PlainRows, broadcasting
from scripts.bench.worktrees import git

MAX_NUMBER = "SELECT COALESCE(MAX(number), 0) FROM messages"
WORDS = "the parser's tests pass again and the lock is given back "
#: An agent that writes the time at which it began (Unix, microseconds) before anything else.
PROBE = 'echo "$EPOCHREALTIME" >> started; cat > /dev/null; echo done'


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    yield from old_room(folder / "old", entries=2_000 if quick else 100_000, quick=quick)
    yield from idle_room(folder / "idle", quick)
    yield from busy_room(folder / "busy", quick)


def old_room(folder: Path, entries: int, quick: bool) -> Iterator[Figure]:
    """A room that takes over a long transcript, and then starts again with it."""
    path = folder / ".relay" / "transcript.log"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(b"".join(_line(number) for number in range(entries)))
    settings = {"dispatcher": {"enabled": False}}
    with running(folder, settings) as daemon:
        yield single("first start beside an unread transcript, ready", daemon.ready_s * 1000, "ms")
        began = time.monotonic() - daemon.ready_s
        done = daemon.wait_until("the import", lambda: daemon.ask(MAX_NUMBER) >= entries, 900)
        yield single("first import, from the start on", done - began, "s", n=entries)
        yield single("first import", entries / (done - began), "entries/s", n=entries)
        # The views of the log (memory, knowledge, the search) go on after the last entry is there.
        still = daemon.wait_until_still(900)
        yield single("first import, until every view has it", still - began, "s", n=entries)
        used = cpu_s(daemon.process.pid, whole=True)
        yield single("first import, processor time until then", used, "s", n=entries, note="with the start")
        yield single("memory after the import", daemon.rss_mb(), "MB", limits=at_most(value=120))
    starts = []
    for _ in range(1 if quick else 7):
        with running(folder, settings) as daemon:
            starts.append(daemon.ready_s)
    yield spread(
        f"ready, {entries:,} entries ingested", starts, limits=at_most(max=1500), note="process to /health"
    )
    with running(folder, settings) as daemon:
        daemon.wait_until_still()
        seconds, before = (2, cpu_s(daemon.process.pid)) if quick else (30, cpu_s(daemon.process.pid))
        time.sleep(seconds)
        share = (cpu_s(daemon.process.pid) - before) / seconds * 100
        yield single(
            "idle processor time", share, "% of a core", limits=at_most(value=1.0), note=f"{seconds} s"
        )
        yield single("memory idle", daemon.rss_mb(), "MB", limits=at_most(value=120))


def idle_room(folder: Path, quick: bool) -> Iterator[Figure]:
    """Ten agents that nobody asks, each with its worktree, and every wing that a room has unless told otherwise."""
    files = 20 if quick else 300
    made_of_copies(folder, files)
    git(folder, "commit", "-q", "-m", "first")
    agents = [{"name": f"AGENT{number}", "kind": "command", "cmd": ["true"]} for number in range(10)]
    with running(folder, {"agents": agents}) as daemon:
        # The worktrees are made, and the graph built, while nobody waits for it.
        daemon.wait_until_still()
        seconds, before = (2 if quick else 60), cpu_s(daemon.process.pid, whole=True)
        time.sleep(seconds)
        share = (cpu_s(daemon.process.pid, whole=True) - before) / seconds * 100
        about = {"size": f"10 agents, {files} files, all wings", "note": f"{seconds} s; with its processes"}
        yield single(
            "idle, ten agents, processor time", share, "% of a core", limits=at_most(value=1.0), **about
        )
        about["note"] = "the daemon alone"
        yield single("idle, ten agents, memory", daemon.rss_mb(), "MB", limits=at_most(value=80), **about)
        yield single(
            "idle, ten agents, memory of its processes", daemon.others_mb(), "MB", **{**about, "note": "USS"}
        )


def _line(number: int) -> bytes:
    """A line of a conversation: a person asks, an agent answers; so the last of an even many is an answer."""
    agent = number % 2 == 1
    return line_format.encode(
        Message(
            id=str(uuid_utils.uuid7()),
            ts="2026-01-01T00:00:00.000Z",
            speaker="CLAUDE" if agent else "ann",
            kind=Kind.AGENT if agent else Kind.HUMAN,
            body=f"{number}: {WORDS * 3}",
        )
    )


def busy_room(folder: Path, quick: bool) -> Iterator[Figure]:
    """A room in which people write and an agent is called."""
    probe = {"name": "PROBE", "kind": "command", "cmd": ["bash", "-c", PROBE], "cwd": str(folder)}
    # The dispatcher would be asked for what mentions nobody; without it such messages go to the one agent.
    with running(folder, {"dispatcher": {"enabled": False}, "agents": [probe]}) as daemon:
        count = 3 if quick else 50
        yield spread(
            "append of a hard mention to the agent's start",
            [called(daemon, number) for number in range(count)],
            limits=at_most(p95=30),
            note="the target is taken at p95; the agent is bash, whose own start is in it",
        )
        asyncio.run(_ask(daemon, "/api/agents/PROBE/pause", {}))
        yield from of_clients(daemon, *((5, 20, 1, 1) if quick else (200, 50, 6, 5)))
        yield single("memory after the clients", daemon.rss_mb(), "MB", limits=at_most(value=120))
        yield from of_bursts(daemon, folder / "plain.db", *((1_000, 1) if quick else (4_000, 5)))


def of_clients(daemon: Daemon, clients: int, rate: int, seconds: int, rounds: int) -> Iterator[Figure]:
    """Messages to many clients, by turns with a bare server that sends as many bytes."""
    room = (daemon.port, daemon.process.pid)
    # What the room sends a client for a message; the bare server is told.
    size = delivered(room, daemon.token, 1, rate, 1)[3] // rate
    acks: list[float] = []
    took: dict[str, list[float]] = {"room": [], "bare": []}
    shares: list[float] = []
    with broadcasting(size) as bare:
        for name in turns(took, rounds):
            server = room if name == "room" else bare
            answered, came, share, _ = delivered(server, daemon.token, clients, rate, seconds)
            took[name] += came
            if name == "room":
                acks += answered
                shares.append(share)
    how = f"{clients} clients, {rate} messages/s"
    yield beside(
        spread(
            f"post to delivered, {how}", took["room"], limits=at_most(p50=5, p99=25), size=f"{size} bytes a message",
            note=f"the daemon used {max(shares):.0f} % of a core; poster and clients run on the same cores",
        ),
        spread(f"a bare broadcast, {how}", took["bare"]),
        at_most(ratio=3, ratio_p99=3),
    )  # fmt: skip
    yield spread("post to acknowledged, meanwhile", acks)


def of_bursts(daemon: Daemon, copy: Path, lines: int, rounds: int) -> Iterator[Figure]:
    """Lines that come at once, by turns with their rows in plain sqlite3."""
    rates, plain_rates, commits = [], [], 0
    with closing(PlainRows(daemon.folder / ".relay" / "events.db", copy)) as plain:
        for _ in range(rounds):
            # What the followers made of the burst before is in neither of the two.
            daemon.wait_until_still()
            plain.catch_up()
            rates.append(burst(daemon, lines))
            seconds, many = plain.catch_up()
            plain_rates.append(lines / seconds)
            commits += many
    yield beside(
        single(
            "burst ingest", median(rates), "entries/s", n=lines * rounds, limits=at_least(5000),
            size=f"{lines:,} lines at once",
            note="half plain lines and half JSON; until the last is committed with its offset",
        ),
        single(
            f"the same rows, {commits} commits, plain sqlite3", median(plain_rates), "entries/s", n=lines * rounds
        ),
        {"ratio": (">=", 0.4)},
    )  # fmt: skip


def called(daemon: Daemon, number: int) -> float:
    """Seconds from an append that mentions the agent to the agent's first act; waits until its turn ended."""
    started = daemon.folder / "started"
    line = f"[ann] @PROBE number {number}\n".encode()
    at = time.time()
    line_format.append(daemon.transcript, daemon.append_lock, line)
    ended = "SELECT COUNT(*) FROM dispatch_queue WHERE state = 'done'"
    daemon.wait_until("the agent's turn", lambda: daemon.ask(ended) > number, 60)
    return float(started.read_text().split()[number]) - at


async def _ask(daemon: Daemon, path: str, body: dict[str, Any]) -> None:
    async with (
        aiohttp.ClientSession(headers={"X-API-Key": daemon.token}) as session,
        session.post(f"http://127.0.0.1:{daemon.port}{path}", json=body) as answer,
    ):
        answer.raise_for_status()


def delivered(
    server: tuple[int, int], token: str, clients: int, rate: int, seconds: int
) -> tuple[list[float], list[float], float, int]:
    """Post beside connected clients, at a server's port and process: seconds to each acknowledgement, to each arrival
    at each client, the server's share of a core in percent, and the bytes that a client got."""
    port, pid = server
    messages = rate * seconds
    words = [sys.executable, "-m", "scripts.bench.room_clients", str(port), token]
    follower = subprocess.Popen(
        [*words, str(clients), str(messages)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert follower.stdout is not None
        if follower.stdout.readline().strip() != "ready":
            raise RuntimeError("the clients could not connect")
        before, began = cpu_s(pid), time.monotonic()
        acks = asyncio.run(_post(port, token, rate, messages))
        share = (cpu_s(pid) - before) / (time.monotonic() - began) * 100
        output = follower.communicate(timeout=120)[0]
        if follower.returncode != 0:
            raise RuntimeError("the clients did not get everything (see above)")
        told = json.loads(output)
    finally:
        follower.kill()
        follower.wait()
    return acks, told["took"], share, told["bytes"] // clients


async def _post(port: int, token: str, rate: int, messages: int) -> list[float]:
    acks: list[float] = []
    url = f"http://127.0.0.1:{port}/api/messages"
    async with aiohttp.ClientSession(headers={"X-API-Key": token}) as session:

        async def post() -> None:
            at = time.monotonic()
            async with session.post(url, json={"name": "ann", "body": f"sent={at:.6f}; {WORDS}"}) as answer:
                answer.raise_for_status()
                await answer.read()
            acks.append(time.monotonic() - at)

        first = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(messages):
                await asyncio.sleep(max(0.0, first + number / rate - time.monotonic()))
                group.create_task(post())
    return acks


def burst(daemon: Daemon, lines: int) -> float:
    """Entries a second, from the end of the append until all are in the database."""
    people = ("ann", "bob")
    text = b"".join(
        f"[{people[number % 2]}] {number}: {WORDS}\n".encode() if number % 2 else _person(number)
        for number in range(lines)
    )
    before = daemon.ask(MAX_NUMBER)
    began = time.monotonic()
    line_format.append(daemon.transcript, daemon.append_lock, text)
    done = daemon.wait_until("the burst", lambda: daemon.ask(MAX_NUMBER) >= before + lines, 600, 0.005)
    return lines / (done - began)


def _person(number: int) -> bytes:
    return line_format.encode(
        Message(id=str(uuid_utils.uuid7()), ts="", speaker="ann", kind=Kind.HUMAN, body=f"{number}: {WORDS}")
    )


if __name__ == "__main__":
    sys.exit(run("room", measure, "Deliver, ingest, call an agent, start, and stand idle."))

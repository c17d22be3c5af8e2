"""A long life: a room with a year behind it (a million entries), and what it costs to start it, to read, search and
recall in it, to verify and to archive it, and its size on disk.

`python -m scripts.bench.long_life [--quick] [--entries N] [--dir FOLDER]`
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scripts.bench.figures import Figure, at_most, carry_out, options, single, spread, stopwatch
from scripts.bench.long_life_room import AGENTS, BEGAN, YEAR_S, Talk, make
from scripts.bench.room_daemon import ROOT, Daemon, cpu_s, running

ENTRIES, QUICK = 1_000_000, 400
#: The goal is half of what a post took, with its share of the indexes, before (issue 17): 12.5 KiB.
BYTES_A_POST = 6.25 * 1024
_SETTINGS = {
    "dispatcher": {"enabled": False},
    "agents": [{"name": name, "kind": "command", "cmd": ["true"]} for name in AGENTS],
}


def measure(folder: Path, entries: int, samples: int) -> Iterator[Figure]:
    room = folder / "room"
    database = room / ".relay" / "events.db"
    began, used = time.perf_counter(), time.process_time()
    asyncio.run(make(database, entries))
    took = time.perf_counter() - began
    note = f"processor time {time.process_time() - used:,.0f} s; a year"
    yield single("the room is made", took, "s", n=entries, note=note)
    with running(room, _SETTINGS) as daemon:
        # The first start writes what the transcript file lacks: all of it.
        daemon.wait_until("the transcript", lambda: _settled(daemon), 3600, 1.0)
    yield from _size(room, entries)
    starts: list[float] = []
    for _ in range(3 if entries < ENTRIES else 5):
        with running(room, _SETTINGS) as daemon:
            starts.append(daemon.ready_s)
    yield spread("ready", starts, note=f"{entries:,} entries; process to /health")
    with running(room, _SETTINGS) as daemon:
        yield from _asked(daemon, entries, samples)
        yield single("memory, having been asked", daemon.rss_mb(), "MB")
    yield _ran(room, "verify", ["verify", "--json"], entries)
    yield _ran(room, "the transcript's archive", ["archive", "--json"], entries)
    half = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BEGAN + YEAR_S / 2))
    yield _ran(
        room, "archive of half a year of events", ["timeline", "archive", "--before", half, "--json"], entries
    )
    yield from _size(room, entries, ", half of the year archived")


def _settled(daemon: Daemon) -> bool:
    """Nothing is done any more."""
    before = cpu_s(daemon.process.pid)
    time.sleep(2.0)
    return cpu_s(daemon.process.pid) - before < 0.2


def _size(room: Path, entries: int, when: str = "") -> Iterator[Figure]:
    """Bytes a post of the database, and of all that the room has on disk."""
    files = [path for path in (room / ".relay").rglob("*") if path.is_file()]
    database = sum(path.stat().st_size for path in files if path.name.startswith("events.db"))
    limits = None if when else at_most(value=BYTES_A_POST)
    yield single(f"the database{when}, a post", database / entries, "bytes", n=entries, limits=limits)
    whole = sum(path.stat().st_size for path in files)
    yield single(f"the room on disk{when}, a post", whole / entries, "bytes", n=entries)


def _asked(daemon: Daemon, entries: int, samples: int) -> Iterator[Figure]:
    talk, took = Talk(), {"page": [], "page back": [], "search": [], "recall": []}  # type: dict[str, list[float]]
    last = daemon.ask("SELECT MAX(pos) FROM events")
    for sample in range(samples):
        asked = {
            "page": "/api/transcript?limit=100",
            "page back": f"/api/transcript?limit=100&before={last * (sample + 1) // (samples + 1)}",
            "search": f"/api/search?limit=50&q={urllib.parse.quote(talk.words(3))}",
            "recall": f"/api/memory?limit=20&q={urllib.parse.quote(talk.words(8))}",
        }
        for name, path in asked.items():
            with stopwatch(took[name]):
                _get(daemon, path)
    told = {"page": "the last 100 entries", "page back": "100 older entries", "search": "search, 3 words"}
    for name, seconds in took.items():
        yield spread(told.get(name, "recall, 8 words"), seconds, note=f"over HTTP; {entries:,} entries")


def _get(daemon: Daemon, path: str) -> Any:
    headers = {"Authorization": f"Bearer {daemon.token}"}
    asked = urllib.request.Request(f"http://127.0.0.1:{daemon.port}{path}", headers=headers)
    with urllib.request.urlopen(asked, timeout=120) as answer:
        return json.load(answer)


def _ran(room: Path, name: str, words: Sequence[str], entries: int) -> Figure:
    """A command of its own process, while no daemon runs."""
    command = [sys.executable, "-m", "relay.cli", *words, "--config", str(room / "config.json")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(command, cwd=room, env=environment, capture_output=True, text=True, check=False)
    took, after = time.perf_counter() - began, os.times()
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout[-500:]}{done.stderr[-1500:]}")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return single(name, took, "s", n=entries, note=f"processor time {used:.1f} s")


def main() -> int:
    parser = options("long_life", (__doc__ or "").split("\n\n")[0])
    parser.add_argument("--entries", type=int, help=f"entries of the room ({ENTRIES:,})")
    args = parser.parse_args()
    entries = args.entries or (QUICK if args.quick else ENTRIES)
    return carry_out("long_life", lambda folder: measure(folder, entries, 3 if args.quick else 50), args)


if __name__ == "__main__":
    sys.exit(main())

"""`scripts/faults [room|writes|rewinds|timeline|memory|landing|steering]`: as many storms as wanted, each with its
seed; `locks`: nobody is killed. `fleet`: several relays in network namespaces, with options of its own
(tests/faults/fleet/__main__.py)."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests import postgres
from tests.acceptance.stores import STORES
from tests.faults.contention import contention
from tests.faults.fleet.__main__ import main as fleet
from tests.faults.landing import kills_of_the_landing
from tests.faults.memory import kills_of_the_memory
from tests.faults.rewinds import rewinds
from tests.faults.steering import steering
from tests.faults.storm import storm
from tests.faults.timeline import kills_of_the_timeline
from tests.faults.writes import writes

#: Seconds that the clients of `locks` may take for one attempt each, on a loaded machine.
ATTEMPT_S = 0.5


def main() -> int:
    if sys.argv[1:2] == ["fleet"]:
        return fleet(sys.argv[2:])
    options = argparse.ArgumentParser(prog="scripts/faults", description=__doc__)
    what = "room: people post (default); writes: agents write at every interface; "
    what += "rewinds: a process takes back and undoes; "
    what += "timeline: a process records, takes snapshots, imports and archives; "
    what += "memory: agents remember and forget, files are imported, people decide and ask; "
    what += "landing: a queue lands branches; "
    what += "steering: people write into running turns; "
    what += "locks: many clients at one path"
    options.add_argument(
        "what",
        nargs="?",
        choices=("room", "writes", "rewinds", "timeline", "memory", "landing", "steering", "locks"),
        default="room",
        help=what,
    )
    options.add_argument("--clients", type=int, default=8, help="locks: processes (8)")
    options.add_argument("--attempts", type=int, default=3000, help="locks: attempts of each (3000)")
    options.add_argument("--runs", type=int, default=100, help="storms (100)")
    options.add_argument("--seed", type=int, default=1, help="the first one's seed; the others count on (1)")
    options.add_argument("--kills", type=int, default=4, help="kills in each (4)")
    options.add_argument("--posts", type=int, default=10, help="room: messages by each of four ways (10)")
    options.add_argument("--rounds", type=int, default=8, help="writes, memory: rounds of each at least (8)")
    options.add_argument("--messages", type=int, default=600, help="steering: messages in all (600)")
    options.add_argument(
        "--pause", type=float, default=0.2, help="steering: seconds between two messages of a person (0.2)"
    )
    options.add_argument(
        "--store", choices=sorted(STORES), default="sqlite", help="where the room is (sqlite)"
    )
    chosen = options.parse_args()
    try:
        return _locks(chosen) if chosen.what == "locks" else _storms(chosen)
    finally:
        postgres.end()


def _storms(chosen: argparse.Namespace) -> int:
    failed = []
    for seed in range(chosen.seed, chosen.seed + chosen.runs):
        began = time.monotonic()
        folder = Path(tempfile.mkdtemp(prefix=f"relay-faults-{seed}-"))
        if chosen.what == "writes":
            found, counts = asyncio.run(
                writes(folder / "room", seed, kills=chosen.kills, rounds=chosen.rounds, store=chosen.store)
            )
            print(json.dumps(counts))
        elif chosen.what == "rewinds":
            found, counts = asyncio.run(rewinds(folder / "room", seed, kills=chosen.kills))
            print(json.dumps(counts))
        elif chosen.what == "timeline":
            found, counts = asyncio.run(kills_of_the_timeline(folder / "room", seed, kills=chosen.kills))
            print(json.dumps(counts))
        elif chosen.what == "steering":
            found, counts = asyncio.run(
                steering(folder, seed, messages=chosen.messages, kills=chosen.kills, pause_s=chosen.pause)
            )
            print(json.dumps(counts))
        elif chosen.what == "landing":
            found, counts = asyncio.run(kills_of_the_landing(folder / "room", seed, kills=chosen.kills))
            print(json.dumps(counts))
        elif chosen.what == "memory":
            found, counts = asyncio.run(
                kills_of_the_memory(
                    folder / "room", seed, kills=chosen.kills, rounds=chosen.rounds, store=chosen.store
                )
            )
            print(json.dumps(counts))
        else:
            found = asyncio.run(
                storm(folder / "room", seed, kills=chosen.kills, posts=chosen.posts, store=chosen.store)
            )
        if not found:
            shutil.rmtree(folder)
        took = time.monotonic() - began
        print(f"seed {seed}: {'ok' if not found else 'FAILED'} ({took:.1f} s)", flush=True)
        for problem in found:
            print(f"  {problem}", flush=True)
        if found:
            failed.append(seed)
            print(f"  its room is kept: {folder}", flush=True)
    print(f"{chosen.runs - len(failed)} of {chosen.runs} held" + (f"; failed: {failed}" if failed else ""))
    return 1 if failed else 0


def _locks(chosen: argparse.Namespace) -> int:
    folder = Path(tempfile.mkdtemp(prefix="relay-faults-locks-"))
    clients, attempts = chosen.clients, chosen.attempts
    within_s = 60 + clients * attempts * ATTEMPT_S
    found, counts = asyncio.run(contention(folder / "room", clients, attempts, within_s, chosen.store))
    shutil.rmtree(folder)
    print(json.dumps(counts), *found, sep="\n  ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

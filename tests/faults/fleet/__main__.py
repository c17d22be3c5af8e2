"""Faults of a fleet, in a cage: python -m tests.faults.fleet [--rounds N] [--seed S] [--faults kill,freeze]

Each round is a fleet of its own, with its seed, to which every fault is done once, in an order that the seed says.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.faults.fleet import cage
from tests.faults.fleet.checks import notices
from tests.faults.fleet.faults import FAULTS, Said
from tests.faults.fleet.network import command
from tests.faults.fleet.room import Fleet, fleets, short


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(prog="scripts/faults fleet", description=__doc__)
    options.add_argument("--rounds", type=int, default=1, help="fleets (1)")
    options.add_argument("--seed", type=int, default=1, help="the first one's seed; the others count on (1)")
    options.add_argument("--span", type=float, default=60.0, help="seconds that a fault lasts (60)")
    options.add_argument("--lease", type=float, default=30.0, help="fleet.lease_s (30)")
    options.add_argument(
        "--pause", type=float, default=1.0, help="seconds between two messages of a person (1)"
    )
    options.add_argument("--faults", default=",".join(FAULTS), help="these, with commas (all)")
    options.add_argument("--no-hand", action="store_true", help="nothing is appended to the files by hand")
    options.add_argument("--only", help="with --apart: the room of this member alone")
    options.add_argument("--apart", action="store_true", help="three rooms of one member each, not a fleet")
    options.add_argument("--keep", type=Path, help="a folder for what tells of a round that failed")
    options.add_argument("--caged", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args(arguments)
    unknown = {*chosen.faults.split(",")} - {*FAULTS}
    if unknown:
        options.error(f"there is no fault {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}")
    if not chosen.caged:
        if why := cage.missing():
            print(f"faults: {why}", file=sys.stderr)
            return 1
        return cage.enter("tests.faults.fleet", arguments)
    return cage.live(lambda: _rounds(chosen))


def _rounds(chosen: argparse.Namespace) -> int:
    failed = []
    command("mount", "-t", "tmpfs", "-o", "mode=755", "none", str(cage.FLOOR))
    for seed in range(chosen.seed, chosen.seed + chosen.rounds):
        began = time.monotonic()
        found = asyncio.run(_round(seed, chosen))
        held = "ok" if not found else "FAILED"
        print(f"seed {seed}: {held} ({time.monotonic() - began:.0f} s)", *found, sep="\n  ", flush=True)
        if found:
            failed.append(seed)
        if seed + 1 < chosen.seed + chosen.rounds:
            command("umount", "--recursive", str(cage.FLOOR))
            command("mount", "-t", "tmpfs", "-o", "mode=755", "none", str(cage.FLOOR))
    print(
        f"{chosen.rounds - len(failed)} of {chosen.rounds} held" + (f"; failed: {failed}" if failed else "")
    )
    return 1 if failed else 0


async def _round(seed: int, chosen: argparse.Namespace) -> list[str]:
    """What did not hold in one round."""
    found: list[str] = []
    async with fleets(seed, apart=chosen.apart, lease_s=chosen.lease, only=chosen.only) as made:
        order = chosen.faults.split(",")
        random.Random(seed).shuffle(order)
        try:
            for name in order:
                for fleet in made:
                    wrong = await _fault(fleet, name, chosen)
                    found += [
                        f"{name} at {'+'.join(one.name for one in fleet.members)}: {what}" for what in wrong
                    ]
        finally:
            if chosen.keep is not None and (found or sys.exc_info()[0] is not None):
                for fleet in made:
                    await fleet.keep(chosen.keep / f"seed-{seed}" / fleet.database)
    return found


async def _fault(fleet: Fleet, name: str, chosen: argparse.Namespace) -> list[str]:
    """Do one fault while people write, let all come to rest, and look."""
    began = time.monotonic()
    dice = random.Random(fleet.dice.random())
    await fleet.look()
    wanted: Said
    async with fleet.busy(chosen.pause, by_hand=not chosen.no_hand):
        await asyncio.sleep(dice.uniform(0.5, 3.0) * chosen.pause)
        wanted = await FAULTS[name](fleet, dice, chosen.span)
        await fleet.worked()
        await asyncio.sleep(2 * chosen.pause)
    found = [*await fleet.settle(), *await fleet.problems()]
    if not chosen.apart:
        found += notices(await fleet.said(), wanted)
    counts = {
        "fault": name,
        "seconds": round(time.monotonic() - began, 1),
        "said": len(fleet.told.mentions),
        "acknowledged": len(fleet.told.acknowledged),
        "repeated": fleet.told.repeated,
        "moved": fleet.told.moved,
        "tasks": len(fleet.told.tasks),
        "wrong": len(found),
    }
    print(json.dumps(counts), *short(found), sep="\n  ", flush=True)
    return short(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

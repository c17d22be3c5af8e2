"""`scripts/faults`: as many storms as wanted, each with its seed."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.storm import storm


def main() -> int:
    options = argparse.ArgumentParser(prog="scripts/faults", description=__doc__)
    options.add_argument("--runs", type=int, default=100, help="storms (100)")
    options.add_argument("--seed", type=int, default=1, help="the first one's seed; the others count on (1)")
    options.add_argument("--kills", type=int, default=4, help="kills in each (4)")
    options.add_argument("--posts", type=int, default=10, help="messages by each of four ways (10)")
    chosen = options.parse_args()
    failed = []
    for seed in range(chosen.seed, chosen.seed + chosen.runs):
        began = time.monotonic()
        folder = Path(tempfile.mkdtemp(prefix=f"relay-faults-{seed}-"))
        found = asyncio.run(storm(folder / "room", seed, kills=chosen.kills, posts=chosen.posts))
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


if __name__ == "__main__":
    sys.exit(main())

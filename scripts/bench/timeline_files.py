"""The files of a large checkout: a snapshot after a few were touched, and a look at all of them.

A made repository of 50,000 files. `raw` is git alone for the same: the touched files into an index that is kept, and
that into a tree; what `git status` reads, and the tree.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

from relay.git.checkout import open_checkout
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import Snapshotter
from scripts.bench.figures import Figure, at_most, spread, stopwatch
from scripts.bench.timeline_rewind import FILES, git, make

TOUCHED = 5
#: Seconds between two ticks of the loop whose lateness is measured.
TICK_S = 0.005


def snapshots(folder: Path, files: int, rounds: int) -> Iterator[Figure]:
    names = make(folder, files)
    yield from asyncio.run(_snapshots(folder, names, rounds))


async def _snapshots(folder: Path, names: list[str], rounds: int) -> list[Figure]:
    top = folder / "codex"
    checkout = await open_checkout(top)
    scratch = ScratchRepository(folder / "scratch")
    await scratch.empty()
    await scratch.borrow([checkout])
    snapshotter = Snapshotter(scratch, checkout, "bench")
    await snapshotter.take()
    dice = random.Random(1)
    index = folder / "raw-index"
    env = {
        **os.environ,
        "GIT_INDEX_FILE": str(index),
        "GIT_DIR": str(checkout.git_dir),
        "GIT_WORK_TREE": str(top),
    }
    index.write_bytes(checkout.index.read_bytes())
    took, looked, raw, raw_looked, late = (list[float]() for _ in range(5))
    for number in range(rounds):
        touched = dice.sample(names, TOUCHED)
        for name in touched:
            (top / name).write_text(f"touched {number} {name}\n")
        with stopwatch(took):
            snapshot = await snapshotter.update([name.encode() for name in touched])
        with stopwatch(raw):
            git(top, "update-index", "--add", "--", *touched, env=env)
            tree = git(top, "write-tree", env=env)
        assert snapshot.tree == tree, "git makes the same tree"
    for _ in range(max(3, rounds // 5)):
        ticking = asyncio.create_task(_ticks(late))
        with stopwatch(looked):
            await snapshotter.take()
        ticking.cancel()
        with stopwatch(raw_looked):
            git(top, "ls-files", "--modified", "--others", "--exclude-standard", "-z", env=env)
            git(top, "write-tree", env=env)
    note = f"{len(names):,} files, {TOUCHED} touched before each"
    large = len(names) >= FILES
    goal, goal_looked = (at_most(p95=150.0), at_most(p95=1500.0)) if large else (None, None)
    return [
        spread(
            f"snapshot after {TOUCHED} touched files",
            took,
            limits=goal,
            note=note,
        ),
        spread(f"snapshot after {TOUCHED} touched files, raw", raw, note=note),
        spread("full look", looked, limits=goal_looked, note=f"{len(names):,} files"),
        spread("full look, raw", raw_looked, note=f"{len(names):,} files"),
        spread("loop lag during a full look", late, note=f"ticks of {TICK_S * 1000:g} ms"),
    ]


async def _ticks(late: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(TICK_S)
        late.append(max(0.0, time.perf_counter() - began - TICK_S))

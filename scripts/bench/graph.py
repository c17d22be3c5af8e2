"""The graph's figures: cold, warm, one changed file, and what a pair of working sets costs.

The repository is made of copies of this project's own sources, each a package of its own and each file different
by a line; or RELAY_BENCH_REPO names a checkout to be measured instead (nothing in it stays changed). The clock
runs from the daemon's side: processes started, database read, until the graph can be asked.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from relay import airspace
from relay.airspace.scan.symbol_hazards import SymbolFacts
from relay.code.service import GraphService
from relay.log import events
from relay.model.working_set import FileTouch, Span, WorkingSet
from relay.store.sqlite.store import SqliteStore, open_store
from scripts.bench.figures import Figure, at_most, run, single, spread, stopwatch

ROOT = Path(__file__).parents[2]
FILES = 5_000
#: Seconds between two looks whether the event loop stands still.
LOOK_S = 0.002


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    named = os.environ.get("RELAY_BENCH_REPO")
    repo = Path(named) if named else made_of_copies(folder / "repo", 200 if quick else FILES)
    yield from asyncio.run(measured(folder, repo, 10 if quick else 200, quick))


def made_of_copies(repo: Path, count: int) -> Path:
    """A repository of `count` source files: this project's Python, TypeScript and tests, again and again."""
    own = [
        path
        for folder in ("relay", "tests", "scripts", "web/src")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".ts", ".tsx") and "node_modules" not in path.parts
    ]
    for number in range(count):
        source = own[number % len(own)]
        place = repo / f"copy_{number // len(own):03}" / source.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        mark = "#" if source.suffix == ".py" else "//"
        place.write_bytes(source.read_bytes() + f"{mark} {number}\n".encode())
    subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
    subprocess.run(["git", "add", "-A"], cwd=repo, check=True)
    return repo


async def measured(folder: Path, repo: Path, samples: int, quick: bool) -> list[Figure]:
    store: SqliteStore = await open_store(
        folder / "events.db", [events.FOLDER, Path(airspace.__file__).parent]
    )
    figures: list[Figure] = []
    try:
        before = os.times()
        took, stood, service = await started(store, repo)
        counts = service.graph.counts
        paths = [
            path
            for path in service.graph.adjacency()
            if (repo / path).suffix not in (".json", ".toml", ".mod")
        ]
        sizes = sorted((repo / path).stat().st_size for path in paths)
        about = (
            f"{counts.files:,} files, {counts.edges:,} edges, {counts.failed} that do not parse, "
            f"{sum(sizes) / 1e6:.1f} MB, median {sizes[len(sizes) // 2]:,} bytes, {len(service.left_out)} left out"
        )
        limits = None if quick else at_most(value=20.0)
        figures.append(single("cold build", took, "s", limits=limits, note=about))
        figures.append(spread("event loop held up while building", stood))
        await service.close()
        used = os.times()
        note = "of the worker processes, list to last edge: what other work on the machine does not change"
        seconds = used.children_user + used.children_system - before.children_user - before.children_system
        figures.append(single("cold build, processor time", seconds, "s", note=note))
        warm = []
        for _ in range(3 if quick else 10):
            took, _, service = await started(store, repo)
            warm.append(took)
            await service.changed(["no-such-file.py"])  # waits until the worker has taken in everything
            await service.close()
        limits = at_most(p95=500.0)
        figures.append(spread("warm start", warm, limits=limits, note=about))
        _, _, service = await started(store, repo)
        figures += await changes(service, repo, paths, samples)
        figures += pairs(service, paths, quick)
        await service.close()
        size = sum(file.stat().st_size for file in folder.glob("events.db*"))
        figures.append(single("database", size / 1e6, "MB", note=about))
    finally:
        await store.close()
    return figures


async def started(store: SqliteStore, repo: Path) -> tuple[float, list[float], GraphService]:
    """(seconds until there is a graph, how long the loop stood still at each look, the service)."""
    stood: list[float] = []

    async def watch() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(LOOK_S)
            stood.append(max(0.0, time.perf_counter() - before - LOOK_S))

    service = GraphService(store)
    watching = asyncio.create_task(watch())
    began = time.perf_counter()
    await service.start(repo)
    took = time.perf_counter() - began
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    return took, stood, service


async def changes(service: GraphService, repo: Path, paths: list[str], samples: int) -> list[Figure]:
    """One changed file, of any size and of 10 KB at most; an added and a removed one."""
    chosen = random.Random(4).sample(paths, min(samples, len(paths)))
    await service.changed(["no-such-file.py"])
    changed: list[float] = []
    sizes: list[int] = []
    for path in chosen:
        file = repo / path
        before = file.read_bytes()
        try:
            file.write_bytes(before + b"\n")
            with stopwatch(changed):
                await service.changed([path])
        finally:
            file.write_bytes(before)
        await service.changed([path])
        sizes.append(len(before))
    small = [took for took, size in zip(changed, sizes, strict=True) if size <= 10_000]
    about = f"sizes p50 {sorted(sizes)[len(sizes) // 2]:,} bytes, largest {max(sizes):,}"
    figures = [spread("one changed file", changed, limits=at_most(p50=20.0, p95=20.0), note=about)]
    if small:
        figures.append(spread("one changed file of 10 KB at most", small, limits=at_most(p99=20.0)))
    added: list[float] = []
    removed: list[float] = []
    for number in range(max(5, samples // 10)):
        path = f"{chosen[number % len(chosen)].rpartition('/')[0]}/relay_bench_{number}.py".lstrip("/")
        file = repo / path
        file.write_text("import os\n\n\ndef f():\n    return os.name\n")
        try:
            with stopwatch(added):
                await service.changed([path])
        finally:
            file.unlink()
        with stopwatch(removed):
            await service.changed([path])
    return [
        *figures,
        spread("one added file", added, limits=at_most(p95=20.0)),
        spread("one removed file", removed),
    ]


def pairs(service: GraphService, paths: list[str], quick: bool) -> list[Figure]:
    """50 agents with 40 files each (the issue's scale): each side once, then all pairs."""
    chance = random.Random(5)
    sets = [
        WorkingSet(
            f"agent{number}",
            tuple(
                FileTouch(path, lines=(Span(start, start + 9),))
                for path in chance.sample(paths, min(40, len(paths)))
                for start in (chance.randrange(1, 200),)
            ),
        )
        for number in range(6 if quick else 50)
    ]
    symbols = SymbolFacts(service.graph)
    nobody = WorkingSet("nobody", ())
    sides, both = [], []
    for side in sets:
        with stopwatch(sides):
            symbols.facts(side, nobody)
    for at, side in enumerate(sets):
        for other in sets[at + 1 :]:
            with stopwatch(both):
                symbols.facts(side, other)
    return [
        spread("symbols of one side, 40 files", sides),
        spread("symbols of one pair, sides known", both, unit="us", scale=1e6),
    ]


if __name__ == "__main__":
    sys.exit(run("graph", measure, "Build, start, patch and compare over a repository's dependency graph."))

"""Worktrees: what they cost, and that they hold nobody up.

`python -m scripts.bench.worktrees [--quick]`: a made repository of 50,000 files. `RELAY_BENCH_REPO=DIR`: a real
one besides (a clone with some history), for the cost of a speculative merge.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from relay.airspace.worktrees.change_feed import ChangeFeed
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.room import WorktreeRoom
from relay.airspace.worktrees.watcher import WorktreeWatcher
from relay.config import loading
from relay.git.trial_merge import merge_trees
from scripts.bench.figures import Figure, at_most, run, single, spread, stopwatch

T = TypeVar("T")
FILES, QUICK_FILES = 50_000, 1_000
TOUCHED, QUICK_TOUCHED = 2_000, 50
#: The loop is asked this often whether it still runs.
BEAT_S = 0.002
AGENTS = ("ALPHA", "BETA")


class Beat:
    """How late the event loop is: a timer's lateness, in seconds."""

    def __init__(self) -> None:
        self.late: list[float] = []

    async def run(self) -> None:
        while True:
            due = time.perf_counter() + BEAT_S
            await asyncio.sleep(BEAT_S)
            self.late.append(time.perf_counter() - due)


@asynccontextmanager
async def beating() -> AsyncIterator[Beat]:
    beat = Beat()
    task = asyncio.create_task(beat.run())
    yield beat
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def git(folder: Path, *args: str) -> str:
    who = ("-c", "user.name=bench", "-c", "user.email=bench@relay", "-c", "commit.gpgSign=false")
    done = subprocess.run(["git", *who, *args], cwd=folder, capture_output=True, check=True, text=True)
    return done.stdout.strip()


def make(folder: Path, files: int) -> Path:
    """A repository of so many files of 20 lines, ten a folder."""
    for number in range(files):
        path = folder / f"p{number // 500:03}" / f"q{number // 10 % 50:02}" / f"f{number}.py"
        if number % 10 == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"x = {number}\n" * 20)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


async def timed(what: Awaitable[T]) -> tuple[float, T]:
    started = time.perf_counter()
    done = await what
    return time.perf_counter() - started, done


async def until(feed: ChangeFeed, registry: WorktreeRegistry, agent: str, files: int) -> None:
    async with asyncio.timeout(600):
        while True:
            work = registry.worktrees[agent].work if agent in registry.worktrees else None
            if work is not None and len(work.records) == files:
                return
            await feed.next()


async def quiet(registry: WorktreeRegistry) -> None:
    """Wait until everything was surveyed at."""
    while any(  # noqa: ASYNC110 - several states are waited for, not one event
        worktree.all_stale or worktree.work is None or worktree.lock.locked()
        for worktree in registry.worktrees.values()
    ):
        await asyncio.sleep(0.01)


def registry_of(folder: Path) -> WorktreeRegistry:
    agents = ",".join(f'{{"name": "{name}", "kind": "scripted", "script": "x.yaml"}}' for name in AGENTS)
    return WorktreeRegistry(
        loading.parse(f'{{"agents": [{agents}]}}', folder / "config.json"), WorktreeRoom()
    )


async def large(folder: Path, files: int, touched: int) -> list[Figure]:
    figures: list[Figure] = []
    registry = registry_of(folder)
    note = f"{files:,} files"

    def lag(name: str, beat: Beat) -> None:
        figures.append(
            spread(
                f"loop lag while {name}",
                beat.late,
                limits=at_most(p99=25) if files == FILES else None,
                note=note,
            )
        )

    async with beating() as beat:
        await asyncio.sleep(2.0)
    lag("nothing is done", beat)
    async with beating() as beat:
        took, _ = await timed(registry.open())
    figures.append(single(f"make {len(AGENTS)} worktrees", took * 1000, "ms", note=note))
    lag("making worktrees", beat)
    look = WorktreeWatcher(registry)
    feed = registry.listen()
    async with beating() as beat:
        started = time.perf_counter()
        task = asyncio.create_task(look.run())
        await look.watching.wait()
        await quiet(registry)
        took = time.perf_counter() - started
    figures.append(single("watches stand and all is surveyed at", took * 1000, "ms", note=note))
    lag("the watches are set up", beat)
    at = registry.worktrees["ALPHA"].checkout.top
    paths = sorted(at.glob("p*/q*/*.py"))[:: files // touched][:touched]

    def touch() -> None:
        for path in paths:
            path.write_text(path.read_text() + "touched = True\n")

    async with beating() as beat:
        started = time.perf_counter()
        await asyncio.to_thread(touch)
        await until(feed, registry, "ALPHA", len(paths))
        took = time.perf_counter() - started
    figures.append(single(f"from {len(paths):,} writes to the working set", took * 1000, "ms", note=note))
    lag(f"{len(paths):,} files are written", beat)
    samples = []
    async with beating() as beat:
        for number in range(20):
            path = at / f"one-{number}.py"
            with stopwatch(samples):
                path.write_text("x\n")
                await until(feed, registry, "ALPHA", len(paths) + number + 1)
    figures.append(
        spread("from one write to the working set", samples, note=f"{note}, {len(paths):,} changed")
    )
    lag("single files are written", beat)
    async with beating() as beat:
        samples = [(await timed(registry.working_sets()))[0] for _ in range(20)]
    figures.append(spread(f"working sets, {len(paths):,} files in one", samples, note=note))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    worktree = registry.worktrees["BETA"]
    samples = [(await timed(worktree.take_snapshot(everything=True)))[0] for _ in range(5)]
    figures.append(spread("one look at all of a clean worktree", samples, note=note))
    figures += await merge_figures(registry, note)
    return figures


async def merge_figures(registry: WorktreeRegistry, note: str) -> list[Figure]:
    """One pair, each time with another edit, so that nothing is remembered."""
    assert registry.main is not None
    samples: list[float] = []
    beta = registry.worktrees["BETA"].checkout.top
    path = next(path for path in sorted(beta.rglob("*.py")) if ".git" not in path.parts)
    await registry.refresh()
    for number in range(20):
        path.write_text(f"y = {number}\n" + path.read_text())
        registry.worktrees["BETA"].mark_stale([str(path.relative_to(beta))])
        await registry.refresh()
        ours, theirs = (registry.worktrees[name].work for name in AGENTS)
        assert ours is not None and theirs is not None
        git_of = registry.scratch.git(registry.main)
        took, merged = await timed(merge_trees(git_of, ours.snapshot.commit, theirs.snapshot.commit))
        assert merged is not None
        samples.append(took)
    return [spread("one speculative merge", samples, note=note)]


async def real(repo: Path, folder: Path) -> list[Figure]:
    """A real repository: its last commits' files are edited on both sides."""
    copy = folder / "real"
    git(folder, "clone", "-q", "--shared", str(repo), str(copy))
    registry = registry_of(copy)
    await registry.open()
    names = git(copy, "log", "-20", "--format=", "--name-only", "--diff-filter=M").split("\n")
    changed = [name for name in dict.fromkeys(names) if name.endswith(".py") and (copy / name).is_file()][:20]
    for at, name in enumerate(AGENTS):
        for path in (registry.worktrees[name].checkout.top / path_name for path_name in changed[at::2]):
            path.write_text("# edited\n" + path.read_text())
    count = git(copy, "ls-files").count("\n") + 1
    commits = git(copy, "rev-list", "--count", "HEAD")
    return await merge_figures(
        registry,
        f"{repo.name if repo.name != 'repo' else repo.parent.name}: {count:,} files, {commits} commits",
    )


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    files, touched = (QUICK_FILES, QUICK_TOUCHED) if quick else (FILES, TOUCHED)
    made = folder / "large"
    made.mkdir()
    yield from asyncio.run(large(make(made, files), files, touched))
    if where := os.environ.get("RELAY_BENCH_REPO"):
        yield from asyncio.run(real(Path(where).resolve(), folder))


if __name__ == "__main__":
    raise SystemExit(run("worktrees", measure, "What worktrees cost."))

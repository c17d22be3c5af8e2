"""What the services of coordination take in one process, on whichever store: the same calls on each.

Invariant: a call that does not do what it says (a lock refused, no task given) ends the run; it is never counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.config.loading import parse
from relay.config.settings import LiveSettings
from relay.coordination.writes.fencing import LockCheck
from relay.faces.services import Services, services_of
from relay.model import Caller
from relay.store.ports import Store
from scripts.bench.figures import stopwatch

#: As many as a morning's work of a full room leaves, and the globs that agents declare (issue 3's other figures).
OTHER_LOCKS, OTHER_GLOBS = 1_000, 20
WORDS = [
    "parser",
    "lock",
    "merge",
    "cache",
    "token",
    "queue",
    "lease",
    "graph",
    "index",
    "page",
    "socket",
    "retry",
]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Desk:
    """The services of a room over an open store."""

    store: Store
    services: Services


@asynccontextmanager
async def desk(opened: Awaitable[Store], folder: Path) -> AsyncIterator[Desk]:
    store = await opened
    try:
        settings = LiveSettings(parse("{}", folder / "config.json"))
        yield Desk(store, services_of(store, settings, fold=False))
    finally:
        await store.close()


def caller(number: int) -> Caller:
    return Caller(f"AGENT-{number}", f"session-{number}")


async def timed(took: list[float], doing: Awaitable[Json]) -> Json:
    with stopwatch(took):
        answer = await doing
    if answer["success"] is not True:
        raise RuntimeError(f"it was not done: {answer}")
    return answer


async def pairs(at: Desk, count: int, callers: int = 1) -> tuple[float, list[float], list[float]]:
    """`count` times acquire and release, by `callers` at once, each on paths of its own: the seconds of all, and
    those of each acquire and each release."""
    taking: list[float] = []
    freeing: list[float] = []
    locks = at.services.locks

    async def one(number: int) -> None:
        who = caller(number)
        for turn in range(count // callers):
            path = f"src/module{number}/file{turn % 50}.py"
            await timed(taking, locks.acquire(who, [path], reason="bench"))
            await timed(freeing, locks.release(who, path))

    # The first call of a session makes its row: not what is measured.
    for number in range(callers):
        await at.services.sessions.touch(caller(number))
    began = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(callers)))
    return time.perf_counter() - began, taking, freeing


def other_paths(locks: int, globs: int) -> Iterator[list[str]]:
    """The paths of so many other locks and globs, by 200."""
    paths = [f"other/part{number // 40}/file{number}.py" for number in range(locks)]
    paths += [f"globs/part{number}/**/test_*.py" for number in range(globs)]
    for first in range(0, len(paths), 200):
        yield paths[first : first + 200]


async def hold_others(at: Desk, locks: int, globs: int) -> None:
    """Locks of another session that meet nothing of ours."""
    other = caller(900)
    for paths in other_paths(locks, globs):
        answer = await at.services.locks.acquire(other, paths, ttl_s=8 * 3600.0)
        if not answer["success"]:
            raise RuntimeError(f"it was not done: {answer}")


async def block(at: Desk, count: int) -> None:
    """`count` tasks of the first priority that wait for one that is never done."""
    work, other = at.services.work, caller(901)
    root = (await work.submit(other, "root", "never done"))["task_id"]
    if (await work.get(other, ["root"]))["task_id"] != root:
        raise RuntimeError("the first task was not given")
    for number in range(count):
        made = await work.submit(other, "code", f"blocked {number}", priority=1, depends_on=[root])
        if made["status"] != "blocked":
            raise RuntimeError(f"it is not blocked: {made}")


async def claims(at: Desk, count: int, callers: int = 1) -> tuple[float, list[float], list[float]]:
    """Claim `count` tasks, and complete each: the seconds of the claims alone where one caller asks (of all where
    several do), and those of each claim and each completion."""
    work = at.services.work
    for number in range(count):
        await work.submit(caller(902), "code", f"task {number}", input_data={"file": "src/app.py"})
    claiming: list[float] = []
    completing: list[float] = []
    given: list[str] = []

    async def one(number: int) -> None:
        who = caller(number)
        for _ in range(count // callers):
            task = (await timed(claiming, work.get(who)))["task_id"]
            if task is None:
                raise RuntimeError("no task was given")
            given.append(task)
            await timed(completing, work.complete(who, task, True, result={"ok": True}))

    began = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(callers)))
    took = time.perf_counter() - began
    if len(set(given)) != len(given):
        raise RuntimeError("a task was given twice")
    return sum(claiming) if callers == 1 else took, claiming, completing


async def remember(at: Desk, count: int, measured: int) -> list[float]:
    """Store `count` memories; the seconds of the last `measured`."""
    took: list[float] = []
    for number in range(count):
        word = WORDS[number % len(WORDS)]
        await timed(
            took,
            at.services.memory.remember(
                caller(number % 8), "fix", f"{word} {number}: the {WORDS[number // 12 % len(WORDS)]} went stale",
                details={"file": f"src/{word}.py", "number": number}, outcome=("success", "failure")[number % 2],
                lessons=[f"look at the {word} first"], tags=[word],
            ),
        )  # fmt: skip
    return took[-measured:]


async def recall(at: Desk, count: int, *, there: int, common: bool) -> list[float]:
    """The seconds of each question. `common`: with words that stand in every memory, else with what stands in few."""
    took = []
    for number in range(count):
        first, second = WORDS[number % len(WORDS)], WORDS[(number // 3 + 5) % len(WORDS)]
        asked = f"the {first} and its {second} went stale" if common else f"mend {number * 7 % there}"
        with stopwatch(took):
            memories = await at.services.memory.recall(caller(0), asked, limit=10)
        if not memories:
            raise RuntimeError("nothing was recalled")
    return took


async def may_write(at: Desk, files: int, count: int) -> list[float]:
    """The question of a hook (one file) or of a commit (many)."""
    paths: Sequence[str] = [f"src/module0/file{number}.py" for number in range(files)]
    lock_check = LockCheck(fold=False)
    who, took = caller(0), []
    for _ in range(count):
        with stopwatch(took):
            verdicts = await at.store.read(lambda tx: lock_check.verdicts(tx, who, paths))
        if len(verdicts) != files:
            raise RuntimeError(f"{len(verdicts)} verdicts on {files} files")
    return took


async def read_room(at: Desk, entries: int, count: int) -> tuple[list[float], list[float]]:
    """The seconds of each post of `entries`, and of reading the newest 50."""
    posting: list[float] = []
    for number in range(entries):
        await timed(
            posting, at.services.room.post(caller(number % 8), f"{number}: {WORDS[number % 9]} is mended")
        )
    reading: list[float] = []
    for _ in range(count):
        with stopwatch(reading):
            page = await at.services.room.read(caller(0), limit=50)
        if len(page["entries"]) != min(entries, 50):
            raise RuntimeError(f"{len(page['entries'])} entries and not {min(entries, 50)}")
    return posting, reading


async def alternately(
    first: Callable[[], Awaitable[Any]], second: Callable[[], Awaitable[Any]], times: int
) -> tuple[list[Any], list[Any]]:
    """Both in turns, so that what else the machine does meets both."""
    first_results, second_results = [], []
    for _ in range(times):
        first_results.append(await first())
        second_results.append(await second())
    return first_results, second_results

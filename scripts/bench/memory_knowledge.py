"""Knowledge at a million entries: each question with visibility, and the rebuild from the log (docs/memory.md).

`python -m scripts.bench.memory_knowledge [--quick] [--entries N] [--events N]`
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from relay.app.wiring.schema import SCHEMAS
from relay.base.durations import iso
from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.memory.knowledge.entry import entry_id
from relay.memory.knowledge.ingest import ingest, rebuild
from relay.memory.knowledge.service import KnowledgeGraph, found
from relay.memory.knowledge.visibility import put_roles
from relay.model import Caller, Refusal
from relay.store.ports import Store
from relay.store.sqlite.store import open_store
from scripts.bench.figures import Figure, at_most, carry_out, options, single, spread, stopwatch

T0 = 1_700_000_000.0


def _syllables(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


AGENTS = tuple(f"AGENT{number}" for number in range(12))
ROLES = {agent: ("developer", "reviewer", "architect")[at % 3] for at, agent in enumerate(AGENTS)}
KINDS = ("DECISION", "CONSTRAINT", "PROBLEM", "SOLUTION", "PATTERN", "CONTRACT", "CONFIGURATION", "FACT")
RELATIONS = ("supports", "implements", "depends on", "derived from", "solves", "supersedes")
#: By how often an entry is so.
ACCESS = (
    *("",) * 14,
    " (private)",
    " (private)",
    " (role developer)",
    " (role architect)",
    " (shared with {a}, {b})",
)
#: Words by rank: a text's words are as common as in prose (Zipf).
WORDS = tuple(
    f"{a}{b}{c}"
    for a in _syllables("bakelimonuraseti", 2)
    for b in _syllables("dorfengalhipjumkarlemmipnospurquarinsoltavverwexyanzulbricro", 3)
    for c in _syllables("axelikonusarerilotum", 2)
)


class Made:
    """The events of a room, one after the other, the same for the same seed."""

    def __init__(self, seed: int = 13) -> None:
        self._random = random.Random(seed)
        self.files = [f"src/part{number % 97}/{self._word()}_{number}.py" for number in range(20_000)]

    def _word(self) -> str:
        return WORDS[min(int(self._random.paretovariate(0.6)), len(WORDS)) - 1]

    def text(self, words: int) -> str:
        return " ".join(self._word() for _ in range(words))

    def event(self, number: int) -> NewEvent:
        """Two of three say something, one changes a file or two."""
        pick, agent, at = self._random, self._random.choice(AGENTS), iso(T0 + number * 20.0)
        if number % 3 == 2:
            touches = [self._touch() for _ in range(pick.choice((1, 1, 2)))]
            outputs: dict[str, Any] = {"touches": touches, "source": "tree", "worktree": agent}
            return NewEvent("files.changed", Lane("s1", agent), outputs=outputs, at=at)
        access = pick.choice(ACCESS).format(a=pick.choice(AGENTS), b=pick.choice(AGENTS))
        body = f"{pick.choice(KINDS)}{access}: {self.text(9)} because {self.text(6)}"
        if number and number % 4 == 0:
            # Some are referred to by many: the rest by few.
            target = pick.randrange(number // 100 + 1) * 3 if number % 8 == 0 else pick.randrange(number)
            body += f" ({pick.choice(RELATIONS)} {entry_id(f'{target:064x}', 0)})"
        message = {"speaker": agent, "kind": "agent", "body": body}
        return NewEvent("message.posted", Lane("s1", agent), outputs={"message": message}, at=at)

    def _touch(self) -> dict[str, Any]:
        path = self.files[min(int(self._random.paretovariate(0.5)), len(self.files)) - 1]
        if self._random.random() < 0.01:
            new = f"src/moved/{self._random.randrange(10**6)}.py"
            return {"path": new, "before": None, "after": "b", "kind": "rename", "from": path}
        return {"path": path, "before": "a", "after": "b", "kind": "write"}


def as_read(number: int, new: NewEvent) -> Event:
    """The event as the log would give it, for what needs no log."""
    return Event(
        pos=number + 1,
        id=f"{number:064x}",
        session=new.lane.session,
        lane=new.lane.name,
        seq=number + 1,
        type=new.type,
        prev=None,
        parents=(),
        causal_deps=(),
        clock={},
        at=str(new.at),
        stored_outputs=json.dumps(new.outputs),
    )


async def filled(folder: Path, entries: int) -> tuple[Store, Made, float]:
    """A store with so many entries, and the seconds that it took."""
    store = await open_store(folder / "events.db", SCHEMAS)
    await store.write(lambda tx: put_roles(tx, ROLES))
    made, number, count, began = Made(), 0, 0, time.perf_counter()
    while count < entries:
        batch = [as_read(at, made.event(at)) for at in range(number, number + 2000)]
        count += await store.write(lambda tx, batch=batch: ingest(tx, batch))  # type: ignore[misc]
        number += len(batch)
        if number % 20_000 == 0:
            # A writer without a pause leaves the checkpoints no moment, and the journal grows beyond the data.
            await store.checkpoint(whole=True)
        if number % 100_000 == 0:
            print(f"{count:,} entries in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return store, made, time.perf_counter() - began


Ask = Callable[[], Coroutine[Any, Any, Any]]


def questions(
    store: Store, made: Made, newest: list[str]
) -> Iterator[tuple[str, Callable[[Caller], Coroutine[Any, Any, Any]]]]:
    """(name, question) of each kind; each call asks something else."""
    graph, pick = KnowledgeGraph(store), random.Random(7)

    def when() -> str:
        return iso(T0 + pick.random() * 20_000_000)

    def asked(**fixed: Callable[[], Any]) -> Ask:
        return lambda caller: graph.knowledge(caller, **{name: value() for name, value in fixed.items()})

    agent, file = (lambda: pick.choice(AGENTS)), (lambda: made.files[int(pick.paretovariate(0.5)) % 20_000])
    rare, common = (lambda: pick.choice(WORDS[800:])), (lambda: pick.choice(WORDS[:4]))
    yield "what did A decide about X", asked(agent=agent, kind=lambda: "decision", about=lambda: made.text(2))
    yield "what did A decide about a common word", asked(agent=agent, kind=lambda: "decision", about=common)
    yield "what does B know about T", asked(agent=agent, about=lambda: made.text(2))
    yield "search, 8 words", asked(about=lambda: made.text(8))
    yield "search, one rare word", asked(about=rare)
    yield "search, one common word", asked(about=common)
    yield "search of a kind, one common word", asked(about=common, kind=lambda: "contract")
    yield "search, 8 words as of a time", asked(about=lambda: made.text(8), as_of=when)
    yield "history of a file", asked(file=file)
    yield "history of a file about a word", asked(file=file, about=lambda: made.text(2))
    yield "history of a file, of an agent and a kind", asked(file=file, agent=agent, kind=lambda: "decision")
    yield "newest of an agent and a kind", asked(agent=agent, kind=lambda: "problem")
    yield "newest as of a time", asked(as_of=when)
    yield "neighbours to 3 steps", asked(near=lambda: pick.choice(newest))
    yield (
        "found, for recall and prompts",
        lambda caller: store.read(lambda tx: found(tx, caller, made.text(8), 10)),
    )


async def measure_queries(folder: Path, entries: int, rounds: int) -> AsyncIterator[Figure]:
    store, made, took = await filled(folder, entries)
    try:
        size = await store.size()
        yield single("entries taken in a second", entries / took, "1/s", n=entries)
        yield single("size of the database", size.data / 2**20, "MiB", n=entries)
        graph = KnowledgeGraph(store)
        answer = await graph.knowledge(Caller(AGENTS[0], "s1"), kind="solution", limit=200)
        public = [entry["id"] for entry in answer["entries"] if entry["visibility"] == "public"]
        newest = [*public[:40], *(entry_id(f"{at:064x}", 0) for at in range(0, 120, 3))]
        for name, question in questions(store, made, newest):
            samples, processor = list[float](), list[float]()
            for at in range(rounds):
                caller, used = Caller(AGENTS[at % len(AGENTS)], "s1"), time.process_time()
                with stopwatch(samples), contextlib.suppress(Refusal):  # an entry that is not the caller's
                    await question(caller)
                processor.append(time.process_time() - used)
            yield spread(name, samples, limits=at_most(p95=50.0))
            yield spread(f"{name}, processor time", processor)
    finally:
        await store.close()


async def measure_rebuild(folder: Path, count: int) -> AsyncIterator[Figure]:
    store = await open_store(folder / "events.db", SCHEMAS)
    try:
        made = Made()
        for start in range(0, count, 1000):
            news = [made.event(at) for at in range(start, min(count, start + 1000))]

            async def work(tx: Any, news: list[NewEvent] = news) -> None:
                for new in news:
                    await events.append(tx, new)

            await store.write(work)
        samples: list[float] = []
        entries, used = 0, 0.0
        for _ in range(2):  # the first makes, the second drops and makes again
            used = time.process_time()
            with stopwatch(samples):
                entries = await rebuild(store)
            used = time.process_time() - used
        limits = {"value": ("<=", 60.0)}
        yield single(f"rebuild from {count:,} events", samples[-1], "s", n=entries, limits=limits)
        yield single("its time of the processor", used, "s", n=entries)
    finally:
        await store.close()


def main() -> int:
    parser = options("memory_knowledge", __doc__ or "")
    size(parser)
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    return carry_out("memory_knowledge", lambda folder: measure(folder, args), args)


def size(parser: ArgumentParser) -> None:
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=100_000)


def measure(folder: Path, args: Namespace) -> Iterator[Figure]:
    entries, count, rounds = (4000, 1000, 20) if args.quick else (args.entries, args.events, args.rounds)
    for name, figures in (
        ("rebuild", lambda where: measure_rebuild(where, count)),
        ("queries", lambda where: measure_queries(where, entries, rounds)),
    ):
        where = folder / name
        where.mkdir()
        with asyncio.Runner() as runner:
            found_figures = figures(where)
            while True:
                try:
                    yield runner.run(anext(found_figures))  # type: ignore[arg-type]
                except StopAsyncIteration:
                    break


if __name__ == "__main__":
    raise SystemExit(main())

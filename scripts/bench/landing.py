"""Landing: how many test runs a queue takes, whether main is ever red, what the queue itself costs, and how many
changesets are verified at once.

`python -m scripts.bench.landing [--quick]`. The tests of the made repository take a fixed time; what is left of an
entry's time is the queue's. The repository, git and the programs are real; no agent runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.verification.parts import LandingParts
from relay.app.wiring.merge_tools import MergeTools
from relay.app.wiring.schema import SCHEMAS
from relay.app.wiring.worktree_room import StoredWorktreeRoom
from relay.config import loading
from relay.config.settings import LiveSettings
from relay.coordination.writes.fencing import LockCheck
from relay.log import events
from relay.log.events import Event
from relay.store.ports import Store
from relay.store.sqlite.store import open_store
from relay.verification import journal
from relay.verification.landing import journal as landings
from relay.verification.landing.entry import Entry, EntryState
from relay.verification.verification import Change, Source, State
from scripts.bench.figures import Figure, at_most, run, single, spread
from scripts.bench.worktrees import git

BRANCHES, PAIRS, QUICK = 20, 5, 6
#: Seconds that one run of the tests takes.
TEST_S = 0.3
CHANGESETS, QUICK_CHANGESETS = 100, 10


class Place:
    """A room's worktrees, and what verifies and lands their work, without a daemon."""

    def __init__(self, store: Store, repo: Path, agents: tuple[str, ...]) -> None:
        self.store = store
        listed = [{"name": name, "kind": "scripted", "script": "none.yaml"} for name in agents]
        (repo / "config.json").write_text(json.dumps({"agents": listed}))
        self.settings = LiveSettings(loading.load(repo / "config.json"))
        now = self.settings.current
        self.tools = MergeTools(lambda: self.settings.current.merge)
        room = StoredWorktreeRoom(store, LockCheck(), self.tools, now.runtime_dir / "checks")
        self.registry = WorktreeRegistry(now, room)
        updates = BranchUpdates(self.registry)
        actions = WorktreeActions(self.registry, updates)
        self.landing = LandingParts(store, self.settings, self.registry, actions, updates)
        self.queue, self.verifier = self.landing.queue, self.landing.verifier

    def have(self, run: list[str]) -> None:
        folder = self.settings.current.policies_dir
        folder.mkdir(exist_ok=True)
        made = {"name": "unit", "tier": 1, "executor": "inline", "patterns": ["*"], "run": run}
        (folder / "unit.yaml").write_text(json.dumps(made))

    def write(self, agent: str, text: str) -> None:
        (self.registry.worktrees[agent].checkout.top / f"{agent.lower()}.py").write_text(text)

    async def look(self) -> None:
        for worktree in self.registry.worktrees.values():
            worktree.mark_stale(None)
        await self.registry.refresh()

    async def entry(self, number: int) -> Entry:
        return await self.store.read(lambda tx: landings.load(tx, number))

    async def close(self) -> None:
        await self.landing.close()
        await self.tools.close()
        await self.store.close()


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def check(pairs: int) -> list[str]:
    """Fails where both branches of one of the pairs are there."""
    return python(
        f"import os, sys, time; time.sleep({TEST_S})\n"
        "there = set(os.listdir('.'))\n"
        f"bad = [at for at in range({pairs}) if {{f'a{{2 * at}}.py', f'a{{2 * at + 1}}.py'}} <= there]\n"
        "sys.exit(f'pairs {bad} do not go together' if bad else 0)"
    )


async def opened(folder: Path, branches: int, pairs: int) -> Place:
    """A room whose agents each have a file of their own."""
    agents, repo = tuple(f"A{at}" for at in range(branches)), folder / "repo"
    repo.mkdir()
    (folder / "room").mkdir()
    (repo / "app.py").write_text("x = 1\n")
    (repo / ".gitignore").write_text("/config.json\n/policies/\n")
    git(repo, "init", "-q", "-b", "main")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "first")
    place = Place(await open_store(folder / "room" / "events.db", SCHEMAS), repo, agents)
    await place.registry.open()
    place.have(check(pairs))
    await place.look()
    for agent in agents:
        place.write(agent, "x = 1\n")
    await place.look()
    return place


async def land(folder: Path, branches: int, pairs: int) -> list[Figure]:
    folder.mkdir()
    place = await opened(folder, branches, pairs)
    asked = [
        (await place.store.write(lambda tx, a=f"A{at}": landings.ask(tx, a, by="ann")))[0]
        for at in range(branches)
    ]
    began = time.perf_counter()
    await place.queue.drain()
    took = time.perf_counter() - began
    ended = [await place.entry(entry.number) for entry in asked]
    every = await place.store.read(lambda tx: events.read_after(tx, 0, limit=100_000))
    results = [event for event in every if event.type == journal.RESULT]
    begun = [event for event in every if event.type == journal.ASKED]
    states = [entry.state for entry in ended]
    note = f"{branches} branches, {pairs} pairs that fail only together, tests of {TEST_S:g} s"
    name = f"landing, {pairs} failing pairs"
    tested = sum(event.outputs["seconds"] for event in results if event.outputs["reused"] is None)
    limits = at_most(value=10) if not pairs else {}
    figures = [
        single(
            f"{name}: main red", red(folder / "repo", pairs), "commits", n=branches, limits=at_most(value=0)
        ),
        single(f"{name}: landed", states.count(EntryState.LANDED), "branches", n=branches, note=note),
        single(f"{name}: put out", states.count(EntryState.PUT_OUT), "branches", n=branches, note=note),
        single(f"{name}: test runs", len(begun), "runs", n=branches, limits=limits, note=note),
        single(
            f"{name}: queue beside the tests",
            (took - tested) / branches,
            "s an entry",
            n=branches,
            limits=at_most(value=1.0),
            note=f"{took:.1f} s in all, {tested:.1f} s of them tests",
        ),
        single(
            f"{name}: most batches waited beyond its turn",
            most_waited(every, branches, place.settings.current.landing.batch),
            "batches",
            n=branches,
            limits=at_most(value=2) if not pairs else {},
            note="a batch is what is taken from the queue; its halves are one with it",
        ),
    ]
    await place.close()
    return figures


def red(repo: Path, pairs: int) -> int:
    """How many commits that main ever was at break its tests."""
    count = 0
    for commit in git(repo, "rev-list", "--first-parent", "main").split():
        there = set(git(repo, "ls-tree", "--name-only", commit).split())
        count += any({f"a{2 * at}.py", f"a{2 * at + 1}.py"} <= there for at in range(pairs))
    return count


def most_waited(every: list[Event], branches: int, size: int) -> int:
    """The most batches that an entry was first tested after its turn by the order of asking."""
    first: dict[int, int] = {}
    batches, before = 0, set[int]()
    for event in every:
        if event.type != journal.ASKED or event.outputs["about"].get("part") != "batch":
            continue
        entries = set(event.outputs["about"]["entries"])
        if not entries:
            continue
        if not entries <= before:  # not a half of the one before
            batches, before = batches + 1, entries
        for number in entries:
            first.setdefault(number, batches - 1)
    return max(at - (number - 1) // size for number, at in first.items()) if first else branches


async def many(folder: Path, count: int) -> list[Figure]:
    """So many changesets at once, each with a tree of its own."""
    folder.mkdir()
    place = await opened(folder, 1, 0)
    cores = os.cpu_count() or 1
    place.have(python("print(1)"))
    trees = []
    for at in range(count):
        place.write("A0", f"x = {at}\n")
        await place.look()
        worktree = place.registry.worktrees["A0"]
        trees.append((await worktree.take_snapshot(everything=True)).tree)
    asked = []
    for tree in trees:
        change = Change(journal.new_id(), Source.AGENT, "A0", "ann", tree=tree)
        asked.append(await place.store.write(lambda tx, c=change: journal.ask(tx, c)))
    began = time.perf_counter()
    await place.verifier.look()
    done = [await place.verifier.finished(each.number) for each in asked]
    took = time.perf_counter() - began
    waits = [float((each.ended or 0) - each.at) for each in done]
    passed = sum(each.state is State.PASSED for each in done)
    note = f"{place.settings.current.verification.at_once} at once on {cores} cores"
    await place.close()
    return [
        single(f"{count} changesets at once: passed", passed, "changesets", n=count, note=note),
        single(f"{count} changesets at once", took / count, "s each", n=count, note=note),
        spread(f"{count} changesets at once: from asked to ended", waits, unit="s", scale=1.0, note=note),
    ]


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    branches, pairs = (QUICK, 1) if quick else (BRANCHES, PAIRS)
    yield from asyncio.run(land(folder / "clean", branches, 0))
    yield from asyncio.run(land(folder / "pairs", branches, pairs))
    yield from asyncio.run(many(folder / "many", QUICK_CHANGESETS if quick else CHANGESETS))


if __name__ == "__main__":
    raise SystemExit(run("landing", measure, "How a landing queue does."))

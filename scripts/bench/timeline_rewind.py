"""Taking an agent's work back: 50 events on 20 files, of which others have edited 5 since.

`python -m scripts.bench.timeline_rewind [--quick]`: a made repository of 50,000 files, the agent's own worktree.
`raw` is the least that git needs for it: the tree into an index, 20 entries changed, the index into a tree.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from relay.app.wiring.schema import SCHEMAS
from relay.git.checkout import Checkout, head_of, open_checkout
from relay.git.diff import changed_files, touches_of
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import Snapshotter
from relay.log.events import Lane
from relay.model.touches import Source
from relay.store.ports import Store
from relay.store.sqlite.store import open_store
from relay.timeline.file_changes import record_changes
from relay.timeline.rewind.plan import RewindPlaces, RewindRequest
from relay.timeline.rewind.service import Rewinds
from relay.timeline.rewind.tree_entries import entries_of, tree_by_index
from scripts.bench.figures import Figure, at_most, run, spread, stopwatch

FILES, QUICK_FILES = 50_000, 1_000
EVENTS, TOUCHED, SHARED = 50, 20, 5
ROUNDS, QUICK_ROUNDS = 20, 3
LIMIT_MS = 2000.0
LINES = 60
ANN, CODEX, CLAUDE = Lane("room", "human:ANN"), Lane("s1", "CODEX"), Lane("s2", "CLAUDE")


def git(folder: Path, *args: str, env: Mapping[str, str] | None = None) -> str:
    """What plain git prints."""
    who = ("-c", "user.name=bench", "-c", "user.email=bench@relay", "-c", "commit.gpgSign=false")
    done = subprocess.run(
        ["git", *who, *args], cwd=folder, capture_output=True, check=True, env=env, text=True
    )
    return done.stdout.strip()


def make(folder: Path, files: int) -> list[str]:
    """A repository of so many files, ten a folder, and the agent's worktree beside it; gives the files' names."""
    names = [f"p{number // 500:03}/q{number // 10 % 50:02}/f{number}.py" for number in range(files)]
    for number, name in enumerate(names):
        path = folder / "repo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"line {line} of {number}\n" for line in range(LINES)))
    git(folder / "repo", "init", "-q", "-b", "main")
    git(folder / "repo", "add", "-A")
    git(folder / "repo", "commit", "-q", "-m", "first")
    git(folder / "repo", "worktree", "add", "-q", "-b", "relay/codex", str(folder / "codex"))
    return names


class Work:
    """The agents' work in one worktree, each edit recorded as a turn's end does it."""

    def __init__(self, store: Store, scratch: ScratchRepository, checkout: Checkout) -> None:
        self._store, self._scratch, self._checkout = store, scratch, checkout
        self.snapshotter = Snapshotter(scratch, checkout, "bench")
        self._dice = random.Random(1)
        self._tree = ""

    async def begin(self) -> None:
        self._tree = (await self.snapshotter.take()).tree

    async def edit(self, lane: Lane, names: Sequence[str], lines: range) -> None:
        """Insert a line into each of these files, somewhere among `lines`."""
        for name in names:
            path = self._checkout.top / name
            text = path.read_text().splitlines(keepends=True)
            text.insert(self._dice.choice(lines), f"{lane.name} {self._dice.random()}\n")
            path.write_text("".join(text))
        before, after = self._tree, (await self.snapshotter.update([name.encode() for name in names])).tree
        git_of = self._scratch.git(self._checkout)
        touches = touches_of(await changed_files(git_of, before, after))
        await self._store.write(
            lambda tx: record_changes(
                tx, lane, touches, source=Source.TREE, before=before, after=after, worktree="CODEX"
            )
        )
        self._tree = after

    async def all(self, names: Sequence[str]) -> None:
        """So many events of the agent, and between them another's."""
        await self.begin()
        for number in range(EVENTS):
            await self.edit(CODEX, self._dice.sample(list(names), 4), range(20))
            if number % (EVENTS // SHARED) == 0:
                await self.edit(CLAUDE, [names[number * SHARED // EVENTS]], range(40, LINES))


async def rewinds(folder: Path, files: int, rounds: int) -> list[Figure]:
    names = await asyncio.to_thread(make, folder, files)
    main, checkout = await open_checkout(folder / "repo"), await open_checkout(folder / "codex")
    scratch = ScratchRepository(folder / "scratch")
    await scratch.empty()
    await scratch.borrow([main, checkout])
    store = await open_store(folder / "events.db", SCHEMAS)
    try:
        work = Work(store, scratch, checkout)
        await work.all(names[:: files // TOUCHED][:TOUCHED])
        service = Rewinds(store, scratch, main, KeptSnapshots(scratch, main))
        head = await head_of(main.git)
        planned: list[float] = []
        whole: list[float] = []
        undone: list[float] = []
        raw: list[float] = []
        for number in range(rounds):
            places = RewindPlaces(head, (checkout, await work.snapshotter.take()))
            request = RewindRequest("CODEX", "the beginning", 0, "ANN", ANN, "worktree")
            with stopwatch(planned):
                await service.plan(request, places)
            with stopwatch(whole):
                plan = await service.plan(request, places)
                done = await service.apply(plan)
            assert len(done["removed"]) == EVENTS and not done["conflicts"]
            with stopwatch(undone):
                places = RewindPlaces(head, (checkout, await work.snapshotter.take()))
                await service.apply(await service.plan_undo("ANN", ANN, places))
            assert plan.operation is not None
            git_of, tree = scratch.git(main), plan.operation.before
            entries = {path.encode(): None for path in plan.paths}
            with stopwatch(raw):
                await tree_by_index(git_of, tree, dict(entries), folder / f"index-{number}")
        assert len(await entries_of(scratch.git(main), tree)) == files
    finally:
        await store.close()
    note = f"{EVENTS} events on {TOUCHED} files, {SHARED} of them edited by others; {files:,} files"
    limits = at_most(p95=LIMIT_MS) if files == FILES else None
    return [
        spread("rewind", whole, limits=limits, note=note),
        spread("rewind, the preview alone", planned, note=note),
        spread("undo, with a look at all files", undone, note=note),
        spread("rewind, raw", raw, note=note),
    ]


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    yield from asyncio.run(
        rewinds(folder, QUICK_FILES if quick else FILES, QUICK_ROUNDS if quick else ROUNDS)
    )


if __name__ == "__main__":
    raise SystemExit(run("timeline_rewind", measure, "What taking an agent's work back costs."))

"""A process that records, takes snapshots, imports and archives is killed at random points: nothing is half done.

Run as a module it is that process: `python -m tests.faults.timeline FOLDER SEED`. Rewinds have kills of their own
(`tests.faults.rewinds`).
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from pathlib import Path

from relay.git.checkout import Checkout, open_checkout
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.run import GitError
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import Snapshotter
from relay.log import events
from relay.log.archived import archived_parts
from relay.log.verify import verify
from relay.store.ports import Queries, Row, Tx
from relay.timeline import archive, projection
from relay.timeline.archive import check_archives
from tests.git.repository import git, lines, repository
from tests.timeline.sync.replicas import Replica

#: What only tests ask of the tables.
Q = Queries(Path(__file__).parents[1] / "timeline")
FILES = 40
#: Seconds after the process has begun in which it is killed, and which a call of git may outlive it by.
LAST_S, REST_S = 0.8, 0.2


async def kills_of_the_timeline(
    folder: Path, seed: int, *, kills: int = 10
) -> tuple[list[str], dict[str, int]]:
    """What was found wrong, in words, and what was done by then."""
    dice = random.Random(seed)
    repository(folder / "repo", {f"d{at % 4}/f{at}.py": lines(1, 5) for at in range(FILES)})
    other = await Replica.at(folder, "other")
    for _ in range(80):
        await other.act(dice)
    (folder / "lines").write_text("\n".join([other.id, *await other.lines()]))
    await other.store.close()
    wrong: list[str] = []
    for kill in range(kills):
        argv = (sys.executable, "-m", "tests.faults.timeline", str(folder), str(dice.randrange(1 << 30)))
        process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        await process.stdout.readline()
        await asyncio.sleep(dice.uniform(0, LAST_S))
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await asyncio.sleep(REST_S)
        wrong += [f"kill {kill}: {what}" for what in await _look(folder)]
        if wrong:
            break
    replica = await Replica.at(folder, "room")
    try:
        parts = await replica.store.read(archived_parts)
        pos = await replica.store.read(events.last_pos)
        imported = [event for event in await replica.union() if event.session.startswith(("s-other", "room"))]
    finally:
        await replica.store.close()
    return wrong, {"events": pos, "archives": len(parts), "of others": len(imported)}


async def _look(folder: Path) -> list[str]:
    """What is not as the log says."""
    replica = await Replica.at(folder, "room")
    store = replica.store
    try:
        faults = [*await check_archives(store, folder / "archive"), *await verify(store)]
        wrong = [str(fault) for fault in faults]
        before = await store.read(_tables)
        await projection.rebuild(store)
        if await store.read(_tables) != before:
            wrong.append("the tables are not what the log says")
        _, kept, snapshotter = await _opened(folder)
        for snapshot in await kept.all():
            if not git(folder / "repo", "ls-tree", "-r", snapshot.commit):
                wrong.append(f"the kept snapshot {snapshot.ref} has no files")
        if problems := git(folder / "repo", "fsck", "--connectivity-only", "--no-dangling"):
            wrong.append(f"the repository is damaged: {problems}")
        git(folder / "repo", "add", "-A")
        if (await snapshotter.take()).tree != git(folder / "repo", "write-tree"):
            wrong.append("a snapshot is not what stands in the files")
    finally:
        await store.close()
    return wrong


async def _tables(tx: Tx) -> list[list[Row]]:
    return [[dict(row) for row in await tx.all(query)] for query in (Q.all_touches, Q.all_trees)]


async def _opened(folder: Path) -> tuple[Checkout, KeptSnapshots, Snapshotter]:
    checkout = await open_checkout(folder / "repo")
    scratch = ScratchRepository(folder / "scratch")
    await scratch.empty(checkout.hash)
    await scratch.borrow([checkout])
    return checkout, KeptSnapshots(scratch, checkout), Snapshotter(scratch, checkout, "faults")


async def _loop(folder: Path, seed: int) -> None:
    """Record, take snapshots, import and archive until killed."""
    dice = random.Random(seed)
    checkout, kept, snapshotter = await _opened(folder)
    replica = await Replica.at(folder, "room")
    replica.cycles = dice.randrange(1 << 40)
    origin, *packed = (folder / "lines").read_text().split("\n")
    archive.AT_ONCE = archive.BATCH = 10
    await snapshotter.take()
    print("ready", flush=True)
    while True:
        match dice.choice(("record", "record", "snapshot", "import", "archive")):
            case "snapshot":
                paths = [f"d{at % 4}/f{at}.py" for at in dice.sample(range(FILES), 5)]
                for path in paths:
                    (checkout.top / path).write_text(f"{dice.random()}\n")
                taken = await snapshotter.update([path.encode() for path in paths])
                try:
                    await kept.keep(
                        taken.tree, taken.parents, lane="s/A", reason="a turn", at=dice.randrange(1 << 30)
                    )
                except GitError as error:
                    # Another process that was killed holds the ref for a moment.
                    if "lock" not in str(error):
                        raise
            case "import":
                some = packed[: dice.randrange(len(packed)) + 1]
                await replica.take([(origin, some)])
            case "archive":
                upto = await replica.store.read(events.last_pos)
                await archive.archive(replica.store, folder / "archive", dice.randrange(upto + 1))
            case _:
                for _ in range(3):
                    lane = dice.choice([replica.agent, replica.person])
                    await replica.change(lane, f"src/{dice.randrange(5)}.py", dice.randbytes(4).hex())


if __name__ == "__main__":
    asyncio.run(_loop(Path(sys.argv[1]), int(sys.argv[2])))

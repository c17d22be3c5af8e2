"""A landing queue that is killed at random points: main is before or after, never in between, and the queue goes on.

Run as a module it is the process that lands: `python -m tests.faults.landing FOLDER`.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from pathlib import Path

from relay.app.wiring.schema import SCHEMAS
from relay.log.verify import verify
from relay.store.sqlite.store import open_store
from relay.verification.landing import journal
from relay.verification.landing.entry import Entry, EntryState
from tests.app.verification.place import Place, policy, python
from tests.engines import all_events
from tests.git.repository import git, repository, write

AGENTS = tuple(f"AGENT{at}" for at in range(6))
#: Passes unless the first two are there together.
CHECK = python(
    "import os, sys, time; time.sleep(0.05)\n"
    "sys.exit('these two do not go together' if {'agent0.py', 'agent1.py'} <= {*os.listdir('.')} else 0)"
)
#: Seconds after the process has begun to land in which it is killed, and which what it started may outlive it by.
LAST_S, REST_S = 3.0, 0.3


async def kills_of_the_landing(
    folder: Path, seed: int, *, kills: int = 6
) -> tuple[list[str], dict[str, int]]:
    """What was found wrong, in words, and what was done by then."""
    dice = random.Random(seed)
    repository(folder / "repo", {"app.py": "x = 1\n"})
    place = await opened(folder)
    place.have(policy("unit", CHECK))
    await place.look()
    for agent in AGENTS:
        write(place.at(agent), {f"{agent.lower()}.py": "x = 1\n"})
    await place.look()
    for agent in AGENTS:
        await place.store.write(lambda tx, agent=agent: journal.ask(tx, agent, by="ann"))
    await closed(place)
    wrong, killed = list[str](), 0
    for kill in range(kills + 1):
        argv = (sys.executable, "-m", "tests.faults.landing", str(folder))
        process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        await process.stdout.readline()
        if kill < kills:
            try:
                await asyncio.wait_for(process.wait(), dice.uniform(0, LAST_S))
            except TimeoutError:
                killed += 1
                process.send_signal(signal.SIGKILL)
        code = await process.wait()
        await asyncio.sleep(REST_S)
        wrong += [f"after run {kill}: {what}" for what in await asyncio.to_thread(red, folder / "repo")]
        if kill == kills and code:
            wrong.append(f"the last run ended with {code}")
        if wrong:
            return wrong, {"kills": killed}
    return await _ended(folder), {"kills": killed, "commits": len(first_parents(folder / "repo"))}


def first_parents(repo: Path) -> list[str]:
    return git(repo, "rev-list", "--first-parent", "main").split()


def red(repo: Path) -> list[str]:
    """Commits of main that break, and files of its checkout that are not main's."""
    wrong = []
    for commit in first_parents(repo):
        names = git(repo, "ls-tree", "--name-only", commit).split()
        if {"agent0.py", "agent1.py"} <= {*names}:
            wrong.append(f"main was red at {commit[:9]}")
    if problems := git(repo, "fsck", "--connectivity-only", "--no-dangling"):
        wrong.append(f"the repository is damaged: {problems}")
    return wrong


async def _ended(folder: Path) -> list[str]:
    """What is not as it should be once all is over."""
    wrong, repo = [], folder / "repo"
    place = await opened(folder)
    try:
        entries: list[Entry] = await place.store.read(lambda tx: journal.newest_ended(tx, 100))
        states = [entry.state for entry in entries]
        if states.count(EntryState.LANDED) != 5 or states.count(EntryState.PUT_OUT) != 1:
            wrong.append(f"the entries ended as {states}")
        names = git(repo, "ls-tree", "--name-only", "main").split()
        if len([name for name in names if name.startswith("agent")]) != 5:
            wrong.append(f"main has {names}")
        if left := git(repo, "status", "--porcelain", "--untracked-files=no"):
            wrong.append(f"main's checkout is not clean: {left}")
        landed = await all_events(place.store, "landing.landed")
        merged = [
            event
            for event in await all_events(place.store, "worktree.changed")
            if event.outputs["change"] == "merged"
        ]
        if len(landed) != 5 or len(merged) != 5:
            wrong.append(f"{len(landed)} landings and {len(merged)} merges are recorded")
        wrong += [str(fault) for fault in await verify(place.store)]
    finally:
        await closed(place)
    return wrong


async def opened(folder: Path) -> Place:
    (folder / "room").mkdir(exist_ok=True)
    place = Place(await open_store(folder / "room" / "events.db", SCHEMAS), folder / "repo", AGENTS)
    await place.registry.open()
    return place


async def closed(place: Place) -> None:
    await place.close()
    await place.store.close()


async def _land(folder: Path) -> int:
    """Land until the queue is empty, or until killed."""
    place = await opened(folder)
    await place.look()
    print("ready", flush=True)
    try:
        await place.queue.drain()
        return 0 if not await place.store.read(journal.open_entries) else 1
    finally:
        await closed(place)


if __name__ == "__main__":
    raise SystemExit(asyncio.run(_land(Path(sys.argv[1]))))

"""A process that takes back, undoes and redoes is killed at random points: nothing is ever half restored.

Run as a module it is that process: `python -m tests.faults.rewinds FOLDER SEED`.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from pathlib import Path

from relay.log.verify import verify
from relay.model.refusals import Refusal
from relay.store.ports import Queries
from relay.timeline.projection import FOLDER
from relay.timeline.rewind import history
from relay.timeline.rewind.checkout_writer import STAGE
from relay.timeline.rewind.history import State, Target
from tests.git.repository import git, lines
from tests.timeline.rewind.parts import ANN, CODEX, Stage

#: What only tests ask of the tables.
Q = Queries(Path(__file__).parents[1] / "timeline")
FILES = 30
#: Seconds after the process has begun in which it is killed.
FIRST_S, LAST_S = 0.0, 1.2
#: A call of git outlives the process that made it, by this at most.
REST_S = 0.3
assert FOLDER.name == "timeline"


async def rewinds(folder: Path, seed: int, *, kills: int = 10) -> tuple[list[str], dict[str, int]]:
    """What was found wrong, in words, and how the operations ended (by state)."""
    dice = random.Random(seed)
    stage = await Stage.open(folder, {f"d{number % 3}/f{number}.py": lines(1, 40) for number in range(FILES)})
    await _work(stage)
    await stage.store.close()
    wrong: list[str] = []
    counts: dict[str, int] = {}
    for kill in range(kills):
        argv = (sys.executable, "-m", "tests.faults.rewinds", str(folder), str(dice.randrange(1 << 30)))
        process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        await process.stdout.readline()
        await asyncio.sleep(dice.uniform(FIRST_S, LAST_S))
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await asyncio.sleep(REST_S)
        stage = await Stage.open(folder)
        try:
            settled = await stage.rewinds.recover()
            counts["settled"] = counts.get("settled", 0) + len(settled)
            wrong += [f"kill {kill}: {found}" for found in await _look(stage)]
            rows = await stage.store.read(lambda tx: tx.all(Q.all_rewinds))
        finally:
            await stage.store.close()
        if wrong:
            break
    for row in rows:
        counts[row["state"]] = counts.get(row["state"], 0) + 1
    return wrong, counts


async def _work(stage: Stage) -> None:
    """What there is to take back: some of it has landed."""
    await stage.give_worktree(CODEX)
    for number in range(6):
        touched = [f"d{at % 3}/f{at}.py" for at in range(number, FILES, 2)]
        top = stage.worktrees[CODEX].top
        edits = {path: f"codex {number}\n" + (top / path).read_text() for path in touched}
        await stage.edit(
            CODEX, {**edits, f"new{number}/a.py": lines(1, 3), f"new{number}/b/c.py": lines(1, 3)}
        )
        if number == 2:
            await stage.merge(CODEX)
    await stage.edit(ANN, {"d0/f0.py": (stage.main.top / "d0/f0.py").read_text() + "ann\n"})
    await stage.commit("ann")


async def _look(stage: Stage) -> list[str]:
    """What is not as the log says."""
    wrong = [f"{fault}" for fault in await verify(stage.store)]
    rows = await stage.store.read(lambda tx: tx.all(Q.all_rewinds))
    done = [row for row in rows if row["state"] in (State.DONE, State.UNDONE)]
    if len(done) != len([row for row in rows if row["state"] != State.GIVEN_UP]):
        wrong.append("something is still begun")
    for target, checkout in ((Target.WORKTREE, stage.worktrees[CODEX]), (Target.MAIN, stage.main)):
        tree = (await stage.snapshot(checkout)).tree
        ours = [row for row in done if row["target"] == target]
        if ours and tree != ours[-1]["after"]:
            wrong.append(f"{target}: the files are not those of {ours[-1]['kind']} {ours[-1]['event'][:8]}")
        if not ours and (firsts := [row for row in rows if row["target"] == target]):
            wrong += [f"{target}: the files are not as at first"] if tree != firsts[0]["before"] else []
        if (checkout.git_dir / STAGE).exists():
            wrong.append(f"{target}: staged files were left")
    if status := git(stage.main.top, "status", "--porcelain"):
        wrong.append(f"main: git status says {status!r}")
    if git(stage.main.top, "rev-parse", "HEAD^{tree}") != (await stage.snapshot(stage.main)).tree:
        wrong.append("main: the files are not those of its commit")
    on_branches = git(stage.main.top, "log", "--all", "--format=%(trailers:key=TimeWarp-Event-Id,valueonly)")
    for row in rows:
        if row["target"] != Target.WORKTREE and (row["state"] != State.GIVEN_UP) != (
            row["event"] in on_branches
        ):
            wrong.append(
                f"{row['target']}: {row['event'][:8]} is {row['state']}, and its commit says otherwise"
            )
    before = [dict(row) for row in rows]
    await history.rebuild(stage.store)
    if [dict(row) for row in await stage.store.read(lambda tx: tx.all(Q.all_rewinds))] != before:
        wrong.append("the table is not what the log says")
    return wrong


async def _loop(folder: Path, seed: int) -> None:
    """Take back, undo and redo until killed."""
    dice = random.Random(seed)
    stage = await Stage.open(folder)
    places = [event.pos for event in await _writes(stage)]
    print("ready", flush=True)
    while True:
        try:
            match dice.choice(("rewind", "rewind", "undo", "redo")):
                case "undo":
                    await stage.undo(CODEX)
                case "redo":
                    await stage.redo(CODEX)
                case _:
                    into = dice.choice(("worktree", "worktree", "main", "new"))
                    after = dice.choice([0, *places])
                    await stage.rewind(CODEX, after, into=into, partial=dice.random() < 0.5)
        except Refusal:
            continue


async def _writes(stage: Stage) -> list[history.Event]:
    from tests.engines import all_events

    return [event for event in await all_events(stage.store, "files.changed") if event.lane == CODEX.name]


if __name__ == "__main__":
    asyncio.run(_loop(Path(sys.argv[1]), int(sys.argv[2])))

"""The corpus of shell commands: what nobody knew before it was written is known within a moment after it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.airspace.worktrees.watcher import WorktreeWatcher
from relay.code.shell.writes import writes_of
from tests import engines
from tests.app.wiring.recorded_room import SCHEMAS, RecordedRoom
from tests.code.shell.test_writes import Command, commands, environment, made, shared, state, told
from tests.engines import all_events
from tests.git.repository import git, room
from tests.outside import eventually

__all__ = ["made"]
#: Of all that the corpus writes, known before it or within a moment after it.
KNOWN = 0.99


@pytest.fixture
async def desk(made: Path, tmp_path: Path) -> AsyncIterator[RecordedRoom]:
    """A checkout of the corpus with AVA's worktree, which is really watched."""
    git(made, "clone", "-q", str(made), str(tmp_path / "repo"))
    git(tmp_path / "repo", "branch", "-q", "other", "origin/other")
    store = await engines.open_store(tmp_path, SCHEMAS)
    desk = RecordedRoom(store, await room(tmp_path / "repo", "AVA"))
    watcher = WorktreeWatcher(desk.room.registry)
    watcher.trees.append(desk.timeline.tools.changed)
    tasks = [asyncio.create_task(watcher.run()), asyncio.create_task(desk.timeline.tools.run())]
    await watcher.watching.wait()
    yield desk
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await desk.close()


async def unseen(desk: RecordedRoom, command: Command) -> tuple[set[str], set[str]]:
    """What a command changed in AVA's worktree, and what of it was neither known before nor recorded in its turn."""
    top = desk.at("AVA")
    git(top, "checkout", "-qf", "-B", "relay/ava", "main")
    git(top, "clean", "-fdq")
    plan = await desk.begin("AVA")
    before = state(top)
    writes = writes_of(command.text, str(top), {"HOME": str(top.parent), "PATH": os.environ["PATH"]})
    desk.timeline.tools.ran("AVA", command.text)
    after_event = len(await all_events(desk.store))
    await asyncio.to_thread(
        subprocess.run, ["bash", "-c", command.text], cwd=top, env=environment(top),
        stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    after = state(top)
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    wanted = {name for name in changed if not told(writes, top / name)}

    async def recorded() -> bool:
        new = (await all_events(desk.store))[after_event:]
        seen = {path for event in new for path in event.file_touches}
        wanted.difference_update(seen)
        return not wanted

    try:
        await eventually(recorded, f"what {command.text!r} wrote: {wanted}", within_s=20.0)
    except AssertionError as error:
        print(error)
    await desk.end(plan)
    return changed, wanted


async def test_what_the_words_do_not_say_is_recorded_while_the_turn_runs(desk: RecordedRoom) -> None:
    all_known = all_changed = 0
    for command in shared(commands()):
        if not command.untold:
            # Known before, which tests/code/shell/test_writes.py sees.
            all_changed += 1
            all_known += 1
        elif command.runs:
            changed, left = await unseen(desk, command)
            all_changed += bool(changed)
            all_known += bool(changed) and not left
    assert all_known / all_changed >= KNOWN, (all_known, all_changed)

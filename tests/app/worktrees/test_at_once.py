"""What meets in one worktree: two setups, an app and a removal. Real git, real commands."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from relay.app.worktrees.apps import WorktreeApps
from relay.app.worktrees.setups import WorktreeSetups
from relay.config.airspace import PortSettings, WorktreeSettings
from relay.config.settings import LiveSettings
from relay.model import Refusal
from tests.git.repository import Room, repository, room

#: Ports that no other test of this machine has.
PORTS = PortSettings(first=30_000 + os.getpid() % 200 * 10, per_worktree=2)


class Worktrees:
    """The worktree of one agent, with its setup and its app."""

    def __init__(self, one: Room, settings: WorktreeSettings) -> None:
        live = LiveSettings(replace(one.settings, worktrees=settings))
        self.one = one
        self.setups = WorktreeSetups(live, one.registry, self._say, lambda _: None, lambda _: None)
        self.apps = WorktreeApps(live, self.setups, self._say, lambda _: None)

    async def _say(self, agent: str, text: str, failed: str) -> None: ...


@pytest.fixture
async def worktrees(tmp_path: Path) -> AsyncIterator[Worktrees]:
    one = await room(repository(tmp_path / "repo"), "A")
    setup = ("/bin/sh", "-c", f"echo begun >> {tmp_path}/setups; sleep 0.3; echo over >> {tmp_path}/setups")
    run = ("/bin/sh", "-c", f"touch {tmp_path}/app; exec sleep 600")
    made = Worktrees(one, WorktreeSettings(setup=setup, run=run, ports=PORTS))
    yield made
    await made.apps.close()
    await made.setups.close()


async def test_two_who_find_a_setup_due_at_once_begin_one(worktrees: Worktrees, tmp_path: Path) -> None:
    worktree = worktrees.setups.find("A")
    # As a new worktree is met: by the desk that looks at all of them, and by its agent's first turn.
    await asyncio.gather(worktrees.setups.set_up_if_due(worktree), worktrees.setups.ready("A"))
    await worktrees.setups.settled(worktree)
    assert (tmp_path / "setups").read_text() == "begun\nover\n"
    assert worktrees.setups.at_work("A") == ""


async def test_no_setup_begins_in_a_worktree_that_is_taken_away_meanwhile(
    worktrees: Worktrees, tmp_path: Path
) -> None:
    looking = asyncio.create_task(worktrees.setups.set_up_if_due(worktrees.setups.find("A")))
    await asyncio.sleep(0)
    with worktrees.setups.left_alone("A"):
        await looking
        assert worktrees.setups.at_work("A") == ""
    assert not (tmp_path / "setups").exists()


async def test_no_app_starts_in_a_worktree_that_is_taken_away_meanwhile(
    worktrees: Worktrees, tmp_path: Path
) -> None:
    starting = asyncio.create_task(worktrees.apps.start("A", "ann"))
    await asyncio.sleep(0)
    # It has looked whether the worktree stays, and waits for its ports: here a removal comes.
    with worktrees.setups.left_alone("A"):
        await worktrees.apps.leave("A", "ann")
        with pytest.raises(Refusal, match="being removed or discarded"):
            await starting
        assert worktrees.apps.running() == []
    assert not (tmp_path / "app").exists()

    # One that waits for the setup when the removal comes is ended by it.
    app = await worktrees.apps.start("A", "ann")
    with worktrees.setups.left_alone("A"):
        await worktrees.apps.leave("A", "ann")
    assert app.state == "stopped" and not (tmp_path / "app").exists()


async def test_no_app_starts_in_a_worktree_that_went_meanwhile(worktrees: Worktrees) -> None:
    starting = asyncio.create_task(worktrees.apps.start("A", "ann"))
    await asyncio.sleep(0)
    worktrees.one.registry.worktrees.pop("A")
    with pytest.raises(Refusal, match="no worktree"):
        await starting
    assert worktrees.apps.find("A") is None

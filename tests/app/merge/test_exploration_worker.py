"""The room's `/explore`, and what carries it in a running room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.app.merge.exploration.room_actions import ExplorationActions
from relay.app.merge.exploration.worker import ExplorationWorker
from relay.config.settings import LiveSettings
from relay.merge.exploration import journal
from relay.merge.exploration.journal import State
from relay.model import Refusal
from relay.model.actions import EndExploration, Explore, Exploring, ShowExploration, TakeVariant
from tests.app.merge.exploration_room import ExplorationRoom, writes
from tests.engines import BOTH

pytestmark = BOTH
AGENTS = {"AVA": writes("a = 1\n"), "BEN": writes("b = 1\n")}


class Stage:
    def __init__(self, room: ExplorationRoom) -> None:
        self.room = room
        registry, settings = room.room.registry, LiveSettings(room.room.settings)
        self.actions = ExplorationActions(settings, registry)
        self.told: list[None] = []
        self.worker = ExplorationWorker(room.store, settings, registry, lambda: self.told.append(None))

    async def ask(self, action: Exploring) -> str:
        return await self.room.store.write(lambda tx: self.actions.carry_out(tx, action, by="ann"))

    async def settle(self) -> None:
        """Let the worker do what waits for nobody."""
        while await self.worker.look():
            await asyncio.gather(*self.worker._running.values())


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    room = await ExplorationRoom.open(tmp_path, AGENTS)
    yield Stage(room)
    await room.store.close()


async def test_a_task_is_explored_and_a_person_takes_one(stage: Stage) -> None:
    answer = await stage.ask(Explore(3, "Cache the answers"))
    assert answer.startswith("x1: 3 variants are made ready")
    assert "x1 runs." in await stage.ask(ShowExploration(1))
    assert "ava-1 (AVA): waiting, 0 s, 0 tool calls, tokens unknown, cost unknown" in await stage.ask(
        ShowExploration(1)
    )
    await stage.settle()
    assert stage.told
    said = await stage.room.said()
    assert any("| variant | status |" in text for text in said)
    assert "/explore take x1 ava-1" in await stage.ask(ShowExploration(1))
    before = stage.room.state_of_main()
    with pytest.raises(Refusal, match="has no variant eve"):
        await stage.ask(TakeVariant(1, "eve"))
    assert stage.room.state_of_main() == before
    assert "ben, with 1 file from others is merged now" in await stage.ask(
        TakeVariant(1, "BEN", ("cache.py=ava-1",))
    )
    await stage.settle()
    assert (stage.room.folder / "cache.py").read_text() == "a = 1\n"
    assert (await stage.room.row()).state is State.DONE
    assert (await stage.room.said())[-1] == (
        "x1: ben, with cache.py from ava-1 is merged into main. ann chose ben."
    )
    (chosen,) = await stage.room.events(journal.CHOSEN)
    assert chosen.outputs["taken"] == {"cache.py": "ava-1"}


async def test_a_choice_that_comes_too_late_is_told_the_state(stage: Stage) -> None:
    await stage.ask(Explore(2, "Cache the answers"))
    with pytest.raises(Refusal, match="x1 waits for no choice: it is running"):
        await stage.ask(EndExploration(1))
    await stage.settle()
    assert "nothing was merged" in await stage.ask(EndExploration(1))
    assert "ended already" in await stage.ask(EndExploration(1))
    with pytest.raises(Refusal, match="x1 waits for no choice: it is ended"):
        await stage.ask(TakeVariant(1, "ava"))
    with pytest.raises(Refusal, match="There is no exploration x7"):
        await stage.ask(ShowExploration(7))

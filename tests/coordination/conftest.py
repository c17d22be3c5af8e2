from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from relay.coordination.locks import wait_line
from relay.coordination.writes.fencing import LockCheck
from relay.log.events import Event
from relay.model import Caller
from relay.store.ports import Store
from tests import engines
from tests.coordination.desk import Desk, at, over
from tests.engines import Clock, all_events

SCHEMAS = engines.wings("log", "coordination")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await engines.open_store(tmp_path, SCHEMAS)
    yield opened
    await opened.close()


@dataclass
class Room:
    """Locks and sessions on one store with a clock of the test's own, and some who ask."""

    store: Store
    clock: Clock

    def __post_init__(self) -> None:
        desk = over(self.store, self.clock)
        self.settings, self.heartbeat, self.sessions = desk.settings, desk.heartbeat, desk.sessions
        self.locks, self.work, self.board = desk.locks, desk.work, desk.board
        self.judge = LockCheck()
        self.ann, self.ann2 = Caller("ann", "s1"), Caller("ann", "s2")
        self.bob, self.cid = Caller("bob", "s3"), Caller("cid", "s4")
        self.process = Caller("dot", "p1", process=True)
        self.person = Caller("eve", "page", agent_type="human", person=True)

    async def in_line(self, count: int) -> None:
        """Wait until so many stand in line."""
        wakeup = self.store.wakeup()
        while len(await self.store.read(wait_line.line)) != count:
            assert await wakeup.wait(10), f"there are not {count} in line"
        wakeup.close()

    async def told(self, *types: str) -> list[Event]:
        """The events of these types, in order."""
        return await all_events(self.store, *types)


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    clock = Clock()
    opened = await engines.open_store(tmp_path, SCHEMAS, clock=clock)
    yield Room(opened, clock)
    await opened.close()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = await at(tmp_path)
    yield made
    await made.whole()
    await made.store.close()

"""A desk to try the work queue at: a real store with a clock that is moved by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from relay.config.coordination import CoordinationSettings
from relay.coordination.locks.service import Locks
from relay.coordination.sessions import Heartbeat, Sessions
from relay.coordination.tasks.board import Board
from relay.coordination.tasks.projection import rebuild, strays
from relay.coordination.tasks.service import WorkQueue
from relay.coordination.tasks.task_events import Q, pairs_of
from relay.log.events import Lane
from relay.model import Caller, Refusal
from relay.store.ports import Store, Tx
from tests import engines
from tests.engines import Clock, all_events

A, A2 = Caller("CLAUDE", "a1", "claude"), Caller("CLAUDE", "a2", "claude")
B, ANN = Caller("CODEX", "b1", "codex"), Caller("ann", "p1", "person", person=True)
START = 1_800_000_000.0
SCHEMAS = engines.wings("log", "coordination")


@dataclass
class Desk:
    """The queue over a real store, with a clock that is moved by hand."""

    store: Store
    clock: Clock
    sessions: Sessions
    locks: Locks
    work: WorkQueue
    board: Board
    heartbeat: Heartbeat
    settings: CoordinationSettings

    async def submit(self, said: str = "Fix it", *, by: Caller = ANN, **more: Any) -> str:
        return str((await self.work.submit(by, more.pop("task_type", "fix"), said, **more))["task_id"])

    async def move(self, number: int, to: str) -> None:
        lane = Lane("room", "human:ann")
        await self.store.write(lambda tx: self.board.move(tx, number, to, by="ann", lane=lane))

    async def undo(self) -> None:
        lane = Lane("room", "human:ann")
        await self.store.write(lambda tx: self.board.undo(tx, by="ann", lane=lane))

    async def clear(self) -> None:
        lane = Lane("room", "human:ann")
        await self.store.write(lambda tx: self.board.clear_all(tx, by="ann", lane=lane))

    async def told(self, task_id: str) -> dict[str, Any]:
        return await self.work.task(ANN, task_id)

    async def states(self, *ids: str) -> list[str]:
        return [(await self.told(one))["status"] for one in ids]

    async def log(self) -> list[tuple[str, str, list[int]]]:
        """(change, lane, numbers) of every task event."""
        found = await all_events(self.store)
        return [
            (event.outputs["change"], event.lane_key, [task.number for _, task in pairs_of(event)])
            for event in found
            if event.type.startswith("task.")
        ]

    async def whole(self) -> None:
        """The tables are what the log says, and come out the same from it."""

        async def rows(tx: Tx) -> list[list[dict[str, Any]]]:
            asked = (Q.all_tasks, Q.all_changes, Q.all_needs)
            return [sorted((dict(row) for row in await tx.all(one)), key=str) for one in asked]

        assert await self.store.read(strays) == []
        before = await self.store.read(rows)
        await self.store.write(rebuild)
        assert await self.store.read(rows) == before


async def at(folder: Path) -> Desk:
    clock = Clock(START)
    return over(await engines.open_store(folder, SCHEMAS, clock=clock), clock)


async def joined(address: str) -> Desk:
    """In another process: the queue over the store at the address that the test gave it."""
    clock = Clock(START)
    return over(await engines.join(address, SCHEMAS, clock=clock), clock)


def over(store: Store, clock: Clock | None = None, **more: Any) -> Desk:
    """The wing's services on a store; `clock`: the one that it was opened with, if a test moves it; `more`: of
    `Locks`."""
    settings = CoordinationSettings()
    heartbeat = Heartbeat(settings)
    locks = Locks(store, heartbeat, **more)
    work = WorkQueue(store, settings, heartbeat=heartbeat, locks=locks)
    sessions = Sessions(store, heartbeat, work.claims, locks)
    board = Board(claims=work.claims)
    return Desk(store, clock or Clock(START), sessions, locks, work, board, heartbeat, settings)


async def refused(doing: Any) -> Refusal:
    with pytest.raises(Refusal) as no:
        await doing
    return no.value

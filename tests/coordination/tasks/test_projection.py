from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from relay.coordination.tasks.board import Board
from relay.coordination.tasks.projection import TasksFile
from relay.log.events import Lane, NewEvent, append
from relay.store.ports import Store
from tests.engines import BOTH

pytestmark = BOTH

ANN = Lane("room", "human:ann")
WAIT_S = 30.0


async def add(store: Store, title: str) -> None:
    await store.write(lambda tx: Board().create(tx, title, by="ann", lane=ANN))


def titles(path: Path) -> list[str] | None:
    """What the file says; None while there is no whole one."""
    try:
        return [task["title"] for task in json.loads(path.read_bytes())["tasks"]]
    except (OSError, ValueError):
        return None


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not true():  # noqa: ASYNC110 (a file has no event)
            await asyncio.sleep(0.01)


@asynccontextmanager
async def following(store: Store, path: Path) -> AsyncIterator[None]:
    task = asyncio.create_task(TasksFile(store, path, poll_s=0.05, settle_s=0.01).run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.json"


async def test_the_file_holds_the_board_and_its_cursor(store: Store, path: Path) -> None:
    await add(store, "Prüfe es")
    file = TasksFile(store, path)
    assert [await file.is_current(), await file.sync(), await file.sync()] == [False, True, False]
    told: dict[str, Any] = json.loads(path.read_bytes())
    tasks = await store.read(Board().list)
    assert told == {"version": 1, "cursor": 1, "tasks": [task.as_json() for task in tasks]}
    assert await file.is_current()


async def test_the_file_follows_the_board(store: Store, path: Path) -> None:
    async with following(store, path):
        await until(lambda: titles(path) == [])
        for number in range(20):
            await add(store, f"t{number}")
        await until(lambda: titles(path) == [f"t{n}" for n in range(20)])
        assert {entry.name for entry in path.parent.iterdir() if "tasks" in entry.name} == {"tasks.json"}


async def test_the_cursor_is_that_of_the_newest_task_event(store: Store, path: Path) -> None:
    async with following(store, path):
        await until(lambda: titles(path) == [])
        for _ in range(5):
            await store.write(lambda tx: append(tx, NewEvent(type="message.posted", lane=ANN)))
        await add(store, "now")
        await until(lambda: titles(path) == ["now"])
        assert json.loads(path.read_bytes())["cursor"] == 6


@pytest.mark.parametrize("damage", ["lost", "cut", "other", "old"])
async def test_a_damaged_file_is_written_anew_at_the_start(store: Store, path: Path, damage: str) -> None:
    await add(store, "a")
    await TasksFile(store, path).sync()
    harm(path, damage)
    async with following(store, path):
        await until(lambda: titles(path) == ["a"])


@pytest.mark.parametrize("damage", ["lost", "cut", "other", "old"])
async def test_a_damaged_file_is_written_anew_while_it_runs(store: Store, path: Path, damage: str) -> None:
    await add(store, "a")
    async with following(store, path):
        await until(lambda: titles(path) == ["a"])
        harm(path, damage)
        await until(lambda: titles(path) == ["a"])


def harm(path: Path, damage: str) -> None:
    if damage == "lost":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "other":
        path.write_bytes(b"\0" * 50)
    else:
        path.write_text('{"version": 1, "cursor": 0, "tasks": []}\n')

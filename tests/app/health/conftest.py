from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from relay.app.health.check import examine
from relay.app.health.context import Check, Status
from relay.app.health.repair import repair_live
from relay.app.runtime import instance
from relay.app.runtime.instance import InstanceRecord
from relay.config.loading import load
from relay.config.settings import Settings
from relay.coordination.tasks.board import Board
from relay.coordination.tasks.projection import TasksFile
from relay.log.events import Lane
from relay.room.journal.values import Job
from relay.room.transcript.tail import Transcript
from relay.store.ports import Store, Tx
from tests import engines
from tests.room import parts

ANN = Lane("room", "human:ann")
AGENTS = ("CLAUDE",)
DEAD = "daemon-that-is-gone"
OWN = "this-daemon"


class Room:
    """A room on disk, as a daemon leaves it."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.config = folder / "config.json"
        usual = {"agents": [], "dispatcher": {"enabled": False}}
        self.config.write_text(json.dumps({**usual, **config}))
        self.settings: Settings = load(self.config)
        self.running: set[int] = set()  # the jobs whose turns run in `daemon`

    @asynccontextmanager
    async def store(self) -> AsyncIterator[Store]:
        self.settings.runtime_dir.mkdir(mode=0o700, exist_ok=True)
        opened = await engines.open_store(self.settings.runtime_dir, engines.SCHEMAS)
        try:
            yield opened
        finally:
            await opened.close()

    async def fill(self, *, jobs: int = 1) -> None:
        """Messages for CLAUDE in the transcript, two tasks, and everything read and written."""
        async with self.store() as store:
            for number in range(jobs):
                await parts.post(store, f"@CLAUDE look at {number}", time.time(), agents=AGENTS)
            for title in ("a", "b"):
                await store.write(lambda tx, t=title: Board().create(tx, t, by="ann", lane=ANN))  # type: ignore[misc]
            await TasksFile(store, self.settings.tasks_path).sync()
            await self.transcript(store).sync()

    def transcript(self, store: Store) -> Transcript:
        lock = self.settings.runtime_dir / "append.lock"
        member = self.settings.member
        return parts.transcript(store, self.settings.transcript_path, lock, agents=AGENTS, member=member)

    async def claim(self, *, at: float, lease_s: float = 30.0, holder: str = DEAD) -> int:
        """CLAUDE begins its turn; the job's id."""
        async with self.store() as store:
            return await parts.begin(store, "CLAUDE", at, holder=holder, lease_s=lease_s)

    async def jobs(self) -> list[tuple[str, bool]]:
        async with self.store() as store:
            return await parts.job_states(store)

    def record(self, **changes: Any) -> None:
        """The record of a daemon, which this process plays, unless `changes` say otherwise."""
        instance.claim(self.settings.lock_path, 90, replace(InstanceRecord.own(), **changes))

    async def look(self, *, repair: bool = False) -> dict[str, Check]:
        report = await examine(str(self.config), repair=repair)
        return {check.name: check for check in report.checks}

    @asynccontextmanager
    async def daemon(self, health: web.Response | None = None) -> AsyncIterator[list[str]]:
        """The routes of a daemon on a real port; gives the keys that came with calls for a repair."""
        keys: list[str] = []

        async def get_health(_request: web.Request) -> web.Response:
            return web.json_response({"ok": True}) if health is None else health

        async def repair(request: web.Request) -> web.Response:
            keys.append(request.headers.get("X-API-Key", ""))
            async with self.store() as store:
                done = await repair_live(
                    store,
                    self.settings,
                    time.time(),
                    holder=OWN,
                    running=lambda: self.running,
                    dead=_dead,
                    stale_after_s=self.settings.queue.stale_after_s,
                )
            return web.json_response({"repaired": [one.as_json() for one in done]})

        app = web.Application()
        app.router.add_get("/health", get_health)
        app.router.add_post("/api/repair", repair)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            told = {"url": url, "port": runner.addresses[0][1], "pid": os.getpid()}
            self.settings.runtime_dir.mkdir(mode=0o700, exist_ok=True)
            self.settings.state_path.write_text(json.dumps(told))
            self.settings.token_path.touch(0o600)
            self.settings.token_path.write_text("secret\n")
            self.settings.pid_path.write_text(f"{os.getpid()}\n")
            self.record()
            yield keys
        finally:
            await runner.cleanup()


async def _dead(_tx: Tx) -> Callable[[Job], bool]:
    return lambda job: job.holder == DEAD


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    return Room(tmp_path, **engines.configure(tmp_path / ".relay", monkeypatch))


def failed(checks: dict[str, Check]) -> list[str]:
    return [check.name for check in checks.values() if check.status is Status.FAILED]


def change(room: Room, statement: str, *values: Any) -> None:
    engines.change(room.settings.db_path.parent, statement, *values)

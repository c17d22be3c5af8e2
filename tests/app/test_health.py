from __future__ import annotations

import asyncio
import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from relay.app.health.check import examine
from relay.app.health.data import verify_newest
from relay.app.health.files import FAIL_FREE, WARN_FREE, disk_of
from relay.app.health.repair import repair_live
from relay.app.health.scene import Check, Status
from relay.app.runtime import instance
from relay.app.runtime.instance import InstanceRecord
from relay.app.wiring.schema import WINGS
from relay.config.settings import Settings, load
from relay.coordination.tasks.board import Board
from relay.coordination.tasks.projection import TasksFile
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.model import Kind
from relay.room.dispatch import queue
from relay.room.journal import ledger
from relay.room.journal.ledger import NewMessage, Rules
from relay.room.transcript.file_position import Place
from relay.room.transcript.rotation import kept_place
from relay.room.transcript.tail import Transcript
from relay.store.open import open_store
from relay.store.ports import Store, Tx
from tests import engines
from tests.engines import BOTH
from tests.fakes.ollama import FakeOllama

ANN = Lane("room", "human:ann")
ROOM = Path(__file__).parents[2]
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
        opened = await open_store(self.settings, WINGS)
        try:
            yield opened
        finally:
            await opened.close()

    async def fill(self, *, jobs: int = 1) -> None:
        """Messages for CLAUDE in the transcript, two tasks, and everything read and written."""
        rules = Rules(agents=("CLAUDE",))
        async with self.store() as store:
            for number in range(jobs):
                new = NewMessage("ann", Kind.HUMAN, f"@CLAUDE look at {number}", time.time())
                await store.write(lambda tx, new=new: ledger.admit(tx, new, rules))  # type: ignore[misc]
            for title in ("a", "b"):
                await store.write(lambda tx, t=title: Board().create(tx, t, by="ann", lane=ANN))  # type: ignore[misc]
            await TasksFile(store, self.settings.tasks_path).sync()
            await self.transcript(store).sync()

    def transcript(self, store: Store) -> Transcript:
        return Transcript(
            store,
            self.settings.transcript_path,
            self.settings.runtime_dir / "append.lock",
            rules=lambda: Rules(agents=("CLAUDE",)),
            max_entry_bytes=4096,
        )

    async def claim(self, *, at: float, lease_s: float = 30.0, holder: str = DEAD) -> int:
        """CLAUDE begins its turn; the job's id."""
        policy = queue.Policy("CLAUDE", lease_s=lease_s)
        async with self.store() as store:
            plan = await store.write(lambda tx: queue.claim_next_dispatch(tx, policy, holder=holder, now=at))
        assert isinstance(plan, queue.Plan)
        return plan.primary.id

    async def jobs(self) -> list[tuple[str, bool]]:
        async with self.store() as store:
            found = await store.read(lambda tx: tx.all(ledger.Q.jobs, limit=10))
        return [(row["state"], bool(row["interrupted"])) for row in found]

    def record(self, **changes: Any) -> None:
        """The record of a daemon, which this process plays, unless `changes` say otherwise."""
        instance.claim(self.settings.lock_path, 90, replace(InstanceRecord.own(), **changes))

    async def look(self, *, repair: bool = False) -> dict[str, Check]:
        report = await examine(str(self.config), repair=repair)
        return {check.name: check for check in report.checks}

    @asynccontextmanager
    async def daemon(self, health: web.Response | None = None) -> AsyncIterator[list[str]]:
        """The doors of a daemon on a real port; gives the keys that came with calls for a repair."""
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
                    is_dead=lambda h: h == DEAD,
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


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    return Room(tmp_path, **engines.configure(tmp_path / ".relay", monkeypatch))


def failed(checks: dict[str, Check]) -> list[str]:
    return [check.name for check in checks.values() if check.status is Status.FAILED]


def sql(room: Room, statement: str, *values: Any) -> None:
    engines.change(room.settings.db_path.parent, statement, *values)


async def test_a_room_that_never_ran_is_not_well_and_is_left_as_it_is(room: Room) -> None:
    checks = await room.look()
    assert failed(checks) == ["daemon"]
    assert checks["database"].status is checks["log"].status is Status.WARNING
    assert [path.name for path in room.config.parent.iterdir()] == ["config.json"]


@BOTH
async def test_a_running_room_is_well(room: Room) -> None:
    await room.fill()
    async with room.daemon():
        report = await examine(str(room.config))
    checks = {check.name: check for check in report.checks}
    assert report.ok
    assert {name for name, check in checks.items() if check.status is not Status.OK} == {"agents"}
    assert "answers at http://127.0.0.1:" in checks["daemon"].detail
    assert checks["queue"].detail == "1 pending"
    told = report.as_json()
    assert (told["ok"], set(told)) == (True, {"ok", "checks"})
    assert {"name", "status", "detail", "repaired"} <= set(told["checks"][0])


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (web.Response(status=500, text='"broken"'), "HTTP 500"),
        (web.Response(text='{"ok": false}'), '"ok": false'),
        (web.Response(text="<html>"), "does not answer"),
    ],
)
async def test_a_wrong_answer_is_no_health(room: Room, answer: web.Response, why: str) -> None:
    async with room.daemon(answer):
        checks = await room.look()
    assert checks["daemon"].status is Status.FAILED
    assert why in checks["daemon"].detail


async def test_a_daemon_without_doors_or_heartbeat_is_not_well(room: Room) -> None:
    room.record()
    assert "does not accept connections" in (await room.look())["daemon"].detail
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        room.record(address=f"http://127.0.0.1:{closed.getsockname()[1]}")
        assert "does not answer" in (await room.look())["daemon"].detail
    room.record(heartbeat_at=time.time() - 600)
    checks = await room.look()
    assert failed(checks) == ["daemon", "transcript"]
    assert "hangs or is suspended" in checks["daemon"].detail
    assert checks["lock"].status is Status.WARNING


async def test_a_hung_daemon_is_not_repaired_behind_its_back(room: Room) -> None:
    await room.fill()
    await room.claim(at=time.time() - 3600)
    room.record(heartbeat_at=time.time() - 600)
    checks = await room.look(repair=True)
    assert "repaired nothing" in checks["repair"].detail
    assert (await room.jobs())[0] == ("active", False)


@pytest.mark.parametrize("what", ["dead", "damaged"])
async def test_a_stale_lock_is_removed_and_the_daemon_still_missed(room: Room, what: str) -> None:
    room.settings.runtime_dir.mkdir(mode=0o700)
    room.settings.pid_path.write_text("4194303\n")
    if what == "dead":
        room.record(started_at=1.0, mark="another-boot/1")
    else:
        room.settings.lock_path.write_text("{")
    before = await room.look()
    assert before["lock"].status is not Status.OK
    after = await room.look(repair=True)
    assert failed(after) == ["daemon"]
    assert (after["lock"].status, len(after["lock"].mended)) == (Status.OK, 2)
    assert not room.settings.lock_path.exists()
    assert not room.settings.pid_path.exists()


async def test_a_lock_of_another_machine_stays(room: Room) -> None:
    room.record(host="elsewhere")
    checks = await room.look(repair=True)
    assert "another machine, elsewhere" in checks["lock"].detail
    assert room.settings.lock_path.exists()


async def test_repair_of_a_stopped_room_mends_all_that_a_crash_leaves(room: Room) -> None:
    await room.fill()
    job = await room.claim(at=time.time())
    settings = room.settings
    settings.tasks_path.write_text("{")
    os.truncate(settings.transcript_path, 40)
    sql(room, "UPDATE work_queue SET status = 'dead'")
    settings.runtime_dir.chmod(0o755)
    before = await room.look()
    assert set(failed(before)) == {"daemon", "folder", "transcript", "projections"}
    assert before["queue"].status is Status.WARNING

    # As long as another program has the database open, nothing else empties its write-ahead log.
    held = sqlite3.connect(settings.db_path, isolation_level=None)
    held.executescript("PRAGMA wal_autocheckpoint = 0; UPDATE settings SET value = value")
    after = await room.look(repair=True)
    wal = settings.db_path.with_name("events.db-wal").stat().st_size
    held.close()
    assert failed(after) == ["daemon"]
    mended = {name for name, check in after.items() if check.mended}
    assert mended == {"folder", "queue", "transcript", "projections"}
    assert f"job {job} of CLAUDE" in after["queue"].mended[0]
    assert await room.jobs() == [("pending", True)]
    assert settings.runtime_dir.stat().st_mode & 0o777 == 0o700
    assert [t["title"] for t in json.loads(settings.tasks_path.read_text())["tasks"]] == ["a", "b"]
    assert wal == 0
    again = await room.look(repair=True)
    assert {name for name, check in again.items() if check.mended} == set()


@BOTH
async def test_after_a_cut_the_transcript_is_history_and_opens_nothing(room: Room) -> None:
    await room.fill(jobs=2)
    path = room.settings.transcript_path
    path.write_text("[bob] @CLAUDE this is old\n")
    await room.look(repair=True)
    with path.open("a") as file:
        file.write("[bob] @CLAUDE this is new\n")
    async with room.store() as store:
        assert await store.read(kept_place) == Place(history_until=26)
        await room.transcript(store).sync()
        found = await store.read(lambda tx: tx.all(ledger.Q.messages_after, after=0, limit=20))
    old, new = (next(row for row in found if word in row["body"]) for word in ("is old", "is new"))
    async with room.store() as store:
        jobs = await store.read(lambda tx: tx.all(ledger.Q.jobs, limit=20))
    assert [row["message_id"] for row in jobs if row["message_id"] in (old["id"], new["id"])] == [new["id"]]
    assert sum("was replaced or cut" in row["body"] for row in found) == 1


@BOTH
async def test_with_a_live_daemon_repair_goes_through_it(room: Room) -> None:
    await room.fill(jobs=1)
    await room.claim(at=time.time() - 60)
    async with room.daemon() as keys:
        before = await room.look()
        assert failed(before) == ["queue"]
        room.settings.tasks_path.unlink()
        room.settings.pid_path.write_text("1\n")
        after = await room.look(repair=True)
    assert room.settings.pid_path.read_text() == f"{os.getpid()}\n"
    assert (after["lock"].status, len(after["lock"].mended)) == (Status.OK, 1)
    assert keys == ["secret"]
    assert failed(after) == []
    assert after["queue"].mended
    assert after["projections"].mended
    assert await room.jobs() == [("pending", True)]


async def test_a_live_daemon_keeps_its_own_running_turns_whatever_their_age(room: Room) -> None:
    await room.fill()
    old = time.time() - 10 * 86400
    room.running = {await room.claim(at=old, holder=OWN)}
    async with room.daemon():
        await room.look(repair=True)
        assert await room.jobs() == [("active", False)]
        room.running = set()
        await room.look(repair=True)
    assert await room.jobs() == [("pending", True)]


async def test_a_live_daemon_keeps_what_a_living_holder_holds(room: Room) -> None:
    await room.fill()
    await room.claim(at=time.time() - 60, lease_s=3600, holder="alive")
    async with room.daemon():
        after = await room.look(repair=True)
    assert await room.jobs() == [("active", False)]
    assert after["queue"].status is Status.OK


async def test_a_refused_repair_is_told(room: Room) -> None:
    await room.fill()
    async with room.daemon():
        told = json.loads(room.settings.state_path.read_text())
        told["url"] += "/nowhere"
        room.settings.state_path.write_text(json.dumps(told))
        checks = await room.look(repair=True)
    assert "HTTP 404" in checks["repair"].detail


@BOTH
async def test_a_damaged_event_is_named(room: Room) -> None:
    await room.fill()
    async with room.store() as store:
        event = (await store.read(lambda tx: events.read_after(tx, 1, limit=1)))[0]
    sql(room, "UPDATE events SET outputs = replace(outputs, 'a', 'b') WHERE pos = $1", event.pos)
    check = (await room.look())["log"]
    assert check.status is Status.FAILED
    assert event.id[:12] in check.detail


@BOTH
async def test_the_newest_events_are_verified_on_what_lies_before(room: Room) -> None:
    """Causes and lanes' heads before the first event that is looked at are found, unless they are gone."""
    async with room.store() as store:
        made = []
        for number in range(12):
            lane = Lane("room", f"lane-{number % 3}")
            parents = [made[number // 2]] if number else []
            new = NewEvent(type="note", lane=lane, parents=parents, inputs=number)
            made.append((await store.write(lambda tx, new=new: events.append(tx, new))).id)  # type: ignore[misc]
        for count in (1, 4, 7, 12, 100):
            assert await verify_newest(store, count, batch=2) == [], count
        sql(room, "UPDATE events SET inputs = '99' WHERE pos = 10")
        assert [fault.pos for fault in await verify_newest(store, 4)] == [10]
        assert await verify_newest(store, 2) == []
        sql(room, "DELETE FROM events WHERE pos = 6")
        assert {fault.pos for fault in await verify_newest(store, 5)} >= {9}


@BOTH
@pytest.mark.parametrize(
    ("statement", "why", "status"),
    [
        ("UPDATE schema_migrations SET sha256 = 'x' WHERE wing = 'room'", "was edited", Status.FAILED),
        (
            "UPDATE schema_migrations SET version = 99 WHERE wing = 'log' AND version = 1",
            "newer relay",
            Status.FAILED,
        ),
        ("DELETE FROM schema_migrations WHERE wing = 'coordination'", "at version 0 of", Status.WARNING),
    ],
)
async def test_tables_of_another_relay(room: Room, statement: str, why: str, status: Status) -> None:
    await room.fill()
    sql(room, statement)
    check = (await room.look())["database"]
    assert (check.status, why in check.detail) == (status, True), check.detail


@BOTH
async def test_a_missing_table_is_a_failure_and_no_crash(room: Room) -> None:
    await room.fill()
    sql(room, "DROP TABLE dispatch_queue")
    checks = await room.look(repair=True)
    assert set(failed(checks)) == {"daemon", "queue"}
    assert "dispatch_queue" in checks["queue"].detail
    assert "queue" in checks["repair"].detail


@BOTH
@pytest.mark.parametrize("there", [True, False])
async def test_dead_jobs_and_open_circuits_of_agents_that_are_there_are_warnings(
    tmp_path: Path, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("CLAUDE", "CODEX", "GEMINI") if there else ()
    engine = engines.configure(tmp_path / ".relay", monkeypatch)
    room = Room(tmp_path, agents=[{"name": name, "cmd": [sys.executable]} for name in names], **engine)
    await room.fill()
    job = await room.claim(at=time.time())

    async def work(tx: Tx) -> None:
        rows = await tx.all(ledger.Q.active_jobs)
        await ledger.change_job(tx, ledger.Job.of_row(rows[0]), ledger.JobState.DEAD, now=time.time())
        await tx.execute(
            ledger.Q.put_breaker, agent="CODEX", state="open", failures=3, opened_at=1.0, parked_until=None
        )
        await tx.execute(
            ledger.Q.put_breaker,
            agent="GEMINI",
            state="closed",
            failures=0,
            opened_at=None,
            parked_until=time.time() + 600,
        )
        await tx.execute(events.Q.park_event, follower="air", event_id="abc", error="it broke", at="now")

    async with room.store() as store:
        await store.write(work)
    async with room.daemon():
        report = await examine(str(room.config))
    checks = {check.name: check for check in report.checks}
    assert report.ok
    assert "air skipped abc: it broke" in checks["followers"].detail
    if not there:
        # Nobody waits for an agent that is not in the room any more.
        assert checks["queue"].status is checks["breakers"].status is Status.OK
        return
    assert checks["queue"].status is checks["breakers"].status is checks["followers"].status is Status.WARNING
    assert f"/retry j{job}" in checks["queue"].fix
    assert "CODEX's circuit is open after 3" in checks["breakers"].detail
    assert "GEMINI is rate limited until" in checks["breakers"].detail


async def test_the_transcript_that_cannot_be_written(room: Room) -> None:
    room.settings.transcript_path.mkdir(parents=True)
    assert (await room.look())["transcript"].detail.endswith("is not a regular file")


async def test_an_open_last_line_and_waiting_entries_are_seen_and_left(room: Room) -> None:
    await room.fill()
    async with room.store() as store:
        await store.write(lambda tx: ledger.say(tx, "not yet in the file", now=time.time()))
    path = room.settings.transcript_path
    with path.open("a") as file:
        file.write("[bob] I was cut o")
    os.utime(path, (1.0, 1.0))
    checks = await room.look(repair=True)
    assert checks["transcript"].status is Status.WARNING
    assert "not ended" in checks["transcript"].detail
    assert "are not in the file yet" in checks["transcript"].detail
    assert path.read_text().endswith("[bob] I was cut o")


@pytest.mark.parametrize(
    ("free", "status"),
    [(WARN_FREE, Status.OK), (WARN_FREE - 1, Status.WARNING), (FAIL_FREE - 1, Status.FAILED)],
)
def test_free_space(free: int, status: Status) -> None:
    assert disk_of(free, Path("/")).status is status


async def test_the_local_model_is_asked_for_and_never_a_failure(tmp_path: Path) -> None:
    ollama = FakeOllama(models=("small:1b",))
    await ollama.start()
    here = {"ollama_host": ollama.url}
    seen = []
    try:
        for model in ("small:1b", "big:70b"):
            seen.append((await Room(tmp_path, dispatcher={**here, "model": model}).look())["ollama"])
    finally:
        await ollama.stop()
    seen.append((await Room(tmp_path, dispatcher=here).look())["ollama"])
    assert [check.status for check in seen] == [Status.OK, Status.WARNING, Status.WARNING]
    assert "ollama pull big:70b" in seen[1].fix
    assert "does not answer" in seen[2].detail


async def test_agents_are_looked_for_on_their_own_path(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = {"PATH": str(program.parent)}
    codex = {"name": "CODEX", "preset": "codex", "env": path}
    claude = {"name": "CLAUDE", "preset": "claude", "env": path}
    both = (await Room(tmp_path, agents=[codex, claude]).look())["agents"]
    assert both.status is Status.OK
    assert "CODEX can take a turn" in both.detail
    assert "CLAUDE: claude is not on the PATH (`npm install -g" in both.detail
    off = (await Room(tmp_path, agents=[{**codex, "enabled": False}, claude]).look())["agents"]
    assert off.status is Status.WARNING


def command(room: Room, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "relay.app.health.check", "--config", str(room.config), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOM,
        check=False,
    )


def test_the_command_prints_json_and_tells_the_truth(room: Room) -> None:
    ran = command(room, "--json")
    told = json.loads(ran.stdout)
    assert (ran.returncode, told["ok"], ran.stderr) == (1, False, "")
    assert {check["status"] for check in told["checks"]} <= {"ok", "warning", "failed"}
    assert command(room, "--mend").returncode == 2


async def test_the_command_for_people(room: Room) -> None:
    await room.fill()
    async with room.daemon():
        ran = await asyncio.to_thread(command, room, "--repair")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "\x1b" not in ran.stdout
    assert "✓ daemon" in ran.stdout
    assert ran.stdout.endswith("The room is well (1 warning).\n")


def test_a_file_that_is_no_database_is_said_and_the_command_ends(room: Room) -> None:
    room.settings.runtime_dir.mkdir(mode=0o700)
    room.settings.db_path.write_bytes(b"no database at all " * 500)
    ran = command(room, "--repair", "--json")
    told = {check["name"]: check for check in json.loads(ran.stdout)["checks"]}
    assert (ran.returncode, told["database"]["status"], told["log"]["status"]) == (1, "failed", "failed")
    assert "not a database" in told["database"]["detail"]


def test_a_broken_configuration_is_a_finding(room: Room) -> None:
    room.config.write_text('{"agent": []}')
    told = {check["name"]: check for check in json.loads(command(room, "--json").stdout)["checks"]}
    assert told["config"]["status"] == "failed"
    assert "agents" in told["config"]["detail"]

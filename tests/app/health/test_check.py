"""The check of a room as a whole, its repair, and the command."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from aiohttp import web

from relay.app.health.check import examine
from relay.app.health.context import Status
from tests.app.health.conftest import OWN, Room, change, failed
from tests.engines import BOTH
from tests.fakes.ollama import FakeOllama

ROOM = Path(__file__).parents[3]


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


async def test_a_daemon_without_http_or_heartbeat_is_not_well(room: Room) -> None:
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
    change(room, "UPDATE work_queue SET status = 'dead'")
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

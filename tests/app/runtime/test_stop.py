"""stop.sh's program, with real processes: what it ends, and what it leaves alone."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from relay.app.runtime import instance, stop
from relay.config.loading import load
from relay.config.settings import Settings

#: Claims the record, opens the database, starts an agent, then waits; TERM as told by its first argument.
DAEMON = """
import os, signal, subprocess, sys, time
from relay.app.runtime import instance
from relay.config.loading import load
on_term, settings = sys.argv[1], load(sys.argv[2])
settings.runtime_dir.mkdir(exist_ok=True)
database = settings.db_path.open("a")
environ = os.environ | {"RELAY_CONFIG": str(settings.path), "RELAY_AGENT_ID": "CLAUDE"}
agent = subprocess.Popen(["sleep", "600"], env=environ, start_new_session=True)
record = instance.claim(settings.lock_path, 90)
settings.pid_path.write_text(str(os.getpid()))
def end(*_):
    agent.kill()
    agent.wait()
    instance.release(settings.lock_path, record)
    sys.exit(0)
signal.signal(signal.SIGTERM, end if on_term == "ends" else signal.SIG_IGN)
print(agent.pid, flush=True)
while True:
    time.sleep(1)
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(stop, "GRACE_S", 0.3)
    monkeypatch.setattr(stop, "SHIMS_S", 0.5)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"stop": {"drain_s": 0.2}}))
    (tmp_path / ".relay").mkdir()
    return load(path)


@pytest.fixture
def daemon(
    room: Settings, request: pytest.FixtureRequest
) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    command = [sys.executable, "-c", DAEMON, request.param, str(room.path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    agent = psutil.Process(int(process.stdout.readline()))
    yield process, agent
    process.kill()
    process.communicate()
    if agent.is_running():
        agent.kill()


def ended(agent: psutil.Process) -> bool:
    return not agent.is_running() or agent.status() == psutil.STATUS_ZOMBIE


def run(room: Settings) -> int:
    return stop.main(["--config", str(room.path)])


@pytest.mark.parametrize("daemon", ["ends"], indirect=True)
def test_a_daemon_that_drains(
    room: Settings,
    daemon: tuple[subprocess.Popen[str], psutil.Process],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(stop, "GRACE_S", 30.0)
    process, agent = daemon
    assert run(room) == 0
    said = capsys.readouterr().out
    assert f"stopping relay (pid {process.pid})" in said
    assert said.endswith("relay has stopped.\n")
    assert "kill" not in said
    assert process.wait(10) == 0
    assert ended(agent)
    assert not room.lock_path.exists()
    assert not room.pid_path.exists()


@pytest.mark.parametrize("daemon", ["hangs"], indirect=True)
def test_a_daemon_that_hangs_is_killed_and_so_is_its_agent(
    room: Settings, daemon: tuple[subprocess.Popen[str], psutil.Process], capsys: pytest.CaptureFixture[str]
) -> None:
    process, agent = daemon
    assert run(room) == 0
    said = capsys.readouterr().out
    assert "it did not exit within 0.5 s: killing it" in said
    assert f"ending 1 of its remaining processes: {agent.pid}" in said
    assert "removed speaker.lock and relay.pid" in said
    assert process.wait(10) == -signal.SIGKILL
    assert ended(agent)


@pytest.mark.parametrize("daemon", ["hangs"], indirect=True)
def test_a_daemon_that_was_killed_leaves_an_agent(
    room: Settings, daemon: tuple[subprocess.Popen[str], psutil.Process], capsys: pytest.CaptureFixture[str]
) -> None:
    process, agent = daemon
    process.kill()
    process.wait()
    assert run(room) == 0
    assert "removed speaker.lock and relay.pid, left by a daemon that is gone" in capsys.readouterr().out
    assert ended(agent)


@pytest.mark.parametrize("daemon", ["ends"], indirect=True)
def test_a_lost_record_is_made_up_for_by_the_pid_file(
    room: Settings, daemon: tuple[subprocess.Popen[str], psutil.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop, "GRACE_S", 30.0)
    room.lock_path.unlink()
    assert run(room) == 0
    assert daemon[0].wait(10) == 0


@pytest.mark.parametrize("daemon", ["ends"], indirect=True)
def test_a_configuration_broken_since_the_start_keeps_nobody_from_stopping(
    room: Settings, daemon: tuple[subprocess.Popen[str], psutil.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop, "GRACE_S", 30.0)
    room.path.write_text("{")
    assert run(room) == 0
    assert daemon[0].wait(10) == 0


def test_nothing_runs(room: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(room) == 0
    assert capsys.readouterr().out == "relay is not running.\n"


@pytest.mark.parametrize("where", ["record", "pid file", "both"])
def test_another_programs_pid_is_never_signalled(
    room: Settings, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        if where != "pid file":
            record = {
                "pid": other.pid,
                "started_at": 5,
                "host": socket.gethostname(),
                "heartbeat_at": time.time(),
            }
            room.lock_path.write_text(json.dumps(record))
        if where != "record":
            room.pid_path.write_text(f"{other.pid}\n")
        assert run(room) == 0
        assert other.poll() is None
        assert not room.lock_path.exists()
        assert not room.pid_path.exists()
        said = capsys.readouterr().out
        assert "left by a daemon that is gone" in said
        assert ("is another program's now; it was left alone" in said) == (where != "pid file")
        other.communicate(b"\n", timeout=10)


def test_a_daemon_on_another_machine_cannot_be_stopped_here(
    room: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    record = instance.InstanceRecord(os.getpid(), 1.0, "elsewhere", time.time())
    instance.claim(room.lock_path, 90, record)
    assert run(room) == 1
    assert "it runs on elsewhere" in capsys.readouterr().err
    assert room.lock_path.exists()


def test_wrong_use(room: Settings) -> None:
    with pytest.raises(SystemExit) as caught:
        stop.main(["--nope"])
    assert caught.value.code == 2


def test_a_mistyped_configuration_is_not_a_room_that_does_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stop.main(["--config", str(tmp_path / "confg.json")]) == 2
    assert "confg.json, and no room beside it" in capsys.readouterr().err

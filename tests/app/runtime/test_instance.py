"""The single-instance record: one of many wins, and nobody is taken for somebody else."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from relay.app.runtime import instance
from relay.app.runtime.instance import (
    AlreadyRunning,
    DaemonState,
    DamagedRecord,
    InstanceLost,
    InstanceRecord,
)

NOW = 1_000_000.0


@pytest.fixture
def stranger() -> Iterator[InstanceRecord]:
    """A record of a real process that is alive while the test runs."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield InstanceRecord(
            process.pid,
            psutil.Process(process.pid).create_time(),
            socket.gethostname(),
            time.time(),
            mark=instance._mark(process.pid),
        )
        process.kill()


def gone() -> InstanceRecord:
    """A record of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return InstanceRecord(process.pid, time.time(), socket.gethostname(), time.time())


MINE = InstanceRecord.own()


@pytest.mark.parametrize(
    ("why", "record", "age", "expected"),
    [
        ("this very process, fresh", MINE, 0, DaemonState.RUNNING),
        ("its heartbeat is late", MINE, 91, DaemonState.SILENT),
        ("its heartbeat is from a clock that was stepped back since", MINE, -3600, DaemonState.RUNNING),
        ("the clock was stepped since it began", replace(MINE, started_at=5.0), 0, DaemonState.RUNNING),
        ("its pid, begun at another time", replace(MINE, started_at=5.0, mark=""), 0, DaemonState.GONE),
        ("its pid, after a reboot", replace(MINE, mark="boot/1"), 0, DaemonState.GONE),
        ("no such pid", replace(MINE, pid=2**22 + 1, mark=""), 0, DaemonState.GONE),
        ("another machine, fresh", replace(MINE, host="elsewhere"), 89, DaemonState.RUNNING),
        ("another machine, silent for long", replace(MINE, host="elsewhere"), 91, DaemonState.GONE),
    ],
)
def test_how_it_stands(why: str, record: InstanceRecord, age: float, expected: DaemonState) -> None:
    beat = replace(record, heartbeat_at=NOW - age)
    assert instance.daemon_state(beat, 90, now=NOW) is expected, why


def test_a_dead_child_that_nobody_has_waited_for_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        pid = process.pid
        record = InstanceRecord(pid, psutil.Process(pid).create_time(), socket.gethostname(), time.time())
        assert instance.is_live(record, 90)
        process.kill()
        deadline = time.monotonic() + 20
        while instance.is_live(record, 90) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not instance.is_live(record, 90)


def test_claim_beat_release(tmp_path: Path) -> None:
    path = tmp_path / "new" / "speaker.lock"
    assert instance.read(tmp_path / "speaker.lock") is None
    record = instance.claim(path, 90)
    assert instance.read(path) == record
    assert (record.pid, record.host, record.address) == (os.getpid(), socket.gethostname(), None)
    beat = instance.heartbeat(path, replace(record, address="http://127.0.0.1:1"))
    assert instance.read(path) == beat
    assert beat.address == "http://127.0.0.1:1"
    assert beat.heartbeat_at >= record.heartbeat_at
    assert not instance.remove_stale(path, 90)
    assert instance.release(path, record)
    assert list(path.parent.iterdir()) == []
    assert not instance.release(path, record)


def test_a_live_one_keeps_others_out_and_a_dead_one_does_not(
    tmp_path: Path, stranger: InstanceRecord
) -> None:
    path = tmp_path / "speaker.lock"
    instance.claim(path, 90, replace(stranger, address="http://127.0.0.1:9"))
    with pytest.raises(
        AlreadyRunning, match=rf"runs already at http://127\.0\.0\.1:9 \(pid {stranger.pid} on "
    ):
        instance.claim(path, 90)
    with pytest.raises(InstanceLost):
        instance.heartbeat(path, MINE)
    assert not instance.release(path, MINE)
    assert not instance.remove_stale(path, 90)
    assert instance.read(path) is not None

    path.unlink()
    instance.claim(path, 90, gone())
    assert instance.claim(path, 90).pid == os.getpid()


@pytest.mark.parametrize(
    "text", ["", "garbage", "[]", "123", '{"pid": 1}', '{"pid": "1", "host": "h"}', "\xff"]
)
def test_a_damaged_record_is_named_and_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "speaker.lock"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DamagedRecord):
        instance.read(path)
    assert instance.remove_stale(path, 90)
    path.write_bytes(text.encode("latin-1"))
    instance.claim(path, 90)
    assert instance.read(path) is not None


def test_a_record_that_was_removed_by_hand_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "speaker.lock"
    record = instance.claim(path, 90)
    path.unlink()
    assert instance.heartbeat(path, record) == instance.read(path)


CLAIMANT = """
import sys
from pathlib import Path
from relay.app.runtime import instance
print("ready", flush=True)
sys.stdin.readline()
try:
    instance.claim(Path(sys.argv[1]), 90)
    print("won", flush=True)
except instance.AlreadyRunning:
    print("lost", flush=True)
sys.stdin.readline()
"""


def test_of_many_at_once_exactly_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "speaker.lock"
    path.write_text(
        json.dumps({"pid": 2**22 + 1, "started_at": 1, "host": socket.gethostname(), "heartbeat_at": 1})
    )
    pipe = subprocess.PIPE
    claimants = [
        subprocess.Popen([sys.executable, "-c", CLAIMANT, str(path)], stdin=pipe, stdout=pipe, text=True)
        for _ in range(6)
    ]
    try:
        streams = [(one.stdin, one.stdout) for one in claimants if one.stdin and one.stdout]
        assert [out.readline() for _, out in streams] == ["ready\n"] * 6
        for into, _ in streams:
            into.write("go\n")
            into.flush()
        assert sorted(out.readline() for _, out in streams) == ["lost\n"] * 5 + ["won\n"]
    finally:
        for one in claimants:
            one.kill()
            one.communicate()


def test_the_command_says_where_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.json"
    config.write_text("{}")
    assert instance.main(["--config", str(config)]) == 1
    instance.claim(tmp_path / "speaker.lock", 90, InstanceRecord.own("http://127.0.0.1:4173"))
    assert instance.main(["--config", str(config)]) == 0
    assert "relay runs already at http://127.0.0.1:4173" in capsys.readouterr().out

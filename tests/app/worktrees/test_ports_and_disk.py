"""Ranges of ports that nobody has, records that survive damage, and the disk use of folders that share files."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from relay.app.worktrees import record as records
from relay.app.worktrees.disk import measure, megabytes
from relay.app.worktrees.ports import PortRange, first_port, free_range, listening_ports, listens
from relay.app.worktrees.record import Setup, WorktreeRecord
from relay.app.worktrees.terminal import stands_with
from relay.config.airspace import PortSettings
from relay.model import actions
from relay.room.parsing import commands


def test_a_range_that_is_taken_or_listened_in_is_passed_over() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert listens(port) and port in listening_ports(os.getpid())
        found = free_range(port - 1, 4, ())
        assert found is not None and not any(listens(each) for each in found.ports())
        assert found.first >= port + 3 and found.fits(port - 1, 4) and not found.fits(port, 4)
        other = free_range(port - 1, 4, [found])
        assert other is not None and other.first > found.last
    assert free_range(65_533, 4, ()) is None
    env = PortRange(21_000, 2).as_env()
    assert env == {
        "RELAY_PORT": "21000",
        "RELAY_PORTS": "21000-21001",
        "RELAY_PORT_0": "21000",
        "RELAY_PORT_1": "21001",
    }


def test_rooms_begin_at_ports_of_their_own(tmp_path: Path) -> None:
    firsts = {first_port(PortSettings(), tmp_path / str(number)) for number in range(20)}
    assert len(firsts) > 15 and all(20_000 <= first < 32_000 for first in firsts)
    assert first_port(PortSettings(first=5000), tmp_path) == 5000


def test_a_record_comes_back_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    kept = WorktreeRecord(
        PortRange(21_000, 10), Setup("failed", "it ended", copied=(".env",), notes=("`x`: no",), told=True)
    )
    records.save(tmp_path, kept)
    assert records.load(tmp_path) == kept
    for damaged in ("", "[]", '{"ports": [1], "setup": null}', '{"ports": null, "setup": {"state": "odd"}}'):
        (tmp_path / records.NAME).write_text(damaged)
        assert records.load(tmp_path) == WorktreeRecord()


def test_a_file_with_several_names_counts_once_together(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        (folder / "deep").mkdir(parents=True)
    (one / "large").write_bytes(os.urandom(4_000_000))
    (one / "around").symlink_to(tmp_path)
    alone = measure(one)
    assert alone.whole and alone.bytes >= 4_000_000
    os.link(one / "large", two / "deep" / "large")
    both = measure(one).bytes + measure(two).bytes
    assert alone.bytes <= both < alone.bytes + 1_000_000
    for number in range(600):
        (two / "deep" / str(number)).touch()
    assert not measure(tmp_path, most_entries=500).whole
    assert measure(tmp_path / "gone").bytes == 0
    assert [megabytes(size) for size in (0, 1, 12_400_000, 1_450_000_000)] == [
        "0 MB",
        "1 MB",
        "12 MB",
        "1.4 GB",
    ]


@pytest.mark.parametrize(
    "action",
    [
        actions.ShowApps(),
        actions.RunApp("AVA"),
        actions.StopApp("AVA"),
        actions.SetUp(("AVA",)),
        actions.GiveUpMerge("AVA"),
        actions.MergeBranch("AVA"),
        actions.MergeBranch("AVA", squash=True),
        actions.MergeBranch("AVA", squash=True, anyway=True),
        actions.DiscardWork("AVA"),
        actions.RestoreWork("AVA"),
        actions.RestoreWork("AVA", "refs/relay/kept/ava/20261128T080000Z"),
        actions.ShowOutput("AVA"),
    ],
    ids=lambda action: action.line(),
)
def test_an_action_is_what_its_line_means(action: actions.Action) -> None:
    assert commands.parse(action.line(), ("AVA", "RUN")) == action
    assert actions.of_json(action.as_json()) == action


def test_a_setup_that_an_earlier_version_ordered_is_understood() -> None:
    assert actions.of_json({"kind": "SetUp", "agent": "AVA"}) == actions.SetUp(("AVA",))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/app @AVA", "`run`, `stop` or `output`"),
        ("/app run", "Say whose app"),
        ("/app @AVA run stop", "`run`, `stop` or `output`"),
        ("/app @NOBODY run", "no agent"),
        ("/setup", "Say whose worktree"),
        ("/merge", "Say whose worktree"),
        ("/merge @AVA @BEN", "one agent at a time"),
        ("/merge @AVA now", "no agent"),
        ("/discard", "Say whose worktree"),
        ("/restore @AVA refs/a refs/b", "by one ref"),
    ],
)
def test_a_line_that_says_too_little_is_answered(line: str, said: str) -> None:
    found = commands.parse(line, ("AVA", "BEN"))
    assert isinstance(found, commands.Problem) and said in found.text


def test_one_port_is_no_range() -> None:
    assert stands_with({"ports": [4961, 4961]}) == ["port 4961"]
    assert stands_with({"ports": [4961, 4963]}) == ["ports 4961-4963"]

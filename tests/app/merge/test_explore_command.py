"""`relay explore`, over a real database and repository, with no daemon."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests import engines
from tests.app.merge.exploration_room import FILE, TESTS, writes
from tests.app.test_coordination_commands import Room
from tests.engines import BOTH
from tests.git.repository import git, repository

TESTED = f"tests: {{run: [{sys.executable}, -c, {TESTS!r}]}}\n"


@pytest.fixture
def room(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Room:
    made = Room(tmp_path, capsys)
    repository(tmp_path, {"a.py": "one\n", ".gitignore": "config.json\n.relay\n*.yaml\n*.log\n"})
    agents = {
        "AVA": writes("redis = 1\n" * 45),
        "BEN": writes("broken = 1\n"),
        "CAT": writes("memory = 1\n" * 20),
    }
    told = [
        {"name": name, **{key: value for key, value in agent.items() if value is not None}}
        for name, agent in agents.items()
    ]
    told.append({"name": "LOOK", "kind": "command", "cmd": ["true"], "permissions": "read-only"})
    made.config.write_text(json.dumps({"agents": told} | engines.configure(tmp_path / ".relay", monkeypatch)))
    (tmp_path / "cache.yaml").write_text(FILE + TESTED)
    return made


def file_of(room: Room, text: str = "") -> str:
    path = room.config.parent / "cache.yaml"
    if text:
        path.write_text(text)
    return str(path)


@BOTH
def test_a_file_is_explored_compared_and_one_is_taken(room: Room) -> None:
    code, out, err = room.relay("explore", file_of(room), "--name", "ann", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert (result["exploration_id"], result["state"], result["winner"]) == ("x1", "waiting", None)
    assert [variant["status"] for variant in result["variants"]] == ["completed"] * 3
    assert [variant["passing"] for variant in result["variants"]] == [True, False, True]
    assert result["variants"][0]["resource_usage"]["cost_usd"] is None
    assert len(result["comparison_matrix"]) == 3
    folder = room.config.parent
    assert not (folder / "cache.py").exists()

    compared = room.json("explore", "compare", "x1")
    assert compared["recommendation"] == result["recommendation"]
    code, out, _ = room.relay("explore", "compare", "1")
    assert code == 0
    assert "in-memory" in out
    assert "unknown" in out

    code, out, err = room.relay("explore", "take", "x1", "redis", "--file", "cache.py=in-memory", "--json")
    assert code == 0, err
    taken = json.loads(out)
    assert (taken["state"], taken["winner"], taken["taken"]) == (
        "done",
        "redis",
        {"cache.py": "in-memory"},
    )
    assert (folder / "cache.py").read_text() == "memory = 1\n" * 20
    assert git(folder, "rev-parse", "main") == taken["merged"]
    # Twice the same is one; another choice comes too late, and is told the state.
    assert room.relay("explore", "take", "x1", "redis", "--file", "cache.py=in-memory")[0] == 0
    code, _, err = room.relay("explore", "take", "x1", "in-memory")
    assert code == 1
    assert "redis was merged" in err
    assert room.json("explore", "list")[0]["name"] == "x1"


def test_a_policy_takes_the_winner_by_itself(room: Room) -> None:
    file = file_of(room, FILE + TESTED + "auto_select: highest_score\n")
    code, out, err = room.relay("explore", file)
    assert code == 0, err
    assert "* in-memory" in out
    assert "in-memory is merged" in out
    assert "redis (AVA): completed" in err
    assert (room.config.parent / "cache.py").read_text() == "memory = 1\n" * 20


def test_a_task_alone_goes_to_the_agents_in_turn(room: Room) -> None:
    result = room.json("explore", "write a cache", "--variants", "4", "--usd", "2", "--seconds", "60")
    assert [variant["agent"] for variant in result["variants"]] == ["AVA", "BEN", "CAT", "AVA"]
    assert [variant["name"] for variant in result["variants"]] == ["ava-1", "ben", "cat", "ava-2"]
    assert result["budget"]["max_cost_usd"] == 2.0
    # Nobody could watch what no agent reports.
    assert result["variants"][0]["unwatched"] == ["max_cost_usd"]
    assert "no test has run" in result["variants"][0]["notes"]["test_pass_rate"]
    code, out, _ = room.relay("explore", "end", "x1", "--json")
    assert (code, json.loads(out)["state"]) == (0, "ended")
    folder = room.config.parent
    assert git(folder, "for-each-ref", "--format=%(refname:short)", "refs/heads").split() == ["main"]
    assert len(git(folder, "for-each-ref", "refs/relay/explorations/x1/").splitlines()) == 4
    assert room.relay("explore", "end", "x1")[0] == 0
    assert room.relay("explore", "take", "x1", "ben")[0] == 1


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["nowhere.yaml"], 2, "nowhere.yaml: No such file"),
        (["  "], 2, "The task is empty"),
        (["x", "--variants", "1"], 2, "an exploration has 2 to 12"),
        (["x", "--variants", "13"], 2, "an exploration has 2 to 12"),
        (["x", "--seconds", "0"], 2, "must be above 0"),
        (["x", "--select", "best"], 2, "invalid choice"),
        (["x", "--select", "agent_review"], 2, "named in a file"),
        (["compare", "x7"], 1, "There is no exploration x7"),
        (["compare", "m7"], 2, "is no exploration"),
        (["take", "x7", "redis", "--file", "redis"], 2, "is not PATH=VARIANT"),
        (["take", "x7"], 2, "VARIANT"),
        ([], 2, "FILE|TASK"),
    ],
)
def test_wrong_use_changes_nothing(room: Room, words: list[str], code: int, says: str) -> None:
    assert room.relay("explore", "list")[0] in (0, 1)
    if words[:1] == ["compare"] or words[:2] == ["take", "x7"]:
        room.agents_do(_nothing)
    did, out, err = room.relay("explore", *words)
    assert (did, out) == (code, "")
    assert says in err


async def _nothing(_: object) -> None:
    """Only to make the database."""


def test_a_bad_file_is_named_with_its_line(room: Room) -> None:
    file = file_of(room, FILE.replace("instructions: Use Redis.", "instruction: Use Redis."))
    code, _, err = room.relay("explore", file)
    assert code == 2
    assert f"{file}:3: unknown key `instruction`" in err


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("agent_config: BEN", "agent_config: EVE", "There is no agent EVE for variant memcached"),
        ("agent_config: BEN", "agent_config: LOOK", "LOOK cannot do variant memcached: it may only read"),
    ],
)
def test_an_agent_that_cannot_is_refused_before_anything_begins(
    room: Room, old: str, new: str, says: str
) -> None:
    code, _, err = room.relay("explore", file_of(room, FILE.replace(old, new)))
    assert code in (1, 2)
    assert says in err
    assert room.json("explore", "list") == []


def test_an_agent_in_its_turn_orders_nothing(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    room.agents_do(_nothing)
    monkeypatch.setenv("RELAY_API_KEY", "its own")
    code, out, err = room.relay("explore", file_of(room))
    assert (code, out) == (1, "")
    assert "Only a person orders that" in err
    assert room.json("explore", "list") == []

"""A program asks before an edit on its own pipe, and the room's guard answers in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relay.agents.command.asking import Asking, places_of
from relay.agents.process.session import Question
from relay.agents.setup.hooks import GuardHook
from relay.model import GuardDecision, Location, Turn
from tests.agents.conftest import MakeAgent, collect, end


class Judge:
    """Refuses what is `held`; remembers what it was asked."""

    def __init__(self, *held: str, note: str = "") -> None:
        self.held, self.note, self.asked = held, note, list[tuple[str, Location, str | None]]()
        self.ran: list[str] = []

    async def decide(self, agent: str, location: Location, session: str | None = None) -> GuardDecision:
        self.asked.append((agent, location, session))
        if location.path in self.held:
            return GuardDecision(True, f"BOB works on {location.path}.")
        return GuardDecision(note=self.note)

    def runs(self, agent: str, command: str) -> None:
        self.ran.append(command)


class Broken(Judge):
    async def decide(self, agent: str, location: Location, session: str | None = None) -> GuardDecision:
        raise RuntimeError("no database")


def hook(folder: Path) -> GuardHook:
    return GuardHook(("/bin/true", "hook"), folder)


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (Judge("a.py"), "denied: BOB works on a.py."),
        (Judge("b.py"), "allowed: "),
        (Judge(note="BOB reads a.py."), "allowed: BOB reads a.py."),
        (Broken(), "allowed: "),
    ],
)
async def test_an_edit_waits_for_the_guard_and_no_process_is_started(
    judge: Any, said: str, make_agent: MakeAgent, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("a\nb\nc\n")
    agent = make_agent("claude", "edit", judge=judge, guard=hook(tmp_path))
    parts = await collect(agent, Turn("BOT", "hi", may_edit=True, room_session="s"))
    assert end(parts).text == said
    if not isinstance(judge, Broken):
        assert judge.asked == [("BOT", Location("a.py", (2, 2), True), "s")]
        assert judge.asked[0][1].text == b"a\nB\nc\n"
    (call,) = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    assert "--settings" not in call["argv"]


async def test_a_turn_that_may_only_read_is_asked_nothing(make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = make_agent("claude", "edit", judge=Judge("a.py"), guard=hook(tmp_path))
    assert end(await collect(agent, Turn("BOT", "hi"))).text == "allowed: "


async def test_a_program_that_takes_no_hooks_on_its_pipe_runs_the_hook(
    make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(
        "claude", "edit", judge=Judge("a.py"), guard=hook(tmp_path), env={"FAKE_HOOKS": "refused"}
    )
    for _ in range(2):  # the second turn knows it
        turn = Turn("BOT", "hi", may_edit=True)
        assert end(await collect(agent, turn)).text == "allowed: "
        assert turn.inbox.closed
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    assert ["--settings" in call["argv"] for call in calls] == [True, True]


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ({"file_path": "a.py", "content": "x"}, [Location("a.py", None, True)]),
        ({"file_path": "a.py", "old_string": "zz", "new_string": "y"}, [Location("a.py", None, True)]),
        ({"file_path": "/etc/passwd", "content": "x"}, []),
        ({"file_path": "../a.py", "content": "x"}, []),
        (
            {"edits": [{"old_string": "a", "new_string": "b"}], "file_path": "a.py"},
            [Location("a.py", (1, 1), True)],
        ),
        ({"edits": ["?"], "file_path": "a.py"}, [Location("a.py", None, True)]),
        ({"file_path": 7}, []),
        ({}, []),
    ],
)
def test_where_a_tool_would_write(given: dict[str, Any], places: list[Location], tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a\nb\n")
    assert places_of(Question("q", "Edit", given), tmp_path, tmp_path) == places


async def test_without_a_guard_nothing_is_contested(tmp_path: Path) -> None:
    asking = Asking("BOT", Turn("BOT", "hi"), tmp_path, None)
    assert await asking.decide(Question("q", "Edit", {"file_path": "a.py"})) == ("", "")


@pytest.mark.parametrize(
    ("command", "asked", "said"),
    [
        ("sed -i s/b/B/ a.py", ["a.py"], "This shell command would write a.py. BOB works on a.py."),
        ("echo x > b.py", ["b.py"], ""),
        ("cat a.py", [], ""),
        ("echo x > /etc/hosts", [], ""),
    ],
)
async def test_a_command_of_the_shell_is_asked_about_by_what_it_would_write(
    command: str, asked: list[str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("a\nb\n")
    judge = Judge("a.py")
    reason, note = await Asking("BOT", Turn("BOT", "hi"), tmp_path, judge).decide(
        Question("q", "Bash", {"command": command}, str(tmp_path))
    )
    assert reason.startswith(said) and bool(reason) == bool(said) and note == ""
    assert judge.ran == ([] if said else [command])
    assert [(place.path, place.command) for _, place, _ in judge.asked] == [(path, command) for path in asked]

"""What a turn over ACP is told while its prompt runs, against a real subprocess that speaks the protocol."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from relay.agents.factory import AcpAgent, AgentSpec
from relay.model import DeliveredPart, Hears, Part, SteeringMessage, ToolPart
from tests.agents.conftest import FAKES, collect, end, log
from tests.agents.test_acp import Stage, edits, reads
from tests.standing import Standing

CAN = "steering"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def delivered(parts: Sequence[Part]) -> list[DeliveredPart]:
    return [part for part in parts if isinstance(part, DeliveredPart)]


async def test_a_message_is_injected_into_the_prompt_that_runs(stage: Stage) -> None:
    turn, parts = reads(), []
    agent = stage.agent("work", caps=CAN, env={"FAKE_S": "20"})
    async with aclosing(agent.run(turn)) as stream:
        async for part in stream:
            parts.append(part)
            if isinstance(part, ToolPart):
                assert turn.inbox.channel is not None and turn.inbox.channel.name == "_session/steering"
                assert turn.inbox.hears
                for word in ("left", "right"):
                    turn.inbox.put(SteeringMessage(f"e-{word}", word))
            if len(delivered(parts)) == 2:
                break
    assert delivered(parts) == [
        DeliveredPart(("e-left",), "make test"),
        DeliveredPart(("e-right",), "make test"),
    ]
    assert [line["text"] for line in stage.told("steer")] == ["left", "right"]
    assert len(stage.told("prompt")) == 1 and turn.inbox.channel is None


async def test_without_steering_the_turn_says_so(stage: Stage) -> None:
    turn = reads()
    channels = []
    async with aclosing(stage.agent("work").run(turn)) as stream:
        async for part in stream:
            if isinstance(part, ToolPart):
                channels.append(turn.inbox.channel)
                turn.inbox.put(SteeringMessage("e1", "left"))
            assert not isinstance(part, DeliveredPart)
    (channel,) = channels
    assert channel is not None and (channel.name, channel.hears) == ("next turn", Hears.NEXT)
    assert "offers no steering" in channel.why
    assert not stage.told("steer")


async def test_an_agent_that_does_not_know_what_it_offers(stage: Stage) -> None:
    turn, parts = reads(), []
    async with aclosing(stage.agent("unknowing", caps=CAN, env={"FAKE_S": "0.5"}).run(turn)) as stream:
        async for part in stream:
            parts.append(part)
            if isinstance(part, ToolPart):
                turn.inbox.put(SteeringMessage("e1", "left"))
    assert end(parts).failure is None and not delivered(parts)
    assert "a message waits for the next turn" in log(parts)


async def test_what_comes_while_a_prompt_is_cancelled_goes_into_the_next_prompt(stage: Stage) -> None:
    """Of the same turn: the guard cuts the first prompt off, and the turn goes on with the reason."""
    turn, parts = edits(), []

    class Telling(Standing):
        async def decide(self, *asked, **more):  # type: ignore[no-untyped-def]
            decision = await super().decide(*asked, **more)
            asyncio.get_running_loop().call_soon(turn.inbox.put, SteeringMessage("e1", "left"))
            return decision

    agent = stage.agent("twice", caps=CAN, env={"FAKE_S": "1"}, guard=Telling("a.py"))
    async with aclosing(agent.run(turn)) as stream:
        async for part in stream:
            parts.append(part)
    assert [part.ids for part in delivered(parts)] == [("e1",)]
    assert [line["text"] for line in stage.told("taken")] == ["left"]
    assert len(stage.told("prompt")) == 2 and end(parts).failure is None


async def test_twenty_messages_around_the_end_of_a_prompt_are_each_told_once(stage: Stage) -> None:
    """Taken in with a receipt, or not taken in and without one: the room then has it."""
    chance = random.Random(18)
    in_turn = left = 0

    async def race(number: int) -> None:
        nonlocal in_turn, left
        folder = stage.folder / f"race-{number}"
        folder.mkdir()
        own, turn, parts = Stage(folder), reads(), []
        seconds = chance.uniform(0.0, 0.09)
        async with aclosing(own.agent("work", caps=CAN, env={"FAKE_S": "0.02"}).run(turn)) as stream:
            async for part in stream:
                parts.append(part)
                if isinstance(part, ToolPart):
                    message = SteeringMessage(f"e{number}", f"word {number}")
                    asyncio.get_running_loop().call_later(seconds, turn.inbox.put, message)
        assert end(parts).failure is None
        times = len(own.told("taken"))
        assert [part.ids for part in delivered(parts)] == [(f"e{number}",)] * times and times <= 1, number
        assert len(own.told("prompt")) == 1
        in_turn, left = in_turn + times, left + 1 - times

    for first in range(0, 20, 5):
        await asyncio.gather(*(race(number) for number in range(first, first + 5)))
    assert in_turn and left, "the moments were not around the prompt's end"


@pytest.mark.parametrize("caps", ["", CAN])
async def test_a_presets_program_is_asked_once_whether_it_steers(stage: Stage, caps: str) -> None:
    program = stage.folder / "codex-acp"
    program.symlink_to(FAKES / "acp_agent.py")
    own = {"FAKE_DIR": str(stage.folder), "FAKE_CAPS": caps}
    own["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if "site-packages" in path)
    path = f"{stage.folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    spec = AgentSpec("BOT", kind="acp", preset="codex", cwd=stage.tree, env=own)
    agent = AcpAgent(spec, daemon_env={"PATH": path})
    seen = await agent.probe()
    assert seen.installed and seen.channel.hears is (Hears.BOUNDARY if caps else Hears.NEXT)
    assert "codex-acp" in seen.channel.why
    assert (await agent.probe()).channel == seen.channel
    assert len(stage.told("initialize")) == 1 and not stage.told("new")


async def test_one_that_does_not_answer_is_there_all_the_same(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.agents.acp.turn.HELLO_S", 1.0)
    program = stage.folder / "codex-acp"
    program.write_text('#!/bin/sh\n[ "$1" = --version ] && echo 1.2.3 || exec sleep 60\n')
    program.chmod(0o755)
    spec = AgentSpec("BOT", kind="acp", preset="codex", cwd=stage.tree)
    seen = await AcpAgent(spec, daemon_env={"PATH": f"{stage.folder}:{os.environ['PATH']}"}).probe()
    assert seen.installed and seen.channel.hears is Hears.NEXT
    assert "did not say" in seen.channel.why


async def test_an_answer_without_a_message_is_as_before(stage: Stage) -> None:
    parts = await collect(stage.agent("work", caps=CAN), reads())
    assert end(parts).text == "Done." and not delivered(parts)

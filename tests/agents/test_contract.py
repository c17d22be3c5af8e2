"""What every program that relay knows keeps to, each by its own protocol: real processes, only the model is made up.

A message in the inbox of a running turn is delivered by the program's own word, once, or it is the room's again.
"""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import aclosing
from pathlib import Path

import pytest

from relay.agents.registry import presets
from relay.model import (
    DeliveredPart,
    FailureClass,
    Hears,
    Part,
    SessionPart,
    SteeringMessage,
    ToolPart,
    Turn,
    UsagePart,
)
from tests.agents.conftest import MakeAgent, collect, end
from tests.agents.test_command import SESSION, left, living, until

ALL = tuple(presets())
#: Those that hear what they are told while they work.
HEARING = tuple(name for name, preset in presets().items() if preset.routes)
LEFT = SteeringMessage("m1", "turn left")
RIGHT = SteeringMessage("m2", "turn right")


def noted(folder: Path, file: str) -> list[str]:
    path = folder / file
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def receipts(parts: list[Part]) -> list[tuple[str, str]]:
    return [(id, part.after) for part in parts if isinstance(part, DeliveredPart) for id in part.ids]


@pytest.mark.parametrize("preset", ALL)
async def test_it_starts_answers_and_counts(preset: str, make_agent: MakeAgent) -> None:
    parts = await collect(make_agent(preset), Turn("BOT", "please look"))
    assert (end(parts).failure, end(parts).text) == (None, "Hello there.")
    assert SessionPart(SESSION) in parts
    assert [part for part in parts if isinstance(part, UsagePart)][-1].counted > 0


@pytest.mark.parametrize("preset", ALL)
async def test_it_goes_on_in_its_conversation(preset: str, make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = make_agent(preset)
    first = await collect(agent, Turn("BOT", "please look"))
    (session,) = {part.id for part in first if isinstance(part, SessionPart)}
    assert end(await collect(agent, Turn("BOT", "and again", resume=session))).failure is None
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    assert [session in call["argv"] for call in calls] == [False, True]
    parts = await collect(agent, Turn("BOT", "hi", resume="gone"))
    assert (end(parts).failure, end(parts).text) == (None, "Hello there.")


@pytest.mark.parametrize("preset", ALL)
async def test_a_message_is_delivered_after_a_tool_once_or_left_to_the_room(
    preset: str, make_agent: MakeAgent, tmp_path: Path
) -> None:
    turn = Turn("BOT", "please work")
    agent = make_agent(preset, "work")
    running = asyncio.create_task(collect(agent, turn))
    await until((tmp_path / "works").exists)
    if preset in HEARING:
        async with asyncio.timeout(30):
            await turn.inbox.opened.wait()
        assert turn.inbox.hears
        turn.inbox.put(LEFT)
        turn.inbox.put(LEFT)  # said twice by mistake: it is the same message
        turn.inbox.put(RIGHT)
        await until(lambda: len(noted(tmp_path, "received")) == 2)
    else:
        turn.inbox.put(LEFT)
    (tmp_path / "go").touch()
    parts = await running
    assert end(parts).failure is None
    tools = [part.name for part in parts if isinstance(part, ToolPart) and part.name]
    if preset in HEARING:
        assert receipts(parts) == [("m1", tools[0]), ("m2", tools[0])]
        assert noted(tmp_path, "taken") == ["turn left", "turn right"]
        assert end(parts).text == "Hello there. and turn left and turn right"
    else:
        assert receipts(parts) == [] and end(parts).text == "Hello there."
        seen = await agent.probe()
        assert seen.channel.hears is Hears.NEXT and seen.channel.why
    assert not turn.inbox.hears


@pytest.mark.parametrize("preset", HEARING)
async def test_a_turn_that_is_begun_anew_hears_too(
    preset: str, make_agent: MakeAgent, tmp_path: Path
) -> None:
    turn = Turn("BOT", "please work", resume="gone")
    running = asyncio.create_task(collect(make_agent(preset, "work"), turn))
    await until((tmp_path / "works").exists)
    async with asyncio.timeout(30):
        await turn.inbox.opened.wait()
    turn.inbox.put(LEFT)
    await until(lambda: len(noted(tmp_path, "received")) == 1)
    (tmp_path / "go").touch()
    parts = await running
    assert [id for id, _ in receipts(parts)] == ["m1"] and turn.inbox.closed


@pytest.mark.parametrize("preset", HEARING)
async def test_a_message_that_comes_while_it_answers_is_taken_in_too(
    preset: str, make_agent: MakeAgent, tmp_path: Path
) -> None:
    turn = Turn("BOT", "please work")
    running = asyncio.create_task(collect(make_agent(preset, "work", env={"FAKE_SLOW": "1"}), turn))
    await until((tmp_path / "works").exists)
    (tmp_path / "go").touch()
    await until((tmp_path / "answers").exists)
    turn.inbox.put(LEFT)
    # Not yet read by the program, or read while it answers: both are so soon enough, and it may end.
    (tmp_path / "end").touch()
    parts = await running
    assert end(parts).failure is None
    taken = noted(tmp_path, "taken")
    assert receipts(parts) == [("m1", "")] * len(taken)
    if taken:
        assert end(parts).text == "Hello there.\n\nLate: turn left"


@pytest.mark.parametrize("preset", HEARING)
async def test_a_message_that_races_the_end_is_delivered_once_or_left_to_the_room(
    preset: str, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent, chance = make_agent(preset, "work"), random.Random(18)
    outcomes = []
    for _ in range(12):
        for file in ("go", "works", "taken", "received"):
            (tmp_path / file).unlink(missing_ok=True)
        turn = Turn("BOT", "please work")
        running = asyncio.create_task(collect(agent, turn))
        async with asyncio.timeout(30):
            await turn.inbox.opened.wait()
        (tmp_path / "go").touch()
        await asyncio.sleep(chance.uniform(0, 0.02))
        turn.inbox.put(LEFT)
        parts = await running
        assert end(parts).failure is None
        outcomes.append((len(receipts(parts)), len(noted(tmp_path, "taken"))))
    assert set(outcomes) <= {(0, 0), (1, 1)}, outcomes


@pytest.mark.parametrize("preset", ALL)
async def test_an_interrupted_turn_ends_its_processes_and_takes_nothing_in(
    preset: str, make_agent: MakeAgent, tmp_path: Path
) -> None:
    turn, parts = Turn("BOT", "please work"), list[Part]()
    async with aclosing(make_agent(preset, "hang").run(turn)) as stream:
        async for part in stream:
            parts.append(part)
            if isinstance(part, SessionPart):
                break
        await until((tmp_path / "hangs").exists)
        turn.inbox.put(LEFT)
    assert living(left(tmp_path)) == []
    assert not turn.inbox.hears and receipts(parts) == []


async def test_a_turn_that_is_cut_short_is_told_to_stop(make_agent: MakeAgent, tmp_path: Path) -> None:
    """So that its conversation says so; one that does not end is killed (above)."""
    turn = Turn("BOT", "please work")
    async with aclosing(make_agent("claude", "work").run(turn)) as stream:
        async for part in stream:
            if isinstance(part, ToolPart):
                break
        await until((tmp_path / "works").exists)
    assert noted(tmp_path, "stopped") == ["interrupt"]
    assert not turn.inbox.hears


@pytest.mark.parametrize("preset", [name for name in HEARING if presets()[name].deaf])
async def test_a_program_that_knows_no_way_of_hearing_is_told_the_old_way(
    preset: str, make_agent: MakeAgent, tmp_path: Path
) -> None:
    turn, agent = Turn("BOT", "please look"), make_agent(preset, env={"FAKE_OLD": "help"})
    seen = await agent.probe()
    assert seen.channel.hears is Hears.NEXT and seen.channel.why == presets()[preset].deaf
    parts = await collect(agent, turn)
    assert (end(parts).failure, end(parts).text) == (None, "Hello there.")
    assert not turn.inbox.opened.is_set()


async def test_a_program_that_gives_no_receipts_hears_with_its_next_turn(make_agent: MakeAgent) -> None:
    """It is found out in the turn, which ends well; what is known of the program says it from then on."""
    turn, agent = Turn("BOT", "please look"), make_agent("claude", env={"FAKE_OLD": "receipts"})
    assert (await agent.probe()).channel.hears is Hears.BOUNDARY
    parts = await collect(agent, turn)
    assert (end(parts).failure, end(parts).text) == (None, "Hello there.")
    seen = await agent.probe()
    assert seen.channel.hears is Hears.NEXT and "msg_lifecycle_v1" in seen.channel.why


@pytest.mark.parametrize("preset", HEARING)
async def test_a_program_that_dies_leaves_its_messages_to_the_room(
    preset: str, make_agent: MakeAgent, tmp_path: Path
) -> None:
    turn = Turn("BOT", "please work")
    running = asyncio.create_task(collect(make_agent(preset, "work", timeout_s=8.0), turn))
    await until((tmp_path / "works").exists)
    async with asyncio.timeout(30):
        await turn.inbox.opened.wait()
    turn.inbox.put(LEFT)
    await until(lambda: len(noted(tmp_path, "received")) == 1)
    parts = await running
    assert end(parts).failure is FailureClass.TIMEOUT
    assert receipts(parts) == [] and not turn.inbox.hears

"""Two agents whose turns work in one checkout: each change is recorded once, and as far as it can be told whose."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.app.wiring.timeline import TimelineRecording
from relay.config.settings import LiveSettings
from relay.faces.rewinds import RewindOrder, RewindService
from relay.log.events import Event
from relay.model import Refusal
from relay.timeline import compare, reading
from tests import engines
from tests.app.wiring.recorded_room import SCHEMAS, RecordedRoom, is_chain, touched
from tests.engines import BOTH, all_events
from tests.git.repository import git, repository, room

pytestmark = BOTH


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RecordedRoom]:
    repo, shared = repository(tmp_path / "repo"), tmp_path / "shared"
    git(repo, "worktree", "add", "-q", "-b", "shared", str(shared))
    named = {name: {"worktree": str(shared)} for name in ("AVA", "BEN")}
    store = await engines.open_store(tmp_path, SCHEMAS)
    opened = RecordedRoom(store, await room(repo, "AVA", "BEN", **named))
    yield opened
    await opened.close()


def write(desk: RecordedRoom, **files: str) -> None:
    for name, content in files.items():
        (desk.at("AVA") / f"{name}.py").write_text(content)


async def turn(desk: RecordedRoom, agent: str, **files: str) -> None:
    plan = await desk.begin(agent)
    write(desk, **files)
    await desk.end(plan)


def whose(found: list[Event]) -> list[tuple[str, list[str]]]:
    return [(reading.author(event), [path for path, _ in touched(event)]) for event in found]


async def rewind(desk: RecordedRoom, agent: str, *, into: str = "worktree") -> list[str]:
    rewinds = RewindService(desk.store, desk.room.registry, desk.timeline)
    start = (await all_events(desk.store))[0].pos
    answer = await rewinds.rewind(RewindOrder.of_person("Ann"), agent, f"#{start}", into=into)
    assert not answer["conflicts"]
    return sorted(file["path"] for file in answer["files"] if file["before"] != file["after"])


async def test_one_after_another(desk: RecordedRoom) -> None:
    await turn(desk, "AVA", ava="1\n")
    await turn(desk, "BEN", ben="1\n")
    await turn(desk, "AVA", ava="2\n")
    await turn(desk, "BEN", ben="2\n")
    found = await desk.changed()
    assert whose(found) == [("AVA", ["ava.py"]), ("BEN", ["ben.py"])] * 2
    assert {event.outputs["worktree"] for event in found} == {"AVA"}
    assert is_chain(found)
    assert all("unseen" not in event.outputs for event in found)
    assert await desk.store.read(lambda tx: compare.worktree_of(tx, "BEN")) == "AVA"
    assert await rewind(desk, "AVA") == ["ava.py"]
    assert (desk.at("BEN") / "ben.py").read_text() == "2\n"
    notes = [await desk.timeline.taken_back(agent) for agent in ("AVA", "BEN")]
    assert "took back what you did" in notes[0]
    assert "took back what AVA did, in your worktree: ava.py" in notes[1]
    await turn(desk, "BEN", ben="3\n")
    assert whose((await desk.changed())[len(found) :]) == [("BEN", ["ben.py"])]
    assert await rewind(desk, "BEN") == ["ben.py"]
    assert not (desk.at("BEN") / "ben.py").exists()


async def test_what_no_tool_named_is_nobodys_while_two_are_at_work(desk: RecordedRoom) -> None:
    ava = await desk.begin("AVA")
    write(desk, alone="of AVA, before BEN came\n")
    ben = await desk.begin("BEN")
    write(desk, ava="1\n", ben="1\n", shell="whose?\n")
    desk.named(ava, "ava.py")
    desk.named(ben, "ben.py")
    await desk.look(ava)
    await desk.look(ben)
    ended = await desk.end(ava)
    write(desk, last="of BEN, after AVA went\n")
    await desk.end(ben)
    found = await desk.changed()
    assert whose(found) == [
        ("AVA", ["alone.py"]),
        ("AVA", ["ava.py"]),
        ("BEN", ["ben.py"]),
        ("someone unknown", ["shell.py"]),
        ("BEN", ["last.py"]),
    ]
    assert is_chain(found)
    unknown = found[3]
    assert unknown.outputs["among"] == ["AVA", "BEN"]
    assert reading.words(unknown) == "wrote 1: by AVA or BEN, at once in one checkout"
    assert ended is not None and ended.as_json()["beside"] == ["BEN"]
    await desk.end(await desk.begin("AVA"))
    assert len(await desk.changed()) == len(found), "nothing is recorded twice"
    assert await rewind(desk, "AVA") == ["alone.py", "ava.py"]
    stand = {path.name for path in desk.at("AVA").glob("*.py")}
    assert stand == {"a.py", "b.py", "ben.py", "shell.py", "last.py"}
    assert await rewind(desk, "BEN") == ["ben.py", "last.py"]
    assert (desk.at("AVA") / "shell.py").exists()


async def test_what_both_named_is_nobodys(desk: RecordedRoom) -> None:
    ava, ben = await desk.begin("AVA"), await desk.begin("BEN")
    for plan in (ava, ben):
        desk.named(plan, "both.py")
    write(desk, both="whose?\n")
    await desk.look(ava)
    await desk.look(ben)
    await desk.end(ben)
    await desk.end(ava)
    assert whose(await desk.changed()) == [("someone unknown", ["both.py"])]


async def test_nothing_is_taken_back_while_another_works_there(desk: RecordedRoom) -> None:
    await turn(desk, "AVA", ava="1\n")
    ben = await desk.begin("BEN")
    with pytest.raises(Refusal, match="BEN's turn is running"):
        await rewind(desk, "AVA")
    await desk.end(ben)
    assert await rewind(desk, "AVA") == ["ava.py"]


async def test_what_a_killed_room_left_there_is_nobodys(desk: RecordedRoom) -> None:
    await desk.begin("AVA")
    await desk.begin("BEN")
    write(desk, left="whose?\n")
    # The process is killed: another one begins, and knows of no turn.
    desk.room.registry.turn_trees.clear()
    desk.timeline = TimelineRecording(desk.store, desk.room.registry, LiveSettings(desk.room.settings))
    await turn(desk, "BEN", ben="1\n")
    assert whose(await desk.changed()) == [("someone unknown", ["left.py"]), ("BEN", ["ben.py"])]


@pytest.mark.parametrize("merged", ["AVA", "BEN"])
async def test_each_is_taken_out_of_main_alone(desk: RecordedRoom, merged: str) -> None:
    await turn(desk, "AVA", ava="1\n")
    await turn(desk, "BEN", ben="1\n")
    git(desk.at("AVA"), "add", "-A")
    git(desk.at("AVA"), "commit", "-q", "-m", "both")
    answer = await desk.room.actions.merge(merged, "Ann")
    assert answer
    await desk.tell()
    await desk.timeline.catch_up()
    assert await rewind(desk, "AVA", into="main") == ["ava.py"]
    assert (desk.repo / "ben.py").exists()
    assert await rewind(desk, "BEN", into="main") == ["ben.py"]

"""What relay does to an agent's worktree between its turns is nobody's writing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.log.events import Event
from relay.timeline import reading
from tests.app.wiring.recorded_room import RecordedRoom, touched
from tests.engines import BOTH, all_events
from tests.git.repository import commit, git

pytestmark = BOTH
BODY = "".join(f"{number}\n" for number in range(9))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RecordedRoom]:
    opened = await RecordedRoom.open(tmp_path, "AVA")
    commit(opened.repo, {"long.py": BODY, "both.py": "0\n"}, "begin")
    yield opened
    await opened.close()


async def turn(desk: RecordedRoom, **files: str) -> None:
    plan = await desk.begin("AVA")
    for name, content in files.items():
        (desk.at("AVA") / f"{name}.py").write_text(content)
    await desk.end(plan)


async def last_read(desk: RecordedRoom) -> Event:
    return (await all_events(desk.store, "files.read"))[-1]


async def test_what_git_merges_without_a_conflict_is_read(desk: RecordedRoom) -> None:
    await turn(desk, long=f"AVA\n{BODY}", own="own\n")
    commit(desk.repo, {"long.py": f"{BODY}main\n", "new.py": "new\n"}, "main goes on")
    wrote = len(await desk.changed())
    await desk.end(await desk.begin("AVA", take_main=True))
    assert (desk.at("AVA") / "long.py").read_text() == f"AVA\n{BODY}main\n"
    events = [event for event in (await desk.changed())[wrote:] if event.outputs["worktree"] == "AVA"]
    assert events == [], "nobody wrote it"
    read = await last_read(desk)
    assert (read.lane, read.outputs["source"], read.outputs["paths"]) == (
        "AVA",
        "merge",
        ["long.py", "new.py"],
    )
    assert reading.words(read) == "took the main branch in"


async def test_work_that_was_not_recorded_before_a_merge_is_no_part_of_it(desk: RecordedRoom) -> None:
    await turn(desk, own="own\n")
    (desk.at("AVA") / "late.py").write_text("somebody\n")
    commit(desk.repo, {"new.py": "new\n"}, "main goes on")
    await desk.end(await desk.begin("AVA", take_main=True))
    late = (await desk.changed())[-1]
    assert (late.lane_key, touched(late)) == ("room/unknown", [("late.py", "write")])
    assert f"{reading.author(late)} {reading.words(late)}" == "someone unknown wrote 1 in AVA's worktree"
    for name in ("unknown", "someone unknown"):
        assert await desk.store.read(lambda tx, name=name: reading.page(tx, reading.Filter(name))) == [late]
    assert (await last_read(desk)).outputs["paths"] == ["new.py"]


@pytest.mark.parametrize("settles", [False, True])
async def test_a_merge_that_is_given_up_changes_nothing(desk: RecordedRoom, settles: bool) -> None:
    await turn(desk, both="AVA\n", own="own\n")
    commit(desk.repo, {"both.py": "main\n", "new.py": "new\n"}, "main goes on")
    plan = await desk.begin("AVA", take_main=True)
    both = desk.at("AVA") / "both.py"
    assert "<<<<<<<" in both.read_text()
    if settles:
        both.write_text(both.read_text() + "half\n")
    await desk.end(plan)
    await desk.room.actions.abort("AVA", "Ann")
    assert both.read_text() == "AVA\n" and not (desk.at("AVA") / "new.py").exists()
    wrote = len(await desk.changed())
    await desk.end(await desk.begin("AVA"))
    events = [event for event in (await desk.changed())[wrote:] if event.outputs["worktree"] == "AVA"]
    assert events == [], "nobody wrote it"
    read = await last_read(desk)
    assert (read.outputs["source"], read.outputs["paths"]) == ("abort", ["both.py", "new.py"])
    assert read.snapshot == git(
        desk.repo, "rev-parse", f"{desk.room.registry.worktrees['AVA'].branch}^{{tree}}"
    )


async def test_work_that_is_brought_back_is_nobodys_new_writing(desk: RecordedRoom) -> None:
    await turn(desk, own="own\n")
    await desk.room.actions.discard("AVA", "Ann")
    await desk.end(await desk.begin("AVA"))
    await desk.room.actions.restore("AVA", "Ann")
    wrote = len(await desk.changed())
    await desk.end(await desk.begin("AVA"))
    assert len(await desk.changed()) == wrote
    read = await last_read(desk)
    assert (read.outputs["source"], read.outputs["paths"]) == ("restore", ["own.py"])


@pytest.mark.parametrize("moves_on", [False, True])
async def test_work_that_a_takeback_gives_again_is_nobodys_new_writing(
    desk: RecordedRoom, moves_on: bool
) -> None:
    await turn(desk, long=f"AVA\n{BODY}")
    commit(desk.repo, {"long.py": f"{BODY}main\n"}, "main goes on")
    merged = await desk.room.actions.merge("AVA", "Ann")
    done = await desk.room.actions.take_back("AVA", "Ann", merged["commit"])
    assert "has it again" in done["reason"]
    assert (desk.at("AVA") / "long.py").read_text() == f"AVA\n{BODY}main\n"
    if moves_on:
        commit(desk.repo, {"new.py": "new\n"}, "main goes on again")
    wrote = len(await desk.changed())
    await desk.end(await desk.begin("AVA", take_main=moves_on))
    events = [event for event in (await desk.changed())[wrote:] if event.outputs["worktree"] == "AVA"]
    assert events == [], "nobody wrote it"
    read = await last_read(desk)
    assert (read.outputs["source"], read.outputs["paths"]) == (
        "merge" if moves_on else "restore",
        ["long.py", "new.py"] if moves_on else ["long.py"],
    )

"""A file that an agent made and ignores later is on disk: the log, the list of files and a rewind say so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.faces.rewinds import RewindOrder, RewindService
from relay.timeline import reading
from tests.app.wiring.recorded_room import RecordedRoom, is_chain, touched
from tests.engines import BOTH, all_events
from tests.git.repository import git

pytestmark = BOTH


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RecordedRoom]:
    opened = await RecordedRoom.open(tmp_path, "AVA")
    yield opened
    await opened.close()


async def turn(desk: RecordedRoom, **files: str | None) -> None:
    plan = await desk.begin("AVA")
    for name, content in files.items():
        path = desk.at("AVA") / (".gitignore" if name == "ignore" else f"{name}.txt")
        path.unlink() if content is None else path.write_text(content)
    await desk.end(plan)


async def files(desk: RecordedRoom) -> dict[str, bool]:
    return {row["path"]: row["blob"] is not None for row in await desk.store.read(reading.workspace)}


async def test_a_file_that_is_ignored_later_is_not_deleted(desk: RecordedRoom) -> None:
    await turn(desk, new="1\n", keep="k\n")
    start = (await all_events(desk.store))[0].pos
    await turn(desk, ignore="*.log\nnew.txt\nhidden.txt\n", hidden="ignored from the start\n")
    found = await desk.changed()
    assert [touched(event) for event in found] == [
        [("keep.txt", "write"), ("new.txt", "write")],
        [(".gitignore", "write")],
    ]
    assert await files(desk) == {".gitignore": True, "keep.txt": True, "new.txt": True}
    await turn(desk)
    assert len(await desk.changed()) == 2
    await turn(desk, new="2\n")
    found = await desk.changed()
    assert (found[-1].lane, touched(found[-1])) == ("AVA", [("new.txt", "write")])
    assert is_chain(found)
    rewinds, ann = RewindService(desk.store, desk.room.registry, desk.timeline), RewindOrder.of_person("Ann")
    answer = await rewinds.rewind(ann, "AVA", f"#{start}")
    assert {file["path"]: file["action"] for file in answer["files"]} == {
        ".gitignore": "restored",
        "keep.txt": "deleted",
        "new.txt": "deleted",
    }
    assert not (desk.at("AVA") / "new.txt").exists()
    assert (desk.at("AVA") / "hidden.txt").exists(), "nobody knew of it"
    await rewinds.undo(ann)
    assert (desk.at("AVA") / "new.txt").read_text() == "2\n"
    await turn(desk)
    assert len(await desk.changed()) == len(found)
    reads = [event for event in await all_events(desk.store, "files.read") if event.file_touches]
    assert reads == [], "the main branch had none of it"
    await turn(desk, new=None)
    last = (await desk.changed())[-1]
    assert (last.lane, touched(last)) == ("AVA", [("new.txt", "delete")])
    assert (await files(desk))["new.txt"] is False


async def test_a_file_of_the_main_branch_that_is_taken_out_of_git_is_deleted(desk: RecordedRoom) -> None:
    plan = await desk.begin("AVA")
    git(desk.at("AVA"), "rm", "-q", "--cached", "b.py")
    (desk.at("AVA") / ".gitignore").write_text("*.log\nb.py\n")
    await desk.end(plan)
    (event,) = await desk.changed()
    assert touched(event) == [(".gitignore", "write"), ("b.py", "delete")], "a merge deletes it"
    await turn(desk)
    assert len(await desk.changed()) == 1


async def test_what_a_person_ignores_is_not_deleted(desk: RecordedRoom) -> None:
    look = desk.timeline.edits.look
    assert await look()
    (desk.repo / "open.txt").write_text("1\n")
    assert await look()
    (desk.repo / ".gitignore").write_text("*.log\nopen.txt\n")
    assert await look()
    assert await look()
    assert [touched(event) for event in await desk.changed()] == [
        [("open.txt", "write")],
        [(".gitignore", "write")],
    ]
    git(desk.repo, "rm", "-q", "--cached", "b.py")
    (desk.repo / ".gitignore").write_text("*.log\nopen.txt\nb.py\n")
    git(desk.repo, "commit", "-q", "-a", "-m", "b is out")
    assert await look()
    assert await look()
    (committed,) = (await desk.changed())[2:]
    assert (committed.outputs["worktree"], touched(committed)) == (
        "main",
        [(".gitignore", "write"), ("b.py", "delete")],
    )

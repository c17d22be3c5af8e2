"""What people save in the main checkout, before and after they commit it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.app.wiring import person_edits
from relay.faces.rewinds import RewindOrder, RewindService
from relay.log.events import Event
from relay.model import Refusal
from relay.timeline import reading
from relay.timeline.projection import UNCOMMITTED
from tests.app.wiring.recorded_room import RecordedRoom, text, touched
from tests.engines import BOTH, all_events
from tests.git.repository import commit, git
from tests.outside import eventually

pytestmark = BOTH


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RecordedRoom]:
    for name in ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    opened = await RecordedRoom.open(tmp_path, "AVA")
    git(opened.repo, "config", "user.name", "Ann")
    git(opened.repo, "config", "user.email", "ann@example.org")
    await opened.timeline.edits.look()
    yield opened
    await opened.close()


async def edit(desk: RecordedRoom, **files: str | None) -> None:
    """Files are saved (None: deleted), and it becomes quiet."""
    for name, content in files.items():
        path = desk.repo / f"{name}.py"
        path.unlink() if content is None else path.write_text(content)
    assert await desk.timeline.edits.look()


def steps(desk: RecordedRoom, found: list[Event], path: str) -> list[tuple[str | None, str | None]]:
    """What each touch of a path led from and to."""
    return [
        (text(desk.repo, touch["before"]), text(desk.repo, touch["after"]))
        for event in found
        for touch in event.outputs["touches"]
        if touch["path"] == path
    ]


async def take_back(desk: RecordedRoom, to: int, into: str = "main") -> list[str]:
    rewinds = RewindService(desk.store, desk.room.registry, desk.timeline)
    answer = await rewinds.rewind(RewindOrder.of_person("Ann"), "Ann", f"#{to}", into=into, dry_run=False)
    return sorted(file["path"] for file in answer["files"] if file["before"] != file["after"])


async def test_saved_files_are_one_event_on_the_lane_of_the_person(desk: RecordedRoom) -> None:
    await edit(desk, a="one\nTWO\n", b=None, new="new\n")
    (desk.repo / "x.log").write_text("ignored\n")
    await edit(desk)
    (event,) = await desk.changed()
    assert event.lane_key == "room/human:Ann"
    assert touched(event) == [("a.py", "write"), ("b.py", "delete"), ("new.py", "write")]
    assert (event.outputs["source"], event.outputs["worktree"]) == ("person", UNCOMMITTED)
    assert git(desk.repo, "show", f"{event.snapshot}:new.py") == "new"
    assert reading.words(event).endswith(" uncommitted")
    assert reading.undo_with(event, {}) is None, "a rewind refuses it"
    await edit(desk, a="one\ntwo\n")
    undone = (await desk.changed())[-1]
    assert steps(desk, [event, undone], "a.py") == [("one\ntwo", "one\nTWO"), ("one\nTWO", "one\ntwo")]


async def test_a_commit_of_what_was_saved_is_no_second_write(desk: RecordedRoom) -> None:
    await edit(desk, a="1\n", b="B\n")
    await edit(desk, a="2\n")
    commit(desk.repo, {"c.py": "not seen before\n"}, "all")
    await edit(desk)
    found = await desk.changed()
    first, second, committed = found
    assert touched(committed) == [("c.py", "write")]
    assert committed.outputs["committed"] == [
        {"path": "a.py", "event": second.id},
        {"path": "b.py", "event": first.id},
    ]
    assert committed.file_touches == ("a.py", "b.py", "c.py")
    assert committed.lane_key == first.lane_key, "one lane"
    assert set(committed.parents) == {first.id, second.id}
    assert steps(desk, found, "a.py") == [("one\ntwo", "1"), ("1", "2")]
    start = (await all_events(desk.store))[0].pos
    assert await take_back(desk, start) == ["a.py", "b.py", "c.py"]
    assert (desk.repo / "a.py").read_text() == "one\ntwo\n"
    assert not (desk.repo / "c.py").exists()
    with pytest.raises(Refusal, match="taken back already"):
        await take_back(desk, start)


async def test_what_is_not_committed_is_never_taken_back(desk: RecordedRoom) -> None:
    start = (await all_events(desk.store))[-1].pos
    await edit(desk, a="open\n")
    with pytest.raises(Refusal, match="is not committed, and stays"):
        await take_back(desk, start)
    await edit(desk, b="committed\n")
    git(desk.repo, "commit", "-q", "-m", "b", "b.py")
    assert await take_back(desk, start, "new") == ["b.py"]
    assert git(desk.repo, "show", "rw/ann-1:a.py") == "one\ntwo"
    assert await take_back(desk, start) == ["b.py"]
    assert (desk.repo / "a.py").read_text() == "open\n"
    assert (desk.repo / "b.py").read_text() == "b\n"
    await desk.changed()


async def test_what_head_brings_is_no_edit(desk: RecordedRoom) -> None:
    await edit(desk, a="one\ntwo\nopen\n")
    git(desk.repo, "stash", "-q")
    commit(desk.repo, {"b.py": "of another\n", "c.py": "c\n"}, "another")
    git(desk.repo, "stash", "pop", "-q")
    await edit(desk)
    git(desk.repo, "checkout", "-q", "-b", "topic")
    commit(desk.repo, {"c.py": "C\n"}, "topic")
    await edit(desk)
    git(desk.repo, "checkout", "-q", "--detach", "HEAD~1")
    await edit(desk)
    git(desk.repo, "checkout", "-q", "topic")
    await edit(desk)
    open_edits = [event for event in await desk.changed() if event.outputs["worktree"] == UNCOMMITTED]
    assert [touched(event) for event in open_edits] == [[("a.py", "write")]]
    # The next edit follows upon what HEAD brought, and not upon what was known before.
    await edit(desk, b="mine\n")
    last = (await desk.changed())[-1]
    assert steps(desk, [last], "b.py") == [("of another", "mine")]
    assert touched(last) == [("b.py", "write")]


async def test_a_merge_under_way_is_waited_for(desk: RecordedRoom) -> None:
    git(desk.repo, "checkout", "-q", "-b", "topic")
    commit(desk.repo, {"a.py": "topic\n"}, "topic")
    git(desk.repo, "checkout", "-q", "main")
    commit(desk.repo, {"a.py": "main\n"}, "main")
    await edit(desk)
    count = len(await desk.changed())
    with pytest.raises(Exception, match="exit status 1"):
        git(desk.repo, "merge", "-q", "topic")
    assert not await desk.timeline.edits.look()
    git(desk.repo, "merge", "--abort")
    assert await desk.timeline.edits.look()
    assert len(await desk.changed()) == count


async def test_half_of_an_edit_that_is_committed_is_a_write_of_its_own(desk: RecordedRoom) -> None:
    await edit(desk, a="ONE\nTWO\n")
    (desk.repo / "a.py").write_text("ONE\ntwo\n")
    git(desk.repo, "add", "a.py")
    (desk.repo / "a.py").write_text("ONE\nTWO\n")
    git(desk.repo, "commit", "-q", "-m", "half")
    await edit(desk)
    git(desk.repo, "commit", "-qam", "the rest")
    await edit(desk)
    found = await desk.changed()
    assert steps(desk, found, "a.py") == [
        ("one\ntwo", "ONE\nTWO"),
        ("one\ntwo", "ONE\ntwo"),
        ("ONE\ntwo", "ONE\nTWO"),
    ]
    assert await take_back(desk, (await all_events(desk.store))[0].pos) == ["a.py"]
    assert (desk.repo / "a.py").read_text() == "one\ntwo\n"


async def test_one_person_by_configuration_is_one_lane(desk: RecordedRoom) -> None:
    await desk.timeline.catch_up()
    words = ("-c", "user.name=A. Smith", "-c", "user.email=ANN@example.org")
    (desk.repo / "a.py").write_text("by her other name\n")
    git(desk.repo, *words, "commit", "-qam", "the same address", "--author=A. Smith <ANN@example.org>")
    (desk.repo / "a.py").write_text("by somebody else\n")
    git(desk.repo, "commit", "-qam", "another", "--author=Bob <bob@example.org>")
    await desk.timeline.catch_up()
    assert [event.lane for event in await desk.changed()] == ["human:Ann", "human:Bob"]


async def test_a_restart_goes_on_from_the_log(desk: RecordedRoom) -> None:
    await edit(desk, a="first\n")
    git(desk.repo, "commit", "-qam", "first")
    (desk.repo / "a.py").write_text("while the room was closed\n")
    again = RecordedRoom(desk.store, desk.room)
    assert await again.timeline.edits.look()
    found = await desk.changed()
    assert steps(desk, found, "a.py") == [("one\ntwo", "first"), ("first", "while the room was closed")]


async def test_it_is_recorded_when_it_is_quiet(desk: RecordedRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(person_edits, "QUIET_S", 0.05)
    running = asyncio.create_task(desk.timeline.edits.run())

    async def recorded() -> list[Event]:
        return await all_events(desk.store, "files.changed")

    try:
        for number in range(5):
            (desk.repo / "a.py").write_text(f"{number}\n")
            desk.timeline.edits.changed(frozenset({"a.py"}))
        (event,) = await eventually(recorded, "the edit is recorded")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert steps(desk, [event], "a.py") == [("one\ntwo", "4")]


async def test_what_is_open_at_the_first_look_is_told_by_its_commit(tmp_path: Path) -> None:
    desk = await RecordedRoom.open(tmp_path, "AVA")
    try:
        await desk.timeline.catch_up()
        await edit(desk, a="open before\n")
        await edit(desk, a="edited\n")
        git(desk.repo, "commit", "-qam", "a")
        await edit(desk)
        saved, committed = await desk.changed()
        assert steps(desk, [saved], "a.py") == [("open before", "edited")]
        assert steps(desk, [committed], "a.py") == [("one\ntwo", "edited")]
        assert "committed" not in committed.outputs
        assert await take_back(desk, (await all_events(desk.store))[0].pos) == ["a.py"]
        assert (desk.repo / "a.py").read_text() == "one\ntwo\n"
    finally:
        await desk.close()

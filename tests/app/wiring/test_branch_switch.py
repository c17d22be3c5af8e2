"""The main checkout goes to another branch and back: nobody wrote that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.faces.rewinds import RewindOrder, RewindService
from relay.log.events import Event
from relay.timeline import reading
from relay.timeline.reading import Filter
from tests.app.wiring.recorded_room import RecordedRoom, touched
from tests.engines import BOTH, all_events
from tests.git.repository import commit, git

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


async def said(desk: RecordedRoom) -> list[str]:
    found = await desk.store.read(lambda tx: reading.page(tx, Filter(types=("files.changed", "files.read"))))
    shown = [event for event in found if event.file_touches]
    return [f"{reading.author(event)} {reading.words(event)}" for event in shown]


async def files(desk: RecordedRoom) -> dict[str, tuple[str, bool]]:
    rows = await desk.store.read(reading.workspace)
    return {row["path"]: (row["by"].rpartition("/")[2], row["blob"] is not None) for row in rows}


def writes(found: list[Event]) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(reading.author(event), touched(event)) for event in found]


async def test_a_switch_is_no_write(desk: RecordedRoom) -> None:
    git(desk.repo, "branch", "feature")
    plan = await desk.begin("AVA")
    start = (await all_events(desk.store))[-1].pos
    (desk.at("AVA") / "ava.py").write_text("ava\n")
    await desk.end(plan)
    await desk.room.actions.merge("AVA", "Ann")
    await desk.tell()
    # The merge, the switch and a commit come between two looks.
    git(desk.repo, "switch", "-q", "feature")
    commit(desk.repo, {"f.py": "f\n"}, "on feature")
    assert await desk.timeline.edits.look()
    git(desk.repo, "switch", "-q", "main")
    assert await desk.timeline.edits.look()
    git(desk.repo, "switch", "-q", "feature")
    assert await desk.timeline.edits.look()
    assert writes(await desk.changed()) == [
        ("AVA", [("ava.py", "write")]),
        ("main", [("ava.py", "write")]),
        ("Ann", [("f.py", "write")]),
    ]
    words = await said(desk)
    assert [line for line in words if " is on " in line] == [
        "main is on feature now",
        "main is on main now",
        "main is on feature now",
    ]
    assert await files(desk) == {"ava.py": ("AVA", True), "f.py": ("human:Ann", True)}
    git(desk.repo, "switch", "-q", "main")
    rewinds = RewindService(desk.store, desk.room.registry, desk.timeline)
    answer = await rewinds.rewind(RewindOrder.of_person("Ann"), "AVA", f"#{start}", into="main")
    assert [(file["path"], file["action"]) for file in answer["files"]] == [("ava.py", "deleted")]
    assert not (desk.repo / "ava.py").exists()
    git(desk.repo, "switch", "-q", "feature")
    assert await desk.timeline.edits.look()
    assert (await files(desk))["f.py"] == ("human:Ann", True)


async def test_a_branch_that_was_there_before_was_not_written_now(desk: RecordedRoom) -> None:
    git(desk.repo, "switch", "-q", "-c", "old")
    commit(desk.repo, {"a.py": "old\n"}, "before the room")
    git(desk.repo, "switch", "-q", "main")
    assert await desk.timeline.edits.look()
    git(desk.repo, "switch", "-q", "old")
    assert await desk.timeline.edits.look()
    assert await desk.changed() == []
    commit(desk.repo, {"b.py": "now\n"}, "in the room")
    assert await desk.timeline.edits.look()
    git(desk.repo, "switch", "-q", "-c", "new")
    commit(desk.repo, {"c.py": "new\n"}, "in the room, on a new branch")
    assert await desk.timeline.edits.look()
    assert [event.branch for event in await desk.changed()] == ["old", "new"]
    assert writes(await desk.changed()) == [("Ann", [("b.py", "write")]), ("Ann", [("c.py", "write")])]


async def test_without_a_log_of_head_its_commits_are_told_by_history(desk: RecordedRoom) -> None:
    git(desk.repo, "config", "core.logAllRefUpdates", "false")
    (desk.repo / ".git" / "logs" / "HEAD").unlink()
    git(desk.repo, "switch", "-q", "-c", "new")
    commit(desk.repo, {"c.py": "new\n"}, "on a new branch")
    assert await desk.timeline.edits.look()
    git(desk.repo, "switch", "-q", "main")
    assert await desk.timeline.edits.look()
    assert writes(await desk.changed()) == [("Ann", [("c.py", "write")])]

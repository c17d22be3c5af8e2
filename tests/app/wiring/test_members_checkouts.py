"""Each member of a fleet has a main checkout of its own, and one log has what happens in all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay.app.wiring.timeline import TimelineRecording
from relay.config.settings import LiveSettings
from relay.store.ports import Store
from relay.timeline.projection import Q
from tests import engines
from tests.app.wiring.recorded_room import SCHEMAS, is_chain
from tests.engines import BOTH, all_events
from tests.git.repository import Room, commit, git, repository, room

pytestmark = BOTH


class Member:
    """A clone, and who records what happens in it."""

    def __init__(self, store: Store, room: Room) -> None:
        self.room, self.repo = room, room.folder
        self.recording = TimelineRecording(
            store, room.registry, LiveSettings(room.settings), others=lambda: True
        )

    async def look(self) -> None:
        assert await self.recording.edits.look()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await engines.open_store(tmp_path, SCHEMAS)
    yield opened
    await opened.close()


@pytest.fixture
async def members(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> list[Member]:
    for name in ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    first = repository(tmp_path / "M1", {"a.py": "one\ntwo\n", "b.py": "b\n"})
    git(tmp_path, "clone", "-q", str(first), "M2")
    made = []
    for name, person in (("M1", "Ann"), ("M2", "Bob")):
        folder = tmp_path / name
        git(folder, "config", "user.name", person)
        git(folder, "config", "user.email", f"{person}@example.org")
        more: dict[str, Any] = {"storage": "postgres", "fleet": {"name": name}}
        made.append(Member(store, await room(folder, f"AGENT-{name}", **more)))
    for one in made:
        await one.look()
    return made


async def writes(store: Store) -> list[tuple[str, str, list[str]]]:
    """Who wrote where which files."""
    return [
        (event.lane, event.outputs["worktree"], [touch["path"] for touch in event.outputs["touches"]])
        for event in await all_events(store, "files.changed")
    ]


async def test_an_edit_at_one_member_is_recorded_once_whoever_looks(
    members: list[Member], store: Store
) -> None:
    one, two = members
    (one.repo / "a.py").write_text("one\n2\n")
    for _ in range(2):
        await one.look()
        await two.look()
    edit = ("human:Ann", "main (uncommitted)", ["a.py"])
    assert await writes(store) == [edit]
    # An edit of the same file elsewhere is one of its own, and the commit of the first one is no second write.
    (two.repo / "a.py").write_text("1\ntwo\n")
    for _ in range(2):
        await two.look()
        await one.look()
    other = ("human:Bob", "main (uncommitted)", ["a.py"])
    assert await writes(store) == [edit, other]
    git(one.repo, "commit", "-qam", "two is 2")
    await one.look()
    await two.look()
    assert await writes(store) == [edit, other, ("human:Ann", "main", [])]
    found = await all_events(store, "files.changed")
    assert [entry["event"] for entry in found[-1].outputs["committed"]] == [found[0].id]


async def test_a_clone_that_is_behind_says_nothing_of_the_main_branch(
    members: list[Member], store: Store
) -> None:
    one, two = members
    commit(one.repo, {"a.py": "one\n2\n"})
    await one.recording.catch_up()
    made = [("human:Ann", "main", ["a.py"])]
    assert await writes(store) == made
    # It has not the commit; it has it, and stands before it; it has come there.
    await two.recording.catch_up()
    git(two.repo, "fetch", "-q", "origin")
    await two.recording.catch_up()
    await one.recording.catch_up()
    git(two.repo, "merge", "-q", "--ff-only", "origin/main")
    await two.room.registry.refresh()
    await two.recording.catch_up()
    assert await writes(store) == made
    commit(two.repo, {"b.py": "B\n"})  # git signs it as Ann here, too
    await two.recording.catch_up()
    assert await writes(store) == [*made, ("human:Ann", "main", ["b.py"])]


async def pull(member: Member, *how: str) -> None:
    git(member.repo, "pull", "-q", *how, "origin", "main")
    await member.room.registry.refresh()


async def recorded(store: Store) -> list[str]:
    """The commits of the main branch that the log has, as often as it has them."""
    found = await all_events(store, "files.changed", "files.read")
    return [event.outputs["commit"] for event in found if event.outputs.get("worktree") == "main"]


async def test_members_that_look_at_once_record_each_commit_once(members: list[Member], store: Store) -> None:
    one, two = members
    for at in range(6):
        commit(one.repo, {"b.py": f"b{at}\n"})
    await pull(two, "--ff-only")
    await asyncio.gather(one.recording.catch_up(), two.recording.catch_up())
    way = git(one.repo, "log", "--reverse", "--format=%H").split("\n")
    assert await recorded(store) == way
    found = await all_events(store, "files.changed")
    assert [event.outputs["commit"] for event in found] == way[1:] and is_chain(found)


async def test_the_first_look_of_two_members_begins_the_log_of_main_once(
    members: list[Member], store: Store
) -> None:
    await store.write(lambda tx: tx.execute(Q.clear_trees))
    before = len(await recorded(store))
    await asyncio.gather(*(member.recording.catch_up() for member in members))
    assert len(await recorded(store)) == before + 1


async def test_a_commit_that_nobody_else_has_stops_no_other_member(
    members: list[Member], store: Store
) -> None:
    one, two = members
    commit(one.repo, {"a.py": "one\n2\n"})
    await one.recording.catch_up()
    made = [("human:Ann", "main", ["a.py"])]
    for at in range(3):
        commit(two.repo, {"b.py": f"b{at}\n"})
        await two.room.registry.refresh()
        for member in (two, one, two):
            await member.recording.catch_up()
        made.append(("human:Ann", "main", ["b.py"]))  # git signs it as Ann here, too
        assert await writes(store) == made
    # A merge of both, by either, says nothing new of what is in it, and what comes after is recorded.
    git(one.repo, "pull", "-q", "--no-rebase", "--no-edit", str(two.repo), "main")
    await one.room.registry.refresh()
    await one.recording.catch_up()
    await pull(two, "--ff-only")
    await two.recording.catch_up()
    assert await writes(store) == made
    commit(two.repo, {"c.py": "c\n"})
    await two.room.registry.refresh()
    await two.recording.catch_up()
    assert await writes(store) == [*made, ("human:Ann", "main", ["c.py"])]
    assert len(await recorded(store)) == len(set(await recorded(store)))


@pytest.mark.parametrize("how", ["amended", "reset", "rebased"])
async def test_a_commit_that_was_made_anew_stops_no_other_member(
    members: list[Member], store: Store, how: str
) -> None:
    one, two = members
    commit(one.repo, {"a.py": "one\n2\n"})
    await one.recording.catch_up()
    made = [("human:Ann", "main", ["a.py"])]
    if how == "rebased":
        commit(two.repo, {"b.py": "B\n"})
        await two.room.registry.refresh()
        await two.recording.catch_up()
        made.append(("human:Ann", "main", ["b.py"]))
        git(one.repo, "pull", "-q", "--rebase", str(two.repo), "main")
    elif how == "amended":
        git(one.repo, "commit", "-q", "--amend", "-m", "in other words")
    else:
        git(one.repo, "reset", "-q", "--hard", "HEAD~1")
        await one.room.registry.refresh()
        await one.recording.catch_up()
        commit(one.repo, {"a.py": "one\n3\n"})
        made.append(("human:Ann", "main", ["a.py"]))
    await one.room.registry.refresh()
    await pull(two, "--ff-only")
    # Whoever comes first.
    for member in (two, one, two):
        await member.recording.catch_up()
    assert await writes(store) == made
    commit(two.repo, {"c.py": "c\n"})
    await two.room.registry.refresh()
    for member in (one, two, one):
        await member.recording.catch_up()
    assert await writes(store) == [*made, ("human:Ann", "main", ["c.py"])]
    assert len(await recorded(store)) == len(set(await recorded(store)))


async def test_main_checkouts_on_different_branches_say_each_commit_once(
    members: list[Member], store: Store
) -> None:
    one, two = members
    git(one.repo, "switch", "-q", "-c", "feature")
    made = []
    for at in range(2):
        commit(one.repo, {"a.py": f"{at}\n"})
        commit(two.repo, {"b.py": f"{at}\n"})
        for member in (one, two, one, two):
            await member.room.registry.refresh()
            await member.recording.catch_up()
        made += [("human:Ann", "main", ["a.py"]), ("human:Ann", "main", ["b.py"])]
        assert await writes(store) == made
    found = await all_events(store, "files.changed")
    assert [event.branch for event in found] == ["feature", "main"] * 2
    before = await recorded(store)
    for member in (one, two, one):
        await member.recording.catch_up()
    assert await recorded(store) == before

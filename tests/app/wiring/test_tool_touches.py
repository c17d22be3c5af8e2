"""What tools and hooks say that they edit, as it is recorded while a turn runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.app.wiring import tool_touches
from relay.log.events import Event
from relay.model import Location
from tests.app.wiring.recorded_room import RecordedRoom, is_chain, text, touched
from tests.engines import BOTH, all_events
from tests.git.repository import commit, git
from tests.outside import eventually

pytestmark = BOTH


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RecordedRoom]:
    opened = await RecordedRoom.open(tmp_path, "AVA", "BEN")
    yield opened
    await opened.close()


async def test_a_tools_edit_and_a_shells_edit_of_one_turn(desk: RecordedRoom) -> None:
    plan = await desk.begin("AVA")
    at = desk.at("AVA")
    desk.named(plan, "a.py", "new.py")
    (at / "a.py").write_text("ONE\ntwo\n")
    await desk.look(plan)
    (at / "a.py").write_text("ONE\nTWO\n")  # by a shell
    (at / "b.py").unlink()
    desk.named(plan, "new.py")
    (at / "new.py").write_text("new\n")
    await desk.look(plan)
    changes = await desk.end(plan)
    assert changes is not None and changes.files == 3
    found = await desk.changed()
    assert [(event.outputs["source"], touched(event)) for event in found] == [
        ("tool", [("a.py", "write")]),
        ("tool", [("new.py", "write")]),
        ("tree", [("a.py", "write"), ("b.py", "delete")]),
    ]
    assert is_chain(found)
    assert all(event.parents == (plan.event_id,) for event in found)
    assert all((event.role, event.branch) == ("agent", changes.branch) for event in found)
    # What stood between is kept in the repository itself.
    await desk.room.registry.scratch.empty("sha1")
    git(desk.repo, "gc", "-q", "--prune=now")
    assert text(desk.repo, found[0].outputs["touches"][0]["after"]) == "ONE\ntwo"
    assert git(desk.repo, "show", f"{found[0].snapshot}:b.py") == "b"


async def test_a_claim_that_git_does_not_confirm_is_no_touch(desk: RecordedRoom) -> None:
    plan = await desk.begin("AVA")
    at = desk.at("AVA")
    (at / "x.log").write_text("ignored\n")
    (at / "inner").mkdir()
    git(at / "inner", "init", "-q")
    (at / "inner" / "f").write_text("of another repository\n")
    desk.named(plan, "a.py", "x.log", "inner", "inner/f", "missing/f")
    desk.named(plan, "x.log", "missing/f", writes=False)
    await desk.look(plan)
    assert await desk.end(plan) is None
    assert await desk.changed() == []
    assert [event.outputs["source"] for event in await all_events(desk.store, "files.read")][1:] == ["start"]


async def test_a_hook_is_a_source_of_its_own(desk: RecordedRoom) -> None:
    plan = await desk.begin("AVA")
    for path in ("b.py", "a.py"):
        desk.timeline.tools.claimed("AVA", Location(path, writes=True))
    desk.named(plan, "a.py")
    for name in ("a.py", "b.py"):
        (desk.at("AVA") / name).write_text("edited\n")
    await desk.look(plan)
    assert await desk.end(plan) is not None
    found = await desk.changed()
    assert [(event.outputs["source"], touched(event)) for event in found] == [
        ("tool", [("a.py", "write")]),
        ("hook", [("b.py", "write")]),
    ]
    assert is_chain(found)


async def test_what_a_shell_writes_is_of_its_command(desk: RecordedRoom) -> None:
    """The watcher tells what changed; the guard, or the agent's stream, what the shell was given."""
    plan = await desk.begin("AVA")
    at, tools = desk.at("AVA"), desk.timeline.tools
    tools.changed("AVA", {"b.py"})  # no shell was given anything
    desk.named(plan, "a.py")
    (at / "a.py").write_text("by its tool\n")
    tools.ran("AVA", "sed -i s/b/B/ b.py\npython3 make.py")
    tools.ran("AVA", "sed -i s/b/B/ b.py pyth\u2026")
    tools.claimed("AVA", Location("b.py", None, True, command="sed -i s/b/B/ b.py"))
    for name in ("b.py", "new.py", "x.log"):
        (at / name).write_text("by its shell\n")
    tools.changed("AVA", {"a.py", "b.py", "new.py", "x.log", "gone.py"})
    await desk.look(plan)
    (at / "b.py").unlink()
    tools.ran("AVA", "rm b.py")
    tools.changed("AVA", None)
    await desk.look(plan)
    assert await desk.end(plan) is not None
    found = await desk.changed()
    assert [(event.outputs["source"], event.outputs.get("command"), touched(event)) for event in found] == [
        ("tool", None, [("a.py", "write")]),
        ("tool", "sed -i s/b/B/ b.py\npython3 make.py", [("b.py", "write"), ("new.py", "write")]),
        ("tool", "rm b.py", [("b.py", "delete")]),
    ]
    assert is_chain(found)
    assert all(event.parents == (plan.event_id,) and event.lane == "AVA" for event in found)


async def test_what_a_shell_undid_is_undone_in_the_log(desk: RecordedRoom) -> None:
    plan = await desk.begin("AVA")
    desk.named(plan, "a.py")
    (desk.at("AVA") / "a.py").write_text("edited\n")
    await desk.look(plan)
    git(desk.at("AVA"), "checkout", "-q", "a.py")
    assert await desk.end(plan) is None
    found = await desk.changed()
    assert [event.outputs["source"] for event in found] == ["tool", "tree"]
    assert is_chain(found)
    assert found[0].inputs["tree"] == found[1].snapshot


async def test_a_read_depends_on_the_write_that_its_lane_could_see(desk: RecordedRoom) -> None:
    other = await desk.begin("BEN")
    (desk.at("BEN") / "a.py").write_text("one\nBEN\n")
    await desk.end(other)
    plan = await desk.begin("AVA")
    desk.named(plan, "a.py", writes=False)
    await desk.look(plan)
    blind = (await all_events(desk.store, "files.read"))[-1]
    assert (blind.outputs["paths"], blind.outputs["source"], blind.causal_deps) == (["a.py"], "tool", ())
    # BEN's work comes onto the main branch, and AVA merges that within its turn.
    git(desk.at("BEN"), "commit", "-qam", "ben")
    git(desk.repo, "merge", "-q", "--no-ff", git(desk.at("BEN"), "branch", "--show-current"))
    git(desk.at("AVA"), "merge", "-q", "main")
    desk.named(plan, "a.py", writes=False)
    await desk.look(plan)
    merged, shown = (await all_events(desk.store, "files.read"))[-2:]
    assert (merged.outputs["source"], shown.outputs["source"]) == ("merge", "tool")
    main = (await desk.changed())[-1]
    (write,) = [event for event in await desk.changed() if event.lane == "BEN"]
    assert main.parents == (write.id,), "a person merged it by hand"
    assert "unseen" not in main.outputs
    assert main.lane == "main" and main.id in merged.causal_deps
    (desk.at("AVA") / "a.py").write_text("one\nBEN\nAVA\n")
    await desk.end(plan)
    last = (await desk.changed())[-1]
    assert last.lane == "AVA" and touched(last) == [("a.py", "write")]
    assert "unseen" not in last.outputs, "it had taken main in"


async def test_taking_main_in_within_a_turn_writes_nothing(desk: RecordedRoom) -> None:
    plan = await desk.begin("AVA")
    commit(desk.at("AVA"), {"own.py": "mine\n"}, "mine")
    commit(desk.repo, {"b.py": "of a person\n", "c.py": "c\n"}, "person")
    git(desk.at("AVA"), "rebase", "-q", "main")
    await desk.end(plan)
    person, own = await desk.changed()
    assert touched(own) == [("own.py", "write")]
    assert person.id in own.clock or own.clock[person.lane_key] == person.seq
    read = (await all_events(desk.store, "files.read"))[-1]
    assert (read.outputs["paths"], read.causal_deps) == (["b.py", "c.py"], (person.id,))


@pytest.mark.parametrize("how", ["merge", "cherry-pick"])
async def test_taking_another_agent_s_branch_in_is_a_read(desk: RecordedRoom, how: str) -> None:
    """What BEN wrote stays BEN's, and what AVA did in the same turn is hers."""
    (desk.repo / "a.py").write_text("one\ntwo\n3\n4\n5\nsix\n")
    git(desk.repo, "commit", "-qam", "longer")
    other = await desk.begin("BEN")
    git(desk.at("BEN"), "merge", "-q", "main")
    (desk.at("BEN") / "a.py").write_text("one\ntwo\n3\n4\n5\nsix\nBEN\n")
    (desk.at("BEN") / "ben.py").write_text("ben\n")
    git(desk.at("BEN"), "add", "-A")
    git(desk.at("BEN"), "commit", "-qm", "ben")
    await desk.end(other)
    plan = await desk.begin("AVA")
    git(desk.at("AVA"), "merge", "-q", "main")
    if how == "merge":
        (desk.at("AVA") / "a.py").write_text("AVA\none\ntwo\n3\n4\n5\nsix\n")
        git(desk.at("AVA"), "commit", "-qam", "ava")
    branch = git(desk.at("BEN"), "branch", "--show-current")
    git(desk.at("AVA"), *(["merge", "-q", "--no-edit"] if how == "merge" else ["cherry-pick"]), branch)
    (desk.at("AVA") / "own.py").write_text("mine\n")
    await desk.end(plan)
    found = [event for event in await desk.changed() if event.lane in ("AVA", "BEN")]
    (ben,) = [event for event in found if event.lane == "BEN"]
    written = {path for event in found if event.lane == "AVA" for path, _ in touched(event)}
    assert written == ({"a.py", "own.py"} if how == "merge" else {"own.py"})
    read = [event for event in await all_events(desk.store, "files.read") if event.lane == "AVA"][-1]
    assert (read.outputs["source"], read.outputs["paths"]) == ("merge", ["a.py", "ben.py"])
    assert ben.id in read.causal_deps
    if how == "merge":
        (own,) = [event for event in found if ("a.py", "write") in touched(event) and event.lane == "AVA"]
        (touch,) = [touch for touch in own.outputs["touches"] if touch["path"] == "a.py"]
        assert text(desk.repo, touch["after"]) == "AVA\none\ntwo\n3\n4\n5\nsix", "not BEN's line"


async def test_a_file_that_main_and_the_turn_both_edited(desk: RecordedRoom) -> None:
    """Of a file that git's merge made of both, the turn's own lines alone are its write."""
    commit(desk.repo, {"a.py": "one\ntwo\n3\n4\n5\nsix\n"}, "longer")
    plan = await desk.begin("AVA")
    git(desk.at("AVA"), "merge", "-q", "main")
    commit(desk.at("AVA"), {"a.py": "AVA\none\ntwo\n3\n4\n5\nsix\n"}, "ava")
    commit(desk.repo, {"a.py": "one\ntwo\n3\n4\n5\nsix\nperson\n"}, "person")
    git(desk.at("AVA"), "merge", "-q", "--no-edit", "main")
    await desk.end(plan)
    (own,) = [event for event in await desk.changed() if event.lane == "AVA"]
    (touch,) = own.outputs["touches"]
    assert text(desk.repo, touch["before"]) == "one\ntwo\n3\n4\n5\nsix"
    assert text(desk.repo, touch["after"]) == "AVA\none\ntwo\n3\n4\n5\nsix"


async def test_a_storm_of_claims_is_one_look(desk: RecordedRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_touches, "GATHER_S", 0.01)
    plan = await desk.begin("AVA")
    running = asyncio.create_task(desk.timeline.tools.run())
    try:
        for number in range(1000):
            (desk.at("AVA") / f"f{number}.py").write_text(f"{number}\n")
            desk.named(plan, f"f{number}.py")

        async def recorded() -> list[Event]:
            return await all_events(desk.store, "files.changed")

        found = await eventually(recorded, "the edits are recorded")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert len(found) == 1
    assert len(found[0].outputs["touches"]) == 1000
    await desk.end(plan)
    assert len(await desk.changed()) == 1

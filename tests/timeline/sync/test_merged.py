"""The event that joins two rooms' timelines."""

from __future__ import annotations

from pathlib import Path

from relay.log import events
from relay.log.events import Event
from relay.log.verify import verify
from relay.timeline import reading
from relay.timeline.sync.merged import merge_timelines
from tests.engines import BOTH
from tests.git.repository import commit, git
from tests.timeline.sync.test_exchange import ALL, Room, rooms

pytestmark = BOTH
__all__ = ["rooms"]


async def pull(room: Room) -> Event | None:
    await room.exchange.pull("origin")
    checkout = room.snapshotter.checkout
    return await merge_timelines(
        room.replica.store, checkout.git, room.snapshotter.git, room.kept, room.replica.person, "origin"
    )


async def test_two_that_went_on_come_together(rooms: tuple[Room, Room], tmp_path: Path) -> None:
    ann, bob = rooms
    assert await pull(ann) is None, "nobody has done anything"
    mine = await ann.write("a.py", "by ann\n")
    ours = commit(ann.repo, {"a.py": "by ann\n", "shared.py": "ann\n"})
    assert await pull(ann) is None, "nobody else has"
    theirs = await bob.write("b.py", "by bob\n")
    hers = commit(bob.repo, {"b.py": "by bob\n", "shared.py": "bob\n"})
    git(bob.repo, "push", "-q", "origin", "main")
    await bob.exchange.push("origin", ALL)

    merged = await pull(ann)
    assert merged is not None
    assert merged.outputs == {
        "heads": {ann.replica.id: mine.id, bob.replica.id: theirs.id},
        "conflicts": ["shared.py"],
    }
    assert merged.inputs == {"remote": "origin", "ours": ours, "theirs": hers}
    assert merged.parents == (mine.id, theirs.id)
    listed = git(ann.repo, "ls-tree", "--name-only", str(merged.snapshot)).split()
    assert {"a.py", "b.py", "shared.py"} <= set(listed)
    git(ann.repo, "gc", "-q", "--prune=now")
    assert "<<<<<<<" in git(ann.repo, "show", f"{merged.snapshot}:shared.py")
    # No branch and no file moved, and the two are not merged again.
    assert git(ann.repo, "rev-parse", "main") == ours and git(ann.repo, "status", "--porcelain") == ""
    assert await pull(ann) is None
    assert reading.words(merged) == "came together with 1 other room, 1 in conflict"
    assert await ann.replica.store.read(lambda tx: events.has_seen(tx, merged, theirs))
    assert await verify(ann.replica.store) == []

    # Who has seen the other's work goes on from it: nothing comes together.
    await bob.exchange.pull("origin")
    await ann.exchange.push("origin", ALL)
    await bob.exchange.pull("origin")
    await bob.write("b.py", "after ann\n", [mine.id])
    await bob.exchange.push("origin", ALL)
    assert await pull(bob) is None
    assert await pull(ann) is None

    # Both go on once more: another one.
    await ann.write("a.py", "more\n")
    again = await pull(ann)
    assert again is not None and again.outputs["heads"][bob.replica.id] != theirs.id
    await ann.exchange.push("origin", ALL)
    assert await pull(bob) is not None
    assert await verify(bob.replica.store) == []


async def test_without_a_branch_there_the_tree_is_this_rooms(
    rooms: tuple[Room, Room], tmp_path: Path
) -> None:
    ann, bob = rooms
    await ann.write("a.py", "by ann\n")
    commit(ann.repo)
    await bob.write("b.py", "by bob\n")
    await bob.exchange.push("origin", ALL)
    git(tmp_path / "hub.git", "update-ref", "-d", "refs/heads/main")
    merged = await pull(ann)
    assert merged is not None and merged.outputs["conflicts"] == []
    assert merged.snapshot == git(ann.repo, "rev-parse", "main^{tree}")
    assert merged.inputs["theirs"] is None

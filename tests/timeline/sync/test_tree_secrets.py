"""Snapshots with something like a secret in a file stay at home."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.app.timeline.exchange import _pushed
from relay.log.events import NewEvent
from relay.timeline.sync.exchange import TIMELINES
from relay.timeline.sync.privacy import Sharing
from tests.engines import BOTH
from tests.git.repository import git, repository
from tests.timeline.sync.test_exchange import ALL, Room

pytestmark = BOTH
KEY = "AKIA" + "IOSFODNN7EXAMPLE"
CLAUDE_KEY = "sk-ant-" + "a1" * 20
MIB = 1_048_576


@pytest.fixture
async def ann(tmp_path: Path) -> AsyncIterator[Room]:
    first = repository(tmp_path / "first", {"sample.env": f"key={KEY}\n", "app.py": "one\n"})
    git(tmp_path, "clone", "-q", "--bare", str(first), "hub.git")
    room = await Room.at(tmp_path, "ann")
    yield room
    await room.replica.store.close()


def given(room: Room) -> dict[str, str]:
    """What the other side has: blobs by their paths."""
    hub = room.repo.parent / "hub.git"
    commits = git(hub, "rev-list", f"{TIMELINES}{room.replica.id}").split()
    listed = [line for commit in commits for line in git(hub, "ls-tree", "-r", commit).split("\n")]
    return {line.split("\t")[1].rpartition("/")[2]: line.split()[2] for line in listed}


async def test_an_untracked_key_stays_home_with_its_tree(ann: Room) -> None:
    clean = await ann.write("app.py", "two\n")
    text = f"aws = {KEY}\nclaude = {CLAUDE_KEY}\n"
    wrote = await ann.write("untracked_key.txt", text)
    after = await ann.write("more.py", "more\n")
    pushed = await ann.exchange.push("origin", ALL)
    assert pushed.unsafe == ((wrote.id, ("untracked_key.txt",)), (after.id, ("untracked_key.txt",)))
    assert (pushed.events, pushed.trees) == (3, 1)
    # What a pushed branch has is no news.
    assert {"sample.env", "app.py"} < given(ann).keys()
    assert "untracked_key.txt" not in given(ann)
    hub = ann.repo.parent / "hub.git"
    everything = git(hub, "cat-file", "--batch-all-objects", "--batch", "--buffer")
    assert CLAUDE_KEY not in everything
    shown = _pushed(pushed, "origin")
    assert f"event {wrote.id[:12]} stayed here: a secret seems to stand in untracked_key.txt." in shown[1]
    assert CLAUDE_KEY not in str(shown)
    assert clean.id not in str(shown)
    # Once it is gone, files go again; what was held back is not given later by itself.
    (ann.repo / "untracked_key.txt").unlink()
    await ann.write("more.py", "yet more\n")
    again = await ann.exchange.push("origin", ALL)
    assert (again.unsafe, again.trees) == ((), 1)
    assert "untracked_key.txt" not in given(ann)


async def test_a_false_alarm_passes_by_its_digest_and_no_other_text(ann: Room) -> None:
    looks, real = "sk-" + "example" * 5, "sk-" + "b" * 40
    await ann.write("doc.md", f"such as {looks}\n")
    lane = ann.replica.agent
    await ann.replica.append(NewEvent("ran", lane, outputs={"out": f"see {looks}"}))
    pushed = await ann.exchange.push("origin", ALL)
    assert (pushed.trees, pushed.withheld, pushed.held) == (0, 1, ())
    (digest,) = {suspect.digest for suspect in pushed.suspects}
    assert {suspect.where for suspect in pushed.suspects} == {"doc.md", "outputs"}
    shown, text = _pushed(pushed, "origin")
    assert shown["suspects"][0]["digest"] == digest and f"  {digest}  " in text and looks not in text
    # Of a path a lane is held back; both go on when the digest is named.
    held = await ann.write(looks, "x\n")
    pushed = await ann.exchange.push("origin", ALL)
    assert (pushed.events, pushed.held) == (0, (lane.key,))
    again = await ann.exchange.push("origin", ALL)
    assert [(each.event, each.where, each.digest) for each in again.suspects] == [
        (held.id, "file_touches", digest)
    ]
    passing = Sharing.of(["CLAUDE", "ann"], not_secret=[digest])
    pushed = await ann.exchange.push("origin", passing)
    assert (pushed.events, pushed.held, pushed.suspects) == (1, (), ())
    assert "doc.md" in given(ann), "the snapshot that had stayed goes, too"
    await ann.replica.append(NewEvent("ran", lane, outputs={"out": f"see {looks}"}))
    await ann.replica.append(NewEvent("ran", lane, outputs={"out": f"see {looks} and {real}"}))
    (ann.repo / "key.txt").write_text(real)
    await ann.write("app.py", "beside a real one\n")
    pushed = await ann.exchange.push("origin", passing)
    assert (pushed.events, pushed.withheld, pushed.unsafe[0][1]) == (3, 1, ("key.txt",))
    assert digest not in {suspect.digest for suspect in pushed.suspects}
    assert (await ann.exchange.push("origin", passing)).events == 0


async def test_binary_large_and_known_ones_are_told(ann: Room) -> None:
    blobs = {
        "binary.bin": b"\0\xff" + KEY.encode() + b"\0" * 9,
        "wide.txt": f"key {KEY} end".encode("utf-16-le"),
        "across.bin": b"." * (MIB - 5) + CLAUDE_KEY.encode() + b" " + b"." * 99,
        "end.bin": b"." * (3 * MIB) + b" " + KEY.encode() + b"\n",
        "token.txt": b"the room's own token",
        "folder/.env": b"postgres://me:hunter2@db/x",
    }
    (ann.repo / "folder").mkdir()
    sharing = Sharing.of(["CLAUDE"], ["the room's own token"])
    for path, data in blobs.items():
        (ann.repo / path).write_bytes(data)
        wrote = await ann.write("app.py", f"with {path}\n")
        pushed = await ann.exchange.push("origin", sharing)
        assert pushed.unsafe == ((wrote.id, (path,)),)
        (ann.repo / path).unlink()
    (ann.repo / "clean.bin").write_bytes(b"." * (2 * MIB) + b"tail")
    await ann.write("app.py", "clean\n")
    assert (await ann.exchange.push("origin", sharing)).unsafe == ()

"""Work that is handed on: what its author left is exactly what the receiver has, and nothing of theirs is lost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from relay.git.checkout import Checkout, open_checkout
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import Snapshot, Snapshotter
from relay.model import Refusal
from relay.timeline.handoffs.placing import HandoffPlaces, Left
from tests.git.repository import commit, git, repository, write

FILES: dict[str, str | bytes] = {
    ".gitignore": "*.log\n",
    "a.txt": "one\n",
    "folder/b.txt": "two\n",
    "gone.txt": "goes\n",
    "run.sh": "#!/bin/sh\n",
}


@dataclass
class Room:
    """A repository with the worktrees `ava` and `ben`."""

    main: Checkout
    scratch: ScratchRepository
    ava: Checkout
    ben: Checkout
    places: HandoffPlaces

    async def snapshot(self, checkout: Checkout) -> Snapshot:
        return await Snapshotter(self.scratch, checkout, f"test-{checkout.top.name}").take()

    async def leave(self) -> Left:
        return await self.places.leave("AVA", await self.snapshot(self.ava), "s/AVA", "Hand on\n")

    async def give(self, left: Left) -> None:
        """As the room does it."""
        before = await self.snapshot(self.ben)
        head = git(self.main.top, "rev-parse", "HEAD")
        await self.places.check_free("BEN", self.ben, before, left.commit, head, _landed)
        await self.places.keep_staged(self.ben, before.tree)
        await self.places.write(self.ben, before.tree, left.tree)
        await self.places.settle(self.ben, left.commit)


async def _landed(into: str, commit: str) -> bool:
    return False


@pytest.fixture
async def room(tmp_path: Path) -> Room:
    top = repository(tmp_path / "repo", FILES)
    for name in ("ava", "ben"):
        git(top, "worktree", "add", "-q", "-b", f"relay/{name}", str(tmp_path / name))
    main, ava, ben = [await open_checkout(each) for each in (top, tmp_path / "ava", tmp_path / "ben")]
    scratch = ScratchRepository(tmp_path / "scratch")
    await scratch.empty(main.hash)
    await scratch.borrow([main, ava, ben])
    return Room(main, scratch, ava, ben, HandoffPlaces(scratch, main))


def edit(folder: Path) -> None:
    write(folder, {"a.txt": "ONE\n", "new/c.txt": "three\n", "x.log": "ignored\n"})
    (folder / "gone.txt").unlink()
    (folder / "run.sh").chmod(0o755)


async def test_receiver_has_that_tree(room: Room) -> None:
    edit(room.ava.top)
    write(room.ben.top, {"own.log": "of ben, ignored\n"})
    left = await room.leave()
    await room.give(left)
    assert git(room.ben.top, "write-tree") == left.tree
    assert git(room.ben.top, "rev-parse", "HEAD") == left.commit
    assert git(room.ben.top, "rev-parse", "--abbrev-ref", "HEAD") == "relay/ben"
    assert git(room.ben.top, "status", "--porcelain") == ""
    assert (await room.snapshot(room.ben)).tree == left.tree
    assert (room.ben.top / "own.log").read_text() == "of ben, ignored\n"
    assert not (room.ben.top / "x.log").exists()
    assert git(room.main.top, "log", "-1", "--format=%an: %s", left.commit) == "AVA: Hand on"
    assert git(room.ava.top, "rev-parse", "HEAD") == git(room.main.top, "rev-parse", "main"), "nothing moved"


async def test_what_is_clean_makes_no_commit(room: Room) -> None:
    made = commit(room.ava.top, {"a.txt": "ONE\n"})
    left = await room.leave()
    assert left.commit == git(room.ava.top, "rev-parse", "HEAD")
    assert made
    await room.give(left)
    assert git(room.ben.top, "write-tree") == left.tree


@pytest.mark.parametrize("how", ["edited", "committed"])
async def test_receiver_with_work_of_its_own_refuses(room: Room, how: str) -> None:
    write(room.ben.top, {"mine.txt": "of ben\n"})
    if how == "committed":
        commit(room.ben.top)
    edit(room.ava.top)
    left = await room.leave()
    with pytest.raises(Refusal, match=r"BEN has work of its own that has not landed: mine\.txt\."):
        await room.give(left)
    assert (room.ben.top / "mine.txt").read_text() == "of ben\n"
    assert (room.ben.top / "a.txt").read_text() == "one\n"


async def test_work_that_was_handed_on_comes_back(room: Room) -> None:
    """From AVA to BEN and back: what AVA has is in what BEN hands on."""
    edit(room.ava.top)
    left = await room.leave()
    await room.give(left)
    await room.places.settle(room.ava, left.commit)
    assert git(room.ava.top, "status", "--porcelain") == "", "its own work is a commit of its branch"
    write(room.ben.top, {"a.txt": "by ben\n"})
    before = await room.snapshot(room.ben)
    back = await room.places.leave("BEN", before, "s/BEN", "Hand back\n")
    there = await room.snapshot(room.ava)
    await room.places.check_free("AVA", room.ava, there, back.commit, None, _landed)
    await room.places.write(room.ava, there.tree, back.tree)
    await room.places.settle(room.ava, back.commit)
    assert git(room.ava.top, "write-tree") == back.tree
    assert (room.ava.top / "a.txt").read_text() == "by ben\n"


async def test_what_is_in_the_way_refuses_and_changes_nothing(room: Room) -> None:
    write(room.ava.top, {"seen.log": "tracked by ava\n"})
    git(room.ava.top, "add", "-f", "seen.log")
    write(room.ben.top, {"seen.log": "of ben, ignored\n"})
    left = await room.leave()
    with pytest.raises(Refusal, match=r"seen\.log"):
        await room.give(left)
    assert (room.ben.top / "seen.log").read_text() == "of ben, ignored\n"
    assert git(room.ben.top, "rev-parse", "HEAD") == git(room.main.top, "rev-parse", "main")


async def test_what_is_staged_only_is_kept(room: Room) -> None:
    edit(room.ava.top)
    left = await room.leave()
    write(room.ben.top, {"staged.txt": "staged\n"})
    git(room.ben.top, "add", "staged.txt")
    (room.ben.top / "staged.txt").unlink()
    staged = git(room.ben.top, "write-tree")
    await room.give(left)
    assert git(room.ben.top, "write-tree") == left.tree
    kept = await KeptSnapshots(room.scratch, room.main).find(staged)
    assert kept is not None
    assert git(room.main.top, "show", f"{kept.ref}:staged.txt") == "staged"


async def test_a_retry_starts_on_its_branch_from_the_snapshot(room: Room) -> None:
    edit(room.ava.top)
    left = await room.leave()
    name = "tw/ann/developer-1-retry-1"
    for _ in range(2):  # a daemon that was killed does it again
        await room.places.take_branch(name, left.commit)
        await room.places.settle(room.ava, left.commit, name)
    assert git(room.ava.top, "rev-parse", "--abbrev-ref", "HEAD") == name
    assert git(room.ava.top, "rev-parse", "HEAD^{tree}") == left.tree == git(room.ava.top, "write-tree")
    assert (room.ava.top / "x.log").exists(), "ignored files stay"
    with pytest.raises(Refusal, match="is there already"):
        await room.places.take_branch(name, git(room.main.top, "rev-parse", "main"))
    for bad in ("a..b", "-x", "a b", "x.lock"):
        with pytest.raises(Refusal, match="cannot be"):
            await room.places.take_branch(bad, left.commit)


async def test_a_killed_write_goes_on(room: Room) -> None:
    edit(room.ava.top)
    left = await room.leave()
    before = await room.snapshot(room.ben)
    write(room.ben.top, {"a.txt": "ONE\n"})  # half of it
    assert await room.places.recover(room.ben, before.tree, left.tree)
    await room.places.settle(room.ben, left.commit)
    assert git(room.ben.top, "write-tree") == left.tree

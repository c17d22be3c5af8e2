"""What changed is told by the watcher, and looked at without looking at all."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import psutil
import pytest

from relay.airspace.worktrees import watcher
from relay.airspace.worktrees.change_feed import ChangeFeed
from relay.airspace.worktrees.watcher import WorktreeWatcher
from relay.git.folder_watch import MOST_PATHS, Changed, Watched, WatchError, changes, sort_changes
from relay.git.snapshot import Snapshotter
from tests.git.repository import Room, commit, git, lines, own_branch, repository, write

PATIENT_S = 60.0

ROOTS = json.loads(
    Watched(
        trees={"tree:REPO": Path("/r"), "tree:A": Path("/r/.relay/worktrees/a")},
        refs={"refs:": Path("/r/.git/refs")},
        gits={"git:A": Path("/r/.git/worktrees/a"), "main:": Path("/r/.git")},
        skip=(Path("/r/.relay"),),
    ).as_json()
)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/r/src/a.py", {"tree:REPO": ["src/a.py"]}),
        ("/r/.relay/worktrees/a/src/a.py", {"tree:A": ["src/a.py"]}),
        ("/r/.relay/events.db", {}),
        ("/r/.relay/worktrees/b/x", {}),
        ("/r/.git/objects/ab/cd", {}),
        ("/r/.git/HEAD", {"main:": None}),
        ("/r/.git/index.lock", {}),
        ("/r/.git/worktrees/a/index", {"git:A": None}),
        ("/r/.git/refs/heads/main", {"refs:": None}),
        ("/r/.git/refs/heads/main.lock", {}),
        ("/r", {"tree:REPO": None}),
        ("/r/caf\ufffd", {"tree:REPO": None}),
        ("/rest/a.py", {}),
    ],
)
def test_whose_a_path_is(path: str, told: dict[str, Any]) -> None:
    assert sort_changes([path], ROOTS) == told


def test_a_folder_of_two_names_is_told_under_both() -> None:
    twice = {**ROOTS, "trees": {**ROOTS["trees"], "code:": "/r"}}
    assert sort_changes(["/r/a.py"], twice) == {"tree:REPO": ["a.py"], "code:": ["a.py"]}
    assert sort_changes(["/r/.relay/worktrees/a/a.py"], twice) == {"tree:A": ["a.py"]}


def test_a_flood_is_told_as_all() -> None:
    paths = [f"/r/f{number}" for number in range(MOST_PATHS + 1)]
    assert sort_changes(paths, ROOTS) == {"tree:REPO": None}
    assert sort_changes(paths[:2], ROOTS) == {"tree:REPO": ["f0", "f1"]}


async def _next(batches: Any, key: str) -> Any:
    """What the next batch that is about `key` says of it."""
    async with asyncio.timeout(PATIENT_S):
        async for batch in batches:
            if key in batch:
                return batch[key]
    raise AssertionError("the watcher has ended")


async def test_changes_come_from_a_child_that_ends_with_us(tmp_path: Path) -> None:
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "git").mkdir()
    watched = Watched(trees={"tree:A": tmp_path / "tree"}, gits={"git:A": tmp_path / "git"})
    async with aclosing(changes(watched)) as batches:
        assert await anext(batches) == {}
        child = next(
            one for one in psutil.Process().children() if "relay.git.folder_watch" in " ".join(one.cmdline())
        )
        (tmp_path / "tree" / "deep" / "ü b.py").write_text("x")
        assert await _next(batches, "tree:A") == {"deep/ü b.py"}
        (tmp_path / "git" / "HEAD").write_text("x")
        assert await _next(batches, "git:A") is None
    assert not child.is_running()


async def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WatchError, match="FileNotFoundError"):
        async with aclosing(changes(Watched(trees={"tree:A": tmp_path / "gone"}))) as batches:
            async for _ in batches:
                pass


class Kept:
    """A room whose watcher runs."""

    def __init__(self, one: Room, feed: ChangeFeed, look: WorktreeWatcher) -> None:
        self.room, self.feed, self.look = one, feed, look

    async def until(self, agent: str, *paths: str) -> None:
        """Wait until this agent's working set is of these files."""
        async with asyncio.timeout(PATIENT_S):
            while sorted(await self.paths(agent)) != sorted(paths):
                await self.feed.next()

    async def until_quiet(self) -> None:
        """Wait until the watches stand and all was looked at."""
        async with asyncio.timeout(PATIENT_S):
            await self.look.watching.wait()
            worktrees = self.room.registry.worktrees
            while any(  # noqa: ASYNC110 - several states are waited for, not one event
                worktree.all_stale or worktree.work is None or worktree.lock.locked()
                for worktree in worktrees.values()
            ):
                await asyncio.sleep(0.01)

    async def paths(self, agent: str) -> list[str]:
        sets = {each.agent: each for each in await self.room.registry.working_sets()}
        return [file.path for file in sets[agent].files] if agent in sets else ["unseen"]


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    one = Room(repository(tmp_path / "repo"), "A", "B")
    look = WorktreeWatcher(one.registry, poll_s=0.05)
    feed = one.registry.listen()
    task = asyncio.create_task(look.run())
    yield Kept(one, feed, look)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_changes_is_seen(kept: Kept) -> None:
    await kept.until("A")
    at = kept.room.at("A")
    write(at, {"a.py": "x\n", "dir/new.py": "x\n"})
    await kept.until("A", "a.py", "dir/new.py")
    (at / "dir" / "new.py").unlink()
    (at / "b.py").rename(at / "c.py")
    await kept.until("A", "a.py", "b.py")
    commit(at)
    await kept.until("A", "a.py", "b.py")
    git(at, "reset", "-q", "--hard", "main")
    await kept.until("A")
    # A whole folder at once, of which the watcher names only the top.
    write(kept.room.folder.parent / "outside", {"x/y": "1\n", "x/z": "2\n"})
    (kept.room.folder.parent / "outside" / "x").rename(at / "x")
    await kept.until("A", "x/y", "x/z")
    shutil.rmtree(at / "x")
    await kept.until("A")


async def test_the_main_branch_moves(kept: Kept) -> None:
    await kept.until("A")
    commit(kept.room.at("A"), {"a.py": "x\n"})
    await kept.until("A", "a.py")
    git(kept.room.folder, "merge", "-q", "--no-edit", own_branch("a"))
    await kept.until("A")


async def test_only_what_changed_is_looked_at(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    await kept.until_quiet()
    looked: list[tuple[str, object]] = []
    take, update = Snapshotter.take, Snapshotter.update

    async def counted_take(self: Snapshotter) -> Any:
        looked.append((self.checkout.top.name, "all"))
        return await take(self)

    async def counted_update(self: Snapshotter, paths: Any) -> Any:
        looked.append((self.checkout.top.name, sorted(paths)))
        return await update(self, paths)

    monkeypatch.setattr(Snapshotter, "take", counted_take)
    monkeypatch.setattr(Snapshotter, "update", counted_update)
    write(kept.room.at("A"), {"a.py": "x\n"})
    await kept.until("A", "a.py")
    assert looked and set(map(str, looked)) == {str(("a", [b"a.py"]))}


async def test_without_a_watcher_everything_is_polled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(watched: Watched) -> AsyncIterator[Changed]:
        raise WatchError("OS file watch limit reached")
        yield {}

    monkeypatch.setattr(watcher, "changes", broken)
    one = Room(repository(tmp_path / "repo"), "A")
    look = WorktreeWatcher(one.registry, poll_s=0.02)
    kept = Kept(one, one.registry.listen(), look)
    task = asyncio.create_task(look.run())
    try:
        await kept.until("A")
        write(one.at("A"), {"a.py": lines(1, 3)})
        await kept.until("A", "a.py")
        assert "watch limit" in look.polling
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_nothing_of_the_working_directory_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"watchfiles.py": "raise SystemExit(1)\n", "json.py": "raise SystemExit(1)\n"})
    monkeypatch.chdir(tmp_path)
    async with asyncio.timeout(PATIENT_S), aclosing(changes(Watched({"tree:A": tmp_path}))) as batches:
        assert await anext(batches) == {}

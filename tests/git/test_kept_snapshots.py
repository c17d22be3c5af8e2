"""Snapshots that are kept in the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.config.settings import TimelineSettings
from relay.git.checkout import open_checkout
from relay.git.kept_snapshots import KeptSnapshot, KeptSnapshots, expired, ref_component
from relay.git.run import GitError
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import Snapshot, Snapshotter
from tests.git.repository import git, repository

NOW = 1_800_000_000
DAY = 86_400


class Taking:
    """A repository, its scratch, and what takes and keeps snapshots of it."""

    def __init__(self, scratch: ScratchRepository, snapshotter: Snapshotter) -> None:
        self.scratch, self.snapshotter = scratch, snapshotter
        self.kept = KeptSnapshots(scratch, snapshotter.checkout)

    @classmethod
    async def of(cls, repo: Path, tmp_path: Path) -> Taking:
        checkout = await open_checkout(repo)
        scratch = ScratchRepository(tmp_path / "scratch.git")
        await scratch.empty(checkout.hash)
        await scratch.borrow([checkout])
        return cls(scratch, Snapshotter(scratch, checkout, "main"))

    async def keep(
        self, at: int = NOW, *, lane: str = "s1/CLAUDE", **more: bool
    ) -> tuple[Snapshot, KeptSnapshot]:
        snapshot = await self.snapshotter.take()
        parents = [snapshot.head.commit] if snapshot.head.commit else []
        return snapshot, await self.kept.keep(snapshot.tree, parents, lane=lane, reason="turn", at=at, **more)


@pytest.fixture
async def taking(tmp_path: Path) -> Taking:
    return await Taking.of(repository(tmp_path / "repo", {"a.py": "1\n", "d/b.py": "2\n"}), tmp_path)


async def test_gc_keeps_snapshots(taking: Taking) -> None:
    repo = taking.snapshotter.checkout.top
    (repo / "a.py").write_text("uncommitted\n")
    (repo / "new.txt").write_text("untracked\n")
    _, kept = await taking.keep()
    await taking.scratch.empty("sha1")
    git(repo, "reflog", "expire", "--expire=now", "--all")
    git(repo, "gc", "-q", "--prune=now")
    assert git(repo, "show", f"{kept.tree}:a.py") == "uncommitted"
    assert git(repo, "show", f"{kept.commit}:new.txt") == "untracked"
    assert git(repo, "fsck", "--no-dangling") == ""
    assert await taking.kept.find(kept.tree) == kept


async def test_no_branch_and_no_push_has_them(taking: Taking, tmp_path: Path) -> None:
    repo = taking.snapshotter.checkout.top
    (repo / "a.py").write_text("uncommitted\n")
    _, kept = await taking.keep()
    assert kept.commit not in git(repo, "log", "--branches", "--format=%H").split()
    git(tmp_path, "init", "-q", "--bare", "other.git")
    git(repo, "push", "-q", str(tmp_path / "other.git"), "--all")
    assert git(tmp_path / "other.git", "for-each-ref", "--format=%(refname)") == "refs/heads/main"


async def test_no_git_identity(taking: Taking, monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{role}_NAME", raising=False)
        monkeypatch.delenv(f"GIT_{role}_EMAIL", raising=False)
    repo = taking.snapshotter.checkout.top
    git(repo, "config", "user.useConfigOnly", "true")
    _, kept = await taking.keep(lane="room/human:Jürgen [x]~1")
    assert git(repo, "log", "-1", "--format=%cn %ct %s", kept.ref) == f"relay {NOW} turn"
    assert await taking.kept.all() == [kept]


async def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    git(tmp_path / "repo", "init", "-q")
    (tmp_path / "repo" / "a").write_text("x\n")
    taking = await Taking.of(tmp_path / "repo", tmp_path)
    _, kept = await taking.keep()
    assert git(tmp_path / "repo", "show", f"{kept.ref}:a") == "x"


async def test_a_tree_is_kept_once_in_a_lane(taking: Taking) -> None:
    (taking.snapshotter.checkout.top / "a.py").write_text("uncommitted\n")
    await taking.keep(NOW)
    await taking.keep(NOW + 5)
    await taking.keep(NOW + 7, lane="s2/CODEX")
    assert [(kept.at, kept.lane) for kept in await taking.kept.all()] == [
        (NOW + 5, "s1%2fCLAUDE"),
        (NOW + 7, "s2%2fCODEX"),
    ]


async def test_what_the_policy_does_not_keep_goes(taking: Taking) -> None:
    top = taking.snapshotter.checkout.top
    trees = {}
    for at in (NOW - 31 * DAY, NOW - 2 * DAY, NOW - 2 * DAY + 60, NOW - 60):
        (top / "a.py").write_text(f"{at}\n")
        trees[at] = (await taking.keep(at))[1]
    (top / "a.py").write_text("checkpoint\n")
    _, checkpoint = await taking.keep(NOW - 400 * DAY, checkpoint=True)
    gone = await taking.kept.prune(TimelineSettings(), NOW, held=[trees[NOW - 31 * DAY].tree])
    assert gone == [trees[NOW - 2 * DAY]]
    gone = await taking.kept.prune(TimelineSettings(), NOW)
    assert gone == [trees[NOW - 31 * DAY]]
    assert await taking.kept.prune(TimelineSettings(), NOW) == []
    left = [checkpoint, trees[NOW - 2 * DAY + 60], trees[NOW - 60]]
    assert await taking.kept.all() == left


async def test_a_ref_that_was_moved_meanwhile_stays(taking: Taking) -> None:
    top = taking.snapshotter.checkout.top
    (top / "a.py").write_text("old\n")
    _, old = await taking.keep(NOW - 40 * DAY)
    before = taking.kept.all

    async def stale() -> list[KeptSnapshot]:
        listed = await before()
        await taking.keep(NOW)
        return listed

    taking.kept.all = stale  # type: ignore[method-assign]
    with pytest.raises(GitError):
        await taking.kept.prune(TimelineSettings(), NOW)
    assert [kept.at for kept in await before()] == [NOW]
    assert old.tree == (await before())[0].tree


def test_the_last_of_each_hour_and_lane_stays_for_thirty_days() -> None:
    def made(at: int, lane: str = "a") -> KeptSnapshot:
        return KeptSnapshot(f"refs/relay/snapshots/{lane}/{at}", "c", "t", at, lane, "turn")

    hour = (NOW - 5 * DAY) // 3600 * 3600
    ends = [made(hour), made(hour + 10), made(hour + 20, "b"), made(hour + 3600)]
    assert expired(ends, TimelineSettings(), NOW) == [made(hour)]
    assert expired(ends, TimelineSettings(keep_all_s=6 * DAY), NOW) == []
    assert expired(ends, TimelineSettings(keep_days=4), NOW) == ends


@pytest.mark.parametrize(
    "name", ["a..b", "x.lock", "-x", "a b", "a~1", "ü", "@", "@{", "a/b", ".a", "", "a\\b", "\x7f"]
)
def test_any_name_is_a_component_of_a_ref(name: str, tmp_path: Path) -> None:
    assert git(tmp_path, "check-ref-format", f"refs/relay/snapshots/{ref_component(name)}/x") == ""


def test_each_name_is_a_component_of_its_own() -> None:
    pairs = [("v.01", "v\u2e01"), ("\u00e9a", "\u0e9a"), ("a b", "a\u020b"), ("%2e", "."), ("\ud800", "?")]
    for one, other in pairs:
        assert ref_component(one) != ref_component(other)

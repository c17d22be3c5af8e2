"""Which files are copied into a new worktree: what git ignores there, from inside the checkout, over nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.app.worktrees.copying import Copied, copy_files
from relay.git.checkout import open_checkout
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import Snapshotter
from tests.git.repository import commit, git


@pytest.fixture
def main(tmp_path: Path) -> Path:
    folder = tmp_path / "main"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitignore").write_text(".env*\n*.local\n.relay/\nlinks/\n")
    (folder / "config").mkdir()
    (folder / "config" / "app.py").write_text("a = 1\n")
    (folder / "kept.local").write_text("tracked\n")
    git(folder, "add", "-f", "kept.local")
    commit(folder)
    git(folder, "worktree", "add", "-q", "-b", "work", str(tmp_path / "tree"))
    return folder


async def copied(main: Path, *globs: str) -> Copied:
    checkout, worktree = await open_checkout(main), await open_checkout(main.parent / "tree")
    scratch = ScratchRepository(main.parent / "scratch.git")
    await scratch.empty(checkout.hash)
    await scratch.borrow([checkout, worktree])
    snapshotter = Snapshotter(scratch, worktree, "work")
    await snapshotter.take()
    return await copy_files(checkout, worktree, globs, snapshotter.git, [main / ".relay"])


async def test_ignored_files_are_copied_with_their_mode_and_stay_untracked(main: Path) -> None:
    (main / ".env").write_text("SECRET=1\n")
    (main / ".env").chmod(0o600)
    (main / "config" / "db.local").write_text("db\n")
    (main / "config" / "deep").mkdir()
    (main / "config" / "deep" / "x.local").write_text("x\n")
    (main / "config" / ":(glob)odd.local").write_text("odd\n")
    told = await copied(main, ".env", "config/*.local")
    assert told == Copied((".env", "config/:(glob)odd.local", "config/db.local"))
    tree = main.parent / "tree"
    assert (tree / ".env").stat().st_mode & 0o777 == 0o600
    assert git(tree, "status", "--porcelain") == ""
    assert (await copied(main, "**/x.local")).files == ("config/deep/x.local",)


async def test_nothing_is_written_over_and_nothing_that_git_would_take(main: Path) -> None:
    tree = main.parent / "tree"
    (main / ".env").write_text("main\n")
    (tree / ".env").write_text("the agent's\n")
    (main / "kept.local").write_text("changed\n")
    (main / "notes.txt").write_text("not ignored\n")
    told = await copied(main, ".env", "*.local", "notes.txt", "missing")
    assert told == Copied((), ("`notes.txt`: git does not ignore it",))
    assert (tree / ".env").read_text() == "the agent's\n" and (tree / "kept.local").read_text() == "tracked\n"
    assert not (tree / "notes.txt").exists()


async def test_no_link_leads_out_of_either_checkout(main: Path) -> None:
    outside, tree = main.parent / "outside", main.parent / "tree"
    outside.mkdir()
    (outside / "secret").write_text("secret\n")
    (main / ".relay").mkdir()
    (main / ".relay" / "token").write_text("token\n")
    (main / ".env.out").symlink_to(outside / "secret")
    (main / ".env.room").symlink_to(main / ".relay" / "token")
    (main / ".env.git").symlink_to(main / ".git" / "config")
    (main / ".env.broken").symlink_to("nowhere")
    (main / "config" / "real.local").write_text("real\n")
    (main / ".env.in").symlink_to("config/real.local")
    (main / "links").mkdir()
    (main / "links" / "a.local").write_text("a\n")
    (tree / "links").symlink_to(outside)
    told = await copied(main, ".env.*", "links/*", ".relay/*")
    assert told.files == (".env.in",)
    assert (tree / ".env.in").read_text() == "real\n" and not (tree / ".env.in").is_symlink()
    out = "it is a link that leads out of the checkout"
    assert set(told.notes) == {
        f"`.env.out`: {out}",
        f"`.env.git`: {out}",
        "`.env.broken`: No such file or directory",
        "`links/a.local`: its folder is a link in the worktree",
    }
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    assert not (tree / ".relay").exists()

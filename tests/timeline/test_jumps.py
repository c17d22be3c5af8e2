"""Worktrees of moments are removed only when nothing is lost by it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.model import Refusal
from relay.timeline.checkpoints import CheckpointKind, make_checkpoint
from relay.timeline.file_changes import record_tree
from relay.timeline.jumps import Jumps
from tests.engines import BOTH
from tests.git.repository import git
from tests.timeline.rewind.parts import MAIN, Stage

pytestmark = BOTH


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    opened = await Stage.open(tmp_path, {"app.py": "one\n", ".gitignore": "*.log\ncache/\n"})
    tree, commit = git(opened.main.top, "rev-parse", "HEAD^{tree}", "HEAD").split()
    await opened.store.write(lambda tx: record_tree(tx, MAIN, "main", tree, commit=commit))
    yield opened
    await opened.store.close()


async def jumped(stage: Stage) -> tuple[Jumps, Path]:
    jumps = Jumps(stage.store, stage.scratch, stage.main, stage.main.top.parent / ".moments")
    made = await jumps.make("-0s")
    return jumps, Path(made["folder"])


async def refused(jumps: Jumps, folder: Path) -> str:
    with pytest.raises(Refusal) as error:
        await jumps.remove(folder.name)
    assert folder.exists()
    return str(error.value)


async def test_one_that_is_as_it_was_made_goes(stage: Stage) -> None:
    jumps, folder = await jumped(stage)
    # Of a branch that went back since, no ref has the commit, and nobody made it there.
    git(stage.main.top, "commit", "-q", "--amend", "--allow-empty", "-m", "another")
    git(stage.main.top, "reflog", "expire", "--expire=now", "--all")
    await jumps.remove(folder.name)
    assert not folder.exists()


async def test_a_commit_that_no_ref_has_stays(stage: Stage) -> None:
    jumps, folder = await jumped(stage)
    (folder / "p.txt").write_text("precious\n")
    git(folder, "add", "p.txt")
    git(folder, "commit", "-q", "-m", "precious")
    commit = git(folder, "rev-parse", "HEAD")
    said = await refused(jumps, folder)
    assert "commits that no branch has" in said
    assert f"`git branch NAME {commit[:12]}`" in said
    git(stage.main.top, "branch", "kept", commit)
    await jumps.remove(folder.name)
    assert git(stage.main.top, "show", "kept:p.txt") == "precious"


async def test_a_commit_that_only_the_worktrees_history_has_stays(stage: Stage) -> None:
    jumps, folder = await jumped(stage)
    began = git(folder, "rev-parse", "HEAD")
    git(folder, "commit", "-q", "--allow-empty", "-m", "left behind")
    commit = git(folder, "rev-parse", "HEAD")
    git(folder, "checkout", "-q", "--detach", began)
    assert f"`git branch NAME {commit[:12]}`" in await refused(jumps, folder)


async def test_ignored_and_staged_files_stay(stage: Stage) -> None:
    jumps, folder = await jumped(stage)
    (folder / "notes.log").write_text("mine\n")
    (folder / "cache").mkdir()
    (folder / "cache" / "a").write_text("a\n")
    said = await refused(jumps, folder)
    assert "cache/, notes.log" in said
    assert "git does not keep" in said
    (folder / "notes.log").unlink()
    (folder / "cache" / "a").unlink()
    (folder / "app.py").write_text("staged\n")
    git(folder, "add", "app.py")
    (folder / "app.py").write_text("one\n")
    assert "was edited since" in await refused(jumps, folder)
    git(folder, "reset", "-q", "--hard")
    await jumps.remove(folder.name)
    assert not folder.exists()


async def test_a_handoffs_checkpoint_says_whether_it_passed(stage: Stage) -> None:
    jumps, _ = await jumped(stage)
    tree = git(stage.main.top, "rev-parse", "HEAD^{tree}")
    for passed in (False, True):
        metadata = {"validation_passed": passed}
        kind = CheckpointKind.HANDOFF
        await stage.store.write(
            lambda tx, metadata=metadata, kind=kind: make_checkpoint(
                tx, MAIN, "handoff:a->b", tree, kind, metadata
            )  # type: ignore[misc]
        )
        made = await jumps.make("handoff:a->b")
        assert made["validation_passed"] is passed
    assert (await jumps.make("handoff:a->b~1"))["validation_passed"] is False
    assert "validation_passed" not in await jumps.make("-0s")

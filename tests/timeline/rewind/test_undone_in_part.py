"""An undo that could not bring all back, and one of which nothing is there any more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.model.refusals import Refusal
from relay.store.ports import Queries
from relay.timeline.rewind import history
from tests.engines import BOTH
from tests.git.repository import git, lines, write
from tests.timeline.rewind.parts import CODEX, Stage

pytestmark = BOTH
#: What only tests ask of the tables.
Q = Queries(Path(__file__).parents[1])
FIRST: dict[str, str | bytes] = {"app.py": lines(1, 9)}
AGENTS = lines(1, 9).replace("line 3\n", "line 3 CODEX\n")
ANNS = lines(1, 9).replace("line 3\n", "line 3 ann\n")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    opened = await Stage.open(tmp_path, FIRST)
    await opened.give_worktree(CODEX)
    await opened.edit(CODEX, {"app.py": AGENTS, "new.py": "new\n"})
    await opened.merge(CODEX)
    yield opened
    await opened.store.close()


async def states(stage: Stage) -> list[str]:
    """Of every operation; the same as the log says alone."""

    async def now() -> list[str]:
        return [row["state"] for row in await stage.store.read(lambda tx: tx.all(Q.all_rewinds))]

    found = await now()
    await history.rebuild(stage.store)
    assert await now() == found
    return found


async def test_what_an_undo_left_can_still_be_undone(stage: Stage) -> None:
    main = stage.main.top
    await stage.rewind(CODEX, into="main")
    write(main, {"app.py": ANNS})
    await stage.commit("ann's line 3")
    part = await stage.undo(partial=True)
    assert part["conflicts"] == ["app.py"] and (main / "new.py").read_text() == "new\n"
    assert await states(stage) == ["partly", "partly"]

    # It comes forward again as a whole, and back in part.
    await stage.redo()
    assert not (main / "new.py").exists() and await states(stage) == ["done", "partly", "done"]
    await stage.undo(partial=True)

    # What came back is not brought back once more; what was left is, as soon as it can be.
    (main / "new.py").unlink()
    write(main, {"app.py": lines(1, 9)})
    await stage.commit("ann's line goes")
    rest = await stage.undo()
    assert [file["path"] for file in rest["files"]] == ["app.py"] and rest["conflicts"] == []
    assert (main / "app.py").read_text() == AGENTS and not (main / "new.py").exists()
    assert (await states(stage))[0] == "undone"
    with pytest.raises(Refusal, match="no rewind to undo"):
        await stage.undo()
    await stage.redo()
    assert (main / "app.py").read_text() == lines(1, 9)
    assert (await states(stage))[0] == "partly"
    with pytest.raises(Refusal, match="no undone rewind to redo"):
        await stage.redo()
    await stage.undo()
    assert (main / "app.py").read_text() == AGENTS and not (main / "new.py").exists()


async def test_what_came_back_in_part_can_be_taken_back_again(stage: Stage) -> None:
    main = stage.main.top
    await stage.rewind(CODEX, into="main")
    write(main, {"app.py": ANNS})
    await stage.commit("ann's line 3")
    await stage.undo(partial=True)
    await stage.rewind(CODEX, into="main", partial=True)
    assert not (main / "new.py").exists() and (main / "app.py").read_text() == ANNS


async def test_an_undo_behind_which_the_branch_was_set_back_writes_nothing(stage: Stage) -> None:
    """Neither the rewind nor what it took out is there any more, so nothing of it is brought back."""
    main = stage.main.top
    await stage.rewind(CODEX, into="main")
    git(main, "reset", "-q", "--hard", "HEAD~2")
    head = git(main, "rev-parse", "HEAD")
    skipped = await stage.undo()
    assert skipped["skipped"] == "Neither its commit nor the one that it was made on is in main any more."
    assert skipped["files"] == [] and git(main, "rev-parse", "HEAD") == head
    assert (main / "app.py").read_text() == lines(1, 9) and not (main / "new.py").exists()
    assert await states(stage) == ["undone", "done"]
    with pytest.raises(Refusal, match="no rewind to undo"):
        await stage.undo()


@pytest.mark.parametrize("how", ["amend", "reset"])
async def test_an_undo_knows_what_it_was_made_on(stage: Stage, how: str) -> None:
    """An amended commit is the rewind's still. Where it alone was thrown away, there is nothing to bring back."""
    main = stage.main.top
    await stage.rewind(CODEX, into="main")
    if how == "amend":
        git(
            main,
            "commit",
            "-q",
            "--amend",
            "-m",
            git(main, "log", "-1", "--format=%B").replace("Take", "We take"),
        )
    else:
        git(main, "reset", "-q", "--hard", "HEAD~1")
    undone = await stage.undo()
    assert "skipped" not in undone and (main / "app.py").read_text() == AGENTS

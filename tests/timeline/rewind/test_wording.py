"""A rewind leaves nothing in silence: what has not landed, a submodule, a branch in the way, an undo's branch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.model.refusals import Refusal
from relay.timeline import reading
from relay.timeline.rewind.checkout_writer import FilesInTheWay
from relay.timeline.rewind.history import REWOUND
from relay.timeline.rewind.wording import rest
from tests.engines import BOTH
from tests.git.repository import git, lines
from tests.timeline.rewind.parts import ANN, CODEX, Stage

pytestmark = BOTH
INTO = "/rewind CODEX to start into worktree"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    opened = await Stage.open(tmp_path, {"app.py": lines(1, 9)})
    yield opened
    await opened.store.close()


async def test_what_has_not_landed_is_named(stage: Stage) -> None:
    top = await stage.give_worktree(CODEX)
    await stage.edit(CODEX, {"w3": "3\n"})
    await stage.merge(CODEX)
    await stage.edit(CODEX, {"open.txt": "open\n"})
    answer = await stage.rewind(CODEX)
    assert (top / "open.txt").exists() and answer["left_files"] == ["open.txt"]
    assert rest(answer, REWOUND, INTO) == [
        f"open.txt has not landed and stays in CODEX's worktree: `{INTO}` takes it too."
    ]
    both = await stage.plan(CODEX, into="worktree")
    assert both.paths == ["open.txt", "w3"] and rest(both.answer, REWOUND, INTO) == []


@pytest.mark.parametrize("committed", [False, True])
async def test_a_submodule_that_was_moved_is_recorded_and_taken_back(stage: Stage, committed: bool) -> None:
    """On a branch; a checkout's folder of it is not relay's to set, so that is refused with its name."""
    main = stage.main.top
    git(main, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},mod")
    (main / "mod").mkdir()
    git(main, "commit", "-q", "-m", "a module")
    before = git(main, "rev-parse", "HEAD^{tree}")
    git(main, "update-index", "--cacheinfo", f"160000,{'2' * 40},mod")
    (main / "app.py").write_text("agent\n")
    git(main, "add", "app.py")
    git(main, "commit", "-q", "-m", "moved")
    event = await stage.record_main(ANN)
    assert event is not None
    touch = {"path": "mod", "before": "1" * 40, "after": "2" * 40, "kind": "write"}
    assert touch in event.outputs["touches"]
    with pytest.raises(FilesInTheWay, match=r"Submodules would change in .*: mod\."):
        await stage.rewind(ANN, into="main")
    assert git(main, "rev-parse", "HEAD^{tree}") != before
    answer = await stage.rewind(ANN)
    assert git(main, "rev-parse", f"{answer['branch']}^{{tree}}") == before
    assert answer["submodules"] == ["mod"]
    assert rest(answer, REWOUND, INTO) == [
        "mod is a submodule: `git submodule update` sets its files, where this is checked out."
    ]
    if committed:
        git(main, "merge", "-q", "--ff-only", answer["branch"])
        await stage.record_main()
        undone = await stage.undo()
        assert git(main, "rev-parse", f"{undone['branch']}:mod") == "2" * 40


async def test_a_branch_that_is_in_the_way_is_named(stage: Stage) -> None:
    await stage.give_worktree(CODEX)
    await stage.edit(CODEX, {"w3": "3\n"})
    await stage.merge(CODEX)
    git(stage.main.top, "branch", "rw")
    with pytest.raises(Refusal, match="A branch `rw` is in the way"):
        await stage.plan(CODEX)


async def test_a_preview_refuses_as_the_rewind_does(stage: Stage) -> None:
    top = await stage.give_worktree(CODEX)
    await stage.edit(CODEX, {"w3": "3\n"})
    (top / "w3").unlink()
    plan = await stage.plan(CODEX)
    for act in (stage.rewinds.check, stage.rewinds.apply):
        with pytest.raises(Refusal, match="Nothing of what CODEX did"):
            await act(plan)


async def test_a_name_is_known_in_any_case(stage: Stage) -> None:
    await stage.edit(ANN, {"w3": "3\n"})
    for name in ("ann", "Ann", "ANN"):
        assert await stage.store.read(lambda tx, name=name: reading.lanes_of(tx, name)) == [ANN.key]
    with pytest.raises(Refusal, match="no lane of"):
        await stage.store.read(lambda tx: reading.lanes_of(tx, "bob"))

"""A rewind ends where the archives end: what has left the log is not taken back in part."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.log.verify import verify
from relay.model.refusals import Refusal
from relay.timeline.archive import archive
from tests.engines import BOTH
from tests.timeline.rewind.parts import CODEX, Stage

pytestmark = BOTH


async def test_a_rewind_to_before_the_cut_is_refused(tmp_path: Path) -> None:
    stage = await Stage.open(tmp_path, {"a.py": "1\n"})
    await stage.give_worktree(CODEX)
    top = stage.worktrees[CODEX].top
    first, second, third = [await stage.edit(CODEX, {"a.py": f"{text}\n"}) for text in "234"]
    await archive(stage.store, tmp_path / "archive", second.pos)
    with pytest.raises(Refusal, match=f"up to #{second.pos} is archived"):
        await stage.plan(CODEX, first)
    done = await stage.rewind(CODEX, second, into="worktree")
    assert done["removed"] == [third.id] and (top / "a.py").read_text() == "3\n"
    await stage.undo(CODEX)
    assert (top / "a.py").read_text() == "4\n"
    assert await verify(stage.store) == []
    await stage.store.close()

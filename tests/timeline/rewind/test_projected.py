"""What a rewind did to a worktree's files, as the timeline's tables say it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay.model.refusals import Refusal
from relay.model.touches import Touch
from relay.store.ports import Queries
from relay.timeline import file_changes, projection, reading
from relay.timeline.reading import Filter
from relay.timeline.rewind import history
from relay.timeline.rewind.checkout_writer import CheckoutWriter
from tests.engines import BOTH
from tests.git.repository import lines
from tests.timeline.rewind.parts import ANN, CLAUDE, CODEX, Stage

pytestmark = BOTH
#: What only tests ask of the tables.
Q = Queries(Path(__file__).parents[1])
FIRST: dict[str, str | bytes] = {"app.py": lines(1, 9)}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    opened = await Stage.open(tmp_path, FIRST)
    yield opened
    await opened.store.close()


async def files(stage: Stage) -> dict[str, tuple[str, bool]]:
    """Who wrote each file last, and whether it stands."""
    found = await stage.store.read(reading.workspace)
    return {file["path"]: (file["by"], file["blob"] is not None) for file in found}


async def tables(stage: Stage) -> list[dict[str, Any]]:
    async def work(tx: Any) -> list[Any]:
        return [*await tx.all(Q.all_touches), *await tx.all(Q.all_trees), *await tx.all(Q.all_rewinds)]

    return [dict(row) for row in await stage.store.read(work)]


async def test_the_files_are_as_a_rewind_left_them(stage: Stage) -> None:
    """So they are after its undo and its redo; each is listed with the path, and `rebuild` says the same."""
    await stage.give_worktree(CODEX)
    edit = await stage.edit(CODEX, {"w3": "3\n", "app.py": "bad\n"})
    codex, ann = CODEX.key, ANN.key
    assert await files(stage) == {"app.py": (codex, True), "w3": (codex, True)}
    done = [await stage.rewind(CODEX)]
    assert await files(stage) == {"app.py": (ann, True), "w3": (ann, False)}
    done.append(await stage.undo(CODEX))
    assert await files(stage) == {"app.py": (ann, True), "w3": (ann, True)}
    done.append(await stage.redo(CODEX))
    assert await files(stage) == {"app.py": (ann, True), "w3": (ann, False)}
    page = await stage.store.read(lambda tx: reading.page(tx, Filter(path="w3")))
    assert [event.id for event in page] == [edit.id, *(answer["event"] for answer in done)]

    before = await tables(stage)
    await projection.rebuild(stage.store)
    await history.rebuild(stage.store)
    assert await tables(stage) == before
    with pytest.raises(Refusal, match="ANN has changed no file"):
        await stage.plan(ANN)


async def test_a_rewind_that_came_to_nothing_touched_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.give_worktree(CODEX)
    await stage.edit(CODEX, {"w3": "3\n"})

    async def fail(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(CheckoutWriter, "write", fail)
        with pytest.raises(OSError, match="full"):
            await stage.rewind(CODEX)
    assert await files(stage) == {"w3": (CODEX.key, True)}
    before = await tables(stage)
    await projection.rebuild(stage.store)
    await history.rebuild(stage.store)
    assert await tables(stage) == before


async def test_what_is_taken_back_offers_no_rewind(stage: Stage) -> None:
    await stage.give_worktree(CODEX)
    edit = await stage.edit(CODEX, {"w3": "3\n"})
    later = await stage.edit(CODEX, {"w4": "4\n"})

    async def offered() -> list[str | None]:
        standing = await stage.store.read(history.undo_commands)
        return [reading.undo_with(event, standing) for event in (edit, later)]

    first = f"relay timeline rewind CODEX --to '#{edit.pos - 1}'"
    assert await offered() == [first, f"relay timeline rewind CODEX --to '#{later.pos - 1}'"]
    await stage.rewind(CODEX, edit)
    assert await offered() == [first, None]
    await stage.rewind(CODEX)
    assert await offered() == [None, None]


async def test_a_rewind_in_a_worktree_is_nothing_of_the_main_branch(stage: Stage) -> None:
    """What a person saves in the main checkout is known by its commit, also when that person rewound an agent's
    change of the same file in between; and what an agent wrote is known as the agent's."""
    await stage.give_worktree(CODEX)
    await stage.give_worktree(CLAUDE)
    await stage.edit(CLAUDE, {"app.py": "claude\n"})
    touches = (await stage.edit(CODEX, {"app.py": "bad\n"})).outputs["touches"]
    await stage.rewind(CODEX)
    (touch,) = [Touch.of_json(value) for value in touches]
    found = await stage.store.read(lambda tx: file_changes.agents_writes(tx, [touch], uncommitted=True))
    assert found.keys() == {"app.py"}

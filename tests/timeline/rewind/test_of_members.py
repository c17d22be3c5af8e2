"""Rewinds of several members of a fleet in one log: each has files of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from relay.log.events import Lane
from relay.model.refusals import Refusal
from relay.store.ports import Tx
from relay.timeline.rewind import history
from relay.timeline.rewind.history import Operation, State
from relay.timeline.rewind.plan import RewindPlan
from relay.timeline.rewind.service import Rewinds
from tests.engines import BOTH
from tests.timeline.rewind.parts import ANN, CLAUDE, CODEX, Stage

pytestmark = BOTH
ROOM = Lane("room", "fleet:M2:forgotten", short=True)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """As member M1 sees it."""
    opened = await Stage.open(tmp_path, {"app.py": "x = 1\n"})
    opened.rewinds = Rewinds(opened.store, opened.scratch, opened.main, opened.kept, "M1")
    for lane in (CODEX, CLAUDE):
        await opened.give_worktree(lane)
        await opened.edit(lane, {f"{lane.name.lower()}.py": "new\n"})
    yield opened
    await opened.store.close()


async def begun(stage: Stage, plan: RewindPlan, member: str) -> Operation:
    """What this member has begun, and was ended at."""
    assert plan.operation is not None
    new = replace(plan.operation, member=member)
    event = await stage.store.write(lambda tx: history.begin(tx, new))
    operation = await stage.store.read(lambda tx: history.of_event(tx, event.id))
    assert operation is not None
    return operation


async def state(stage: Stage, operation: Operation) -> State:
    now = await stage.store.read(lambda tx: history.of_event(tx, operation.event))
    assert now is not None
    return now.state


async def test_what_another_member_has_begun_is_in_nobody_s_way(stage: Stage) -> None:
    theirs = await begun(stage, await stage.plan(CODEX), "M2")
    await stage.rewind(CLAUDE)
    assert not (stage.worktrees[CLAUDE].top / "claude.py").exists()
    # It is not this member's to settle.
    assert await stage.rewinds.recover() == [] and await state(stage, theirs) is State.BEGUN
    # Of one member one is under way at a time.
    plan = await stage.rewinds.plan_undo("ANN", ANN, await stage.places(CLAUDE))
    with pytest.raises(Refusal, match="just now"):
        await begun(stage, plan, "M2")
    # When that member is here again it settles its own.
    back = Rewinds(stage.store, stage.scratch, stage.main, stage.kept, "M2")
    assert [each.event for each in await back.recover()] == [theirs.event]
    assert await state(stage, theirs) is State.GIVEN_UP


async def test_what_is_about_the_same_rewind_says_who_has_begun_it(stage: Stage) -> None:
    await stage.rewind(CLAUDE)
    plan = await stage.rewinds.plan_undo("ANN", ANN, await stage.places(CLAUDE))
    await begun(stage, plan, "M2")
    with pytest.raises(Refusal, match=r"M2 has begun to undo or redo the same.*relay fleet forget M2"):
        await stage.undo(CLAUDE)


async def test_what_a_forgotten_member_had_begun_is_given_up(stage: Stage) -> None:
    theirs = await begun(stage, await stage.plan(CODEX), "M2")
    ours = await begun(stage, await stage.plan(CLAUDE), "M1")

    async def forget(tx: Tx) -> list[Operation]:
        return await history.give_up_all(tx, "M2", "the relay M2 was forgotten", ROOM)

    assert [each.event for each in await stage.store.write(forget)] == [theirs.event]
    assert [await state(stage, each) for each in (theirs, ours)] == [State.GIVEN_UP, State.BEGUN]
    await history.rebuild(stage.store)
    assert [await state(stage, each) for each in (theirs, ours)] == [State.GIVEN_UP, State.BEGUN]
    # Should it still be at it, it hears that.
    with pytest.raises(Refusal, match="was forgotten"):
        await stage.store.write(lambda tx: history.finish(tx, theirs))
    assert await state(stage, theirs) is State.GIVEN_UP

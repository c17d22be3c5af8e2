"""What variants left is let go with the snapshots, in a real repository and both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from relay.app.wiring import kept_variants
from relay.app.wiring.kept_variants import prune_variants
from relay.config.settings import TimelineSettings
from relay.merge.exploration import journal
from relay.merge.exploration.journal import REFS, Exploration, State
from tests.app.merge.exploration_room import FILE, ExplorationRoom
from tests.engines import BOTH

pytestmark = BOTH
DAY = 86_400.0


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[ExplorationRoom]:
    made = await ExplorationRoom.open(tmp_path, {"AVA": {}, "BEN": {}, "CAT": {}})
    yield made
    await made.store.close()


async def over(room: ExplorationRoom, state: State = State.ENDED) -> Exploration:
    """An exploration in this state, whose two variants are kept."""
    number = await room.order(FILE)
    ended = replace(await room.row(number), state=state)
    await room.store.write(lambda tx: journal.save(tx, ended))
    for name in ("redis", "in-memory"):
        room.git("update-ref", f"{REFS}x{number}/{name}", "HEAD")
    return ended


def kept(room: ExplorationRoom) -> list[str]:
    return room.git("for-each-ref", "--format=%(refname)", REFS).split()


async def test_variants_go_by_age_and_only_of_what_is_over(room: ExplorationRoom) -> None:
    ended, waits = await over(room), await over(room, State.WAITING)
    room.git("update-ref", f"{REFS}x77/other", "HEAD")  # of no exploration that this room knows
    git, policy = room.room.registry.main.git, TimelineSettings(keep_all_s=60, keep_days=2)
    begun = datetime.fromisoformat(ended.at).timestamp()
    assert await prune_variants(git, room.store, policy, begun + 2 * DAY - 60) == []
    mine = [f"{REFS}{ended.name}/{name}" for name in ("in-memory", "redis")]
    assert await prune_variants(git, room.store, policy, begun + 2 * DAY + 60) == mine
    assert kept(room) == [f"{REFS}{waits.name}/{name}" for name in ("in-memory", "redis")] + [
        f"{REFS}x77/other"
    ]
    assert await prune_variants(git, room.store, policy, begun + 9 * DAY) == []


async def test_of_many_the_newest_stay(room: ExplorationRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_variants, "MOST_KEPT", 1)
    old, new = await over(room), await over(room, State.DONE)
    git, policy = room.room.registry.main.git, TimelineSettings(keep_all_s=60, keep_days=30)
    begun = datetime.fromisoformat(new.at).timestamp()
    assert await prune_variants(git, room.store, policy, begun + 30) == []
    gone = await prune_variants(git, room.store, policy, begun + 90)
    assert {ref.split("/")[3] for ref in gone} == {old.name}
    assert {ref.split("/")[3] for ref in kept(room)} == {new.name}

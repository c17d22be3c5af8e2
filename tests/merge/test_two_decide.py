"""Two who decide on one conflict at the same time: git is asked between what is read and what is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from relay.model import Refusal
from tests.engines import BOTH, all_events
from tests.merge.place import Open, Place


def meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch, other: Callable[[], Awaitable[Any]]) -> None:
    """Somebody else acts while git answers the next one who decides."""
    real = place.actions.resolvable
    waiting = [other]

    async def resolvable(agent: str) -> Any:
        found = await real(agent)
        if waiting:
            await waiting.pop()()
        return found

    monkeypatch.setattr(place.actions, "resolvable", resolvable)


@BOTH
async def test_the_same_choice_of_two_is_one(open_place: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    place = await open_place()
    await place.collide()
    meanwhile(place, monkeypatch, lambda: place.say(1, 2))
    assert (await place.say(1, 2)).startswith("c1 is settled: BEN's side stands.")
    assert len(await all_events(place.store, "conflict.resolved")) == 1


@BOTH
async def test_who_asks_an_agent_opens_no_decided_conflict(
    open_place: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await open_place()
    await place.collide()
    meanwhile(place, monkeypatch, lambda: place.say(1, 1))
    with pytest.raises(Refusal, match="c1 is resolved already") as refused:
        await place.say(1, 3, "BEN")
    assert refused.value.code == "moved_on"
    [conflict] = await place.open.list()
    assert (conflict["state"], conflict["resolution"]["resolution_type"]["type"]) == (
        "resolved",
        "side_chosen",
    )

"""Hops and their curves in ranking: 001's tests by name, and the switch over both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.memory.episodic import recalling
from relay.memory.episodic.keeping import NewMemory, keep
from relay.memory.episodic.recalling import Wanted
from relay.memory.experience import Experience
from relay.memory.ranking import hops
from relay.store.ports import Store, Tx
from tests import engines
from tests.engines import BOTH

DAY_S = 86_400.0


@pytest.fixture
async def store(engine: str, tmp_path: Path) -> AsyncIterator[Store]:
    with engines.on_engine(engine):
        store = await engines.open_store(tmp_path, engines.wings("log", "coordination", "memory"))
        yield store
        await store.close()


async def _said(tx: Tx, lane: Lane, count: int) -> list[Event]:
    return [await events.append(tx, NewEvent("turn.ended", lane)) for _ in range(count)]


@pytest.mark.parametrize("nested", [0, 1])
def test_brief_and_debrief_edges_weigh_nine_tenths_and_their_depth(nested: int) -> None:
    """001: 0.9, with a penalty of 0.9^depth, the same at both ends."""
    by = "CLAUDE" + ".3" * nested
    helper = f"{by}.17"
    assert hops.edges(by, helper) == hops.edges(helper, by) == [nested]
    assert hops.weight(1, before=False, edges=[nested]) == pytest.approx(0.9 * 0.9**nested)
    assert hops.weight(1, before=True, edges=[nested]) == pytest.approx(0.9 * 0.9 * 0.9**nested)


@pytest.mark.parametrize(
    ("here", "there", "depths"),
    [
        ("CLAUDE", "CLAUDE", []),
        ("CLAUDE", "CODEX", []),
        ("CLAUDE.1", "CLAUDE.2", [0, 0]),
        ("CLAUDE.1.2", "CLAUDE", [0, 1]),
        ("CLAUDE.1.2", "CLAUDE.1.3", [1, 1]),
        ("CLAUDE.1", "ann", [0]),
    ],
)
def test_the_edges_on_the_way(here: str, there: str, depths: list[int]) -> None:
    assert hops.edges(here, there) == depths


def test_the_curves_are_those_of_the_source() -> None:
    """001, "Decay Based on Hops": backward dies at 10, forward stays for 5 and dies at 20."""
    assert [hops.weight(n, before=True) for n in (0, 1, 5, 9, 10, 30)] == pytest.approx(
        [1, 0.9, 0.5, 0.1, 0, 0]
    )
    assert [hops.weight(n, before=False) for n in (0, 5, 8, 20, 30)] == pytest.approx([1, 1, 0.8, 0, 0])


@given(st.integers(0, 40), st.booleans(), st.lists(st.integers(0, 3), max_size=4))
def test_a_weight_is_bounded_and_falls(hop: int, before: bool, depths: list[int]) -> None:
    here = hops.weight(hop, before=before, edges=depths)
    assert 0 <= hops.weight(hop + 1, before=before, edges=depths) <= here <= 1


class TestOnTheLog:
    pytestmark = BOTH

    async def test_continuity_over_days(self, store: Store) -> None:
        """001: Monday's last word and Tuesday's first are one hop apart, whatever other lanes did in between."""
        mine, other = Lane("s", "CLAUDE"), Lane("t", "CODEX")

        async def work(tx: Tx) -> tuple[Event, Event]:
            monday = (await _said(tx, mine, 3))[-1]
            await _said(tx, other, 50)
            return monday, (await _said(tx, mine, 1))[0]

        monday, tuesday = await store.write(work)
        assert hops.between(tuesday.clock, monday.clock) == (1, True)
        assert hops.between(monday.clock, tuesday.clock) == (1, False)

    async def test_brief_and_debrief(self, store: Store) -> None:
        """001: a helper's work counts as hops of its own while it runs, and as nothing once it is folded."""
        parent, helper = Lane("s", "CLAUDE"), Lane("s", "CLAUDE.1")

        async def work(tx: Tx) -> tuple[Event, Event, Event, Event]:
            before = (await _said(tx, parent, 1))[0]
            await events.spawn(tx, parent, helper, inputs="count")
            first, *_, last = await _said(tx, helper, 4)
            back = await events.debrief(tx, parent, helper, outputs="2")
            return before, first, last, back

        before, first, last, back = await store.write(work)
        assert hops.between(first.clock, before.clock) == (1, True), "the brief's one hop"
        assert hops.between(last.clock, first.clock) == (3, True)
        assert hops.between(back.clock, before.clock) == (2, True), "spawn and debrief; the helper is folded"
        assert hops.between(back.clock, last.clock)[1], "what it found went before"


async def _relevance(store: Store, text: str, **more: Any) -> dict[str, float]:
    found = await store.read(lambda tx: recalling.found(tx, Wanted(text, **more), 10))
    return {each.more["summary"]: each.relevance for each in found}


class TestInRanking:
    pytestmark = BOTH

    async def test_what_went_before_a_hit_says_less_than_what_followed_it(self, store: Store) -> None:
        """The word of the question stands in one memory; those beside it are found by it, days apart."""

        async def work(tx: Tx) -> None:
            for place, summary in enumerate(("alpha", "beta", "heron nests", "gamma", "delta")):
                told = Experience("message", summary)
                await keep(tx, NewMemory(told, "ann", "s", 1.6e9 + place * DAY_S, imported_by="ann"))

        await store.write(work)
        flat = await _relevance(store, "heron")
        decayed = await _relevance(store, "heron", hop_decay=True)
        assert next(iter(flat)) == next(iter(decayed)) == "heron nests"
        assert flat["alpha"] == pytest.approx(flat["delta"], rel=1e-3)
        # Alpha went before the hit by two hops (backward: 0.8), delta followed it by two (forward: whole).
        assert decayed["gamma"] == pytest.approx(flat["gamma"])
        assert decayed["delta"] == pytest.approx(flat["delta"])
        assert decayed["beta"] < flat["beta"] and decayed["alpha"] < flat["alpha"]
        assert decayed["alpha"] / flat["alpha"] < decayed["beta"] / flat["beta"]

    async def test_a_helper_s_memory_says_less_across_its_edge(self, store: Store) -> None:
        async def work(tx: Tx) -> None:
            for place, (agent, summary) in enumerate(
                (("CLAUDE", "alpha"), ("CLAUDE.1", "heron nests"), ("CLAUDE.1", "beta"))
            ):
                told = Experience("message", summary)
                await keep(tx, NewMemory(told, agent, "s", 1.6e9 + place, imported_by="ann"))

        await store.write(work)
        flat = await _relevance(store, "heron", hop_decay=False)
        decayed = await _relevance(store, "heron", hop_decay=True)
        assert decayed["alpha"] < flat["alpha"], "over the brief edge"

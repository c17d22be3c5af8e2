"""Which pairs are one advisory, and who steers for whom."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from relay.airspace.advisories.rules.grouping import (
    Contact,
    Priority,
    group,
    latch_order,
    roles,
)
from relay.airspace.readings import Level
from relay.model.working_set import Pair

TRAFFIC, RESOLUTION = Level.TRAFFIC, Level.RESOLUTION


def contacts(**pairs: str) -> dict[Pair, Contact]:
    """AB="f g" is a pair at a resolution with these files; in lower case (`ab`), at traffic."""
    return {
        (name[0].upper(), name[1].upper()): Contact(
            RESOLUTION if name.isupper() else TRAFFIC, 0.8 if name.isupper() else 0.4, tuple(files.split())
        )
        for name, files in pairs.items()
    }


def made(
    found: dict[Pair, Contact], standing: dict[str, frozenset[Pair]] | None = None
) -> list[tuple[str | None, str]]:
    return [
        (one.id, " ".join("".join(pair) for pair in one.contacts)) for one in group(found, standing or {})
    ]


def test_agents_in_one_file_are_one_advisory() -> None:
    assert made(contacts(AB="f", AC="f", BC="f")) == [(None, "AB AC BC")]


def test_a_hub_is_one_advisory_too() -> None:
    assert made(contacts(AB="hub b", AC="hub c", AD="hub d")) == [(None, "AB AC AD")]


def test_pairs_in_other_files_or_without_a_common_agent_are_their_own() -> None:
    assert made(contacts(AB="f", CD="f")) == [(None, "AB"), (None, "CD")]
    assert made(contacts(AB="f", BC="g")) == [(None, "AB"), (None, "BC")]
    assert made(contacts(AB="", BC="")) == [(None, "AB"), (None, "BC")]


def test_a_chain_of_different_files_is_not_one_advisory() -> None:
    assert made(contacts(AB="f", BC="f g", CD="g h", DE="h")) == [(None, "AB BC"), (None, "CD DE")]


def test_an_advisory_grows_by_who_joins_its_file() -> None:
    found = group(contacts(AB="f", AC="f", BC="f", XY="f"), {"1": {("A", "B")}})
    assert [(one.id, sorted(one.contacts)) for one in found] == [
        ("1", [("A", "B"), ("A", "C"), ("B", "C")]),
        (None, [("X", "Y")]),
    ]
    latched = (Priority("B"), Priority("A"))
    assert [one.agent for one in latch_order(latched, found[0].agents, {})] == ["B", "A", "C"]


def test_a_standing_advisory_without_a_pair_is_given_empty() -> None:
    assert [(one.id, dict(one.contacts)) for one in group({}, {"1": {("A", "B")}})] == [("1", {})]


def test_right_of_way() -> None:
    places = {
        "A": Priority("A", 0, 50.0),
        "B": Priority("B", 3, 90.0),
        "C": Priority("C", 0, 10.0),
        "D": Priority("D", 0, 0.0),
        "E": Priority("E", 0, 10.0),
    }
    assert [one.agent for one in latch_order((), "ABCDE", places)] == ["B", "C", "E", "A", "D"]


def test_what_is_committed_later_does_not_turn_it_round() -> None:
    first = latch_order((), "AB", {"A": Priority("A", 1), "B": Priority("B", 0)})
    assert [
        one.agent for one in latch_order(first, "AB", {"A": Priority("A", 1), "B": Priority("B", 9)})
    ] == ["A", "B"]


def test_one_holds_and_the_others_steer_in_order() -> None:
    order = [Priority("C"), Priority("A"), Priority("B")]
    found = roles(order, contacts(AB="f", AC="f g", BC="f"))
    assert (found.agents, found.hold, found.steer) == (("C", "A", "B"), ("C",), ("A", "B"))
    assert found.off == {"A": ("f", "g"), "B": ("f",)}


def test_who_is_only_near_neither_holds_nor_steers() -> None:
    found = roles([Priority("A"), Priority("B"), Priority("C")], contacts(AB="f", ac="f"))
    assert (found.agents, found.hold, found.steer) == (("A", "B", "C"), ("A",), ("B",))
    assert (found.near, found.ahead) == (("C",), {"B": ("A",)})


def test_who_is_only_near_is_ahead_of_nobody() -> None:
    found = roles([Priority("A"), Priority("B"), Priority("C")], contacts(ab="f", ac="f", BC="f"))
    assert (found.hold, found.steer, found.near) == (("B",), ("C",), ("A",))
    assert (found.off, found.ahead) == ({"C": ("f",)}, {"C": ("B",)})
    (one,) = group(contacts(ab="f", ac="f", BC="f"), {})
    assert one.agents == {"A", "B", "C"} and one.resolved == {"B", "C"}


_NAMES = "ABCDEF"
_PAIRS = [(a, b) for a in _NAMES for b in _NAMES if a < b]
_CONTACTS = st.dictionaries(
    st.sampled_from(_PAIRS),
    st.builds(
        Contact,
        st.sampled_from([TRAFFIC, RESOLUTION]),
        st.floats(0.35, 1.0),
        st.lists(st.sampled_from("fgh"), unique=True, max_size=3).map(tuple),
    ),
)
_PLACES = st.fixed_dictionaries(
    {name: st.builds(Priority, st.just(name), st.integers(0, 2), st.integers(0, 2)) for name in _NAMES}
)


@given(_CONTACTS, _PLACES, st.randoms(use_true_random=False))
def test_groups_and_orders_do_not_depend_on_the_order_given(
    found: dict[Pair, Contact], places: dict[str, Priority], rng: random.Random
) -> None:
    shuffled = list(found.items())
    rng.shuffle(shuffled)
    mixed_places = list(places.items())
    rng.shuffle(mixed_places)
    one, other = group(found, {}), group(dict(shuffled), {})
    assert one == other
    for a, b in zip(one, other, strict=True):
        agents = list(b.agents)
        rng.shuffle(agents)
        assert latch_order((), a.agents, places) == latch_order((), agents, dict(mixed_places))


@given(_CONTACTS, _PLACES)
def test_every_pair_is_in_one_group_and_exactly_one_of_it_steers(
    found: dict[Pair, Contact], places: dict[str, Priority]
) -> None:
    groups = group(found, {})
    assert sorted(pair for one in groups for pair in one.contacts) == sorted(found)
    for one in groups:
        order = latch_order((), one.agents, places)
        told = roles(order, one.contacts)
        names = [place.agent for place in order]
        for pair, contact in one.contacts.items():
            if contact.level is RESOLUTION:
                first, last = sorted(pair, key=names.index)
                assert last in told.steer and set(contact.files) <= set(told.off[last])
                assert first in told.hold or first in told.steer
                assert first in told.ahead[last]
        assert not set(told.hold) & set(told.steer)
        assert set(told.hold) | set(told.steer) == one.resolved
        assert all(set(ahead) <= one.resolved for ahead in told.ahead.values())


@given(_CONTACTS, _CONTACTS, _PLACES)
def test_a_latched_order_only_grows(
    before: dict[Pair, Contact], after: dict[Pair, Contact], places: dict[str, Priority]
) -> None:
    standing = {str(at): one for at, one in enumerate(group(before, {}))}
    latched = {id: latch_order((), one.agents, places) for id, one in standing.items()}
    changed = {name: Priority(name, 9 - place.committed, 0.0) for name, place in places.items()}
    for one in group(after, {id: list(one.contacts) for id, one in standing.items()}):
        if one.id is not None:
            grown = latch_order(latched[one.id], one.agents, changed)
            assert grown[: len(latched[one.id])] == latched[one.id]

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.memory.experience import Experience, only_asks

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b", 1.0]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=4,
)
TOLD = st.builds(
    Experience,
    st.just("e"),
    st.just("s"),
    st.lists(VALUES, max_size=3).map(tuple),
    st.sampled_from([None, "success", "failure"]),
    st.lists(st.sampled_from("abc"), max_size=3, unique=True).map(tuple),
    st.lists(st.sampled_from("abc"), max_size=3, unique=True).map(tuple),
)


def written(value: object) -> str:
    """`True`, `1` and `1.0` differ here; the order of an object's keys does not count."""
    return json.dumps(value, sort_keys=True)


@given(TOLD, TOLD)
def test_joining_loses_nothing(one: Experience, two: Experience) -> None:
    both = one.joined(two)
    told = [written(value) for value in both.details]
    assert all(written(value) in told for value in (*one.details, *two.details))
    assert len(set(told)) == len(told)
    assert {*both.lessons} == {*one.lessons, *two.lessons}
    assert both.lessons[: len(one.lessons)] == one.lessons
    assert {*both.tags} == {*one.tags, *two.tags}
    if one.outcome not in (None, both.outcome):
        assert {"outcome": one.outcome} in both.details
    assert both.outcome == (two.outcome or one.outcome)


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("@ALFA which puffin ports do we use in salt water?", True),
        ("Why? Is it src/app.py?\n\nOr (perhaps) the lock?)  :-)", True),
        ("どの港を使いますか？いつですか？", True),
        ("@ALFA write the puffin test, please. Run it.\n\nDoes it pass?", True),
        ("@ALFA @BETA: now please fix the ports", True),
        ("write the puffin test", False),
        ("@ALFA write no puffin test: never mock the clock", False),
        ("@ALFA fix the ports because they leak", False),
        ("@ALFA the ports leak", False),
        ("We use puffin ports in salt water.", False),
        ("We use puffin ports. Do you agree?", False),
        ("Which of these?\n- puffin\n- gull", False),
        ("see https://example.org/?a=1 for why", False),
        ("?", False),
        ("", False),
    ],
)
def test_what_only_asks(text: str, asks: bool) -> None:
    assert only_asks(text) is asks
    assert Experience("message", text).only_asks is asks


def test_what_came_out_or_taught_something_is_no_question() -> None:
    asked = "Which ports do we use?"
    assert Experience("message", asked, (f"{asked}\n\nIn salt water?",)).only_asks
    assert not Experience("message", asked, (f"{asked}\n\nPuffin, I think.",)).only_asks
    assert not Experience("message", asked, ({"files": ["a"]},)).only_asks
    assert not Experience("task", asked, outcome="success").only_asks
    assert not Experience("message", asked, lessons=("puffin",)).only_asks

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.memory import relevance
from relay.memory.experience import Experience
from relay.memory.relevance import BADLY, HALF_LIFE_S, PARTLY, WELL, decay, question, text_score


@pytest.mark.parametrize(
    ("asked", "words", "phrases"),
    [
        ("Fix the login", ("fix", "login"), ()),
        ("src/app.py", ("src", "app", "py"), ("src app py",)),
        ("call get_user()", ("call", "get", "user"), ("get user",)),
        ("getUserName", ("getusername",), ("get User Name",)),
        ("a AND b* OR NEAR(c) -d", ("b", "near", "c", "d"), ("NEAR c",)),
        ('"; DROP', ("drop",), ()),
        ("Pru\u0308fe die Maße", ("prüfe", "maße"), ()),
        ("what is it", ("what", "is", "it"), ()),
        ("???", (), ()),
    ],
)
def test_questions(asked: str, words: tuple[str, ...], phrases: tuple[str, ...]) -> None:
    assert question(asked) == relevance.Question(words, phrases)


@pytest.mark.parametrize(
    ("outcome", "lessons", "factor"),
    [
        ("success", (), WELL),
        (" Fixed ", (), WELL),
        ("partial", (), PARTLY),
        (None, (), PARTLY),
        ("as the wind blows", (), PARTLY),
        ("failure", (), BADLY),
        ("failure", ("why",), PARTLY),
    ],
)
def test_outcomes(outcome: str | None, lessons: tuple[str, ...], factor: float) -> None:
    assert relevance.outcome_factor(Experience("e", "s", outcome=outcome, lessons=lessons)) == factor


def test_relevance_halves_in_a_month() -> None:
    assert [decay(-5.0), decay(0), decay(HALF_LIFE_S), decay(3 * HALF_LIFE_S)] == [1, 1, 0.5, 0.125]


@given(st.integers(1, 32), st.integers(1, 32), st.floats(0, 1e3), st.floats(0, 1e3))
def test_a_text_score_is_a_share(covered: int, words: int, rank: float, best: float) -> None:
    assert 0 < text_score(covered, words, rank, best) <= 1


@given(st.integers(0, 7), st.floats(0, 10))
def test_more_of_what_was_asked_is_never_less(covered: int, rank: float) -> None:
    assert text_score(covered, 8, rank, 10) <= text_score(covered + 1, 8, rank, 10)


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

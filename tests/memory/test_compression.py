"""How a working memory is made to fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.memory.compression import Note, due, fitted, fixed, picked, tokens, total

PROSE = (
    "The parser lives in src/parse.py and reads one line at a time. It was slow on large files. We looked at the "
    "profile for a while. Then we decided to read blocks of 64 KB because the calls were the cost. Lunch was good. "
    "The test tests/test_parse.py::test_blocks fails with IndexError at line 212. Next: fix the last block. "
)


def note(place: int, content: str, *, critical: bool = False, compressed: bool = False) -> Note:
    return Note(f"k{place}", place, content, critical, compressed, place, f"e{place}")


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("äöü", 3), ("ab漢字", 3)]
)
def test_tokens_are_an_estimate_by_characters(text: str, count: int) -> None:
    assert tokens(text) == count


def test_what_fits_stays_as_it_is() -> None:
    notes = [note(1, PROSE), note(2, "short")]
    assert fitted(notes, 10_000) == notes
    assert due(notes, 10_000) == []


def test_the_older_gives_way_first_and_no_more_than_has_to() -> None:
    notes = [note(at, PROSE) for at in range(1, 6)]
    after = fitted(notes, 330)
    assert [each.key for each in after] == [each.key for each in notes]
    assert total(after) <= 330
    assert after[0].compressed and not after[3].compressed
    assert after[4].content == PROSE


def test_what_says_most_is_kept_in_its_order_with_gaps() -> None:
    short = picked(PROSE, 60)
    assert "src/parse.py" in short or "decided" in short
    assert "Lunch" not in short
    assert "…" in short and tokens(short) <= 60
    sentences = [part.strip("… ") for part in short.split("\n")]
    places = [PROSE.index(part) for part in sentences]
    assert places == sorted(places)
    assert picked("x" * 5000, 10).startswith("xxx") and tokens(picked("x" * 5000, 10)) <= 10
    assert picked("", 10) == ""


def test_a_models_summary_is_taken_only_where_it_is_shorter() -> None:
    notes = [note(1, PROSE), note(2, PROSE), note(3, PROSE)]
    after = fitted(notes, 200, {"e1": "Blocks of 64 KB.", "e2": PROSE * 2})
    assert after[0].content == "Blocks of 64 KB."
    assert after[1].compressed and after[1].content != PROSE * 2
    assert total(after) <= 200


def test_what_stays_word_for_word_is_never_too_much() -> None:
    with pytest.raises(ValueError, match="above the budget"):
        fitted([note(1, PROSE, critical=True), note(2, PROSE)], 120)


WORDS = st.text(alphabet="ab c.\n/ä漢", max_size=300)


@given(
    st.lists(st.tuples(WORDS, st.booleans(), st.booleans()), min_size=1, max_size=12),
    st.integers(min_value=1, max_value=200),
    st.dictionaries(st.sampled_from([f"e{at}" for at in range(12)]), WORDS),
)
def test_it_fits_and_keeps_what_must_stay(
    told: list[tuple[str, bool, bool]], budget: int, short: dict[str, str]
) -> None:
    notes = [note(at, text, critical=crit, compressed=comp) for at, (text, crit, comp) in enumerate(told)]
    stays = fixed(notes)
    if total(stays) > budget:
        return
    after = fitted(notes, budget, short)
    assert total(after) <= budget
    assert [each.place for each in after] == [each.place for each in notes]
    for each in stays:
        assert each in after
    for before, now in zip(notes, after, strict=True):
        assert now == before or (now.compressed and now.tokens < before.tokens)
    assert fitted(after, budget) == after

"""The snippet of a search: the hits, and the words around them."""

from __future__ import annotations

import pytest

from relay.room.parsing.search_snippet import WORDS, folded, snippet

FILLER = " ".join(f"w{number}" for number in range(100))


def shown(text: str) -> str:
    """The snippet's marks as brackets, so that a table of them can be read."""
    return text.replace("\x01", "<").replace("\x02", ">")


@pytest.mark.parametrize(
    ("body", "words", "wanted"),
    [
        ("a needle in haystack 7", ["need", "HAYSTACK"], "a <needle> in <haystack> 7"),
        ("(see foo.py, foo py and foobar)", ["foo.p"], "(see <foo.py>, <foo py> and foobar)"),
        ("Ein Café, ein Cafe\u0301, ein CAFÉS", ["cafe"], "Ein <Café>, ein <Cafe\u0301>, ein <CAFÉS>"),
        ("Москва и Ωμέγα", ["МОСК", "ωμεγα"], "<Москва> и <Ωμέγα>"),
        ("x_y e-mail preneedle", ["needle", "y", "mail"], "x_<y> e-<mail> preneedle"),
        ("need needles needle", ["need", "needle"], "<need> <needles> <needle>"),
        ("*.* [a-z]+ and more", ["[a-z]+"], "*.* [<a-z>]+ and more"),
        ("nothing here is asked for", ["..."], "nothing here is asked for"),
        ("", ["needle"], ""),
        ("!!!", ["!"], "!!!"),
    ],
)
def test_what_is_looked_for_is_marked_and_nothing_else(body: str, words: list[str], wanted: str) -> None:
    assert shown(snippet(body, words)) == wanted


@pytest.mark.parametrize(
    "body",
    [f"needle {FILLER}", f"{FILLER} needle {FILLER}", f"{FILLER} needle", f"{FILLER}\n{FILLER} näedle!"],
)
def test_a_long_entry_is_cut_around_the_hit(body: str) -> None:
    told = snippet(body, ["naedle", "needle"])
    assert told.count("\x01") == told.count("\x02") == 1
    plain = told.replace("\x01", "").replace("\x02", "")
    assert plain.strip("…") in body
    assert len(plain.strip("…").split()) == WORDS
    assert (plain.startswith("…"), plain.endswith("…")) == (
        not body.startswith(plain[:5]),
        not body.endswith(plain[-5:]),
    )


def test_the_place_with_the_most_of_what_was_asked_is_shown() -> None:
    body = f"needle {FILLER} needle in the hay {FILLER}"
    assert "\x01needle\x02 in the \x01hay\x02" in snippet(body, ["needle", "hay"])


def test_folding_keeps_every_place() -> None:
    text = "".join(map(chr, [*range(0x20, 0xD800), 0x1F680, 0x10FFFF]))
    assert len(folded(text)) == len(text)

"""What is code and what is prose, by CommonMark's rules: in each case `X` stands where the letter must vanish
and `o` where it must stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.room.parsing.markdown import prose


@pytest.mark.parametrize(
    ("why", "body"),
    [
        ("plain text", "o o"),
        ("a span", "o `X` o"),
        ("a span of two holds one", "o ``X ` X`` o"),
        ("an unequal run does not close", "o ``o` o"),
        ("a lone run is text", "o ` o"),
        ("a span runs over a line break", "o `X\nX` o"),
        ("a span ends with its paragraph", "o `o\n\no` o"),
        ("an escaped backtick opens nothing", r"o \`o` o"),
        ("a backslash does not keep a span open", r"o `X\` o"),
        ("the second backtick of an escaped pair opens", r"o \``X` o"),
        ("two backslashes escape each other", r"o \\`X` o"),
        ("a fence", "o\n```\nX\n```\no"),
        ("a fence with an info string", "```rust X\nX\n```\no"),
        ("tildes", "~~~\nX\n```\nX\n~~~\no"),
        ("a longer fence closes, a shorter one does not", "````\nX\n```\nX\n`````\no"),
        ("an unclosed fence goes to the end", "o\n```\nX\n\nX"),
        ("a closing fence has no info string", "```\nX\n``` X\nX\n```\no"),
        ("three backticks with one more in the line are a span", "```X``` o"),
        ("a fence may be indented by three", "   ```\nX\n   ```\no"),
        ("indented code", "o\n\n    X\n\no"),
        ("a tab indents", "\tX\no"),
        ("indented text continues a paragraph", "o\n    o"),
        ("indented code after a heading", "# o\n    X"),
        ("indented code after a rule", "---\n    X"),
        ("a paragraph in a list item", "- o\n\n    o"),
        ("code in a list item", "- o\n\n      X"),
        ("a numbered item needs three", "1. o\n\n   o\n\n       X"),
        ("nested items", "- o\n  - o\n\n    o\n    - o\n\n          X"),
        ("an item that stays empty ends", "-\n\n    X"),
        ("a fence in an item", "- ```\n  X\n  ```\n  o"),
        ("a fence ends with its item", "- ```\n  X\no"),
        ("a quote is text", "> o"),
        ("a fence in a quote ends with it", "> ```\n> X\no"),
        ("a fence in a quote closes", "> ```\n> X\n> ```\n> o"),
        ("code in a quote", ">     X\n> o"),
        ("a blank line ends a quote", "> o\n\n    X"),
        ("a year is no list", "o in\n1984. o\n\n    X"),
        ("carriage returns", "o\r\n```\r\nX\r\n```\r\no"),
    ],
)
def test_code_vanishes_and_prose_stays(why: str, body: str) -> None:
    seen = prose(body)
    assert len(seen) == len(body), why
    assert "X" not in seen, why
    assert seen.count("o") == body.count("o"), why


@given(st.text(alphabet="`~ \n\t>-1.#ao\\@", max_size=200))
def test_only_code_changes_and_only_into_blanks(body: str) -> None:
    seen = prose(body)
    assert len(seen) == len(body)
    for before, after in zip(body, seen, strict=True):
        assert after in (before, " ")
    assert [c for c in seen if c in "\r\n"] == [c for c in body if c in "\r\n"]


@given(st.text(alphabet="ab @\n.,!", max_size=100).filter(lambda s: "    " not in s))
def test_text_without_code_is_itself(body: str) -> None:
    assert prose(body) == body

"""A line within the width of a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.faces.terminal.text import Fragments
from relay.faces.terminal.wrap import cropped, wrapped


def plain(lines: list[Fragments]) -> list[str]:
    return ["".join(piece for _, piece in line) for line in lines]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ([("", "every message can be searched")], ["every message can be", "  searched"]),
        ([("", "exactly twenty signs")], ["exactly twenty signs"]),
        ([("", "  "), ("", "• "), ("bold", "many words of a list")], ["  • many words of a", "    list"]),
        (
            [("", "see https://a.example/very/long/path now")],
            ["see", "  https://a.example/", "  very/long/path now"],
        ),
        (
            [("class:bar", "│ "), ("class:code", "x = a_long_line_of_code(with, words)")],
            ["│ x = a_long_line_of", "│ _code(with, words)"],
        ),
        # A word that looks like several, so that the terminal would begin a line with what seems another's.
        ([("", "x" * 20 + "14:17\u00a0ANN:\u00a0yes")], ["x" * 20, "  14:17\u00a0ANN:\u00a0yes"]),
        ([("", "Umläute 漢字漢字 漢字漢字")], ["Umläute 漢字漢字", "  漢字漢字"]),
        ([("", "")], [""]),
    ],
)  # fmt: skip
def test_a_line_is_broken_between_words(line: Fragments, shown: list[str] | None) -> None:
    found = wrapped(line, 20)
    assert plain(found) == shown


@given(st.text("ab ", max_size=200), st.integers(10, 40))
def test_no_word_is_lost_and_no_line_is_wider(text: str, columns: int) -> None:
    found = plain(wrapped([("", text[:50]), ("bold", text[50:])], columns))
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(len(one) <= columns for one in found)
    assert all(one.startswith("  ") for one in found[1:])


def test_what_is_cut_has_a_sign() -> None:
    parts: Fragments = [("", " ● live "), ("bold", "CLAUDE"), ("", " ready and more")]
    assert plain([cropped(parts, 16)]) == [" ● live CLAUDE …"]
    assert cropped(parts, 80) == parts

"""What a client may send as comments, and where they stand; pure."""

from __future__ import annotations

from typing import Any

import pytest

from relay.app.review.comments import (
    MOST_LINES,
    Comment,
    Wanted,
    lines_of,
    place,
    quote,
    replaced,
    said,
    wanted,
)
from relay.model import Refusal

GOOD: dict[str, Any] = {"path": "a.py", "first": 2, "text": "why?"}


def test_what_is_left_out_has_its_default() -> None:
    (ask,) = wanted([GOOD])
    assert ask == Wanted("a.py", "new", 2, 2, "", "why?", None)
    (ask,) = wanted([{**GOOD, "last": 4, "blob": "abcd1234", "text": "", "suggestion": "x\n\n"}])
    assert (ask.last, ask.blob, ask.suggestion) == (4, "abcd1234", ("x", ""))
    assert wanted([{**GOOD, "suggestion": ""}])[0].suggestion == ()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"path": ""}, "unusable path"),
        ({"path": "a\0b"}, "unusable path"),
        ({"path": 7}, "no text as its path"),
        ({"path": "\ud800"}, "no text as its path"),
        ({"first": 0}, "no line number as its first"),
        ({"first": True}, "no line number as its first"),
        ({"first": None}, "no line number as its first"),
        ({"first": 3, "last": 2}, "the lines 3 to 2"),
        ({"first": 1, "last": MOST_LINES + 1}, f"the lines 1 to {MOST_LINES + 1}"),
        ({"side": "both"}, "the side 'both'"),
        ({"side": "old", "suggestion": "x"}, "suggests lines for what was there before"),
        ({"blob": "HEAD"}, "no blob of git"),
        ({"blob": "--all"}, "no blob of git"),
        ({"text": "  "}, "says nothing"),
        ({"text": "x" * 20_001}, "20001 characters"),
        ({"suggestion": "x\n" * (MOST_LINES + 1)}, f"suggests {MOST_LINES + 1} lines"),
        ({"lines": ["made up"]}, "the unknown field lines"),
    ],
)
def test_a_wrong_comment_is_named_with_what_is_wrong(change: dict[str, Any], what: str) -> None:
    with pytest.raises(Refusal) as refused:
        wanted([GOOD, {**GOOD, **change}])
    assert what in refused.value.message and refused.value.message.startswith("Comment 2 ")
    assert refused.value.details["comment"] == 1 and refused.value.fix


def test_too_many_none_and_no_object_are_refused() -> None:
    for values in ([], [GOOD] * 101, ["a.py"], [None]):
        with pytest.raises(Refusal):
            wanted(values)


def test_lines_are_where_they_were_or_at_the_one_other_place() -> None:
    quoted = ("b", "c")
    assert place(["a", "b", "c"], quoted, 2) == 2
    assert place(["x", "y", "a", "b", "c"], quoted, 2) == 4
    assert place(["b", "c", "b", "c"], quoted, 9) is None and place(["b", "c", "b", "c"], quoted, 3) == 3
    assert (
        place(["a", "b", "x"], quoted, 2) is None
        and place([], quoted, 1) is None
        and place(["a"], (), 1) is None
    )


def test_replaced_lines_have_the_ends_of_the_file() -> None:
    assert replaced("a\nb\nc\n", 2, 1, ["x", "y"]) == "a\nx\ny\nc\n"
    assert replaced("a\r\nb\r\nc\r\n", 2, 1, ["x"]) == "a\r\nx\r\nc\r\n"
    assert replaced("a\nb", 2, 1, ["x"]) == "a\nx" and replaced("a\nb\n", 1, 2, []) == ""
    assert replaced("a\r\nc\r\n", 2, 0, ["b"]) == "a\r\nb\r\nc\r\n"
    assert lines_of("a\r\n\r\n") == ("a\r", "\r") and lines_of("") == ()


def test_the_message_quotes_each_comment_and_nothing_in_it_ends_a_block() -> None:
    text = "x = '''\n```\n'''\n"
    comment = quote(0, Wanted("a `b`.py", "new", 1, 3, "", "Why?", ("```",)), "f" * 40, text)
    told = said(
        [comment, Comment("c", "old", 1, 1, "0" * 40, ("gone",), "", ())], "tw/ann/ava", "c" * 40, dirty=True
    )
    assert told.startswith("2 comments on `tw/ann/ava` at cccccccccccc and what is not committed yet:")
    assert "````py\nx = '''\n```\n'''\n````" in told and "````suggestion\n```\n````" in told
    assert "lines 1-3 (blob ffffffffffff)" in told and "line 1, as it was before the change" in told
    assert told.endswith("Suggested: take these lines out.")
    with pytest.raises(Refusal, match=r"line 4 of a\.py, which has 3"):
        quote(0, Wanted("a.py", "new", 4, 4, "", "x", None), "f" * 40, text)

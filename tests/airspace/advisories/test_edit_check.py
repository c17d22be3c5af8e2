"""The guard's look ahead: line by line against what difflib and a real edit give."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.airspace.advisories.rules.edit_check import check_edit, to_base, touches
from relay.model.working_set import Change, FileTouch, Span, WorkingSet

PATH = "src/a.py"


def work(agent: str, *spans: tuple[int, int, int], committed: float = 0.0, path: str = PATH) -> WorkingSet:
    lines = tuple(Span(start, end, new_count=count) for start, end, count in spans)
    return WorkingSet(agent, (FileTouch(path, lines=lines),) if lines else (), committed=committed)


@pytest.mark.parametrize(
    ("why", "one", "other", "touching"),
    [
        ("the same line", (5, 5), (5, 5), True),
        ("neighbours: no unchanged line between", (5, 5), (6, 9), True),
        ("one line between", (5, 5), (7, 9), False),
        ("an insertion before a changed line", (5, 4), (5, 8), True),
        ("an insertion after a changed line", (9, 8), (5, 8), True),
        ("an insertion a line further on", (10, 9), (5, 8), False),
        ("two insertions at one place", (5, 4), (5, 4), True),
        ("two insertions a line apart", (5, 4), (6, 5), False),
    ],
)
def test_what_touches(why: str, one: tuple[int, int], other: tuple[int, int], touching: bool) -> None:
    assert touches(Span(*one), Span(*other)) is touches(Span(*other), Span(*one)) is touching, why


def test_only_the_one_that_would_steer_is_stopped() -> None:
    ava, ben = work("AVA", (30, 33, 5), committed=1), work("BEN")
    found = check_edit(ben, [ava, ben], PATH, (34, 34))
    assert found is not None
    assert (found.agent, found.evidence.text) == ("AVA", "AVA has changed lines 30-33 of src/a.py")
    assert check_edit(ava, [ava, work("BEN", (10, 12, 3))], PATH, (11, 11)) is None
    assert check_edit(ben, [ava, ben], PATH, (36, 40)) is None
    assert check_edit(ben, [ava, ben], "src/b.py", (30, 33)) is None


def test_a_file_of_its_own_has_no_base() -> None:
    new = WorkingSet("BEN", (FileTouch(PATH, Change.ADDED),))
    assert check_edit(new, [work("AVA", (1, 9, 9), committed=1)], PATH, (1, 2)) is None


@given(st.data())
def test_lines_come_back_to_where_they_were(data: st.DataObject) -> None:
    """Any edit of a file, asked for line by line: an unchanged line is its own base line."""
    base = [f"{n}\n" for n in range(1, data.draw(st.integers(1, 30)) + 1)]
    now = list(base)
    for step in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(now)))
        end = data.draw(st.integers(at, min(len(now), at + 4)))
        now[at:end] = [f"new {step} {n}\n" for n in range(data.draw(st.integers(0, 4)))]
    blocks = difflib.SequenceMatcher(None, base, now, autojunk=False).get_opcodes()
    spans = tuple(Span(a + 1, b, new_count=d - c) for tag, a, b, c, d in blocks if tag != "equal")
    touch = FileTouch(PATH, lines=spans)
    for tag, a, b, c, d in blocks:
        for line in range(c + 1, d + 1):
            found = to_base(touch, (line, line))
            assert found is not None
            expected = (a + 1 + line - c - 1,) * 2 if tag == "equal" else (a + 1, b)
            assert (found.start, found.end) == expected

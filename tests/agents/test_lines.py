from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relay.agents.process.lines import Lines


def test_a_line_beyond_the_limit_is_dropped_whole() -> None:
    lines = Lines(4)
    assert lines.feed(b"ab") == []
    assert lines.feed(b"cde\nok\r\n") == ["ok"]
    assert lines.feed(b"12345\n1234\n") == ["1234"]
    assert lines.dropped == 2


def test_the_last_line_needs_no_end() -> None:
    lines = Lines(10)
    assert lines.feed(b"a\nb\xff") == ["a"]
    assert lines.end() == ["b�"]
    assert lines.end() == []


@given(st.text(), st.integers(1, 7))
def test_how_the_bytes_are_cut_is_of_no_matter(text: str, size: int) -> None:
    data = text.encode()
    lines = Lines(1_000_000)
    found: list[str] = []
    for start in range(0, len(data), size):
        found += lines.feed(data[start : start + size])
    found += lines.end()
    wanted = text.split("\n")
    if wanted[-1] == "":
        wanted.pop()
    assert found[:-1] == [line.rstrip("\r") for line in wanted[:-1]]
    assert [line.rstrip("\r") for line in found] == [line.rstrip("\r") for line in wanted]

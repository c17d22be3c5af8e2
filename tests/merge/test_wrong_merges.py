"""Merges that once came out wrong without a word: each is right now, or a conflict."""

from __future__ import annotations

from relay.merge import worker
from relay.merge.text.file_merge import merge_file
from relay.merge.text.git_text import GitText, marker_size


def test_each_line_keeps_its_end_where_a_file_has_both(git: GitText) -> None:
    base = b"a = 1\r\nb = 2\r\nc = 3\nd = 4\ne = 5\n"
    merged = merge_file(git, base, base.replace(b"3", b"33"), base.replace(b"4", b"44"), "a.py")
    assert merged.data == base.replace(b"3", b"33").replace(b"4", b"44")


def test_lines_that_look_like_markers_are_text(git: GitText) -> None:
    """A heading in a text is underlined by as many signs as a marker has, or more."""
    size = marker_size([b"=" * 61 + b"\n", b"a\n" + b"<" * 62], 61)
    assert size == 63
    for many in (47, 61, 70):
        base, ours, theirs = (
            f"{name}\n{'=' * many}{end}\n{name}\n".encode()
            for name, end in (("Head", ""), ("A", "=="), ("B", "==="))
        )
        asked = {"path": "a.rst", "timeout_s": 0, "ladder": True}
        said, _ = worker._answer(git, asked, [base, ours, theirs])
        part = said["parts"][0]
        assert [part[side].encode() for side in ("base", "ours", "theirs")] == [base, ours, theirs]
        alone = merge_file(git, base, ours, theirs, "a.rst", ladder=False)
        assert alone.data == (
            b"<<<<<<< ours\n" + ours + b"||||||| base\n" + base + b"=======\n" + theirs + b">>>>>>> theirs\n"
        )
        assert alone.conflicts[0].lines == (1, 13)

"""git for texts, once a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import dedent

import pytest

from relay.merge.text.git_text import GitText, git_text
from relay.merge.text.ladder import Merged, merge_text
from tests.merge.place import open_place

__all__ = ["open_place"]

Merge = Callable[..., Merged]


@pytest.fixture(scope="session")
def git() -> Iterator[GitText]:
    with git_text() as made:
        yield made


@pytest.fixture
def merge(git: GitText) -> Merge:
    """Merge three texts, given with the indentation of the test, both ways round."""

    def merged(base: str, ours: str, theirs: str, path: str = "a.py") -> Merged:
        texts = [dedent(text).lstrip("\n") for text in (base, ours, theirs)]
        one = merge_text(git, texts[0], texts[1], texts[2], path)
        other = merge_text(git, texts[0], texts[2], texts[1], path)
        assert one.clean == other.clean
        if one.clean:
            assert one.text == other.text
        return one

    return merged

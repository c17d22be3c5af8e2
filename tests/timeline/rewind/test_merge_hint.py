"""What is said of a branch that a rewind or its undo wrote."""

from __future__ import annotations

from relay.timeline.rewind.history import REWOUND, UNDONE
from relay.timeline.rewind.wording import merge_hint


def test_an_undo_on_a_branch_brings_back() -> None:
    assert merge_hint("rw/ava-1", REWOUND).endswith("merge `rw/ava-1` to take it out there.")
    assert merge_hint("rw/ava-2", UNDONE).endswith("merge `rw/ava-2` to bring it back.")
    assert merge_hint("main", UNDONE) == ""

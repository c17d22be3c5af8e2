"""The configuration of merging (`merge`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from relay.config.checks import setting

Ladder = Literal["on", "git"]


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """How two agents' work is joined, and what is run to see whether it still works."""

    ladder: Ladder = setting(
        "`on` = what git's text merge leaves is joined by imports, added definitions and entities where that is "
        "safe; `git` = git's own answer stands",
        "on",
    )
    timeout_ms: int = setting(
        "milliseconds for the merge of one file; beyond them git's own answer stands",
        2000,
        low=1,
        high=600_000,
    )
    check_timeout_s: float = setting(
        "seconds for a look at what one agent changes and another relies on across files, while both work; "
        "0 = nobody looks",
        20.0,
        low=0,
        high=600,
    )
    test: tuple[str, ...] = setting(
        "the program with its arguments that tests a merged tree, in an export of it; no shell reads it. "
        "[] = nothing is tested, and that is said",
        (),
        words=True,
    )
    test_timeout_s: float = setting(
        "seconds until the tests of a merged tree and all they started are ended", 600.0, low=1, high=86400
    )
    test_every_s: float = setting(
        "seconds between two rounds in which each two agents' work is merged and tested by `merge.test` while both "
        "work; 0 = never",
        0.0,
        low=0,
        high=86400,
    )

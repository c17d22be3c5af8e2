"""The turns that run now, as the timeline follows them: in which checkout, and what their tools say that they edit.

Invariant: turns in one checkout have one tree, that which the log last knew of it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from relay.airspace.worktrees.tracked_worktree import TrackedWorktree
from relay.git.snapshot import on_disk
from relay.model.touches import Source
from relay.room.dispatch.turns import Plan

#: When a file was changed last and what it is, as far as a look at its folder tells; None: it is not there.
Signature = tuple[int, int, int, int] | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A path that the turn says it edits. `looked`: was it looked at, and how was it on disk then?"""

    source: Source
    looked: bool = False
    signature: Signature = None


@dataclass(slots=True)
class WorkedCheckout:
    """A checkout in which turns run. `name`: as the log knows it; `tree`: as the log last knew it. `turns`: by agent,
    None = one that could not be followed. `among`: who may have written what the log does not know yet."""

    name: str
    tree: str = ""
    turns: dict[str, RunningTurn | None] = field(default_factory=dict)
    among: set[str] = field(default_factory=set)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class RunningTurn:
    """`began`: the tree that its checkout had. `heads`: what the worktree stands on, with what a merge under way
    brings; `base`: the newest commit of the main branch among what it has. `kept`: the last kept snapshot. `beside`:
    agents whose turns ran in the same checkout meanwhile. `has_ignored`: the tree has files that git ignores now."""

    plan: Plan
    worktree: TrackedWorktree
    checkout: WorkedCheckout
    began: str
    commits: tuple[str, ...]
    branch: str | None
    heads: tuple[str, ...]
    base: str | None
    claims: dict[str, Claim] = field(default_factory=dict)
    reads: dict[str, None] = field(default_factory=dict)
    #: What was read in this turn: paths with their blobs.
    known_reads: set[tuple[str, str]] = field(default_factory=set)
    kept: str | None = None
    beside: set[str] = field(default_factory=set)
    has_ignored: bool = False

    @property
    def agent(self) -> str:
        return self.plan.agent

    @property
    def tree(self) -> str:
        """Of the worktree, as the log last knew it."""
        return self.checkout.tree

    @property
    def waiting_elsewhere(self) -> set[str]:
        """What other turns in the same checkout say that they edit."""
        others = [turn for turn in self.checkout.turns.values() if turn is not None and turn is not self]
        return {path for turn in others for path in turn.claims}


def signatures(top: Path, paths: Sequence[str]) -> dict[str, Signature]:
    """How these files are on disk now. Blocking."""
    found = dict[str, Signature]()
    for path in paths:
        found[path] = None
        with suppress(OSError, ValueError):
            status = on_disk(top, os.fsencode(path)).lstat()
            found[path] = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
    return found

"""Worktrees as the doors show them (docs/airspace.md)."""

from __future__ import annotations

from typing import Any

from relay.airspace import diff
from relay.airspace.berth import Berth
from relay.airspace.git import GitError, name_of
from relay.airspace.hangar import Hangar
from relay.airspace.survey import Work

#: Bytes of a difference that a door shows.
MOST_DIFF = 1_048_576


def rows(hangar: Hangar) -> list[dict[str, Any]]:
    """One row for each worktree that was looked at."""
    return [_row(hangar, berth, berth.work) for berth in hangar.berths.values() if berth.work is not None]


def _row(hangar: Hangar, berth: Berth, work: Work) -> dict[str, Any]:
    return {
        "agent": berth.name,
        "path": str(berth.checkout.top),
        "branch": work.seen.head.branch,
        "base": work.base,
        "ahead": work.ahead,
        "behind": work.behind,
        "dirty": work.seen.dirty,
        "files": len(work.records),
        "insertions": work.insertions,
        "deletions": work.deletions,
        "own": berth.own,
        "working": berth.name in hangar.at_work,
        "merges": work.merges,
        "conflicts": list(work.conflicts),
        "left_out": list(work.seen.left_out),
    }


async def difference(hangar: Hangar, agent: str) -> dict[str, Any] | None:
    """What a worktree changes against its base, as it stands now; None: no such worktree. Raises GitError."""
    berth = hangar.berth(agent)
    if berth is None:
        return None
    berth.touched(None)
    await hangar.survey(berth)
    work = berth.work
    if work is None:
        raise GitError("diff", 1, berth.trouble or "the worktree was not looked at yet")
    text, truncated = await diff.unified(berth.camera.git, work.base, work.seen.tree, MOST_DIFF)
    files = []
    for one in work.records:
        hunks = work.hunks[one.old, one.new]
        files.append(
            {
                "path": name_of(one.last_path),
                "old_path": None if one.new_path is None else name_of(one.path),
                "change": str(one.change),
                "insertions": hunks.insertions,
                "deletions": hunks.deletions,
                "binary": hunks.binary,
            }
        )
    return {
        "agent": berth.name,
        "branch": work.seen.head.branch,
        "base": work.base,
        "diff": text,
        "files": files,
        "truncated": truncated,
    }

"""Worktrees as the doors show them (docs/airspace.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from relay.airspace.worktrees.merge_order import best
from relay.airspace.worktrees.registry import Hangar
from relay.airspace.worktrees.survey import Work
from relay.airspace.worktrees.tracked_worktree import Berth
from relay.git import diff
from relay.git.run import GitError, name_of
from relay.git.trial_merge import Trial, Verdict

#: Bytes of a difference that a door shows.
MOST_DIFF = 1_048_576


#: Pairs that git is asked about for one answer: at 20 ms each some 3 s on two cores; the rest with the next one.
MOST_PAIRS = 256


async def rows(
    hangar: Hangar,
    yields: Callable[[str, str], bool] = lambda one, other: False,
    decided: Collection[str] = (),
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """One row for each worktree that was looked at, and the order to merge them in (`order.best`)."""
    # Taken once: what is looked at meanwhile changes neither.
    seen = {name: (berth, berth.work) for name, berth in hangar.berths.items() if berth.work is not None}
    target = await hangar.target()
    trials = await hangar.trials(target)
    pairs = [pair for pair in hangar.pairs() if set(pair) <= seen.keys()]
    told = await hangar.merges(pairs, trials, most=MOST_PAIRS)
    collisions = {pair: merge.conflicts for pair, merge in told.items() if merge.conflicts}
    untried = [pair for pair in pairs if pair not in told]
    into = target.branch if target is not None else None
    found = []
    for name, (berth, work) in seen.items():
        trial = trials.get(name) or Trial(None)
        row = _row(hangar, berth, work, trial, into)
        row["collides"] = [
            {"agent": other, "paths": list(collisions[pair])} for pair, other in _partners(name, collisions)
        ]
        row["untried"] = [other for _, other in _partners(name, untried)]
        found.append(row)
    merging = [name for name in seen if name in trials and trials[name].verdict is Verdict.CLEAN]
    behind = [name for name in seen if name in trials and trials[name].conflicts]
    return found, [turn.as_json() for turn in best(merging, behind, collisions, yields, decided)]


def _partners(name: str, pairs: Iterable[tuple[str, str]]) -> list[tuple[tuple[str, str], str]]:
    """The pairs that `name` is in, with the other one, by the other one's name."""
    found = [(pair, pair[1] if pair[0] == name else pair[0]) for pair in pairs if name in pair]
    return sorted(found, key=lambda one: one[1])


def _row(hangar: Hangar, berth: Berth, work: Work, trial: Trial, into: str | None) -> dict[str, Any]:
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
        "into": into,
        "merges": trial.verdict and str(trial.verdict),
        "conflicts": list(trial.paths),
        "lines": {path: [list(one) for one in lines] for path, lines in trial.lines.items()},
        "left_out": list(work.seen.left_out),
        "unsettled": trial.unsettled,
        "merging": bool(work.seen.merging),
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
        raise GitError("diff", 1, berth.trouble or "the worktree has not been read yet")
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

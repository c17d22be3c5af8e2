"""Was it a true alarm? What git says decides, and what git was not asked is unknown.

- true: git could not merge the branches of one of its pairs, while the advisory was open or when one was merged, or
  the merge of one set the other back;
- averted: a resolution after which the steering agent left, and no conflict was ever seen;
- false: it ended without a conflict and without steering, and git merges its branches clean;
- open (null): it stands, or git could not be asked.

Invariant: precision = true / (true + false); averted ones are shown beside it and in neither, since what would
have happened cannot be known. Advisories that were never said do not count, nor those that no pair was ever part
of: that a branch does not merge into main is no forecast. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from relay.airspace.advisories.rules.advisory import Advisory, Outcome, Steering
from relay.model.working_set import Pair


def with_conflicts(advisory: Advisory, conflicts: Mapping[Pair, Sequence[str]]) -> Advisory:
    """The advisory after speculative merges of its pairs; an open one is true from the first conflict on."""
    if not advisory.pairs:
        return advisory
    if advisory.set_back:
        return replace(advisory, conflict=True, clean=False, outcome=Outcome.TRUE)
    asked = [conflicts[pair] for pair in advisory.pairs if pair in conflicts]
    if not advisory.contacts:
        # One of them may stand where the main branch does by now, with the work of others: only what it was about.
        asked = [[path for path in paths if path in advisory.files] for paths in asked]
    if any(asked):
        return replace(advisory, conflict=True, clean=False, outcome=Outcome.TRUE)
    if not advisory.contacts:
        # The branches may have ended since: the last look while they were there stands.
        return advisory if not asked else replace(advisory, clean=len(asked) == len(advisory.pairs) or None)
    return replace(advisory, clean=True if len(asked) == len(advisory.pairs) else None)


def on_close(advisory: Advisory) -> Advisory:
    """The outcome of an advisory that ends now."""
    if not advisory.pairs:
        return advisory
    if advisory.conflict:
        return replace(advisory, outcome=Outcome.TRUE)
    if advisory.steering is Steering.LEFT:
        return replace(advisory, outcome=Outcome.AVERTED)
    return replace(advisory, outcome=Outcome.FALSE if advisory.clean else None)


def at_merge(advisory: Advisory, agent: str, conflicts: Sequence[str]) -> Advisory:
    """The advisory after one of its agents' branches was merged into the main one, or could not be.

    Only a conflict in its files tells something of it; a clean merge tells nothing new.
    """
    named = {priority.agent for priority in advisory.latched}
    if agent not in named or not set(conflicts) & set(advisory.files):
        return advisory
    return replace(advisory, conflict=True, clean=False, outcome=Outcome.TRUE)


def precision(counts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """`{true, false, averted, open, useful, noise, n, precision, traffic: {...}}` from rows `{worst, outcome, mark,
    advisories}`. The top level counts the resolution advisories, `traffic` those that never were more; `n`: those
    that precision is of."""
    resolution: dict[str, Any] = dict.fromkeys(("true", "false", "averted", "open", "useful", "noise"), 0)
    traffic = dict(resolution)
    for row in counts:
        kind = resolution if row["worst"] == 2 else traffic
        kind[row["outcome"] or "open"] += row["advisories"]
        if row["mark"]:
            kind[row["mark"]] += row["advisories"]
    for kind in (resolution, traffic):
        sure = kind["true"] + kind["false"]
        kind |= {"n": sure, "precision": kind["true"] / sure if sure else None}
    return {**resolution, "traffic": traffic}

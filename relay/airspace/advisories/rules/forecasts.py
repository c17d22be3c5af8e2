"""What was foretold of a pair, and whether it came true: the look-aheads that were drawn, or told at an edit.

A look-ahead is open from the tick that first draws it until git says how it went:

- true: git cannot merge the two, while both have something in hand;
- false: the one was merged, or dropped its work, and git had merged both at the last look;
- unknown: git was not asked at the last look, or the end itself set the other one's work back.

Invariant: a pair has at most one open look-ahead. What git already cannot merge was not foretold. A look-ahead that
is no longer drawn stays open, since somebody was told of it. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from relay.git.trial_merge import Trial, Verdict
from relay.model.working_set import Pair, WorkingSet, all_paths


class ForecastOutcome(StrEnum):
    """How it went."""

    OPEN = "open"
    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Forecast:
    """`worked`: which of the two have had changes since it began; `asked`: git could say at the last look whether it
    merges both; times in Unix seconds."""

    began_at: float
    worked: tuple[str, ...] = ()
    asked: bool = False
    came: ForecastOutcome = ForecastOutcome.OPEN
    ended_at: float | None = None


def update_forecasts(
    standing: Mapping[Pair, Forecast],
    drawn: Collection[Pair],
    sets: Mapping[str, WorkingSet],
    conflicts: Mapping[Pair, Collection[str]],
    merged: Collection[str],
    trials: Mapping[str, Trial],
    now: float,
) -> dict[Pair, Forecast]:
    """Those that are another than before. `drawn`: the pairs that something is foretold of now; the rest as in
    `relay.airspace.advisories.rules.observation.Observation`."""
    changed = {}
    for pair in sorted({*standing, *drawn}):
        before = standing.get(pair)
        forecast = before or Forecast(now)
        over = [agent for agent in pair if _over(agent, forecast, sets, merged)]
        if over:
            after = replace(forecast, came=_at_end(pair, forecast, over, sets, trials), ended_at=now)
        elif conflicts.get(pair):
            after = replace(forecast, came=ForecastOutcome.TRUE, ended_at=now)
        else:
            worked = tuple(agent for agent in pair if agent in forecast.worked or sets[agent].files)
            shared = all_paths(sets[pair[0]].files) & all_paths(sets[pair[1]].files)
            after = replace(forecast, worked=worked, asked=pair in conflicts or not shared)
        if after != before and (before is not None or after.came is ForecastOutcome.OPEN):
            changed[pair] = after
    return changed


def _over(agent: str, forecast: Forecast, sets: Mapping[str, WorkingSet], merged: Collection[str]) -> bool:
    """Has this agent nothing in hand any more? An intent alone holds until what came of it was merged."""
    work = sets.get(agent)
    if work is None:
        return True
    return not work.files and (agent in merged or agent in forecast.worked or not work.intent)


def _at_end(
    pair: Pair,
    forecast: Forecast,
    over: Collection[str],
    sets: Mapping[str, WorkingSet],
    trials: Mapping[str, Trial],
) -> ForecastOutcome:
    left = [trials.get(agent) for agent in pair if agent not in over and sets[agent].files]
    merges = all(trial is not None and trial.verdict in (Verdict.CLEAN, Verdict.NOTHING) for trial in left)
    return ForecastOutcome.FALSE if forecast.asked and merges else ForecastOutcome.UNKNOWN


def precision(counts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """`{true, false, open, n, precision}` from rows `{outcome, lookaheads}`; `open`: of unknown outcome too,
    `n`: those that precision is of."""
    ended = Counter({row["outcome"]: row["lookaheads"] for row in counts})
    true, false, unknown = ended["true"], ended["false"], ended["open"] + ended["unknown"]
    n = true + false
    return {"true": true, "false": false, "open": unknown, "n": n, "precision": true / n if n else None}

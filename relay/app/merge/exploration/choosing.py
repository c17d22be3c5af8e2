"""An agent that chooses among variants (003, `AgentReview`).

Invariant: the reviewer reads and changes nothing; what it names counts only where that variant may win. It has the
time that a variant has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relay.app.merge.exploration.places import VariantPlaces
from relay.app.merge.exploration.variant_turn import Progress, run_within
from relay.base.terminal_text import safe_line
from relay.git.run import name_of
from relay.merge.exploration import wording
from relay.merge.exploration.config import Budget
from relay.merge.exploration.journal import Exploration, VariantRun
from relay.merge.exploration.usage import Usage
from relay.model import Agent, Turn, TurnLimits

#: Bytes of one difference.
MOST_DIFF = 4 * 1_048_576


@dataclass(frozen=True, slots=True)
class Review:
    """`winner`: None = the reviewer chose none; `reason`: in words."""

    winner: str | None
    reason: str


class Chooser:
    """Asks reviewers in the repository of `places`."""

    def __init__(self, places: VariantPlaces) -> None:
        self._places = places

    async def review(
        self,
        agent: Agent,
        exploration: Exploration,
        runs: Sequence[VariantRun],
        able: Sequence[str],
        poll_s: float,
    ) -> Review:
        """Let the agent choose among the variants `able`. Raises GitError."""
        diffs = await self._diffs(exploration, [run for run in runs if run.name in able])
        seconds = exploration.config.budget.max_duration_seconds
        turn = Turn(
            agent.name,
            wording.review_prompt(exploration, runs, diffs),
            cwd=self._places.main.top,
            limits=TurnLimits(seconds + 60.0),
        )
        progress = Progress(Usage())

        async def note(_: Progress) -> None:
            """Nobody watches a review."""

        which = await run_within(agent, turn, Budget(seconds), progress, note, poll_s=poll_s)
        if which is not None:
            return Review(None, f"{agent.name} took longer than {seconds:g} s to review them.")
        if progress.end is None or progress.end.failure is not None:
            why = progress.end.detail if progress.end is not None else "it gave no answer"
            return Review(None, f"{agent.name} could not review them: {safe_line(why)}")
        winner = wording.reviewed(progress.text, able)
        if winner is None:
            return Review(None, f"{agent.name} reviewed them and named none of {', '.join(able)}.")
        return Review(winner, f"{agent.name} chose {winner} in its review.")

    async def _diffs(self, exploration: Exploration, runs: Sequence[VariantRun]) -> Mapping[str, str]:
        asked = ("diff-tree", "-r", "-p", "-M", "--no-color", "--no-ext-diff", "--no-textconv")
        diffs = {}
        for run in runs:
            assert exploration.base is not None and run.at_commit is not None
            done = await self._places.git.run(*asked, exploration.base, run.at_commit, most=MOST_DIFF)
            diffs[run.name] = name_of(done.out)
        return diffs

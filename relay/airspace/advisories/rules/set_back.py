"""Whose branch the main branch takes no more: a merge set it back, and it has to merge main first.

Invariants:
- what git says decides, never distance: an agent is set back from the moment that a trial merge into what would
  really be merged into conflicts, until one does not, or there is nothing left to merge;
- what git could not tell changes nothing;
- a conflict is told at once: when it begins, also anew after it was clear, and each time that the main branch moves
  so that there are files or lines in conflict that were not before; while main stands still, a worktree that
  conflicts in more files tells it once in a cool-down, and one whose lines move does not.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from relay.airspace.globs import matches
from relay.airspace.worktrees.merging.wording import joined_words, stuck
from relay.git.merge_state import Lines
from relay.git.trial_merge import Target, Trial, Verdict

#: The other side of a pair whose one side is the main branch at a commit, in what is kept of pairs. No agent and no
#: checkout is called so.
_MAIN = "main@"


@dataclass(frozen=True, slots=True)
class SetBack:
    """`agent`'s work does not merge into `branch` at `commit`. `paths`: the files in conflict; `lines`: where in the
    agent's own files. `told`: the paths that the room has heard of. `unsettled`: the conflicts stand there with their
    markers; `merging`: of a merge that is under way in a worktree here; `needless`: as of a `Trial`. Times are Unix
    seconds."""

    agent: str
    branch: str
    commit: str
    paths: tuple[str, ...]
    since: float
    lines: Mapping[str, Lines] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    unsettled: bool = False
    merging: bool = False
    needless: bool = False

    @property
    def untold(self) -> bool:
        return not set(self.paths) <= set(self.told)

    def as_json(self) -> dict[str, Any]:
        """As the interfaces show it (docs/airspace.md), without the time."""
        return {
            "agent": self.agent,
            "branch": self.branch,
            "commit": self.commit,
            "paths": list(self.paths),
            "unsettled": self.unsettled,
            "needless": self.needless,
            "said": stuck(self.branch, is_needless=self.needless),
            "lines": {path: [list(span) for span in spans] for path, spans in self.lines.items()},
        }


def track_of(agent: str, commit: str) -> tuple[str, str]:
    """The key under which it is kept when an agent was told of the main branch at a commit."""
    return agent, f"{_MAIN}{commit}"


def is_main(pair: tuple[str, str]) -> bool:
    """Is this what is kept of an agent and the main branch, and no pair of agents?"""
    return pair[1].startswith(_MAIN)


def update_set_back(
    before: Mapping[str, SetBack],
    trials: Mapping[str, Trial],
    target: Target | None,
    now: float,
    muted: Sequence[str] = (),
    targets: Mapping[str, Target] | None = None,
) -> dict[str, SetBack]:
    """Who is set back now, by agent. `before`: who was. `target` None: nobody could look. `targets`: of agents
    whose main branch is on another machine, that one."""
    if target is None:
        return dict(before)
    main, set_back = target, {}
    for agent, trial in sorted(trials.items()):
        target = (targets or {}).get(agent, main)
        was = before.get(agent)
        if trial.verdict is None and not trial.unrelated:
            if was is not None:
                set_back[agent] = was
            continue
        paths = tuple(path for path in trial.paths if not matches(path, muted))
        if not trial.conflicts or not paths:
            continue
        lines = {path: trial.lines[path] for path in paths if path in trial.lines}
        if was is None:
            was = SetBack(agent, target.name, target.commit, paths, now)
        heard = was.told
        if was.commit != target.commit:
            # A landing may add to what was told: compared with the last look at the commit before, since the agent's
            # own edits move the lines.
            heard = tuple(path for path in heard if _within(lines.get(path, ()), was.lines.get(path, ())))
        seen = replace(was, branch=target.name, commit=target.commit, paths=paths, lines=lines, told=heard)
        set_back[agent] = replace(
            seen, unsettled=trial.unsettled, merging=trial.merging, needless=trial.needless
        )
    return set_back


def _within(lines: Lines, known: Lines) -> bool:
    """Is each of these places part of one that is known?"""
    return all(any(a <= first and last <= b for a, b in known) for first, last in lines)


def merges_again(agents: Iterable[str], trials: Mapping[str, Trial]) -> bool:
    """Does the work of one of those who were set back merge, by git or as relay joins it?"""
    return any(agent in trials and trials[agent].verdict is Verdict.CLEAN for agent in agents)


def why_ended(agent: str, trials: Mapping[str, Trial], merged: frozenset[str], branch: str) -> str:
    """In words, why an agent is set back no more."""
    trial = trials.get(agent)
    if trial is None:
        return f"{agent} no longer has a worktree"
    if trial.verdict is Verdict.NOTHING:
        if any("resolved" in file.by for file in trial.joined):
            return f"{agent} has nothing left to merge by what was chosen in its conflicts: {branch} stays as it is"
        if agent in merged:
            return f"the work of {agent} is in {branch}"
        return f"{agent} has nothing left to merge"
    if trial.verdict is Verdict.CLEAN:
        if trial.joined:
            return f"{agent} merges into {branch} again; relay joins {joined_words(trial.joined)}"
        return f"{agent} merges clean into {branch} again"
    if trial.verdict is None:
        return f"git cannot tell whether {agent} merges into {branch}: they have no common history"
    return f"every file that {agent} conflicts in is muted"

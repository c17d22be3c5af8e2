"""What a tick is decided from, and what it decides: plain values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from relay.airspace.advisories.rules.advisory import Advisory
from relay.airspace.advisories.rules.edit_check import EditNotice
from relay.airspace.advisories.rules.forecasts import Forecast
from relay.airspace.advisories.rules.hysteresis import Sample, Track
from relay.airspace.globs import matches
from relay.airspace.readings import Assessment, Evidence, Level
from relay.git.trial_merge import Target, Trial, Verdict
from relay.model.working_set import Pair, WorkingSet

#: Evidence counts as a reason for the level from this share of the strongest channel's on: half of it. A weaker
#: channel alone would not have carried the level (000, equation 2).
COUNTS_FROM = 0.5
#: Files and pieces of evidence that are kept of a pair: what a person reads; the link in the state has them all.
MOST_FILES = 20
MOST_EVIDENCE = 4


@dataclass(frozen=True, slots=True)
class PairObservation:
    """A pair at this tick."""

    sample: Sample
    files: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """The airspace at one moment. Pairs that are not in `observed` are clear.

    `conflicts`: the files that git cannot merge, by pair; a pair that is not in it was not looked at. `merged`:
    agents whose branch was merged into the main one. `announced`: by agent, the paths that are its intent only
    since it answered an advisory. `trials`: of each agent with a worktree, what came of trying to merge it into
    `target`, the main branch; `target` None: git was not asked. `muted`: patterns of files that count for nothing.
    `ahead`: the pairs that a collision is foretold of; `edit_notices`: what agents were told at an edit, None: nobody
    asked.
    """

    at: float
    sets: Mapping[str, WorkingSet]
    observed: Mapping[Pair, PairObservation] = field(default_factory=dict)
    conflicts: Mapping[Pair, tuple[str, ...]] = field(default_factory=dict)
    merged: frozenset[str] = frozenset()
    announced: Mapping[str, frozenset[str]] = field(default_factory=dict)
    trials: Mapping[str, Trial] = field(default_factory=dict)
    target: Target | None = None
    muted: tuple[str, ...] = ()
    ahead: frozenset[Pair] = frozenset()
    edit_notices: frozenset[EditNotice] | None = None
    #: Whose work the main branch has all of since the last look, and when it still had not.
    emptied: Mapping[str, float] = field(default_factory=dict)
    #: The main branch of each agent that lives at another member of the fleet; and the near pairs on two machines
    #: that git cannot be asked about.
    targets: Mapping[str, Target] = field(default_factory=dict)
    untried: frozenset[Pair] = frozenset()

    def gone(self, agent: str) -> bool:
        """Was its work merged, by the room or by a person's git, or is there none any more?"""
        trial = self.trials.get(agent)
        return agent in self.merged or (trial is not None and trial.verdict is Verdict.NOTHING)

    def has_work(self, agent: str) -> bool:
        """Has it, as git says, work that the main branch has not got? New work too, after what was merged."""
        trial = self.trials.get(agent)
        return trial is not None and trial.verdict in (Verdict.CLEAN, Verdict.CONFLICTS)


@dataclass(frozen=True, slots=True)
class AirspaceState:
    """What is kept from one tick to the next: the pairs that are not clear or were said lately, the advisories
    that are open, by id, the look-aheads that are open, and what agents were told at an edit."""

    tracks: Mapping[Pair, Track] = field(default_factory=dict)
    advisories: Mapping[str, Advisory] = field(default_factory=dict)
    forecasts: Mapping[Pair, Forecast] = field(default_factory=dict)
    edit_notices: frozenset[EditNotice] = frozenset()


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of one advisory. `what`: opened, worsened, eased, joined, parted, set back, taken in, closed,
    steering, outcome.

    `heard`: the level to be said, None for silence. `ask`: who is to be given a turn for it. `set_back`: who is to be
    told that it does not merge into the main branch any more. `against`: of an advisory that closes, who is against
    the main branch in another one: then nothing is clear. `merges_again`: git merges one that was set back.
    """

    after: Advisory
    before: Advisory | None = None
    what: tuple[str, ...] = ()
    heard: Level | None = None
    ask: tuple[str, ...] = ()
    set_back: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    merges_again: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """`tracks`, `forecasts`: those that have changed (a CLEAR track that was never said may be forgotten);
    `edit_notices`: what agents were told at an edit has changed."""

    tracks: Mapping[Pair, Track] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    forecasts: Mapping[Pair, Forecast] = field(default_factory=dict)
    edit_notices: bool = False

    def __bool__(self) -> bool:
        return bool(self.tracks or self.steps or self.forecasts or self.edit_notices)


def observe_pair(assessment: Assessment, sample: Sample, muted: Sequence[str] = ()) -> PairObservation:
    """A pair with what is contested: the evidence of the channels that carry its level, without muted files.

    When all of the evidence is in muted files, the pair is clear whatever its risk.
    """
    strongest = max((reading.weighted for reading in assessment.channels.values()), default=0.0)
    ordered = sorted(assessment.channels.items(), key=lambda item: (-item[1].weighted, item[0]))
    carrying = [
        reading
        for _, reading in ordered
        if reading.weighted > 0 and reading.weighted >= COUNTS_FROM * strongest
    ]
    evidence = list(dict.fromkeys(evidence for reading in carrying for evidence in reading.evidence))
    counted = [piece for piece in evidence if not _muted(piece, muted)]
    if evidence and not counted:
        sample = replace(sample, ceiling=Level.CLEAR)
    paths = (path for piece in counted for path in (piece.path, piece.other_path))
    files = dict.fromkeys(path for path in paths if path and not matches(path, muted))
    return PairObservation(sample, tuple(files)[:MOST_FILES], tuple(counted)[:MOST_EVIDENCE])


def _muted(evidence: Evidence, muted: Sequence[str]) -> bool:
    """Is all that this evidence is about muted? Evidence without a path is not."""
    paths = [path for path in (evidence.path, evidence.other_path) if path]
    return bool(paths) and all(matches(path, muted) for path in paths)

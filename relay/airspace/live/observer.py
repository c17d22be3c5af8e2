"""A look at the agents' work: what each has in hand and means to touch, the risks between them, and what git cannot
merge.

Invariants:
- measuring runs in a thread, and so does what may go over thousands of links;
- what is seen is of one state of the main branch: when it moves during a look, the look is repeated;
- git is asked about a bounded number of pairs in one look.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from relay.airspace.advisories import intents
from relay.airspace.advisories.intents import Declared, Source
from relay.airspace.advisories.lock_intents import LockIntents
from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.advisories.rules import edit_check
from relay.airspace.advisories.rules.hysteresis import Sample, ceiling, closing
from relay.airspace.advisories.rules.observation import Observation, observe_pair
from relay.airspace.context import LiveContext
from relay.airspace.globs import matches
from relay.airspace.live.likeness import WorkLikeness
from relay.airspace.live.measure import LiveMeasure
from relay.airspace.live.picture import Picture, as_predicted
from relay.airspace.pair_facts import SemanticCheck
from relay.airspace.profiles.semantic import with_conflicts
from relay.airspace.readings import Assessment
from relay.airspace.worktrees.working_sets import WorkingSetSource
from relay.config.airspace import AirspaceSettings
from relay.git.trial_merge import JoinedFile, Merge, Target, Trial, Verdict
from relay.model.working_set import FileTouch, Pair, WorkingSet, all_paths

#: Samples that are kept of a pair for its closure rate: the look-ahead at the shortest tick's pace of change.
MOST_TRAIL = 64
#: Pairs that git is asked about in one look: at 20 ms a speculative merge, about a second where none is known yet.
MOST_MERGES = 64
#: Looks in one tick while the main branch keeps moving: then the next tick has it.
MOST_LOOKS = 3
#: A branch that was merged counts as such for this long, so that its empty working set is not taken for steering.
MERGED_S = 600.0


class Observer:
    """Holds what was seen last. `sets`: the working sets by agent; `conflicts`: by pair, the files that git could not
    merge, the muted ones too, as the worktrees' page has them; `target` and `trials`: the main branch, and what came
    of trying to merge each agent's work into it."""

    def __init__(
        self,
        context: LiveContext,
        protocol: AdvisoryProtocol,
        worktrees: WorkingSetSource,
        measure: LiveMeasure,
        likeness: WorkLikeness,
        locks: LockIntents,
    ) -> None:
        self._context = context
        self._protocol = protocol
        self.worktrees = worktrees
        self._measure = measure
        self.likeness = likeness
        self._locks = locks
        #: When each agent's branch was last merged.
        self.merged: dict[str, float] = {}
        #: When git last said that an agent's work is not all in the main branch.
        self._had_work: dict[str, float] = {}
        self.forget()

    def forget(self) -> None:
        """Nothing was seen."""
        self.sets: dict[str, WorkingSet] = {}
        self.picture = Picture()
        self.conflicts: dict[Pair, tuple[str, ...]] = {}
        #: Of pairs that merge, and not by git alone: the files that relay joins.
        self.joined: dict[Pair, tuple[JoinedFile, ...]] = {}
        self.target: Target | None = None
        self.trials: Mapping[str, Trial] = {}
        #: Of each pair with changed code, what is known of it across files.
        self.semantic: Mapping[Pair, SemanticCheck] = {}
        #: The near pairs on two machines that git was not asked about.
        self.untried: frozenset[Pair] = frozenset()
        self._merges: dict[Pair, Merge] = {}
        self._declared: Declared = {}
        self._trails: dict[Pair, deque[tuple[float, float]]] = {}

    def begin(self) -> None:
        """Somebody else may have looked meanwhile: how a pair comes closer is seen anew."""
        self._trails = {}

    async def look(self, settings: AirspaceSettings, now: float) -> bool:
        """Look; again when the main branch moved meanwhile. False when it moved at each of `MOST_LOOKS` looks."""
        for _ in range(MOST_LOOKS):
            before = await self.worktrees.target()
            await self._look_once(settings, now)
            if self.target == before:
                return True
        return False

    async def _look_once(self, settings: AirspaceSettings, now: float) -> None:
        """Measure, with the merges that are known; and once more when git says something new of a near pair."""
        await self._look_at_hands(now)
        measured = [without(working_set, settings.muted) for working_set in self.sets.values()]
        working = {working_set.agent for working_set in measured if working_set.files}
        self._merges = {pair: merge for pair, merge in self._merges.items() if set(pair) <= working}
        words = await self.likeness.between(measured)
        self.picture = await asyncio.to_thread(self._measure.scan, measured, self._merges, words)
        if await self._try_merges(measured, settings):
            self.picture = await asyncio.to_thread(self._measure.scan, measured, self._merges, words)
        self._mark_untried()
        self._look_across_files(working, settings)

    async def _look_at_hands(self, now: float) -> None:
        """What each has in hand and means to touch."""
        self._declared = await self._context.store.read(lambda tx: intents.declared(tx, now))
        in_hand = {working_set.agent: working_set for working_set in await self.worktrees.working_sets()}
        sets = with_intents(in_hand, self._declared)
        locked = await self._locks.intents(sets, self.worktrees.agents(), self._measure.files())
        self.sets = with_intents(sets, locked)

    async def stand_by(self, now: float) -> None:
        """As a member that does not lead: see what each has in hand, and what git says of the worktrees here, for
        whoever leads. Nothing is measured."""
        await self._look_at_hands(now)
        self.target = await self.worktrees.target()
        self.trials = await self.worktrees.trials(self.target) if self.target is not None else {}
        merges = await self.worktrees.merges(self.worktrees.own_pairs(), self.trials, most=MOST_MERGES)
        self.conflicts = {pair: merge.conflicts for pair, merge in merges.items() if merge is not None}

    def take_ahead(self, ahead: Mapping[Pair, Assessment]) -> None:
        """What whoever leads foretells."""
        self.picture = Picture(links=ahead)

    def _mark_untried(self) -> None:
        """Say of what git could not be asked about, since it is on two machines, that it is predicted. What git can
        be asked about in a moment waits for that, unless it was said before."""
        links, state = self.picture.links, self._protocol.state
        said = {pair for advisory in state.advisories.values() for pair in advisory.contacts}
        waits = self.worktrees.coming(links.keys() - self.conflicts.keys() - said)
        if waits:
            links = {pair: link for pair, link in links.items() if pair not in waits}
            self.picture = replace(self.picture, links=links)
        self.untried = self.worktrees.untried(links, self.conflicts)
        if marked := {pair: as_predicted(links[pair]) for pair in self.worktrees.out_of_reach(self.untried)}:
            self.picture = replace(self.picture, links={**links, **marked})

    def _look_across_files(self, working: Collection[str], settings: AirspaceSettings) -> None:
        """Add what is known across files to the picture; nothing waits for it."""
        links = self.picture.links
        done = {agent for agent, trial in self.trials.items() if trial.verdict is Verdict.NOTHING}
        risks = {pair: assessment.risk for pair, assessment in links.items()}
        self.semantic = self.worktrees.semantic(risks, done)
        found = {
            pair: counted
            for pair, check in self.semantic.items()
            if set(pair) <= set(working) and (counted := _counted(check, settings.muted)).conflicts
        }
        if found:
            more = {pair: with_conflicts(links.get(pair), check) for pair, check in found.items()}
            self.picture = replace(self.picture, links={**links, **more})

    async def _try_merges(self, measured: Sequence[WorkingSet], settings: AirspaceSettings) -> bool:
        """Ask git about the pairs of an advisory, then about those that could collide, the riskiest first; True
        when it says something new."""
        touched = {working_set.agent: all_paths(working_set.files) for working_set in measured}
        standing = {pair for advisory in self._protocol.state.advisories.values() for pair in advisory.pairs}
        links = self.picture.links
        able = sorted(
            self.worktrees.pairs(), key=lambda pair: (-links[pair].risk if pair in links else 0, pair)
        )
        wanted = [pair for pair in dict.fromkeys([*sorted(standing), *able]) if set(pair) <= set(touched)]
        # After the working sets: so a merge that was made meanwhile makes no pair clear.
        self.target = await self.worktrees.target()
        self.trials = await self.worktrees.trials(self.target) if self.target is not None else {}
        merges = await self.worktrees.merges(wanted, self.trials, most=MOST_MERGES) if wanted else {}
        # Until the newest commit of one elsewhere is here, what git said of the one before stands.
        known = {
            pair: Merge(self.conflicts[pair], joined=self.joined.get(pair, ()))
            for pair in self.worktrees.coming(self.conflicts)
            if pair in wanted
        }
        known |= {pair: merge for pair, merge in merges.items() if merge is not None}
        self.conflicts = {pair: merge.conflicts for pair, merge in known.items()}
        self.joined = {pair: merge.joined for pair, merge in known.items() if merge.joined}
        # An agent whose work is all in the main branch has nothing that could collide: the other one has to merge,
        # and no guard may keep it from that.
        before, self._merges = (
            self._merges,
            {
                pair: Merge(paths, joined=self.joined.get(pair, ()))
                for pair, paths in self._unmuted(settings).items()
                if touched[pair[0]] and touched[pair[1]]
            },
        )
        return before != self._merges

    def _unmuted(self, settings: AirspaceSettings) -> dict[Pair, tuple[str, ...]]:
        """The conflicts that count."""
        return {
            pair: tuple(path for path in paths if not matches(path, settings.muted))
            for pair, paths in self.conflicts.items()
        }

    # -- what the protocol is told

    async def observation(self, settings: AirspaceSettings, now: float) -> Observation:
        """What was seen, for the protocol; the notices that agents got at an edit and that still hold are kept."""
        ahead = frozenset(pair for pair, assessment in self.picture.links.items() if assessment.ahead)
        self._protocol.edit_notices = edit_check.current_notices(
            self._protocol.edit_notices, self.sets, {*ahead, *self._protocol.state.forecasts}
        )
        observation = await asyncio.to_thread(self._observation, settings, now)
        return replace(
            observation,
            ahead=ahead,
            edit_notices=self._protocol.edit_notices,
            emptied=self._emptied(now),
        )

    def _observation(self, settings: AirspaceSettings, now: float) -> Observation:
        # Another thread may add to it meanwhile, so only old entries are taken out.
        for name, at in list(self.merged.items()):
            if now - at >= MERGED_S:
                del self.merged[name]
        links, rules = self.picture.links, self._protocol.rules
        for pair in self._trails.keys() - links.keys():
            del self._trails[pair]
        observed = {}
        for pair, assessment in links.items():
            trail = self._trails.setdefault(pair, deque(maxlen=MOST_TRAIL))
            if not trail or trail[-1][1] != assessment.risk:
                trail.append((now, assessment.risk))
            near = closing(trail, rules, now)
            sample = Sample(assessment.risk, ceiling(assessment, rules.thresholds), near)
            observed[pair] = observe_pair(assessment, sample, settings.muted)
        return Observation(
            at=now,
            sets=self.sets,
            observed=observed,
            conflicts=self._unmuted(settings),
            merged=frozenset(self.merged),
            trials=self.trials,
            target=self.target,
            targets=self.worktrees.targets(),
            untried=self.untried,
            muted=tuple(settings.muted),
            announced={
                agent: frozenset(path for path, sources in paths.items() if sources == {Source.ANSWER})
                for agent, paths in self._declared.items()
            },
        )

    def _emptied(self, now: float) -> dict[str, float]:
        """The agents whose work the main branch has all of since the last look, and when it still had not."""
        emptied = {}
        for agent, trial in self.trials.items():
            if trial.verdict is Verdict.NOTHING and agent in self._had_work:
                emptied[agent] = self._had_work.pop(agent)
            elif trial.verdict in (Verdict.CLEAN, Verdict.CONFLICTS):
                self._had_work[agent] = now
        return emptied


def with_intents(sets: Mapping[str, WorkingSet], declared: Declared) -> dict[str, WorkingSet]:
    """The sets with what their agents have declared; an agent with nothing but intents has a set too. Pure."""
    made = dict(sets)
    for agent, paths in declared.items():
        before = made.get(agent, WorkingSet(agent))
        new = set(paths) - all_paths(before.intent)
        touches = (FileTouch(path, locked=Source.LOCK in paths[path]) for path in paths if path in new)
        made[agent] = replace(before, intent=(*before.intent, *touches))
    return dict(sorted(made.items()))


def _counted(check: SemanticCheck, muted: Sequence[str]) -> SemanticCheck:
    """The look without the conflicts that are all in muted files. Pure."""
    conflicts = tuple(
        each
        for each in check.conflicts
        if not all(matches(path, muted) for path in (each.path, each.other_path))
    )
    return replace(check, conflicts=conflicts)


def without(working_set: WorkingSet, globs: Sequence[str]) -> WorkingSet:
    """The set without the muted files, which are not measured. Pure."""

    def unmuted(files: Sequence[FileTouch]) -> tuple[FileTouch, ...]:
        return tuple(touch for touch in files if not all(matches(path, globs) for path in touch.paths))

    return replace(working_set, files=unmuted(working_set.files), intent=unmuted(working_set.intent))

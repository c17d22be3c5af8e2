"""The source of the working sets: the worktrees, and what an agent's tools say that they write.

Invariant: what stands in a worktree is the truth; a place that a tool has named counts only as long as the turn
runs that named it, and only for a file that the worktree does not show as changed yet. Of an agent that lives at
another member of the fleet, that member's word is the truth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from relay.airspace.pair_facts import SemanticCheck
from relay.airspace.shared.shared_work import SharedWork
from relay.airspace.text_similarity import Vocabulary
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.git.merge_state import is_binary
from relay.git.run import name_of
from relay.git.trial_merge import Merge, Target, Trial
from relay.model import Location, TurnsAtWork
from relay.model.working_set import FileTouch, Pair, Span, WorkingSet, all_paths, moment, recency

#: Bytes of a changed file that is read for its symbols; the graph leaves larger ones out too.
MOST_TEXT = 1_000_000
#: Places that are kept of one turn: an agent that names more has named the whole repository.
MOST_PLACES = 200
#: Messages of an agent's newest commits that the other members are told.
MOST_MESSAGES = 10


class WorkingSetSource:
    """What the scanner knows of the worktrees. `turns` says whose turn runs."""

    def __init__(
        self,
        registry: WorktreeRegistry,
        turns: TurnsAtWork,
        *,
        changed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._registry = registry
        self._turns = turns
        self._changed = changed
        self._clock, self._ahead_s = clock, 0.0
        self._named: dict[str, dict[str, tuple[Location, float]]] = {}
        self._own: dict[str, WorkingSet] = {}
        #: `others` as the last look at the working sets saw them.
        self._seen: Mapping[str, SharedWork] = {}
        #: Agents of other members whose work was tried with the main branch here, which theirs is to follow.
        self._ahead: frozenset[str] = frozenset()
        self._tried: tuple[Target | None, Mapping[str, Trial], Mapping[Pair, Merge]] = None, {}, {}

    @property
    def others(self) -> Mapping[str, SharedWork]:
        """The agents that live at the fleet's other members, as these tell."""
        return self._registry.merge_trials.others

    def take_others(self, others: Mapping[str, SharedWork]) -> None:
        """What the other members tell now."""
        self._registry.merge_trials.others = self._registry.semantic.others = others
        self._changed()

    def named(self, agent: str, places: Sequence[Location]) -> None:
        """An agent's tool named these places, relative to the agent's folder."""
        writes = [place for place in places if place.writes]
        if not writes:
            return
        known = self._named.setdefault(agent, {})
        for place in writes:
            known[place.path] = (place, time.time())
        for path in list(known)[: max(0, len(known) - MOST_PLACES)]:
            del known[path]
        self._changed()

    async def working_sets(self) -> Sequence[WorkingSet]:
        await self._registry.catch_up()
        by_agent = {working_set.agent: working_set for working_set in await self._registry.working_sets()}
        working = set(self._turns.working())
        self._named = {agent: places for agent, places in self._named.items() if agent in working}
        for agent, places in self._named.items():
            by_agent[agent] = self._with(by_agent.get(agent, WorkingSet(agent)), places)
        self._own = dict(by_agent)
        ahead_s, half_life_s = self.ahead_s, self._registry.settings.airspace.half_life_s
        for agent, work in by_agent.items():
            if work.started_at and ahead_s:
                by_agent[agent] = replace(work, started_at=work.started_at + ahead_s)
        self._seen = self.others
        for agent, other in self._seen.items():
            if agent not in by_agent or (other.files and not by_agent[agent].files):
                now = moment(self._clock(), half_life_s)
                by_agent[agent] = other.working_set(now=now, half_life_s=half_life_s)
        return list(by_agent.values())

    @property
    def ahead_s(self) -> float:
        """Whole seconds that the clock which the members count by is ahead of this machine's: the same until it is
        another by a second or more."""
        ahead_s = self._clock() - time.time()
        if abs(ahead_s - self._ahead_s) >= 1.0:
            self._ahead_s = float(round(ahead_s))
        return self._ahead_s

    def own_work(self) -> dict[str, SharedWork]:
        """What is told to the other members: the work of those that have a checkout here, as it was seen last."""
        target, trials, merges = self._tried
        told = {}
        for agent, work in self._own.items():
            worktree = self._registry.worktrees.get(agent)
            seen = None if worktree is None else worktree.work
            times = {place: at for place, (_, at) in self._named.get(agent, {}).items()}
            if seen is not None:
                at = seen.changed_at
                times |= {name_of(record.path): at[record.last_path] for record in seen.own_records}
            told[agent] = SharedWork(
                agent,
                # The weight is of the moment, and whoever reads it makes it anew.
                tuple((replace(touch, weight=1.0), times.get(touch.path, 0.0)) for touch in work.files),
                work.started_at,
                work.committed,
                (seen.snapshot.head.branch or "") if seen else "",
                seen.messages[:MOST_MESSAGES] if seen else (),
                seen.snapshot.commit if seen and not seen.empty else "",
                seen.behind if seen else None,
                seen.unsettled if seen else (),
                target,
                trials.get(agent),
                {b: replace(merge, tree="", parts=()) for (a, b), merge in merges.items() if a == agent},
                own=worktree is None or worktree.own,
            )
            if seen is not None:
                told[agent] = replace(
                    told[agent],
                    ahead=seen.ahead,
                    dirty=seen.snapshot.dirty,
                    changed=len(seen.records),
                    insertions=seen.insertions,
                    deletions=seen.deletions,
                    merging=bool(seen.snapshot.merging),
                )
        return told

    def untried(self, pairs: Collection[Pair], known: Collection[Pair]) -> frozenset[Pair]:
        """Of these pairs, those of which one lives at another member and git was not asked, as its commit is not
        here."""
        others = self.others.keys() - self._registry.worktrees.keys()
        return frozenset(pair for pair in pairs if pair not in known and not others.isdisjoint(pair))

    def out_of_reach(self, pairs: Collection[Pair]) -> frozenset[Pair]:
        """Of these untried pairs, those that git would be asked about if the commits of both were here. What a tool
        has only named is in no commit."""
        trials = self._registry.merge_trials
        return frozenset(pair for pair in set(pairs) & set(trials.pairs()) if not trials.at_hand(pair))

    def _with(self, work: WorkingSet, places: Mapping[str, tuple[Location, float]]) -> WorkingSet:
        seen = all_paths(work.files)
        half_life_s = self._registry.settings.airspace.half_life_s
        now = moment(time.time(), half_life_s)
        named = tuple(
            FileTouch(
                path,
                lines=(Span(*place.lines),) if place.lines else (),
                weight=recency(now - at, half_life_s),
            )
            for path, (place, at) in sorted(places.items())
            if path not in seen
        )
        return replace(work, files=(*work.files, *named)) if named else work

    def agents(self) -> Collection[str]:
        """The names of the room's agents."""
        return self._turns.agents()

    async def target(self) -> Target | None:
        return await self._registry.target()

    def no_main(self) -> str:
        return self._registry.no_main

    def coming(self, pairs: Collection[Pair]) -> frozenset[Pair]:
        """Of these pairs, those of which a commit is on its way here, so that git can be asked in a moment; also one
        that has come since the last look began."""
        seen = (*self.others.items(), *self._seen.items())
        coming = {agent for agent, other in seen if other.coming}
        return frozenset(pair for pair in pairs if not coming.isdisjoint(pair))

    def behind(self, agent: str) -> int | None:
        worktree = self._registry.worktrees.get(agent)
        if worktree is None and agent in self.others:
            return self.others[agent].behind
        return worktree.work.behind if worktree is not None and worktree.work is not None else None

    async def trials(self, target: Target) -> Mapping[str, Trial]:
        """Of each agent, into the main branch where it lives: here that is `target`, elsewhere one of `targets`."""
        own = await self._registry.merge_trials.trials(target)
        self._tried = target, own, self._tried[2]
        told = {name: other.trial for name, other in self.others.items() if other.trial is not None}
        ahead = await self._registry.merge_trials.elsewhere(target)
        self._ahead = frozenset(ahead)
        return {**told, **ahead, **own}

    def targets(self) -> Mapping[str, Target]:
        """The main branch of each agent that lives at another member, but those that were tried with the one here."""
        own = self._registry.worktrees.keys()
        return {
            name: other.target
            for name, other in self.others.items()
            if other.target is not None and name not in own and name not in self._ahead
        }

    def pairs(self) -> Sequence[Pair]:
        return self._registry.merge_trials.pairs()

    def own_pairs(self) -> Sequence[Pair]:
        """The pairs of which both live here."""
        own = self._registry.worktrees.keys()
        return [pair for pair in self.pairs() if own >= set(pair)]

    async def merges(
        self, pairs: Sequence[Pair], trials: Mapping[str, Trial], *, most: int
    ) -> Mapping[Pair, Merge | None]:
        tried = await self._registry.merge_trials.merges(pairs, trials, most=most)
        own = self._registry.worktrees.keys()
        self._tried = *self._tried[:2], {pair: merge for pair, merge in tried.items() if own >= set(pair)}
        # Two that live at one other member are tried there.
        told = {
            (a, b): merge
            for a, other in self.others.items()
            for b, merge in other.merges.items()
            if a not in own and b not in own and (a, b) in pairs
        }
        return {**tried, **told}

    def semantic(self, risks: Mapping[Pair, float], but: Collection[str]) -> Mapping[Pair, SemanticCheck]:
        """What is known across files of all pairs with changed code but those of the agents `but`, the riskiest
        first; what is not known is looked at."""
        checks = self._registry.semantic
        able = [pair for pair in checks.able() if not set(but) & set(pair)]
        return checks.of(sorted(able, key=lambda pair: (-risks.get(pair, 0.0), pair)))

    def branches(self) -> Mapping[str, str]:
        seen = {
            name: worktree.work.snapshot.head.branch
            for name, worktree in self._registry.worktrees.items()
            if worktree.work
        }
        told = {name: other.branch for name, other in self.others.items()}
        return {name: branch for name, branch in {**told, **seen}.items() if branch}

    def trees(self) -> Mapping[str, str]:
        """Of each agent's checkout, as it was seen last, what names its files and their contents."""
        seen = {
            name: worktree.work.snapshot.tree
            for name, worktree in self._registry.worktrees.items()
            if worktree.work
        }
        return {**{name: other.commit for name, other in self.others.items() if other.commit}, **seen}

    def messages(self) -> Mapping[str, Sequence[str]]:
        told = {name: other.messages for name, other in self.others.items()}
        seen = self._registry.worktrees.items()
        return told | {name: worktree.work.messages for name, worktree in seen if worktree.work}

    def vocabulary(self) -> Vocabulary:
        return self._registry.vocabulary

    def root(self, agent: str) -> Path | None:
        """The top folder of an agent's checkout; None without one."""
        worktree = self._registry.worktrees.get(agent)
        return None if worktree is None else worktree.checkout.top

    def text(self, work: WorkingSet, path: str) -> str | None:
        """A file as the agent has it now; None: not there, or not text. Blocks: called in the scan's thread."""
        root = self.root(work.agent)
        if root is None:
            other = self.others.get(work.agent)
            return None if other is None else other.texts.get(path)
        file = root / path
        with suppress(OSError, ValueError):
            if file.is_file() and not file.is_symlink() and file.stat().st_size <= MOST_TEXT:
                data = file.read_bytes()
                return None if is_binary(data) else data.decode("utf-8", "surrogateescape")
        return None

"""The source of the working sets: the worktrees, and what an agent's tools say that they write.

Invariant: what stands in a worktree is the truth; a place that a tool has named counts only as long as the turn
runs that named it, and only for a file that the worktree does not show as changed yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from relay.airspace.pair_facts import SemanticCheck
from relay.airspace.text_similarity import Vocabulary
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.git.merge_state import is_binary
from relay.git.trial_merge import Merge, Target, Trial
from relay.model import Location, TurnsAtWork
from relay.model.working_set import FileTouch, Pair, Span, WorkingSet, all_paths, recency

#: Bytes of a changed file that is read for its symbols; the graph leaves larger ones out too.
MOST_TEXT = 1_000_000
#: Places that are kept of one turn: an agent that names more has named the whole repository.
MOST_PLACES = 200


class WorkingSetSource:
    """What the scanner knows of the worktrees. `turns` says whose turn runs."""

    def __init__(
        self,
        registry: WorktreeRegistry,
        turns: TurnsAtWork,
        *,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._registry = registry
        self._turns = turns
        self._changed = changed
        self._named: dict[str, dict[str, tuple[Location, float]]] = {}

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
        return list(by_agent.values())

    def _with(self, work: WorkingSet, places: Mapping[str, tuple[Location, float]]) -> WorkingSet:
        seen = all_paths(work.files)
        now, half_life_s = time.time(), self._registry.settings.airspace.half_life_s
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

    def behind(self, agent: str) -> int | None:
        worktree = self._registry.worktrees.get(agent)
        return worktree.work.behind if worktree is not None and worktree.work is not None else None

    async def trials(self, target: Target) -> Mapping[str, Trial]:
        return await self._registry.merge_trials.trials(target)

    def pairs(self) -> Sequence[Pair]:
        return self._registry.merge_trials.pairs()

    async def merges(
        self, pairs: Sequence[Pair], trials: Mapping[str, Trial], *, most: int
    ) -> Mapping[Pair, Merge | None]:
        return await self._registry.merge_trials.merges(pairs, trials, most=most)

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
        return {name: branch for name, branch in seen.items() if branch}

    def messages(self) -> Mapping[str, Sequence[str]]:
        return {
            name: worktree.work.messages
            for name, worktree in self._registry.worktrees.items()
            if worktree.work
        }

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
            return None
        file = root / path
        with suppress(OSError, ValueError):
            if file.is_file() and not file.is_symlink() and file.stat().st_size <= MOST_TEXT:
                data = file.read_bytes()
                return None if is_binary(data) else data.decode("utf-8", "surrogateescape")
        return None

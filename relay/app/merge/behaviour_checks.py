"""Tests each two agents' work together, as it stands, on a schedule (003, section 6.1, level 4).

Invariants:
- nothing of the repository changes: the tests run in exports of trees (`relay.checks.runner`), one pair at a time;
- two are tested again only when the tree of one is another; a tree that was tested is not tested twice;
- what could not be tested is named with the reason, and is never taken for two that pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.survey import Work
from relay.app.wiring.conflicts.finding_log import FindingLog
from relay.app.wiring.merge_tools import merge_check
from relay.checks.results import CheckResult
from relay.checks.runner import CheckRunner
from relay.config.settings import LiveSettings
from relay.git.run import Git, GitError
from relay.git.trial_merge import merge_trees
from relay.merge.conflicts.commits import Unrelated, level_4, merge_base
from relay.merge.conflicts.conflict import Conflict
from relay.merge.resolution.findings import Pair
from relay.store.ports import Store, StoreError

log = structlog.get_logger(__name__)
LEVEL = 4
#: Seconds between two looks at a configuration without a schedule.
IDLE_S = 5.0
#: The main branch as one of the two.
MAIN = "main"


class BehaviourChecks:
    """Of the worktrees of one registry. `why`: of each two of the last round that could not be tested, the reason."""

    def __init__(
        self, store: Store, settings: LiveSettings, registry: WorktreeRegistry, findings: FindingLog
    ) -> None:
        self._store, self._settings, self._registry, self._findings = store, settings, registry, findings
        self._runner: CheckRunner | None = None
        self._known: dict[tuple[tuple[str, ...], str, str], tuple[Conflict, ...]] = {}
        self.why: dict[Pair, str] = {}

    def not_run(self) -> str:
        """Why it is not looked for, or not in each two; empty: it is."""
        merge = self._settings.current.merge
        if not merge.test:
            return "no command is configured: set `merge.test`"
        if not merge.test_every_s:
            return "`merge.test_every_s` is 0; `relay merge check A B --level 4` runs it"
        return "; ".join(f"{a} and {b}: {why}" for (a, b), why in sorted(self.why.items()))

    async def run(self) -> None:
        """Make rounds for ever."""
        await self._registry.surveyed.wait()
        while True:
            merge = self._settings.current.merge
            if merge.test and merge.test_every_s:
                try:
                    await self.round()
                except (GitError, StoreError, self._store.transient, self._store.errors) as error:
                    log.warning("two agents' work is not tested together", reason=str(error))
            await asyncio.sleep(self._settings.current.merge.test_every_s or IDLE_S)

    async def round(self) -> None:
        """Test each two that have work, and each with the main branch where that has moved on; record what fails.
        Raises GitError and the store's errors."""
        main = self._registry.main
        if main is None or not self._settings.current.merge.test:
            return
        git = self._registry.scratch.git(main)
        seen: dict[Pair, Sequence[Conflict] | None] = {}
        self.why = {}
        for pair, commits, trees in self._wanted():
            found = await self._tested(git, pair, commits, trees)
            seen[pair] = found
        await self._findings.record(LEVEL, seen)

    def _wanted(self) -> list[tuple[Pair, tuple[str, str], tuple[str, str]]]:
        works = {
            name: each.work
            for name, each in sorted(self._registry.worktrees.items())
            if each.work is not None and each.work.records and not each.work.unsettled
        }
        names = list(works)
        pairs = [(a, b) for at, a in enumerate(names) for b in names[at + 1 :]]
        wanted = [((a, b), *_sides(works[a], works[b])) for a, b in pairs]
        for name, work in works.items():
            if work.behind:
                at = work.snapshot.commit, work.main
                wanted.append(((name, MAIN), at, (work.snapshot.tree, work.main)))
        return wanted

    async def _tested(
        self, git: Git, pair: Pair, commits: tuple[str, str], trees: tuple[str, str]
    ) -> tuple[Conflict, ...] | None:
        settings = self._settings.current
        check = merge_check(settings.merge)
        key = settings.merge.test, *trees
        if key in self._known:
            return self._known[key]
        if self._runner is None or self._runner.git != git:
            self._runner = CheckRunner(self._store, git, settings.runtime_dir / "checks-level-4", at_once=1)
        runner = self._runner

        async def run_tests(tree: str) -> CheckResult:
            return await runner.run(check, tree)

        try:
            base = await merge_base(git, *commits)
        except Unrelated as error:
            self.why[pair] = str(error)
            return None
        merged = await merge_trees(git, *commits)
        tree = "" if merged is None or merged.conflicts else merged.tree
        found, why = await level_4(*commits, tree, run_tests, base, names=pair)
        if why:
            self.why[pair] = why
            return None
        made = self._known[key] = tuple(conflict.named(*pair) for conflict in found)
        return made


def _sides(a: Work, b: Work) -> tuple[tuple[str, str], tuple[str, str]]:
    return (a.snapshot.commit, b.snapshot.commit), (a.snapshot.tree, b.snapshot.tree)

"""What is checked and measured of work that is handed on.

Invariant: rules run against the tree that is handed on, never against a worktree; figures are counted from the log
and from git's trees, and what no rule read is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.checks.runner import CheckRunner
from relay.config.settings import LiveSettings
from relay.git.branch_names import agent_branch, branch_user
from relay.git.checkout import Checkout
from relay.git.diff import changed_files
from relay.model import Refusal
from relay.store.ports import Store, Tx
from relay.timeline.handoffs import journal
from relay.timeline.handoffs.builtin_checks import artifacts
from relay.timeline.handoffs.event import HandoffMetrics
from relay.timeline.handoffs.journal import Handoff
from relay.timeline.handoffs.rules import Validation, validate


@dataclass(frozen=True, slots=True)
class Checked:
    """The rules as they were checked, the artifacts as `[{path, blob}]`, and how many files and lines the role has
    changed."""

    validation: Validation
    artifacts: Sequence[Mapping[str, Any]]
    files: int
    added: int
    removed: int


class HandoffChecks:
    """Checks in the repository of one room."""

    def __init__(self, store: Store, settings: LiveSettings, registry: WorktreeRegistry) -> None:
        self._store, self._settings, self._registry = store, settings, registry
        self._made: tuple[Checkout, CheckRunner] | None = None

    async def check(self, handoff: Handoff) -> Checked:
        """Check the rules of the transition on what was left. Raises GitError, Refusal."""
        settings = self._settings.current.handoffs
        assert handoff.tree is not None and handoff.base is not None
        runner, roles = self._runner(), (handoff.source_role, handoff.target_role)
        validation = await validate(runner, settings, *roles, handoff.base, handoff.tree)
        role = settings.role(handoff.source_role)
        left: dict[str, str] = {}
        for pattern in role.artifacts if role is not None else ():
            left |= {each.path: each.blob for each in await artifacts(runner.git, pattern, handoff.tree)}
        return Checked(
            validation,
            [{"path": path, "blob": blob} for path, blob in sorted(left.items())],
            *await self._changes(handoff.base, handoff.tree),
        )

    async def clean(self) -> None:
        """Remove what a killed process left of its exports. For a start, when nothing runs."""
        await self._runner().clean()

    def _runner(self) -> CheckRunner:
        """One for the repository, so that a check of one tree is one run."""
        main = self._registry.main
        if main is None:
            raise Refusal(f"There is no repository: {self._registry.trouble}.")
        if self._made is None or self._made[0] != main:
            folder = self._settings.current.runtime_dir / "checks"
            self._made = main, CheckRunner(self._store, self._registry.scratch.git(main), folder)
        return self._made[1]

    async def measure(self, tx: Tx, handoff: Handoff, checked: Checked) -> HandoffMetrics:
        """What the outgoing role did, by the log and by git."""
        work = await journal.lane_work(tx, handoff.source, handoff.began)
        return HandoffMetrics(
            role_duration_ms=work.duration_ms,
            events_produced=work.events,
            files_modified=checked.files,
            loc_added=checked.added,
            loc_removed=checked.removed,
            test_pass_rate=checked.validation.metrics["test_pass_rate"],
            code_coverage=checked.validation.metrics["code_coverage"],
        )

    async def base_of(self, handoff: Handoff, commit: str, main: str | None) -> str:
        """The tree before the source's work: what it got last by a handoff where that is in the commit's history,
        else where its branch left the main one; without such, the empty one. Raises GitError."""
        assert self._registry.main is not None
        git = self._registry.scratch.git(self._registry.main)
        last = await self._store.read(lambda tx: journal.last_with(tx, handoff.source))
        if last.commit is not None:
            asked = ("merge-base", "--is-ancestor", last.commit, commit)
            if (await git.run(*asked, ok=(0, 1, 128))).code == 0 and last.tree is not None:
                return last.tree
        base = None if main is None else await git.maybe("merge-base", commit, main)
        if base is None:
            return (await git.run("mktree", stdin=b"")).text
        return await git.line("rev-parse", f"{base}^{{tree}}")

    async def retry_branch(self, handoff: Handoff) -> str:
        """`tw/<user>/<role>-<handoff>-retry-N`, the next attempt's; with a number behind it where a branch of an
        earlier database has that name."""
        assert self._registry.main is not None
        user, git = await branch_user(self._registry.main), self._registry.main.git
        words = [handoff.source_role, str(handoff.number), "retry", str(handoff.attempt + 1)]
        for more in count(1):
            name = agent_branch(user, *words, *([str(more)] if more > 1 else []))
            there = await git.maybe("rev-parse", "-q", "--verify", f"refs/heads/{name}")
            if there in (None, handoff.at_commit):
                return name
        raise AssertionError("numbers do not end")

    async def _changes(self, base: str, tree: str) -> tuple[int, int, int]:
        """Files, lines added and lines removed between two trees."""
        if self._registry.main is None:
            raise Refusal("There is no repository.")
        git = self._registry.scratch.git(self._registry.main)
        records = await changed_files(git, base, tree)
        hunks = await self._registry.differ.hunks(git, base, tree, records)
        each = [hunks[record.old, record.new] for record in records]
        return (
            len(records),
            sum(one.insertions for one in each),
            sum(one.deletions for one in each),
        )

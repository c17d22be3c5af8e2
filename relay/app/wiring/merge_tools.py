"""What merges beyond git are made with: the ladder, and the tests of a merged tree, as the configuration has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from relay.airspace.pair_facts import SemanticConflict
from relay.airspace.worktrees.room import MergeTest, Unchecked, WorktreeRoom
from relay.base.terminal_text import safe
from relay.checks.results import Check, CheckResult, State
from relay.checks.runner import CheckRunner
from relay.config.merge import MergeSettings, MergeStrategy
from relay.git.run import Git, GitError
from relay.git.trial_merge import Merge
from relay.merge.conflicts import checker
from relay.merge.conflicts.checker import ConflictChecker
from relay.merge.conflicts.conflict import Conflict
from relay.merge.joining import Chosen, Joiner, nothing_chosen
from relay.store.ports import Store

#: Lines of a failed test's output that a refusal quotes, and their characters in all.
MOST_LINES, MOST_SAID = 12, 1_500


class MergeTools:
    """`settings`: as they are now. `close` it: it may have started a process."""

    def __init__(self, settings: Callable[[], MergeSettings]) -> None:
        self._settings = settings
        self._joiner: Joiner | None = None
        self._checker: ConflictChecker | None = None

    async def close(self) -> None:
        if self._joiner is not None:
            await self._joiner.close()
        if self._checker is not None:
            await self._checker.close()

    async def join(
        self, git: Git, ours: str, theirs: str, merge: Merge, chosen: Chosen = nothing_chosen
    ) -> Merge:
        """`relay.git.trial_merge.Join`; git's own answer where the configuration wants that. `chosen`: as of
        `Joiner.join`."""
        settings = self._settings()
        if settings.ladder == "git":
            return merge
        if self._joiner is None:
            self._joiner = Joiner()
        return await self._joiner.join(
            git,
            ours,
            theirs,
            merge,
            chosen,
            timeout_s=settings.timeout_ms / 1000,
            whole=lambda path: settings.strategy(path).use == "ask",
        )

    def strategy(self, path: str) -> MergeStrategy:
        """What becomes of a file that git cannot merge."""
        return self._settings().strategy(path)

    def ways(self) -> int:
        """Another number when the configuration says another thing of how files are merged."""
        settings = self._settings()
        return hash((settings.ladder, settings.strategies))

    async def warnings(self, git: Git, ours: str, theirs: str) -> Sequence[str]:
        """As of `WorktreeRoom`; nothing where the configuration wants git alone."""
        settings = self._settings()
        if settings.ladder == "git":
            return ()
        if self._joiner is None:
            self._joiner = Joiner()
        return await self._joiner.warnings(git, ours, theirs, timeout_s=settings.timeout_ms / 1000)

    async def across_files(
        self, git: Git, sides: Sequence[tuple[str, str]]
    ) -> Sequence[SemanticConflict] | None:
        """As of `WorktreeRoom`."""
        timeout_s = self._settings().check_timeout_s
        if not timeout_s:
            return None
        if self._checker is None:
            self._checker = ConflictChecker()
        (a, ours), (b, theirs) = sides
        try:
            found = await self._checker.across_files(git, ours, theirs, timeout_s=timeout_s)
        except checker.Unchecked as error:
            raise Unchecked(str(error)) from error
        return [_semantic(conflict.named(a, b)) for conflict in found]

    async def test(self, store: Store, git: Git, folder: Path, tree: str) -> MergeTest | None:
        """The configured tests on a tree that `git` has, exported below `folder`; a tree is tested once. None: none
        are configured."""
        settings = self._settings()
        if not settings.test:
            return None
        check = merge_check(settings)
        try:
            result = await CheckRunner(store, git, folder).run(check, tree)
        except GitError as error:
            return MergeTest(False, f"git could not export it: {error}")
        return MergeTest(result.state is State.PASSED, _said(result), last_lines(result))


def merge_check(settings: MergeSettings) -> Check:
    """The configured tests: the same check wherever a merged tree is tested, so that a tree is tested once."""
    return Check("the tests of a merged tree", settings.test, settings.test_timeout_s)


class JoiningRoom(WorktreeRoom):
    """No room, but what can be joined is joined as in one."""

    def __init__(self, tools: MergeTools) -> None:
        self._tools = tools

    async def join(self, git: Git, ours: str, theirs: str, merge: Merge) -> Merge:
        return await self._tools.join(git, ours, theirs, merge)

    async def warnings(self, git: Git, ours: str, theirs: str) -> Sequence[str]:
        return await self._tools.warnings(git, ours, theirs)

    async def across_files(
        self, git: Git, sides: Sequence[tuple[str, str]]
    ) -> Sequence[SemanticConflict] | None:
        return await self._tools.across_files(git, sides)


def _semantic(conflict: Conflict) -> SemanticConflict:
    places = conflict.places or ((conflict.path or "", 0, 0),)
    path, first, last = places[0]
    return SemanticConflict(
        conflict.evidence,
        path,
        places[-1][0],
        (first, last),
        conflict.entity or "",
        str(conflict.severity),
        conflict.as_json(),
    )


def _said(result: CheckResult) -> str:
    match result.state:
        case State.PASSED:
            return ""
        case State.NOT_RUN:
            return f"they could not be run: {result.reason}"
        case State.TIMED_OUT:
            return result.reason
    return f"exit code {result.exit_code}"


def last_lines(result: CheckResult) -> str:
    """The last lines that tests wrote which did not pass."""
    if result.passed:
        return ""
    rows = [row.rstrip() for row in safe((result.head + result.tail)[-4 * MOST_SAID :]).split("\n")]
    text = "\n".join([row for row in rows if row][-MOST_LINES:])
    return text if len(text) <= MOST_SAID else f"... {text[-MOST_SAID:]}"

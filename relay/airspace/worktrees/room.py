"""What the worktrees ask of the room that they belong to.

Invariant: a change that git has made is not undone because the room could not record it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from relay.airspace.pair_facts import SemanticConflict
from relay.airspace.worktrees.commit_message import Asked, WorkSummary
from relay.airspace.worktrees.lifecycle import WorktreeChange
from relay.git.checkout import Checkout
from relay.git.run import Git
from relay.git.trial_merge import ConflictPart, Merge
from relay.model import Refusal


class LockedFiles(Refusal):
    """Somebody has locked files of the branch; it can be merged when they are free."""


class Unchecked(Exception):
    """Two sides could not be looked at across files; the message says why."""


@dataclass(frozen=True, slots=True)
class MergeTest:
    """What the configured tests say of a merged tree. `said`: of tests that fail, in one line; `output`: the last
    lines that they wrote, "" = none."""

    passed: bool
    said: str = ""
    output: str = ""

    @property
    def told(self) -> str:
        """Both, each line of the output a line."""
        return f"{self.said}\n{self.output}" if self.output else f"{self.said}."


@dataclass(frozen=True, slots=True)
class KnownTests:
    """What the room's tests say of an agent's work. `said`: why they do not speak for it, in a sentence, empty: they
    do, or nothing is known. `failed`: they were run on what stands there now, and failed."""

    said: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class WantedMerge:
    """A merge that conflicts: the work of `agent` at the commit `theirs_at` into `into` at `ours_at`. `ours` (by the
    id of the part), `theirs`: who is behind each side and what it is for, as far as that is known."""

    agent: str
    into: str
    ours_at: str
    theirs_at: str
    ours: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    theirs: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class LastLanding:
    """The commit by which an agent's work came onto the main branch `into` last: `at`: when (ISO 8601); `by`: as who
    asked; `squash`: as one commit; `files`: those that it changed."""

    commit: str
    at: str
    by: str
    into: str = "main"
    squash: bool = False
    files: int = 0

    @property
    def said(self) -> str:
        """When, and as which commit."""
        return f"since {self.at[:16].replace('T', ' ')} UTC (commit {self.commit[:9]}, as {self.by} asked)"


class WorktreeRoom:
    """This one stands for no room: it forbids nothing, knows nothing and records nothing."""

    async def join(self, git: Git, ours: str, theirs: str, merge: Merge) -> Merge:
        """The merge with what can be joined of the files in which git conflicts (`relay.git.trial_merge.Join`)."""
        return merge

    async def warnings(self, git: Git, ours: str, theirs: str) -> Sequence[str]:
        """What looks wrong in git's own clean merge of two commits: each with its path."""
        return ()

    async def test(self, git: Git, tree: str) -> MergeTest | None:
        """Run the configured tests on a tree, outside of every checkout; None: none are configured."""
        return None

    async def known_tests(self, agent: str, tree: str) -> KnownTests:
        """What the room's tests say of an agent's work with this tree."""
        return KnownTests()

    async def across_files(
        self, git: Git, sides: Sequence[tuple[str, str]]
    ) -> Sequence[SemanticConflict] | None:
        """What the one of two sides changes and the other relies on; a side is its agent and its commit. None: nobody
        looks. Raises Unchecked."""
        return None

    async def ask(self, wanted: WantedMerge, parts: Sequence[ConflictPart]) -> Sequence[str]:
        """Ask people what is to stand where both sides changed the same; the names of these conflicts in the room."""
        return ()

    async def resolved_by(self, ids: Sequence[str]) -> Sequence[str]:
        """A trailer for each person whose own lines stand in one of these places (`ConflictPart.id`)."""
        return ()

    async def authors(
        self,
        checkout: Checkout,
        git: Git,
        agents: frozenset[str],
        main: str,
        side: str,
        parts: Sequence[ConflictPart],
    ) -> Mapping[str, tuple[str, str]]:
        """By the id of each part in which the commit `side` conflicts with the main branch `main` of `checkout`: who
        changed its lines there last, one of `agents` or a person, and what for. `git`: in the scratch."""
        return {}

    async def tested(self, places: Sequence[str], test: MergeTest) -> Sequence[str]:
        """The configured tests were run on a merge with what was chosen in these places (ids of
        `ConflictPart`). The names
        of the conflicts that are open again by that."""
        return ()

    async def choices(self) -> int:
        """Another number when somebody has decided something in a conflict since."""
        return 0

    async def check_merge(self, agent: str, by: str, paths: Sequence[str]) -> None:
        """Raise LockedFiles when `by` must not merge these paths of the agent's branch now."""

    async def summary(self, agent: str, since: float, paths: Collection[str] | None = None) -> WorkSummary:
        """What the agent's work since then (Unix seconds) is about, for the message of its merge. `paths`: what it
        changes; a turn that changed none of them has no part in it. None: they are not known."""
        return WorkSummary()

    async def subjects(self, branches: Mapping[str, tuple[float, Collection[str]]]) -> Mapping[str, Asked]:
        """By agent, the request that names its work, as it names the merge's commit, where one is known. `branches`:
        by agent, `since` and `paths` as of `summary`."""
        return {}

    async def landed(self, agents: Sequence[str]) -> Mapping[str, LastLanding]:
        """By agent, the last landing of its work; none where nothing is known to have landed, or what did was taken
        back."""
        return {}

    async def trailers(self, agent: str, branch: str, tree: str) -> tuple[str, ...]:
        """The trailers of a commit of the agent's work on this branch, whose tree is `tree`: what the log knows of it
        (`relay.log.commit_trailers`)."""
        return ()

    async def record(
        self, change: WorktreeChange, also: Callable[[Any], Awaitable[None]] | None = None
    ) -> None:
        """Keep an event of the change, and tell the room of it, in one transaction; `also`: what else is written in
        it."""

    @asynccontextmanager
    async def leaving(self, agent: str, by: str, done: str) -> AsyncIterator[Callable[[], Awaitable[bool]]]:
        """While an agent's worktree is removed, or its work discarded (`done`): nothing is begun there. Raises
        Refusal. It gives what ends all that runs there and archives it, for the moment when nothing else refuses:
        true = `archive` has run; it raises Refusal, and then nothing is to be taken away."""

        async def archive() -> bool:
            return False

        yield archive

    async def check_space(self, agent: str) -> None:
        """Raise UnusableCheckout where no new worktree may be made."""

    async def report_trouble(self, trouble: str, member: str) -> None:
        """Tell the room once why the agents of this member have no worktrees; "" = those of the room's one relay."""

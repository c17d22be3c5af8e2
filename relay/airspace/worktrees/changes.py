"""What git says that an agent changed: between two revisions, or in its worktree as it stands.

Invariant: content is compared by git's own hashes, and nothing of the repository's configuration runs
(`relay/git/run.py`). What nobody can know is None. Is `relay.model.ChangedFiles`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree, WorktreeGone
from relay.git.checkout import UnusableCheckout, open_checkout
from relay.git.diff import changed_files
from relay.git.run import Git, GitError, name_of
from relay.model import Fault, Refusal

#: Characters of a revision: a branch's name is a file's at most.
MOST_REVISION = 255


class RepoChanges:
    """Over one repository; with `registry` also the agents' worktrees as they stand."""

    def __init__(self, repo: Path, registry: WorktreeRegistry | None = None) -> None:
        self._repo, self._registry = repo, registry

    async def changed_files(
        self, agent: str, base: str | None = None, head: str | None = None
    ) -> Sequence[str] | None:
        """Raises Refusal for a revision that is none (MALFORMED), and when git cannot tell now (BUSY)."""
        try:
            return await self._changed(agent, base, head)
        except (GitError, UnusableCheckout, WorktreeGone, OSError) as error:
            raise Refusal(
                f"git cannot say what was changed: {error}.",
                "Fix that and send it again.",
                Fault.BUSY,
                "git_failed",
            ) from error

    async def _changed(self, agent: str, base: str | None, head: str | None) -> Sequence[str] | None:
        worktree = None if self._registry is None else self._registry.find(agent)
        if worktree is not None:
            async with worktree.lock:
                return await self._in_worktree(worktree, base, head)
        if base is None or head is None:
            return None
        git = (await open_checkout(self._repo)).git
        start, end = await _commit(git, "base", base), await _commit(git, "head", head)
        return await _between(git, start, end, end)

    async def _in_worktree(
        self, worktree: TrackedWorktree, base: str | None, head: str | None
    ) -> Sequence[str] | None:
        """`head` left out: the worktree as it stands, with what is not committed; `base`: the main branch."""
        asked, git = worktree.checkout.git, worktree.snapshotter.git
        start = await (self._main() if base is None else _commit(asked, "base", base))
        if head is not None:
            end = await _commit(asked, "head", head)
            return None if start is None else await _between(git, start, end, end)
        snapshot = await worktree.take_snapshot(everything=True)
        if start is None:
            return None
        return await _between(git, start, snapshot.head.commit or start, snapshot.tree)

    async def _main(self) -> str | None:
        known = self._registry is not None and self._registry.main is not None
        return (await self._registry.main_head()).commit if self._registry is not None and known else None


async def _commit(git: Git, field: str, revision: str) -> str:
    """The commit that a revision names. Raises Refusal."""
    commit = None
    if revision and len(revision) <= MOST_REVISION and revision.isprintable():
        commit = await git.maybe(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
        )
    if commit is None:
        raise Refusal(
            f"{field}: {revision[:80]!r} is not a commit of this repository.",
            "Give a commit, a branch or a tag that is there, or leave it out.",
            Fault.MALFORMED,
            "unknown_revision",
        )
    return commit


async def _between(git: Git, start: str, end: str, tree: str) -> Sequence[str]:
    """The paths that `tree` (what `end` is, or has become) changes since it left `start`: not what others did there
    meanwhile."""
    base = await git.maybe("merge-base", start, end) or start
    return sorted({name_of(record.path) for record in await changed_files(git, base, tree, renames=False)})

"""The files of a change that is to be verified: its tree, and which paths it changes.

Invariant: what is looked up is what git has; where nobody knows what was changed, that is
said and nothing is made up.
"""

from __future__ import annotations

from dataclasses import replace

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.checks.exported_tree import tree_id
from relay.git.diff import changed_files
from relay.git.run import Git, GitError, name_of
from relay.verification.verification import Change, Source


class NoTree(Exception):
    """There is nothing to verify; the message says why."""


async def look_up(registry: WorktreeRegistry, change: Change) -> Change:
    """The change with its tree and files. Raises NoTree, GitError, WorktreeGone, OSError."""
    main = registry.main
    if main is None:
        raise NoTree(f"There is no repository: {registry.trouble or 'it is not open yet'}")
    git = registry.scratch.git(main)
    if change.tree is None and change.commit is None and change.source is not Source.GITHUB:
        change = await _as_it_stands(registry, change)
    if change.tree is None and change.commit is not None:
        try:
            change = replace(change, tree=await tree_id(git, change.commit))
        except GitError:
            if change.files is None:
                short = str(change.commit)[:12]
                raise NoTree(
                    f"The commit {short} is not in this repository: `git fetch` brings it."
                ) from None
    if change.files is None:
        change = await _with_files(registry, git, change)
    return change


async def _as_it_stands(registry: WorktreeRegistry, change: Change) -> Change:
    """The work in its agent's worktree now."""
    worktree = registry.find(change.agent)
    if worktree is None:
        raise NoTree(f"Nobody knows what {change.agent} changed: it has no worktree here.")
    async with worktree.lock:
        snapshot = await worktree.take_snapshot(everything=True)
    branch = snapshot.head.branch or ""
    return replace(change, tree=snapshot.tree, commit=snapshot.commit, branch=change.branch or branch)


async def _with_files(registry: WorktreeRegistry, git: Git, change: Change) -> Change:
    tree, base = change.tree, change.base
    assert tree is not None
    if base is None:
        target = await registry.target()
        if target is None:
            raise NoTree("It is not known what the main branch is, so nobody knows what was changed.")
        of = change.commit or target.commit
        base = await git.maybe("merge-base", target.commit, of) or target.commit
    records = await changed_files(git, base, tree, renames=False)
    files = tuple(dict.fromkeys(name_of(record.path) for record in records))
    if not files:
        raise NoTree("Nothing was changed.")
    return replace(change, base=base, files=files)

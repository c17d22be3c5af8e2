"""The files of a change that is to be verified: its tree, and which paths it changes.

Invariant: what is looked up is what git has, or GitHub where a webhook told of it; where nobody knows what was
changed, that is said and nothing is made up. What an agent says that it changed only adds to what git says.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import WorktreeGone
from relay.checks.exported_tree import tree_id
from relay.git.diff import changed_files
from relay.git.run import Git, GitError, name_of
from relay.verification.github.errors import GithubError
from relay.verification.verification import Change, Source

#: What keeps a change from being looked up; it may be another time.
FAILURES = (GitError, GithubError, WorktreeGone, OSError)


class NoTree(Exception):
    """There is nothing to verify; the message says why."""


class FilesOnGithub(Protocol):
    async def files_of(self, change: Change) -> tuple[str, ...]:
        """All paths that a change touches of which a webhook told. Raises GithubError."""
        ...


async def look_up(registry: WorktreeRegistry, change: Change, github: FilesOnGithub | None = None) -> Change:
    """The change with its tree and files. `github`: None = GitHub is not asked. Raises NoTree and FAILURES."""
    main = registry.main
    if main is None:
        raise NoTree(f"There is no repository: {registry.trouble or 'it is not open yet'}")
    git = registry.scratch.git(main)
    if change.source is Source.GITHUB:
        return await _of_github(registry, git, change, github)
    if change.tree is None and change.commit is None:
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
    declared = change.files
    if declared is None or (change.source is Source.AGENT and change.tree is not None):
        change = await _with_files(registry, git, change)
        change = replace(change, files=tuple(dict.fromkeys((*(change.files or ()), *(declared or ())))))
    return change


async def _of_github(
    registry: WorktreeRegistry, git: Git, change: Change, github: FilesOnGithub | None
) -> Change:
    """What a webhook told, with its tree where the commit is here too, and the files that were not named."""
    commit = str(change.commit)
    change = replace(change, tree=await git.maybe("rev-parse", "--verify", "-q", f"{commit}^{{tree}}"))
    if change.files is not None:
        return change
    base = None if change.base is None else await git.maybe("merge-base", change.base, commit)
    if change.tree is not None and (base is not None or change.base is None):
        return await _with_files(registry, git, replace(change, base=base))
    if github is None:
        raise NoTree(f"The commit {commit[:12]} is not in this repository: `git fetch` brings it.")
    files = await github.files_of(change)
    if not files:
        raise NoTree("Nothing was changed.")
    return replace(change, files=files)


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
    if base is None and change.source is Source.LANDING and change.commit:
        # What it brought to the main branch.
        base = await git.line("rev-parse", "--verify", f"{change.commit}^1")
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


async def arguments(git: Git, tree: str, paths: Sequence[str]) -> tuple[str, ...]:
    """These paths as a program in an export of the tree gets them: those that the tree has, byte by byte, and none
    that a program takes for an option. Raises GitError."""
    listed = (await git.run("ls-tree", "-r", "-z", "--name-only", tree)).out.split(b"\0")
    there = {name_of(path): os.fsdecode(path) for path in listed if path}
    words = [there[path] for path in paths if path in there]
    return tuple(f"./{word}" if word.startswith("-") else word for word in words)

"""The checks of a handoff that need no command: artifacts, open tasks in comments, documentation.

Invariant: only what the role added between its base and the tree that it hands on counts against it; what cannot be
read is said, and is no success.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from relay.checks.bounded_output import KEPT
from relay.config.handoffs import RoleSettings
from relay.git.diff import parse_raw
from relay.git.run import Git, name_of
from relay.timeline.handoffs.added_lines import added_files
from relay.timeline.handoffs.documentation import undocumented
from relay.timeline.handoffs.open_tasks import open_tasks

#: git's id of the tree without entries and of the blob without bytes, by the length of an id.
_EMPTY_TREE = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_EMPTY_BLOB = {
    40: "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    64: "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
}
_REGULAR = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class Handed:
    """What is handed on: `tree`, by `role`, which began with `base`. Both are ids of trees that `git` has."""

    git: Git
    role: RoleSettings
    base: str
    tree: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a check says: `detail` is one sentence, `listed` has what it found, a line each."""

    state: Literal["passed", "failed", "not_run"]
    detail: str
    listed: str = ""


BuiltInCheck = Callable[[Handed], Awaitable[Found]]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a role leaves for the next: its path, and git's id of what is in it."""

    path: str
    blob: str


async def artifacts(git: Git, pattern: str, tree: str) -> tuple[Artifact, ...]:
    """The files of a tree that a glob names (git's `:(glob)`), those without content left out. Raises GitError."""
    globbing = replace(git, env={**git.env, "GIT_LITERAL_PATHSPECS": None})
    raw = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff", "--no-textconv")
    done = await globbing.run(*raw, _EMPTY_TREE[len(tree)], tree, "--", f":(top,glob){pattern}")
    return tuple(
        Artifact(name_of(record.path), record.new)
        for record in parse_raw(done.out)
        if record.new_mode in _REGULAR and record.new != _EMPTY_BLOB[len(tree)]
    )


async def artifacts_present(handed: Handed) -> Found:
    """ArtifactsPresent: each of the role's globs names a file with content in the tree."""
    role = handed.role
    if not role.artifacts:
        detail = f"ArtifactsPresent has not run: `handoffs.roles` names no artifacts of {role.name}."
        return Found("not_run", detail)
    lines, missing = list[str](), list[str]()
    for pattern in role.artifacts:
        there = await artifacts(handed.git, pattern, handed.tree)
        lines += [f"{artifact.path} ({artifact.blob[:12]})" for artifact in there]
        if not there:
            missing.append(pattern)
            lines.append(f"{pattern}: no file with content")
    if missing:
        return Found("failed", f"{role.name} has not left {', '.join(missing)}.", _listed(lines))
    return Found("passed", f"All artifacts of {role.name} are there.", _listed(lines))


async def no_todo_comments(handed: Handed) -> Found:
    """NoTodoComments: no line that the role added has TODO, FIXME, XXX or HACK in a comment."""
    added = await added_files(handed.git, handed.base, handed.tree)
    marked = await asyncio.to_thread(lambda: [(file.path, open_tasks(file)) for file in added.files])
    lines = [f"{path}:{number}: {text}" for path, tasks in marked for number, text in tasks]
    if lines:
        detail = f"{_count(lines, 'added comment')} of unfinished work, the first: {lines[0][:200]}"
        return Found("failed", detail, _listed(lines))
    if added.unread:
        return _too_large("NoTodoComments", added.unread)
    return Found("passed", f"No open task in the comments of {_count(added.files, 'changed file')}.")


async def documentation_complete(handed: Handed) -> Found:
    """DocumentationComplete: the public functions and classes that the role added have docstrings or doc comments."""
    added = await added_files(handed.git, handed.base, handed.tree)
    read = await asyncio.to_thread(lambda: [(file.path, undocumented(file)) for file in added.files])
    lines = [f"{path}:{line}: {name}" for path, result in read for line, name in result.missing]
    unread = [f"{path}: {result.unread}" for path, result in read if result.unread]
    not_read = f" {_count(unread, 'file')} could not be read, the first: {unread[0]}." if unread else ""
    if lines:
        detail = f"{_count(lines, 'added definition')} without documentation, the first: {lines[0][:200]}."
        return Found("failed", detail + not_read, _listed([*lines, *unread]))
    if added.unread:
        return _too_large("DocumentationComplete", added.unread)
    if unread:
        detail = f"DocumentationComplete has not run on all that was added:{not_read}"
        fix = " Give `handoffs.rules.DocumentationComplete.run` for it."
        return Found("not_run", detail + fix, _listed(unread))
    return Found(
        "passed", f"All public definitions that were added to {_count(read, 'file')} are documented."
    )


#: The rules that need no command; one that has a command is checked by that instead.
BUILT_IN: dict[str, BuiltInCheck] = {
    "ArtifactsPresent": artifacts_present,
    "NoTodoComments": no_todo_comments,
    "DocumentationComplete": documentation_complete,
}


def _too_large(rule: str, paths: Sequence[str]) -> Found:
    detail = f"{rule} has not run: {_count(paths, 'file')} too large to be read, the first: {paths[0]}."
    return Found("not_run", detail, _listed(paths))


def _count(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(lines)[:KEPT]

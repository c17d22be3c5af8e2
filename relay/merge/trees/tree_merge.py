"""The merge of two commits where git conflicts: each file in conflict is tried by the ladder.

Invariants:
- git merges the trees (renames, folders, modes), and its answer stands for every path in which it does not conflict;
- a path is joined whole or not at all: one that is not keeps what git wrote there, with its markers;
- nothing is written but objects, in the git directory that is given.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from relay.git.run import Git, GitError, name_of
from relay.git.trial_merge import JoinedFile, Merge
from relay.merge.text.file_merge import MergedFile, is_binary, merge_file
from relay.merge.text.git_text import GitText, GitTextError, git_text
from relay.merge.text.ladder import MOST_BYTES
from relay.merge.trees.presence import Entry, presence

#: Bytes of all files in conflict that are read in one go.
MOST_READ = 64 * 1_048_576
#: What git may say of a path whose content alone conflicts.
OF_CONTENT = frozenset({"Auto-merging", "CONFLICT (contents)", "CONFLICT (add/add)"})


@dataclass(frozen=True, slots=True)
class TreeConflict:
    """A path that is not joined. `kind`: git's word for it, or what stands against joining it."""

    path: str
    kind: str


@dataclass(frozen=True, slots=True)
class JoinedTrees:
    """The merge of two commits. `tree`: its id, with markers in what conflicts; `joined`: the paths that git could
    not merge, with the steps that did; `warnings`: of a path, what is suspicious in its merge."""

    tree: str
    joined: tuple[JoinedFile, ...] = ()
    conflicts: tuple[TreeConflict, ...] = ()
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class ConflictedPath:
    """A path in conflict: what the base, ours and theirs have there, and what git says of it."""

    stages: list[Entry | None] = field(default_factory=lambda: [None, None, None])
    said: list[str] = field(default_factory=list)


async def join(git: Git, ours: str, theirs: str, merge: Merge) -> Merge:
    """As `relay.git.trial_merge.Join`: the merge with what can be joined joined; git's own where anything fails."""
    try:
        done = await join_trees(git, ours, theirs)
    except (GitError, GitTextError):
        return merge
    return Merge(tuple(conflict.path for conflict in done.conflicts), done.tree, done.joined)


async def join_trees(git: Git, ours: str, theirs: str) -> JoinedTrees:
    """Merge two commits. Raises GitError (no common history, say) and GitTextError."""
    done = await git.run("merge-tree", "--write-tree", "-z", "--messages", ours, theirs, ok=(0, 1))
    tree, paths = conflicted_paths(done.out)
    if done.code == 0:
        return JoinedTrees(tree)
    wanted = [
        entry.id for path in paths.values() for entry in path.stages if entry is not None and entry.regular
    ]
    blobs = await git.blobs(wanted, most=MOST_READ)
    merged = await asyncio.to_thread(_merge_all, paths, blobs)
    joined: list[JoinedFile] = []
    conflicts: list[TreeConflict] = []
    warnings: dict[str, tuple[str, ...]] = {}
    entries: list[tuple[bytes, Entry]] = []
    for name, answer in merged.items():
        path = name_of(name)
        if isinstance(answer, str):
            conflicts.append(TreeConflict(path, answer))
            continue
        mode, file = answer
        if not file.clean:
            conflicts.append(TreeConflict(path, file.conflicts[0].kind))
            continue
        written = await git.run("hash-object", "-w", "--stdin", "--no-filters", stdin=file.data)
        entries.append((name, Entry(mode, written.text)))
        joined.append(JoinedFile(path, file.steps or (file.by,)))
        if file.warnings:
            warnings[path] = file.warnings
    if entries:
        tree = await tree_with(git, tree, entries)
    return JoinedTrees(tree, tuple(joined), tuple(conflicts), warnings)


def conflicted_paths(out: bytes) -> tuple[str, dict[bytes, ConflictedPath]]:
    """`git merge-tree -z`: the tree; `MODE ID STAGE\\tPATH` of each conflict; an empty field; then of each message
    how many paths it names, these, its kind, its text."""
    tree, *fields = out.split(b"\0")
    paths: dict[bytes, ConflictedPath] = {}
    at = 0
    while at < len(fields) and fields[at]:
        about, _, name = fields[at].partition(b"\t")
        mode, id, stage = about.decode("ascii").split(" ")
        paths.setdefault(name, ConflictedPath()).stages[int(stage) - 1] = Entry(mode, id)
        at += 1
    at += 1
    while at + 1 < len(fields) and fields[at]:
        count = int(fields[at])
        names, kind = fields[at + 1 : at + 1 + count], fields[at + 1 + count].decode("utf-8", "replace")
        for name in names:
            if name in paths:
                paths[name].said.append(kind)
        at += count + 3
    return tree.decode("ascii"), paths


def _merge_all(
    paths: Mapping[bytes, ConflictedPath], blobs: Mapping[str, bytes]
) -> dict[bytes, str | tuple[str, MergedFile]]:
    """Of each path its mode and merge, or why there is none."""
    done: dict[bytes, str | tuple[str, MergedFile]] = {}
    with git_text() as texts:
        for name, path in paths.items():
            other = [kind for kind in path.said if kind not in OF_CONTENT]
            found = presence(*path.stages)
            if other:
                done[name] = other[0]
                continue
            if found.conflict or not found.text or found.entry is None:
                done[name] = found.conflict or "it is no conflict of content"
                continue
            data = [blobs.get(entry.id) if entry is not None else b"" for entry in path.stages]
            done[name] = _merged(texts, name, found.entry.mode, data)
    return done


def _merged(
    texts: GitText, name: bytes, mode: str, data: Sequence[bytes | None]
) -> str | tuple[str, MergedFile]:
    base, ours, theirs = data
    if base is None or ours is None or theirs is None:
        return "its content is not there"
    if max(map(len, (base, ours, theirs))) > MOST_BYTES:
        return f"it is larger than {MOST_BYTES:,} bytes"
    if any(map(is_binary, (base, ours, theirs))):
        return "both changed a binary file"
    return mode, merge_file(texts, base, ours, theirs, name_of(name))


async def tree_with(git: Git, tree: str, entries: Sequence[tuple[bytes, Entry]]) -> str:
    """The tree with these paths in it."""
    with tempfile.TemporaryDirectory(prefix="relay-merge-") as folder:
        index = Git(git.folder, {**git.env, "GIT_INDEX_FILE": str(Path(folder) / "index")}, git.config)
        await index.run("read-tree", tree)
        lines = b"".join(f"{entry.mode} {entry.id}\t".encode() + name + b"\0" for name, entry in entries)
        await index.run("update-index", "-z", "--index-info", stdin=lines)
        return await index.line("write-tree")

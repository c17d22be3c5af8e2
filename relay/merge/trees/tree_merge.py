"""What git says of the paths in which a merge of two commits conflicts, and its tree with some of them settled.

Invariant: nothing is written but objects, in the git directory that is given.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from relay.git.run import Git
from relay.merge.trees.presence import Entry

BINARY = "CONFLICT (binary)"
#: What git may say of a path whose content alone conflicts.
OF_CONTENT = frozenset({"Auto-merging", "CONFLICT (contents)", "CONFLICT (add/add)"})

#: What git may say of a path of which one side can be taken as a whole.
OF_PATH = OF_CONTENT | {"CONFLICT (modify/delete)", BINARY}


@dataclass(slots=True)
class ConflictedPath:
    """A path in conflict: what the base, ours and theirs have there, and what git says of it."""

    stages: list[Entry | None] = field(default_factory=lambda: [None, None, None])
    said: list[str] = field(default_factory=list)


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


async def tree_with(git: Git, tree: str, entries: Sequence[tuple[bytes, Entry | None]]) -> str:
    """The tree with these paths in it; None: without that one."""
    with tempfile.TemporaryDirectory(prefix="relay-merge-") as folder:
        index = Git(git.folder, {**git.env, "GIT_INDEX_FILE": str(Path(folder) / "index")}, git.config)
        await index.run("read-tree", tree)
        gone = Entry("0", "0" * len(tree))
        lines = b"".join(
            f"{(entry or gone).mode} {(entry or gone).id}\t".encode() + name + b"\0"
            for name, entry in entries
        )
        await index.run("update-index", "-z", "--index-info", stdin=lines)
        return await index.line("write-tree")

"""A ref as a log: commits that only come on top, each with files and trees of its own.

Invariants:
- a commit holds what was appended with it, not what came before: that is in its parents. Its objects are the
  repository's own and reachable by the ref, so `gc` keeps them and a push of the ref takes them along;
- no branch has it, nobody's name is needed, and appending beside another process fails rather than losing a commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relay.git.run import Git
from relay.git.snapshot import commit_tree, signed_by_relay

#: Folder of the trees in a commit.
TREES = "trees"
#: Bytes that one call reads.
MOST_READ = 512 * 1_048_576


@dataclass(frozen=True, slots=True)
class LogCommit:
    """A commit of the log. `data`: of the file that was asked for; None: it has none."""

    commit: str
    data: bytes | None


async def append_commit(
    git: Git,
    ref: str,
    files: Mapping[str, bytes],
    trees: Sequence[str],
    message: str,
    at: int,
) -> str:
    """Put a commit on top of the ref: these files, and these trees (ids of the repository's) under `trees/`. `at`:
    Unix seconds. Gives its id. Raises GitError, also when the ref has moved meanwhile."""
    before = await head_commit(git, ref)
    entries = []
    for name, data in sorted(files.items()):
        blob = (await git.run("hash-object", "-w", "--stdin", "--no-filters", stdin=data)).text
        entries.append(f"100644 blob {blob}\t{name}\n")
    if trees:
        listed = "".join(f"040000 tree {tree}\t{tree}\n" for tree in sorted(set(trees)))
        inner = (await git.run("mktree", stdin=listed.encode())).text
        entries.append(f"040000 tree {inner}\t{TREES}\n")
    tree = (await git.run("mktree", stdin="".join(entries).encode())).text
    commit = await commit_tree(git, tree, [before] if before else [], message, signed_by_relay(at))
    # The old value is named, so that nothing is lost to somebody who appends at the same time.
    await git.run("update-ref", "--no-deref", ref, commit, before or "0" * len(commit))
    return commit


async def head_commit(git: Git, ref: str) -> str | None:
    """The newest commit of the log; None: there is no such ref."""
    return await git.maybe("rev-parse", "-q", "--verify", f"{ref}^{{commit}}")


async def read_commits(git: Git, ref: str, name: str, after: str | None = None) -> list[LogCommit]:
    """The commits of the log behind `after` (all, when the log has no such commit), the oldest first, each with its
    file `name`. Raises GitError."""
    known = after is not None and await git.maybe("merge-base", after, ref) == after
    asked = ("rev-list", "--first-parent", "--reverse", ref, *([f"^{after}"] if known else []), "--")
    commits = (await git.line(*asked)).split()
    if not commits:
        return []
    wanted = "".join(f"{commit}:{name}\n" for commit in commits).encode()
    found = (await git.run("cat-file", "--batch-check", stdin=wanted)).text.split("\n")
    # `ID blob SIZE`, or `NAME missing`.
    words = [line.split(" ") for line in found]
    ids = [about[0] if about[1:2] == ["blob"] else None for about in words]
    contents = await git.blobs([id for id in ids if id is not None], most=MOST_READ)
    return [
        LogCommit(commit, None if id is None else contents.get(id))
        for commit, id in zip(commits, ids, strict=True)
    ]


async def list_refs(git: Git, prefix: str) -> list[str]:
    """The refs below a prefix that ends with `/`."""
    return (await git.line("for-each-ref", "--format=%(refname)", prefix)).split()

"""The commits that came onto the main branch, and what of each a merge by hand has brought.

Invariant: what git's own merge makes of the two sides is brought, and what relay's joins of them; what a commit has
besides is of who made it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

from relay.airspace.worktrees.lifecycle import CHANGED, MERGED
from relay.git.run import Git, GitError, name_of
from relay.git.signing import Signature
from relay.git.trial_merge import Join, merge_trees
from relay.log import events
from relay.log.commit_trailers import EVENT
from relay.log.events import Event
from relay.memory.knowledge.extractors import is_trailer
from relay.model.touches import Touch
from relay.store.ports import Store, Tx
from relay.timeline.projection import KnownTree, known_commits, recorded_commits
from relay.timeline.reading import author
from relay.timeline.rewind.named_touches import oid_of
from relay.timeline.rewind.tree_entries import changes_between, existing, tree_with

#: Commits of the main branch that are recorded one by one; of more, what they did together.
MOST_COMMITS = 200
#: How the log names the main branch among the worktrees.
MAIN = "main"
#: Of what came in one step, the newest commits that are looked at, and of these the newest trailers; and the
#: characters of each.
MOST_READ, MOST_TRAILERS, MOST_TRAILER = 1000, 1000, 2000
_FORMAT = f"%H%x00%T%x00%an%x00%ae%x00%P%x00%(trailers:key={EVENT},valueonly,separator=%x2C)"

_TRAILERS = "%H%x1F%(trailers:only,unfold,separator=%x1F)"


@dataclass(frozen=True, slots=True)
class MainCommit:
    """A commit of the main branch. `author` None: of more than one, or nobody; `named`: the event that relay made it
    for; `branch`: that the main checkout was on."""

    commit: str
    tree: str
    author: Signature | None = None
    parents: tuple[str, ...] = ()
    named: str = ""
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class MergedSide:
    """What a merge commit had from the side that was merged in, by path (blob ids, None = deleted). `clean`: of the
    paths that the commit has as git's own merge makes them, or relay's."""

    had: Mapping[str, str | None] = field(default_factory=dict)
    clean: Mapping[str, str | None] = field(default_factory=dict)

    def came(self, touches: Sequence[Touch]) -> dict[str, tuple[str | None, ...]]:
        """Which contents of these paths its author had before them; nothing for a commit that is no merge."""
        if not self.had:
            return {}
        return {touch.path: (touch.after, self.had.get(touch.path, touch.after)) for touch in touches}


async def commits_between(git: Git, known: str | None, head: str) -> list[MainCommit]:
    """The commits from `known` to `head` along first parents, oldest first; one for all where that is no short way.
    Raises GitError."""
    if known is not None and await git.maybe("merge-base", known, head) == known:
        asked = ("log", "--first-parent", "--reverse", f"--format={_FORMAT}")
        found = await git.line(*asked, f"--max-count={MOST_COMMITS + 1}", f"{known}..{head}", "--")
        commits = [_commit(line) for line in found.split("\n") if line]
        # An agent's branch that has taken the main one in comes from elsewhere: its commits lack what main had.
        if 0 < len(commits) <= MOST_COMMITS and known in commits[0].parents[:1]:
            return commits
    return [MainCommit(head, await git.line("rev-parse", f"{head}^{{tree}}"))]


async def known_here(
    git: Git, store: Store, known: KnownTree, head: str, branch: str | None
) -> KnownTree | None:
    """From which commit on a clone that is on `branch` at `head` has to record what came, where others record their
    clones too; None: nothing. `known`: what the log last knew, maybe of another clone, whose commit may be nowhere
    else. Raises GitError."""
    if known.commit is None:
        return known
    if head in await store.read(lambda tx: known_commits(tx, MAIN, [head], branch)):
        return None
    here = await existing(git, {known.commit}) == {known.commit}
    if here and await git.maybe("merge-base", head, known.commit) == head:
        return None
    if here and await git.maybe("merge-base", known.commit, head) == known.commit:
        return known
    for way in (["--first-parent"], []):
        listed = await git.line("log", *way, "--format=%H", f"--max-count={MOST_READ}", head, "--")
        commits = listed.split("\n")
        found = await store.read(partial(known_commits, worktree=MAIN, commits=commits, branch=branch))
        if (nearest := next((found[commit] for commit in commits if commit in found), None)) is not None:
            return nearest
    # Without both, it stands before all that the log has, as far as it can tell.
    return known if here else None


async def arrival(checkout: Git, branch: str, known: str | None, head: str) -> tuple[str | None, str]:
    """Of a checkout that came from another branch onto this one, where it stands at `head` now: the commit that it
    left the other one at, when that goes on from `known` (else None), and the one that it came to. By the log of its
    HEAD; where that does not say, what is on top of `known` was made after it came. Raises GitError."""
    asked = ("log", "--walk-reflogs", f"--max-count={MOST_COMMITS}", "--format=%H %gs", "HEAD", "--")
    entries = (await checkout.run(*asked, ok=(0, 128))).text.split("\n")
    for entry, earlier in pairwise([*entries, ""]):
        to, _, reason = entry.partition(" ")
        if not (reason.startswith("checkout: moving from ") and reason.endswith(f" to {branch}")):
            continue
        left = earlier.partition(" ")[0] or None
        if left is not None and (known is None or await checkout.maybe("merge-base", known, left) != known):
            left = None
        return left, to if await checkout.maybe("merge-base", to, head) == to else head
    goes_on = known is not None and await checkout.maybe("merge-base", known, head) == known
    return None, known if known is not None and goes_on else head


def _commit(line: str) -> MainCommit:
    commit, tree, name, email, parents, named = line.split("\0", 5)
    return MainCommit(commit, tree, Signature(name, email) if name else None, tuple(parents.split()), named)


@dataclass(frozen=True, slots=True)
class Trailers:
    """What the trailers of a commit say (`own`), and those of the commits that came with it (`brought`): (name,
    value) each, as far as they say something that is worth knowing later."""

    own: tuple[tuple[str, str], ...] = ()
    brought: tuple[tuple[str, str], ...] = ()


async def trailers_of(git: Git, store: Store, known: str | None, head: str) -> Trailers:
    """The trailers of the commits that the main branch has at `head` and had not at `known` or before, oldest first.
    A commit that was made anew and says what the former one said, says nothing more. Raises GitError."""
    new = {} if known is None else await _said(git, f"{known}..{head}")
    if not new:
        return Trailers()
    had = await store.read(lambda tx: recorded_commits(tx, MAIN, new))
    former = set((await _said(git, f"{head}..{known}")).values())
    said = {commit: each for commit, each in new.items() if commit not in had and each not in former}
    own = said.pop(head, ())
    brought = [trailer for each in said.values() for trailer in each]
    return Trailers(own, tuple(brought[-MOST_TRAILERS:]))


async def _said(git: Git, way: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """What the trailers of each commit of this way say, oldest first; nothing where git has let go of its begin."""
    asked = ("log", "--reverse", f"--max-count={MOST_READ}", f"--format={_TRAILERS}", way, "--")
    found = dict[str, tuple[tuple[str, str], ...]]()
    for line in filter(None, (await git.run(*asked, ok=(0, 128))).text.split("\n")):
        commit, *trailers = line.split("\x1f")
        named = [trailer.partition(":") for trailer in trailers[:MOST_TRAILERS]]
        pairs = [
            (name, " ".join(value.split())[:MOST_TRAILER])
            for name, _, value in named
            if is_trailer(name) and value.strip()
        ]
        if pairs:
            found[commit] = tuple(pairs)
    return found


async def merged_side(git: Git, made: MainCommit, join: Join | None = None) -> MergedSide:
    """Of a merge of two commits what the second one brought. `join`: joins where git conflicts, as it may have been
    done. Raises GitError."""
    if len(made.parents) != 2:
        return MergedSide()
    ours, theirs = made.parents
    trees = [await git.line("rev-parse", f"{name}^{{tree}}") for name in made.parents]
    had = await _contents(git, trees[0], trees[1])
    merge = await merge_trees(git, ours, theirs, join)
    if merge is None:
        return MergedSide(had)
    edited = {*merge.conflicts, *await _contents(git, str(merge.tree), made.tree)}
    return MergedSide(had, {path: blob for path, blob in had.items() if path not in edited})


async def _contents(git: Git, before: str, after: str) -> dict[str, str | None]:
    """The paths in which two trees differ, with what the second has there."""
    changes = (await changes_between(git, [(before, after)])).get((before, after), {})
    return {name_of(path): oid_of(entry) for path, (_, entry) in changes.items()}


async def tree_with_part(
    git: Git, before: str, after: str, paths: Collection[str], index: Path
) -> str | None:
    """The tree `before` with what `after` has at these paths; None: git cannot have these without the others.
    `index`: a private one, which need not exist."""
    changes = (await changes_between(git, [(before, after)])).get((before, after), {})
    part = {path: entry for path, (_, entry) in changes.items() if name_of(path) in paths}
    try:
        return await tree_with(git, before, part, index)
    except GitError:
        return None


async def authors_of(tx: Tx, written: Iterable[str]) -> tuple[str, ...]:
    """Whose these events are, each name once."""
    found = [await events.get(tx, id) for id in dict.fromkeys(written)]
    return tuple(dict.fromkeys(author(event) for event in found if event is not None))


async def merge_of_branch(tx: Tx, commit: str) -> Event | None:
    """The event that made this commit of the main branch by merging an agent's; None: a person made it."""
    changes = await events.about(tx, commit, types=(CHANGED,))
    merge = next((event for event in changes if event.outputs["change"] == MERGED), None)
    return None if merge is None or merge.outputs["commit"] != commit else merge

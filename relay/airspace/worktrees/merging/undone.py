"""What a branch would undo of what others landed: git merges it cleanly, since the branch has the landed commit and
took its lines out again. An agent does so that writes a whole file as it knew it before, or settles a merge by taking
its own side.

Invariant: a commit counts as undone in a file only where taking it back would change nothing of the branch's file,
and would change the main branch's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from relay.airspace.worktrees.merging.proposal import MergeSource
from relay.airspace.worktrees.merging.wording import undoes
from relay.airspace.worktrees.room import WorktreeRoom
from relay.git.diff import Record, changed_files
from relay.git.run import Git, name_of
from relay.git.signing import of_relay, signed
from relay.git.snapshot import commit_tree
from relay.git.trial_merge import Merge, merge_trees

#: How the body of a commit begins that takes a merge back (`relay.airspace.worktrees.merging.take_back`).
TAKES_BACK = "This takes back the merge "
#: Commits of the main branch that are looked at, the newest that changed the same files.
MOST_COMMITS = 10
#: Files of a branch that are looked at, and bytes of one commit's.
MOST_FILES, MOST_BYTES = 200, 16 * 1_048_576


async def tree_without(git: Git, head: str, merge: str) -> Merge | None:
    """What `head` (a commit or a tree) becomes without what the commit `merge` brought to its first parent; None: git
    cannot tell. Raises GitError."""
    nobody = signed(of_relay("relay"), of_relay("relay"))
    trees = [await git.line("rev-parse", f"{name}^{{tree}}") for name in (merge, head, f"{merge}^1")]
    # git merges with the base that the two have: as if both came from the merge.
    base = await commit_tree(git, trees[0], [], "base\n", nobody)
    ours, theirs = [await commit_tree(git, tree, [base], "side\n", nobody) for tree in trees[1:]]
    return await merge_trees(git, ours, theirs)


async def undone(
    git: Git, agent: str, base: str, tree: str, records: Sequence[Record]
) -> list[Mapping[str, str]]:
    """`{agent, path, commit, did}` for each file in which the work of `agent` undoes what another brought to the main
    branch, with the newest such commit. `did`: `landed`, or `took back`. `records`: what the `tree` of the work
    changes against `base`, its commit of the main branch. Raises GitError."""
    mine = {name_of(record.path): record for record in records}
    if not mine or len(mine) > MOST_FILES:
        return []
    asked = ("log", "--first-parent", f"--max-count={MOST_COMMITS}", "--format=%x01%H%x00%P%x00%an%x00%b")
    found = dict[tuple[str, str, str], Mapping[str, str]]()
    for entry in (await git.line(*asked, base, "--", *mine)).split("\x01")[1:]:
        commit, parents, who, body = entry.split("\0", 3)
        if who == agent or not parents:
            continue
        brought = await changed_files(git, f"{commit}^1", commit, renames=False)
        both = {path: (record, mine[path]) for record in brought if (path := name_of(record.path)) in mine}
        if likely := await _likely(git, both):
            for path in sorted(likely & await _taken_out(git, base, tree, commit)):
                did = "took back" if body.startswith(TAKES_BACK) else "landed"
                said = (who, path, did)
                # What landed, was taken back and landed again is one thing that is undone.
                found.setdefault(said, {"agent": who, "path": path, "commit": commit, "did": did})
    return [*found.values()]


async def warnings_of(room: WorktreeRoom, git: Git, main: str, side: MergeSource) -> tuple[str, ...]:
    """What to look at in a merge that git makes without a conflict, each with its path: what it undoes, and what
    looks wrong in its text. Raises GitError."""
    work = side.snapshot
    base = await git.maybe("merge-base", main, work.commit) or main
    records = await changed_files(git, base, work.tree)
    hits = await undone(git, side.agent, base, work.tree, records)
    return (*map(undoes, hits), *await room.warnings(git, main, work.commit))


async def _likely(git: Git, both: Mapping[str, tuple[Record, Record]]) -> set[str]:
    """The paths of which each line that a commit brought is fewer times in the work than in its base, and each that
    it took out more times. `both`: the commit's change of a path, and the work's."""
    ids = {
        id for pair in both.values() for record in pair for id in (record.old, record.new) if id.strip("0")
    }
    texts = await git.blobs(ids, most=MOST_BYTES)
    lines = {id: Counter(line for line in text.splitlines() if line.strip()) for id, text in texts.items()}

    def counted(record: Record) -> tuple[Counter[bytes], Counter[bytes]]:
        return lines.get(record.old, Counter()), lines.get(record.new, Counter())

    found = set[str]()
    for path, (landed, own) in both.items():
        (before, after), (base, now) = counted(landed), counted(own)
        brought, taken = after - before, before - after
        if (brought or taken) and all(now[line] < base[line] for line in brought):
            found |= {path} if all(now[line] > base[line] for line in taken) else set()
    return found


async def _taken_out(git: Git, base: str, tree: str, commit: str) -> set[str]:
    """The paths in which the commit is in the base, and all of it is out of the work."""
    ours, mains = [await tree_without(git, each, commit) for each in (tree, base)]
    if ours is None or mains is None:
        return set()
    left = await _differ(git, tree, ours.tree) | {*ours.conflicts}
    return set(await _differ(git, base, mains.tree)) - {*mains.conflicts} - left


async def _differ(git: Git, before: str, after: str) -> frozenset[str]:
    changed = await changed_files(git, before, after, renames=False)
    return frozenset(name_of(record.path) for record in changed)

"""Taking a merge back as one: the main branch gets a commit without it, and the agent's branch has its work again.

Invariants: history stays; what came onto the main branch after the merge stays too, and where it stands on the merge,
nothing is taken back. The commit is computed before anything is touched, and moves as a merge does. Nothing but the
scratch is written before.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay.airspace.worktrees.lifecycle import WorktreeLifecycle, is_ancestor
from relay.airspace.worktrees.merging.filters import refuse_to_filter
from relay.airspace.worktrees.merging.merge_into_main import BranchMerger
from relay.airspace.worktrees.merging.proposal import MergeSource
from relay.airspace.worktrees.merging.undone import TAKES_BACK, tree_without
from relay.airspace.worktrees.merging.wording import some_paths
from relay.git.checkout import Checkout
from relay.git.diff import changed_files
from relay.git.run import Git, GitError, name_of
from relay.git.scratch_repository import ScratchRepository
from relay.git.signing import of_named, of_person, of_relay, signed
from relay.git.snapshot import commit_tree
from relay.model import Refusal


@dataclass(frozen=True, slots=True)
class TakenBack:
    """`merge` was taken back by the commit `commit` of `into`; `files`: how many changed. `again`: the agent's branch
    has the work once more; else `kept`, a ref, has it."""

    merge: str
    commit: str
    into: str
    files: int
    again: bool
    kept: str


class MergeTakeBack:
    """Works on the repository whose main checkout is `main`."""

    def __init__(
        self, main: Checkout, lifecycle: WorktreeLifecycle, scratch: ScratchRepository, merger: BranchMerger
    ) -> None:
        self._main, self._lifecycle, self._scratch, self._merger = main, lifecycle, scratch, merger

    async def take_back(self, side: MergeSource, merge: str, by: str) -> TakenBack:
        """Take back the commit `merge`, by which the side's work came in. Raises Refusal, and then nothing changed;
        GitError."""
        into, head = await self._merger.target(moves=True)
        git = self._scratch.git(self._main)
        if not await is_ancestor(git, merge, head):
            raise Refusal(f"{into} has not the merge {merge[:9]}.", "Nothing is to be taken back.")
        if not await self._brought(git, side, merge, head):
            raise Refusal(
                f"{merge[:9]} is no merge of {side.agent}'s work into {into}.",
                f"`git log --first-parent --author={of_relay(side.agent).email} {into}` lists these.",
            )
        tree = await self._without(git, head, merge)
        changed = await changed_files(git, head, tree, renames=False)
        if not changed:
            raise Refusal(
                f"{into} has nothing of the merge {merge[:9]} any more.", "It was taken back before."
            )
        await self._merger.room.check_merge(side.agent, by, [name_of(record.path) for record in changed])
        await refuse_to_filter(
            self._scratch, self._main, changed, tree, f"Revert it by hand in {self._main.top}."
        )
        committer = await of_person(self._main) or of_relay(by)
        subject = await git.line("log", "-1", "--format=%s", merge)
        text = f'Take back "{subject}"\n\n{TAKES_BACK}{merge}.\n'
        who = signed(await of_named(self._main, by), committer)
        commit = await commit_tree(git, tree, [head], text, who)
        await self._scratch.publish(self._main, commit, [head])
        work = await git.line("rev-parse", f"{merge}^2") if await self._is_merge(git, merge) else merge
        kept = await self._lifecycle.hold(side.agent, work)
        await self._merger.move_main(into, head, commit)
        again = await self._again(side, git, head, commit, subject)
        return TakenBack(merge, commit, into, len(changed), again, kept)

    async def _brought(self, git: Git, side: MergeSource, merge: str, head: str) -> bool:
        """Is it a commit by which the side's work came onto the main branch? relay makes it in the side's name."""
        first = await git.maybe("rev-parse", "-q", "--verify", f"{merge}^1")
        if first is None:
            return False
        line = (await git.run("rev-list", "--first-parent", f"{first}..{head}")).text.splitlines()
        person = await of_person(side.checkout) if side.person else None
        author = await git.line("log", "-1", "--format=%ae", merge)
        return merge in line and author.casefold() == (person or of_relay(side.agent)).email.casefold()

    async def _without(self, git: Git, head: str, merge: str) -> str:
        """The tree of the main branch without what the merge brought. Raises Refusal: later work stands on it."""
        merged = await tree_without(git, head, merge)
        if merged is None or not merged.clean:
            paths = some_paths(merged.conflicts if merged is not None else ())
            raise Refusal(
                f"Later work stands on what the merge brought: {paths}.",
                f"Take that back first, or `git revert -m 1 {merge[:9]}` by hand.",
            )
        return merged.tree

    async def _is_merge(self, git: Git, commit: str) -> bool:
        return await git.maybe("rev-parse", "-q", "--verify", f"{commit}^2") is not None

    async def _again(self, side: MergeSource, git: Git, head: str, commit: str, subject: str) -> bool:
        """Give the side's branch its work again, on top of what the main branch is now; False: it has other work."""
        snapshot, branch, at = side.snapshot, side.snapshot.head.branch, side.snapshot.head.commit
        if (
            not side.own
            or snapshot.dirty
            or branch is None
            or at is None
            or not await is_ancestor(git, at, head)
        ):
            return False
        tree = await git.line("rev-parse", f"{head}^{{tree}}")
        text = f'Bring back "{subject.removeprefix(f"Merge {branch}: ")}"\n'
        again = await commit_tree(
            git, tree, [commit], text, signed(of_relay(side.agent), of_relay(side.agent))
        )
        await self._scratch.publish(side.checkout, again, [commit])
        try:
            await self._lifecycle.forward(side.checkout, branch, at, again)
        except GitError:
            return False
        return True

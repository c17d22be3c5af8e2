"""Merging one worktree into the main branch, or taking its work back.

Invariants: what `propose` shows is what `merge` commits: both go through `_prepare`. The merge is computed before
anything is touched, and what conflicts changes nothing. A person's uncommitted work is never written over: their
files are moved forward by git's own two-tree merge, which refuses when a file that it would write is not as it was
committed, and no file that git does not know is replaced. Each ref moves only from the commit that was seen, and what
leaves a branch is held by another ref first. No hook and no filter runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from relay.airspace.worktrees.commit_message import (
    cleaned_message,
    named_coauthors,
    proposed_message,
    work_message,
)
from relay.airspace.worktrees.lifecycle import WorktreeLifecycle, in_the_way, is_ancestor
from relay.airspace.worktrees.merging.filters import refuse_filtered, refuse_to_filter
from relay.airspace.worktrees.merging.own_files import own_files
from relay.airspace.worktrees.merging.proposal import (
    MOST_MESSAGE,
    DiscardResult,
    MergeOnto,
    MergeOptions,
    MergeResult,
    MergeSource,
    Proposal,
    branch_history,
    unknown_person_note,
    with_trailers,
)
from relay.airspace.worktrees.merging.refusals import (
    IN_THE_WAY,
    Conflict,
    NothingToMerge,
    OwnFiles,
    nothing_left,
)
from relay.airspace.worktrees.merging.under_way import under_way, way_out
from relay.airspace.worktrees.merging.undone import warnings_of
from relay.airspace.worktrees.merging.wording import some_paths
from relay.airspace.worktrees.room import WorktreeRoom
from relay.config.settings import Settings
from relay.git.checkout import Checkout, Head, head_of
from relay.git.diff import Differ, Record, changed_files, left_markers, unified
from relay.git.merge_state import located, operation_under_way
from relay.git.run import LONG_S, Git, GitError, name_of
from relay.git.scratch_repository import ScratchRepository
from relay.git.signing import Signature, of_person, of_relay, signed
from relay.git.snapshot import commit_tree
from relay.git.trial_merge import JoinedFile, merge_trees
from relay.model import Refusal

#: Bytes of a difference that a proposal shows.
MOST_DIFF = 262_144


@dataclass(frozen=True, slots=True)
class _MergedTree:
    """What comes of a merge: its tree, what of `main` it changes, and which files git alone could not merge."""

    git: Git
    branch: str
    into: str
    main: str
    tree: str
    changed: list[Record]
    joined: tuple[JoinedFile, ...] = ()
    settled: tuple[str, ...] = ()


class BranchMerger:
    """Merges into the branch `head`, which the checkout `main` is on. Without one, it is not known."""

    def __init__(
        self,
        main: Checkout,
        head: Head,
        lifecycle: WorktreeLifecycle,
        scratch: ScratchRepository,
        room: WorktreeRoom,
        settings: Settings,
    ) -> None:
        self.room, self._settings = room, settings
        self._main, self._head = main, head
        self._lifecycle, self._scratch = lifecycle, scratch

    async def propose(self, side: MergeSource, by: str, options: MergeOptions) -> Proposal:
        """What `merge` would commit now. Raises Refusal for what it would refuse; GitError."""
        _, proposal, _ = await self._prepare(side, by, options)
        return proposal

    async def prepare(self, side: MergeSource, by: str) -> tuple[Proposal, str]:
        """Commit the side's open work onto its branch, if it may land by itself now; what `propose` gives of it, and
        the branch's head. Raises Refusal, and then nothing was committed; GitError."""
        merged, proposal, text = await self._prepare(side, by, MergeOptions())
        await self._refuse_own_files(side, merged)
        return proposal, await self.commit_work(side, proposal.branch, text, proposal.committer)

    async def merge_onto(self, side: MergeSource, by: str, onto: str, options: MergeOptions) -> MergeOnto:
        """The merge of a side without open work onto a commit that the main branch may become, as a commit in the
        scratch; no branch and no file is touched. Raises Refusal for what `merge` would refuse an agent; GitError."""
        merged, proposal, _ = await self._prepare(side, by, options, onto)
        await self._refuse_own_files(side, merged)
        who = signed(proposal.author, proposal.committer)
        text = await self.with_event(merged.git, proposal.message, side.agent, proposal.branch, merged.tree)
        parents = [onto] if options.squash else [onto, side.snapshot.commit]
        return MergeOnto(proposal, await commit_tree(merged.git, merged.tree, parents, text, who))

    async def merge(self, side: MergeSource, by: str, options: MergeOptions) -> MergeResult:
        """Raises Refusal, and then the main branch and its files are as they were; GitError."""
        merged, proposal, text = await self._prepare(side, by, options)
        if options.unseen or self._settings.agent(by) is not None:
            await self._refuse_own_files(side, merged)
        proposal.check(side.agent, options)
        main = merged.main
        head = await self.commit_work(side, proposal.branch, text, proposal.committer)
        parents = [main] if proposal.squash else [main, head]
        who = signed(proposal.author, proposal.committer)
        text = await self.with_event(merged.git, proposal.message, side.agent, proposal.branch, merged.tree)
        commit = await commit_tree(merged.git, merged.tree, parents, text, who)
        # A clone of its own has its commits in objects of its own.
        same = side.checkout.common == self._main.common
        await self._scratch.publish(self._main, commit, [main, head] if same else [main])
        # Before anything moves: what becomes one commit is held as it was.
        kept = await self._lifecycle.hold(side.agent, head) if proposal.squash and side.own else ""
        await self.move_main(proposal.into, main, commit)
        left = await self.follow(side, proposal.branch, head, commit)
        return MergeResult(proposal, commit, side.snapshot.dirty, left, kept)

    async def _refuse_own_files(self, side: MergeSource, merged: _MergedTree) -> None:
        """Raise OwnFiles where a merge that no person has looked at would change what the room goes by."""
        paths = [name_of(record.path) for record in merged.changed]
        if own := await asyncio.to_thread(own_files, self._settings, self._main.top, paths):
            required = self._settings.landing.required
            raise OwnFiles(side.agent, merged.branch, merged.into, own, self._main.top, required=required)

    async def discard(self, side: MergeSource) -> DiscardResult:
        """Take the side's work off its branch; a ref holds it. Raises Refusal, GitError."""
        branch, main = await self.check_discard(side)
        git = self._scratch.git(self._main)
        head = side.snapshot.head.commit
        base = (await git.maybe("merge-base", main, side.snapshot.commit)) or main
        files = len(await changed_files(git, base, side.snapshot.tree, renames=False))
        commits = int(await git.line("rev-list", "--count", f"{main}..{head}")) if head else 0
        committer = await of_person(self._main) or of_relay(side.agent)
        head = await self.commit_work(side, branch, await self.message_of_work(side), committer)
        kept = await self._lifecycle.hold(side.agent, head)
        try:
            await self._lifecycle.forward(side.checkout, branch, head, main)
        except GitError as error:
            raise Refusal(
                f"The work stays in {side.agent}'s worktree ({_said(error)}). It is committed and kept in {kept}.",
                "Move what is in the way, then discard it again.",
            ) from error
        return DiscardResult(branch, kept, main, commits, files)

    async def check_discard(self, side: MergeSource, given_up: str = "") -> tuple[str, str]:
        """The side's branch and the main branch's commit. `given_up`: where that branch stands once relay's merge
        that is under way there is given up, empty = none is. Raises Refusal where `discard` would, GitError."""
        into, main = await self.target()
        branch = await self.source(side, given_up=bool(given_up))
        work, dirty = given_up or side.snapshot.commit, side.snapshot.dirty and not given_up
        if not dirty and await is_ancestor(self._scratch.git(self._main), work, main):
            raise Refusal(f"{branch} of {side.agent} has nothing to discard: it has no changes.")
        if there := await in_the_way(self._scratch, side.checkout, work, main):
            raise Refusal(
                f"{side.checkout.top} has files unknown to git where {into} has its own: {some_paths(there)}.",
                "Move them away first.",
            )
        return branch, main

    async def restore(self, side: MergeSource, ref: str) -> tuple[str, str]:
        """Put what a ref holds onto the side's branch again; the branch and its commit. Raises Refusal, GitError."""
        into, main = await self.target()
        branch = await self.source(side)
        head = side.snapshot.head.commit
        git = self._scratch.git(self._main)
        kept = await self._main.git.line("rev-parse", "--verify", f"{ref}^{{commit}}")
        by_hand = f"To have it on a branch of its own: `git branch NAME {ref}`."
        if head is not None and await is_ancestor(git, kept, head):
            raise Refusal(f"{branch} has the work of {ref} already.", by_hand)
        # As a merge decides that there is nothing to merge: a squash leaves the work's commits outside of `into`.
        merged = await merge_trees(git, main, kept)
        if merged and merged.clean and merged.tree == await git.line("rev-parse", f"{main}^{{tree}}"):
            raise Refusal(f"{into} has the work of {ref} already.", by_hand)
        if side.snapshot.dirty or head is None or not await is_ancestor(git, head, main):
            raise Refusal(
                f"{branch} has other work, which would be lost.",
                f"Merge or discard that first, or make a branch of what is kept: `git branch NAME {ref}`.",
            )
        await self._lifecycle.forward(side.checkout, branch, head, kept)
        return branch, kept

    async def _prepare(
        self, side: MergeSource, by: str, options: MergeOptions, onto: str = ""
    ) -> tuple[_MergedTree, Proposal, str]:
        """The merge, worked out; and the message of the commit that its uncommitted work becomes. `onto`: the commit
        that it is merged into, empty = the main branch's; then the side is one that is fixed, whatever its checkout
        holds now."""
        into, main = await self.target(moves=True)
        branch = (side.snapshot.head.branch if onto else "") or await self.source(side)
        main = onto or main
        if options.head and options.head != side.snapshot.commit:
            raise Refusal(f"{branch} has changed since it was shown.", "Look at it again, then merge.")
        # In the scratch: a clone of its own has its commits in objects of its own.
        git = self._scratch.git(self._main)
        if not side.snapshot.dirty and await is_ancestor(git, side.snapshot.commit, main):
            raise NothingToMerge(side.agent, branch, into, await self.room.landed([side.agent]))
        merged = await merge_trees(git, main, side.snapshot.commit, self.room.join)
        if merged is None:
            raise Refusal(f"{branch} and {into} have no common history.", "Merge it by hand.")
        if not merged.clean:
            raise Conflict(
                merged.conflicts,
                f"{branch} and {into} conflict in {some_paths(merged.conflicts)}.",
                f"Settle it in the room, under Conflicts, or let {side.agent} merge {into}: `/update @{side.agent}`."
                if side.own
                else f"Merge {into} into {branch} in {side.checkout.top}.",
                merged,
                (into, main),
            )
        changed = await changed_files(git, main, merged.tree, renames=False)
        if not changed and any(part.settled for part in merged.parts):
            raise nothing_left(side.agent, branch, into)
        if not changed:
            raise NothingToMerge(side.agent, branch, into, await self.room.landed([side.agent]))
        hunks = await Differ().hunks(git, main, merged.tree, changed)
        if left := await left_markers(self._scratch.git(side.checkout), changed, hunks):
            raise Conflict(
                [path for path, _ in left],
                f"Conflicts are not settled in {some_paths([located(*file) for file in left])} of {branch}.",
                (
                    f"`/update @{side.agent}` asks {side.agent} to settle them."
                    if side.own
                    else f"Settle them in {side.checkout.top}."
                )
                + " Where they are meant: merge by hand, or give the file the attribute `conflict-marker-size`.",
            )
        await self.room.check_merge(side.agent, by, [name_of(record.path) for record in changed])
        await refuse_to_filter(
            self._scratch, self._main, changed, merged.tree, f"Merge by hand in {self._main.top}."
        )
        if there := await in_the_way(self._scratch, self._main, main, merged.tree):
            raise Refusal(
                f"{self._main.top} has untracked files where the merge would write: {some_paths(there)}.",
                "Move them away first.",
                code=IN_THE_WAY,
            )
        settled = tuple(part.id for part in merged.parts if part.settled)
        tree = _MergedTree(git, branch, into, main, merged.tree, changed, merged.joined, settled)
        return tree, *await self._worded(side, by, options, tree)

    async def _worded(
        self, side: MergeSource, by: str, options: MergeOptions, merged: _MergedTree
    ) -> tuple[Proposal, str]:
        """Who signs it, and in which words; the uncommitted work too."""
        known = await of_person(self._main)
        committer = known or of_relay(by)
        author = (await of_person(side.checkout) if side.person else None) or of_relay(side.agent)
        commits, people = await branch_history(merged.git, merged.main, side.snapshot.head.commit)
        paths = [name_of(record.last_path) for record in merged.changed]
        about = await self.room.summary(side.agent, side.since, paths)
        dirty = side.snapshot.dirty
        text = cleaned_message(options.text)
        if options.text and not text:
            raise Refusal("The message is empty.", "Write what the change does, or leave it out.")
        if len(text.encode()) > MOST_MESSAGE:
            raise Refusal(f"The message is longer than {MOST_MESSAGE:,} bytes.", "Write a shorter one.")
        text = text or cleaned_message(
            proposed_message(merged.branch, options.squash, about, commits, paths, dirty=dirty)
        )
        known_addresses = {author.email.lower(), committer.email.lower(), *named_coauthors(text)}
        rest = [f"Co-authored-by: {each}" for each in people if each.email.lower() not in known_addresses]
        trailers = (*rest, *await self.room.resolved_by(merged.settled), *options.trailers)
        message = await with_trailers(merged.git, text, trailers)
        proposal = Proposal(
            branch=merged.branch,
            into=merged.into,
            squash=options.squash,
            head=side.snapshot.commit,
            text=text,
            trailers=trailers,
            message=message,
            author=author,
            committer=committer,
            note="" if known else unknown_person_note(self._main, committer),
            commits=len(commits) + dirty,
            files=len(merged.changed),
            decided=about.decided,
            joined=merged.joined,
            diff=await self._diff(merged),
            tree=merged.tree,
            settled=merged.settled,
            warnings=await warnings_of(self.room, merged.git, merged.main, side),
            tests=await self.room.known_tests(side.agent, side.snapshot.tree),
        )
        return proposal, await self.message_of_work(side)

    async def _diff(self, merged: _MergedTree) -> str:
        """What the merge changes in the files that relay joined."""
        if not merged.joined:
            return ""
        paths = [file.path for file in merged.joined]
        text, truncated = await unified(merged.git, merged.main, merged.tree, MOST_DIFF, paths)
        return text + "(the rest is too long to be shown)\n" * truncated

    async def target(self, *, moves: bool = False) -> tuple[str, str]:
        """The main branch and its commit. `moves`: it is moved, and the files of its checkout with it."""
        head, top = self._head, self._main.top
        if head.branch is None:
            message = f"{top} is on no branch, and which one it was on before is not known."
            raise Refusal(message, "Check out the branch to merge into.")
        if moves and (await head_of(self._main.git)).branch != head.branch:
            message = f"{top} is on no branch, so its files cannot follow {head.branch}."
            raise Refusal(message, f"`git switch {head.branch}` there first.")
        if head.commit is None:
            raise Refusal(
                f"The branch {head.branch} in {self._main.top} has no commit yet.",
                "Make its first commit, or check out the branch to merge into.",
            )
        if doing := await operation_under_way(self._main):
            raise Refusal(f"In {self._main.top} {doing} is under way.", way_out(self._main, doing))
        return head.branch, head.commit

    async def source(self, side: MergeSource, *, given_up: bool = False) -> str:
        """The side's branch, when its work can be committed as it stands. `given_up`: relay's merge that is under way
        there is given up before."""
        head = side.snapshot.head
        if head.branch is None:
            raise Refusal(
                f"{side.agent}'s worktree is on no branch.", f"Check out its branch in {side.checkout.top}."
            )
        refusal = None if given_up else await under_way(side.agent, side.checkout, own=side.own)
        if refusal is not None:
            raise refusal
        if side.snapshot.dirty and not side.own:
            raise Refusal(
                f"{side.agent}'s checkout has uncommitted work.", f"Commit it in {side.checkout.top} first."
            )
        if side.snapshot.left_out:
            raise Refusal(
                f"{side.agent}'s worktree has files that relay does not commit by itself (too large, unreadable, or "
                f"a repository inside): {some_paths(side.snapshot.left_out)}.",
                "Commit them, ignore them or move them away.",
            )
        if side.snapshot.dirty and not given_up:
            git, tree = self._scratch.git(side.checkout), side.snapshot.tree
            fix = f"Commit them in {side.checkout.top} first."
            await refuse_filtered(git, head.commit or tree, tree, "Uncommitted files", fix)
        return head.branch

    async def message_of_work(self, side: MergeSource) -> str:
        """The message of the commit that the side's uncommitted work becomes; "" = it has none. Raises GitError."""
        snapshot, head, main = side.snapshot, side.snapshot.head.commit, self._head.commit
        if not snapshot.dirty:
            return ""
        git = self._scratch.git(side.checkout)
        changed = await changed_files(git, head or snapshot.tree, snapshot.tree, renames=False)
        paths = [name_of(record.last_path) for record in changed]
        about = await self.room.summary(side.agent, side.since, paths)
        commits, _ = await branch_history(self._scratch.git(self._main), main, head) if main else ([], [])
        return work_message(about, commits, paths)

    async def commit_work(self, side: MergeSource, branch: str, text: str, committer: Signature) -> str:
        """Commit what stands uncommitted onto the agent's branch; the branch's head then."""
        snapshot, checkout = side.snapshot, side.checkout
        before = snapshot.head.commit
        if not snapshot.dirty:
            assert before is not None
            return before
        parents, who = [before] if before else [], signed(of_relay(side.agent), committer)
        why = "relay: work before a merge"
        text = await self.with_event(self._scratch.git(checkout), text, side.agent, branch, snapshot.tree)
        return await self.commit(checkout, branch, snapshot.tree, parents, text, who, why)

    async def with_event(self, git: Git, text: str, agent: str, branch: str, tree: str) -> str:
        """The message of a commit with the trailers that name what the log knows of it. Raises GitError."""
        return await with_trailers(git, text, await self.room.trailers(agent, branch, tree))

    async def commit(
        self,
        checkout: Checkout,
        branch: str,
        tree: str,
        parents: Sequence[str],
        text: str,
        who: dict[str, str],
        why: str,
    ) -> str:
        """Commit what stands in a checkout as `tree` onto its branch, which is at the first of `parents`; the commit.
        `who`: git's variables of author and committer; `why`: for the reflog."""
        commit = await commit_tree(self._scratch.git(checkout), tree, parents, text, who)
        await self._scratch.publish(checkout, commit, parents)
        # First the index, then the branch: whoever is cut off in between has everything staged.
        own = self._scratch.git(checkout, checkout.index)
        await own.run("read-tree", "--reset", commit)
        await own.run("update-index", "-q", "--refresh", ok=(0, 1))
        await self.move_branch(checkout, branch, next(iter(parents), ""), commit, why)
        return commit

    async def move_branch(self, checkout: Checkout, branch: str, old: str, new: str, why: str) -> None:
        try:
            await checkout.git.run("update-ref", "-m", why, f"refs/heads/{branch}", new, old)
        except GitError as error:
            raise Refusal(f"{branch} changed while this ran.", "Try again.") from error

    async def move_main(self, into: str, before: str, after: str) -> None:
        """Move the main branch and the files of its checkout, both or neither."""
        await self.move_files(before, after)
        try:
            await self.move_branch(self._main, into, before, after, "relay: merge")
        except Refusal:
            await self.move_files(after, before)
            raise

    async def move_files(self, before: str, after: str, *, dry: bool = False) -> None:
        """Bring the main branch's files to another commit. Raises Refusal. `dry`: only see whether that can be."""
        git = self._scratch.git(self._main, self._main.index)
        try:
            await git.run("update-index", "-q", "--refresh", ok=(0, 1))
            await git.run("read-tree", *(["-n"] if dry else []), "-m", "-u", before, after, timeout_s=LONG_S)
        except GitError as error:
            message = (
                f"{self._main.top} has uncommitted work in files that the merge changes: {_said(error)}."
            )
            raise Refusal(message, "Commit or stash it first.") from error

    async def follow(self, side: MergeSource, branch: str, before: str, after: str) -> str:
        """Bring the agent's worktree up to the merge, if it is relay's."""
        if not side.own:
            return ""
        try:
            await self._lifecycle.forward(side.checkout, branch, before, after)
        except GitError as error:
            return f"its worktree could not be updated ({_said(error)})"
        return ""


def _said(error: GitError) -> str:
    """The part of git's words that names the file."""
    lines = [line.strip() for line in error.stderr.splitlines() if line.strip()]
    return "; ".join(lines[:3]).removeprefix("error: ").rstrip(".") or str(error)

"""What landing does to git: branches merged one onto the other, and the main branch moved to what was tested.

Invariants:
- the commits that land are the commits whose tree was tested; they are made in the scratch, and no branch has them
  before;
- the main branch moves by one update of its ref, from the commit that was seen, so it holds what was before or all of
  what was tested; its files and each idle agent's worktree follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from relay.airspace.pair_facts import SemanticConflict
from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.lifecycle import KEPT, folder_name, is_ancestor
from relay.airspace.worktrees.merging.merge_into_main import BranchMerger
from relay.airspace.worktrees.merging.proposal import MergeOptions, MergeSource, Proposal
from relay.airspace.worktrees.merging.refusals import IN_THE_WAY
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.room import Unchecked
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree, WorktreeGone
from relay.app.fleet.common_main import CommonMain
from relay.config.command_line import command
from relay.git.checkout import Head
from relay.git.run import Git, GitError, name_of
from relay.git.snapshot import Snapshot
from relay.git.trial_merge import merge_trees
from relay.model import Refusal
from relay.verification.approvals import Approval
from relay.verification.landing.entry import Entry, EntryState


@dataclass(frozen=True, slots=True)
class Link:
    """One merge of a chain: `commit` has the main branch, the links before, and the entry's work. `across`: what its
    work and another's do to each other in the code, though git merges them, a sentence each. `look`: a person's word
    that what relay joins in it is well."""

    entry: Entry
    commit: str
    tree: str
    proposal: Proposal
    across: tuple[str, ...] = ()
    look: Approval | None = None


def squash_of(entry: Entry) -> str:
    """The trailer that tells readers of what work one commit is. It proves nothing: agents can write it too."""
    return f"Squashed-From: {entry.at_commit} (landing {entry.number})"


class Moved(Exception):
    """The main branch is not where it was, or a branch has lost what was tested: somebody has pushed, merged or
    discarded meanwhile."""


class LandingGit:
    """On the worktrees of one registry. `common`: as of `LandingQueue`."""

    def __init__(
        self, registry: WorktreeRegistry, updates: BranchUpdates, common: CommonMain | None = None
    ) -> None:
        self._registry, self._updates, self._common = registry, updates, common

    @property
    def git(self) -> Git:
        assert self._registry.main is not None
        return self._registry.scratch.git(self._registry.main)

    async def merger(self) -> BranchMerger:
        registry = self._registry
        assert registry.main is not None and registry.lifecycle is not None
        head = await registry.main_head()
        return BranchMerger(
            registry.main, head, registry.lifecycle, registry.scratch, registry.room, registry.settings
        )

    async def main(self) -> str:
        """The main branch's commit, which is the remote's in a fleet. Raises Refusal: it cannot be moved now."""
        if self._common is not None:
            await self._common.stay_whole()
        if self._common is None or not await self._common.is_shared():
            return (await (await self.merger()).target(moves=True))[1]
        return await self._common.follow(self.merger)

    async def knows(self, commit: str) -> bool:
        """Is the commit in this clone?"""
        return await self.git.maybe("rev-parse", "-q", "--verify", f"{commit}^{{commit}}") is not None

    async def is_elsewhere(self, entry: Entry) -> bool:
        """Is its branch in the clone of another member? Of an agent that several have, it is where the commit is that
        was looked at."""
        if self._common is None:
            return False
        if entry.state is EntryState.ASKED or not self._common.is_shared_agent(entry.agent):
            return not await self._common.is_here(entry)
        worktree = self._registry.find(entry.agent)
        try:
            return worktree is None or not await self._still_has(worktree, entry)
        except GitError:
            return True  # a commit that git does not know here

    async def has(self, main: str, commit: str) -> bool:
        try:
            return await is_ancestor(self.git, commit, main)
        except GitError:
            return False  # what git has not here, as of a clone that is gone, the main branch has not either

    async def landed_as(self, main: str, entry: Entry, planned: Sequence[str] = ()) -> str:
        """The main branch's commit that brought the entry's work in; empty: it has not got it. `planned`: the commits
        that were made of its work to land as one. Only their ids count: messages hold what agents write."""
        commit = entry.at_commit
        if await self.has(main, commit):
            asked = ("rev-list", "--first-parent", "--ancestry-path", "--reverse", f"{commit}..{main}")
            found = await self.git.maybe(*asked)
            return found.split()[0] if found else commit
        for made in planned if entry.squash else ():
            if await self.has(main, made):
                return made
        return ""

    async def keep(self, entry: Entry) -> str:
        """The ref that holds the commits of which one is made; empty: the entry is merged, or they are elsewhere."""
        lifecycle, main = self._registry.lifecycle, self._registry.main
        if not entry.squash or lifecycle is None or main is None or await self.is_elsewhere(entry):
            return ""
        asked = ("for-each-ref", "--count=1", "--format=%(refname)", f"--points-at={entry.at_commit}")
        held = await main.git.maybe(*asked, f"{KEPT}{folder_name(entry.agent)}/")
        return held or await lifecycle.hold(entry.agent, entry.at_commit)

    def worktree(self, agent: str) -> TrackedWorktree:
        worktree = self._registry.find(agent)
        if worktree is None:
            message = f"{agent} has no worktree any more."
            raise Refusal(message, f"{command('worktrees')} lists them.", code="gone")
        return worktree

    async def link(self, entry: Entry, onto: str) -> Link:
        """The entry's work merged onto a commit. Raises Refusal (`Conflict` where they conflict), GitError."""
        if await self.is_elsewhere(entry):
            source = self._brought(entry)
        else:
            worktree = self.worktree(entry.agent)
            if not await self._still_has(worktree, entry):
                message = f"{entry.branch} has lost the commit {entry.at_commit[:9]} that was to land."
                raise Refusal(message, f"`/land @{entry.agent}` lands what it has now.", code="rewritten")
            source = self._source(entry, worktree)
        merger = await self.merger()
        try:
            options = MergeOptions(entry.squash, trailers=(squash_of(entry),) if entry.squash else ())
            merged = await merger.merge_onto(source, entry.asker, onto, options)
        except Refusal as refusal:
            if refusal.code == IN_THE_WAY and self._common is not None:
                self._common.note_in_the_way((await merger.target())[1], entry.at_commit)
            raise
        return Link(entry, merged.commit, merged.proposal.tree, merged.proposal)

    async def joined(self, link: Link) -> list[list[str]]:
        """What relay joins in a link: of each file its path, the id of what it becomes, empty = it is gone, and the
        steps (docs/merge.md)."""
        listed = await self.git.run("ls-tree", "-r", "-z", link.tree)
        entries = (entry.partition(b"\t") for entry in listed.out.split(b"\0") if entry)
        ids = {name_of(path): about.split()[2].decode() for about, _, path in entries}
        return [[file.path, ids.get(file.path, ""), *file.by] for file in link.proposal.joined]

    async def _still_has(self, worktree: TrackedWorktree, entry: Entry) -> bool:
        """Has the entry's branch the work that is to land?"""
        git = worktree.checkout.git
        head = await git.maybe("rev-parse", "-q", "--verify", f"refs/heads/{entry.branch}^{{commit}}")
        return head is not None and await is_ancestor(git, entry.at_commit, head)

    def _source(self, entry: Entry, worktree: TrackedWorktree) -> MergeSource:
        registry = self._registry
        pinned = Snapshot(Head(entry.branch, entry.at_commit), entry.tree, entry.at_commit, False)
        person = not worktree.own and registry.settings.agent(worktree.name) is None
        since = worktree.work.started_at if worktree.work is not None else 0.0
        return MergeSource(worktree.name, worktree.checkout, pinned, worktree.own, person, since)

    def _brought(self, entry: Entry) -> MergeSource:
        """The work of another member's agent, as it was brought into this clone; it has no checkout here."""
        assert self._registry.main is not None
        pinned = Snapshot(Head(entry.branch, entry.at_commit), entry.tree, entry.at_commit, False)
        return MergeSource(entry.agent, self._registry.main, pinned, True, since=entry.at)

    async def merges(self, onto: str, commit: str) -> bool:
        """Does this work merge onto that commit?"""
        merged = await merge_trees(self.git, onto, commit, self._registry.room.join)
        return merged is not None and merged.clean

    async def across(self, ours: tuple[str, str], theirs: tuple[str, str]) -> Sequence[SemanticConflict]:
        """What the one side removes or signs anew and the other newly relies on (level 3 of docs/conflicts.md); a
        side is a name and a commit. Nothing where nobody can tell."""
        try:
            return await self._registry.room.across_files(self.git, [ours, theirs]) or ()
        except (Unchecked, GitError):
            return ()

    async def move(self, links: Sequence[Link], main: str) -> list[str]:
        """Move the main branch from `main` to the last link, and the worktrees after it; for each link, why its
        worktree could not follow, empty = it did. Raises Moved, MainMoved, Refusal (then nothing moved, or the common
        main alone, and this one has to follow), GitError."""
        registry = self._registry
        async with registry.exclusive:
            assert registry.main is not None
            merger = await self.merger()
            into, now = await merger.target(moves=True)
            if now != main:
                raise Moved
            away = [link for link in links if await self.is_elsewhere(link.entry)]
            here = [link for link in links if link not in away]
            for link in here:
                worktree = registry.find(link.entry.agent)
                if worktree is None or not await self._still_has(worktree, link.entry):
                    raise Moved
            same = [link.entry.at_commit for link in away] + [
                link.entry.at_commit
                for link in here
                if self.worktree(link.entry.agent).checkout.common == registry.main.common
            ]
            await registry.scratch.publish(registry.main, links[-1].commit, [main, *same])
            if self._common is not None and await self._common.is_shared():
                try:
                    await merger.move_files(main, links[-1].commit, dry=True)
                except Refusal:
                    self._common.note_in_the_way(main, links[-1].commit, merged=True)
                    raise
                # First there: what it does not take has not landed here either.
                await self._common.push(into, main, links[-1].commit)
            try:
                await merger.move_main(into, main, links[-1].commit)
            except Refusal as refusal:
                if (await merger.target())[1] != (await registry.main_head()).commit:
                    raise Moved from refusal
                raise
            return [await self.follow(merger, link.entry, links[-1].commit) for link in links]

    async def follow(self, merger: BranchMerger, entry: Entry, commit: str) -> str:
        """Bring the agent's worktree up to the main branch, where it holds nothing else; why not, empty = it is. What
        is at another member follows there."""
        if await self.is_elsewhere(entry):
            return ""
        try:
            worktree = self.worktree(entry.agent)
            async with worktree.lock:
                if worktree.name in self._registry.turn_trees:
                    return ""  # its next turn begins where the main branch is
                snapshot = await worktree.take_snapshot(everything=True)
                worktree.mark_stale(None)
                if snapshot.dirty or snapshot.head != Head(entry.branch, entry.at_commit):
                    return "its worktree has other work, and stays as it is"
                side = replace(self._source(entry, worktree), snapshot=snapshot)
                await self.keep(entry)
                return await merger.follow(side, entry.branch, entry.at_commit, commit)
        except (Refusal, GitError, WorktreeGone, OSError) as error:
            return f"its worktree could not be updated ({error})"

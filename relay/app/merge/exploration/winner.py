"""The merge of a winner into the main branch, as that of an agent's worktree.

Invariant: as `BranchMerger.merge`: what cannot be merged changes nothing and is a Refusal. What relay joins beyond
git is merged only where the configured tests pass on the merged tree, or where a person saw exactly this tree. What
the room itself goes by is merged only where a person took the variant.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from relay.airspace.worktrees.merging.merge_into_main import BranchMerger
from relay.airspace.worktrees.merging.proposal import MergeOptions, MergeSource, NotAccepted
from relay.airspace.worktrees.merging.refusals import OwnFiles
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.git.checkout import Head
from relay.git.snapshot import Snapshot
from relay.merge.exploration.journal import VariantRun
from relay.model import Refusal

#: Merges a commit of a variant, for a person, with this message: (variant, commit, who, message, the merged tree that
#: was seen, whether a person took it) -> the commit on the main branch, and that branch's name. Raises Refusal, with
#: nothing changed; GitError.
MergeWinner = Callable[[VariantRun, str, str, str, str, bool], Awaitable[tuple[str, str]]]


class NotSeen(Refusal):
    """relay joins files in which git conflicts, and nobody has seen the merged `tree`. `diff`: what it changes in
    them; `output`: the last lines of tests that fail on it."""

    def __init__(self, tree: str, diff: str, why: str, output: str = "") -> None:
        super().__init__(
            f"relay joins files in which git conflicts, and {why}.", "Look at it, then take it again."
        )
        self.tree, self.diff, self.output = tree, diff, output


#: Verifies a tree that is to become the main branch's: (agent, who wants it, commit, tree, the main branch's commit).
#: Raises Refusal where it does not pass.
VerifyTree = Callable[[str, str, str, str, str], Awaitable[None]]


def merge_by_git(registry: WorktreeRegistry, verify: VerifyTree | None = None) -> MergeWinner:
    """Merge as worktrees are merged. `verify`: asked where agents' branches land by the queue only; the winner is
    verified as a batch of the queue is, and moves the main branch from the commit on which it was."""

    async def merge(
        run: VariantRun, commit: str, by: str, text: str, seen: str, taken: bool
    ) -> tuple[str, str]:
        main, lifecycle = registry.main, registry.lifecycle
        if main is None or lifecycle is None:
            raise Refusal(f"There is no repository: {registry.trouble}")
        if registry.settings.landing.required:
            if verify is None:
                message = "This room lands only what is verified, and no room runs that could verify it."
                raise Refusal(message, "Start the room, then take it again.")
            return await merge_verified(run, commit, by, text, verify)
        async with registry.exclusive:
            merger = BranchMerger(
                main,
                await registry.main_head(),
                lifecycle,
                registry.scratch,
                registry.room,
                registry.settings,
            )
            tree = await main.git.line("rev-parse", f"{commit}^{{tree}}")
            # Committed and kept by a ref: no checkout is read, and none follows.
            snapshot = Snapshot(Head(run.branch, commit), tree, commit, dirty=False)
            source = MergeSource(run.agent, main, snapshot, own=False, since=time.time())
            options = MergeOptions(text=text, joined=seen, anyway=True, unseen=not taken)
            try:
                result = await merger.merge(source, by, options)
            except OwnFiles as refusal:
                # Its own way out is that of an agent's worktree.
                raise Refusal(refusal.message, "A person who has looked at it takes it.") from refusal
            except NotAccepted as joined:
                proposal = joined.proposal
                tested = await registry.test(proposal.tree)
                if tested is None or not tested.passed:
                    said = "no test is configured" if tested is None else f"its tests fail: {tested.said}"
                    output = "" if tested is None else tested.output
                    raise NotSeen(proposal.tree, proposal.diff, said, output) from joined
                result = await merger.merge(source, by, replace(options, joined=proposal.tree))
        registry.wake.set()
        return result.commit, result.proposal.into

    async def merge_verified(
        run: VariantRun, commit: str, by: str, text: str, verify: VerifyTree
    ) -> tuple[str, str]:
        main, lifecycle = registry.main, registry.lifecycle
        assert main is not None and lifecycle is not None
        head = await registry.main_head()
        merger = BranchMerger(main, head, lifecycle, registry.scratch, registry.room, registry.settings)
        into, at = await merger.target(moves=True)
        tree = await main.git.line("rev-parse", f"{commit}^{{tree}}")
        snapshot = Snapshot(Head(run.branch, commit), tree, commit, dirty=False)
        source = MergeSource(run.agent, main, snapshot, own=False, since=time.time())
        made = await merger.merge_onto(source, by, at, MergeOptions(text=text))
        await verify(run.agent, by, made.commit, made.proposal.tree, at)
        async with registry.exclusive:
            await registry.scratch.publish(main, made.commit, [at, commit])
            await merger.move_main(into, at, made.commit)
        registry.wake.set()
        return made.commit, into

    return merge

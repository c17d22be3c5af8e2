"""What people do with worktrees: merge, discard, restore and remove them, and give up a merge.

Invariants: no worktree is changed while its agent's turn runs; what cannot be done changes nothing and says why.
"""

from __future__ import annotations

from typing import Any

from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.lifecycle import (
    CONFLICTED,
    DISCARDED,
    KEPT,
    MERGED,
    RESTORED,
    WorktreeChange,
    branch_name,
    folder_name,
)
from relay.airspace.worktrees.merging.merge_into_main import Conflict, some_paths
from relay.airspace.worktrees.merging.proposal import MergeOptions
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree, WorktreeGone
from relay.config.command_line import command
from relay.git.run import GitError
from relay.model import Refusal


class WorktreeActions:
    """On the worktrees of one registry."""

    def __init__(self, registry: WorktreeRegistry, branch_updates: BranchUpdates) -> None:
        self._registry, self._branch_updates = registry, branch_updates

    async def propose(self, agent: str, by: str, options: MergeOptions) -> dict[str, Any]:
        """What `merge` would commit now (`Proposal.as_json`). Raises Refusal for what it would refuse."""
        worktree = self._idle(agent, "merged")
        async with self._registry.exclusive, worktree.lock:
            self._idle(agent, "merged")
            try:
                merger, source = await self._branch_updates.merger(worktree)
                return {"agent": worktree.name, **(await merger.propose(source, by, options)).as_json()}
            except (GitError, WorktreeGone, OSError) as error:
                raise Refusal(f"git could not try the merge: {error}.") from error

    async def merge(self, agent: str, by: str, options: MergeOptions | None = None) -> dict[str, Any]:
        """Merge a worktree into the main branch. Raises Refusal, and then nothing was merged."""
        registry, options = self._registry, options or MergeOptions()
        worktree = self._idle(agent, "merged")
        async with registry.exclusive, worktree.lock:
            self._idle(agent, "merged")
            try:
                merger, source = await self._branch_updates.merger(worktree)
                result = await merger.merge(source, by, options)
            except Conflict as refusal:
                branch = worktree.snapshot.head.branch if worktree.snapshot else None
                details = {"conflicts": list(refusal.paths)}
                branch = branch or branch_name(worktree.name)
                tried = WorktreeChange(CONFLICTED, worktree.name, branch, by, details=details)
                await registry.room.record(tried)
                raise
            except (GitError, WorktreeGone, OSError) as error:
                raise Refusal(f"git could not merge it: {error}.") from error
            text = (
                f"{by} merged {result.branch} of {worktree.name} into {result.into}"
                f"{' as one commit' if options.squash else ''}: {result.files} file{'s' * (result.files != 1)}."
            )
            if result.kept:
                text += f" {result.branch} as it was is kept in `{result.kept}`."
            elif options.squash:
                text += f" {result.branch} itself still has its own commits."
            if result.left:
                text += f" {worktree.name}: {result.left}."
            if result.decided:
                text += f" Before that, {result.decided}."
            if result.note:
                text += f" {result.note}"
            more = {"into": result.into, "files": result.files, "committed": result.committed}
            kept = {"method": "squash" if options.squash else "merge", "kept": result.kept or None}
            done = WorktreeChange(
                MERGED, worktree.name, result.branch, by, text, result.commit, {**more, **kept}
            )
            # Before anybody hears of it: who looks then sees it as it is.
            worktree.mark_stale(None)
            await registry.room.record(done)
        registry.wake.set()
        return {"success": True, "reason": text, "commit": result.commit, "kept": result.kept or None}

    async def discard(self, agent: str, by: str) -> dict[str, Any]:
        """Take an agent's work back: its branch and its files are the main branch's again, and all of it is held by a
        ref of its own. Raises Refusal, and then the work is where it was."""
        worktree = self._own(agent, "discarded")
        async with self._registry.exclusive, worktree.lock:
            self._idle(agent, "discarded")
            try:
                update, source = await self._branch_updates.update_of(worktree)
                if started := await update.resume(worktree.name, worktree.checkout, source.snapshot):
                    await self._branch_updates.give_up(worktree, update, started, by)
                merger, source = await self._branch_updates.merger(worktree)
                gone = await merger.discard(source)
            except (GitError, WorktreeGone, OSError) as error:
                raise Refusal(f"git could not discard it: {error}.") from error
            back = command(f"worktrees restore {worktree.name}")
            text = (
                f"{by} discarded the work on {gone.branch} of {worktree.name} ({gone.commits} "
                f"commit{'s' * (gone.commits != 1)}, {gone.files} file{'s' * (gone.files != 1)}). "
                f"All of it is kept in `{gone.kept}`. {back} brings it back; `git log -p {gone.kept}` shows it."
            )
            details = {"kept": gone.kept, "files": gone.files}
            await self._registry.room.record(
                WorktreeChange(DISCARDED, worktree.name, gone.branch, by, text, gone.main, details)
            )
            worktree.mark_stale(None)
        self._registry.wake.set()
        return {"success": True, "reason": text, "kept": gone.kept, "commit": gone.main}

    async def restore(self, agent: str, by: str, ref: str = "") -> dict[str, Any]:
        """Bring back what `discard` took (`ref`; empty = the latest). Raises Refusal, and then nothing changed."""
        worktree, lifecycle = self._own(agent, "brought back"), self._registry.lifecycle
        assert lifecycle is not None
        async with self._registry.exclusive, worktree.lock:
            self._idle(agent, "brought back")
            try:
                held = await lifecycle.held(worktree.name)
                wanted = ref or next(iter(held), "")
                if wanted not in held:
                    what = f"{ref} has no work" if ref else "There is no kept work"
                    where = f"{KEPT}{folder_name(worktree.name)}/"
                    raise Refusal(
                        f"{what} of {worktree.name}.", f"`git for-each-ref {where}` lists what is kept."
                    )
                merger, source = await self._branch_updates.merger(worktree)
                branch, commit = await merger.restore(source, wanted)
            except (GitError, WorktreeGone, OSError) as error:
                raise Refusal(f"git could not bring it back: {error}.") from error
            text = f"{by} brought back the work of {worktree.name} from `{wanted}`: {branch} has it again."
            await self._registry.room.record(
                WorktreeChange(RESTORED, worktree.name, branch, by, text, commit, {"kept": wanted})
            )
            worktree.mark_stale(None)
        self._registry.wake.set()
        return {"success": True, "reason": text, "kept": wanted, "commit": commit}

    async def abort(self, agent: str, by: str) -> dict[str, Any]:
        """Give up the merge of the main branch into an agent's own; what stood in the files is kept. Raises Refusal,
        and then the merge is still under way."""
        worktree = self._own(agent, "changed")
        async with self._registry.exclusive, worktree.lock:
            self._idle(agent, "changed")
            try:
                update, source = await self._branch_updates.update_of(worktree)
                started = await update.resume(worktree.name, worktree.checkout, source.snapshot)
                if started is None:
                    raise Refusal(
                        f"relay has no merge under way in the worktree of {worktree.name}.",
                        "Git's own: `git merge --abort` in that folder." if source.snapshot.merging else "",
                    )
                kept = await self._branch_updates.give_up(worktree, update, started, by)
            except (GitError, WorktreeGone, OSError) as error:
                raise Refusal(f"git could not give the merge up: {error}.") from error
        self._registry.wake.set()
        text = f"The merge of {started.into} is given up. What stood in the files is kept in `{kept}`."
        return {"success": True, "reason": text, "kept": kept, "commit": started.head}

    def _own(self, agent: str, done: str) -> TrackedWorktree:
        worktree = self._idle(agent, done)
        if not worktree.own:
            raise Refusal(
                f"{worktree.checkout.top} is not a worktree that relay made: nothing is {done} there.",
                "Use git in that folder.",
            )
        return worktree

    async def remove(self, agent: str, by: str) -> dict[str, Any]:
        """Take an agent's worktree away; its work stays in git. Raises Refusal."""
        registry = self._registry
        worktree = self._idle(agent, "removed")
        if not worktree.own:
            raise Refusal(
                f"{worktree.checkout.top} is not a worktree that relay made.", "Remove it yourself."
            )
        async with registry.exclusive, worktree.lock:
            self._idle(agent, "removed")
            try:
                done = await self._remove(worktree, by)
            except (GitError, WorktreeGone, OSError) as error:
                raise Refusal(f"git could not remove it: {error}.") from error
            registry.worktrees.pop(worktree.name, None)
            await registry.room.record(done)
        registry.folders_changed.set()
        return {"success": True, "reason": done.text, **done.details}

    async def _remove(self, worktree: TrackedWorktree, by: str) -> WorktreeChange:
        lifecycle, top = self._registry.lifecycle, worktree.checkout.top
        assert lifecycle is not None
        locked = next((listed.locked for listed in await lifecycle.mine() if listed.path == top), None)
        if locked is not None:
            raise Refusal(f"{top} is locked ({locked or 'no reason given'}).", f"`git worktree unlock {top}`")
        snapshot = await worktree.take_snapshot(everything=True)
        if snapshot.left_out:
            raise Refusal(
                f"{top} has files that git would not store: {some_paths(snapshot.left_out)}.",
                "Move them away first.",
            )
        ref = await lifecycle.keep(worktree.name, worktree.checkout, snapshot)
        await lifecycle.remove(worktree.name, top, (await self._registry.main_head()).commit)
        kept = f" What it had not committed is kept in {ref}." if ref else ""
        text = f"{by} removed the worktree of {worktree.name}.{kept}"
        branch = snapshot.head.branch or branch_name(worktree.name)
        return WorktreeChange("removed", worktree.name, branch, by, text, snapshot.commit, {"kept": ref})

    def _idle(self, agent: str, done: str) -> TrackedWorktree:
        worktree = self._registry.find(agent)
        if worktree is None:
            raise Refusal(f"There is no worktree of {agent}.", f"{command('worktrees')} lists them.")
        if worktree.name in self._registry.turn_trees:
            raise Refusal(
                f"{worktree.name} is at work: its worktree is not {done} during a turn.",
                f"Wait for its answer, or `/cancel @{worktree.name}`.",
            )
        return worktree

"""What people do with worktrees: merge, discard, restore and remove them, and give up a merge.

Invariants: no worktree is changed while its agent's turn runs; what cannot be done changes nothing and says why.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.lifecycle import (
    CONFLICTED,
    DISCARDED,
    KEPT,
    MERGED,
    RESTORED,
    TAKEN_BACK,
    WorktreeChange,
    folder_name,
)
from relay.airspace.worktrees.merging.proposal import MergeOptions, NotAccepted, Proposal, Resolvable
from relay.airspace.worktrees.merging.refusals import Conflict
from relay.airspace.worktrees.merging.take_back import MergeTakeBack
from relay.airspace.worktrees.merging.under_way import UnderWay, begun_by_relay, check_removal, under_way
from relay.airspace.worktrees.merging.wording import joined_words, room_asked
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree, WorktreeGone
from relay.airspace.worktrees.view import missing
from relay.config.command_line import command
from relay.git.run import GitError
from relay.git.snapshot import Snapshot
from relay.git.trial_merge import merge_trees
from relay.model import Refusal


@contextmanager
def _refusing(message: str) -> Iterator[None]:
    """Raise Refusal for what git cannot do."""
    try:
        yield
    except (GitError, WorktreeGone, OSError) as error:
        raise Refusal(f"{message}: {error}.") from error


class WorktreeActions:
    """On the worktrees of one registry."""

    def __init__(self, registry: WorktreeRegistry, branch_updates: BranchUpdates) -> None:
        self._registry, self._branch_updates = registry, branch_updates

    async def propose(self, agent: str, by: str, options: MergeOptions) -> dict[str, Any]:
        """What `merge` would commit now (`Proposal.as_json`). Raises Refusal for what it would refuse."""
        async with self.changing(self._idle(agent, "merged"), "merged") as worktree:
            with _refusing("git could not try the merge"):
                merger, source = await self._branch_updates.merger(worktree)
                proposal = await merger.propose(source, by, options)
        return {"agent": worktree.name, **proposal.as_json()}

    async def merge(self, agent: str, by: str, options: MergeOptions | None = None) -> dict[str, Any]:
        """Merge a worktree into the main branch. What relay joins is merged when the configured tests pass on it;
        where there are none, when it was shown. Raises Refusal, and then nothing was merged."""
        if self._registry.settings.landing.required:
            raise Refusal(
                "This room lands agents' branches by its queue, which tests them together before.",
                f"`/land @{agent}`, or {command(f'land {agent}')}.",
                code="landing_required",
            )
        options = options or MergeOptions()
        accepted = options.joined
        try:
            # Where there are tests, a person's look at a joined merge does not stand in for them.
            wanted = options if options.untested else replace(options, joined="")
            return await self._merge(agent, by, wanted)
        except NotAccepted as refusal:
            proposal = refusal.proposal
        if options.untested:
            raise NotAccepted(agent, proposal, accepted)
        # While nothing is locked: the tests take their time. What has moved meanwhile is refused.
        tested = await self._registry.test(proposal.tree)
        if tested is None:
            return await self._merge(agent, by, options)
        again = await self._registry.room.tested(proposal.settled, tested)
        if not tested.passed:
            asked = f"The room is asked again about {', '.join(again)}. " if again else ""
            raise Refusal(
                f"relay joins {joined_words(proposal.joined)}, and the tests fail on the merged tree: "
                f"{tested.told}",
                # On a line of its own, below what the tests said.
                f"{chr(10) * bool(tested.output)}{asked}"
                f"{command(f'worktrees merge {agent} --dry-run')} shows what is joined. "
                f"`/update @{agent}` asks {agent} to merge {proposal.into} into its branch. To merge it all the "
                f"same: `--joined {proposal.tree[:12]} --untested`.",
                code="tests_failed",
            )
        return await self._merge(agent, by, replace(options, joined=proposal.tree))

    async def _merge(self, agent: str, by: str, options: MergeOptions) -> dict[str, Any]:
        async with self.changing(self._idle(agent, "merged"), "merged") as worktree:
            try:
                with _refusing("git could not merge it"):
                    await self._make_way(worktree)
                    merger, source = await self._branch_updates.merger(worktree)
                    result = await merger.merge(source, by, options)
            except Conflict as refusal:
                raise await self.conflicted(worktree, source.snapshot.commit, refusal, by) from refusal
            merged, kept = result.proposal, result.kept
            text = (
                f"{by} merged {merged.branch} of {worktree.name} into {merged.into}"
                f"{' as one commit' if options.squash else ''}: {merged.files} file{'s' * (merged.files != 1)}."
            )
            text += merged.to_look_at + f" {merged.tests.said}" * bool(merged.tests.said)
            if kept:
                text += f" {merged.branch} as it was is kept in `{kept}`."
            elif options.squash:
                text += f" {merged.branch} itself still has its own commits."
            if result.left:
                text += f" {worktree.name}: {result.left}."
            if merged.decided:
                text += f" Before that, {merged.decided}."
            if merged.note:
                text += f" {merged.note}"
            details: dict[str, Any] = {
                "into": merged.into,
                "files": merged.files,
                "committed": result.committed,
            }
            if merged.joined:
                details["joined"] = [file.as_json() for file in merged.joined]
            if merged.warnings:
                details["warnings"] = list(merged.warnings)
            details |= {"method": "squash" if options.squash else "merge", "kept": kept or None}
            change = WorktreeChange(MERGED, worktree.name, merged.branch, by, text, result.commit, details)
            await self._record(worktree, change)
        joined = [file.as_json() for file in merged.joined]
        return {
            "success": True,
            "reason": text,
            "commit": result.commit,
            "kept": kept or None,
            "joined": joined,
            "warnings": list(merged.warnings),
        }

    async def conflicted(
        self, of: TrackedWorktree | tuple[str, str], work: str, refusal: Conflict, by: str
    ) -> Refusal:
        """Record that the commit `work` conflicts, and ask the room about it; the refusal that says so. `of`: an
        agent and its branch where these are in another clone."""
        if isinstance(of, tuple):
            (agent, branch), told = of, self._registry.merge_trials.others.get(of[0])
            since = told.started_at if told is not None else 0.0
        else:
            agent, branch, since = of.name, of.branch, of.work.started_at if of.work else 0.0
            if of.snapshot and of.snapshot.head.branch:
                branch = of.snapshot.head.branch
        conflicts = {"conflicts": list(refusal.paths)}
        await self._registry.room.record(WorktreeChange(CONFLICTED, agent, branch, by, details=conflicts))
        asked = await self._branch_updates.ask(agent, since, work, refusal)
        if not asked:
            return refusal
        return Refusal(refusal.message, f"{room_asked(asked)} {refusal.fix}")

    async def pin(self, agent: str, by: str) -> tuple[Proposal, str]:
        """Commit an agent's open work, if it can be merged as it stands; what it is, and the branch's commit then.
        Raises Refusal, and then nothing was committed."""
        async with self.changing(self._idle(agent, "landed"), "landed") as worktree:
            try:
                with _refusing("git could not try the merge"):
                    await self._make_way(worktree)
                    merger, source = await self._branch_updates.merger(worktree)
                    pinned = await merger.prepare(source, by)
            except Conflict as refusal:
                raise await self.conflicted(worktree, source.snapshot.commit, refusal, by) from refusal
            worktree.mark_stale(None)
        self._registry.wake.set()
        return pinned

    async def _make_way(self, worktree: TrackedWorktree) -> None:
        """Where relay has begun to merge the main branch into the agent's own: give that up, when the work merges
        without it by what was chosen, and nobody has edited its files. Else raises Refusal, and asks the room."""
        if not worktree.own or (began := await begun_by_relay(worktree.checkout)) is None:
            return
        work = await self._resolvable(worktree)
        agent, main = worktree.name, self._registry.main
        assert main is not None
        if work.merge is not None and work.merge.clean and not work.edited:
            update, source = await self._branch_updates.update_of(worktree)
            if started := await update.resume(agent, worktree.checkout, source.snapshot):
                await self._branch_updates.give_up(worktree, update, started, "relay")
            return
        refusal = await under_way(agent, worktree.checkout, own=True)
        assert refusal is not None
        if not (asked := await self._ask_of(worktree, began.into, work)):
            raise refusal
        then = (
            f"{agent} has edited its files since: when the room has decided, {command(f'worktrees abort {agent}')} "
            "gives the merge up (what stands in the files is kept), and merging goes by what was chosen."
            if work.edited
            else "When the room has decided, merging gives that merge up, and goes by what was chosen."
        )
        raise UnderWay(
            f"{refusal.message} The room is asked about {', '.join(asked)} all the same.",
            f"`/resolve {asked[0]} 1` to `5`. {then} Or {agent} settles it: `/update @{agent}` asks.",
        )

    async def _ask_of(
        self, worktree: TrackedWorktree, into: str, work: Resolvable | None = None
    ) -> Sequence[str]:
        """Ask the room about what conflicts between a worktree's `work` and the main branch; the names of these
        conflicts."""
        work = work or await self._resolvable(worktree)
        if work.merge is None or work.merge.clean:
            return ()
        found = Conflict(work.merge.conflicts, "", "", work.merge, (into, work.into_at))
        since = worktree.work.started_at if worktree.work else 0.0
        return await self._branch_updates.ask(worktree.name, since, work.commit, found)

    async def resolvable(self, agent: str) -> Resolvable:
        """The agent's work as it stands against the main branch, with what was chosen. Raises Refusal: there is none,
        or something else than a merge of relay's is under way there."""
        worktree = self._registry.find(agent)
        if worktree is None:
            raise Refusal(f"There is no worktree of {agent} any more.", f"{command('worktrees')} lists them.")
        with _refusing("git could not try the merge"):
            return await self._resolvable(worktree)

    async def _resolvable(self, worktree: TrackedWorktree) -> Resolvable:
        if self._registry.main is None:
            raise self._no_target()
        began = await begun_by_relay(worktree.checkout) if worktree.own else None
        refusal = await under_way(worktree.name, worktree.checkout, own=worktree.own)
        if began is None and refusal is not None:
            raise refusal
        snapshot = await worktree.take_snapshot(everything=True)
        # What relay merges into its branch is given up for what the room decides: the work is what it was before.
        work = await self.against_main(began.head if began is not None else snapshot.commit)
        if began is None:
            return work
        left = await worktree.checkout.git.line("rev-parse", f"{began.commit}^{{tree}}")
        return replace(work, begun=True, edited=snapshot.tree != left)

    async def against_main(self, commit: str) -> Resolvable:
        """A commit that is here, as an agent's work. Raises Refusal, GitError."""
        target, main = await self._registry.target(), self._registry.main
        if target is None or main is None:
            raise self._no_target()
        git = self._registry.scratch.git(main)
        merged = await merge_trees(git, target.commit, commit, self._registry.room.join)
        before = await git.line("rev-parse", f"{target.commit}^{{tree}}")
        nothing = merged is not None and merged.clean and merged.tree == before
        return Resolvable(merged, target.commit, commit, nothing=nothing)

    @staticmethod
    def _no_target() -> Refusal:
        return Refusal("It is not known what work is merged into.", f"{command('worktrees')} says why.")

    async def discard(self, agent: str, by: str) -> dict[str, Any]:
        """Take an agent's work back: its branch and its files are the main branch's again, and all of it is held by a
        ref of its own. Raises Refusal, and then the work is where it was."""
        own = self.own(agent, "discarded")
        async with self._left(own, by, "discarded", self._check_discard) as worktree:
            with _refusing("git could not discard it"):
                update, source = await self._branch_updates.update_of(worktree)
                if started := await update.resume(worktree.name, worktree.checkout, source.snapshot):
                    await self._branch_updates.give_up(worktree, update, started, by)
                merger, source = await self._branch_updates.merger(worktree)
                gone = await merger.discard(source)
            back = command(f"worktrees restore {worktree.name}")
            text = (
                f"{by} discarded the work on {gone.branch} of {worktree.name} ({gone.commits} "
                f"commit{'s' * (gone.commits != 1)}, {gone.files} file{'s' * (gone.files != 1)}). "
                f"All of it is kept in `{gone.kept}`. {back} brings it back; `git log -p {gone.kept}` shows it."
            )
            details = {"kept": gone.kept, "files": gone.files}
            change = WorktreeChange(DISCARDED, worktree.name, gone.branch, by, text, gone.main, details)
            await self._record(worktree, change)
        await self._registry.refresh()  # who looks next sees that it is gone
        return {"success": True, "reason": text, "kept": gone.kept, "commit": gone.main}

    async def _check_discard(self, worktree: TrackedWorktree) -> None:
        merger, source = await self._branch_updates.merger(worktree)
        began = await begun_by_relay(worktree.checkout)
        await merger.check_discard(source, began.head if began is not None else "")

    async def take_back(self, agent: str, by: str, commit: str) -> dict[str, Any]:
        """Take back the merge of an agent's work: `commit` is the main branch's commit of it. Its branch has the work
        again where it is idle; whose turn runs keeps its files. Raises Refusal, and then nothing changed."""
        worktree = self.own(agent, "taken back", working=True)
        async with self._registry.exclusive, worktree.lock:
            with _refusing("git could not take it back"):
                registry = self._registry
                assert registry.main and registry.lifecycle
                wanted = await registry.main.git.maybe("rev-parse", "-q", "--verify", f"{commit}^{{commit}}")
                if wanted is None:
                    fix = "`git log --merges` lists the merges."
                    raise Refusal(f"There is no commit {commit[:40]}.", fix)
                merger, source = await self._branch_updates.merger(worktree)
                source = replace(source, own=not (works := worktree.name in registry.turn_trees))
                taking = MergeTakeBack(registry.main, registry.lifecycle, registry.scratch, merger)
                done = await taking.take_back(source, wanted, by)
            where = f"{worktree.branch} has it again" if done.again else f"it is kept in `{done.kept}`"
            where += f", since {worktree.name} is at work" if works else ""
            text = (
                f"{by} took back the merge {done.merge[:9]} of {worktree.name} from {done.into} "
                f"({done.files} file{'s' * (done.files != 1)}): {where}."
            )
            details = {"kept": done.kept, "files": done.files, "merge": done.merge}
            change = WorktreeChange(
                TAKEN_BACK, worktree.name, worktree.branch, by, text, done.commit, details
            )
            await self._record(worktree, change)
        return {"success": True, "reason": text, "kept": done.kept, "commit": done.commit}

    async def restore(self, agent: str, by: str, ref: str = "") -> dict[str, Any]:
        """Bring back what `discard` took (`ref`; empty = the latest). Raises Refusal, and then nothing changed."""
        lifecycle = self._registry.lifecycle
        async with self.changing(self.own(agent, "brought back"), "brought back") as worktree:
            assert lifecycle is not None
            with _refusing("git could not bring it back"):
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
            text = f"{by} brought back the work of {worktree.name} from `{wanted}`: {branch} has it again."
            change = WorktreeChange(RESTORED, worktree.name, branch, by, text, commit, {"kept": wanted})
            await self._record(worktree, change)
        return {"success": True, "reason": text, "kept": wanted, "commit": commit}

    async def abort(self, agent: str, by: str, *, settle: bool = False) -> dict[str, Any]:
        """Give up the merge of the main branch into an agent's own; what stood in the files is kept. `settle`: then,
        or where none is under way, ask the room about what conflicts. Raises Refusal: nothing is given up."""
        of, ref, text = self._idle(agent, "changed") if settle else self.own(agent, "changed"), "", ""
        async with self.changing(of, "changed") as worktree:
            with _refusing("git could not give the merge up"):
                update, source = await self._branch_updates.update_of(worktree)
                started = await update.resume(worktree.name, worktree.checkout, source.snapshot)
                if started is not None:
                    ref = await self._branch_updates.give_up(worktree, update, started, by)
                    text = f"The merge of {started.into} is given up. What stood in the files is kept in `{ref}`."
                elif (marked := bool(worktree.work and worktree.work.marked)) or not settle:
                    fix = "Git's own: `git merge --abort` in that folder." if source.snapshot.merging else ""
                    fix = f"`/update @{agent}` asks {agent} to settle its markers." if marked else fix
                    raise Refusal(f"relay has no merge under way in the worktree of {worktree.name}.", fix)
            if settle:
                with _refusing(f"{text} The room could not be asked what is to stand".lstrip()):
                    into = (await self._registry.main_head()).branch or "the main branch"
                    asked = await self._ask_of(worktree, into)
                said = room_asked(asked) if asked else f"Nothing of {worktree.name}'s conflicts with {into}."
                text = f"{text} {said}".lstrip()
        await self._registry.refresh()  # who looks next sees it as it is
        commit = source.snapshot.head.commit if started is None else started.head
        return {"success": True, "reason": text, "kept": ref or None, "commit": commit}

    async def remove(self, agent: str, by: str) -> dict[str, Any]:
        """Take an agent's worktree away; its work stays in git. Raises Refusal."""
        worktree = self._idle(agent, "removed")
        if not worktree.own:
            raise Refusal(
                f"{worktree.checkout.top} is not a worktree that relay made.", "Remove it yourself."
            )
        async with self._left(worktree, by, "removed", self._removable):
            with _refusing("git could not remove it"):
                change = await self._remove(worktree, by)
            self._registry.worktrees.pop(worktree.name, None)
            await self._registry.room.record(change)
        self._registry.folders_changed.set()
        return {"success": True, "reason": change.text, **change.details}

    @asynccontextmanager
    async def changing(self, worktree: TrackedWorktree, done: str) -> AsyncIterator[TrackedWorktree]:
        """Nobody else changes a worktree meanwhile, and its agent is not at work. Raises Refusal."""
        async with self._registry.exclusive, worktree.lock:
            self._idle(worktree.name, done)
            yield worktree

    @asynccontextmanager
    async def _left(
        self,
        worktree: TrackedWorktree,
        by: str,
        done: str,
        check: Callable[[TrackedWorktree], Awaitable[object]],
    ) -> AsyncIterator[TrackedWorktree]:
        """As `changing`, for what takes work away: what runs there is ended, and it is archived, once `check` has
        found nothing that refuses. Raises Refusal; one that comes after all says that it is archived."""
        async with self._registry.room.leaving(worktree.name, by, done) as archive:
            async with self.changing(worktree, done):
                with _refusing(f"git could not tell whether it can be {done}"):
                    await check(worktree)
            # Without a lock: it takes its time. What has come meanwhile is found below.
            archived = await archive()
            try:
                async with self.changing(worktree, done):
                    yield worktree
            except Refusal as refusal:
                if archived:
                    refusal.add("`archive` has run there already.")
                raise

    async def _record(self, worktree: TrackedWorktree, change: WorktreeChange) -> None:
        # Before anybody hears of it: who looks then sees it as it is.
        worktree.mark_stale(None)
        await self._registry.room.record(change)
        self._registry.wake.set()

    def own(self, agent: str, done: str, *, working: bool = False) -> TrackedWorktree:
        """The worktree that relay made for an agent, which is not at work now, or may be. Raises Refusal."""
        worktree = self._idle(agent, done, working)
        if not worktree.own:
            raise Refusal(
                f"{worktree.checkout.top} is not a worktree that relay made: nothing is {done} there.",
                "Use git in that folder.",
            )
        return worktree

    async def _remove(self, worktree: TrackedWorktree, by: str) -> WorktreeChange:
        lifecycle, snapshot = self._registry.lifecycle, await self._removable(worktree)
        assert lifecycle is not None
        ref = await lifecycle.keep(worktree.name, worktree.checkout, snapshot)
        await lifecycle.remove(
            worktree.name, worktree.checkout.top, (await self._registry.main_head()).commit
        )
        text = f"{by} removed the worktree of {worktree.name}."
        text += f" What it had not committed is kept in {ref}." if ref else ""
        branch = snapshot.head.branch or worktree.branch
        return WorktreeChange("removed", worktree.name, branch, by, text, snapshot.commit, {"kept": ref})

    async def _removable(self, worktree: TrackedWorktree) -> Snapshot:
        assert self._registry.lifecycle is not None
        return await check_removal(self._registry.lifecycle, worktree)

    def _idle(self, agent: str, done: str, working: bool = False) -> TrackedWorktree:
        if (worktree := self._registry.find(agent)) is None:
            raise missing(self._registry, agent)
        if not working and worktree.name in self._registry.turn_trees:
            raise Refusal(
                f"{worktree.name} is at work: its worktree is not {done} during a turn.",
                f"Wait for its answer, or `/cancel @{worktree.name}`.",
            )
        return worktree

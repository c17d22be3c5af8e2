"""What is done to worktrees before and after turns, and when people ask for it.

Invariants: while an agent's turn runs, its worktree is never written; what cannot be done changes nothing and
says why; a turn is never kept from beginning by its worktree, it then only reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from relay.airspace.worktrees.lifecycle import (
    ABORTED,
    CONFLICTED,
    DISCARDED,
    KEPT,
    MERGED,
    RESTORED,
    TAKEN_IN,
    TAKING,
    UNSETTLED,
    WorktreeChange,
    branch_name,
    folder_name,
    is_ancestor,
)
from relay.airspace.worktrees.main_merge import MainMerge
from relay.airspace.worktrees.merge import (
    BranchMerger,
    Conflict,
    MergeOptions,
    MergeSource,
    operation_under_way,
    some_paths,
)
from relay.airspace.worktrees.merge_wording import listed, taken_in, to_clean, to_settle
from relay.airspace.worktrees.registry import EDITORS, WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree, WorktreeGone
from relay.config.command_line import command
from relay.config.settings import AgentSettings
from relay.git.merge_state import StartedMerge, started_merge
from relay.git.run import GitError
from relay.git.snapshot import Snapshot
from relay.model import Changes, Refusal, Workplace

log = structlog.get_logger(__name__)
#: Who gives up a merge of a commit that was taken back.
GONE = "{0} has not the commit any more that was being merged, so relay"


class WorktreeActions:
    """Works on one registry. Is `relay.model.Workplaces`."""

    def __init__(self, registry: WorktreeRegistry) -> None:
        self._registry = registry
        #: Of each agent, what the room was last told that it has not settled.
        self._unsettled: dict[str, str] = {}

    # -- turns

    async def before_turn(self, agent: str, *, take_main: bool = False) -> Workplace | None:
        """Where the turn that begins now works; None: where its configuration says, reading only."""
        settings = self._registry.settings.agent(agent)
        if settings is None or settings.kind not in EDITORS:
            return None
        try:
            return await self._prepare(settings, take_main)
        except (GitError, WorktreeGone, OSError) as error:
            self._registry.turn_trees.pop(agent, None)
            self._registry.troubles[agent] = str(error)
            log.warning("no worktree for this turn", agent=agent, reason=str(error))
            return None

    async def _prepare(self, settings: AgentSettings, take_main: bool) -> Workplace | None:
        registry, agent = self._registry, settings.name
        worktree = registry.worktrees.get(agent)
        if worktree is None or not await worktree.is_there():
            await registry.open()
            worktree = registry.worktrees.get(agent)
        if worktree is None:
            return None
        # Before the look: from here on nobody merges it or takes it away.
        registry.turn_trees[agent] = ""
        async with worktree.lock:
            snapshot = await worktree.take_snapshot(everything=True)
            note = ""
            if take_main:
                self._unsettled.pop(agent, None)  # who asks is answered
            if worktree.own:
                note = await self._take(worktree, snapshot, begin=take_main)
                snapshot = await worktree.take_snapshot(everything=True) if note or take_main else snapshot
                if not snapshot.dirty:
                    snapshot = await self._forward(worktree, snapshot)
            registry.turn_trees[agent] = snapshot.tree
        folder = await self._folder_of(settings, worktree)
        place = Workplace(folder, may_edit=True, root=worktree.checkout.top, note=note)
        return await self._asked(worktree, snapshot, place) if take_main else place

    async def _asked(self, worktree: TrackedWorktree, snapshot: Snapshot, place: Workplace) -> Workplace:
        """What is left to do for an agent that was asked to take the main branch in, where it is in already."""
        target = await self._registry.target()
        if target is None or not snapshot.head.commit:
            return place
        if not await is_ancestor(worktree.checkout.git, target.commit, snapshot.head.commit):
            return place
        await self._registry.survey(worktree)
        if left := worktree.work.unsettled if worktree.work else ():
            return replace(place, note=to_clean(left))
        return replace(place, done=f"{snapshot.head.branch} has all of {target.name}: nothing is left to do")

    # -- taking the main branch in

    async def recover(self) -> None:
        """At the start: go on where a daemon that was killed left a merge into an agent's own branch."""
        for worktree in list(self._registry.worktrees.values()):
            try:
                async with worktree.lock:
                    if (
                        worktree.own
                        and worktree.name not in self._registry.turn_trees
                        and await started_merge(worktree.checkout)
                    ):
                        await self._take(worktree, await worktree.take_snapshot(everything=True), begin=False)
                        worktree.mark_stale(None)
            except (GitError, WorktreeGone, OSError) as error:
                log.warning("merge not taken up again", agent=worktree.name, reason=str(error))
        self._registry.wake.set()

    async def give_up_stale(self, agents: Iterable[str]) -> None:
        """Give up merges of commits that the main branch has not any more, as after a reset."""
        for name in agents:
            worktree = self._registry.worktrees.get(name)
            if (
                worktree is None
                or not worktree.own
                or worktree.snapshot is None
                or not worktree.snapshot.merging
            ):
                continue
            try:
                async with worktree.lock:
                    found = await started_merge(worktree.checkout)
                    if name not in self._registry.turn_trees and found and await self._is_stale(found):
                        await self._take(worktree, await worktree.take_snapshot(everything=True), begin=False)
            except (GitError, WorktreeGone, OSError) as error:
                log.warning("merge not given up", agent=name, reason=str(error))

    async def _is_stale(self, found: StartedMerge) -> bool:
        """Has the branch that is being merged lost the commit? While another one is out nobody says so."""
        target, main = await self._registry.target(), self._registry.main
        if target is None or main is None or target.name != found.into:
            return False
        return not await is_ancestor(main.git, found.other, target.commit)

    async def _give_up(
        self, worktree: TrackedWorktree, main_merge: MainMerge, found: StartedMerge, why: str
    ) -> str:
        """The ref that keeps what stood in the files."""
        snapshot = await worktree.take_snapshot(everything=True)
        kept = await main_merge.abort(worktree.name, worktree.checkout, snapshot, found)
        worktree.mark_stale(None)
        text = (
            f"{why} gave up the merge of {found.into} into {snapshot.head.branch} of {worktree.name}: its files are "
            f"as before the merge. What stood in them is kept in `{kept}`."
        )
        await self._say(ABORTED, worktree, text, found.head, kept=kept)
        return kept

    async def _main_merge(self, worktree: TrackedWorktree) -> tuple[MainMerge, MergeSource]:
        registry = self._registry
        assert registry.main is not None and registry.lifecycle is not None
        merger, source = await self._merger(worktree)
        return MainMerge(registry.main, registry.lifecycle, registry.scratch, merger), source

    async def _take(self, worktree: TrackedWorktree, snapshot: Snapshot, *, begin: bool) -> str:
        """Go on with a merge of the main branch into the agent's, or begin one; what the agent is told of it."""
        registry, target = self._registry, await self._registry.target()
        if target is None or not (begin or await started_merge(worktree.checkout)):
            return ""
        main_merge, source = await self._main_merge(worktree)
        try:
            found = await main_merge.resume(worktree.name, worktree.checkout, source.snapshot)
            if found is not None and await self._is_stale(found):
                await self._give_up(worktree, main_merge, found, GONE.format(found.into))
                found, source = None, replace(source, snapshot=await worktree.take_snapshot(everything=True))
            if found is None:
                if not begin or await operation_under_way(worktree.checkout):
                    return ""
                commit = await main_merge.begin(source, target)
                if commit is None:
                    return ""
                if commit:
                    branch = source.snapshot.head.branch
                    text = f"relay merged {target.name} into {branch} of {worktree.name}: no conflict."
                    await self._say(TAKEN_IN, worktree, text, commit)
                    return taken_in(target.name)
                found = await started_merge(worktree.checkout)
                snapshot = await worktree.take_snapshot(everything=True)
                text = (
                    f"relay began to merge {target.name} into {snapshot.head.branch} of {worktree.name}. "
                    f"In conflict: {listed(snapshot.unsettled)}. {worktree.name} settles it by editing; "
                    "relay commits it."
                )
                await self._say(TAKING, worktree, text, None, [path for path, _ in snapshot.unsettled])
            else:
                snapshot = await worktree.take_snapshot(everything=True)
            if found is None:
                return ""
            # Without a marker it is not committed here: a turn that was cut off may have left it half done.
            return to_settle(found.into, snapshot.unsettled)
        except Refusal as refusal:
            text = f"relay could not merge {target.name} into the branch of {worktree.name}: {refusal}"
            await self._say(UNSETTLED, worktree, text)
            return ""
        finally:
            registry.wake.set()

    async def _after_merge(self, worktree: TrackedWorktree, snapshot: Snapshot) -> Snapshot:
        """At the end of a turn: commit a merge that is settled, or say what is not."""
        found = await started_merge(worktree.checkout)
        if found is None:
            return snapshot
        main_merge, _ = await self._main_merge(worktree)
        if not await main_merge.is_under_way(worktree.checkout, found, snapshot.head):
            return await worktree.take_snapshot(everything=True)
        try:
            if await self._is_stale(found):
                await self._give_up(worktree, main_merge, found, GONE.format(found.into))
                return await worktree.take_snapshot(everything=True)
            if not snapshot.unsettled:
                commit = await main_merge.conclude(worktree.name, worktree.checkout, snapshot, found)
                worktree.mark_stale(None)
                text = f"relay committed the merge of {found.into} into {snapshot.head.branch} of {worktree.name}."
                await self._say(TAKEN_IN, worktree, text, commit)
                return await worktree.take_snapshot(everything=True)
            text = (
                f"{worktree.name} has not settled {listed(snapshot.unsettled)}: the merge of {found.into} into "
                f"{snapshot.head.branch} is still under way. `/update @{worktree.name}` asks again; "
                f"{command(f'worktrees abort {worktree.name}')} gives the merge up."
            )
        except Refusal as refusal:
            text = f"relay could not commit the merge of {found.into} into the branch of {worktree.name}: {refusal}"
        await self._say(UNSETTLED, worktree, text, None, [path for path, _ in snapshot.unsettled])
        return snapshot

    async def _say_left(self, worktree: TrackedWorktree, snapshot: Snapshot) -> None:
        """Say which conflict markers an agent committed by itself."""
        await self._registry.survey(worktree)
        if left := worktree.work.unsettled if worktree.work else ():
            text = (
                f"{worktree.name} has committed conflict markers: {listed(left)}. {snapshot.head.branch} does not "
                f"merge before they are resolved; `/update @{worktree.name}` asks for it."
            )
            await self._say(UNSETTLED, worktree, text, snapshot.head.commit, [path for path, _ in left])

    async def _say(
        self,
        what: str,
        worktree: TrackedWorktree,
        text: str,
        commit: str | None = None,
        conflicts: Sequence[str] = (),
        kept: str = "",
    ) -> None:
        if what == UNSETTLED and self._unsettled.get(worktree.name) == text:
            return
        self._unsettled[worktree.name] = text
        branch = branch_name(worktree.name)
        details: dict[str, Any] = {"conflicts": list(conflicts)} if conflicts else {}
        details |= {"kept": kept} if kept else {}
        await self._registry.record(
            WorktreeChange(what, worktree.name, branch, "RELAY", text, commit, details)
        )

    async def abort(self, agent: str, by: str) -> dict[str, Any]:
        """Give up the merge of the main branch into an agent's own; what stood in the files is kept. Raises Refusal,
        and then the merge is still under way."""
        worktree = self._own(agent, "changed")
        async with self._registry.exclusive, worktree.lock:
            self._idle(agent, "changed")
            try:
                main_merge, source = await self._main_merge(worktree)
                found = await main_merge.resume(worktree.name, worktree.checkout, source.snapshot)
                if found is None:
                    raise Refusal(
                        f"relay has no merge under way in the worktree of {worktree.name}.",
                        "Git's own: `git merge --abort` in that folder." if source.snapshot.merging else "",
                    )
                kept = await self._give_up(worktree, main_merge, found, by)
            except (GitError, WorktreeGone, OSError) as error:
                raise Refusal(f"git could not give the merge up: {error}.") from error
        self._registry.wake.set()
        text = f"The merge of {found.into} is given up. What stood in the files is kept in `{kept}`."
        return {"success": True, "reason": text, "kept": kept, "commit": found.head}

    async def _folder_of(self, settings: AgentSettings, worktree: TrackedWorktree) -> Path:
        """The agent's `cwd` inside the repository is the same folder of its worktree."""
        registry = self._registry
        wanted = await asyncio.to_thread((settings.cwd or registry.settings.repo).resolve)
        for top in (worktree.checkout.top, registry.main.top if registry.main else worktree.checkout.top):
            if wanted.is_relative_to(top):
                folder = worktree.checkout.top / wanted.relative_to(top)
                await asyncio.to_thread(folder.mkdir, 0o777, True, True)
                return folder
        return worktree.checkout.top

    async def _forward(self, worktree: TrackedWorktree, snapshot: Snapshot) -> Snapshot:
        """A worktree without work of its own begins where the main branch is now."""
        registry = self._registry
        assert registry.lifecycle is not None and registry.main is not None
        branch, before = snapshot.head.branch, snapshot.head.commit
        main = (await registry.main_head()).commit
        if branch != branch_name(worktree.name) or before is None or main is None or main == before:
            return snapshot
        try:
            behind = await is_ancestor(registry.main.git, before, main)
            if not (behind or await registry.has(main, before)) or await operation_under_way(
                worktree.checkout
            ):
                return snapshot
            # Others made one commit of it: it is held as it was, as when the room does that.
            kept = {} if behind else {"kept": await registry.lifecycle.hold(worktree.name, before)}
            await registry.lifecycle.forward(worktree.checkout, branch, before, main)
        except GitError as error:
            log.warning("worktree stays behind", agent=worktree.name, reason=str(error))
            return snapshot
        await registry.record(
            WorktreeChange("forwarded", worktree.name, branch, "RELAY", commit=main, details=kept)
        )
        return await worktree.take_snapshot(everything=True)

    async def after_turn(self, agent: str) -> Changes | None:
        """What the turn that ends now changed in the agent's worktree; None: nothing, or nobody knows."""
        registry = self._registry
        began, worktree = registry.turn_trees.pop(agent, None), registry.worktrees.get(agent)
        if not began or worktree is None:
            return None
        try:
            async with worktree.lock:
                snapshot = await worktree.take_snapshot(everything=True)
                merged = worktree.own and await started_merge(worktree.checkout) is not None
                if merged:
                    snapshot = await self._after_merge(worktree, snapshot)
            if merged and not snapshot.merging:
                await self._say_left(worktree, snapshot)
            if snapshot.tree == began:
                return None
            async with worktree.lock:
                records = await registry.differ.records(worktree.snapshotter.git, began, snapshot.tree)
                hunks = await registry.differ.hunks(worktree.snapshotter.git, began, snapshot.tree, records)
        except (GitError, WorktreeGone, OSError) as error:
            log.warning("changes of a turn not read", agent=agent, reason=str(error))
            return None
        registry.wake.set()
        return Changes(
            snapshot.head.branch or f"detached at {str(snapshot.head.commit)[:9]}",
            len(records),
            sum(hunks[one.old, one.new].insertions for one in records),
            sum(hunks[one.old, one.new].deletions for one in records),
        )

    # -- people

    async def propose(self, agent: str, by: str, options: MergeOptions) -> dict[str, Any]:
        """What `merge` would commit now (`Proposal.as_json`). Raises Refusal for what it would refuse."""
        worktree = self._idle(agent, "merged")
        async with self._registry.exclusive, worktree.lock:
            self._idle(agent, "merged")
            try:
                merger, source = await self._merger(worktree)
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
                merger, source = await self._merger(worktree)
                result = await merger.merge(source, by, options)
            except Conflict as refusal:
                branch = worktree.snapshot.head.branch if worktree.snapshot else None
                details = {"conflicts": list(refusal.paths)}
                branch = branch or branch_name(worktree.name)
                tried = WorktreeChange(CONFLICTED, worktree.name, branch, by, details=details)
                await registry.record(tried)
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
            await registry.record(done)
        registry.wake.set()
        return {"success": True, "reason": text, "commit": result.commit, "kept": result.kept or None}

    async def _merger(self, worktree: TrackedWorktree) -> tuple[BranchMerger, MergeSource]:
        registry = self._registry
        assert registry.main is not None and registry.lifecycle is not None
        snapshot = await worktree.take_snapshot(everything=True)
        person = not worktree.own and registry.settings.agent(worktree.name) is None
        since = worktree.work.started_at if worktree.work is not None else 0.0
        source = MergeSource(worktree.name, worktree.checkout, snapshot, worktree.own, person, since)
        head = await registry.main_head()
        merger = BranchMerger(
            registry.main, head, registry.lifecycle, registry.scratch, registry.may_land, registry.tell
        )
        return merger, source

    async def discard(self, agent: str, by: str) -> dict[str, Any]:
        """Take an agent's work back: its branch and its files are the main branch's again, and all of it is held by a
        ref of its own. Raises Refusal, and then the work is where it was."""
        worktree = self._own(agent, "discarded")
        async with self._registry.exclusive, worktree.lock:
            self._idle(agent, "discarded")
            try:
                main_merge, source = await self._main_merge(worktree)
                if found := await main_merge.resume(worktree.name, worktree.checkout, source.snapshot):
                    await self._give_up(worktree, main_merge, found, by)
                merger, source = await self._merger(worktree)
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
            await self._registry.record(
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
                merger, source = await self._merger(worktree)
                branch, commit = await merger.restore(source, wanted)
            except (GitError, WorktreeGone, OSError) as error:
                raise Refusal(f"git could not bring it back: {error}.") from error
            text = f"{by} brought back the work of {worktree.name} from `{wanted}`: {branch} has it again."
            await self._registry.record(
                WorktreeChange(RESTORED, worktree.name, branch, by, text, commit, {"kept": wanted})
            )
            worktree.mark_stale(None)
        self._registry.wake.set()
        return {"success": True, "reason": text, "kept": wanted, "commit": commit}

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
            await registry.record(done)
        registry.folders_changed.set()
        return {"success": True, "reason": done.text, **done.details}

    async def _remove(self, worktree: TrackedWorktree, by: str) -> WorktreeChange:
        lifecycle, top = self._registry.lifecycle, worktree.checkout.top
        assert lifecycle is not None
        locked = next((one.locked for one in await lifecycle.mine() if one.path == top), None)
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

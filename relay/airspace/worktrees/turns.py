"""The ground crew: what is done to worktrees, before and after turns and when people ask for it.

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
    Happened,
    branch_name,
    folder_name,
    is_ancestor,
)
from relay.airspace.worktrees.main_merge import Taking
from relay.airspace.worktrees.merge import Conflict, Landing, Side, Wish, named, under_way
from relay.airspace.worktrees.merge_wording import listed, taken_in, to_clean, to_settle
from relay.airspace.worktrees.registry import EDITORS, Hangar
from relay.airspace.worktrees.tracked_worktree import Berth, Lost
from relay.config.command_line import command
from relay.config.settings import AgentSettings
from relay.git.merge_state import Begun, begun
from relay.git.run import GitError
from relay.git.snapshot import Snapshot
from relay.model import Changes, Refusal, Workplace

log = structlog.get_logger(__name__)
#: Who gives up a merge of a commit that was taken back.
GONE = "{0} has not the commit any more that was being merged, so relay"


class Ground:
    """Works on one hangar. Is `relay.model.Workplaces`."""

    def __init__(self, hangar: Hangar) -> None:
        self._hangar = hangar
        #: Of each agent, what the room was last told that it has not settled.
        self._unsettled: dict[str, str] = {}

    # -- turns

    async def before_turn(self, agent: str, *, take_main: bool = False) -> Workplace | None:
        """Where the turn that begins now works; None: where its configuration says, reading only."""
        settings = self._hangar.settings.agent(agent)
        if settings is None or settings.kind not in EDITORS:
            return None
        try:
            return await self._prepare(settings, take_main)
        except (GitError, Lost, OSError) as error:
            self._hangar.at_work.pop(agent, None)
            self._hangar.troubles[agent] = str(error)
            log.warning("no worktree for this turn", agent=agent, reason=str(error))
            return None

    async def _prepare(self, settings: AgentSettings, take_main: bool) -> Workplace | None:
        hangar, agent = self._hangar, settings.name
        berth = hangar.berths.get(agent)
        if berth is None or not await berth.is_there():
            await hangar.open()
            berth = hangar.berths.get(agent)
        if berth is None:
            return None
        # Before the look: from here on nobody merges it or takes it away.
        hangar.at_work[agent] = ""
        async with berth.lock:
            seen = await berth.look(everything=True)
            note = ""
            if take_main:
                self._unsettled.pop(agent, None)  # who asks is answered
            if berth.own:
                note = await self._take(berth, seen, begin=take_main)
                seen = await berth.look(everything=True) if note or take_main else seen
                if not seen.dirty:
                    seen = await self._forward(berth, seen)
            hangar.at_work[agent] = seen.tree
        folder = await self._folder_of(settings, berth)
        place = Workplace(folder, may_edit=True, root=berth.checkout.top, note=note)
        return await self._asked(berth, seen, place) if take_main else place

    async def _asked(self, berth: Berth, seen: Snapshot, place: Workplace) -> Workplace:
        """What is left to do for an agent that was asked to take the main branch in, where it is in already."""
        target = await self._hangar.target()
        if target is None or not seen.head.commit:
            return place
        if not await is_ancestor(berth.checkout.git, target.commit, seen.head.commit):
            return place
        await self._hangar.survey(berth)
        if left := berth.work.unsettled if berth.work else ():
            return replace(place, note=to_clean(left))
        return replace(place, done=f"{seen.head.branch} has all of {target.name}: nothing is left to do")

    # -- taking the main branch in

    async def recover(self) -> None:
        """At the start: go on where a daemon that was killed left a merge into an agent's own branch."""
        for berth in list(self._hangar.berths.values()):
            try:
                async with berth.lock:
                    if berth.own and berth.name not in self._hangar.at_work and await begun(berth.checkout):
                        await self._take(berth, await berth.look(everything=True), begin=False)
                        berth.touched(None)
            except (GitError, Lost, OSError) as error:
                log.warning("merge not taken up again", agent=berth.name, reason=str(error))
        self._hangar.wake.set()

    async def give_up_stale(self, agents: Iterable[str]) -> None:
        """Give up merges of commits that the main branch has not any more, as after a reset."""
        for name in agents:
            berth = self._hangar.berths.get(name)
            if berth is None or not berth.own or berth.seen is None or not berth.seen.merging:
                continue
            try:
                async with berth.lock:
                    found = await begun(berth.checkout)
                    if name not in self._hangar.at_work and found and await self._is_stale(found):
                        await self._take(berth, await berth.look(everything=True), begin=False)
            except (GitError, Lost, OSError) as error:
                log.warning("merge not given up", agent=name, reason=str(error))

    async def _is_stale(self, found: Begun) -> bool:
        """Has the branch that is being merged lost the commit? While another one is out nobody says so."""
        target, main = await self._hangar.target(), self._hangar.main
        if target is None or main is None or target.name != found.into:
            return False
        return not await is_ancestor(main.git, found.other, target.commit)

    async def _give_up(self, berth: Berth, taking: Taking, found: Begun, why: str) -> str:
        """The ref that keeps what stood in the files."""
        seen = await berth.look(everything=True)
        kept = await taking.abort(berth.name, berth.checkout, seen, found)
        berth.touched(None)
        text = (
            f"{why} gave up the merge of {found.into} into {seen.head.branch} of {berth.name}: its files are as "
            f"before the merge. What stood in them is kept in `{kept}`."
        )
        await self._say(ABORTED, berth, text, found.head, kept=kept)
        return kept

    async def _taking(self, berth: Berth) -> tuple[Taking, Side]:
        hangar = self._hangar
        assert hangar.main is not None and hangar.worktrees is not None
        landing, side = await self._landing(berth)
        return Taking(hangar.main, hangar.worktrees, hangar.scratch, landing), side

    async def _take(self, berth: Berth, seen: Snapshot, *, begin: bool) -> str:
        """Go on with a merge of the main branch into the agent's, or begin one; what the agent is told of it."""
        hangar, target = self._hangar, await self._hangar.target()
        if target is None or not (begin or await begun(berth.checkout)):
            return ""
        taking, side = await self._taking(berth)
        try:
            found = await taking.resume(berth.name, berth.checkout, side.seen)
            if found is not None and await self._is_stale(found):
                await self._give_up(berth, taking, found, GONE.format(found.into))
                found, side = None, replace(side, seen=await berth.look(everything=True))
            if found is None:
                if not begin or await under_way(berth.checkout):
                    return ""
                commit = await taking.begin(side, target)
                if commit is None:
                    return ""
                if commit:
                    text = f"relay merged {target.name} into {side.seen.head.branch} of {berth.name}: no conflict."
                    await self._say(TAKEN_IN, berth, text, commit)
                    return taken_in(target.name)
                found = await begun(berth.checkout)
                seen = await berth.look(everything=True)
                text = f"relay began to merge {target.name} into {seen.head.branch} of {berth.name}. In conflict: "
                text += f"{listed(seen.unsettled)}. {berth.name} settles it by editing; relay commits it."
                await self._say(TAKING, berth, text, None, [path for path, _ in seen.unsettled])
            else:
                seen = await berth.look(everything=True)
            if found is None:
                return ""
            # Without a marker it is not committed here: a turn that was cut off may have left it half done.
            return to_settle(found.into, seen.unsettled)
        except Refusal as refusal:
            text = f"relay could not merge {target.name} into the branch of {berth.name}: {refusal}"
            await self._say(UNSETTLED, berth, text)
            return ""
        finally:
            hangar.wake.set()

    async def _after_merge(self, berth: Berth, seen: Snapshot) -> Snapshot:
        """At the end of a turn: commit a merge that is settled, or say what is not."""
        found = await begun(berth.checkout)
        if found is None:
            return seen
        taking, _ = await self._taking(berth)
        if not await taking.is_under_way(berth.checkout, found, seen.head):
            return await berth.look(everything=True)
        try:
            if await self._is_stale(found):
                await self._give_up(berth, taking, found, GONE.format(found.into))
                return await berth.look(everything=True)
            if not seen.unsettled:
                commit = await taking.conclude(berth.name, berth.checkout, seen, found)
                berth.touched(None)
                text = f"relay committed the merge of {found.into} into {seen.head.branch} of {berth.name}."
                await self._say(TAKEN_IN, berth, text, commit)
                return await berth.look(everything=True)
            text = (
                f"{berth.name} has not settled {listed(seen.unsettled)}: the merge of {found.into} into "
                f"{seen.head.branch} is still under way. `/update @{berth.name}` asks again; "
                f"{command(f'worktrees abort {berth.name}')} gives the merge up."
            )
        except Refusal as refusal:
            text = (
                f"relay could not commit the merge of {found.into} into the branch of {berth.name}: {refusal}"
            )
        await self._say(UNSETTLED, berth, text, None, [path for path, _ in seen.unsettled])
        return seen

    async def _say_left(self, berth: Berth, seen: Snapshot) -> None:
        """Say which conflict markers an agent committed by itself."""
        await self._hangar.survey(berth)
        if left := berth.work.unsettled if berth.work else ():
            text = (
                f"{berth.name} has committed conflict markers: {listed(left)}. {seen.head.branch} does not "
                f"merge before they are resolved; `/update @{berth.name}` asks for it."
            )
            await self._say(UNSETTLED, berth, text, seen.head.commit, [path for path, _ in left])

    async def _say(
        self,
        what: str,
        berth: Berth,
        text: str,
        commit: str | None = None,
        conflicts: Sequence[str] = (),
        kept: str = "",
    ) -> None:
        if what == UNSETTLED and self._unsettled.get(berth.name) == text:
            return
        self._unsettled[berth.name] = text
        branch = branch_name(berth.name)
        details: dict[str, Any] = {"conflicts": list(conflicts)} if conflicts else {}
        details |= {"kept": kept} if kept else {}
        await self._hangar.record(Happened(what, berth.name, branch, "RELAY", text, commit, details))

    async def abort(self, agent: str, by: str) -> dict[str, Any]:
        """Give up the merge of the main branch into an agent's own; what stood in the files is kept. Raises Refusal,
        and then the merge is still under way."""
        berth = self._own(agent, "changed")
        async with self._hangar.alone, berth.lock:
            self._idle(agent, "changed")
            try:
                taking, side = await self._taking(berth)
                found = await taking.resume(berth.name, berth.checkout, side.seen)
                if found is None:
                    raise Refusal(
                        f"relay has no merge under way in the worktree of {berth.name}.",
                        "Git's own: `git merge --abort` in that folder." if side.seen.merging else "",
                    )
                kept = await self._give_up(berth, taking, found, by)
            except (GitError, Lost, OSError) as error:
                raise Refusal(f"git could not give the merge up: {error}.") from error
        self._hangar.wake.set()
        text = f"The merge of {found.into} is given up. What stood in the files is kept in `{kept}`."
        return {"success": True, "reason": text, "kept": kept, "commit": found.head}

    async def _folder_of(self, settings: AgentSettings, berth: Berth) -> Path:
        """The agent's `cwd` inside the repository is the same folder of its worktree."""
        hangar = self._hangar
        wanted = await asyncio.to_thread((settings.cwd or hangar.settings.repo).resolve)
        for top in (berth.checkout.top, hangar.main.top if hangar.main else berth.checkout.top):
            if wanted.is_relative_to(top):
                folder = berth.checkout.top / wanted.relative_to(top)
                await asyncio.to_thread(folder.mkdir, 0o777, True, True)
                return folder
        return berth.checkout.top

    async def _forward(self, berth: Berth, seen: Snapshot) -> Snapshot:
        """A worktree without work of its own begins where the main branch is now."""
        hangar = self._hangar
        assert hangar.worktrees is not None and hangar.main is not None
        branch, before = seen.head.branch, seen.head.commit
        main = (await hangar.main_head()).commit
        if branch != branch_name(berth.name) or before is None or main is None or main == before:
            return seen
        try:
            behind = await is_ancestor(hangar.main.git, before, main)
            if not (behind or await hangar.has(main, before)) or await under_way(berth.checkout):
                return seen
            # Others made one commit of it: it is held as it was, as when the room does that.
            kept = {} if behind else {"kept": await hangar.worktrees.hold(berth.name, before)}
            await hangar.worktrees.forward(berth.checkout, branch, before, main)
        except GitError as error:
            log.warning("worktree stays behind", agent=berth.name, reason=str(error))
            return seen
        await hangar.record(Happened("forwarded", berth.name, branch, "RELAY", commit=main, details=kept))
        return await berth.look(everything=True)

    async def after_turn(self, agent: str) -> Changes | None:
        """What the turn that ends now changed in the agent's worktree; None: nothing, or nobody knows."""
        hangar = self._hangar
        began, berth = hangar.at_work.pop(agent, None), hangar.berths.get(agent)
        if not began or berth is None:
            return None
        try:
            async with berth.lock:
                seen = await berth.look(everything=True)
                merged = berth.own and await begun(berth.checkout) is not None
                if merged:
                    seen = await self._after_merge(berth, seen)
            if merged and not seen.merging:
                await self._say_left(berth, seen)
            if seen.tree == began:
                return None
            async with berth.lock:
                records = await hangar.differ.records(berth.camera.git, began, seen.tree)
                hunks = await hangar.differ.hunks(berth.camera.git, began, seen.tree, records)
        except (GitError, Lost, OSError) as error:
            log.warning("changes of a turn not read", agent=agent, reason=str(error))
            return None
        hangar.wake.set()
        return Changes(
            seen.head.branch or f"detached at {str(seen.head.commit)[:9]}",
            len(records),
            sum(hunks[one.old, one.new].insertions for one in records),
            sum(hunks[one.old, one.new].deletions for one in records),
        )

    # -- people

    async def propose(self, agent: str, by: str, wish: Wish) -> dict[str, Any]:
        """What `merge` would commit now (`Proposal.as_json`). Raises Refusal for what it would refuse."""
        berth = self._idle(agent, "merged")
        async with self._hangar.alone, berth.lock:
            self._idle(agent, "merged")
            try:
                landing, side = await self._landing(berth)
                return {"agent": berth.name, **(await landing.propose(side, by, wish)).as_json()}
            except (GitError, Lost, OSError) as error:
                raise Refusal(f"git could not try the merge: {error}.") from error

    async def merge(self, agent: str, by: str, wish: Wish | None = None) -> dict[str, Any]:
        """Merge a worktree into the main branch. Raises Refusal, and then nothing was merged."""
        hangar, wish = self._hangar, wish or Wish()
        berth = self._idle(agent, "merged")
        async with hangar.alone, berth.lock:
            self._idle(agent, "merged")
            try:
                landing, side = await self._landing(berth)
                landed = await landing.merge(side, by, wish)
            except Conflict as refusal:
                branch = berth.seen.head.branch if berth.seen else None
                details = {"conflicts": list(refusal.paths)}
                branch = branch or branch_name(berth.name)
                tried = Happened(CONFLICTED, berth.name, branch, by, details=details)
                await hangar.record(tried)
                raise
            except (GitError, Lost, OSError) as error:
                raise Refusal(f"git could not merge it: {error}.") from error
            text = (
                f"{by} merged {landed.branch} of {berth.name} into {landed.into}"
                f"{' as one commit' if wish.squash else ''}: {landed.files} file{'s' * (landed.files != 1)}."
            )
            if landed.kept:
                text += f" {landed.branch} as it was is kept in `{landed.kept}`."
            elif wish.squash:
                text += f" {landed.branch} itself still has its own commits."
            if landed.left:
                text += f" {berth.name}: {landed.left}."
            if landed.decided:
                text += f" Before that, {landed.decided}."
            if landed.note:
                text += f" {landed.note}"
            more = {"into": landed.into, "files": landed.files, "committed": landed.committed}
            kept = {"method": "squash" if wish.squash else "merge", "kept": landed.kept or None}
            done = Happened(MERGED, berth.name, landed.branch, by, text, landed.commit, {**more, **kept})
            # Before anybody hears of it: who looks then sees it as it is.
            berth.touched(None)
            await hangar.record(done)
        hangar.wake.set()
        return {"success": True, "reason": text, "commit": landed.commit, "kept": landed.kept or None}

    async def _landing(self, berth: Berth) -> tuple[Landing, Side]:
        hangar = self._hangar
        assert hangar.main is not None and hangar.worktrees is not None
        seen = await berth.look(everything=True)
        person = not berth.own and hangar.settings.agent(berth.name) is None
        since = berth.work.started_at if berth.work is not None else 0.0
        side = Side(berth.name, berth.checkout, seen, berth.own, person, since)
        head = await hangar.main_head()
        landing = Landing(hangar.main, head, hangar.worktrees, hangar.scratch, hangar.may_land, hangar.tell)
        return landing, side

    async def discard(self, agent: str, by: str) -> dict[str, Any]:
        """Take an agent's work back: its branch and its files are the main branch's again, and all of it is held by a
        ref of its own. Raises Refusal, and then the work is where it was."""
        berth = self._own(agent, "discarded")
        async with self._hangar.alone, berth.lock:
            self._idle(agent, "discarded")
            try:
                taking, side = await self._taking(berth)
                if found := await taking.resume(berth.name, berth.checkout, side.seen):
                    await self._give_up(berth, taking, found, by)
                landing, side = await self._landing(berth)
                gone = await landing.discard(side)
            except (GitError, Lost, OSError) as error:
                raise Refusal(f"git could not discard it: {error}.") from error
            back = command(f"worktrees restore {berth.name}")
            text = (
                f"{by} discarded the work on {gone.branch} of {berth.name} ({gone.commits} "
                f"commit{'s' * (gone.commits != 1)}, {gone.files} file{'s' * (gone.files != 1)}). "
                f"All of it is kept in `{gone.kept}`. {back} brings it back; `git log -p {gone.kept}` shows it."
            )
            details = {"kept": gone.kept, "files": gone.files}
            await self._hangar.record(
                Happened(DISCARDED, berth.name, gone.branch, by, text, gone.main, details)
            )
            berth.touched(None)
        self._hangar.wake.set()
        return {"success": True, "reason": text, "kept": gone.kept, "commit": gone.main}

    async def restore(self, agent: str, by: str, ref: str = "") -> dict[str, Any]:
        """Bring back what `discard` took (`ref`; empty = the latest). Raises Refusal, and then nothing changed."""
        berth, worktrees = self._own(agent, "brought back"), self._hangar.worktrees
        assert worktrees is not None
        async with self._hangar.alone, berth.lock:
            self._idle(agent, "brought back")
            try:
                held = await worktrees.held(berth.name)
                wanted = ref or next(iter(held), "")
                if wanted not in held:
                    what = f"{ref} has no work" if ref else "There is no kept work"
                    where = f"{KEPT}{folder_name(berth.name)}/"
                    raise Refusal(
                        f"{what} of {berth.name}.", f"`git for-each-ref {where}` lists what is kept."
                    )
                landing, side = await self._landing(berth)
                branch, commit = await landing.restore(side, wanted)
            except (GitError, Lost, OSError) as error:
                raise Refusal(f"git could not bring it back: {error}.") from error
            text = f"{by} brought back the work of {berth.name} from `{wanted}`: {branch} has it again."
            await self._hangar.record(
                Happened(RESTORED, berth.name, branch, by, text, commit, {"kept": wanted})
            )
            berth.touched(None)
        self._hangar.wake.set()
        return {"success": True, "reason": text, "kept": wanted, "commit": commit}

    def _own(self, agent: str, done: str) -> Berth:
        berth = self._idle(agent, done)
        if not berth.own:
            raise Refusal(
                f"{berth.checkout.top} is not a worktree that relay made: nothing is {done} there.",
                "Use git in that folder.",
            )
        return berth

    async def remove(self, agent: str, by: str) -> dict[str, Any]:
        """Take an agent's worktree away; its work stays in git. Raises Refusal."""
        hangar = self._hangar
        berth = self._idle(agent, "removed")
        if not berth.own:
            raise Refusal(f"{berth.checkout.top} is not a worktree that relay made.", "Remove it yourself.")
        async with hangar.alone, berth.lock:
            self._idle(agent, "removed")
            try:
                done = await self._remove(berth, by)
            except (GitError, Lost, OSError) as error:
                raise Refusal(f"git could not remove it: {error}.") from error
            hangar.berths.pop(berth.name, None)
            await hangar.record(done)
        hangar.moved.set()
        return {"success": True, "reason": done.text, **done.details}

    async def _remove(self, berth: Berth, by: str) -> Happened:
        worktrees, top = self._hangar.worktrees, berth.checkout.top
        assert worktrees is not None
        locked = next((one.locked for one in await worktrees.mine() if one.path == top), None)
        if locked is not None:
            raise Refusal(f"{top} is locked ({locked or 'no reason given'}).", f"`git worktree unlock {top}`")
        seen = await berth.look(everything=True)
        if seen.left_out:
            raise Refusal(
                f"{top} has files that git would not store: {named(seen.left_out)}.", "Move them away first."
            )
        ref = await worktrees.keep(berth.name, berth.checkout, seen)
        await worktrees.remove(berth.name, top, (await self._hangar.main_head()).commit)
        kept = f" What it had not committed is kept in {ref}." if ref else ""
        text = f"{by} removed the worktree of {berth.name}.{kept}"
        branch = seen.head.branch or branch_name(berth.name)
        return Happened("removed", berth.name, branch, by, text, seen.commit, {"kept": ref})

    def _idle(self, agent: str, done: str) -> Berth:
        berth = self._hangar.berth(agent)
        if berth is None:
            raise Refusal(f"There is no worktree of {agent}.", f"{command('worktrees')} lists them.")
        if berth.name in self._hangar.at_work:
            raise Refusal(
                f"{berth.name} is at work: its worktree is not {done} during a turn.",
                f"Wait for its answer, or `/cancel @{berth.name}`.",
            )
        return berth

"""Conflicts that were found at a merge, and what people and agents choose (docs/landing.md).

Invariants:
- a choice counts only while both sides still say what was chosen between: what comes later is refused with how things
  stand now;
- what an agent writes takes the place of the conflict and of nothing else (`journal.answer`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.merging.proposal import NotAccepted, Resolvable
from relay.airspace.worktrees.merging.under_way import UnderWay
from relay.app.fleet.work_elsewhere import WorkElsewhere
from relay.app.wiring.conflicts.asking import say_to
from relay.config.command_line import command
from relay.faces.worktrees import ordered
from relay.git.trial_merge import ConflictPart
from relay.merge.resolution import answers, journal
from relay.merge.resolution.findings import Finding
from relay.merge.resolution.journal import AskedConflict, Resolution
from relay.merge.resolution.service import found, of_number
from relay.merge.resolution.wording import listed, shown, side_name
from relay.model import Refusal
from relay.model.actions import DiscardWork, MergeBranch, OnBranch, Resolve, RestoreWork, TakeBackMerge
from relay.model.ports import Voice
from relay.store.ports import Store, Tx


class ConflictService:
    """The conflicts of one room. `not_run`: why nobody looks for those of level 4, empty = somebody does.
    `elsewhere`: has the work of the fleet's other members; None = there is one relay. `updates`: gives up the merges
    that no choice is left for; None = they stand until the branch lands."""

    def __init__(
        self,
        store: Store,
        actions: WorktreeActions,
        voice: Voice,
        not_run: Callable[[], str] = lambda: "",
        elsewhere: WorkElsewhere | None = None,
        updates: BranchUpdates | None = None,
    ) -> None:
        self._store, self._actions, self._voice, self._not_run = store, actions, voice, not_run
        self._elsewhere, self._updates = elsewhere, updates

    # -- what the room's people say

    async def carry_out(self, action: Any, *, by: str, source_key: str) -> str:
        """`/resolve`, and what is ordered of a branch; the room's answer, as markdown. Raises Refusal."""
        if isinstance(action, OnBranch):
            return await self._on_branch(action, by)
        assert isinstance(action, Resolve)
        if action.conflict is not None and action.choice is None:
            return await self.show(action.conflict)
        if action.conflict is None or action.choice is None:
            open_ = await self._store.read(lambda tx: found(tx, only_open=True))
            return listed(open_, self._not_run())
        who, lines = action.agent, action.lines
        return await self.choose(action.conflict, action.choice, by=by, agent=who, text=lines)

    async def _on_branch(self, action: OnBranch, by: str) -> str:
        """What was done stands in the room as the worktree's news: the answer says what takes it back."""
        if isinstance(action, MergeBranch):
            # Other commands wait for this one, and tests take their time: what relay joins is left to the queue.
            action = replace(action, untested=True)
        try:
            done = await ordered(self._actions, action, by)
        except NotAccepted as refusal:
            refusal.add(f"`/land @{action.agent}` tests it, and lands it.")
            raise
        match action:
            case MergeBranch(agent):
                return f"`/takeback @{agent} {done['commit'][:9]}` takes the merge back."
            case DiscardWork(agent):
                return f"`/restore @{agent}` brings the work back."
            case TakeBackMerge(agent):
                return f"Once its branch has the work, `/land @{agent}` lands it again."
            case RestoreWork(agent):
                return f"`/discard @{agent}` takes the work off the branch again."
        return str(done["reason"])

    async def show(self, number: int) -> str:
        """The conflict for who looks at it again, with its lines as they stand now, as markdown. Raises Refusal:
        there is none."""
        found = await self._store.read(lambda tx: of_number(tx, number))
        if isinstance(found, Finding) or found.state == journal.GONE:
            return shown(found)
        try:
            _, part = await self._standing(number)
        except Refusal as refusal:
            return f"{shown(await self._store.read(lambda tx: of_number(tx, number)))}\n\n{refusal}"
        return shown(replace(found, part=part))

    async def choose(
        self, number: int, choice: int, *, by: str, agent: str | None = None, text: str | None = None
    ) -> str:
        """One of the five choices of the source (003, section 6.5), for a person. `text`: what is to stand there, as
        they wrote it (choice 4). Raises Refusal."""
        asked = await self.standing(number)
        part, question, how = asked.part, asked.question, journal.STRATEGIES[asked.use]
        ours = side_name(question)
        if choice in (3, 4):
            answers.lines_only(asked)
        match choice:
            case 1 | 2:
                whose, side = ((ours, part.ours), (question.agent, part.theirs))[choice - 1]
                reason = f"{by} chose it"
                return await self._settle(
                    asked, Resolution(how, "side_chosen", by, side, chosen=whose, reason=reason)
                )
            case 3:
                return await self._ask(asked, agent or question.agent, by)
            case 4 if text is not None:
                return await self._settle(asked, Resolution(how, "human_resolved", by, answers.checked(text)))
            case 4:
                edit = command(f"merge resolve {asked.name}")
                return (
                    f"Write what is to stand there: the page has both sides and an editor under Conflicts; {edit} "
                    f"opens your own editor; or write the lines below `/resolve {asked.name} 4`."
                )
        return await self._settle(
            asked, Resolution(how, "rejected", by, None, reason=f"{by} keeps both branches apart")
        )

    # -- the steps

    async def standing(self, number: int) -> AskedConflict:
        """The conflict, where both sides still say the same there. Raises Refusal with how they stand."""
        return (await self._standing(number))[0]

    async def _standing(self, number: int) -> tuple[AskedConflict, ConflictPart]:
        """As `standing`, and its place as it is now."""
        asked = await self._store.read(lambda tx: journal.conflict(tx, number))
        agent, into = asked.question.agent, asked.question.into_name
        try:
            work = await self._resolvable(agent)
        except UnderWay as refusal:
            raise UnderWay(
                f"{asked.name} waits. {refusal.message}", f"{refusal.fix} Then choose."
            ) from refusal
        parts = work.parts
        if now := next((part for part in parts if part.id == asked.part.id), None):
            return asked, now

        async def gone(tx: Tx) -> None:
            await journal.gone(tx, await journal.conflict(tx, number))

        await self._store.write(gone)
        left = sorted({part.path for part in parts if not part.settled})
        stand = (
            f"They conflict in {', '.join(left[:5])} now: merging asks about that."
            if left
            else f"{agent}'s branch does not conflict with {into} any more."
        )
        raise Refusal(
            f"{asked.name} is gone: {agent} or {into} has changed {asked.part.path} since.",
            f"{stand} ({into} is at {work.into_at[:9]}, {agent}'s work at {work.commit[:9]}.)",
            code="moved_on",
        )

    async def _resolvable(self, agent: str) -> Resolvable:
        if self._elsewhere is not None:
            return await self._elsewhere.resolvable(agent)
        return await self._actions.resolvable(agent)

    async def _settle(self, asked: AskedConflict, resolution: Resolution) -> str:
        async def decide(tx: Tx) -> AskedConflict:
            # git was asked in between, and somebody else may have chosen meanwhile.
            return await journal.resolve(tx, await journal.conflict(tx, asked.number), resolution)

        made = await self._store.write(decide, durable=True)
        if made.state == journal.REJECTED:
            return f"{made.name}: both branches stay apart. Nothing of {asked.question.agent}'s is merged."
        agent, into = asked.question.agent, asked.question.into_name
        work = await self._resolvable(agent)
        ids = {part.id for part in work.parts if not part.settled}
        open_ = await self._store.read(lambda tx: journal.newest(tx, only_open=True))
        left = [other.name for other in open_ if other.part.id in ids]
        whose = (
            f"{resolution.chosen}'s side stands"
            if resolution.chosen
            else f"what {resolution.by} wrote stands"
        )
        if left:
            return f"{made.name} is settled: {whose}. Left: {', '.join(left)}."
        merges = f"`/land @{agent}` lands it"
        settled = f"{made.name} is settled: {whose}. Nothing of {agent}'s is left to decide"
        if work.begun and not work.edited and self._updates is not None:
            # Every view says from now on what is said here: that nothing is left of it.
            await self._updates.give_up_stale([agent])
            work = await self._resolvable(agent)
        if work.nothing:
            at = f" at {work.member}" if work.member else ""
            return (
                f"{settled}, and nothing is left to merge: {into} has all that is to stand. "
                f"{command(f'worktrees discard {agent}')}{at} takes {agent}'s work off its branch, and keeps it."
            )
        if work.edited:
            return (
                f"{settled}. A merge of {into} is under way in {agent}'s worktree, and its files were edited: "
                f"`/abort @{agent}` gives that up (what stands in the files is kept), then {merges}, by what was "
                f"chosen. When {agent} settles it instead, that counts."
            )
        ended = f", and gives up the merge of {into} that relay has begun there" if work.begun else ""
        return f"{settled}: {merges}{ended}."

    async def _ask(self, asked: AskedConflict, agent: str, by: str) -> str:
        async def work(tx: Tx) -> None:
            now = await journal.conflict(tx, asked.number)
            if now.state != asked.state:
                raise Refusal(
                    f"{now.name} is {now.state} already: somebody has decided it just now.",
                    f"`/resolve {now.name}` with another choice takes the place of that one.",
                    code="moved_on",
                )
            why = (await self._voice.reach(tx, [agent])).get(agent)
            if why or why is None:
                reason = why or "no agent of this room"
                raise Refusal(f"{agent} cannot be asked: it is {reason}.", "Name another: `3 @AGENT`.")
            await journal.ask_agent(tx, now, agent)
            await say_to(tx, self._voice, now, agent, by)

        await self._store.write(work)
        return f"{by} asked {agent} to write what has both sides of {asked.name}."

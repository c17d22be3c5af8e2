"""The landing queue: branches are merged one onto the other, tested together, and land as what was tested.

Invariants:
- what lands is what was tested: the main branch moves from the commit that was seen to the commit whose tree passed,
  by one update. Where nothing verifies it, it lands as not tested, and that is said;
- each entry ends once, in the transaction that says how. Whoever is killed between the main branch's move and that
  finds the work there, and says so then;
- a batch that fails is halved until one entry is left that fails on a main branch which passes without it: that one
  is put out, the rest goes on. Where the main branch fails by itself nobody is put out;
- an entry that comes meanwhile waits for the next batch: it restarts nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import structlog

from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.lifecycle import CHANGED
from relay.airspace.worktrees.merging.refusals import Conflict
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.fleet.common_main import CommonMain, MainMoved
from relay.app.verification import landing_words as words
from relay.app.verification.landing_approvals import LandingApprovals
from relay.app.verification.landing_git import LandingGit, Link, Moved
from relay.app.verification.landing_pin import LandingPins
from relay.app.verification.landing_record import LandingRecord
from relay.app.verification.main_branch import AGAIN_S, MainBranch
from relay.app.verification.trees import look_up
from relay.app.verification.verifier import Verifier
from relay.base.files import alone_in
from relay.config.settings import LiveSettings
from relay.faces.worktrees import merge_order
from relay.git.run import GitError
from relay.model import Refusal
from relay.model.ports import Voice
from relay.store.ports import Store, StoreError, Tx, is_away
from relay.verification import approvals
from relay.verification import journal as verifications
from relay.verification.landing import journal
from relay.verification.landing.entry import Entry, EntryState, next_batch
from relay.verification.policy_list import Policies
from relay.verification.verification import Change, Outcome, Source, State, Verification, deciding

log = structlog.get_logger(__name__)
#: Seconds between two looks when nothing wakes it: while an entry may go on, while all wait for somebody, and while
#: there is none.
POLL_S, HELD_S, IDLE_S = 1.0, 10.0, 60.0
#: Seconds between two looks whether the main branch has moved while a batch is tested.
LOOK_S = 1.0
_WAKES = (*journal.TYPES, *approvals.TYPES, CHANGED, verifications.ENDED)


class LandingQueue:
    """The queue of one room. `voice`: tells agents why they are put out; None = people alone are told. `protocol`: as
    of `merge_order`; `common`: the main branch of a fleet, None = there is one relay."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        registry: WorktreeRegistry,
        actions: WorktreeActions,
        updates: BranchUpdates,
        verifier: Verifier,
        policies: Policies,
        voice: Voice | None = None,
        protocol: AdvisoryProtocol | None = None,
        common: CommonMain | None = None,
    ) -> None:
        self._store, self._settings, self._registry = store, settings, registry
        self._actions, self._verifier = actions, verifier
        self._main = MainBranch(store, registry, verifier)
        self._protocol, self._common = protocol, common
        self._record = LandingRecord(store, registry, words.LandingWords(voice))
        self._git = self.git = LandingGit(registry, updates, common)
        self._approvals = LandingApprovals(store, registry, policies, verifier, self._record, self._git)
        self._pins = self.pins = LandingPins(
            store, registry, actions, self._git, self._record, self._approvals, common
        )
        #: Of entries that could not be verified: when they are tried again.
        self._again_at: dict[int, float] = {}

    async def run(self) -> None:
        """Land what is asked for, for ever."""
        with contextlib.closing(self._store.wakeup(_WAKES)) as wakeup:
            while True:
                try:
                    went_on = await self.step()
                except (GitError, OSError) as error:
                    log.warning("landing put off", reason=str(error))
                    went_on = False
                except (StoreError, self._store.transient) as error:
                    if not is_away(error):
                        log.warning("landing put off", reason=str(error))
                    went_on = False
                if not went_on:
                    await wakeup.wait(await self._patience())

    async def _patience(self) -> float:
        open_ = await self._store.read(journal.open_entries)
        if not open_:
            return HELD_S if await self._main.fails() else IDLE_S
        # What holds a branch may go without a word: an agent's turn, a person's file in the way.
        soon = any(not entry.note or entry.state is EntryState.ASKED for entry in open_)
        return POLL_S if soon else HELD_S

    async def drain(self, agents: Sequence[str] = ()) -> None:
        """Go on until these agents' entries (none: all) are over or wait for somebody."""
        while True:
            if await self.step():
                continue
            open_ = await self._store.read(journal.open_entries)
            if not any(not agents or entry.agent in agents for entry in open_) or all(
                entry.note for entry in open_
            ):
                return
            await asyncio.sleep(0.2)

    async def step(self) -> bool:
        """One batch, if there is one; has anything changed? One process of a room at a time does it."""
        folder = self._settings.current.runtime_dir / "landing"
        await asyncio.to_thread(folder.mkdir, 0o700, True, True)
        try:
            with alone_in(folder, 0.0):
                return await self._step()
        except TimeoutError:
            return False

    async def _step(self) -> bool:
        if not self._registry.surveyed.is_set():
            return False  # whose worktrees there are is not known yet
        if self._registry.main is None:
            trouble = self._registry.trouble
            await self._record.hold_all(self._common.no_clone(trouble) if self._common else trouble)
            return False
        await self._cut_off()
        await self._main.look()
        entries = await self._store.read(journal.open_entries)
        if not entries:
            return False
        try:
            main = await self._git.main()
        except Refusal as refusal:
            await self._record.hold_all(str(refusal))
            return False
        for entry in entries:
            if entry.state is EntryState.ASKED:
                elsewhere = await self._git.is_elsewhere(entry)
                await (self._elsewhere(entry) if elsewhere else self._pins.pin(entry))
        ready = await self._ready(main)
        if not ready:
            return False
        batch = next_batch(ready, await self._order(), self._settings.current.landing.batch)
        links = await self._chain(batch.chosen, main)
        await self._record.passed_over(batch.passed_over)
        return await self._land(links, main) if links else False

    async def _cut_off(self) -> None:
        """End what a queue that was killed has left: one step is one batch, so nothing is tested between two."""
        for entry in await self._store.read(journal.open_entries):
            if entry.state is EntryState.TESTING:
                if entry.verification is not None:
                    await self._verifier.cancel(
                        entry.verification, "the queue was cut off, and tests it anew"
                    )
                await self._record.back([entry])

    # -- what may land now

    async def _elsewhere(self, entry: Entry) -> None:
        """Its branch is in another member's clone, which looks at it; where it cannot, that is said."""
        assert self._common is not None
        if why := await self._common.why_not_here(entry.agent):
            await self._record.hold(entry, why, say=True)

    async def _has_come(self, entry: Entry) -> bool:
        """Is the work that is to land in this clone? What is in another's is fetched."""
        if self._common is None or not await self._git.is_elsewhere(entry):
            return True
        if why := await self._common.why_not_here(entry.agent):
            if not await self._git.knows(entry.at_commit):
                await self._record.hold(entry, why, say=True)
                return False
            return True
        try:
            if await self._common.take_over(entry.agent, entry.at_commit):
                return True
            why = f"no member has brought its branch to `{self._common.remote}` yet"
        except GitError as error:
            why = f"its branch cannot be fetched from `{self._common.remote}`: {error.last_words}"
        self._again_at[entry.number] = time.monotonic() + LOOK_S
        await self._record.hold(entry, why, say=True)
        return False

    async def _ready(self, main: str) -> list[Entry]:
        """Those that can be tested on this commit of the main branch."""
        ready, main_fails = [], await self._main.fails()

        def held(entry: Entry) -> bool:
            later = self._again_at.get(entry.number, 0.0) > time.monotonic()
            return later or (main_fails and entry.held_on == main)

        for entry in await self._store.read(journal.open_entries):
            if entry.state is EntryState.ASKED:
                continue
            if not held(entry) and not await self._has_come(entry):
                continue
            if there := await self._git.landed_as(main, entry, await self._record.planned(entry)):
                # Whoever was killed behind the move finds it done, and so does who merged it by hand.
                await self._record.landed(entry, there, kept=await self._git.keep(entry))
            elif not held(entry) and await self._approvals.approved(entry, main):
                ready.append(entry)
        return ready

    async def _order(self) -> list[str]:
        """The agents, the least entangled first."""
        try:
            return await merge_order(self._registry, self._protocol, self._store)
        except GitError:
            return []

    # -- a batch

    async def _chain(self, entries: Sequence[Entry], main: str) -> list[Link]:
        """The entries merged one onto the other, those that can be; what is in the way of others is said of them."""
        links: list[Link] = []
        for entry in entries:
            onto = links[-1].commit if links else main
            before = [link.entry for link in links]
            try:
                link = await self._git.link(entry, onto)
            except Conflict as refusal:
                if links and await self._git.merges(main, entry.at_commit):
                    names = ", ".join(other.agent for other in before)
                    await self._record.hold(entry, f"it conflicts with what is tested before it ({names})")
                else:
                    worktree = self._registry.find(entry.agent)
                    asked = await self._actions.conflicted(
                        worktree or (entry.agent, entry.branch), entry.at_commit, refusal, entry.asker
                    )
                    await self._record.put_out(entry, str(asked))
                continue
            except Refusal as refusal:
                if refusal.code in ("rewritten", "gone", "own_files"):
                    await self._record.put_out(entry, str(refusal))
                else:
                    await self._record.hold(entry, str(refusal), say=True)
                continue
            except GitError as error:
                self._again_at[entry.number] = time.monotonic() + AGAIN_S
                log.warning("a branch could not be merged", agent=entry.agent, reason=str(error))
                await self._record.hold(entry, f"git could not merge it: {error.last_words}", say=True)
                continue
            across = await self._across(entry, links, main)
            if across and links:
                # It waits for the next batch: what fails then is its own, and is known before anything runs.
                await self._record.hold(entry, " ".join(across), say=True)
                continue
            links.append(replace(link, across=tuple(across)))
        return links

    async def _across(self, entry: Entry, links: Sequence[Link], main: str) -> list[str]:
        """What the entry and those before it do to each other in the code, named."""
        theirs = (entry.agent, entry.at_commit)
        sides = [(link.entry.agent, link.entry.at_commit) for link in links] or [("main", main)]
        # All before it at once: only where that finds something is it worth a look at each, which names whose it is.
        if len(sides) > 1 and not await self._git.across(("main", links[-1].commit), theirs):
            return []
        return [
            " ".join(conflict.said) for ours in sides for conflict in await self._git.across(ours, theirs)
        ]

    async def _land(self, links: Sequence[Link], main: str) -> bool:
        """Test the chain and land it; where it fails, find the one entry that breaks it, and go on with those behind
        it. Is anything decided?"""
        landed, upto, failing = 0, len(links), len(links) + 1
        green, failed, before = False, None, list[str]()
        while landed < len(links):
            tested = await self._tested(links[landed:upto], main)
            if tested.state in (State.PASSED, State.NOT_TESTED):
                if not await self._move(links[landed:upto], main, tested):
                    return bool(before)
                before += [link.entry.agent for link in links[landed:upto]]
                main, landed, green = links[upto - 1].commit, upto, tested.state is State.PASSED
                upto = landed + max(1, (failing - landed) // 2)
            elif tested.state is State.FAILED:
                failing, failed = upto, tested
                upto = landed + (failing - landed) // 2
            else:
                if tested.state is State.ERROR:
                    await self._unverified(links[landed:upto], tested)
                return True
            if failing - landed == 1 and failed is not None:
                if green or await self._is_green(links[landed], main):
                    await self._breaks(links[landed], failed, before)
                # Nobody else is taken before the batch is over.
                links = await self._chain(await self._still(links[landed + 1 :]), main)
                landed, upto, failing, failed = 0, len(links), len(links) + 1, None
        return True

    async def _still(self, links: Sequence[Link]) -> list[Entry]:
        """The entries of these that wait as they did: nobody has taken them back or asked for newer work."""
        now = {entry.number: entry for entry in await self._store.read(journal.open_entries)}
        return [
            entry
            for link in links
            if (entry := now.get(link.entry.number)) is not None
            and (entry.state, entry.at_commit) == (EntryState.WAITING, link.entry.at_commit)
        ]

    async def _tested(self, links: Sequence[Link], main: str) -> Verification:
        """The chain up to the last of these, verified. Cancelled where the main branch moves meanwhile, or somebody
        takes an entry back."""
        entries = [link.entry for link in links]
        agents = [entry.agent for entry in entries]
        about: dict[str, Any] = {"part": "batch", "agents": agents}
        about["entries"] = [entry.number for entry in entries]
        if any(entry.held_on == main for entry in entries):
            about["fresh"] = True  # a failure while main failed by itself says nothing of the work
        change = Change(
            verifications.new_id(),
            Source.LANDING,
            agents[0] if len(agents) == 1 else "RELAY",
            entries[0].asker,
            links[-1].proposal.into,
            links[-1].commit,
            main,
            links[-1].tree,
            summary=f"{', '.join(agents)} on {links[-1].proposal.into}",
            about=about,
        )

        async def begin(tx: Tx) -> Verification:
            made = await verifications.ask(tx, change)
            for link in links:
                entry = await journal.load(tx, link.entry.number)
                if entry.state in (EntryState.WAITING, EntryState.TESTING):
                    note = " ".join(link.across)
                    began = entry.began or await tx.now()
                    testing = replace(
                        entry, state=EntryState.TESTING, verification=made.number, note=note, began=began
                    )
                    more: dict[str, Any] = {"onto": main, "batch": agents, "planned": link.commit}
                    await journal.change(tx, testing, journal.TESTED, **more)
            return made

        number = (await self._store.write(begin)).number
        run = asyncio.create_task(self._verifier.finished(number), name=f"landing-v{number}")
        try:
            while not run.done():
                await asyncio.wait([run], timeout=LOOK_S)
                if not run.done() and (why := await self._in_vain(entries, main)):
                    run.cancel()
                    await asyncio.gather(run, return_exceptions=True)
                    await self._verifier.cancel(number, why)
                    return await self._store.read(lambda tx: verifications.load(tx, number))
            return run.result()
        finally:
            run.cancel()
            await self._record.back(entries)

    async def _in_vain(self, entries: Sequence[Entry], main: str) -> str:
        """Why what is tested cannot land; empty: it can."""
        target = await self._registry.target()
        if target is not None and target.commit != main:
            return f"{target.name} has moved on"
        now = {entry.number: entry for entry in await self._store.read(journal.open_entries)}
        gone = [entry.agent for entry in entries if entry.number not in now]
        there = [(entry, now[entry.number]) for entry in entries if entry.number in now]
        newer = [
            was.agent
            for was, entry in there
            if entry.state is EntryState.ASKED or entry.at_commit != was.at_commit
        ]
        if newer:
            return f"newer work of {', '.join(newer)} is to land"
        return f"{', '.join(gone)} was taken out of the queue" if gone else ""

    # -- what becomes of it

    async def _move(self, links: Sequence[Link], main: str, tested: Verification) -> bool:
        """Land these; False: not now."""
        if tested.state is State.NOT_TESTED and not (links := await self._approvals.looked_at(links, main)):
            return False
        if await self._in_vain([link.entry for link in links], main):
            return False
        try:
            kept = [await self._git.keep(link.entry) for link in links]
            left = await self._git.move(links, main)
        except (Moved, MainMoved):
            return False
        except Refusal as refusal:
            await self._record.hold_all(str(refusal))
            for link in links:
                self._again_at[link.entry.number] = time.monotonic() + POLL_S
            return False
        await self._registry.refresh()  # before anybody hears of it: who looks then sees it as it is
        for link, why, ref in zip(links, left, kept, strict=True):
            await self._record.landed(link.entry, link.commit, link, tested, why, ref)
        return True

    async def _breaks(self, link: Link, failed: Verification, before: Sequence[str]) -> None:
        """Put out the one whose work breaks what passes without it."""
        results = await self._store.read(lambda tx: verifications.results_of(tx, failed.number))
        bad = [each for each in deciding(results) if each.state in (Outcome.FAILED, Outcome.TIMED_OUT)]
        reason, output = words.broken(link, failed, bad, before)
        await self._record.put_out(link.entry, reason, output, failed.number)

    async def _is_green(self, link: Link, main: str) -> bool:
        """Does the main branch pass by itself what this entry fails? If not, the entry waits."""
        into, files = link.proposal.into, await self._files(link, main)
        alone = await self._main.tested(link.entry.asker, into, main, files)
        if alone is None:
            return False
        if alone.state is State.PASSED:
            return True
        if alone.state is State.FAILED:
            note = f"{into} fails by itself ({alone.name}): {alone.reason}"
            await self._record.hold(link.entry, note, held_on=main, say=True)
        else:
            await self._unverified([link], alone)
        return False

    async def _files(self, link: Link, main: str) -> tuple[str, ...]:
        change = Change("", Source.LANDING, "", "", base=main, tree=link.tree)
        return (await look_up(self._registry, change)).files or ()

    async def _unverified(self, links: Sequence[Link], tested: Verification) -> None:
        """What could not be verified waits: those whose files need what is missing, or all where nobody can tell."""
        results = await self._store.read(lambda tx: verifications.results_of(tx, tested.number))
        missing = {result.policy for result in deciding(results) if result.state is Outcome.ERROR}
        hit = [link for link in links if missing & {*link.entry.policies}] or list(links)
        for link in hit:
            self._again_at[link.entry.number] = time.monotonic() + AGAIN_S
            await self._record.hold(link.entry, f"it cannot be verified: {tested.reason}", say=True)

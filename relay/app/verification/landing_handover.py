"""What each member of a fleet does for the landing queue, whoever leads: it looks at the work of its own agents that
is to land and brings it to the common remote, follows main when something has landed, and says whether it could land.

Invariant: nothing here decides what lands; that is the queue's, which the leader runs. Who leads and cannot land
leaves the lead to a member that can.
"""

from __future__ import annotations

import contextlib
import time

import structlog

from relay.airspace.worktrees.lifecycle import CHANGED
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.fleet.common_main import CommonMain
from relay.app.fleet.fleet import Fleet
from relay.app.verification.landing_git import LandingGit
from relay.app.verification.landing_pin import LandingPins
from relay.fleet.members import Main
from relay.git.run import GitError
from relay.model import Refusal
from relay.room.journal import ledger
from relay.store.ports import Store, StoreError, Tx, is_away
from relay.verification.landing import journal
from relay.verification.landing.entry import Entry, EntryState

log = structlog.get_logger(__name__)
#: Seconds between two looks: while work of this member is to land, and else. Between two at the remote, where nothing
#: has landed that is not here.
SOON_S, IDLE_S, REMOTE_S = 1.0, 10.0, 30.0
#: Seconds for which a member cannot land before it says so, and leaves the lead to another.
UNABLE_S = 4.0
#: Entries that are over which are looked at: those that landed since the last look are among them.
_ENDED = 50


class LandingHandover:
    """Of this member."""

    def __init__(
        self,
        store: Store,
        registry: WorktreeRegistry,
        fleet: Fleet,
        common: CommonMain,
        git: LandingGit,
        pins: LandingPins,
    ) -> None:
        self._store, self._registry = store, registry
        self._fleet, self._common = fleet, common
        self._git, self._pins = git, pins
        self._followed = 0.0
        #: What of an agent is at the remote, and the landed entries behind which its worktree was brought.
        self._brought: dict[str, str] = {}
        self._settled: set[int] = set()
        #: Why main here does not follow, as it was said last.
        self._said = ""
        #: Since when this member cannot land (monotonic), and what the others were told of that, as which member.
        self._unable_at: float | None = None
        self._told: tuple[int, Main, str | None] | None = None

    async def run(self) -> None:
        """For ever."""
        with contextlib.closing(self._store.wakeup((*journal.TYPES, CHANGED))) as wakeup:
            while True:
                soon = False
                try:
                    soon = await self.step()
                except (GitError, OSError) as error:
                    log.warning("this member does not follow the landings now", reason=str(error))
                except (StoreError, self._store.transient) as error:
                    if not is_away(error):
                        log.warning("this member does not follow the landings now", reason=str(error))
                await wakeup.wait(SOON_S if soon else IDLE_S)

    async def step(self) -> bool:
        """Is there work of this member that is still to be brought?"""
        if not self._registry.surveyed.is_set():
            return False
        soon = await self._tell()
        if not await self._common.is_shared():
            return soon
        open_ = await self._store.read(journal.open_entries)
        ended = await self._store.read(lambda tx: journal.newest_ended(tx, _ENDED))
        landed = [
            entry for entry in ended if entry.state is EntryState.LANDED and entry.number not in self._settled
        ]
        mine = [entry for entry in open_ if not await self._git.is_elsewhere(entry)]
        asked = [entry for entry in mine if entry.state is EntryState.ASKED]
        if landed or asked or time.monotonic() - self._followed > REMOTE_S:
            await self._follow(landed)
        if not self._fleet.leads:
            for entry in asked:
                await self._pins.pin(entry)
        for entry in mine:
            # Looked at before main was shared, or by another process.
            known = self._brought.get(entry.agent) == entry.at_commit or entry.state is EntryState.ASKED
            if not known and await self._pins.brought(entry, entry.at_commit):
                self._brought[entry.agent] = entry.at_commit
        return soon or bool(asked)

    async def _tell(self) -> bool:
        """Tell the others whether this member can land; where it leads and cannot, leave the lead to one that can. Is
        that to be looked at again soon?"""
        main, why = await self._common.kind(), await self._common.cannot_land(self._git.merger)
        if not why:
            self._unable_at = None
        elif self._unable_at is None:
            self._unable_at = time.monotonic()
        unable = self._unable_at is not None and time.monotonic() - self._unable_at >= UNABLE_S
        # What passes by itself is not told.
        said = why if unable or not why else self._told and self._told[2]
        told = (self._fleet.incarnation, main, said)
        if told != self._told:
            await self._fleet.tell_landing(main, said)
            self._told = told
        if not why or not self._fleet.leads or not await self._store.read(journal.open_entries):
            return bool(why) and not unable
        if unable:
            await self._fleet.give_up_lead()
        return True

    async def catch_up(self) -> None:
        """Before a turn: bring main here to what has landed, so that the turn begins there. What cannot be now is
        left to the next look."""
        try:
            if (landed := await self._landed()) and await self._common.is_shared():
                await self._follow(landed)
        except (GitError, OSError, StoreError, self._store.transient) as error:
            log.warning("a turn begins before this member has all that landed", reason=str(error))

    async def _landed(self) -> list[Entry]:
        """What has landed and was not looked at here."""
        ended = await self._store.read(lambda tx: journal.newest_ended(tx, _ENDED))
        return [
            entry for entry in ended if entry.state is EntryState.LANDED and entry.number not in self._settled
        ]

    async def _follow(self, landed: list[Entry]) -> None:
        """Bring main here to what it is, and the idle worktrees of those whose work landed."""
        before = await self._registry.target()
        try:
            main = await self._common.follow(self._git.merger)
        except Refusal as refusal:
            # A main with commits of its own may have all that has landed.
            here = before.commit if before is not None else ""
            lacks = [
                each for each in landed if not await self._git.has(here, each.landed_as or each.at_commit)
            ]
            await self._say(str(refusal) if lacks else "")
            return
        self._followed = time.monotonic()
        await self._say("")
        for entry in landed:
            if not await self._git.has(main, entry.landed_as or entry.at_commit):
                continue
            if not await self._git.is_elsewhere(entry):
                async with self._registry.exclusive:
                    left = await self._git.follow(await self._git.merger(), entry, main)
                if left:
                    log.info("a worktree stays as it is", agent=entry.agent, reason=left)
            self._settled.add(entry.number)
        if before is None or main != before.commit:
            self._registry.wake.set()

    async def _say(self, why: str) -> None:
        """Tell people what they have to do here; once."""
        if why and self._fleet.leads:
            return  # the queue of a leader waits, and says so
        before, self._said = self._said, why
        if not why or why == before:
            return

        async def work(tx: Tx) -> None:
            text = f"Agents at {self._fleet.name} do not see what has landed: {why}"
            await ledger.say(tx, text, now=await tx.now(), meta={"notice": "landing"})

        await self._store.write(work)

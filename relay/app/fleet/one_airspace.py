"""One airspace for a fleet: each member tells of its own agents' work, and has what the others and the leader tell.

Invariants: what a member tells is written when it changed, and not at every look; whoever does not lead shows what
the leader saw; only the leader asks git about two machines.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from relay.airspace.live.picture import ahead_of_json
from relay.airspace.live.scanner import Scanner
from relay.airspace.live.service import AirspaceService
from relay.airspace.shared.shared_work import SharedWork, of_json
from relay.airspace.worktrees.working_sets import WorkingSetSource
from relay.app.fleet.branches import WAIT_S, FleetBranches
from relay.app.fleet.fleet import LOOK_S, Fleet
from relay.app.fleet.told_works import by_agent
from relay.config.settings import LiveSettings
from relay.fleet import works
from relay.store.ports import Store, Tx

T = TypeVar("T")
#: Seconds between two writes of what this member's agents have in hand, and between two looks at the others'.
EVERY_S = 0.25
#: Seconds between two pushes, and until one that came to nothing is tried again.
PUSH_EVERY_S, AGAIN_S = 1.0, 15.0
#: Characters of the files of one agent that are told where texts are shared.
MOST_TEXT = 200_000


class OneAirspace:
    """The part of one member."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        fleet: Fleet,
        sets: WorkingSetSource,
        scanner: Scanner,
        live: AirspaceService,
        branches: FleetBranches,
    ) -> None:
        self._store, self._settings, self._fleet = store, settings, fleet
        self._sets, self._scanner, self._live, self._branches = sets, scanner, live, branches
        self._looked, self._showing = asyncio.Event(), asyncio.Event()
        self._has_looked = False
        self._push_wanted, self._fetch_wanted = asyncio.Event(), asyncio.Event()
        #: What was told last; None: not known. As whom it was told: what a forgotten member told is gone.
        self._told: dict[str, SharedWork] | None = None
        self._told_as = 0
        self._versions: dict[works.Key, int] = {}
        self._heard: dict[works.Key, SharedWork] = {}
        #: The commits of others that are here, with the texts of their files.
        self._here: dict[str, Mapping[str, str]] = {}
        #: The commits that were asked for.
        self._asked: frozenset[str] = frozenset()
        scanner.after_look = self._after_look
        scanner.on_show = self._showing.set

    def _after_look(self) -> None:
        self._has_looked = True
        if self._fleet.leads:
            self._live.shown = None
        self._looked.set()

    def met(self) -> None:
        """Another member came, went or changed."""
        self._take_over()
        self._looked.set()

    # -- what this member tells

    async def tell(self) -> None:
        """Tell the others what the agents here have in hand, for ever."""
        while True:
            await self._looked.wait()
            self._looked.clear()
            await self._tell()
            await asyncio.sleep(EVERY_S)

    async def _tell(self) -> None:
        if not self._has_looked:
            return  # what this member told before it stopped stands until it knows better
        if self._told_as != self._fleet.incarnation:
            self._told, self._told_as = None, self._fleet.incarnation
        name, told = self._fleet.name, self._told
        own = self._sets.own_work() if self._settings.current.airspace.enabled else {}
        others = any(member.live for member in self._fleet.others)
        own = {
            # Also while nobody is there to whom it would come: whoever joins reads this before anything is pushed.
            agent: replace(work, pushed=self._branches.has(work), coming=self._branches.will_have(work))
            for agent, work in own.items()
        }
        if self._settings.current.fleet.share_text:
            own = await asyncio.to_thread(self._with_texts, own)
        if told is None:
            known = await self._store.read(lambda tx: works.told(tx, name))
            told = {agent: SharedWork("") for agent in known}
        offset_s = self._sets.ahead_s
        new = {agent: work.as_json(offset_s) for agent, work in own.items() if told.get(agent) != work}
        gone = told.keys() - own.keys()
        if new or gone:
            self._told = None
            await self._store.write(lambda tx: works.tell(tx, name, new, gone))
        self._told = own
        if others and self._branches.wants(own.values()):
            self._push_wanted.set()

    def _with_texts(self, own: Mapping[str, SharedWork]) -> dict[str, SharedWork]:
        """With the files as they are now; all of an agent, or none where that is too much."""
        told = {}
        for agent, work in own.items():
            set_ = work.working_set(now=0.0, half_life_s=1.0)
            texts = {path: text for path in sorted(work.paths) if (text := self._sets.text(set_, path))}
            few = sum(map(len, texts.values())) <= MOST_TEXT
            told[agent] = replace(work, texts=texts if few else {})
        return told

    async def push(self) -> None:
        """Bring the agents' branches to the common remote whenever they changed, for ever."""
        while True:
            await self._push_wanted.wait()
            self._push_wanted.clear()
            pushed = await self._within(self._branches.push((self._told or {}).values()), self._looked.set)
            self._fleet.remote_trouble = self._branches.trouble
            self._looked.set()  # what the remote has is told too
            await asyncio.sleep(PUSH_EVERY_S if pushed else AGAIN_S)

    @staticmethod
    async def _within(work: Coroutine[Any, Any, T], late: Callable[[], None]) -> T:
        """What `work` gives; `late` is called when that takes longer than anybody waits for a branch."""
        task = asyncio.create_task(work)
        try:
            done, _ = await asyncio.wait({task}, timeout=WAIT_S)
            if not done:
                late()
            return await task
        finally:
            task.cancel()

    # -- what the others tell

    async def hear(self) -> None:
        """Take over what the other members tell, for ever."""
        shown = 0
        with contextlib.closing(self._store.wakeup()) as wakeup:
            while True:
                if self._fleet.others:
                    await self._hear()
                    leads = self._fleet.leads or not self._fleet.leader
                    shown = 0 if leads else await self._take_picture(shown)
                await wakeup.wait(LOOK_S)
                await asyncio.sleep(EVERY_S)

    async def _hear(self) -> None:
        heard = partial(works.heard, member=self._fleet.name, known=self._versions)
        versions, new = await self._store.read(heard)
        if versions == self._versions:
            return
        told = {key: of_json(key[1], value) for key, value in new.items()}
        self._heard = {key: told.get(key) or self._heard[key] for key in versions}
        self._versions = versions
        self._take_over()
        self._fetch_wanted.set()

    def _take_over(self) -> None:
        live = {member.name for member in self._fleet.others if member.live}
        heard = {}
        for key, work in self._heard.items():
            texts = self._here.get(work.commit)
            at_hand = texts is not None
            coming = (work.coming or (work.pushed and work.commit not in self._asked)) and key[0] in live
            other = replace(work, at_hand=at_hand, coming=coming and not at_hand)
            heard[key] = replace(other, texts=texts) if texts and not work.texts else other
        others = by_agent(self._fleet.others, heard)
        if others != self._sets.others:
            self._sets.take_others(others)

    async def _take_picture(self, shown: int) -> int:
        """Show what the leader saw; the version of that."""
        new = await self._store.read(lambda tx: works.picture(tx, shown))
        if new is None or self._fleet.leads:
            return shown
        version, picture = new
        self._live.shown = picture
        self._scanner.observer.take_ahead(ahead_of_json(picture["links"]))
        self._scanner.to_show.set()
        return version

    # -- as the leader

    async def fetch(self) -> None:
        """Have the commits of the others here, for ever."""
        while True:
            others = list(self._sets.others.values())
            asked = frozenset(work.commit for work in others if work.pushed)

            def late(asked: frozenset[str] = asked) -> None:
                self._asked = asked
                self._take_over()

            here = await self._within(self._branches.fetch(others), late)
            self._fleet.remote_trouble = self._branches.trouble
            self._here, self._asked = here, asked
            self._take_over()
            self._fetch_wanted.clear()
            if others != list(self._sets.others.values()) and self._missing():
                continue
            with contextlib.suppress(TimeoutError):
                # A scratch that was emptied lacks them again.
                async with asyncio.timeout(AGAIN_S):
                    await self._fetch_wanted.wait()

    def _missing(self) -> bool:
        return any(work.pushed and not work.at_hand for work in self._sets.others.values())

    async def show(self) -> None:
        """Show the other members what was seen here, for ever."""
        before: Mapping[str, Any] = {}
        self._showing.set()
        while True:
            await self._showing.wait()
            self._showing.clear()
            picture = await self._live.own_picture()
            if picture is not None and {**picture, "at": None} != {**before, "at": None}:

                async def work(tx: Tx, picture: Mapping[str, Any] = picture) -> None:
                    await works.put_picture(tx, picture)

                await self._store.write(work)
                before = picture
            await asyncio.sleep(EVERY_S)

"""This relay as a member of its room's fleet: its signs of life, who else is here, and whether it leads.

Invariants: what there must be one of runs while this member leads, and is cancelled when it does not; every write of
that is fenced by the epoch (relay/store/fence.py), so it does not matter when a late one comes. A room on SQLite is a
fleet of one that leads always, and none of this costs it anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any

import structlog

import relay
from relay.app.fleet import notices
from relay.app.fleet.refs import ref_id
from relay.app.fleet.shared_agents import Place, last_turn_at, place_of
from relay.app.runtime.instance import InstanceRecord, holder_is_dead
from relay.config.command_line import for_all_machines
from relay.config.settings import LiveSettings, Settings
from relay.fleet import members as fleet
from relay.fleet.members import BEAT_S, LEAD_S, MEMBER, CannotJoin, FleetMember, Joining, Main
from relay.log.imported import make_replica_id
from relay.room.dispatch.recovery import take_back
from relay.room.dispatch.running import RunningTurns
from relay.room.journal.values import Job
from relay.store.fence import EPOCH, Fenced
from relay.store.ports import AnotherDaemon, Store, StoreError, Tx

log = structlog.get_logger(__name__)
Run = Callable[[], Awaitable[None]]
#: Seconds between two looks at the other members when nothing is heard of them.
LOOK_S = 15.0


@dataclass(frozen=True, slots=True)
class Lead:
    """That this member leads: the epoch, and until when at least (seconds, `_seconds`)."""

    epoch: int
    until: float


class Fleet:
    """`changed` is called when another member's agents or its state changed, `show` when what people see did."""

    def __init__(
        self, store: Store, settings: LiveSettings, record: InstanceRecord, turns: RunningTurns
    ) -> None:
        now = settings.current
        self._store, self._settings, self._record, self._turns = store, settings, record, turns
        self.alone = now.storage != "postgres"
        self.name = now.member
        #: All that the fleet knows, this member too; empty in a room that has one relay.
        self.members: tuple[FleetMember, ...] = ()
        #: Who leads, as last heard.
        self.leader = ""
        #: Why the agents' branches do not come to the common remote, or from there; "" = they do, or there is none.
        self.remote_trouble = ""
        self.changed: Callable[[], Awaitable[None]] | None = None
        self.show: Callable[[], None] | None = None
        #: Called once when the database no longer answers.
        self.lost: Callable[[], None] | None = None
        #: The database has answered no sign of life for as long as a lead lasts.
        self.cut_off = False
        #: The room's id in the names of refs at a git remote: the same at all members, and another one in each room.
        self.room = ""
        self._own: FleetMember | None = None
        self._lead: Lead | None = None
        self._heard_at, self._turned = _seconds(), asyncio.Event()
        self._clock: tuple[float, float] | None = None

    # -- what others ask

    @property
    def leads(self) -> bool:
        return self.alone or (self._lead is not None and _seconds() < self._lead.until)

    @property
    def unheard_s(self) -> float:
        """Seconds since this member asked for the last sign of life that counted."""
        return _seconds() - self._heard_at

    @property
    def incarnation(self) -> int:
        """Of this daemon as a member; another one since it was forgotten and has joined anew."""
        return 0 if self._own is None else self._own.incarnation

    @property
    def others(self) -> tuple[FleetMember, ...]:
        return tuple(member for member in self.members if member.name != self.name)

    @property
    def here(self) -> str:
        """This member's name, where the room has several; "" in a room of one relay."""
        return self.name if self.others else ""

    def now(self) -> float:
        """Unix seconds by the server's clock as far as it is known: the machines' own may differ by hours."""
        if self._clock is None:
            return time.time()
        server, at = self._clock
        return server + _seconds() - at

    def as_json(self) -> dict[str, Any]:
        """The `fleet` of GET /api/state: who shares the room; without members it has one relay."""
        members = [member.as_json(self.leader) for member in self.members]
        own = next((member.main for member in self.members if member.name == self.name), Main.UNTOLD)
        trouble = self.without_remote(own) or self.remote_trouble
        remote = {"name": self._settings.current.fleet.remote, "trouble": trouble}
        return {"name": self.name, "leader": self.leader, "members": members, "remote": remote}

    def without_remote(self, main: Main) -> str:
        """As `relay.fleet.members.without_remote`, of this member."""
        return fleet.without_remote(self.name, main, self.members, self._settings.current.fleet.remote)

    def home_of(self, agent: str) -> FleetMember | None:
        """The other member where this agent lives; None where it lives here, or nowhere."""
        own = {one.name for one in self._settings.current.agents}
        if agent in own:
            return None
        return next(
            (member for member in self.others if any(one["name"] == agent for one in member.agents)), None
        )

    def sharing(self, agent: str) -> tuple[FleetMember, ...]:
        """The members that have this agent, if this one and another are among them."""
        if self.alone or self.home_of(agent) is not None:
            return ()
        having = [member for member in self.members if any(one["name"] == agent for one in member.agents)]
        return tuple(having) if any(member.name != self.name for member in having) else ()

    async def verifies(self, agent: str, seen_at: str = "") -> str:
        """The member where what this agent does is verified; empty: whoever leads does it. `seen_at`: the member
        where it was seen to do it. All members come to the same."""
        having = [each for each in self.members if any(one["name"] == agent for one in each.agents)]
        found = next((each for each in self.members if each.name == seen_at), None)
        if found is None and len(having) > 1:
            by_name = sorted(having, key=lambda each: (not each.live, each.name))

            async def look(tx: Tx) -> FleetMember | None:
                return (await place_of(tx, agent, having)).member or await last_turn_at(tx, agent, having)

            found = await self._store.read(look) or by_name[0]
        elif found is None and having:
            found = having[0]
        # A member from before leaves it to the leader.
        return found.name if found is not None and found.protocol >= fleet.VERIFIES else ""

    async def place_of(self, agent: str) -> Place:
        """Where the branch of an agent is that this member shares with others."""
        sharing = self.sharing(agent)
        return await self._store.read(lambda tx: place_of(tx, agent, sharing)) if sharing else Place()

    def led(self, run: Run) -> Run:
        """What runs `run` while this member leads."""
        if self.alone:
            return run

        async def keep() -> None:
            while True:
                lead = await self._begins()
                context = copy_context()
                context.run(EPOCH.set, lead.epoch)
                task = asyncio.create_task(self._after_others(run), context=context)
                ends = asyncio.create_task(self._ends(lead.epoch))
                try:
                    await asyncio.wait({task, ends}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for each in (task, ends):
                        each.cancel()
                    await asyncio.gather(task, ends, return_exceptions=True)
                if task.cancelled():
                    continue
                error = task.exception()
                if error is None:
                    return
                if not _is_fenced(error):
                    raise error
                await asyncio.sleep(BEAT_S)  # until the next sign of life says it too

        return keep

    def unled(self, run: Run) -> Run:
        """What runs `run` while another member leads, or none."""

        async def keep() -> None:
            while True:
                while self._lead is not None:
                    await self._turned.wait()
                task = asyncio.ensure_future(run())
                begins = asyncio.create_task(self._begins())
                try:
                    await asyncio.wait({task, begins}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for each in (task, begins):
                        each.cancel()
                    await asyncio.gather(task, begins, return_exceptions=True)
                if not task.cancelled():
                    return task.result()

        return keep

    async def is_dead(self, tx: Tx) -> Callable[[Job], bool]:
        """Of which job the holder is dead, by what this transaction sees."""
        return await dead_holders(tx, self._settings.current)

    # -- join and leave

    async def join(self, agents: Sequence[Mapping[str, Any]]) -> None:
        """Become a member. Raises CannotJoin."""
        if self.alone:
            return
        settings = self._settings.current
        joining = Joining(
            self.name,
            self._record.holder,
            self._record.host,
            str(settings.folder),
            settings.ui.port,
            relay.__version__,
            tuple(agents),
        )

        async def work(tx: Tx) -> tuple[FleetMember, str]:
            before = await fleet.members(tx)
            joined = await fleet.join(tx, joining)
            await notices.joined(tx, joined, before, now=await tx.now())
            return joined, ref_id(await make_replica_id(tx))

        self._own, self.room = await self._store.write(work, durable=True)
        await self.look()

    async def tell(self, agents: Sequence[Mapping[str, Any]], url: str = "", port: int = 0) -> str:
        """Tell the others of this member's agents and place; why they cannot be as they are, '' = they can."""
        if self._own is None:
            return ""
        own = self._own
        told = replace(own, agents=tuple(agents), url=url or own.url, port=port or own.port)
        if told == own:
            return ""
        try:
            await self._store.write(lambda tx: fleet.publish(tx, own, told.agents, told.url, told.port))
        except CannotJoin as error:
            return str(error)
        self._own = told
        return ""

    async def tell_landing(self, main: Main, cannot_land: str | None) -> None:
        """Tell the others what a landing finds here."""
        own = self._own
        if own is not None:
            await self._store.write(lambda tx: fleet.tell_landing(tx, own, main, cannot_land))

    async def give_up_lead(self) -> None:
        """Leave the lead to a member that can land, where there is one."""
        own = self._own
        if own is None or not self.leads:
            return

        async def work(tx: Tx) -> bool:
            if given := await fleet.give_up(tx, own.name, own.incarnation):
                await notices.gave_up(tx, own, now=await tx.now())
            return given

        if await self._store.write(work):
            self._set_lead(None)

    async def leave(self) -> None:
        """This daemon stops."""
        if self._own is None:
            return
        own, self._own, self._lead = self._own, None, None

        async def work(tx: Tx) -> None:
            if await fleet.leave(tx, own.name, own.incarnation):
                await notices.left(tx, own, await fleet.members(tx), now=await tx.now())

        with contextlib.suppress(StoreError, self._store.errors, OSError):
            await self._store.write(work, durable=True)

    # -- tasks

    async def run(self) -> None:
        """Give signs of life for ever. Raises AnotherDaemon when another one has this one's name, or its agents'."""
        offset_s = 0.0
        while self._own is not None:
            asked, clock = _seconds(), time.time()
            try:
                async with asyncio.timeout(LEAD_S):
                    beat = await self._store.write(
                        lambda tx, own=self._own, off=offset_s: fleet.beat(  # type: ignore[misc]
                            tx, own.name, own.incarnation, off
                        ),
                        single=True,
                    )
            except (TimeoutError, StoreError, self._store.transient, OSError) as error:
                log.info("no sign of life given", reason=str(error) or type(error).__name__)
                if not self.cut_off and self.unheard_s >= LEAD_S:
                    self.cut_off = True
                    if self.lost is not None:
                        self.lost()
            else:
                took, self.cut_off = _seconds() - asked, False
                offset_s = beat.now - (clock + took / 2)
                self._clock = (beat.now, asked + took / 2)
                before, self.leader = self.leader, beat.leader
                if before != self.leader and self.show is not None:
                    self.show()
                self._set_lead(Lead(beat.epoch, asked + LEAD_S) if beat.leads else None)
                if not beat.beats:
                    await self._come_back()
                self._heard_at = asked
            if self._lead is not None and _seconds() >= self._lead.until:
                self._set_lead(None)
            await asyncio.sleep(BEAT_S)

    async def follow(self) -> None:
        """Keep what is known of the other members for ever."""
        with contextlib.closing(self._store.wakeup([MEMBER])) as wakeup:
            while True:
                await self.look()
                await wakeup.wait(LOOK_S)

    async def watch(self) -> None:
        """As the leader: mark members that are gone, and say whose clock is wrong, for ever."""
        lease_s = self._settings.current.fleet.lease_s
        while True:
            await asyncio.sleep(min(BEAT_S, lease_s / 4) if self.others else LOOK_S)
            seen = [member for member in await self._store.read(fleet.members, single=True) if member.live]
            late = self.now() - lease_s
            if not any(one.heartbeat_at < late or one.wrong_clock != one.clock_said for one in seen):
                continue
            parks = self._settings.current.fleet.gone == "park"

            async def work(tx: Tx, parks: bool = parks) -> None:
                at = await tx.now()
                gone = await fleet.mark_gone(tx, lease_s)
                members = await fleet.members(tx)
                for member in gone:
                    await notices.gone(tx, member, members, parks=parks, now=at)
                for member in await fleet.note_clocks(tx):
                    await notices.clock(tx, member, now=at)

            await self._store.write(work)

    # -- inside

    async def look(self) -> None:
        """Take over what the database says of the members."""
        seen = tuple(await self._store.read(fleet.members, single=True))
        shown = [replace(member, heartbeat_at=0.0, clock_offset_s=0.0) for member in seen]
        known = [replace(member, heartbeat_at=0.0, clock_offset_s=0.0) for member in self.members]
        self.members = seen
        for_all_machines(bool(self.others))
        if shown == known:
            return
        if self.show is not None:
            self.show()
        if self.changed is not None:
            await self.changed()

    async def _come_back(self) -> None:
        """This member counted as gone: it is there again, with the turns that it still runs. One that was forgotten
        meanwhile joins as at a start, if its names are still free."""
        own = self._own
        assert own is not None
        running = self._turns.jobs
        anew = Joining(
            own.name, own.holder, own.host, own.folder, own.port, own.version, own.agents, url=own.url
        )

        async def work(tx: Tx) -> FleetMember:
            back = await fleet.rejoin(tx, own.name, own.incarnation)
            forgotten = back is None
            if back is None:
                try:
                    back = await fleet.join(tx, anew)
                except CannotJoin as error:
                    raise CannotJoin(
                        f"the relay {own.name} was forgotten, and cannot join again: {error}"
                    ) from error
            now = await tx.now()
            if forgotten or not back.live:
                await take_back(tx, running, own.holder)
                await notices.back(tx, back, now=now)
            return back

        try:
            back = await self._store.write(work, durable=True)
        except CannotJoin as error:
            self._own = None  # its row is another's, or there is none
            raise AnotherDaemon(str(error)) from error
        self._own = replace(own, incarnation=back.incarnation)

    async def _after_others(self, run: Run) -> None:
        """Run it behind the last write of whoever led before: that one had the room's lock, or is refused."""

        async def nothing(tx: Tx) -> None:
            await tx.now()

        await self._store.write(nothing)
        await run()

    def _set_lead(self, lead: Lead | None) -> None:
        before, self._lead = self._lead, lead
        if (before and before.epoch) != (lead and lead.epoch):
            log.info("this member leads" if lead else "this member does not lead", leader=self.leader)
            self._turned.set()
            self._turned = asyncio.Event()

    async def _begins(self) -> Lead:
        while not self.leads or self._lead is None:
            await self._turned.wait()
        return self._lead

    async def _ends(self, epoch: int) -> None:
        while self._lead is not None and self._lead.epoch == epoch:
            await self._turned.wait()


async def dead_holders(tx: Tx, settings: Settings, *, but: str = "") -> Callable[[Job], bool]:
    """Of which job the holder is dead: the daemons of members that left, of the member `but`, and of those that are
    gone where their jobs do not stay with them. What a live member can do too stays with nobody who is gone."""
    if settings.storage != "postgres":
        return lambda job: job.holder is None or holder_is_dead(job.holder)
    members = [member for member in await fleet.members(tx) if member.name != but]
    live = {member.holder for member in members if member.live}
    parks = settings.fleet.gone == "park"
    away = {member.holder for member in members if parks and member.state is fleet.MemberState.AWAY}
    there = fleet.agents_of_live(members)
    return lambda job: job.holder not in live and (job.holder not in away or job.agent in there)


def _is_fenced(error: BaseException) -> bool:
    """Is it only that another member leads by now, also where tasks of a group met it?"""
    if isinstance(error, BaseExceptionGroup):
        return error.split(Fenced)[1] is None
    return isinstance(error, Fenced)


def _seconds() -> float:
    # A machine that was suspended was away for that long, which the usual clock does not count.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

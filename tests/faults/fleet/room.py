"""A whole fleet in a cage: three members, two PostgreSQL servers, two people, six agents, and what is checked."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests import postgres
from tests.faults.fleet import cage, checks, network
from tests.faults.fleet.members import Member, all_well
from tests.faults.fleet.network import Machine, machines
from tests.faults.fleet.people import Person, Told, append_by_hand
from tests.faults.fleet.servers import Servers
from tests.outside import Json, eventually

#: Six agents; TEAM is one agent that two members have.
AGENTS: Mapping[str, tuple[str, ...]] = {
    "m1": ("ADA", "BOB", "TEAM"),
    "m2": ("CAL", "DEE", "TEAM"),
    "m3": ("EVE",),
}
SHARED = ("TEAM",)
#: A fault of so many seconds outlasts the open transaction of a member that is cut off (15) and a new leader (10).
LONG_S = 30.0
ENDED = ("done", "dead", "skipped")


@dataclass
class Fleet:
    """A room and its members. `lease_s`: after so long without a sign of life a member counts as away."""

    members: list[Member]
    servers: Servers
    notes: Path
    database: str
    lease_s: float
    dice: random.Random
    #: The members that nothing is appended to by hand now: a full disk tears lines.
    closed: set[str] = field(default_factory=set)
    told: Told = field(default_factory=Told)
    #: Seconds within which all comes to rest.
    patience_s: float = 30.0
    #: How many entries the room had when the last fault began.
    looked: int = 0

    @property
    def agents(self) -> list[str]:
        return sorted({name for member in self.members for name in member.agents})

    async def open(self) -> None:
        """Start all members, and give each agent its key."""
        for member in self.members:
            member.launch()
        for member in self.members:
            await member.until_open()
        await all_well(self.members)
        keys = {}
        for name in self.agents:
            status, made = await self.members[0].ask("POST", "/keys", json={"identity": name})
            assert status == 200, made
            keys[name] = made["key"]
        known = json.loads(self.members[0].keys.read_text()) if self.members[0].keys.exists() else {}
        self.members[0].keys.write_text(json.dumps({**known, **keys}))

    # -- traffic

    @asynccontextmanager
    async def busy(self, pause_s: float, *, by_hand: bool = True) -> AsyncIterator[None]:
        """People write while this is open. At its end all that they began is ended."""
        over = asyncio.Event()
        doors = self.members
        async with asyncio.TaskGroup() as group:
            for name, at in (("ann", 0), ("ben", 1)):
                mine = [*doors[at % len(doors) :], *doors[: at % len(doors)]]
                dice = random.Random(self.dice.random())
                group.create_task(Person(name, mine, self.agents, self.told, dice).write(over, pause_s))
            dice = random.Random(self.dice.random())
            if by_hand:
                group.create_task(
                    append_by_hand("dan", doors, self.agents, self.told, dice, over, pause_s, self.closed)
                )
            try:
                yield
            finally:
                over.set()

    # -- what is there

    def open_member(self) -> Member:
        return next(member for member in self.members if member.running())

    async def leader(self) -> Member:
        """The member that leads; of one member, that one."""

        async def look() -> str:
            with suppress(AssertionError, OSError, TimeoutError, ValueError):
                told = await self.open_member().get("/api/state")
                return str(told.get("fleet", {}).get("leader", "")) or self.members[0].name
            return ""

        name = await eventually(look, "a member to lead")
        return next(member for member in self.members if member.name == name)

    async def goes_on(self, span_s: float, *, without: Member | None = None) -> None:
        """Wait for so long. Where that is long enough, a message that neither comes from the member `without` nor is
        for it must be answered meanwhile: the fault is that member's alone."""
        others = [member for member in self.members if member is not without]
        began = time.monotonic()
        if others and span_s >= LONG_S:
            at, to = others[0], others[-1]
            name = next(name for name in to.agents if name not in SHARED)
            token = f"tok-{self.dice.getrandbits(64):016x}"
            self.told.mentions[token] = (name,)
            try:
                async with asyncio.timeout(span_s):
                    posted = await at.post_stubbornly(f"@{name} {token} meanwhile", "cleo")
                    self.told.acknowledged[token] = posted
                    # What waits is answered together, and the answer is in reply to one of it.
                    await at.until_said(token, speaker=name, within_s=span_s)
            except (AssertionError, OSError, TimeoutError, aiohttp.ClientError):
                lost = f" without {without.name}" if without else ""
                self.told.odd.append(
                    f"{at.name} and {name} at {to.name} did not get on{lost} for {span_s:g} s"
                )
        await asyncio.sleep(max(0.0, began + span_s - time.monotonic()))

    async def events(self) -> list[Json]:
        rows = await self.servers.first.ask(
            "SELECT type, outputs FROM relay.events ORDER BY pos", database=self.database
        )
        return [{"type": row["type"], "outputs": json.loads(row["outputs"] or "{}")} for row in rows]

    async def settle(self) -> list[str]:
        """Wait until nothing is under way; what still is, in words, where it never ends."""
        await all_well(self.members)
        last: list[object] = []
        moved = time.monotonic()

        async def still() -> bool:
            nonlocal moved
            try:
                jobs, entries = await self.open_member().jobs(), await self.open_member().entries()
            except (AssertionError, OSError, TimeoutError, ValueError):
                return False
            files = {member.name: member.lines() for member in self.members}
            now: list[object] = [len(jobs), len(entries), *(len(lines) for lines in files.values())]
            same, last[:] = last == now, now
            # A loaded machine is slow, not stuck: what counts is how long nothing has moved.
            moved = moved if same else time.monotonic()
            if any(job["state"] not in ENDED for job in jobs) or not same:
                return False
            return not checks.answers(self.told.mentions, entries) and not checks.transcripts(files, entries)

        while not await still():
            if time.monotonic() - moved < self.patience_s:
                await asyncio.sleep(1.0)
                continue
            jobs = await self.open_member().jobs()
            open_ = [f"{j['agent']} {j['state']} {j['reason']}" for j in jobs if j["state"] not in ENDED]
            return [f"the room does not come to rest; open jobs: {open_}"]
        return []

    async def problems(self) -> list[str]:
        """What does not hold of all that was ever said and done; the room is at rest."""
        member = self.open_member()
        entries, jobs, events = await member.entries(), await member.jobs(), await self.events()
        notes = [
            note
            for note in checks.read_notes(self.notes.read_text() if self.notes.exists() else "")
            if note["place"] in {one.name for one in self.members}
        ]
        spans = checks.spans(notes)
        found = [
            *checks.lost(self.told.acknowledged, entries),
            *checks.said_once([*self.told.mentions, *self.told.appended], entries),
            *checks.there(self.told.appended, entries),
            *checks.answers(self.told.mentions, entries),
            *checks.overlaps(spans, "turn", "lock", "claim"),
            *checks.tokens(spans),
            *checks.completed_once(notes, self.servers.forgot),
            *checks.holders(events),
            *checks.claims(events),
            *checks.transcripts({one.name: one.lines() for one in self.members}, entries),
            *self.told.odd,
        ]
        self.told.odd.clear()
        found += [
            f"job {j['id']} of {j['agent']} is {j['state']}: {j['reason']}"
            for j in jobs
            if j["state"] != "done"
        ]
        for one in self.members:
            found += await one.verify()
        return found

    async def said(self) -> list[str]:
        """What RELAY said since the last fault began."""
        entries = await self.open_member().entries()
        return [one["body"] for one in entries[self.looked :] if one["speaker"] == "RELAY"]

    async def has_said(self, pattern: str) -> bool:
        """Has RELAY said so since the last fault began? By the database: any member may be out of reach."""
        asked = "SELECT 1 FROM relay.messages WHERE speaker = 'RELAY' AND number > $1 AND body ~ $2"
        return bool(await self.servers.first.ask(asked, self.looked, pattern, database=self.database))

    async def worked(self) -> None:
        """Wait until agents have done something of each kind: a check that sees nothing would show nothing."""

        async def noted() -> bool:
            text = self.notes.read_text() if self.notes.exists() else ""
            return all(f'"what": "{what}"' in text for what in ("turn", "lock", "claim"))

        with suppress(AssertionError):
            await eventually(noted, "agents to take locks and tasks", every_s=0.5)

    async def look(self) -> None:
        self.looked = len(await self.open_member().entries())

    async def keep(self, place: Path) -> None:
        """Copy what tells of this fleet to a folder that stays."""
        for member in self.members:
            member.keep(place / member.name)
        told: Json = {"mentions": self.told.mentions, "acknowledged": self.told.acknowledged}
        with suppress(Exception):
            told |= {"entries": await self.open_member().entries(), "jobs": await self.open_member().jobs()}
        with suppress(Exception):
            told |= {"events": await self.events()}
        (place / "told.json").write_text(json.dumps(told, indent=1))
        for server in (self.servers.first, self.servers.second):
            shutil.copy(server.folder / "server.log", place / f"{server.machine.name}.log")
        if self.notes.exists():
            shutil.copy(self.notes, place / "notes.jsonl")

    async def end(self) -> None:
        for member in self.members:
            with suppress(Exception):
                await member.end()


@asynccontextmanager
async def fleets(
    seed: int, *, apart: bool, lease_s: float, only: str | None = None
) -> AsyncIterator[list[Fleet]]:
    """One fleet of three members; or, `apart`, three of one, each with a database of its own, or that of the member
    `only`. In a cage."""
    dice = random.Random(seed)
    places = machines({"db1": 11, "db2": 12, **{name: 21 + at for at, name in enumerate(AGENTS)}})
    made: list[Fleet] = []
    servers: Servers | None = None
    try:
        programs = postgres.binaries()
        if programs is None:
            raise RuntimeError("there is no PostgreSQL: install postgresql")
        servers = Servers(cage.FLOOR / "pg", places["db1"], places["db2"], programs)
        alone = [only] if only else [*AGENTS]
        databases = [f"room_{name}" for name in alone] if apart else ["room"]
        await servers.make(*databases)
        notes = cage.FLOOR / "notes.jsonl"
        for at, database in enumerate(databases):
            mine = alone[at : at + 1] if apart else [*AGENTS]
            members = [
                _member(places[name], servers.dsn_of(database), notes, None if apart else lease_s)
                for name in mine
            ]
            made.append(Fleet(members, servers, notes, database, lease_s, random.Random(dice.random())))
            await made[-1].open()
        yield made
    finally:
        for fleet in made:
            await fleet.end()
        if servers is not None:
            await servers.end()
        network.end(places)


def _member(machine: Machine, dsn: str, notes: Path, lease_s: float | None) -> Member:
    more: Json = {} if lease_s is None else {"fleet": {"name": machine.name, "lease_s": lease_s}}
    shared = () if lease_s is None else SHARED
    return Member(machine, dsn, AGENTS[machine.name], shared, more, notes)


def short(found: Sequence[str], most: int = 40) -> list[str]:
    """The first of them, and how many more there are."""
    return [*found[:most], *([f"... and {len(found) - most} more"] if len(found) > most else [])]

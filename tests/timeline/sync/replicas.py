"""Rooms that exchange their events, and histories to exchange."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.log.imported import make_replica_id
from relay.model.touches import Kind, Source, Touch
from relay.store.ports import Store, Tx
from relay.timeline import file_changes
from relay.timeline.sync.batch import Incoming
from relay.timeline.sync.importing import ImportResult, import_events, union
from relay.timeline.sync.outgoing import read_page
from relay.timeline.sync.packs import PackedEvent
from relay.timeline.sync.privacy import Sharing
from tests import engines

SCHEMAS = engines.wings("log", "timeline")
PATHS = tuple(f"src/{letter}.py" for letter in "abcde")


class Replica:
    """One room: its store, its agents and its id."""

    def __init__(self, store: Store, id: str, name: str) -> None:
        self.store, self.id, self.name = store, id, name
        self.agent, self.person = Lane(f"s-{name}", "CLAUDE"), Lane("room", "human:ann")
        self.cycles = self.children = 0
        self.child: Lane | None = None

    @classmethod
    async def at(cls, folder: Path, name: str, *, known: bool = True) -> Replica:
        """A room with a new database; `known`: it has an id already."""
        (folder / name).mkdir(parents=True, exist_ok=True)
        store = await engines.open_store(folder / name, SCHEMAS)
        return cls(store, await store.write(make_replica_id) if known else "", name)

    async def append(self, new: NewEvent) -> Event:
        return await self.store.write(lambda tx: events.append(tx, new))

    async def change(self, lane: Lane, path: str, after: str, parents: Sequence[str] = ()) -> Event:
        """The lane's author writes a file without looking."""

        async def work(tx: Tx) -> Event | None:
            touch = Touch(path, None, after, Kind.WRITE)
            return await file_changes.record_changes(
                tx,
                lane,
                [touch],
                source=Source.TREE,
                before="t0",
                after="t1",
                worktree=lane.name,
                parents=parents,
            )

        event = await self.store.write(work)
        assert event is not None
        return event

    async def act(self, rng: random.Random) -> None:
        """Something happens in the room."""
        ids = [event.id for event in await self.union()]
        shown = rng.sample(ids, min(len(ids), rng.randrange(3)))
        what = rng.randrange(6)
        if what == 0:
            self.cycles += 1
            lane = Lane("room", f"cycle:{self.cycles}", short=True)
            cycle = await self.append(
                NewEvent("turn.started", lane, parents=shown, source_key=f"job:{self.cycles}")
            )
            await self.change(self.agent, rng.choice(PATHS), rng.randbytes(4).hex(), [cycle.id])
        elif what == 1 and self.child is None:
            self.children += 1
            child = self.child = Lane(self.agent.session, f"CLAUDE.{self.children}")
            await self.store.write(lambda tx: events.spawn(tx, self.agent, child, inputs="go"))
            await self.change(child, rng.choice(PATHS), rng.randbytes(4).hex())
        elif what == 2 and self.child is not None:
            child, self.child = self.child, None
            await self.store.write(lambda tx: events.debrief(tx, self.agent, child, outputs="done"))
        else:
            lane = rng.choice([self.agent, self.person])
            await self.change(lane, rng.choice(PATHS), rng.randbytes(4).hex(), shown)

    async def lines(self, sharing: Sharing | None = None) -> list[str]:
        """The lines of all that it recorded, and gives."""

        async def work(tx: Tx) -> list[str]:
            page = await read_page(tx, 0, sharing, {})
            return [line for event in page.events.values() for line in event.lines]

        return await self.store.read(work)

    async def take(self, packs: Iterable[tuple[str, Sequence[str]]]) -> ImportResult:
        """Import lines: (replica, its lines)."""
        incoming = Incoming()
        for origin, lines in packs:
            incoming.read(origin, lines)
        return await import_events(self.store, incoming, self.id)

    async def union(self) -> list[PackedEvent]:
        return await self.store.read(union)

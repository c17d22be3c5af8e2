"""A repository with agents' worktrees whose timeline is recorded, and turns that begin and end by hand."""

from __future__ import annotations

import uuid
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from relay.app.wiring.timeline import TimelineRecording
from relay.config.settings import LiveSettings
from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.log.verify import verify
from relay.model import Changes, Location
from relay.room.dispatch.roster import Policy
from relay.room.dispatch.turns import Plan
from relay.store.ports import Queries, Row, Store, Tx
from relay.timeline.projection import rebuild
from tests import engines
from tests.engines import all_events
from tests.git.repository import Room, git, repository, room

SCHEMAS = engines.wings("log", "timeline")
#: What only tests ask of the tables.
Q = Queries(Path(__file__).parents[2] / "timeline")


class RecordedRoom:
    """`timeline`: what is tested. `at`: an agent's worktree."""

    def __init__(self, store: Store, room: Room) -> None:
        self.store, self.room = store, room
        self.timeline = TimelineRecording(store, room.registry, LiveSettings(room.settings))
        self.at = room.at

    @classmethod
    async def open(cls, folder: Path, *agents: str) -> RecordedRoom:
        store = await engines.open_store(folder, SCHEMAS)
        repo = repository(folder / "repo", {"a.py": "one\ntwo\n", "b.py": "b\n", ".gitignore": "*.log\n"})
        return cls(store, await room(repo, *agents))

    @property
    def repo(self) -> Path:
        return self.room.folder

    async def begin(self, agent: str, *, take_main: bool = False) -> Plan:
        """A turn of this agent begins."""
        plan = Plan(Policy(agent), "h", (), (), "", 0, f"s-{agent}", None, "", 0.0)
        started = await self.store.write(lambda tx: events.append(tx, NewEvent("turn.started", plan.lane)))
        plan = replace(plan, event_id=started.id)
        place = await self.room.turns.before_turn(agent, take_main=take_main)
        assert place is not None
        await self.tell()
        await self.timeline.turn_began(plan, place)
        return plan

    async def tell(self) -> None:
        """Record what was done to worktrees since, as the room does."""
        changes, self.room.happened = self.room.happened, []
        for change in changes:
            lane = Lane("room", f"worktree:{uuid.uuid4().hex}", short=True)
            new = NewEvent("worktree.changed", lane, outputs=change.as_json(), snapshot=change.commit)
            await self.store.write(lambda tx, new=new: events.append(tx, new))

    def named(self, plan: Plan, *paths: str, writes: bool | None = True) -> None:
        """A tool of the turn named these."""
        self.timeline.tools.named(plan.agent, [Location(path, writes=writes) for path in paths])

    async def look(self, plan: Plan) -> None:
        """What the loop of `ToolTouches.run` does after its pause."""
        tools = self.timeline.tools
        await tools._look(tools._turns[plan.agent])

    async def end(self, plan: Plan) -> Changes | None:
        """The turn ends, and its end is recorded."""
        changes = await self.timeline.turn_ends(plan, await self.room.turns.after_turn(plan.agent))
        if changes is not None:
            ended = changes

            async def work(tx: Tx) -> None:
                await self.timeline.record(tx, plan, ended)

            await self.store.write(work)
        return changes

    async def changed(self) -> list[Event]:
        """The events `files.changed`; the log is whole, and the tables are as a rebuild makes them."""
        assert await verify(self.store) == []
        kept = await self.rows()
        await rebuild(self.store)
        assert await self.rows() == kept
        return await all_events(self.store, "files.changed")

    async def rows(self) -> list[Row]:
        return [dict(row) for row in await self.store.read(lambda tx: tx.all(Q.all_touches))]

    async def close(self) -> None:
        await self.store.close()


def touched(event: Event) -> list[tuple[str, str]]:
    return [(touch["path"], touch["kind"]) for touch in event.outputs["touches"]]


def text(repo: Path, blob: str | None) -> str | None:
    """What a blob of the repository holds."""
    return None if blob is None else git(repo, "cat-file", "blob", blob)


def is_chain(found: list[Event]) -> bool:
    """Does each event of a worktree begin where the one before it ended, for every path that it touches?"""
    trees = all(later.inputs["tree"] == before.snapshot for before, later in pairwise(found))
    last: dict[str, str | None] = {}
    for event in found:
        for touch in event.outputs["touches"]:
            if last.get(touch["path"], touch["before"]) != touch["before"]:
                return False
            last[touch["path"]] = touch["after"]
    return trees

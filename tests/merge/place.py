"""A repository with the worktrees of agents who collide, over a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.merging.proposal import MergeOptions
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.merge.resolving import ConflictService
from relay.app.wiring.merge_tools import MergeTools
from relay.app.wiring.schema import SCHEMAS
from relay.app.wiring.worktree_room import StoredWorktreeRoom
from relay.config.merge import MergeSettings
from relay.coordination.writes.fencing import LockCheck
from relay.merge.resolution.service import MergeConflicts
from relay.model import Caller, Refusal
from relay.model.actions import Resolve
from relay.room.advisory_voice import RoomVoice
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.store.ports import Store
from tests.engines import all_events, open_store
from tests.git.repository import Room, git, repository, write

BASE = """import json


def load(path):
    return json.load(open(path))


def save(path, value):
    json.dump(value, open(path, "w"))
"""
AVA = BASE.replace("return json.load(open(path))", "return json.loads(open(path).read())")
BEN = BASE.replace("return json.load(open(path))", "return json.load(open(path, encoding='utf-8'))")
NAMES = ("AVA", "BEN")
BOTH_SIDES = "    return json.loads(open(path, encoding='utf-8').read())\n"
ANN = Caller("ann", "page", "person", person=True)
BEN_IS = Caller("BEN", "s1", "claude")


class Place:
    """A repository with two agents' worktrees, over a real store."""

    def __init__(self, store: Store, folder: Path, tools: MergeTools, names: tuple[str, ...] = NAMES) -> None:
        self.store, self.folder = store, folder
        settings = Room(folder, *names).settings
        roster = Roster({name: Member(name, "played", Policy(name)) for name in names})
        voice = RoomVoice(roster)
        room = StoredWorktreeRoom(store, LockCheck(), tools, folder / ".relay" / "checks", voice)
        self.registry = WorktreeRegistry(settings, room)
        self.actions = WorktreeActions(self.registry, BranchUpdates(self.registry))
        self.open = MergeConflicts(store)
        updates = self.actions._branch_updates
        self.conflicts = ConflictService(store, self.actions, voice, updates=updates)

    def at(self, agent: str) -> Path:
        return self.registry.worktrees[agent].checkout.top

    async def look(self) -> None:
        for worktree in self.registry.worktrees.values():
            worktree.mark_stale(None)
        await self.registry.refresh()

    async def collide(self, ava: str = AVA, ben: str = BEN) -> Refusal:
        """AVA's work lands, and BEN's is refused."""
        for agent, text in (("AVA", ava), ("BEN", ben)):
            write(self.at(agent), {"store.py": text})
        await self.look()
        await self.actions.merge("AVA", "ann")
        await self.look()
        return await self.refused()

    async def refused(self) -> Refusal:
        with pytest.raises(Refusal) as refused:
            await self.actions.merge("BEN", "ann")
        return refused.value

    async def say(
        self, number: int | None = None, choice: int | None = None, agent: str | None = None
    ) -> str:
        return await self.conflicts.carry_out(Resolve(number, choice, agent), by="ann", source_key="k")

    async def land(self) -> str:
        """BEN's work lands when it was seen; the file then."""
        shown = await self.actions.propose("BEN", "ann", MergeOptions())
        await self.actions.merge("BEN", "ann", MergeOptions(joined=shown["tree"]))
        return git(self.folder, "show", "main:store.py") + "\n"

    async def messages(self) -> list[str]:
        return [event.outputs["message"]["body"] for event in await all_events(self.store, "message.posted")]


Open = Callable[..., Awaitable[Place]]


@pytest.fixture
async def open_place(tmp_path: Path) -> AsyncIterator[Open]:
    made: list[tuple[MergeTools, Store]] = []

    async def open_(names: tuple[str, ...] = NAMES, base: str = BASE, **merge: Any) -> Place:
        settings = MergeSettings(**merge)
        tools = MergeTools(lambda: settings)
        store = await open_store(tmp_path / "room", SCHEMAS)
        made.append((tools, store))
        place = Place(store, repository(tmp_path / "repo", {"store.py": base}), tools, names)
        await place.registry.open()
        await place.look()
        return place

    yield open_
    for tools, store in made:
        await tools.close()
        await store.close()

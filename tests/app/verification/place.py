"""A repository with agents' worktrees over a real store, and what verifies and lands their work."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.verification.landing import LandingQueue
from relay.app.verification.verifier import Verifier
from relay.app.wiring.merge_tools import MergeTools
from relay.app.wiring.schema import SCHEMAS
from relay.app.wiring.worktree_room import StoredWorktreeRoom
from relay.config.settings import LiveSettings
from relay.coordination.writes.fencing import LockCheck
from relay.room.advisory_voice import RoomVoice
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.store.ports import Store
from relay.verification import journal
from relay.verification.executors.inline import InlineExecutor
from relay.verification.executors.ntm import TmuxExecutor
from relay.verification.landing import journal as landings
from relay.verification.landing.entry import Entry
from relay.verification.policies import Executor
from relay.verification.policy_list import Policies
from relay.verification.verification import Change, Result, Source, Verification
from tests.engines import Clock, all_events, open_store
from tests.git.repository import Room, git, repository, write

FILES = {"app.py": "def total():\n    return 1\n", "README.md": "A project.\n"}
AGENTS = ("AVA", "BEN", "CLEO")


def python(code: str) -> list[str]:
    """A program of a policy."""
    return [sys.executable, "-c", code]


def policy(name: str, run: list[str], tier: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "tier": tier, "executor": "inline", "patterns": ["*"], "run": run, **more}


class Place:
    """`settings` may be changed while it lives."""

    def __init__(self, store: Store, folder: Path, agents: tuple[str, ...], **settings: Any) -> None:
        self.store, self.folder = store, folder
        made = replace(Room(folder, *agents).settings, **settings)
        self.settings = LiveSettings(made)
        roster = Roster({name: Member(name, "played", Policy(name)) for name in agents})
        self.tools = MergeTools(lambda: self.settings.current.merge)
        room = StoredWorktreeRoom(
            store, LockCheck(), self.tools, made.runtime_dir / "checks", RoomVoice(roster)
        )
        self.registry = WorktreeRegistry(made, room)
        updates = BranchUpdates(self.registry)
        self.actions = WorktreeActions(self.registry, updates)
        self.policies = Policies(store, self.settings)
        self.inline = InlineExecutor(made.runtime_dir / "verification", [made.runtime_dir])
        self.ntm = TmuxExecutor(made.runtime_dir / "verification-ntm", [made.runtime_dir])
        self.verifier = Verifier(
            store,
            self.settings,
            self.registry,
            self.policies,
            {Executor.INLINE: self.inline, Executor.NTM: self.ntm},
        )
        self.queue = LandingQueue(
            store,
            self.settings,
            self.registry,
            self.actions,
            updates,
            self.verifier,
            self.policies,
            RoomVoice(roster),
        )

    def have(self, *policies: Mapping[str, Any]) -> None:
        """The policies of the folder from now on; JSON is YAML."""
        write(self.settings.current.policies_dir, {"all.yaml": json.dumps(list(policies))})

    def at(self, agent: str) -> Path:
        return self.registry.worktrees[agent].checkout.top

    async def work(self, agent: str, files: dict[str, str | bytes]) -> None:
        write(self.at(agent), files)
        await self.look()

    async def look(self) -> None:
        for worktree in self.registry.worktrees.values():
            worktree.mark_stale(None)
        await self.registry.refresh()

    def main(self, path: str) -> str:
        return git(self.folder, "show", f"main:{path}")

    # -- verifying

    async def ask(self, agent: str = "AVA", **more: Any) -> Verification:
        change = Change(journal.new_id(), Source.PERSON, agent, "ann", **more)
        return await self.store.write(lambda tx: journal.ask(tx, change))

    async def verify(self, agent: str = "AVA", **more: Any) -> Verification:
        made = await self.ask(agent, **more)
        return await self.verifier.finished(made.number)

    async def results(self, verification: Verification) -> list[Result]:
        return await self.store.read(lambda tx: journal.results_of(tx, verification.number))

    # -- landing

    async def land(self, *agents: str, by: str = "ann") -> list[Entry]:
        """Ask for these, and go on until they are over or wait; the entries then."""
        made = []
        for agent in agents:
            made.append((await self.store.write(lambda tx, a=agent: landings.ask(tx, a, by=by)))[0])
        await asyncio.wait_for(self.queue.drain(agents), 120)
        return [await self.entry(entry.number) for entry in made]

    async def entry(self, number: int) -> Entry:
        return await self.store.read(lambda tx: landings.load(tx, number))

    async def messages(self) -> list[str]:
        return [event.outputs["message"]["body"] for event in await all_events(self.store, "message.posted")]

    async def close(self) -> None:
        await self.verifier.close()
        await self.tools.close()


Open = Callable[..., Awaitable[Place]]


@pytest.fixture
async def open_place(tmp_path: Path) -> AsyncIterator[Open]:
    made: list[Place] = []

    async def open_(
        *agents: str,
        files: dict[str, str | bytes] | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> Place:
        store = await open_store(tmp_path / "room", SCHEMAS, **({"clock": clock} if clock else {}))
        folder = repository(tmp_path / "repo", {**FILES, **(files or {})})
        place = Place(store, folder, agents or AGENTS, **settings)
        made.append(place)
        await place.registry.open()
        await place.look()
        return place

    yield open_
    for place in made:
        await place.close()
        await place.store.close()

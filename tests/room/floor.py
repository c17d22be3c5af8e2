"""Turns as they run, with agents in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from relay.log.events import Lane
from relay.model import (
    TAKE_MAIN,
    Kind,
    Part,
    Turn,
)
from relay.room.advisory_voice import RoomVoice
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.room.dispatch.running import RunningTurns, TurnHooks
from relay.room.dispatch.worker import WorkerPool
from relay.room.journal.admission_rules import Rules
from relay.room.journal.live_bus import Live
from relay.room.journal.values import Job
from relay.store.ports import Store, Tx
from tests.room.parts import Played, all_jobs, all_messages, post, until

Play = Callable[[Turn], AsyncIterator[Part]]


class Floor:
    """The workers of agents that are played, at work."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.live = Live()
        self.roster, self.turns, self.hooks = Roster(), RunningTurns(), TurnHooks()
        self.use(self.hooks)
        self.agents: dict[str, Played] = {}
        self.policy = Policy("", backoff_s=0.01, backoff_max_s=0.02, names=("ALPHA", "BETA"))
        self.loop: asyncio.Task[None] | None = None

    def use(self, hooks: TurnHooks) -> None:
        """Run the turns with these hooks. Before the first agent is added."""
        self.workers = WorkerPool(self.store, self.live, self.roster, self.turns, hooks, holder="me")

    def add(self, name: str, play: Play | None = None, **more: Any) -> Played:
        agent = Played(name, play)
        self.agents[name] = agent
        self.set_members(
            *(
                Member(one, "played", replace(self.policy, agent=one), agent=played, **more)
                for one, played in self.agents.items()
            )
        )
        return agent

    def set_members(self, *members: Member) -> None:
        self.roster.update({member.name: member for member in members}, Rules())
        self.workers.update()
        if self.loop is None:
            self.loop = asyncio.create_task(self.workers.run())

    async def ask(self, body: str) -> str:
        return (await post(self.store, body, 1.0)).id

    async def advise(self, agent: str) -> None:
        """The room asks an agent to take main in."""
        lane = Lane("room", "airspace")

        async def work(tx: Tx) -> None:
            await RoomVoice(Roster()).say(
                tx,
                f"{agent}: merge main into your branch",
                now=1.0,
                lane=lane,
                to=[agent],
                ask=[agent],
                meta={TAKE_MAIN: [agent]},
            )

        await self.store.write(work)

    async def states(self) -> list[str]:
        return [str(job.state) for job in await all_jobs(self.store)]

    async def reach(self, *states: str) -> list[Job]:
        async def there() -> bool:
            return await self.states() == list(states)

        await until(there)
        return await all_jobs(self.store)

    async def answers(self) -> list[str]:
        return [m.body for m in await all_messages(self.store) if m.kind is Kind.AGENT]

    async def close(self) -> None:
        await self.workers.stop(0.0)
        if self.loop is not None:
            self.loop.cancel()
            await asyncio.gather(self.loop, return_exceptions=True)

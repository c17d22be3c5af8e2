"""Tell connected clients how agents stand, whenever something happens to one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

from relay.log import events
from relay.log.follow import tail
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.running import RunningTurns
from relay.room.dispatch.view_queries import agents_json
from relay.room.journal import ledger
from relay.room.journal.frames import LOCK_EVENTS, SHOWN, TASK_EVENTS
from relay.room.journal.live_bus import Live
from relay.store.ports import Store

#: Seconds in which several changes of an agent are published as one.
GATHER_S = 0.05


class AgentStates:
    """Publishes the agents' states. Bursts become one."""

    def __init__(self, store: Store, live: Live, roster: Roster, turns: RunningTurns) -> None:
        self._store, self._live, self._roster, self._turns = store, live, roster, turns
        self._changed = asyncio.Event()
        self._names: set[str] = set()

    def changed(self, agent: str) -> None:
        """Something happened to this agent: tell it soon."""
        self._names.add(agent)
        self._changed.set()

    async def publish(self, only: Collection[str] | None = None) -> None:
        """Tell the states of these agents now; None: of all."""
        names = None if only is None else sorted(only)
        running, now = self._turns.by_agent, time.time()
        states = await self._store.read(lambda tx: agents_json(tx, self._roster.members, running, now, names))
        for state in states:
            self._live.publish("agent", state)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="agent-changes")
            while True:
                await self._changed.wait()
                self._changed.clear()
                names, self._names = self._names, set()
                await self.publish(names)
                await asyncio.sleep(GATHER_S)

    async def _follow(self) -> None:
        """Follow the log for what happens to agents."""
        start = await self._store.read(events.last_pos)
        # What is done to locks and tasks says nothing of an agent's turns, and is the most there is.
        types = {*SHOWN, ledger.AGENT_STATE} - {*LOCK_EVENTS, *TASK_EVENTS}
        async for batch in tail(self._store, start, types=sorted(types)):
            for event in batch:
                outputs = event.outputs or {}
                for job in outputs.get("jobs", ()):
                    self.changed(job["agent"])
                if "agent" in outputs:
                    self.changed(outputs["agent"])

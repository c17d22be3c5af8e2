"""The knowledge of a running room: the follower that makes it of the log, and the roles by which some of it is read.

Invariant: what stood in the log before is taken in in small transactions with pauses, in the order of the log, so a
room with a long past answers all the while; what happens meanwhile comes behind it.
"""

from __future__ import annotations

import asyncio

from relay.config.settings import LiveSettings
from relay.log import follow
from relay.memory.knowledge.ingest import KnowledgeFollower, take_in
from relay.memory.knowledge.visibility import put_roles
from relay.store.ports import Store

#: Events of one transaction of the past, and the pause behind each, in seconds.
BATCH, PAUSE_S = 100, 0.02


class RoomKnowledge:
    """Runs the follower. `settings` know the agents' roles."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        self._store, self._settings = store, settings
        self.follower = KnowledgeFollower()

    async def run(self) -> None:
        """Follow the log for ever, from its beginning at the first start."""
        await self.apply()
        read = BATCH
        while read:
            read, _ = await take_in(self._store, batch=BATCH)
            await asyncio.sleep(PAUSE_S)
        await follow.run(self._store, self.follower)

    async def apply(self) -> None:
        """Take over the agents' roles of the configuration in use."""
        agents = self._settings.current.agents
        roles = {agent.name: agent.role for agent in agents if agent.role is not None}
        await self._store.write(lambda tx: put_roles(tx, roles))

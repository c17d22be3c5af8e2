"""An agent that several members have works at one of them at a time, also when one is slow to say that it lives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

from relay.app.fleet.shared_agents import keep_to_one
from relay.model import EndPart, Part, TextPart, Turn
from relay.store.ports import Store
from tests.engines import BOTH
from tests.room.floor import Floor
from tests.room.parts import all_jobs, until

pytestmark = BOTH


async def test_a_member_ends_its_shared_turn_before_it_can_count_as_gone(store: Store) -> None:
    floor, gate, unheard_s = Floor(store), asyncio.Event(), 0.0

    async def play(turn: Turn) -> AsyncIterator[Part]:
        await gate.wait()
        yield TextPart("done")
        yield EndPart()

    own = floor.add("BETA", play)
    floor.policy = replace(floor.policy, shared=True)
    shared = floor.add("ALPHA", play)
    floor.set_members(
        *(
            replace(member, policy=replace(member.policy, shared=name == "ALPHA"))
            for name, member in floor.roster.members.items()
        )
    )
    watching = asyncio.create_task(keep_to_one(lambda: unheard_s, lambda: 6.0, floor.turns))

    async def states() -> dict[str, str]:
        return {job.agent: str(job.state) for job in await all_jobs(store)}

    async def reach(alpha: str) -> None:
        async def there() -> bool:
            return await states() == {"ALPHA": alpha, "BETA": "active"}

        await until(there)

    try:
        await floor.ask("@ALPHA @BETA go")
        await reach("active")
        unheard_s = 4.0
        await reach("pending")
        # Its program has ended, and it does not begin again; who lives here alone goes on.
        assert (shared.ended, own.ended) == (1, 0)
        floor.workers.poke()
        await asyncio.sleep(0)
        assert floor.turns.by_agent.keys() == {"BETA"}
        unheard_s = 0.5
        await until(lambda: _is(not floor.turns.unsure))
        floor.workers.poke()
        await reach("active")
        assert "another machine might have begun it" in shared.turns[-1].prompt
        gate.set()
        await floor.reach("done", "done")
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await floor.close()


async def _is(value: bool) -> bool:
    return value

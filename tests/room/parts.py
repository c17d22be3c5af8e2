"""What the tests of the room build with: the real store with every wing, a clock that is set, agents in process.

Invariant: the only thing that is played here is an agent (it follows `relay.model.Agent`); store, files, queue
and log are the real ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from relay.model import Availability, EndPart, Kind, Message, Part, TextPart, Turn
from relay.room.dispatch.queue import claim_next_dispatch
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.room.dispatch.turn_end import finish
from relay.room.dispatch.turns import Idle, Outcome, Plan
from relay.room.journal.admission_rules import Rules
from relay.room.journal.admitting import admit
from relay.room.journal.ledger import NewMessage, Q
from relay.room.journal.values import Job, message_of_row
from relay.room.transcript.tail import Transcript
from relay.store.ports import Store
from tests import engines

SCHEMAS = engines.wings("log", "coordination", "room")
#: On a loaded machine everything may be late; a test that waits this long has failed.
PATIENT_S = 60.0


async def open_room(folder: Path, **more: Any) -> Store:
    """The room's store in this folder, on the engine that is being tested."""
    return await engines.open_store(folder, SCHEMAS, **more)


async def until(condition: Callable[[], Awaitable[Any]], timeout_s: float = PATIENT_S) -> Any:
    """What `condition` gives, once it is true."""
    async with asyncio.timeout(timeout_s):
        while not (found := await condition()):  # noqa: ASYNC110 - the room is asked, not an event
            await asyncio.sleep(0.01)
    return found


async def all_messages(store: Store) -> list[Message]:
    rows = await store.read(lambda tx: tx.all(Q.messages_after, after=0, limit=100_000))
    return [message_of_row(row) for row in rows]


async def notices(store: Store, what: str | None = None) -> list[Message]:
    said = [message for message in await all_messages(store) if "notice" in message.meta]
    return [message for message in said if what in (None, message.meta["notice"])]


async def all_jobs(store: Store) -> list[Job]:
    rows = await store.read(lambda tx: tx.all(Q.jobs, limit=100_000))
    return [Job.of_row(row) for row in reversed(rows)]


async def job_states(store: Store) -> list[tuple[str, bool]]:
    """State of each job, and whether its turn was interrupted; the newest first."""
    rows = await store.read(lambda tx: tx.all(Q.jobs, limit=100_000))
    return [(row["state"], bool(row["interrupted"])) for row in rows]


def roster_of(rules: Rules, max_entry_bytes: int = 4 << 20) -> Roster:
    """A roster of agents that only have names, those of `rules`."""
    members = {name: Member(name, "played", Policy(name)) for name in rules.agents}
    return Roster(members, replace(rules, max_entry_bytes=max_entry_bytes))


async def waiting_cycles(store: Store) -> list[str]:
    return [row["message_id"] for row in await store.read(lambda tx: tx.all(Q.routing))]


async def post(
    store: Store, body: str, at: float, *, agents: Iterable[str] = ("ALPHA", "BETA"), by: str = "ann"
) -> Message:
    """A person's message, as the interfaces put it into the room."""
    rules = Rules(agents=tuple(agents))
    new = NewMessage(by, Kind.HUMAN, body, at)
    return await store.write(lambda tx: admit(tx, new, rules))


async def claim(store: Store, policy: Policy, now: float, holder: str = "me") -> Plan | Idle:
    return await store.write(lambda tx: claim_next_dispatch(tx, policy, holder=holder, now=now))


async def plan_of(store: Store, policy: Policy, now: float, holder: str = "me") -> Plan:
    """A claim that must give a turn."""
    found = await claim(store, policy, now, holder)
    assert isinstance(found, Plan), found
    return found


async def begin(store: Store, agent: str, now: float, *, holder: str, lease_s: float) -> int:
    """An agent's turn begins; its first job's id."""
    return (await plan_of(store, Policy(agent, lease_s=lease_s), now, holder)).primary.id


def transcript(
    store: Store, file: Path, lock: Path, *, agents: Iterable[str] = ("ALPHA", "BETA"), member: str = ""
) -> Transcript:
    """The tail of a room's file, as a daemon has it."""
    rules = Rules(agents=tuple(agents))
    return Transcript(store, file, lock, roster_of(rules, 1 << 20), member=member)


async def end(store: Store, plan: Plan, outcome: Outcome, now: float, chance: float = 0.0) -> bool:
    return await store.write(lambda tx: finish(tx, plan, outcome, now=now, chance=chance))


class Played:
    """An agent in this process: `play` gives the parts of a turn. `turns` are those it was given."""

    kind = "played"

    def __init__(self, name: str, play: Callable[[Turn], AsyncIterator[Part]] | None = None) -> None:
        self.name = name
        self.turns: list[Turn] = []
        self.ended = 0
        self._play = play or _echo

    async def probe(self) -> Availability:
        return Availability(True)

    async def run(self, turn: Turn) -> AsyncIterator[Part]:
        self.turns.append(turn)
        try:
            async for part in self._play(turn):
                yield part
        finally:
            self.ended += 1


async def _echo(turn: Turn) -> AsyncIterator[Part]:
    yield TextPart(f"{turn.agent} heard: {turn.prompt}")
    yield EndPart()

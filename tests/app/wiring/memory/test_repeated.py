"""What an agent repeats of what it was given is neither a memory nor knowledge, so what is forgotten stays so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay.app.wiring.memory.room_commands import MemoryActions
from relay.app.wiring.memory.turn_memories import TurnMemories
from relay.log import follow
from relay.log.events import Lane
from relay.log.verify import verify
from relay.memory.knowledge.ingest import KnowledgeFollower, rebuild
from relay.model import EndPart, Kind, Part, TextPart, Turn
from relay.room.journal import ledger
from relay.store.ports import Store
from tests import engines
from tests.app.wiring.memory.test_room_memory import SCHEMAS, Hooks, Remembering, live, until_done
from tests.engines import BOTH, Clock, all_events
from tests.memory.knowledge.room import ask, rows
from tests.room.floor import Floor
from tests.room.office import Office

pytestmark = BOTH
DECIDED = "use puffin ports because salt water rusts the others"
ASKED = "@{} which ports do we use where salt water rusts, the puffin ones?"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    store = await engines.open_store(tmp_path, SCHEMAS, clock=clock)
    yield store
    assert await verify(store) == []
    await store.close()


@pytest.fixture
async def room(store: Store, tmp_path: Path) -> Remembering:
    room = Remembering(store, live(tmp_path))
    await room.begin()
    return room


@pytest.fixture
async def floor(store: Store, tmp_path: Path) -> AsyncIterator[Floor]:
    floor = Floor(store)
    floor.use(Hooks(TurnMemories(store, live(tmp_path))))
    yield floor
    await floor.close()


@pytest.fixture
async def office(store: Store, clock: Clock) -> AsyncIterator[Office]:
    async with Office(store, clock, memory=MemoryActions(store)).at_work() as office:
        yield office


class Parrot:
    """An agent that says `text` during its turn (`post_message`), and answers with it."""

    def __init__(self, store: Store, name: str, text: str) -> None:
        self._store, self._name, self._text = store, name, text

    async def __call__(self, turn: Turn) -> AsyncIterator[Part]:
        started = (await all_events(self._store, "turn.started"))[-1]
        said = ledger.NewMessage(
            self._name, Kind.AGENT, self._text, 2.0, lane=Lane(started.session, self._name)
        )
        await self._store.write(lambda tx: ledger.put_message(tx, said))
        yield TextPart(self._text)
        yield EndPart()


async def taken_in(room: Remembering) -> None:
    await room.follow()
    while (await follow.step(room.store, KnowledgeFollower())).applied:
        pass


async def told(room: Remembering, floor: Floor, name: str) -> str:
    """What a new agent is given."""
    agent = floor.add(name)
    before = len(await floor.answers())
    await floor.ask(ASKED.format(name))
    await until_done(room.store, before + 1)
    return agent.turns[0].memories


async def test_what_was_forgotten_is_not_told_as_the_word_of_who_was_given_it(
    office: Office, room: Remembering, floor: Floor
) -> None:
    await office.ask(f"/decide {DECIDED}")
    await taken_in(room)
    alpha = floor.add("ALPHA", Parrot(room.store, "ALPHA", f"DECISION: {DECIDED}"))
    await floor.ask(ASKED.format("ALPHA"))
    await until_done(room.store, 2)
    assert "> r1 ann" in alpha.turns[0].memories
    # Later in the conversation, without having been given it again.
    await floor.ask("@ALPHA say again which puffin ports we use")
    await until_done(room.store, 4)
    assert "puffin" not in alpha.turns[1].memories
    await taken_in(room)
    assert {memory["agent_id"] for memory in await room.remembered()} == {"ann"}
    assert [entry["source_agent"] for entry in await ask(room.store, "BETA")] == ["ann"]
    assert (await office.ask("/forget r1")).body == "r1 is forgotten: it is told to nobody any more."
    await taken_in(room)
    before = await rows(room.store)
    for _ in range(2):
        assert await ask(room.store, "BETA") == [] == await ask(room.store, "ALPHA")
        assert (await office.ask("/recall use ports because rusts others")).body.count(DECIDED) == 0
        await rebuild(room.store)
        assert await rows(room.store) == before
    assert DECIDED not in await told(room, floor, "BETA")


@pytest.mark.parametrize(
    ("said", "own"),
    [
        (f"DECISION: {DECIDED}", False),
        ("DECISION: use puffin ports", False),
        ("DECISION: We will use puffin ports (r1)", False),
        ("DECISION: do not use puffin ports", True),
        ("DECISION: use puffin ports for Redis", True),
        ("DECISION: use puffin ports because they are cheap", True),
        ("DECISION: use puffin ports, supersedes k0123456789", True),
    ],
)
async def test_what_adds_something_is_the_agents_own(
    office: Office, room: Remembering, floor: Floor, said: str, own: bool
) -> None:
    await office.ask(f"/decide {DECIDED}")
    await taken_in(room)
    # The other statement keeps its position, and is forgotten though it is not the first.
    floor.add(
        "ALPHA", Parrot(room.store, "ALPHA", f"{said}\nFACT: the heron mended the roof of the boat house")
    )
    await floor.ask(ASKED.format("ALPHA"))
    await until_done(room.store, 2)
    await taken_in(room)
    entries: list[dict[str, Any]] = await ask(room.store, "BETA", agent="ALPHA")
    assert len(entries) == (4 if own else 2)
    before = await rows(room.store)
    await rebuild(room.store)
    assert await rows(room.store) == before
    for memory in await room.remembered():
        await office.ask(f"/forget r{memory['number']}")
    await taken_in(room)
    assert await ask(room.store, "BETA", agent="ALPHA") == []

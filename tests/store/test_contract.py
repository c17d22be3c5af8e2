"""What every store promises (`relay.store.ports.Store`), whichever engine is behind it.

How a test harms a database stands, like all SQL, in the dialect's folder beside this file.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import relay
from relay.config.coordination import PostgresSettings
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.log.verify import verify
from relay.store.open import open_store
from relay.store.ports import Queries, Store, StoreError, StoreMissing, Tx, load_migrations, load_queries
from tests.store.conftest import OPENERS, Opener

HARM = Queries(Path(__file__).parent)
PATIENT_S = 60.0
ANN = Lane("room", "human:ann")


async def note(tx: Tx) -> events.Event:
    return await events.append(tx, NewEvent("note", ANN, outputs={"body": "hello"}))


async def recorded(tx: Tx) -> None:
    await events.record(tx, NewEvent("note", Lane("room", "ANN")))


@pytest.mark.parametrize("engine", sorted(OPENERS))
def test_every_engine_has_every_query_of_the_log(engine: str) -> None:
    assert set(load_queries(events.FOLDER, engine)) == set(load_queries(events.FOLDER, "sqlite"))
    assert load_migrations(events.FOLDER, engine)


# -- transactions


async def test_what_was_written_is_read(any_store: Store) -> None:
    made = [await any_store.write(note, durable=durable) for durable in (False, True)]
    for long in (False, True):
        assert await any_store.read(lambda tx: events.read_after(tx, 0), long=long) == made


async def test_events_are_found_by_what_they_hold(any_store: Store) -> None:
    async def work(tx: Tx) -> None:
        for type, id in (("note", "a%"), ("note", "ab"), ("other", "ab"), ("note", "ab")):
            await events.append(tx, NewEvent(type, ANN, outputs={"task": {"id": id}}))

    await any_store.write(work)

    async def found(text: str, **more: int) -> list[int]:
        return [
            one.pos for one in await any_store.read(lambda tx: events.about(tx, text, types=["note"], **more))
        ]

    first = (await any_store.read(lambda tx: events.read_after(tx, 0)))[0].pos
    assert await found('"id":"ab"') == [first + 3, first + 1]
    assert await found('"id":"a%"') == [first]
    assert await found('"id":"ab"', limit=1) == [first + 3]
    assert await found('"id":"ab"', window=2) == [first + 3]


async def test_a_failed_transaction_leaves_nothing(any_store: Store) -> None:
    async def work(tx: Tx) -> None:
        await note(tx)
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        await any_store.write(work)
    assert await any_store.read(events.last_pos) == 0
    assert (await any_store.write(note)).seq == 1


async def test_a_statement_gives_the_rows_it_changed(any_store: Store) -> None:
    async def work(tx: Tx) -> tuple[int, int, int]:
        made = await note(tx)
        return (
            await tx.execute(events.Q.put_setting, name="a", value="1"),
            await tx.execute(HARM.change_a_type, id=made.id),
            await tx.execute(HARM.change_a_type, id="f" * 64),
        )

    assert await any_store.write(work) == (1, 1, 0)


async def test_a_second_store_reads_what_the_first_wrote(open_any: Opener) -> None:
    one, other = await open_any((events.FOLDER,)), await open_any((events.FOLDER,))
    await one.write(note)
    assert await other.read(events.last_pos) == await one.read(events.last_pos) == 1


@pytest.mark.parametrize("long", [False, True])
async def test_reads_cannot_write(any_store: Store, long: bool) -> None:
    with pytest.raises(any_store.errors):
        await any_store.read(note, long=long)
    assert await any_store.read(events.last_pos) == 0
    assert (await any_store.write(note)).seq == 1


async def test_unknown_query_is_named(any_store: Store) -> None:
    with pytest.raises(StoreError, match="no query named 'nope'"):
        await any_store.read(lambda tx: tx.all(Queries(events.FOLDER).nope))


async def test_many_writers_of_one_process_fork_no_lane(any_store: Store) -> None:
    async with asyncio.timeout(PATIENT_S):
        made = await asyncio.gather(*(any_store.write(note) for _ in range(40)))
    assert sorted(event.seq for event in made) == list(range(1, 41))
    assert await verify(any_store) == []


async def test_two_stores_on_one_database_fork_no_lane(open_any: Opener) -> None:
    stores = [await open_any((events.FOLDER,)) for _ in range(2)]
    async with asyncio.timeout(PATIENT_S):
        made = await asyncio.gather(*(store.write(note) for store in stores * 20))
    assert sorted(event.seq for event in made) == list(range(1, 41))


async def test_a_forked_lane_is_loud(any_store: Store) -> None:
    for _ in range(2):
        await any_store.write(note)
    await any_store.write(lambda tx: tx.execute(HARM.set_lanes_back))
    with pytest.raises(any_store.errors):
        await any_store.write(note)
    assert await any_store.read(events.last_pos) == 2


# -- wake-ups


async def test_a_commit_between_two_waits_is_not_missed(any_store: Store) -> None:
    first, second = any_store.wakeup(), any_store.wakeup()
    while await first.wait(0.4):
        pass  # the look-out's first look is over
    for _ in range(3):
        await any_store.write(note)
    assert await first.wait(PATIENT_S)
    assert await second.wait(PATIENT_S)
    second.close()
    while await second.wait(0.4):
        pass
    await any_store.write(note)
    assert await first.wait(PATIENT_S)
    assert not await second.wait(0.05)


async def test_a_commit_wakes_who_waits_for_what_it_appended(open_any: Opener) -> None:
    one, other = await open_any((events.FOLDER,)), await open_any((events.FOLDER,))
    waits = {"notes": one.wakeup(["note"]), "others": one.wakeup(["other"]), "all": one.wakeup()}
    for wakeup in waits.values():
        while await wakeup.wait(1.2):
            pass  # the look-outs' first looks are over
    for writer, add in ((one, note), (one, recorded), (other, note), (other, recorded)):
        await writer.write(add)
        assert await waits["notes"].wait(PATIENT_S)
        assert await waits["all"].wait(PATIENT_S)
    assert not await waits["others"].wait(1.5)  # nor by a later look
    await other.write(lambda tx: events.append(tx, NewEvent("other", Lane("room", "ANN"))))
    assert await waits["others"].wait(PATIENT_S)
    assert await one.read(events.last_pos) == 5


async def test_what_people_wait_for_is_woken_first(any_store: Store) -> None:
    woken: list[str] = []
    waits = {"one": any_store.wakeup(), "first": any_store.wakeup(first=True), "two": any_store.wakeup()}

    async def wait(name: str) -> None:
        assert await waits[name].wait(PATIENT_S)
        woken.append(name)

    for wakeup in waits.values():
        while await wakeup.wait(0.4):
            pass
    async with asyncio.TaskGroup() as group:
        for name in waits:
            group.create_task(wait(name))
        await asyncio.sleep(0)
        await any_store.write(note)
    assert woken[0] == "first" and len(woken) == 3
    for wakeup in waits.values():
        wakeup.close()


async def test_another_stores_commit_wakes(open_any: Opener) -> None:
    one, other = await open_any((events.FOLDER,)), await open_any((events.FOLDER,))
    wakeup = one.wakeup()
    while await wakeup.wait(0.4):
        pass
    await other.write(note)
    assert await wakeup.wait(PATIENT_S)
    assert await one.read(events.last_pos) == 1


# -- the log's own safety


@pytest.mark.parametrize(
    ("harm", "what"),
    [
        ("flip_a_payload", "not what was hashed"),
        ("change_a_type", "not what was hashed"),
        ("break_a_clock", "cannot be read"),
        ("lose_an_event", "jumps from 1 to 3"),
    ],
)
async def test_verify_names_the_event(any_store: Store, harm: str, what: str) -> None:
    made = [await any_store.write(note) for _ in range(3)]
    assert await verify(any_store) == []
    changed = await any_store.write(lambda tx: tx.execute(getattr(HARM, harm), id=made[1].id))
    assert changed == 1
    faults = await verify(any_store)
    assert faults[0].id == made[2 if harm == "lose_an_event" else 1].id
    assert any(what in fault.what for fault in faults) or "cause" in faults[0].what


# -- what is asked of a store as a whole


async def test_a_store_tells_of_itself(any_store: Store) -> None:
    await any_store.write(note, durable=True)
    assert any_store.engine in OPENERS
    assert any_store.place
    assert await any_store.check() == []
    assert await any_store.checkpoint(whole=True)
    size = await any_store.size()
    assert size.data > 0
    assert size.journal == 0
    assert issubclass(any_store.transient, any_store.errors)


@dataclass(frozen=True)
class Where:
    storage: str
    db_path: Path
    postgres: PostgresSettings = field(default_factory=PostgresSettings)


async def opened(where: Where, wings: Iterable[Path] = (), *, create: bool = True) -> int:
    store = await open_store(where, wings, create=create)
    try:
        return await store.read(events.last_pos)
    finally:
        await store.close()


async def test_a_store_is_made_only_when_asked(tmp_path: Path) -> None:
    where = Where("sqlite", tmp_path / "events.db")
    with pytest.raises(StoreMissing, match=r"no database at .*events.db yet"):
        await opened(where, create=False)
    assert list(tmp_path.iterdir()) == []
    assert await opened(where, [events.FOLDER]) == 0
    assert await opened(where, create=False) == 0


async def test_an_engine_that_is_unknown_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="one of: postgres, sqlite"):
        await opened(Where("mongo", tmp_path / "events.db"))
    assert list(tmp_path.iterdir()) == []


def test_nothing_above_the_store_knows_its_engine() -> None:
    code = Path(relay.__file__).parent
    knowing = {
        str(file.relative_to(code))
        for file in code.rglob("*.py")
        for line in file.read_text("utf-8").splitlines()
        if re.match(
            r"\s*(import|from) (?!relay\.app\.guard\.sqlite_lookup).*(sqlite|asyncpg|store[. ].*postgres)",
            line,
        )
        or "PRAGMA" in line
    }
    stores = {name for name in knowing if re.match(r"store/(open|sqlite/\w+|postgres/\w+)\.py$", name)}
    # A hook of a room that does not run reads the file itself, since a hook must be quick; it says so.
    # The swarm's demo starts a server of its own, and reads the log of its rooms by it.
    demo = {"app/demo/swarm/database.py", "app/demo/swarm/with_relay.py"}
    assert knowing - stores == {"app/guard/lookup.py", "store/failures.py", *demo}
    assert {"store/open.py", "store/sqlite/store.py", "store/postgres/store.py"} < stores

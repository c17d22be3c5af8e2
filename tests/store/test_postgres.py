"""What only the PostgreSQL store promises: order, functions, lost connections, restarts, migrations."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Lane, LaneError, NewEvent
from relay.log.follow import tail
from relay.log.verify import verify
from relay.store.ports import AwaitedOutside, Queries, Row, StoreBusy, StoreError, StoreMissing, Tx
from relay.store.postgres import listen
from relay.store.postgres import store as postgres_store
from relay.store.postgres.address import read_address
from relay.store.postgres.errors import CommitUnknown, PostgresAway, PostgresFault
from relay.store.postgres.store import PostgresStore
from tests import postgres

HARM = Queries(Path(__file__).parent)
PATIENT_S = 60.0
ANN = Lane("room", "human:ann")
Open = Callable[..., Awaitable[PostgresStore]]


@pytest.fixture
def database() -> Iterator[str]:
    server = postgres.server()
    name = server.new_database([events.FOLDER])
    yield name
    server.drop_database(name)


@pytest.fixture
async def opened(database: str) -> AsyncIterator[Open]:
    async with contextlib.AsyncExitStack() as stack:

        async def one(**how: Any) -> PostgresStore:
            store = await postgres_store.open_store(
                postgres.server().address(database), [events.FOLDER], **how
            )
            stack.push_async_callback(store.close)
            return store

        yield one


@pytest.fixture
async def raw(database: str) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """Connections of somebody else, with our tables in sight."""
    async with contextlib.AsyncExitStack() as stack:

        async def one() -> Any:
            connection = await asyncpg.connect(
                postgres.server().dsn(database), server_settings={"search_path": "relay"}
            )
            stack.callback(connection.terminate)
            return connection

        yield one


async def note(tx: Tx) -> events.Event:
    return await events.append(tx, NewEvent("note", ANN, outputs={"body": "hello"}))


async def soon(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENT_S):
        while not await holds():  # noqa: ASYNC110 - it is the server that is asked
            await asyncio.sleep(0.01)


# -- order


async def test_an_event_never_becomes_visible_behind_a_later_one(opened: Open, raw: Any) -> None:
    """Two writers that know nothing of our locks: the second draws its place only when the first has ended."""
    store, first, second = await opened(), await raw(), await raw()
    insert = "SELECT (relay_append_event('note', 'room', $1)).pos"
    begun, later = first.transaction(), second.transaction()
    await begun.start()
    await later.start()
    # The older transaction, by its number, is not the one that writes first.
    await second.fetchval("SELECT pg_current_xact_id()")
    one = await first.fetchval(insert, "a")
    blocked = asyncio.create_task(second.fetchval(insert, "b"))

    async def waits() -> bool:
        return bool(await (await raw()).fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))

    await soon(waits)
    assert await store.read(events.last_pos) == 0
    assert not blocked.done()
    await begun.commit()
    assert await blocked > one
    assert await store.read(events.last_pos) == one
    await later.commit()
    assert [event.lane for event in await store.read(lambda tx: events.read_after(tx, 0))] == ["a", "b"]


async def test_a_reader_misses_nothing_of_many_writers(opened: Open) -> None:
    stores = [await opened() for _ in range(3)]
    lanes, each = 6, 20

    async def write(number: int) -> None:
        for count in range(each):
            store = random.choice(stores)
            one = Lane("room", f"w{number}")
            if random.random() < 0.8:
                single = lambda tx: tx.one(HARM.note_in_one, lane=one.name, outputs=str(count))  # noqa: B023, E731
                await store.write(single, single=True)
            else:
                general = lambda tx: events.append(tx, NewEvent("note", one, outputs=count))  # noqa: B023, E731
                await store.write(general)

    async def read() -> list[tuple[str, Any]]:
        seen: list[tuple[str, Any]] = []
        async for batch in tail(stores[0], 0, batch=7):
            seen += [(event.lane, event.outputs) for event in batch]
            if len(seen) == lanes * each:
                break
        return seen

    async with asyncio.timeout(PATIENT_S):
        reading = asyncio.create_task(read())
        await asyncio.gather(*(write(number) for number in range(lanes)))
        seen = await reading
    assert sorted(seen) == sorted((f"w{lane}", count) for lane in range(lanes) for count in range(each))
    assert all([n for at, n in seen if at == f"w{lane}"] == list(range(each)) for lane in range(lanes))
    assert await verify(stores[1]) == []


async def test_single_writes_wake_others_also_when_their_store_closes(
    opened: Open, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "LOOK_S", 10 * PATIENT_S)  # so that it is the NOTIFY that wakes
    listening, writing = await opened(), await opened()
    wakeup = listening.wakeup()
    for close in (False, True):
        while await wakeup.wait(0.3):
            pass  # what they hear at their start
        await writing.write(lambda tx: tx.one(HARM.note_in_one, lane="a", outputs="1"), single=True)
        if close:
            await writing.close()
        assert await wakeup.wait(PATIENT_S)
    idle = await opened()
    while await wakeup.wait(0.3):
        pass
    await idle.write(lambda tx: tx.one(HARM.told), single=True)
    assert not await wakeup.wait(0.3)  # it appended nothing
    still = await opened()
    await still.write(lambda tx: tx.one(HARM.told), single=True, quiet=True)
    assert not still._listener.owes
    await still.write(lambda tx: tx.one(HARM.told), single=True)
    assert still._listener.owes


def test_the_log_is_told_of_an_outage_at_growing_intervals() -> None:
    now = [0.0]
    outage = listen.Outage(lambda: now[0])
    with structlog.testing.capture_logs() as said:
        for _ in range(2):
            for second in range(0, 1001, 5):
                now[0] = second
                outage.goes_on("it is down")
            outage.ends()
            outage.ends()
    told = [("away", None), ("still away", 60), ("still away", 120), ("still away", 240), ("still away", 480)]
    told += [("still away", 960), ("back", 1000.0)]
    assert [(line["event"].removeprefix("the database is "), line.get("away_s")) for line in said] == 2 * told


# -- the function of the database that appends


class Undo(Exception):
    pass


async def both_ways(store: PostgresStore, new: NewEvent) -> tuple[Any, Any]:
    """The stored row that Python makes, undone, and then the one that the function makes; or the refusals."""
    kept: list[Row] = []

    async def by_python(tx: Tx) -> None:
        made = await events.append(tx, new)
        row = await tx.one(events.Q.event, id=made.id)
        exits = await tx.all(events.Q.exits_of, lane=f"s/{CYCLE}", seq=0)
        kept.append((dict(row or {}), [tuple(one) for one in exits]))
        raise Undo

    def listed(items: Any) -> str | None:
        return None if items is None else dumps(list(items))

    async def by_function(tx: Tx) -> Any:
        row = await tx.one(
            HARM.append_event,
            type=new.type, session=new.lane.session, lane=new.lane.name, short=new.lane.short,
            inputs=None if new.inputs is None else dumps(new.inputs),
            outputs=None if new.outputs is None else dumps(new.outputs),
            parents=listed(new.parents), causal_deps=listed(new.causal_deps), role=new.role, branch=new.branch,
            snapshot=new.snapshot, file_touches=listed(new.file_touches), source_key=new.source_key, at=new.at,
        )  # fmt: skip
        exits = await tx.all(events.Q.exits_of, lane=f"s/{CYCLE}", seq=0)
        return dict(row or {}), [tuple(one) for one in exits]

    answers: list[Any] = []
    for work in (by_python, by_function):
        try:
            made = await store.write(work)
        except Undo:
            made = kept[0]
        except (LaneError, PostgresFault) as refused:
            known = isinstance(refused, LaneError) or refused.code == "RL001"
            made = ("refused", known, [])
        else:
            made = made or kept[0]
        answers.append(made)
    return answers[0], answers[1]


CYCLE = "cycle"
texts = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\x00")
    | st.sampled_from('"\\/\b\f\n\r\t\x1f\x7fäß€😀'),
    min_size=1, max_size=12,
)  # fmt: skip
payloads = st.none() | st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
appends = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "Ö", CYCLE]), texts, payloads, payloads,
        st.lists(st.integers(0, 40), max_size=3), st.lists(st.integers(0, 40), max_size=3),
        st.none() | texts, st.none() | st.lists(texts, max_size=3),
        st.sampled_from(["", "", "again", "spawn", "fold"]),
    ),
    min_size=1, max_size=10,
)  # fmt: skip


@settings(
    max_examples=12, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(history=appends)
async def test_the_function_makes_the_very_event_that_python_makes(history: list[Any]) -> None:
    server = postgres.server()
    name = server.new_database([events.FOLDER])
    store = await postgres_store.open_store(server.address(name), [events.FOLDER])
    made: list[str] = []
    children: list[Lane] = []
    try:
        for number, step in enumerate(history):
            lane, kind, inputs, outputs, parents, deps, word, touched, turn = step
            if turn == "spawn":
                children.append(Lane("s", f"child{number}"))
                child = children[-1]
                made.append((await store.write(lambda tx: events.spawn(tx, Lane("s", "a"), child))).id)  # noqa: B023
            elif turn == "fold" and children:
                child = children.pop()
                made.append((await store.write(lambda tx: events.debrief(tx, Lane("s", "a"), child))).id)  # noqa: B023
            of = children[-1] if children and lane == "b" else Lane("s", lane, short=lane == CYCLE)
            pick = [made[one % len(made)] for one in parents] if made else ["f" * 64] * (len(parents) > 2)
            shown = [made[one % len(made)] for one in deps] if made else []
            new = NewEvent(
                kind, of, inputs=inputs, outputs=outputs, parents=pick, causal_deps=shown, role=word, branch=word,
                snapshot=word, file_touches=touched, source_key="once" if turn == "again" else None,
                at="2026-01-01T00:00:00.000Z",
            )  # fmt: skip
            by_python, by_function = await both_ways(store, new)
            by_python[0].pop("pos", None) if isinstance(by_python[0], dict) else None
            by_function[0].pop("pos", None) if isinstance(by_function[0], dict) else None
            assert by_function == by_python
            if isinstance(by_function[0], dict):
                made.append(by_function[0]["id"])
        assert await verify(store) == []
    finally:
        await store.close()
        server.drop_database(name)


async def test_the_function_tells_the_time_as_python_does(opened: Open) -> None:
    store = await opened(clock=lambda: 1_790_000_000.0625)
    made = await store.write(lambda tx: tx.one(HARM.note_in_one, lane="a", outputs="1"), single=True)
    assert made is not None
    (event,) = await store.read(lambda tx: events.read_after(tx, made["pos"] - 1))
    assert event.at == "2026-09-21T14:13:20.062Z"  # cut, not rounded


# -- transactions


async def test_values_and_rows(opened: Open) -> None:
    store = await opened()
    given_ = {"flag": 1, "count": 2.0, "word": 3, "real": 4, "raw": b"\x00", "nothing": None}
    row = await store.read(lambda tx: tx.one(HARM.kinds, **given_))
    assert dict(row or {}) == {**given_, "flag": True, "word": "3", "kept": ":no"}
    with pytest.raises(StoreError, match="wants a value for :count"):
        await store.read(lambda tx: tx.one(HARM.kinds, flag=1))


@pytest.mark.parametrize("how", [{}, {"single": True}])
async def test_durable_means_on_disk(opened: Open, how: dict[str, Any]) -> None:
    store = await opened()
    for durable, level in ((False, "off"), (True, "on"), (False, "off")):
        row = await store.write(lambda tx: tx.one(HARM.told), durable=durable, **how)
        assert row is not None
        assert row["durable"] == level


async def test_the_clock_is_the_servers_or_the_tests(opened: Open) -> None:
    now = [100.0]
    for store, low, high in (
        (await opened(), 1.7e9, 9e9),
        (await opened(clock=lambda: now[0]), 100.0, 101.0),
    ):

        async def work(tx: Tx) -> tuple[float, float, float]:
            first, row = await tx.now(), await tx.one(HARM.told)
            assert row is not None
            return first, await tx.now(), row["now"]

        for how in (store.write, store.read):
            first, second, told = await how(work)
            assert first == second
            assert low <= first <= told <= high
    now[0] = 200.5
    row = await store.write(lambda tx: tx.one(HARM.told), single=True)
    assert row is not None
    assert row["now"] == 200.5


async def test_a_transaction_awaits_nothing_else(opened: Open) -> None:
    store = await opened()

    async def sleeps(tx: Tx) -> None:
        await note(tx)
        await asyncio.sleep(0)

    async def gathers(tx: Tx) -> None:
        await asyncio.sleep(1)

    for work in (sleeps, gathers):
        for how in (store.write, store.read):
            with pytest.raises((AwaitedOutside, PostgresFault)):
                await how(work)
    with pytest.raises(AwaitedOutside, match="gathers"):
        await store.write(gathers, single=True)
    assert await store.read(events.last_pos) == 0


async def test_a_single_write_is_one_statement(opened: Open) -> None:
    store = await opened()

    async def two(tx: Tx) -> None:
        await tx.one(HARM.told)
        await note(tx)

    with pytest.raises(StoreError, match="made a second"):
        await store.write(two, single=True)
    assert await store.read(events.last_pos) == 0


async def test_single_writes_that_come_together_go_together_and_each_has_its_own_answer(opened: Open) -> None:
    store = await opened()

    async def divided(by: int) -> Any:
        return await store.write(lambda tx: tx.one(HARM.divide, by=by, alone=True), single=True)

    told = await asyncio.gather(*(divided(by) for by in (1, 2, 4, 5, 10)))
    assert [tuple(row) for row in told] == [(100, True), (50, False), (25, False), (20, False), (10, False)]
    # What fails among them has failed alone, and who gave up has kept nobody from anything.
    waits = [asyncio.create_task(divided(by)) for by in (1, 2, 0, 5, 10)]
    await asyncio.sleep(0)
    waits[3].cancel()
    told = await asyncio.gather(*waits, return_exceptions=True)
    assert [tuple(told[0]), tuple(told[1]), tuple(told[4])] == [(100, True), (50, True), (10, True)]
    assert isinstance(told[2], PostgresFault) and "division by zero" in str(told[2])
    assert isinstance(told[3], asyncio.CancelledError)
    # Those that wait when the store closes are answered.
    waits = [asyncio.create_task(divided(1)) for _ in range(20)]
    await asyncio.sleep(0)
    await store.close()
    assert [row["quotient"] for row in await asyncio.gather(*waits)] == [100] * 20


async def test_single_writes_that_wait_for_a_room_that_is_held_give_up_together(
    opened: Open, raw: Any
) -> None:
    store, other = await opened(busy_timeout_s=0.4), await raw()
    ran: list[int] = []
    transaction = store._singles._transaction

    async def counted(made: Any, calls: Any) -> Any:
        ran.append(len(calls))
        return await transaction(made, calls)

    store._singles._transaction = counted  # type: ignore[method-assign]
    note_alone = lambda: store.write(  # noqa: E731
        lambda tx: tx.one(HARM.note_alone, lane="a", alone=True), single=True
    )
    async with other.transaction():
        await other.execute(postgres_store._ALONE)
        told = await asyncio.gather(*(note_alone() for _ in range(9)), return_exceptions=True)
    assert all(isinstance(one, StoreBusy) and "nothing was changed" in str(one) for one in told), told
    assert ran in ([1], [1, 8])
    assert await store.read(events.last_pos) == 0
    rows = await asyncio.gather(*(note_alone() for _ in range(9)))
    assert [row["alone"] for row in rows] == [True] + [False] * 8


async def test_single_writes_run_beside_each_other_and_not_beside_a_general_one(
    opened: Open, raw: Any
) -> None:
    store, other = await opened(busy_timeout_s=0.3), await raw()
    single = lambda: store.write(  # noqa: E731
        lambda tx: tx.one(HARM.note_in_one, lane="a", outputs="1"), single=True
    )
    async with other.transaction():
        await other.execute("SELECT relay_lock_shared()")
        await single()
        with pytest.raises(StoreBusy, match="nothing was changed"):
            await store.write(note)
    async with other.transaction():
        await other.execute(
            f"SELECT pg_advisory_xact_lock({postgres_store.ROOM_LOCK}, hashtext(current_schema()))"
        )
        for busy in (single, lambda: store.write(note)):
            with pytest.raises(StoreBusy, match="nothing was changed"):
                await busy()
        assert await store.read(events.last_pos) == 1
    await store.write(note)


async def test_a_statement_that_failed_keeps_nothing_even_when_it_was_caught(opened: Open) -> None:
    store = await opened()

    async def work(tx: Tx) -> None:
        await note(tx)
        with contextlib.suppress(PostgresFault):
            await tx.execute(events.Q.put_setting, name=None, value="x")

    with pytest.raises(PostgresFault, match="nothing was kept"):
        await store.write(work)
    assert await store.read(events.last_pos) == 0


async def test_a_deadlock_is_tried_again(opened: Open, raw: Any) -> None:
    store, other = await opened(), await raw()
    for name in ("a", "b"):
        await store.write(lambda tx: events.put_setting(tx, name, "1"))  # noqa: B023
    await other.execute("SET deadlock_timeout = '10s'")
    begun = other.transaction()
    await begun.start()
    await other.execute("SELECT 1 FROM settings WHERE name = 'b' FOR UPDATE")
    tries = 0
    held = asyncio.Event()

    async def work(tx: Tx) -> None:
        nonlocal tries
        tries += 1
        await tx.one(HARM.lock_setting, name="a")
        held.set()
        await tx.one(HARM.lock_setting, name="b")

    async def meanwhile() -> None:
        await held.wait()
        await other.fetch("SELECT 1 FROM settings WHERE name = 'a' FOR UPDATE")
        await begun.rollback()

    async with asyncio.timeout(PATIENT_S):
        await asyncio.gather(store.write(work), meanwhile())
    assert tries == 2


# -- lost connections


async def test_a_connection_lost_before_the_commit_is_replaced_and_the_work_done_again(opened: Open) -> None:
    store = await opened()
    tries = 0

    async def work(tx: Tx) -> events.Event:
        nonlocal tries
        tries += 1
        made = await note(tx)
        if tries == 1:
            await tx.one(HARM.cut_me)
        return made

    assert (await store.write(work)).seq == 1
    assert tries == 2
    tries = 0

    async def look(tx: Tx) -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            await tx.one(HARM.cut_me)
        return await events.last_pos(tx)

    for long in (False, True):
        assert await store.read(look, long=long) > 0
    with pytest.raises(PostgresAway, match="was lost; nothing was changed"):
        await store.write(lambda tx: tx.one(HARM.cut_me))


async def test_what_swallows_a_lost_connection_does_not_hide_it(opened: Open) -> None:
    store = await opened()

    async def work(tx: Tx) -> None:
        try:
            await tx.one(HARM.cut_me)
        except Exception as error:
            raise RuntimeError("the follower cannot take this event") from error

    with pytest.raises(PostgresAway):
        await store.write(work)


async def test_a_connection_lost_in_the_commit_is_told_as_unknown(opened: Open, raw: Any) -> None:
    store, other = await opened(), await raw()
    await other.execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$; "
        "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON settings DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION slow()"
    )
    with pytest.raises(CommitUnknown, match="kept or not"):
        await store.write(lambda tx: events.put_setting(tx, "a", "1"))
    with pytest.raises(CommitUnknown, match="kept or not"):
        await store.write(lambda tx: tx.one(HARM.cut_me), single=True)
    assert await store.read(lambda tx: events.setting(tx, "a")) is None
    assert (await store.write(note)).seq == 1


async def test_a_cancelled_write_leaves_nothing_and_the_lock_free(opened: Open) -> None:
    store = await opened()

    async def work(tx: Tx) -> None:
        await note(tx)
        await tx.one(HARM.sleep, seconds=60.0)

    writing = asyncio.create_task(store.write(work))
    await asyncio.sleep(0.2)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    async with asyncio.timeout(PATIENT_S):
        assert (await store.write(note)).seq == 1


async def test_a_connection_goes_to_who_waits_for_it_and_is_else_used_again(opened: Open) -> None:
    connections = (await opened(connections=1))._open
    lent, short = connections.lent, connections.short
    used: list[int] = []

    async def use() -> None:
        async with lent(short) as connection:
            used.append(connection.get_server_pid())
            await asyncio.sleep(0)

    await use()
    await asyncio.gather(*(use() for _ in range(5)))
    assert len(used) == 6 and len(set(used)) == 1, "one after the other, on the only one"
    async with lent(short) as connection:
        await connection.close()
    with pytest.raises(ValueError, match="mine"):
        async with lent(short) as connection:
            await connection.execute("BEGIN")
            raise ValueError("mine")
    await use()
    assert len(set(used)) == 2, "a closed one is replaced"


async def test_a_single_read_that_is_cancelled_between_prepare_and_fetch_leaves_no_transaction(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(connections=1)
    prepare = asyncpg.Connection.prepare
    cancelled: list[bool] = []

    async def and_cancel(self: Any, *args: Any, **more: Any) -> Any:
        made = await prepare(self, *args, **more)
        task = asyncio.current_task()
        if not cancelled and task is not None:
            cancelled.append(task.cancel())
            await asyncio.sleep(0)
        return made

    monkeypatch.setattr(asyncpg.Connection, "prepare", and_cancel)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(store.read(lambda tx: events.read_after(tx, 0), single=True))
    assert cancelled
    assert await store.read(lambda tx: events.read_after(tx, 0)) == []


async def test_the_server_restarts_under_a_follower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server of its own, stopped as for an upgrade and then as in a crash."""
    monkeypatch.setattr(listen, "RETRY_S", (0.02, 0.1))
    found = postgres.binaries()
    assert found
    server = postgres.make_server(found)
    try:
        name = server.new_database([events.FOLDER])
        store = await postgres_store.open_store(server.address(name), [events.FOLDER])
        other = await postgres_store.open_store(server.address(name), [events.FOLDER])
        stream = tail(store, 0)
        await other.write(note)
        assert [event.seq for event in await anext(stream)] == [1]
        waiting = asyncio.ensure_future(anext(stream))
        for number, seq in ((signal.SIGINT, 2), (signal.SIGQUIT, 3)):
            await asyncio.to_thread(server.stop, number)
            for wants in (
                other.write(note),
                other.read(events.last_pos),
                other.read(events.last_pos, long=True),
            ):
                with pytest.raises(StoreBusy, match="cannot be reached"):
                    await wants
            await asyncio.to_thread(server.start)
            # Two stores: what the one writes wakes the other, through its new connection.
            made = await other.write(note, durable=True)
            assert made.seq == seq
            async with asyncio.timeout(PATIENT_S):
                try:
                    batch = await waiting
                except StoreBusy:  # its poll met the pause; whoever follows begins anew, as the daemon does
                    stream = tail(store, made.pos - 1)
                    batch = await anext(stream)
            assert [event.seq for event in batch] == [seq]
            waiting = asyncio.ensure_future(anext(stream))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await store.close()
        await other.close()
    finally:
        await asyncio.to_thread(server.end)


# -- tables


def wing(folder: Path, *steps: str) -> Path:
    at = folder / "wing" / "postgres" / "migrations"
    at.mkdir(parents=True, exist_ok=True)
    for number, step in enumerate(steps, 1):
        (at / f"{number:04}_step.sql").write_text(step)
    return folder / "wing"


async def test_migrations(tmp_path: Path) -> None:
    server = postgres.server()
    name = server.new_database()
    address = server.address(name)
    try:
        with pytest.raises(StoreMissing, match=f"no tables of relay in .*/{name} yet"):
            await postgres_store.open_store(address, [], create=False)

        async def open_and_close(*wings: Path) -> None:
            store = await postgres_store.open_store(address, wings)
            try:
                await store.read(events.last_pos)
            finally:
                await store.close()

        async with asyncio.timeout(PATIENT_S):
            await asyncio.gather(*(open_and_close(events.FOLDER) for _ in range(5)))
        good, bad = (
            "CREATE TABLE one (a int); INSERT INTO one VALUES (1)",
            "CREATE TABLE two (a int); SELECT nope()",
        )
        told = r"wing 2 \(step\) failed .* nope\(\) does not exist\. Nothing of it was kept"
        with pytest.raises(StoreError, match=told):
            await open_and_close(wing(tmp_path, good, bad))
        look = await asyncpg.connect(server.dsn(name))
        assert await look.fetchval("SELECT to_regclass('relay.one')") is None
        assert await look.fetchval("SELECT to_regclass('public.events')") is None
        async with asyncio.timeout(PATIENT_S):
            mended = wing(tmp_path, good, "CREATE TABLE two (a int)")
            await asyncio.gather(*(open_and_close(mended) for _ in range(4)))
        assert await look.fetchval("SELECT count(*) FROM relay.one") == 1
        with pytest.raises(StoreError, match="differs from the one that was applied"):
            await open_and_close(wing(tmp_path, good, "CREATE TABLE two (b int)"))
        (tmp_path / "wing/postgres/migrations/0002_step.sql").unlink()
        with pytest.raises(StoreError, match="newer relay"):
            await open_and_close(tmp_path / "wing")
        await look.close()
    finally:
        server.drop_database(name)


async def test_who_may_make_nothing_is_told_what_to_do(tmp_path: Path) -> None:
    server = postgres.server()
    name = server.new_database()
    admin = await asyncpg.connect(server.dsn(name))
    try:
        await admin.execute(
            "DO $$ BEGIN CREATE ROLE plain LOGIN; EXCEPTION WHEN duplicate_object THEN END $$"
        )
        address = postgres_store.Address(server.dsn(name).replace("relay@", "plain@"), f"x/{name}")
        with pytest.raises(StoreError, match="CREATE SCHEMA relay AUTHORIZATION"):
            await postgres_store.open_store(address, [events.FOLDER])
        await admin.execute("CREATE SCHEMA relay AUTHORIZATION plain")
        store = await postgres_store.open_store(address, [events.FOLDER])
        assert (await store.write(note)).seq == 1
        await store.close()
    finally:
        await admin.close()
        server.drop_database(name)


async def test_every_text_is_compared_by_its_bytes(opened: Open, raw: Any) -> None:
    await opened()
    strays = await (await raw()).fetch(
        "SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
        "WHERE c.relnamespace = 'relay'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 "
        "AND a.atttypid = 'text'::regtype AND a.attcollation <> '\"C\"'::regcollation"
    )
    assert strays == []


async def test_an_address_that_leads_nowhere(tmp_path: Path) -> None:
    server = postgres.server()
    plain, latin = server.new_database(), f"latin_{server.new_database()}"
    make = await asyncpg.connect(server.dsn(plain))
    await make.execute(f"CREATE DATABASE {latin} ENCODING 'LATIN1' TEMPLATE template0")
    await make.close()
    for dsn, told in (
        (server.dsn("no_such"), "no such database"),
        (server.dsn(latin), "needs UTF8"),
        (server.dsn(plain) + "&default_transaction_read_only=on", "only read"),
        (f"postgres://ann:s3cret@/room?host={tmp_path}", "cannot be reached"),
        ("postgres://ann:s3cret@127.0.0.1:1/room", "cannot be reached"),
        ("postgres://ann:s3cret@/room?sslmode=nonsense", "check its parameters"),
    ):
        with pytest.raises(StoreError, match=told) as refused:
            await postgres_store.open_store(read_address(dsn, "x"), [events.FOLDER], connect_s=5)
        assert "s3cret" not in str(refused.value)
        assert json.dumps(str(refused.value))

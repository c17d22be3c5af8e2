"""The engines that tests of the wings run on, and a database of its own for each test.

A module asks for both with `pytestmark = BOTH`, one test with `@BOTH`; what does neither runs on SQLite. Then
`open_store(folder, ...)` opens the engine that is being tested; the same folder is the same database.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from relay.app.wiring.schema import SCHEMAS
from relay.log import events
from relay.log.verify import verify
from relay.store.ports import Store
from relay.store.postgres import store
from relay.store.postgres.address import VARIABLE, read_address
from relay.store.sqlite import store as sqlite_store
from tests import postgres

ENGINES = ("sqlite", "postgres")
#: Run on every engine. The fixture `engine` stands in tests/conftest.py.
BOTH = pytest.mark.usefixtures("engine")
#: In a module of both: a test that takes long and asks the database nothing that others do not ask.
SQLITE = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)

#: One statement for all tables, so that a used database costs a new test a millisecond or two, not the tens that
#: making one does. What the migrations put there is kept.
_EMPTY = """
DO $$ DECLARE one record; BEGIN
  FOR one IN SELECT tablename AS name FROM pg_tables WHERE schemaname = 'relay'
             AND tablename NOT IN ('schema_migrations', 'since_crash', 'fleet_leader') LOOP
    EXECUTE format('DELETE FROM relay.%I', one.name);
  END LOOP;
  FOR one IN SELECT sequencename AS name FROM pg_sequences WHERE schemaname = 'relay' AND last_value IS NOT NULL LOOP
    EXECUTE format('ALTER SEQUENCE relay.%I RESTART', one.name);
  END LOOP;
  DELETE FROM relay.since_crash WHERE name = 'fence';
  UPDATE relay.fleet_leader SET member = '', incarnation = 0, epoch = 0, until = 0;
END $$
"""
_WAITING = """
SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted
"""
#: When a test's clock begins, in Unix seconds.
T0 = 1_800_000_000.0


class Clock:
    """Unix seconds that stand still until a test moves them."""

    def __init__(self, now: float = T0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def move(self, seconds: float) -> float:
        self.now += seconds
        return self.now


def wings(*names: str) -> list[Path]:
    """The wings of these names, whose tables a store is to have."""
    by_name = {folder.name: folder for folder in SCHEMAS}
    return [by_name[name] for name in names]


async def all_events(store: Store, *types: str) -> list[events.Event]:
    """The events of these types, or all, in order."""
    return await store.read(lambda tx: events.read_after(tx, 0, types=types or None, limit=100_000))


async def check_log(store: Store) -> None:
    """Every event is as it was recorded."""
    assert await verify(store) == []


class _Engines:
    """`current`: the engine of the test that runs. `free`: databases that are empty again; `used`: this test's;
    `harmed`: those that no other test may get."""

    def __init__(self) -> None:
        self.current = "sqlite"
        self.free: list[str] = []
        self.used: dict[Path, str] = {}
        self.harmed: set[str] = set()


_ENGINES = _Engines()


def current() -> str:
    """The engine that is being tested."""
    return _ENGINES.current


@contextmanager
def on_engine(engine: str) -> Iterator[None]:
    """Open the stores within on this engine."""
    before, _ENGINES.current = _ENGINES.current, engine
    try:
        yield
    finally:
        _ENGINES.current = before
        for folder in list(_ENGINES.used):
            _give_back(_ENGINES.used.pop(folder))


async def open_store(folder: Path, wings: Sequence[Path], **more: Any) -> Store:
    """A store in the database that belongs to this folder, on the engine that is being tested."""
    if _ENGINES.current == "sqlite":
        return await sqlite_store.open_store(folder / "events.db", wings, **more)
    return await store.open_store(postgres.server().address(database_of(folder)), SCHEMAS, **more)


def address_of(folder: Path) -> str:
    """What another process hands to `join` to open this folder's database."""
    if _ENGINES.current == "sqlite":
        return str(folder / "events.db")
    return postgres.server().dsn(database_of(folder))


async def join(address: str, wings: Sequence[Path], **more: Any) -> Store:
    """In another process: a store at the address that the test's own gave it."""
    if "://" in address:
        return await store.open_store(read_address(address, "the test"), wings, **more)
    return await sqlite_store.open_store(Path(address), wings, **more)


def change(folder: Path, statement: str, *values: Any) -> None:
    """Change a database behind everybody's back; `$1` is the first value."""
    if _ENGINES.current == "sqlite":
        with closing(sqlite3.connect(folder / "events.db", isolation_level=None)) as connection:
            connection.execute(statement.replace("$", "?"), values)
        return

    _ENGINES.harmed.add(database_of(folder))

    async def work() -> None:
        dsn = postgres.server().dsn(database_of(folder))
        found = await asyncpg.connect(dsn, server_settings={"search_path": store.SCHEMA})
        try:
            await found.execute(statement, *values)
        finally:
            await found.close()

    postgres.run(work())


def database_of(folder: Path) -> str:
    """The name of the PostgreSQL database that belongs to this folder."""
    if folder not in _ENGINES.used:
        found = _ENGINES.free.pop() if _ENGINES.free else postgres.server().new_database(SCHEMAS)
        _ENGINES.used[folder] = found
    return _ENGINES.used[folder]


def configure(folder: Path, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """What a room's configuration says of this folder's database; its address goes into the environment."""
    if _ENGINES.current == "sqlite":
        return {}
    patch.setenv(VARIABLE, address_of(folder))
    return {"storage": "postgres"}


class Blocker:
    """Another process that keeps every writer of this folder's database waiting."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sqlite: sqlite3.Connection | None = None
        self._postgres: Any = None

    async def take(self) -> None:
        """Take the lock of all writers."""
        if _ENGINES.current == "sqlite":
            self._sqlite = sqlite3.connect(self._folder / "events.db", isolation_level=None)
            self._sqlite.execute("BEGIN IMMEDIATE")
        else:
            self._postgres = await asyncpg.connect(
                postgres.server().dsn(database_of(self._folder)),
                server_settings={"search_path": store.SCHEMA},
            )
            lock = f"{store.ROOM_LOCK}, hashtext('{store.SCHEMA}')"
            await self._postgres.execute(f"BEGIN; SELECT pg_advisory_xact_lock({lock})")

    async def change(self, statement: str, *values: Any) -> None:
        """Change something while it is held; `$1` is the first value. `let_go` takes it back, `commit` keeps it."""
        if self._sqlite is not None:
            self._sqlite.execute(statement.replace("$", "?"), values)
        else:
            await self._postgres.execute(statement, *values)

    async def keeps_waiting(self) -> bool:
        """Whether somebody waits for it; on SQLite nobody can tell, and it says so of everybody."""
        return self._postgres is None or bool(await self._postgres.fetchval(_WAITING))

    async def commit(self) -> None:
        """Keep what was changed, and give it back."""
        if self._sqlite is not None:
            self._sqlite.execute("COMMIT")
        else:
            await self._postgres.execute("COMMIT")
        await self.let_go()

    async def let_go(self) -> None:
        """Give it back; nothing happens when it is not held."""
        if self._sqlite is not None:
            self._sqlite.close()
        if self._postgres is not None:
            await self._postgres.close()
        self._sqlite = self._postgres = None


def _give_back(database: str) -> None:
    if database in _ENGINES.harmed:
        postgres.server().drop_database(database)
        return

    async def work() -> None:
        connection = await asyncpg.connect(
            postgres.server().dsn(database), server_settings={"lock_timeout": "5s"}
        )
        try:
            await connection.execute(_EMPTY)
        finally:
            await connection.close()

    try:
        postgres.run(asyncio.wait_for(work(), 20.0))
    except (asyncpg.PostgresError, OSError, TimeoutError):
        # A test that failed left a transaction open: its database is not used again.
        postgres.server().drop_database(database)
    else:
        _ENGINES.free.append(database)

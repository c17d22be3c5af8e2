"""A room that an earlier version made, unpacked for a test (scripts/fixtures/earlier_room.py made it)."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tarfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import asyncpg

from relay.store.postgres.address import VARIABLE
from tests import postgres
from tests.outside import REPO, Json, Outside

DATA = Path(__file__).parent / "data"
STORES = ("sqlite", "postgres")
#: The user of the room's database, who may make roles and is no superuser.
OWNER = "relay_room"
#: The leases are as long from now as they were when the room was made; the graph of the code is of this folder.
_NOW = (
    "UPDATE agent_sessions SET heartbeat_at = heartbeat_at + {since}, lease_until = lease_until + {since}",
    "UPDATE file_locks SET expires_at = expires_at + {since}",
    "UPDATE work_queue SET lease_until = lease_until + {since}",
    "UPDATE graph_snapshots SET repo = replace(repo, '@ROOM@', '{room}')",
)
_ROLES = """
DO $$ DECLARE role text; BEGIN
  FOREACH role IN ARRAY ARRAY['relay_service', 'relay_agent', 'relay_acting', 'relay_anon'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN', role);
    END IF;
    EXECUTE format('GRANT %I TO relay_room', role);
  END LOOP;
END $$
"""


@dataclass
class EarlierRoom:
    """`facts`: what the earlier version said of it. `database`: of PostgreSQL, its name; else empty."""

    store: str
    room: Outside
    home: Path
    facts: Json
    database: str

    @property
    def code(self) -> Path:
        return self.room.folder / "code"

    async def rows(self) -> dict[str, list[str]]:
        """Every row of every table as text, by the table's name."""
        if not self.database:
            return await asyncio.to_thread(self._sqlite_rows)
        connection = await asyncpg.connect(postgres.server().dsn(self.database))
        try:
            names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'relay'")
            found = {}
            for (name,) in names:
                rows = await connection.fetch(f'SELECT t::text FROM relay."{name}" t ORDER BY 1')
                found[name] = [row[0] for row in rows]
            return found
        finally:
            await connection.close()

    def _sqlite_rows(self) -> dict[str, list[str]]:
        with closing(sqlite3.connect(self.room.runtime / "events.db")) as connection:
            tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            return {
                name: sorted(repr(row) for row in connection.execute(f'SELECT * FROM "{name}"'))
                for (name,) in tables
            }


@asynccontextmanager
async def earlier_room(store: str, folder: Path) -> AsyncIterator[EarlierRoom]:
    """The room in `folder`; its leases last as if it had been made just now. Nothing runs in it yet."""
    where = {
        "@ROOM@": str(folder / "room"),
        "@HOME@": str(folder / "home"),
        "@VENV@": sys.prefix,
        "@CLONE@": str(REPO),
    }
    unpack(DATA / f"{store}.tar.gz", folder, where)
    facts: Json = json.loads((folder / "facts.json").read_text())
    room = Outside(folder / "room", json.loads((folder / "room" / "config.json").read_text()))
    room.env = {
        "HOME": str(folder / "home"),
        "PATH": f"{folder / 'room' / 'programs'}:{room.environ()['PATH']}",
    }
    database = ""
    since = time.time() - datetime.fromisoformat(facts["entries"][-1]["ts"]).timestamp()
    statements = [step.format(since=since, room=room.folder) for step in _NOW]
    if store == "sqlite":
        with closing(sqlite3.connect(room.runtime / "events.db", isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)
    else:
        database = await _restored((folder / "database.sql").read_text(), statements)
        room.env[VARIABLE] = postgres.server().dsn(database, OWNER)
    try:
        yield EarlierRoom(store, room, folder / "home", facts, database)
    finally:
        await room.end()
        if database:
            postgres.server().drop_database(database)


def unpack(archive: Path, folder: Path, where: Mapping[str, str]) -> None:
    """Each file with the paths of here in the place of their names."""
    with tarfile.open(archive) as packed:
        for member in packed:
            at, file = folder / member.name, packed.extractfile(member)
            at.parent.mkdir(parents=True, exist_ok=True)
            if file is None:
                at.mkdir(mode=member.mode)
                continue
            content = file.read()
            if at.suffix != ".db":
                for name, path in where.items():
                    content = content.replace(name.encode(), path.encode())
            at.write_bytes(content)
            at.chmod(member.mode)


async def _restored(dump: str, statements: list[str]) -> str:
    server = postgres.server()
    name = server.new_database()
    server.own(name, OWNER, "CREATEROLE")
    admin = await asyncpg.connect(server.dsn(name))
    try:
        await admin.execute(_ROLES)
        owner = await asyncpg.connect(server.dsn(name, OWNER))
        try:
            await owner.execute(dump)
        finally:
            await owner.close()
        await admin.execute(f"SET search_path = relay; {'; '.join(statements)}")
    finally:
        await admin.close()
    return name

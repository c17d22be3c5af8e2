"""Every cell of the matrix in docs/postgres.md, tried: role x table x verb, with an own row and another's."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tests import postgres
from tests.engines import SCHEMAS

pytestmark = pytest.mark.asyncio(loop_scope="module")

DOCS = Path(__file__).parents[2] / "docs" / "postgres.md"
VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE")
#: Who has what: (agent, session).
ANN, BOB = ("ann", "s1"), ("bob", "s2")
#: A value of each type that has to be there and says nothing.
PLAIN = {
    "text": "x",
    "bigint": "7",
    "integer": "1",
    "double precision": "1",
    "jsonb": "[]",
    "tsvector": "x",
    "bytea": "x",
}
#: `own`: the row's own, `free`: also what is nobody's, `all`: every row, `-`: none.
ALLOWED = {"-": (False, False), "own": (True, False), "all": (True, True)}


def matrix() -> dict[tuple[str, str, str], str]:
    """What the document says: (role, table, verb) -> word."""
    cells = {}
    for line in DOCS.read_text().splitlines():
        found = re.fullmatch(r"\| `(\w+)` \| (all|SELECT) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| - \|", line)
        if found is None:
            continue
        table, service, *agent = found.groups()
        for verb, word in zip(VERBS, agent, strict=True):
            cells["relay_acting", table, verb] = word
            cells["relay_agent", table, verb] = word if verb == "SELECT" else "-"
            cells["relay_service", table, verb] = "all" if service in ("all", verb) else "-"
            cells["relay_anon", table, verb] = "-"
    return cells


CELLS = matrix()


def whose(table: str, who: tuple[str, str]) -> dict[str, str | None]:
    """What makes a row of this table somebody's, and what its checks want."""
    agent, session = who
    both = {"agent_id": agent, "session_id": session}
    task = {"id": f"task-{agent}", "created_by": agent, "claimed_by": agent, "claimed_session": session}
    return {
        "agent_sessions": {"agent_id": agent, "id": session, "kind": "given"},
        "answered_requests": {"agent_id": agent},
        "attached_sessions": {**both, "state": "idle"},
        "changesets": {**both, "id": agent},
        "declared_intents": {"agent": agent, "session": session, "source": "agent"},
        "events": {"session": session, "lane": agent, "id": f"event-{agent}"},
        "file_locks": {**both, "kind": "path", "mode": "exclusive"},
        **{
            f"knowledge_{table}": {
                "audience": "1" if who == ANN else "2",
                "agent_id": agent,
                "id": agent,
                **more,
            }
            for table, more in {
                "audiences": {},
                "counts": {},
                "entries": {"number": "1" if who == ANN else "2"},
                "files": {},
                "readers": {"reader": f"@{agent}"},
                "relations": {"source": "1" if who == ANN else "2", "target": "1" if who == ANN else "2"},
                "roles": {},
                "uses": {"event_id": ""},
                "words": {},
            }.items()
        },
        "lane_exits": {"into_lane": f"{session}/{agent}"},
        "lanes": {"session": session, "lane": agent},
        "lock_waits": {**both, "mode": "exclusive"},
        "memory_episodic": {**both, "id": agent, "number": "1" if who == ANN else "2"},
        "memory_episodic_fts": {"number": "1" if who == ANN else "2"},
        "memory_procedural": {"agent_id": agent},
        "memory_working": both,
        "messages": {
            "speaker": agent,
            "kind": "agent",
            "id": agent,
            "event_id": agent,
            "number": f"1{len(session)}{session[1]}",
            "pos": session[1],
        },
        "read_marks": both,
        "task_changes": {"event_id": f"event-{agent}", "pos": session[1]},
        "work_needs": {"task_id": f"task-{agent}"},
        "work_queue": {**task, "status": "claimed", "number": session[1]},
    }.get(table, {"id": "1"} if table in ("dispatch_queue",) else {})  # type: ignore[return-value]


#: What a row leans on: put there first, by nobody's rights.
LEANS = {
    "knowledge_audiences": "knowledge_readers",
    "knowledge_counts": "knowledge_readers",
    "knowledge_entries": "knowledge_readers",
    "knowledge_files": "knowledge_readers",
    "knowledge_relations": "knowledge_entries",
    "knowledge_uses": "knowledge_entries",
    "knowledge_words": "knowledge_readers",
    "memory_episodic_fts": "memory_episodic",
    "task_changes": "events",
    "work_needs": "work_queue",
}
#: Whatever the checks of the tables want, beside whose a row is.
CHECKED = {
    ("dispatch_queue", "state"): "pending",
    ("breakers", "state"): "closed",
    ("messages", "kind"): "human",
    ("api_keys", "scopes"): "[]",
    ("cycles", "state"): "open",
    ("tail", "id"): "1",
}


class Room:
    """One connection of the owner, and what its tables look like."""

    def __init__(self, connection: Any, columns: dict[str, list[Any]]) -> None:
        self.connection, self.columns = connection, columns

    def row(self, table: str, who: tuple[str, str]) -> dict[str, str | None]:
        """The least that a row needs."""
        given = whose(table, who)
        told: dict[str, str | None] = {}
        for column in self.columns[table]:
            name = column["column_name"]
            if name in given:
                told[name] = given[name]
            elif (table, name) in CHECKED:
                told[name] = CHECKED[table, name]
            elif column["is_nullable"] == "NO" and column["column_default"] is None and not column["made"]:
                told[name] = PLAIN[column["data_type"]]
        return told

    async def put(
        self, table: str, who: tuple[str, str], *, changed: dict[str, str | None] | None = None
    ) -> None:
        row = self.row(table, who) | (changed or {})
        types = {column["column_name"]: column["data_type"] for column in self.columns[table]}
        values = ", ".join(f"${at}::text::{types[name]}" for at, name in enumerate(row, 1))
        names = ", ".join(f'"{name}"' for name in row)
        await self.connection.execute(f"INSERT INTO relay.{table} ({names}) VALUES ({values})", *row.values())

    async def prepare(self, table: str, who: tuple[str, str]) -> None:
        if table in LEANS:
            await self.prepare(LEANS[table], who)
            await self.put(LEANS[table], who)

    async def become(self, role: str, who: tuple[str, str]) -> None:
        told = "SELECT set_config('relay.agent_id', $1, true), set_config('relay.session_id', $2, true)"
        await self.connection.execute(told, *who)
        await self.connection.execute(f"SET LOCAL ROLE {role}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def room() -> AsyncIterator[Room]:
    server = postgres.server()
    name = server.new_database(SCHEMAS)
    connection = await asyncpg.connect(server.dsn(name), server_settings={"search_path": "relay"})
    columns: dict[str, list[Any]] = {}
    for row in await connection.fetch(
        "SELECT table_name, column_name, data_type, is_nullable, column_default,"
        " is_identity = 'YES' OR is_generated = 'ALWAYS' AS made"
        " FROM information_schema.columns WHERE table_schema = 'relay' ORDER BY ordinal_position"
    ):
        columns.setdefault(row["table_name"], []).append(row)
    yield Room(connection, columns)
    await connection.close()
    server.drop_database(name)


async def tried(room: Room, role: str, table: str, verb: str, who: tuple[str, str]) -> bool:
    """Ann asks for a row that is whose: is it done?"""
    undo = room.connection.transaction()
    await undo.start()
    try:
        await room.prepare(table, who)
        if verb != "INSERT":
            await room.connection.execute(f"DELETE FROM relay.{table}")
            await room.put(table, who)
        await room.become(role, ANN)
        if verb == "INSERT":
            await room.put(table, who)
            return True
        if verb == "SELECT":
            return bool(await room.connection.fetch(f"SELECT 1 FROM relay.{table}"))
        if verb == "DELETE":
            return bool(await room.connection.execute(f"DELETE FROM relay.{table}") == "DELETE 1")
        column = room.columns[table][-1]["column_name"]
        return bool(
            await room.connection.execute(f'UPDATE relay.{table} SET "{column}" = "{column}"') == "UPDATE 1"
        )
    except asyncpg.InsufficientPrivilegeError:
        return False
    finally:
        await undo.rollback()


@pytest.mark.parametrize(("role", "table", "verb"), sorted(CELLS))
async def test_a_cell(room: Room, role: str, table: str, verb: str) -> None:
    own, another = ALLOWED[CELLS[role, table, verb]]
    assert await tried(room, role, table, verb, ANN) is own
    assert await tried(room, role, table, verb, BOB) is another


@pytest.mark.parametrize("role", ["relay_acting", "relay_agent"])
@pytest.mark.parametrize("type_", ["working.stored", "working.compressed", "memory.remembered"])
@pytest.mark.parametrize(("who", "own"), [(ANN, True), (BOB, False), (("ann", "s2"), False)])
async def test_the_events_of_a_working_memory_are_its_sessions(
    room: Room, role: str, type_: str, who: tuple[str, str], own: bool
) -> None:
    undo = room.connection.transaction()
    await undo.start()
    try:
        await room.connection.execute("DELETE FROM relay.events")
        await room.put("events", who, changed={"type": type_})
        await room.become(role, ANN)
        found = await room.connection.fetch("SELECT 1 FROM relay.events")
        assert bool(found) is (own or type_ == "memory.remembered")
    finally:
        await undo.rollback()


@pytest.mark.parametrize("role", ["relay_service", "relay_acting", "relay_agent"])
@pytest.mark.parametrize("who", [ANN, BOB])
async def test_an_agents_own_login_reads_no_forgotten_memory(
    room: Room, role: str, who: tuple[str, str]
) -> None:
    undo = room.connection.transaction()
    await undo.start()
    try:
        await room.connection.execute("DELETE FROM relay.memory_episodic")
        await room.put("memory_episodic", who, changed={"forgotten_at": "12.5"})
        await room.become(role, ANN)
        found = await room.connection.fetch("SELECT 1 FROM relay.memory_episodic")
        assert bool(found) is (role != "relay_agent")
    finally:
        await undo.rollback()


async def test_the_document_has_every_table(room: Room) -> None:
    assert {table for _, table, _ in CELLS} == set(room.columns)
    unsafe = await room.connection.fetch(
        "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE nspname = 'relay' AND relkind = 'r' AND NOT relrowsecurity"
    )
    assert unsafe == []

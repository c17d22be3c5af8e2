"""The roles: what they are, that they are made by whoever may and nobody fails for it, and who an agent is."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from relay.model import Caller
from relay.store.postgres import store as postgres_store
from relay.store.postgres.address import read_address
from relay.store.postgres.store import PostgresStore
from tests import postgres
from tests.coordination.desk import over
from tests.engines import SCHEMAS

DOCS = Path(__file__).parents[2] / "docs" / "postgres.md"
ROLES = ("relay_acting", "relay_agent", "relay_anon", "relay_service")


@pytest.fixture
def database() -> Iterator[str]:
    name = postgres.server().new_database(SCHEMAS)
    yield name
    postgres.server().drop_database(name)


@pytest.fixture
async def raw(database: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(
        postgres.server().dsn(database), server_settings={"search_path": "relay"}
    )
    yield connection
    await connection.close()


async def open_as(server: postgres.Server, database: str, user: str = "relay") -> PostgresStore:
    return await postgres_store.open_store(read_address(server.dsn(database, user), "the test"), SCHEMAS)


async def as_agent(connection: Any, agent: str, session: str, **claims: str) -> None:
    told = "SELECT set_config('relay.agent_id', $1, true), set_config('relay.session_id', $2, true)"
    await connection.execute(told, agent, session)
    if claims:
        await connection.execute("SELECT set_config('request.jwt.claims', $1, true)", json.dumps(claims))
    await connection.execute("SET LOCAL ROLE relay_acting")


async def open_definers(connection: Any) -> list[str]:
    """The functions with the owner's rights that look into what the caller says, or that everybody may call."""
    found = await connection.fetch(
        "SELECT proname FROM pg_proc p WHERE pronamespace = 'relay'::regnamespace AND prosecdef AND ("
        " NOT 'search_path=relay, pg_temp' = ANY (coalesce(proconfig, '{}')) OR EXISTS (SELECT FROM"
        " aclexplode(coalesce(proacl, acldefault('f', proowner))) WHERE grantee = 0)) ORDER BY 1"
    )
    return [row[0] for row in found]


async def test_no_role_is_a_superuser_an_owner_or_goes_around_the_rows(raw: Any) -> None:
    told = await raw.fetch(
        "SELECT rolname, rolsuper OR rolbypassrls OR rolcanlogin OR rolcreaterole OR rolcreatedb AS more"
        " FROM pg_roles WHERE rolname LIKE 'relay\\_%' AND rolname = ANY ($1) ORDER BY 1",
        list(ROLES),
    )
    assert [tuple(row) for row in told] == [(role, False) for role in ROLES]
    assert await open_definers(raw) == []
    owners = "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'relay'"
    assert [row[0] for row in await raw.fetch(owners)] == ["relay"]


async def test_relay_runs_as_the_service_and_an_agent_as_itself(database: str) -> None:
    store = await open_as(postgres.server(), database)
    try:
        assert store.rights.held and store.notes == ()
        async with store._open.lent(store._open.short) as connection:
            assert await connection.fetchval("SELECT current_user") == "relay_service"
            async with connection.transaction():
                await connection.execute(store.rights.become(Caller("it's", "s1")).lstrip("; "))
                assert await connection.fetchrow("SELECT current_user, relay_me(), relay_my_session()") == (
                    "relay_acting",
                    "it's",
                    "s1",
                )
            assert await connection.fetchrow("SELECT current_user, relay_me()") == ("relay_service", None)
        assert store.rights.become(Caller("eve", "s1", person=True)) == ""
    finally:
        await store.close()


async def test_no_row_is_handed_to_another(raw: Any) -> None:
    await raw.execute("INSERT INTO agent_sessions VALUES ('ann', 's1', 'x', 'given', 1, 1, 1)")
    await raw.execute(
        "INSERT INTO work_queue (id, number, task_type, task_description, rank, status, created_by,"
        " created_at, updated_at) VALUES ('t', 1, 'x', 'x', 1, 'pending', 'bob', 1, 1)"
    )
    for statement in (
        "UPDATE agent_sessions SET agent_id = 'bob'",
        "UPDATE work_queue SET claimed_by = 'bob', claimed_session = 's1', status = 'claimed'",
        "UPDATE work_queue SET claimed_by = 'ann', claimed_session = 's2', status = 'claimed'",
        "UPDATE counters SET value = 0",
        "SELECT relay_secure()",
        "SELECT relay_append_event('note', 's1', 'bob')",
    ):  # fmt: skip
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with raw.transaction():
                await as_agent(raw, "ann", "s1")
                await raw.execute(statement)
    async with raw.transaction():
        await as_agent(raw, "ann", "s1")
        claimed = "UPDATE work_queue SET claimed_by = 'ann', claimed_session = 's1', status = 'claimed'"
        assert await raw.execute(claimed) == "UPDATE 1", "what is nobody's may be claimed"
        assert await raw.fetchval("SELECT relay_next_number('fence')") == 1, (
            "the room's counter, by a function"
        )


async def test_a_claim_of_a_token_is_who_asks_whatever_a_function_is_told(raw: Any) -> None:
    async with raw.transaction():
        await as_agent(raw, "bob", "s9", agent_id="ann", session_id="s1", sub="u1")
        await raw.execute("SET LOCAL ROLE relay_agent")
        assert await raw.fetchrow("SELECT relay_me(), relay_my_session()") == ("ann", "s1")
        await raw.execute("SELECT relay_join()")
        await raw.execute("RESET ROLE")
        assert [tuple(row) for row in await raw.fetch("SELECT agent_id, id FROM agent_sessions")] == [
            ("ann", "s1")
        ]
        await as_agent(raw, "bob", "s9", sub="u1")
        assert await raw.fetchval("SELECT relay_me()") == "u1"


async def test_an_owner_who_may_not_make_roles_runs_with_its_own_rights_and_says_so() -> None:
    found = postgres.binaries()
    assert found is not None
    server = postgres.make_server(found)
    try:
        names = [server.new_database() for _ in range(4)]
        server.own(names[0], "plain")
        store = await open_as(server, names[0], "plain")
        locks = over(store).locks
        for _ in range(2):  # the second call is a function's
            assert (await locks.acquire(Caller("ann", "s1"), ["a"]))["success"]
        assert not store.rights.held and "row-level security is not enforced" in store.notes[0]
        await store.close()
        connection = await asyncpg.connect(server.dsn(names[0]))
        assert await open_definers(connection) == [], "without the roles too"
        await connection.close()
        # Several at once, by one who may: each makes what is missing, none fails.
        for name in names[1:]:
            server.own(name, "maker", "CREATEROLE")
        opened = await asyncio.gather(*(open_as(server, name, "maker") for name in names[1:]))
        assert [one.rights.held for one in opened] == [True] * 3
        for one in opened:
            await one.close()
        # Now that they are there, the owner's tables can be secured; it is told no more once it may take the roles.
        connection = await asyncpg.connect(server.dsn(names[0]), server_settings={"search_path": "relay"})
        await connection.execute(
            "GRANT relay_service, relay_acting TO plain; SET ROLE plain; SELECT relay_secure()"
        )
        await connection.close()
        store = await open_as(server, names[0], "plain")
        assert store.rights.held
        await store.close()
        # A room that is set up as the docs say, by a user who may make nothing.
        first, script = re.findall(r"```sql\n(.*?)\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)[0]
        assert first.startswith("CREATE ROLE relay_service")  # they are there by now
        connection = await asyncpg.connect(server.dsn(names[0]))
        for statement in re.sub(r"\brelay\b", "docs_user", script).strip().split("\n"):
            await connection.execute(statement)
        await connection.close()
        store = await open_as(server, "room", "docs_user")
        assert store.rights.held and not store.notes
        await store.close()
    finally:
        server.end()

"""relay on a database as Supabase makes it: its roles, and its JWT as PostgREST hands it to the server.

The roles are those of Supabase's own migrations (supabase/postgres, migrations/db). What PostgREST does with a
request is a transaction that first sets the role, its settings, and the claims of a JWT that it has checked
(docs.postgrest.org, "Transactions").
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from relay.access.rights import room_token
from relay.store.postgres import store as postgres_store
from relay.store.postgres.address import read_address
from tests import postgres
from tests.engines import SCHEMAS

pytestmark = pytest.mark.asyncio(loop_scope="module")
REFUSED = asyncpg.InsufficientPrivilegeError
DOCS = Path(__file__).parents[2] / "docs" / "postgres.md"
ROLES = """
CREATE ROLE postgres NOSUPERUSER CREATEDB CREATEROLE LOGIN REPLICATION BYPASSRLS;
CREATE ROLE supabase_admin SUPERUSER CREATEDB CREATEROLE REPLICATION BYPASSRLS;
CREATE ROLE supabase_auth_admin NOINHERIT CREATEROLE LOGIN;
CREATE ROLE anon NOLOGIN INHERIT;
CREATE ROLE authenticated NOLOGIN INHERIT;
CREATE ROLE service_role NOLOGIN INHERIT BYPASSRLS;
CREATE ROLE authenticator NOINHERIT LOGIN;
GRANT anon, authenticated, service_role, supabase_admin TO authenticator;
ALTER ROLE anon SET statement_timeout = '3s';
ALTER ROLE authenticated SET statement_timeout = '8s';
GRANT ALL ON DATABASE postgres TO postgres;
GRANT ALL ON SCHEMA public TO postgres WITH GRANT OPTION;
GRANT USAGE ON SCHEMA public TO anon, authenticated, service_role, supabase_auth_admin;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO postgres, anon, authenticated, service_role;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON FUNCTIONS TO postgres, anon, authenticated, service_role;
ALTER DEFAULT PRIVILEGES FOR ROLE postgres IN SCHEMA public GRANT ALL ON FUNCTIONS
  TO postgres, anon, authenticated, service_role;
DO $$ BEGIN
  IF current_setting('server_version_num')::integer >= 160000 THEN
    GRANT anon, authenticated, service_role TO postgres WITH ADMIN OPTION;
  END IF;
END $$;
"""
ANN = {"role": "authenticated", "sub": "8c1d", "session_id": "s-ann", "aal": "aal1", "aud": "authenticated"}
BOB = {"role": "authenticated", "sub": "77aa", "session_id": "s-bob"}


@pytest.fixture(scope="module")
def project() -> Iterator[postgres.Server]:
    """A server with a project's roles. Roles are the whole server's, so it is this module's own."""
    postgres.server()  # skips where there is none
    found = postgres.binaries()
    assert found is not None
    server = postgres.make_server(found)
    try:
        postgres.run(_do(server, "relay", ROLES))
        yield server
    finally:
        server.end()


async def _do(server: postgres.Server, user: str, sql: str) -> None:
    connection = await asyncpg.connect(server.dsn("postgres", user))
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


async def open_room(project: postgres.Server) -> postgres_store.PostgresStore:
    """As the daemon does with the address that the dashboard shows."""
    return await postgres_store.open_store(read_address(project.dsn("postgres", "postgres"), "x"), SCHEMAS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def room(project: postgres.Server) -> AsyncIterator[postgres_store.PostgresStore]:
    store = await open_room(project)
    await room_token.settle(store, "t" * 43, by="A")
    yield store
    await store.close()


@pytest_asyncio.fixture(loop_scope="module")
async def opened(project: postgres.Server, room: postgres_store.PostgresStore) -> postgres.Server:
    """The project after its administrator has run what docs/postgres.md says."""
    section = DOCS.read_text("utf-8").partition("\n## Supabase\n")[2].partition("\n## ")[0]
    (script,) = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
    await _do(project, "postgres", "DROP FUNCTION IF EXISTS public.relay_agent_claim(jsonb)")
    await _do(project, "postgres", script)
    return project


@asynccontextmanager
async def request(project: postgres.Server, claims: dict[str, Any]) -> AsyncIterator[Any]:
    """A request of the Data API with a JWT of these claims: undone at its end, so that each test begins anew."""
    connection = await asyncpg.connect(project.dsn("postgres", "authenticator"))
    try:
        undo = connection.transaction()
        await undo.start()
        await connection.execute(
            "SELECT set_config('search_path', 'relay, public', true), set_config('role', $1, true),"
            " set_config('request.jwt.claims', $2, true), set_config('request.method', 'POST', true),"
            " set_config('request.path', '/rpc/x', true), set_config('request.headers', '{}', true),"
            " set_config('request.cookies', '{}', true), set_config('statement_timeout', '8s', true)",
            claims["role"],
            json.dumps(claims),
        )
        yield connection
        await undo.rollback()
    finally:
        connection.terminate()


async def refused(connection: Any, sql: str, *values: Any) -> bool:
    """Is the statement refused for want of a right, or of the sight of what it names?"""
    try:
        async with connection.transaction():
            await connection.execute(sql, *values)
    except (REFUSED, asyncpg.UndefinedFunctionError, asyncpg.UndefinedTableError):
        return True
    return False


async def test_the_projects_own_user_runs_relay_under_row_level_security(
    project: postgres.Server, room: postgres_store.PostgresStore
) -> None:
    assert room.rights.held and room.rights.acting and not room.notes
    async with room._open.lent(room._open.short) as connection:
        told = "SELECT current_user, session_user, rolbypassrls FROM pg_roles WHERE rolname = current_user"
        assert tuple(await connection.fetchrow(told)) == ("relay_service", "postgres", False)
    # A second start finds all as it is.
    again = await open_room(project)
    assert again.rights.held
    await again.close()


@pytest.mark.parametrize("role", ["anon", "authenticated", "service_role"])
async def test_the_data_api_reaches_nothing_before_it_is_let_in(
    project: postgres.Server, room: postgres_store.PostgresStore, role: str
) -> None:
    # Other tests of this module let it in, for good.
    await _do(project, "postgres", "REVOKE relay_agent FROM authenticated")
    async with request(project, {**ANN, "role": role}) as asked:
        for table in (
            "events",
            "room_token",
            "api_keys",
            "page_sessions",
            "sign_in_links",
            "schema_migrations",
        ):
            assert await refused(asked, f"SELECT * FROM relay.{table}"), table
        assert await refused(asked, "SELECT relay.relay_join()")
        assert await refused(asked, "SELECT relay.relay_secure()")


async def test_a_signed_in_user_is_the_agent_that_the_jwt_names(opened: postgres.Server) -> None:
    async with request(opened, ANN) as asked:
        assert tuple(await asked.fetchrow("SELECT relay_me(), relay_my_session()")) == ("8c1d", "s-ann")
        assert await asked.fetchval("SELECT relay_join() > 0")
        assert await asked.fetchval("SELECT array_agg(agent_id) FROM agent_sessions") == ["8c1d"]
    async with request(opened, {**ANN, "agent_id": "ANN"}) as asked:
        assert await asked.fetchval("SELECT relay_me()") == "ANN"
    # No setting speaks over the claims, nor does what users write about themselves.
    async with request(opened, {**BOB, "user_metadata": {"agent_id": "ANN"}}) as asked:
        await asked.execute(
            "SELECT set_config('relay.agent_id', 'ANN', true), set_config('relay.session_id', 'x', true)"
        )
        assert tuple(await asked.fetchrow("SELECT relay_me(), relay_my_session()")) == ("77aa", "s-bob")


async def test_a_signed_in_user_reads_what_is_shared_and_writes_by_functions_alone(
    opened: postgres.Server, room: postgres_store.PostgresStore
) -> None:
    owner = await asyncpg.connect(opened.dsn("postgres"), server_settings={"search_path": "relay"})
    await owner.execute(
        "DELETE FROM work_queue WHERE id = 't';"
        " INSERT INTO work_queue (id, number, task_type, task_description, rank, status, created_by, created_at,"
        " updated_at) VALUES ('t', 1, 'x', 'x', 1, 'pending', 'room', 1, 1)"
    )
    await owner.close()
    async with request(opened, ANN) as asked:
        assert await asked.fetchval("SELECT count(*) FROM work_queue") == 1
        for secret in (
            "room_token",
            "api_keys",
            "page_sessions",
            "sign_in_links",
            "agent_logins",
            "settings",
        ):
            assert await refused(asked, f"SELECT * FROM {secret}"), secret
        for write in (
            "UPDATE work_queue SET status = 'completed' WHERE id = 't'",
            "INSERT INTO agent_logins (login, agent_id) VALUES ('authenticator', 'ANN')",
            "DELETE FROM events WHERE pos > 0",
            "SET LOCAL ROLE relay_service",
            "SET LOCAL ROLE postgres",
            "SELECT relay_secure()",
        ):
            assert await refused(asked, write), write
        await asked.execute("SELECT relay_join()")
        assert await asked.fetchval("SELECT outcome FROM relay_claim()") == "claimed"
        assert await asked.fetchval("SELECT claimed_by FROM work_queue") == "8c1d"
        await asked.execute("SELECT set_config('request.jwt.claims', $1, true)", json.dumps(BOB))
        assert await asked.fetchval("SELECT outcome FROM relay_complete('t')") == "general", "another's claim"


async def test_a_jwt_of_nobody_gets_nothing(opened: postgres.Server) -> None:
    for role in ("anon", "service_role"):
        async with request(opened, {"role": role, "iss": "supabase"}) as asked:
            for table in ("events", "room_token", "work_queue"):
                assert await refused(asked, f"SELECT * FROM relay.{table}"), (role, table)
            assert await refused(asked, "SELECT relay.relay_join()"), role
    async with request(opened, {"role": "authenticated", "sub": "8c1d"}) as asked:
        assert await refused(asked, "SELECT relay_join()"), "without a session it is nobody"
        assert await asked.fetchval("SELECT count(*) FROM memory_working") == 0


async def test_the_hook_takes_the_agent_from_what_only_an_administrator_writes(
    opened: postgres.Server,
) -> None:
    auth = await asyncpg.connect(opened.dsn("postgres", "supabase_auth_admin"))
    try:

        async def claims(told: dict[str, Any]) -> dict[str, Any]:
            event = json.dumps({"user_id": "8c1d", "claims": {"sub": "8c1d", **told}})
            made = json.loads(await auth.fetchval("SELECT public.relay_agent_claim($1)", event))
            assert made["user_id"] == "8c1d"
            return dict(made["claims"])

        named = await claims({"app_metadata": {"agent_id": "ANN"}, "user_metadata": {"agent_id": "EVE"}})
        assert named["agent_id"] == "ANN"
        for told in ({"app_metadata": {}}, {}, {"app_metadata": {"agent_id": ""}}, {"agent_id": "EVE"}):
            assert "agent_id" not in await claims(told)
    finally:
        await auth.close()
    async with request(opened, ANN) as asked:
        assert await refused(asked, "SELECT public.relay_agent_claim('{}')")

"""A hostile login of the agents' role: each way to break what the room promises, tried."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tests import postgres
from tests.engines import SCHEMAS

pytestmark = pytest.mark.asyncio(loop_scope="module")
REFUSED = asyncpg.InsufficientPrivilegeError
#: Take a file as relay does: agent, session, path.
TAKE = """
SELECT outcome, (lock).agent_id, (lock).fencing_token FROM relay.relay_acquire_lock($1, $2, false, 1800, 1800, 'path',
  $3, $3, jsonb_build_array(jsonb_build_object('names', string_to_array($3, '/'), 'file', false)), ARRAY['src', $3],
  ARRAY['', 'src', $3], $3 || '/', $3, $3 || '0', 'exclusive', 1800, NULL, true)
"""


@asynccontextmanager
async def undone(connection: Any) -> AsyncIterator[None]:
    undo = connection.transaction()
    await undo.start()
    try:
        yield
    finally:
        await undo.rollback()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def owner() -> AsyncIterator[Any]:
    """The owner's connection, in a room with a task, a lock of bob's, and a login of eve's."""
    server = postgres.server()
    name = server.new_database(SCHEMAS)
    connection = await asyncpg.connect(server.dsn(name), server_settings={"search_path": "relay"})
    await connection.execute(
        """
        DO $$ BEGIN CREATE ROLE eve LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
        DO $$ BEGIN CREATE ROLE authenticator LOGIN NOINHERIT; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
        GRANT relay_agent TO eve, authenticator;
        """
    )
    await connection.execute(f'GRANT CREATE, TEMP ON DATABASE "{name}" TO eve')
    await connection.execute(
        "INSERT INTO work_queue (id, number, task_type, task_description, rank, status, created_by, created_at,"
        " updated_at) VALUES ('t', 1, 'x', 'x', 1, 'pending', 'bob', 1, 1)"
    )
    await connection.execute(
        "SELECT set_config('relay.agent_role', '', false), set_config('relay.agent_id', 'bob', false),"
        " set_config('relay.session_id', 's2', false)"
    )
    await connection.execute("SELECT relay_join()")
    assert await connection.fetchval(TAKE, "bob", "s2", "src/held.py") == "acquired"
    yield connection
    await connection.close()
    server.drop_database(name)


@asynccontextmanager
async def login(owner: Any, user: str, **settings: str) -> AsyncIterator[Any]:
    name = await owner.fetchval("SELECT current_database()")
    connection = await asyncpg.connect(postgres.server().dsn(name, user), server_settings=settings)
    try:
        yield connection
    finally:
        await connection.close()


BY_HAND = {
    "a task is completed without a claim": "UPDATE relay.work_queue SET status = 'completed'",
    "a task is claimed by hand": (
        "UPDATE relay.work_queue SET status = 'claimed', claimed_by = 'eve', claimed_session = 'login:eve', fence = 9"
    ),
    "a lock on a held path, of any token": (
        "INSERT INTO relay.file_locks (key, kind, agent_id, session_id, path, mode, fencing_token, acquired_at,"
        " renewed_at, expires_at, shape) VALUES ('src/held.py', 'path', 'eve', 'login:eve', 'src/held.py',"
        " 'exclusive', 999999, 1, 1, 9e9, '[]')"
    ),
    # By no function either: which file a path means, SQL cannot see.
    "a lock on a path that is not followed": (
        TAKE.replace("$1", "'eve'").replace("$2", "'login:eve'").replace("$3", "'lib/held.py'")
    ),
    "a lock's lease without end": "UPDATE relay.file_locks SET expires_at = 9e9",
    "another's lock is freed": "DELETE FROM relay.file_locks",
    "a counter that nobody has": "SELECT relay.relay_next_number('mine')",
    "a token from the counter": "SELECT relay.relay_next_number('fence')",
    "a counter is set": "INSERT INTO relay.counters VALUES ('fence', 1000000) ON CONFLICT (name) DO NOTHING",
    "an event that did not happen": "SELECT relay.relay_append_event('lock.acquired', 'login:eve', 'eve')",
    "a lane is forged": (
        "INSERT INTO relay.lanes (session, lane, seq, head, clock) VALUES ('login:eve', 'eve', 9, '', '{}')"
    ),
    "a session without end": (
        "INSERT INTO relay.agent_sessions VALUES ('eve', 'login:eve', 'x', 'given', 1, 1, 9e9)"
    ),
    "a message without an event": (
        "INSERT INTO relay.messages (id, number, speaker, kind, body) VALUES ('x', 9, 'eve', 'agent', 'x')"
    ),
    "a function as another": (
        "SELECT relay.relay_release_lock('bob', 's2', true, 1, 1, 'path', 'src/held.py', NULL, true)"
    ),
    "relay's own role": "SET ROLE relay_service",
    "the role of relay's work for an agent": "SET ROLE relay_acting",
    "who a login is": "INSERT INTO relay.agent_logins VALUES ('eve', 'bob', 's2')",
    "the rights anew": "SELECT relay.relay_secure()",
    "a table for all": "CREATE TABLE relay.mine (x integer)",
}


@pytest.mark.parametrize("way", BY_HAND)
async def test_what_an_agent_cannot_do(owner: Any, way: str) -> None:
    async with login(owner, "eve") as eve, undone(eve):
        with pytest.raises(REFUSED):
            await eve.execute(BY_HAND[way])
    # Nor by the role alone, with a name that it sets itself.
    if not BY_HAND[way].startswith(("SET ROLE", "CREATE")):
        async with undone(owner):
            await owner.execute("SET LOCAL ROLE relay_agent; SET LOCAL relay.agent_id = 'eve'")
            await owner.execute("SET LOCAL relay.session_id = 'login:eve'")
            with pytest.raises(REFUSED):
                await owner.execute(BY_HAND[way])


async def test_who_asks_is_the_login_whatever_it_says(owner: Any) -> None:
    claims = json.dumps({"agent_id": "bob", "session_id": "s2"})
    settings = {"relay.agent_id": "bob", "relay.session_id": "s2", "request.jwt.claims": claims}
    async with login(owner, "eve", **settings) as eve:
        asked = "SELECT relay.relay_me(), relay.relay_my_session()"
        assert tuple(await eve.fetchrow(asked)) == ("eve", "login:eve")
        await eve.execute("SET ROLE relay_agent")
        assert tuple(await eve.fetchrow(asked)) == ("eve", "login:eve")
        assert (await eve.fetchrow("SELECT outcome FROM relay.relay_unlock('src/held.py')"))[0] == "general"
    assert await owner.fetchval("SELECT count(*) FROM file_locks WHERE agent_id = 'bob'") == 1
    # A gateway's claims count, since it has checked them; without, nobody asks.
    async with login(owner, "authenticator", **settings) as gateway:
        await gateway.execute("SET ROLE relay_agent")
        assert tuple(await gateway.fetchrow(asked)) == ("bob", "s2")
        await gateway.execute("RESET request.jwt.claims; SET request.jwt.claims = ''")
        assert tuple(await gateway.fetchrow(asked)) == (None, None)
        with pytest.raises(REFUSED, match="nobody asks"):
            await gateway.execute("SELECT relay.relay_join()")
    async with undone(owner):
        await owner.execute("INSERT INTO agent_logins VALUES ('eve', 'EVA', 'desk')")


async def test_an_agent_works_by_functions_that_keep_what_the_room_promises(owner: Any) -> None:
    async with login(owner, "eve") as eve:
        await eve.execute("SELECT relay.relay_join()")
        taken = await owner.fetchrow(TAKE, "eve", "login:eve", "src/eve.py")
        assert taken[:2] == ("acquired", "eve")
        freed = "SELECT outcome FROM relay.relay_unlock('src/eve.py', $1)"
        assert await eve.fetchval(freed, taken[2] + 1) == "general"
        assert await eve.fetchval(freed, taken[2]) == "released"

        done = "SELECT outcome FROM relay.relay_complete('t')"
        assert await eve.fetchval(done) == "general"  # nobody's
        assert await eve.fetchval("SELECT outcome FROM relay.relay_claim()") == "claimed"
        assert await eve.fetchval(done) == "done"
        assert await eve.fetchval(done) == "general"
        told = await eve.fetch("SELECT type FROM relay.events WHERE lane = 'eve' ORDER BY pos")
    assert [row["type"] for row in told] == [
        "lock.acquired", "lock.released", "task.changed", "task.changed",
    ]  # fmt: skip


async def test_no_search_path_and_no_temporary_thing_stands_in_for_ours(owner: Any) -> None:
    async with login(owner, "eve") as eve:
        await eve.execute(
            """
            CREATE SCHEMA evil;
            CREATE FUNCTION evil.current_setting(text, boolean) RETURNS text LANGUAGE sql AS $$ SELECT 'bob' $$;
            CREATE FUNCTION evil.relay_asking(OUT agent text, OUT session text) LANGUAGE sql
              AS $$ SELECT 'bob', 's2' $$;
            CREATE FUNCTION evil.relay_next_number(text) RETURNS bigint LANGUAGE sql AS $$ SELECT 1::bigint $$;
            CREATE TEMP TABLE agent_logins (login text, agent_id text, session_id text);
            INSERT INTO agent_logins VALUES ('eve', 'bob', 's2');
            CREATE TEMP TABLE file_locks (LIKE relay.file_locks);
            CREATE TEMP TABLE agent_sessions (LIKE relay.agent_sessions);
            CREATE TEMP TABLE pg_roles (rolname name, oid oid);
            SET search_path = pg_temp, evil, pg_catalog, relay;
            """
        )
        assert tuple(await eve.fetchrow("SELECT relay.relay_me(), relay.relay_my_session()")) == (
            "eve",
            "login:eve",
        )
        await eve.execute("SELECT relay.relay_join()")
        assert await owner.fetchval(TAKE, "eve", "login:eve", "src/other.py") == "acquired"
        freed = "SELECT outcome, (lock).agent_id FROM relay.relay_unlock($1)"
        assert tuple(await eve.fetchrow(freed, "src/held.py")) == ("general", None)
        assert tuple(await eve.fetchrow(freed, "src/other.py")) == ("released", "eve")
        assert await eve.fetchval("SELECT array_agg(path) FROM relay.file_locks") == ["src/held.py"]
        await eve.execute("DROP SCHEMA evil CASCADE")


async def test_what_an_agent_may_call_names_its_schema(owner: Any) -> None:
    loose = await owner.fetch(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'relay'::regnamespace AND prosqlbody IS NULL"
        " AND proname <> 'relay_now' AND (prosecdef OR has_function_privilege('relay_agent', oid, 'EXECUTE'))"
        " AND NOT coalesce(array_to_string(proconfig, ','), '') LIKE '%search_path=relay, pg_temp%'"
    )
    assert [row[0] for row in loose] == []

"""Steps of the rights that are applied together set them once, and as well as one after the other."""

from __future__ import annotations

import asyncpg
import pytest

from relay.app.wiring.schema import SCHEMAS
from relay.store.postgres import migrate, store
from relay.store.postgres.address import read_address
from tests import postgres

#: All that the rights consist of.
RIGHTS = (
    "SELECT * FROM pg_policies WHERE schemaname = 'relay' ORDER BY tablename, policyname",
    "SELECT relname, relkind, relacl::text, relrowsecurity, relforcerowsecurity FROM pg_class "
    "WHERE relnamespace = 'relay'::regnamespace ORDER BY relname",
    "SELECT oid::regprocedure::text AS name, proacl::text, prosecdef, proconfig, prosrc FROM pg_proc "
    "WHERE pronamespace = 'relay'::regnamespace ORDER BY 1",
    "SELECT nspacl::text FROM pg_namespace WHERE nspname = 'relay'",
    "SELECT wing, version, name, sha256 FROM relay.schema_migrations ORDER BY wing, version",
)


async def _rights(owner: str) -> list[list[tuple[object, ...]]]:
    """Of a new room whose owner is no superuser."""
    server = postgres.server()
    name = server.new_database()
    server.own(name, owner, "CREATEROLE")
    try:
        opened = await store.open_store(read_address(server.dsn(name, owner), "the test"), SCHEMAS)
        await opened.close()
        connection = await asyncpg.connect(server.dsn(name))
        try:
            return [[tuple(row) for row in await connection.fetch(asked)] for asked in RIGHTS]
        finally:
            await connection.close()
    finally:
        server.drop_database(name)


async def test_set_once_they_are_what_they_are_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    once = await _rights("relay_room")
    monkeypatch.setattr(migrate, "securing_once", list)
    assert await _rights("relay_room") == once
    assert len(once[0]) > 200


def test_only_the_last_that_asks_for_it_sets_them() -> None:
    ask, tell = "SELECT relay_secure();", "DO $$ BEGIN PERFORM relay_secure(); END $$;"
    made = "CREATE FUNCTION relay_secure() RETURNS boolean"
    assert migrate.securing_once([f"{made}; {ask}", tell, "SELECT 1;", ask, made]) == [
        f"{made}; ",
        "DO $$ BEGIN  END $$;",
        "SELECT 1;",
        ask,
        made,
    ]
    assert migrate.securing_once(["SELECT 1;"]) == ["SELECT 1;"] and migrate.securing_once([]) == []

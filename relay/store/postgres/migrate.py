"""The schema of a PostgreSQL database: each wing's migrations, applied once.

Invariant: a wing's steps are one transaction under the room's lock. Half a schema is never seen, a step that fails
leaves nothing, and of several processes that start at once one does the work.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg

from relay.store.ports import Migration, StoreError, schema_id, steps_to_apply
from relay.store.postgres.query import DIALECT

#: All policies and grants anew, which many steps of access/rights ask for. What the last of several that are applied
#: together sets is all that stays, and each is a sixth of a second of the server's.
_SECURE = re.compile(r"\b(?:PERFORM|SELECT) relay_secure\(\);")
_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
  wing text COLLATE "C" NOT NULL, version integer NOT NULL, name text COLLATE "C" NOT NULL,
  sha256 text COLLATE "C" NOT NULL,
  applied_at text COLLATE "C" NOT NULL DEFAULT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
  PRIMARY KEY (wing, version))
"""


async def is_migrated(connection: Any, schema: str) -> bool:
    """Whether there are tables of ours."""
    migrated: bool = await connection.fetchval(
        "SELECT to_regclass($1) IS NOT NULL", f"{schema}.schema_migrations"
    )
    return migrated


async def migrate(connection: Any, schema: str, wings: Sequence[Path], lock: int, place: str) -> None:
    """Apply what the database lacks. Raises StoreError: what failed, and what to do."""
    # Most starts find nothing to do: they need no lock, and no right to make tables.
    if not await _missing(connection, schema, wings):
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1, hashtext($2))", lock, schema)
        await _make_schema(connection, schema, place)
        await connection.execute(_TABLE)
    for folder in wings:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1, hashtext($2))", lock, schema)
            steps = await _missing(connection, schema, [folder])
            for step, text in zip(steps, securing_once([step.sql for step in steps]), strict=True):
                await _apply(connection, step, text, place)
    # The plans of this connection are of the empty schema. Other connections notice the change by themselves.
    await connection.reload_schema_state()


def securing_once(texts: Sequence[str]) -> list[str]:
    """The steps' statements, of which only the last that sets the rights anew does so. Pure."""
    last = max((at for at, text in enumerate(texts) if _SECURE.search(text)), default=0)
    return [_SECURE.sub("", text) if at < last else text for at, text in enumerate(texts)]


async def _missing(connection: Any, schema: str, wings: Sequence[Path]) -> list[Migration]:
    applied: dict[str, dict[int, str]] = {}
    if await is_migrated(connection, schema):
        for row in await connection.fetch("SELECT wing, version, sha256 FROM schema_migrations"):
            applied.setdefault(row["wing"], {})[row["version"]] = row["sha256"]
    return [
        step
        for folder in wings
        for step in steps_to_apply(folder, DIALECT, applied.get(schema_id(folder), {}))
    ]


async def _make_schema(connection: Any, schema: str, place: str) -> None:
    # CREATE SCHEMA IF NOT EXISTS asks for the right to make one even where there is one.
    if await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", schema):
        return
    try:
        await connection.execute(f'CREATE SCHEMA "{schema}"')
    except asyncpg.InsufficientPrivilegeError:
        raise StoreError(
            f"this user may not make the schema {schema!r} in {place}. Let its owner do it: "
            f"CREATE SCHEMA {schema} AUTHORIZATION <this user>"
        ) from None


async def _apply(connection: Any, step: Migration, text: str, place: str) -> None:
    try:
        await connection.execute(text)
    except asyncpg.PostgresError as error:
        raise StoreError(
            f"migration {step.wing} {step.version} ({step.name}) failed on {place}: {error.args[0]}. Nothing of it "
            "was kept; correct the cause (rights, a table of the same name) and start again"
        ) from error
    await connection.execute(
        "INSERT INTO schema_migrations (wing, version, name, sha256) VALUES ($1, $2, $3, $4)",
        step.wing,
        step.version,
        step.name,
        step.digest,
    )

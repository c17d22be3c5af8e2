"""The schema of a SQLite database: each wing's migrations, applied once.

Invariant: half a schema is never seen; processes that open at once wait for each other's turn.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from relay.store.ports import StoreError, schema_id, steps_to_apply
from relay.store.sqlite.transaction import DIALECT, begin

_MIGRATIONS_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
  wing TEXT NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL, sha256 TEXT NOT NULL,
  applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (wing, version))
"""


def migrate(connection: sqlite3.Connection, wings: list[Path], busy_timeout_s: float) -> None:
    """Apply what the database lacks of these wings' steps.

    Raises StoreError when a newer relay wrote it or an applied step was edited, StoreBusy when it stays locked.
    """
    for folder in wings:
        # One transaction a wing: half a schema is never seen, and a second process waits its turn here.
        begin(connection, busy_timeout_s)
        try:
            connection.execute(_MIGRATIONS_TABLE)
            applied = {
                row["version"]: row["sha256"]
                for row in connection.execute(
                    "SELECT version, sha256 FROM schema_migrations WHERE wing = ?", (schema_id(folder),)
                )
            }
            for step in steps_to_apply(folder, DIALECT, applied):
                for statement in _statements(step.sql):
                    connection.execute(statement)
                connection.execute(
                    "INSERT INTO schema_migrations (wing, version, name, sha256) VALUES (?, ?, ?, ?)",
                    (step.wing, step.version, step.name, step.digest),
                )
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _statements(sql: str) -> Iterable[str]:
    pending = ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip() and not all(line.startswith("--") for line in pending.split("\n") if line.strip()):
        raise StoreError(f"a migration ends in an unfinished statement: {pending.strip()[:80]!r}")

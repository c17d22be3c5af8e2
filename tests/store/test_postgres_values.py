"""The pure parts of the PostgreSQL store: statements, values, addresses, errors."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from relay.store.ports import StoreError
from relay.store.postgres.address import find_address, read_address
from relay.store.postgres.errors import (
    PostgresAway,
    PostgresFault,
    PostgresLost,
    Retry,
    cannot_connect,
    translated,
)
from relay.store.postgres.query import bends, changed_rows, translate
from relay.store.postgres.server import ServerSettings, check_pooler


@pytest.mark.parametrize(
    ("text", "made", "names"),
    [
        ("SELECT 1", "SELECT 1", ()),
        ("SELECT :a, :b, :a", "SELECT $1, $2, $1", ("a", "b")),
        ("SELECT :ids::json, x::text", "SELECT $1::json, x::text", ("ids",)),
        ("SELECT ':no', ':it''s', :x", "SELECT ':no', ':it''s', $1", ("x",)),
        (r"SELECT E'\':no', :x", r"SELECT E'\':no', $1", ("x",)),
        ('SELECT ":no" -- :no\n, /* :no\n */ :x', 'SELECT ":no" -- :no\n, /* :no\n */ $1', ("x",)),
        ("DO $$ :no $$; DO $a$ :no $$ $a$; SELECT :x", "DO $$ :no $$; DO $a$ :no $$ $a$; SELECT $1", ("x",)),
        ("SELECT a[1:2], :x", "SELECT a[1:2], $1", ("x",)),
    ],
)
def test_names_become_numbers(text: str, made: str, names: tuple[str, ...]) -> None:
    found = translate(text)
    assert (found.text, found.names) == (made, names)


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("SELECT 1", False),
        ("-- why\n  select 1", False),
        ("VALUES (1)", False),
        ("/* x */ INSERT INTO t VALUES (1)", True),
        ("WITH x AS (DELETE FROM t RETURNING 1) SELECT * FROM x", True),
    ],
)
def test_what_may_write_is_known(text: str, writes: bool) -> None:
    assert translate(text).writes is writes


@pytest.mark.parametrize(
    ("kind", "value", "bent"),
    [
        ("bool", 1, True),
        ("bool", None, None),
        ("int8", 2.0, 2),
        ("int8", 2.5, 2.5),
        ("int4", True, 1),
        ("text", 3, "3"),
        ("text", True, "1"),
        ("text", "x", "x"),
        ("text", "a\0b", "a\ufffdb"),
        ("bytea", "x", b"x"),
    ],
)
def test_values_are_bent_as_columns_would(kind: str, value: object, bent: object) -> None:
    ((place, bend),) = bends(["float8", kind])
    result = bend(value)
    assert (place, result, type(result)) == (1, bent, type(bent))


@pytest.mark.parametrize(("status", "rows"), [("INSERT 0 2", 2), ("UPDATE 0", 0), ("CREATE TABLE", -1)])
def test_rows_are_counted(status: str, rows: int) -> None:
    assert changed_rows(status) == rows


@pytest.mark.parametrize(
    ("dsn", "place"),
    [
        ("postgres://ann:s3cret@db.example:5433/room", "db.example:5433/room"),
        ("postgresql://ann:s3%40cret@db/room?sslmode=require", "db/room"),
        ("postgres://ann@/room?host=/run/pg&password=s3cret", "/run/pg/room"),
        ("postgres://ann:s3cret@[::1]:5432/room", "[::1]:5432/room"),
        ("postgres:///room", "localhost/room"),
        ("postgres://ann:s3cret@db1,db2/room?target_session_attrs=primary", "db1,db2/room"),
        ("postgres://ann:s3cret@db1:5432,db2:5433/room", "db1:5432,db2:5433/room"),
    ],
)
def test_an_address_shows_where_and_no_secret(dsn: str, place: str) -> None:
    address = read_address(dsn, "here")
    assert (address.place, address.dsn) == (place, dsn)
    assert "cret" not in f"{address}{address!r}"


@pytest.mark.parametrize(
    "dsn",
    [
        "mysql://ann:s3cret@db/room",
        "host=db password=s3cret dbname=room",
        "postgres://ann:s3cret@db:port/room",
        "postgres://ann:s3cret@db1:5432,db2:port/room",
        "postgres://ann:s3cret@db/",
        "postgres://ann:s3@cret@db/room",
        "postgres://ann:s3cret@db/ro\nom",
        "postgres://[ann:s3cret@db/room",
        "postgres://ann:33/cret@db/room",
        "postgres://ann:33?cret@db/room",
        "postgres://ann:33#cret@db/room",
        "postgres://ann:s3%cret@db/room",
    ],
)
def test_a_bad_address_is_refused_without_showing_it(dsn: str) -> None:
    with pytest.raises(StoreError, match=r"RELAY_X.*postgres://USER.*`@` is %40") as refused:
        read_address(dsn, "RELAY_X")
    assert "cret" not in str(refused.value)


def test_where_the_address_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "dsn"
    with pytest.raises(StoreError, match=r"RELAY_POSTGRES_DSN.*postgres\.dsn_file"):
        find_address(None, {})
    with pytest.raises(StoreError, match="cannot be read"):
        find_address(file, {})
    file.write_text("postgres://a:s3cret@file/room\n")
    file.chmod(0o644)
    with pytest.raises(StoreError, match=f"others may read it; run: chmod 600 {file}"):
        find_address(file, {})
    file.chmod(0o600)
    assert find_address(file, {}).place == "file/room"
    assert find_address(file, {"RELAY_POSTGRES_DSN": "postgres://a@env/room"}).place == "env/room"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(StoreError, match="is not text"):
        find_address(file, {})
    os.truncate(file, 0)
    with pytest.raises(StoreError, match="is not the address"):
        find_address(file, {})


@pytest.mark.parametrize(
    ("error", "kind", "again"),
    [
        (asyncpg.DeadlockDetectedError("x"), PostgresAway, Retry.CONFLICT),
        (asyncpg.SerializationError("x"), PostgresAway, Retry.CONFLICT),
        (asyncpg.LockNotAvailableError("x"), PostgresAway, Retry.NO),
        (asyncpg.ConnectionDoesNotExistError("x"), PostgresLost, Retry.LOST),
        (asyncpg.AdminShutdownError("x"), PostgresLost, Retry.LOST),
        (
            asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress"),
            PostgresLost,
            Retry.LOST,
        ),
        (ConnectionResetError("x"), PostgresLost, Retry.LOST),
        (TimeoutError(), PostgresLost, Retry.LOST),
        (asyncpg.InterfaceError("connection is closed"), PostgresLost, Retry.LOST),
        (asyncpg.DiskFullError("x"), PostgresAway, Retry.NO),
        (asyncpg.UniqueViolationError("x"), PostgresFault, Retry.NO),
        (asyncpg.DataError("x"), PostgresFault, Retry.NO),
    ],
)
def test_errors_of_a_statement(error: BaseException, kind: type, again: Retry) -> None:
    fault = translated(error, "db/room")
    assert (type(fault), fault.again) == (kind, again)
    assert "db/room" in str(fault)


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (asyncpg.InvalidPasswordError('user "ann"'), PostgresFault, "name and password"),
        (asyncpg.InvalidCatalogNameError("x"), PostgresFault, "no such database"),
        (asyncpg.InvalidAuthorizationSpecificationError("x"), PostgresFault, "pg_hba.conf"),
        (asyncpg.InsufficientPrivilegeError("x"), PostgresFault, "GRANT CONNECT"),
        (asyncpg.ObjectNotInPrerequisiteStateError("x"), PostgresFault, "ALLOW_CONNECTIONS"),
        (asyncpg.UndefinedObjectError("s3cret"), PostgresFault, "does not know a setting"),
        (asyncpg.ProtocolViolationError("s3cret"), PostgresFault, "ignore_startup_parameters"),
        (asyncpg.InvalidParameterValueError("s3cret"), PostgresFault, "SQLSTATE 22023"),
        (
            ssl.SSLError(1, "CERTIFICATE_VERIFY_FAILED"),
            PostgresFault,
            "TLS failed (CERTIFICATE_VERIFY_FAILED)",
        ),
        (ConnectionError("rejected SSL upgrade"), PostgresFault, "offers no TLS"),
        (asyncpg.CannotConnectNowError("x"), PostgresLost, "cannot be reached (it is starting or stopping)"),
        (asyncpg.TooManyConnectionsError("x"), PostgresAway, "max_connections"),
        (ConnectionRefusedError(111, "Connect call failed s3cret"), PostgresLost, "Connection refused"),
        (TimeoutError(), PostgresLost, "no answer in time"),
        (asyncpg.ClientConfigurationError("s3cret"), PostgresFault, "check its parameters"),
        (ValueError("s3cret"), PostgresFault, "check its parameters"),
    ],
)
def test_errors_of_a_connection(error: BaseException, kind: type, told: str) -> None:
    fault = cannot_connect(error, "db/room")
    assert type(fault) is kind
    assert told in str(fault)
    assert "s3cret" not in str(fault)


def test_a_server_that_no_room_can_live_in() -> None:
    for found, told in (
        (ServerSettings(140000, "UTF8"), ""),
        (ServerSettings(180004, "UTF8"), ""),
        (ServerSettings(130016, "UTF8"), "is PostgreSQL 13.16; relay needs 14 or newer"),
        (ServerSettings(150018, "LATIN1"), "ENCODING 'UTF8'"),
        (ServerSettings(150018, "SQL_ASCII"), "ENCODING 'UTF8'"),
        (ServerSettings(150018, "UTF8", standby=True, read_only=True), "target_session_attrs=primary"),
        (ServerSettings(150018, "UTF8", read_only=True), "default_transaction_read_only = off"),
    ):
        wrong = found.unfit("db/room")
        assert told in wrong
        assert bool(wrong) is bool(told)


class Pooled:
    """A client's connection to a pooler: each transaction gets the next of the server's processes."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = iter(pids)

    async def fetchval(self, _sql: str) -> int:
        return next(self._pids)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        yield


@pytest.mark.parametrize(
    ("one", "other", "refused"),
    # The last two at a later look: others use the pooler meanwhile.
    [
        ([7] * 21, [8] * 20, False),
        ([7], [7], True),
        ([7, 9], [8], True),
        ([7, 7], [8, 7], True),
        ([7, 7, 9], [8, 8], True),
    ],
)
async def test_a_pooler_that_shares_connections_is_refused(
    one: list[int], other: list[int], refused: bool
) -> None:
    told = pytest.raises(StoreError, match="session mode") if refused else contextlib.nullcontext()
    with told:
        await check_pooler(Pooled(one), Pooled(other), "db/room")

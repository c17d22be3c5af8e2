"""What a failure of the store means: made by real faults of real files, and by what a server says."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from relay.faces.failures import store_failed
from relay.faces.http.requests.errors import refusal
from relay.log import events
from relay.store.failures import trouble_of
from relay.store.ports import AwaitedOutside, StoreBusy, StoreError
from relay.store.postgres.errors import CommitUnknown, PostgresAway, PostgresFault, Retry
from relay.store.sqlite.store import open_store


async def fault_of_opening(path: Path) -> BaseException:
    with pytest.raises(StoreError) as failed:
        await open_store(path, [events.FOLDER], busy_timeout_s=0.05)
    return failed.value


async def test_what_stays_broken_is_not_called_busy(tmp_path: Path) -> None:
    garbage, folder, newer, full = (tmp_path / name for name in ("garbage", "folder", "newer", "full"))
    garbage.write_bytes(b"no database" * 1000)
    folder.mkdir()
    store = await open_store(newer, [events.FOLDER])
    await store.close()
    with closing(sqlite3.connect(newer)) as connection, connection:
        connection.execute("UPDATE schema_migrations SET version = 99 WHERE version = 1")
    for path, fix in ((garbage, "healthcheck.sh"), (folder, "right to read"), (newer, "healthcheck.sh")):
        error = await fault_of_opening(path)
        told = store_failed(error)
        assert told is not None and told.code == "unavailable", (path.name, error)
        assert "Trying again does not help" in told.fix and fix in told.fix, (path.name, told.fix)
        response = refusal(error)
        assert response is not None and response.status == 503 and "Retry-After" not in response.headers
    assert "newer relay" in str(store_failed(await fault_of_opening(newer)))
    with closing(sqlite3.connect(full, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("PRAGMA max_page_count = 3")
        with pytest.raises(sqlite3.OperationalError) as no_room:
            connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
        told = store_failed(no_room.value)
        assert told is not None and told.code == "unavailable" and "Free space" in told.fix
        # Held by another for too long: that passes.
        connection.execute("BEGIN IMMEDIATE")
        with closing(sqlite3.connect(full, timeout=0)) as other, pytest.raises(sqlite3.Error) as held:
            other.execute("INSERT INTO t VALUES (1)")
        told = store_failed(held.value)
        assert told is not None and told.code == "busy" and "Try again" in told.fix
        # A statement that is wrong is relay's fault, and no failure of the store.
        with pytest.raises(sqlite3.Error) as wrong:
            connection.execute("SELECT nothing FROM t")
        assert store_failed(wrong.value) is None


def test_what_a_server_says() -> None:
    for error, passes in (
        (StoreBusy("held"), True),
        (PostgresAway("lost", "", Retry.LOST), True),
        (PostgresAway("starting", "57P03"), True),
        (PostgresAway("no space left", "53100"), False),
        (PostgresFault("not let in", "28P01"), False),
        (PostgresFault("no such database", "3D000"), False),
        (CommitUnknown("kept, or not", "08006"), False),
        (PostgresFault("refused a statement", "42601"), None),
        (AwaitedOutside("slept"), None),
        (OSError(errno.ENOSPC, "full"), False),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), True),
        (ValueError("what"), None),
    ):
        told = trouble_of(error)
        assert (None if told is None else told.passes) is passes, error
    told = trouble_of(CommitUnknown("kept, or not"))
    assert told is not None and told.fix.startswith("Check whether it was done")

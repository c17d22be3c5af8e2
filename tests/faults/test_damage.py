"""A damaged database, and a token that is gone: the room says what is wrong and what to do, and no command ends in a
traceback."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from relay.app.health.check import examine
from tests.outside import Outside, agent, eventually, room, settings

pytestmark = pytest.mark.faults


def _damage(runtime: Path, table: str, *, root: bool) -> None:
    """Write over a page of a table: its root, or one of its leaves."""
    path = runtime / "events.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        if root:
            (page,) = connection.execute(
                "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
            ).fetchone()
        else:
            pages = connection.execute(
                "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path", (table,)
            ).fetchall()
            page = pages[len(pages) // 2][0]
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xde\xad\xbe\xef" * (size // 4))


async def _checks(one: Outside, *words: str) -> dict[str, Any]:
    looked = await one.script("healthcheck.sh", "--json", *words)
    return {check["name"]: check for check in json.loads(looked.out)["checks"]}


async def _room_with(one: Outside, entries: int = 40) -> None:
    await one.start()
    for number in range(entries):
        await one.post(f"{number} {'x' * 2000}")
    assert (await one.script("stop.sh")).code == 0


async def test_a_damaged_page_is_named_by_the_room_and_by_every_command(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings(agent("ECHO"))) as one:
        await _room_with(one)
        _damage(one.runtime, "messages", root=False)

        verified = await one.relay("verify")
        assert verified.code == 1
        assert "the table messages is damaged" in verified.out
        assert "Traceback" not in verified.all
        told = json.loads((await one.relay("verify", "--json")).out)
        assert not told["ok"] and "messages" in told["damage"][0]
        database = (await _checks(one))["database"]
        assert database["status"] == "failed" and "the table messages is damaged" in database["detail"]
        assert "docs/service.md" in database["fix"]

        await one.start()

        async def said() -> bool:
            async with one.session.get(f"{one.url}/health", headers={"X-API-Key": one.token}) as answer:
                trouble = (await answer.json()).get("trouble", "")
                return answer.status == 503 and "the table messages is damaged" in trouble

        await eventually(said, "the health to say it")
        assert "the table messages is damaged" in (await _checks(one))["daemon"]["detail"]


@pytest.mark.parametrize("table", ["events", "schema_migrations"])
async def test_a_daemon_that_cannot_start_on_a_damaged_database_says_so(tmp_path: Path, table: str) -> None:
    async with room(tmp_path / "room", settings(agent("ECHO"))) as one:
        await _room_with(one, 3)
        _damage(one.runtime, table, root=True)
        started = await one.relay("run", "--foreground")
        assert started.code == 1
        assert "Traceback" not in started.all
        assert "healthcheck.sh" in started.all
        verified = await one.relay("verify")
        assert verified.code == 1 and "Traceback" not in verified.all
        assert (await _checks(one))["database"]["status"] == "failed"


async def test_a_token_that_is_gone_is_told_and_comes_back(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings()) as one:
        await one.start()
        token, path = one.token, one.runtime / "token"
        assert one.process is not None
        path.unlink()
        report = await examine(str(one.path))
        seen = {check.name: check for check in report.checks}
        # The daemon looks every other second: it may have been quicker than we.
        assert path.exists() or "token is missing" in seen["folder"].detail
        mended = await _checks(one, "--repair")
        assert mended["folder"]["status"] == "ok"
        assert path.read_text().strip() == token
        assert path.stat().st_mode & 0o777 == 0o600

        await one.script("stop.sh")
        path.unlink()
        checks = await _checks(one)
        assert checks["folder"]["status"] == "warning" and "token is missing" in checks["folder"]["detail"]
        mended = await _checks(one, "--repair")
        assert mended["folder"]["repaired"] and path.exists()


async def test_a_token_that_a_person_replaced_is_the_rooms_from_then_on(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings()) as one:
        await one.start()
        old, new = one.token, "n" * 43
        (one.runtime / "token").write_text(f"{new}\n")

        async def taken_over() -> bool:
            async with one.session.get(f"{one.url}/api/state", headers={"X-API-Key": new}) as answer:
                return answer.status == 200

        await eventually(taken_over, "the new token to be the room's")
        async with one.session.get(f"{one.url}/api/state", headers={"X-API-Key": old}) as answer:
            assert answer.status == 401


async def test_a_repair_of_a_room_that_is_well_mends_nothing(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings(agent("ECHO"))) as one:
        await one.start()
        posted = await one.post("@ECHO hello")
        await one.reply_to(posted["id"], "ECHO")
        await asyncio.sleep(0.5)  # tasks.json follows a moment later
        for _ in range(2):
            checks = await _checks(one, "--repair")
            assert [name for name, check in checks.items() if check["repaired"]] == []
        await one.script("stop.sh")
        checks = await _checks(one, "--repair")
        assert [name for name, check in checks.items() if check["repaired"]] == []

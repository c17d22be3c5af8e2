"""Imports on HTTP: the forms of a body, whose they are, and that nothing is forgotten by another."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from relay.memory.episodic.importing import BATCH
from relay.memory.episodic.keeping import REMEMBERED
from tests.engines import BOTH, all_events
from tests.faces.house import house, real_services
from tests.faces.http.test_memory import key_of
from tests.outside import eventually

pytestmark = BOTH
ONE = {"key": "a", "event_type": "fix", "summary": "never mock the clock", "at": "2023-05-08T13:56:00Z"}
TWO = {"key": "b", "event_type": "fix", "summary": "the clock of the host is wrong", "agent": "Mel"}


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"lines": [ONE, TWO, 3]}),
        json.dumps({"lines": [json.dumps(ONE), json.dumps(TWO), "{"], "name": "ann"}),
        json.dumps([ONE, TWO, None]),
        "\n".join([json.dumps(ONE), json.dumps(TWO), "{", ""]),
        "\ufeff" + "\r\n".join([json.dumps(ONE), json.dumps(TWO), "nonsense"]),
        b"\n".join([json.dumps(ONE).encode(), json.dumps(TWO).encode(), b'{"summary": "\xff"}']),
    ],
)
async def test_a_body_is_lines_in_any_form(tmp_path: Path, body: Any) -> None:
    async with house(tmp_path, services=real_services) as home:
        for counts in ((2, 0), (0, 2)):
            status, done, _ = await home.ask("POST", "/memory/import", data=body)
            assert status == 200
            assert (done["imported"], done["known"], done["merged"]) == (*counts, 0)
            assert [(line["line"], bool(line["reason"] and line["fix"])) for line in done["refused"]] == [
                (3, True)
            ]


async def test_one_line_is_a_body_too_and_too_many_are_refused(tmp_path: Path) -> None:
    async with house(tmp_path, services=real_services) as home:
        status, done, _ = await home.ask("POST", "/memory/import", data=json.dumps(ONE))
        assert (status, done["imported"]) == (200, 1)
        status, done, _ = await home.ask("POST", "/memory/import", data="\n" * 10_001)
        assert status == 400 and "10,000" in done["message"]
        status, done, _ = await home.ask("POST", "/memory/import", json={"lines": [TWO], "line": 1})
        assert status == 400 and "Unknown field" in done["message"]


async def test_what_is_kept_of_a_client_that_hangs_up_stays_and_the_same_again_brings_the_rest(
    tmp_path: Path,
) -> None:
    """It has no answer, so nothing is acknowledged; others are answered meanwhile."""
    lines = (
        {"key": f"k{number}", "event_type": "note", "summary": f"lesson {number}"} for number in range(450)
    )
    body = "\n".join(map(json.dumps, lines)).encode()
    async with house(tmp_path, services=real_services) as home:

        async def kept(least: int) -> bool:
            return len(await all_events(home.store, REMEMBERED)) >= least

        _, writer = await asyncio.open_connection(home.server.host, home.server.port)
        head = f"Host: {home.at}\r\nX-API-Key: {home.token}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(f"POST /memory/import HTTP/1.1\r\n{head}".encode() + body)
        await eventually(lambda: kept(1), "the first lines are kept")
        writer.transport.abort()
        assert (await home.ask("POST", "/memory/recall", json={"task_description": "lesson"}))[0] == 200
        _, done, _ = await home.ask("POST", "/memory/import", data=body)
        assert done["known"] >= BATCH, "a transaction is whole"
        assert (done["imported"] + done["known"], done["refused"]) == (450, [])
        assert len(await all_events(home.store, REMEMBERED)) == 450, "each is there once"


async def test_an_agent_imports_under_its_name_and_forgets_its_own_only(tmp_path: Path) -> None:
    async with house(tmp_path, services=real_services) as home:
        key, reads = await key_of(home, "CLAUDE"), await key_of(home, "CODEX", scopes=["read"])
        status, told, _ = await home.ask("POST", "/memory/import", json=[ONE], headers=reads)
        assert (status, told["error"]["code"]) == (403, "scope")
        assert (await home.ask("POST", "/memory/import", json=[ONE, TWO], headers=key))[1]["imported"] == 2
        _, found, _ = await home.ask(
            "POST", "/memory/recall", json={"task_description": "clock"}, headers=key
        )
        ids = {each["agent_id"]: each["memory_id"] for each in found}
        assert set(ids) == {"CLAUDE", "Mel"}
        for agent, memory_id in ids.items():
            status, shown, _ = await home.ask("GET", f"/memory/{memory_id}", headers=reads)
            assert (status, shown["agent_id"], shown["imported_by"]) == (200, agent, "CLAUDE")
        forget = {"memory_id": ids["Mel"]}
        status, told, _ = await home.ask("POST", "/memory/forget", json=forget, headers=key)
        assert (status, told["success"], told["reason"]) == (200, False, "not_yours")
        status, told, _ = await home.ask(
            "POST", "/memory/forget", json={"memory_id": ids["CLAUDE"]}, headers=key
        )
        assert (status, told["success"]) == (200, True)
        assert (await home.ask("POST", "/memory/forget", json=forget))[1]["success"]
        for name in (*ids.values(), "r77"):
            assert (await home.ask("GET", f"/memory/{name}"))[0] == 404
        assert (await home.ask("POST", "/memory/forget", json={"memory_id": "r77"}))[0] == 404
        assert (await home.ask("POST", "/memory/recall", json={"task_description": ""}))[1] == []

"""The database is away, or cannot be read: every route answers 503 with what it is and what to do, and none 500."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from relay.faces.http.reference.openapi import document
from relay.faces.operations.json_schema import input_schema
from relay.faces.operations.registry import OPERATIONS
from tests import postgres
from tests.git.repository import commit, git
from tests.outside import Json, Outside, agent, eventually, room, settings

pytestmark = pytest.mark.faults

#: Routes that answer without the database.
NO_DATABASE = {
    ("get", "/openapi.json"),
    ("get", "/reference"),
    ("get", "/reference.css"),
    ("get", "/metrics"),
    ("post", "/webhook/github"),  # it reads nothing before the signature is good
    ("get", "/help"),
    ("get", "/api/agents/{agent}/log"),
    ("get", "/api/permissions"),
    ("post", "/api/permissions/{request}"),
    ("post", "/api/repair"),
    ("post", "/api/sign-out"),
    ("get", "/api/worktrees"),
    ("get", "/api/worktrees/{agent}/diff"),
    ("get", "/api/worktrees/{agent}/app"),
    ("post", "/api/inbox/take"),  # no turn runs, so there is nothing to take and nothing to record
    ("post", "/api/inbox/heard"),
    ("post", "/api/guard"),  # an edit is never held up by what cannot be asked: it says so (docs/guard.md)
}
ID = "01a20440-44e3-71e8-b8c8-262a21f8a273"
#: What a request must say beside what its schema calls required.
SAID: dict[str, Json] = {
    "/locks/acquire": {"file_path": "a.py"},
    "/locks/renew": {"file_path": "a.py"},
    "/locks/explain": {"file_path": "a.py"},
    "/work/renew": {"task_id": ID},
    "/work/explain": {"task_id": ID},
    "/work/complete": {"task_id": ID},
    "/work/release": {"task_id": ID},
    "/work/needs": {"task_id": ID, "depends_on": []},
    "/work/reopen": {"task_id": ID},
    "/api/guard": {"path": "a.py"},
    "/api/review/{agent}/comments": {"comments": [{"path": "a.py", "first": 1, "text": "x"}]},
    "/api/review/{agent}/apply": {"comment": "m1.1"},
    "/api/sign-in": {},
    "/api/tasks/{number}": {"title": "x"},
    "/api/agents/{agent}": {"enabled": True},
}
MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


def value_of(schema: Json, told: Json) -> Any:
    """The least that a schema takes."""
    if "$ref" in schema:
        at: Any = told
        for step in schema["$ref"].removeprefix("#/").split("/"):
            at = at[step]
        return value_of(at, told)
    if "enum" in schema or "const" in schema:
        return (schema.get("enum") or [schema["const"]])[0]
    if "anyOf" in schema:
        return value_of(schema["anyOf"][0], told)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    match kind:
        case "array":
            return [value_of(schema.get("items") or {}, told)]
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "object":
            return {name: value_of(schema["properties"][name], told) for name in schema.get("required", ())}
    if schema.get("format") == "date-time":
        return "2026-01-01T00:00:00Z"
    return next(one for one in ("ECHO", "1", "1d", ID) if re.search(schema.get("pattern", ""), one))


async def every_route(one: Outside) -> dict[tuple[str, str], tuple[int, Any]]:
    """What each route of the document answers to the least that it takes."""
    told = document()
    answers = {}
    for path, methods in told["paths"].items():
        for method, entry in methods.items():
            query = {
                field["name"]: str(value_of(field["schema"], told))
                for field in entry["parameters"]
                if field["in"] == "query" and (field["required"] or field["name"] in ("q",))
            }
            body = entry.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            more: Json = {"params": query}
            if body is not None:
                more["json"] = {**value_of(body, told), **SAID.get(path, {})}
                if path == "/api/sign-in":
                    more["json"] = {"key": one.token}
            place = re.sub(r"{(\w+)}", lambda found: "1" if found[1] in ("number", "job") else "ECHO", path)
            async with one.session.request(
                method, f"{one.url}{place}", headers={"X-API-Key": one.token}, **more
            ) as answer:
                text = await answer.text()
                whole = "json" in answer.content_type
                answers[method, path] = answer.status, json.loads(text) if whole else text
    return answers


def check(answers: dict[tuple[str, str], tuple[int, Any]]) -> set[tuple[str, str]]:
    """Those that said 503; raises for what is no answer to an outage."""
    for route, (status, told) in answers.items():
        assert status != 500, (route, told)
        if status == 503 and route != ("get", "/health"):
            assert told["success"] is False, (route, told)
            assert told["error"]["code"] in ("cut_off", "busy", "unavailable"), (route, told)
            assert told["error"]["message"] and told["error"]["fix"], (route, told)
    return {route for route, (status, _) in answers.items() if status == 503}


async def every_tool(one: Outside) -> dict[str, Json]:
    found = {}
    for name, operation in OPERATIONS.items():
        if not operation.tool:
            continue
        schema = input_schema(operation.request)
        arguments = {field: value_of(schema["properties"][field], {}) for field in schema.get("required", ())}
        arguments |= SAID.get(operation.path, {})
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": name, "arguments": arguments},
        }
        async with one.session.post(
            f"{one.url}/mcp", headers={**MCP, "X-API-Key": one.token}, json=call
        ) as answer:
            text = await answer.text()
            assert answer.status == 200, (name, answer.status, text)
            found[name] = json.loads(text.partition("data: ")[2] or text)["result"]
    return found


@asynccontextmanager
async def on_postgres(folder: Path) -> AsyncIterator[tuple[Outside, postgres.Server]]:
    found = postgres.binaries()
    assert found is not None
    server = postgres.make_server(found)
    try:
        async with room(folder, settings(agent("ECHO"), storage="postgres")) as one:
            assert (await one.run("git", "init", "-q")).code == 0
            one.env["RELAY_POSTGRES_DSN"] = server.dsn(server.new_database())
            commit(one.folder, {"a.py": "one\n"})
            await one.start()
            yield one, server
    finally:
        server.end()


async def test_with_the_server_stopped_every_route_says_so(tmp_path: Path) -> None:
    async with on_postgres(tmp_path / "room") as (one, server):
        await one.post("@ECHO hello")

        async def has_worktree() -> bool:
            return bool((await one.get("/api/worktrees"))["worktrees"])

        await eventually(has_worktree, "a worktree")
        await one.get("/api/airspace")  # what was read once is no answer afterwards
        await asyncio.to_thread(server.stop)

        async def away() -> bool:
            return (await one.ask("GET", "/api/state"))[0] == 503

        await eventually(away, "the database to be away")

        async def cut_off() -> bool:
            try:
                async with one.socket(None):
                    return False
            except aiohttp.WSServerHandshakeError as refused:
                return refused.status == 503

        # Long before anything is due by the clock (relay/log/follow.py, POLL_S).
        async with asyncio.timeout(20):
            await eventually(cut_off, "the socket to be refused")
        before = git(one.folder, "for-each-ref")
        answers = await every_route(one)
        assert git(one.folder, "for-each-ref") == before, "a worktree was changed and nobody could record it"
        said = check(answers)
        silent = {
            route: answers[route] for route in answers if route not in said and route not in NO_DATABASE
        }
        assert set(silent) == set(), silent
        for name, result in (await every_tool(one)).items():
            if name == "help":
                continue
            assert result["isError"], (name, result)
            assert result["structuredContent"]["reason"] in ("cut_off", "busy", "unavailable"), (name, result)
        _, health = answers["get", "/health"]
        assert health["trouble"].count(str(server.folder)) == 1, health
        log = (one.runtime / "relay.log").read_text()
        assert "request failed" not in log and log.count("the database is away") == 1
        assert "the database cannot be used" not in log


async def test_with_a_database_that_cannot_be_read_no_route_answers_500(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings(agent("ECHO"))) as one:
        await one.start()
        await one.post("@ECHO hello")
        for part in ("", "-wal"):
            path = one.runtime / f"events.db{part}"
            with path.open("r+b") as file:
                file.write(b"\xde\xad\xbe\xef" * (path.stat().st_size // 4))

        async def unwell() -> bool:
            async with one.session.get(f"{one.url}/health") as answer:
                return answer.status == 503

        await eventually(unwell, "the health to say it")
        assert check(await every_route(one)) - {("get", "/health")}
        for name, result in (await every_tool(one)).items():
            if result["isError"]:
                assert result["structuredContent"]["reason"] != "internal", (name, result)
        assert "request failed" not in (one.runtime / "relay.log").read_text()

"""MCP over streamable HTTP: the official client, a real socket, real keys."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from aiohttp.test_utils import TestServer
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from relay.faces.http.app import create_app
from relay.faces.http.requests.auth import Auth, ensure_token
from relay.faces.http.requests.reader import RequestReader
from relay.faces.http.routes import mcp_once
from relay.faces.http.routes.mcp import MAX_BODY
from relay.model import Caller
from relay.store.sqlite.store import SqliteStore, open_store
from tests.engines import SCHEMAS
from tests.faces.house import settings_of
from tests.faces.mcp.mcp_house import HELLO
from tests.faces.mcp.mcp_toy import Toy
from tests.faces.memory_room import MemoryRoom

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
CONFIG = '{"agents": [{"name": "CLAUDE", "preset": "claude"}]}'


class Place:
    """A daemon's HTTP, as far as MCP needs them; `open` again is a start anew at the same port."""

    def __init__(self, folder: Path, store: SqliteStore) -> None:
        self.folder, self.store = folder, store
        self.settings = settings_of(folder, CONFIG)
        self.token = ensure_token(self.settings.current.token_path)
        self.auth = Auth(self.token, store)
        self.journal = folder / "journal"
        self.port: int | None = None

    async def open(self) -> None:
        app = create_app(
            MemoryRoom(),
            self.auth,
            RequestReader(self.settings),
            static=self.folder / "static",
            services=Toy(self.journal).services(),
        )
        self.server = TestServer(app, host="127.0.0.1", port=self.port or 0, access_log=None)
        await self.server.start_server(shutdown_timeout=2.0)
        self.port = self.server.port
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    async def close(self) -> None:
        await self.server.close()

    async def key(self, agent: str, *scopes: str) -> str:
        made = await self.auth.keys.create(Caller("ann", "s", person=True), agent, scopes=scopes or None)
        return str(made["key"])

    def client(self, key: str, *, mode: Any = "auto", **headers: str) -> Client:
        http = create_mcp_http_client({"X-API-Key": key, **headers})
        return Client(streamable_http_client(self.url, http_client=http), mode=mode)

    async def noted(self, word: str) -> None:
        async with asyncio.timeout(30):
            while not self.journal.exists() or word not in self.journal.read_text().splitlines():  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    store = await open_store(tmp_path / ".relay/events.db", SCHEMAS)
    place = Place(tmp_path, store)
    await place.open()
    try:
        yield place
    finally:
        await place.close()
        await store.close()


@pytest.mark.parametrize(
    ("mode", "spoken"), [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28"), ("auto", "2026-07-28")]
)
async def test_the_official_client(place: Place, mode: str, spoken: str) -> None:
    key = await place.key("CLAUDE")
    async with place.client(key, mode=mode, **{"X-Relay-Session": "s-1"}) as client:
        assert client.protocol_version == spoken
        assert len((await client.list_tools()).tools) == 25
        told = await client.call_tool("acquire_lock", {"file_path": "a"})
        assert told.structured_content["agent"] == "CLAUDE" and not told.is_error
        told = await client.call_tool("acquire_lock", {"file_path": "held"})
        assert told.structured_content["locked_by"] == "BEN" and not told.is_error
        assert (await client.call_tool("acquire_lock", {})).is_error
        # What HTTP takes as a field is the connection's here, and no other.
        for session, ok in (("s-1", True), ("s-2", False)):
            told = await client.call_tool("acquire_lock", {"file_path": "a", "session_id": session})
            assert told.is_error is not ok
        assert told.structured_content["reason"] == "sessions_differ"
        assert [one["session"] for one in told.structured_content["sessions"]] == ["s-1", "s-2"]
        read = await client.read_resource("locks://current")
        assert json.loads(read.contents[0].text)[0]["locked_by"] == "CLAUDE"

        # Who wants to know hears where in line it stands, each time that it changes.
        heard: list[tuple[float, str | None]] = []

        async def hear(progress: float, _total: float | None, message: str | None) -> None:
            heard.append((progress, message))

        await client.call_tool("acquire_lock", {"file_path": "line"}, progress_callback=hear)
        assert [message for _, message in heard] == ["2nd in line behind BEN.", "1st in line behind EVE."]
        assert heard[0][0] < heard[1][0]

        # A wait that its asker gives up ends here, too.
        with anyio.move_on_after(60) as wait:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "acquire_lock", {"file_path": "slow", "wait_seconds": 200})
                await place.noted("waits")
                tasks.cancel_scope.cancel()
        assert not wait.cancelled_caught
        await place.noted("cancelled")

        # The daemon starts anew under a client that stays.
        await place.close()
        await place.open()
        assert (await client.call_tool("check_locks", {})).structured_content["result"][0][
            "locked_by"
        ] == "CLAUDE"


async def test_who_may_come_in(place: Place) -> None:
    reader, ends = await place.key("EVE", "read"), await place.key("EVE")
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}

    async with aiohttp.ClientSession() as http:

        async def post(body: Any, method: str = "POST", **headers: str) -> tuple[int, str]:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            async with http.request(method, place.url, data=data, headers={**ACCEPT, **headers}) as answer:
                return answer.status, await answer.text()

        for headers, status in (
            ({}, 401),
            ({"X-API-Key": "rk_no"}, 401),
            ({"X-API-Key": reader, "Origin": "http://evil.example"}, 403),
            ({"X-API-Key": reader, "Host": "evil.example"}, 403),
            ({"X-API-Key": reader, "X-Relay-Session": "a b"}, 400),
            ({"Authorization": f"Bearer {reader}"}, 200),
            ({"X-API-Key": place.token}, 200),
        ):
            told = await post(hello, **headers)
            assert told[0] == status, (headers, told)
        key = {"X-API-Key": reader}
        assert (await post(b"", "GET", **key))[0] == 405 and (await post(b"", "DELETE", **key))[0] == 405
        assert (await post(b"{", **key))[0] == 400
        # What the SDK says in plain words is said in the form of every refusal.
        status, text = await post(hello, **key, **{"Content-Type": "text/plain"})
        assert status == 400 and json.loads(text)["error"]["code"] == "bad_request"
        assert (await post(b"x" * (MAX_BODY + 1), **key))[0] == 413
        assert (await post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **key))[0] == 202

        def call(path: str, **more: Any) -> dict[str, Any]:
            told = {"name": "acquire_lock", "arguments": {"file_path": path, **more}}
            return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": told}

        # The scope is the key's; the token speaks for the person who owns the room.
        status, text = await post(call("a"), **key)
        assert status == 200 and '"scope"' in text and '"isError":true' in text
        status, text = await post(call("a"), **{"X-API-Key": place.token})
        assert '"action":"acquired"' in text.replace("\\", "")
        # Revoked: at once.
        assert (await post(call("a"), **{"X-API-Key": ends}))[0] == 200
        await place.auth.keys.revoke(Caller("ann", "s", person=True), ends.split("_")[1])
        assert (await post(call("a"), **{"X-API-Key": ends}))[0] == 401

        # A client that goes away ends its wait; one that stays does not hold up the daemon's end.
        good = {"X-API-Key": await place.key("EVE")}
        waits = asyncio.create_task(post(call("slow", wait_seconds=200), **good))
        await place.noted("waits")
        waits.cancel()
        await place.noted("cancelled")
        place.journal.unlink()
        waits = asyncio.create_task(post(call("slow", wait_seconds=200), **good))
        await place.noted("waits")
        await place.close()
        await place.noted("cancelled")
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
        await place.open()


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_a_quick_call_is_one_json_and_a_wait_is_a_stream(place: Place, version: str) -> None:
    who = {"io.modelcontextprotocol/protocolVersion": version} if version > "2026" else {}
    who |= {f"io.modelcontextprotocol/{name}": HELLO[name] for name in ("clientInfo",) if who}
    capabilities: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {}} if who else {}
    async with aiohttp.ClientSession() as http:

        async def kind(name: str, meta: dict[str, Any], **arguments: Any) -> str:
            params = {"name": name, "arguments": arguments, "_meta": {**who, **capabilities, **meta}}
            said = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
            headers = {**ACCEPT, "X-API-Key": place.token, "MCP-Protocol-Version": version}
            if who:
                headers |= {"Mcp-Method": "tools/call", "Mcp-Name": name}
            async with http.post(place.url, json=said, headers=headers) as answer:
                text = await answer.text()
                assert answer.status == 200 and "result" in text, text
                return answer.content_type

        assert await kind("acquire_lock", {}, file_path="a") == "application/json"
        assert await kind("acquire_lock", {}, file_path="a", wait_seconds=0) == "application/json"
        # Which ones are told of on their way, and end with their client.
        told = {"progressToken": 1}
        assert await kind("acquire_lock", told, file_path="line") == "text/event-stream"
        if version < "2026":  # the later era begins a stream with its first word
            assert await kind("acquire_lock", {}, file_path="a", wait_seconds=5) == "text/event-stream"


async def test_what_is_answered_at_once_is_what_the_transport_answers(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain call does without the SDK's transport; one that is not plain gets the transport's refusal."""
    key, once = await place.key("CLAUDE"), 0
    plain = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
    good = {**plain, "params": {"name": "acquire_lock", "arguments": {"file_path": "a"}}}
    asked: list[tuple[bool, dict[str, Any], dict[str, str]]] = [
        (True, good, {}),
        (True, {**good, "id": "seven"}, {"MCP-Protocol-Version": "2025-11-25"}),
        (True, {**plain, "params": {"name": "acquire_lock", "arguments": {"file_path": "held"}}}, {}),
        (True, {**plain, "params": {"name": "acquire_lock", "arguments": {}}}, {}),
        (True, {**plain, "params": {"name": "nothing"}}, {}),
        (True, {**plain, "params": {}}, {}),
        (True, {**plain, "params": {"name": "acquire_lock", "arguments": ["a"]}}, {}),
        (False, plain, {}),
        (False, {**good, "jsonrpc": "1.0"}, {}),
        (False, {**good, "id": True}, {}),
        (False, {**good, "id": None}, {}),
        (False, good, {"MCP-Protocol-Version": "1999-01-01"}),
        (False, good, {"Accept": "text/html"}),
        (False, good, {"Content-Type": "text/plain"}),
    ]
    real = mcp_once.answer_once

    async def counted(*given: Any) -> Any:
        nonlocal once
        once += 1
        return await real(*given)

    monkeypatch.setattr(mcp_once, "answer_once", counted)
    async with aiohttp.ClientSession() as http:

        async def answers() -> list[Any]:
            told = []
            for _, body, headers in asked:
                sent = {**ACCEPT, "X-API-Key": key, **headers}
                async with http.post(place.url, data=json.dumps(body), headers=sent) as got:
                    said = await got.json()
                    told.append((got.status, got.content_type, said))
            return told

        at_once = await answers()
        assert once == sum(direct for direct, _, _ in asked)
        monkeypatch.setattr(mcp_once, "is_plain", lambda *_: False)
        assert await answers() == at_once
    assert once == sum(direct for direct, _, _ in asked)
    assert {told[0] for told, (direct, _, _) in zip(at_once, asked, strict=True) if direct} == {200}
    assert [status for status, _, _ in at_once[-3:]] == [400, 406, 400]

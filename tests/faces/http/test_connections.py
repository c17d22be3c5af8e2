"""Connections of those who say nothing, or say it wrong, or never end: they keep nobody out, and are answered."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from relay.faces.http.requests.connections import ConnectionLimiter, Seldom, raise_open_files, spoke, trust
from relay.faces.http.requests.limits import Limits
from relay.faces.http.requests.parsing import read_values
from tests.outside import eventually, room, settings

HELLO = b"GET /hello HTTP/1.1\r\nHost: x\r\n"


@dataclass
class Listening:
    port: int

    async def open(self, sent: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(sent)
        await writer.drain()
        return reader, writer

    async def ask(self, sent: bytes) -> bytes:
        reader, writer = await self.open(sent)
        try:
            return await reader.read()
        finally:
            writer.close()


@asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[Listening]:
    """A server that listens with limits on connections; a request with a key is trusted."""

    async def hello(request: web.Request) -> web.Response:
        spoke(request)
        if "X-API-Key" in request.headers:
            trust(request)
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/hello", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    assert runner.server is not None
    loop = asyncio.get_running_loop()
    factory = ConnectionLimiter(Limits(**limits)).factory(runner.server)
    listening = await loop.create_server(factory, "127.0.0.1", 0)
    try:
        yield Listening(listening.sockets[0].getsockname()[1])
    finally:
        listening.close()
        await runner.cleanup()


@pytest.mark.parametrize("sent", [b"", b"GET /hel", HELLO, HELLO + b"X-Slow: "])
async def test_who_makes_no_whole_request_in_time_is_put_out(sent: bytes) -> None:
    async with serving(header_s=0.2) as at:
        reader, writer = await at.open(sent)
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("key", [b"", b"X-API-Key: k\r\n"])
async def test_so_is_who_makes_half_of_another_one(key: bytes) -> None:
    async with serving(header_s=0.2) as at:
        reader, writer = await at.open()
        for _ in range(2):
            writer.write(HELLO)
            await asyncio.sleep(0.05)
            writer.write(key + b"\r\n")
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(0.3)  # between two it may be silent for longer
        writer.write(HELLO)
        async with asyncio.timeout(30):  # and not aiohttp's 75 s
            assert await reader.read() == b""
        writer.close()


async def test_who_has_made_one_stays(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(header_s=0.2) as at:
        reader, writer = await at.open(HELLO + b"\r\n")
        await reader.readuntil(b"hello")
        silent, other = await at.open()
        assert await silent.read() == b""  # by then the time of the first is over too
        writer.write(HELLO + b"\r\n")
        await reader.readuntil(b"hello")
        other.close()
        writer.close()


async def test_of_many_without_a_credential_the_oldest_goes_and_who_has_one_stays() -> None:
    async with serving(strangers=5, header_s=60) as at, AsyncExitStack() as stack:

        async def opened(sent: bytes) -> asyncio.StreamReader:
            reader, writer = await at.open(sent)
            stack.callback(writer.close)
            if sent:
                await reader.readuntil(b"hello")
            return reader

        trusted = await opened(HELLO + b"X-API-Key: k\r\n\r\n")
        idle = [await opened(b"") for _ in range(12)]
        late = await opened(HELLO + b"\r\n")
        for reader in idle[:8]:
            assert await reader.read() == b""
        assert not trusted.at_eof() and not late.at_eof() and not idle[-1].at_eof()


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "bad_request"),
        (b"GET /hello HTTP/9.9\r\n\r\n", 400, "bad_request"),
        (b"GET /hello HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400, "bad_request"),
        (b"GET /hello HTTP/1.1\r\nBad Header: x\r\n\r\n", 400, "bad_request"),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", 400, "bad_request"),
        (
            b"POST /hello HTTP/1.1\r\nHost: x\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nabc",
            415,
            "unsupported_encoding",
        ),
    ],
)
async def test_what_is_no_http_is_refused_in_the_usual_form_and_without_a_traceback(
    sent: bytes, status: int, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving() as at:
        head, _, body = (await at.ask(sent)).partition(b"\r\n\r\n")
    assert f" {status} ".encode() in head.splitlines()[0]
    told = json.loads(body)
    assert told["error"]["code"] == told["reason"] == code and told["error"]["fix"]
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("packed", ["br", "zstd", "compress", "gzip, br", "nonsense"])
async def test_a_body_packed_as_nothing_that_is_known_is_415(packed: str) -> None:
    from relay.faces.http.requests.errors import errors

    async def read(request: web.Request) -> web.Response:
        await read_values(request, limit=100, within_s=5)
        return web.Response()

    app = web.Application(middlewares=[errors])
    app.router.add_post("/hello", read)
    runner = web.AppRunner(app)
    await runner.setup()
    assert runner.server is not None
    factory = ConnectionLimiter(Limits()).factory(runner.server)
    listening = await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0)
    try:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/hello"
        async with (
            aiohttp.ClientSession() as client,
            client.post(url, data=b'{"a": 1}', headers={"Content-Encoding": packed}, compress=False) as told,
        ):
            assert told.status == 415
            assert (await told.json())["error"]["code"] == "unsupported_encoding"
            assert told.headers["Accept-Encoding"] == "gzip, deflate"
    finally:
        listening.close()
        await runner.cleanup()


def test_a_line_is_said_at_once_and_then_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[int] = []
    monkeypatch.setattr(
        "relay.faces.http.requests.connections.log.warning", lambda _text, times: said.append(times)
    )
    now = 100.0
    line = Seldom("x", clock=lambda: now)
    for _ in range(500):
        line.say()
    now += 61
    line.say()
    assert said == [1, 500]


def test_the_limit_of_open_files_is_raised_to_what_the_system_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
        assert raise_open_files() == min(hard, 65_536)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("files", ["256:2048", "256:256"])
async def test_a_crowd_of_idle_connections_stops_no_room(tmp_path: Path, files: str) -> None:
    async with room(tmp_path / "room", settings()) as one:
        await one.start(words=["prlimit", f"--nofile={files}"])
        port = int(one.url.rpartition(":")[2])
        async with AsyncExitStack() as stack:
            for number in range(300):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                stack.callback(writer.close)
                if number % 2:
                    writer.write(b"GET /health HTTP/1.1\r\nHost:")

            async def taken() -> bool:
                status, _ = await one.ask("POST", "/api/messages", json={"body": "hi", "name": "ann"})
                return status == 201

            await eventually(taken, "a post to be taken")
            assert (await one.get("/api/state"))["room"]
        text = (one.runtime / "relay.log").read_text()
        assert "Traceback" not in text
        assert text.count("without a credential were closed") <= 2

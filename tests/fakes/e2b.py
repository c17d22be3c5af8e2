"""A fake E2B: the wire protocol of their SDK over a real socket, with sandboxes that are folders of this machine.

The control plane: `POST /v2/sandboxes`, `GET /v2/sandboxes` (by metadata, in pages), `DELETE /sandboxes/ID`. A
sandbox's own server, which is told by the header `E2b-Sandbox-Id`: `POST /files`, `GET /health`, and
`POST /process.Process/Start` (Connect's protocol for a stream of JSON), which really runs the command. A process goes
on when its caller goes away, and ends with its sandbox, as theirs do.

In a test: the fixture `fake_e2b`; it sets the variables by which the SDK finds it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import struct
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from aiohttp import web

from relay.checks.leftovers import end_leftovers

KEY = "e2b_0123456789"
ENVD = "0.6.7"
#: Sandboxes in one page of the list.
PAGE = 2
#: Bytes of one message with output, as theirs reads them.
CHUNK = 32 << 10


@dataclass
class Sandbox:
    """One that runs. `home`: the folder of its user; `asked`: what it was made of."""

    id: str
    token: str
    home: Path
    asked: dict[str, Any]
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    def listed(self) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat()
        return {
            "templateID": self.asked["templateID"],
            "sandboxID": self.id,
            "clientID": "fake",
            "startedAt": now,
            "endAt": now,
            "cpuCount": 2,
            "memoryMB": 512,
            "diskSizeMB": 1024,
            "state": "running",
            "envdVersion": ENVD,
            "metadata": self.asked.get("metadata", {}),
        }


class FakeE2b:
    """`refusals`: an HTTP status with its message, by the path of requests that are refused so. `made`: called when a
    sandbox is there and its maker does not know yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.running: dict[str, Sandbox] = {}
        self.asked: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.refusals: dict[str, tuple[int, str]] = {}
        self.made: Callable[[], Awaitable[None]] | None = None

    @web.middleware
    async def _refuse(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        if request.path in self.refusals:
            return _error(*self.refusals[request.path])
        return await handler(request)

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._refuse], client_max_size=1 << 30)
        app.add_routes(
            [
                web.post("/v2/sandboxes", self._make),
                web.get("/v2/sandboxes", self._list),
                web.delete("/sandboxes/{id}", self._delete),
                web.post("/files", self._upload),
                web.get("/health", self._health),
                web.post("/process.Process/Start", self._start),
            ]
        )
        return app

    # -- the control plane

    def _known(self, request: web.Request) -> bool:
        return request.headers.get("X-API-KEY") == KEY

    async def _make(self, request: web.Request) -> web.Response:
        if not self._known(request):
            return _error(401, "Invalid API key")
        asked = await request.json()
        self.asked.append(asked)
        id, token = uuid.uuid4().hex[:20], uuid.uuid4().hex
        home = self._folder / id
        home.mkdir()
        self.running[id] = Sandbox(id, token, home, asked)
        if self.made is not None:
            await self.made()
        told = {"templateID": asked["templateID"], "sandboxID": id, "clientID": "fake", "domain": None}
        return web.json_response({**told, "envdVersion": ENVD, "envdAccessToken": token}, status=201)

    async def _list(self, request: web.Request) -> web.Response:
        if not self._known(request):
            return _error(401, "Invalid API key")
        # Each key and value is quoted before all of them are.
        pairs = parse_qsl(request.query.get("metadata", ""))
        wanted = {unquote(key): unquote(value) for key, value in pairs}
        found = [one for one in self.running.values() if wanted.items() <= one.asked["metadata"].items()]
        at = int(request.query.get("nextToken", "0"))
        headers = {"x-next-token": str(at + PAGE)} if len(found) > at + PAGE else {}
        return web.json_response([one.listed() for one in found[at : at + PAGE]], headers=headers)

    async def _delete(self, request: web.Request) -> web.Response:
        if not self._known(request):
            return _error(401, "Invalid API key")
        sandbox = self.running.pop(request.match_info["id"], None)
        if sandbox is None:
            return _error(404, "no such sandbox")
        await end(sandbox)
        return web.Response(status=204)

    # -- a sandbox's own server

    def _sandbox(self, request: web.Request) -> Sandbox | web.Response:
        id = request.headers.get("E2b-Sandbox-Id", "")
        sandbox = self.running.get(id)
        if sandbox is None:
            told = {"sandboxId": id, "message": "The sandbox was not found", "code": 502}
            return web.json_response(told, status=502)
        if request.headers.get("X-Access-Token") != sandbox.token:
            return _error(401, "unauthorized access, please provide a valid access token")
        return sandbox

    async def _health(self, request: web.Request) -> web.Response:
        sandbox = self._sandbox(request)
        return web.Response(status=204) if isinstance(sandbox, Sandbox) else sandbox

    async def _upload(self, request: web.Request) -> web.Response:
        sandbox = self._sandbox(request)
        if isinstance(sandbox, web.Response):
            return sandbox
        if request.content_type != "application/octet-stream":
            return _error(400, f"no upload of {request.content_type}")
        path = sandbox.home / request.query["path"]
        with path.open("wb") as file:
            async for chunk in request.content.iter_chunked(65_536):
                file.write(chunk)
        return web.json_response([{"name": path.name, "type": "file", "path": str(path)}])

    async def _start(self, request: web.Request) -> web.StreamResponse:
        sandbox = self._sandbox(request)
        if isinstance(sandbox, web.Response):
            return sandbox
        assert request.content_type == "application/connect+json", request.content_type
        body = await request.read()
        _, length = struct.unpack_from(">BI", body)
        process = await _run(sandbox, json.loads(body[5 : 5 + length])["process"])
        sandbox.processes.append(process)
        answer = web.StreamResponse(headers={"Content-Type": "application/connect+json"})
        await answer.prepare(request)
        await _send(answer, {"start": {"pid": process.pid}})
        async with asyncio.TaskGroup() as group:
            group.create_task(_relay(process.stdout, "stdout", answer))
            group.create_task(_relay(process.stderr, "stderr", answer))
        code = await process.wait()
        if sandbox.id not in self.running:
            assert request.transport is not None
            request.transport.abort()  # the machine is gone, and says nothing more
            return answer
        await _send(answer, {"end": _told(code)})
        await answer.write(struct.pack(">BI", 0b10, 2) + b"{}")
        await answer.write_eof()
        return answer


async def _run(sandbox: Sandbox, asked: dict[str, Any]) -> asyncio.subprocess.Process:
    user = {"HOME": str(sandbox.home), "USER": "user", "LOGNAME": "user"}
    env = {"PATH": os.environ["PATH"], **user, **sandbox.asked.get("envVars", {}), **asked.get("envs", {})}
    return await asyncio.create_subprocess_exec(
        asked["cmd"],
        *asked.get("args", []),
        cwd=sandbox.home / asked.get("cwd", "."),
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


async def _relay(stream: asyncio.StreamReader | None, name: str, answer: web.StreamResponse) -> None:
    assert stream is not None
    while data := await stream.read(CHUNK):
        await _send(answer, {"data": {name: base64.b64encode(data).decode()}})


async def _send(answer: web.StreamResponse, event: dict[str, Any]) -> None:
    data = json.dumps({"event": event}).encode()
    await answer.write(struct.pack(">BI", 0, len(data)) + data)


def _told(code: int) -> dict[str, Any]:
    """How a process ended, in the words of Go."""
    if code < 0:
        status = f"signal: {signal.strsignal(-code).lower()}"
        return {"exitCode": -1, "exited": False, "status": status, "error": status}
    status = f"exit status {code}"
    return {"exitCode": code, "exited": True, "status": status} | ({"error": status} if code else {})


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"code": status, "message": message}, status=status)


async def end(sandbox: Sandbox) -> None:
    """The machine is gone, and all that ran on it."""
    await asyncio.to_thread(end_leftovers, sandbox.home)
    for process in sandbox.processes:
        await process.wait()
    await asyncio.to_thread(shutil.rmtree, sandbox.home)


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[FakeE2b, str]]:
    """The service and its address."""
    folder = Path(tempfile.mkdtemp(prefix="e2b-"))
    fake = FakeE2b(folder)
    runner = web.AppRunner(fake.app(), shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield fake, f"http://{host}:{port}"
    finally:
        for sandbox in fake.running.values():
            await end(sandbox)
        await runner.cleanup()
        shutil.rmtree(folder)


@pytest.fixture
async def fake_e2b(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeE2b]:
    async with serving() as (fake, url):
        monkeypatch.setenv("E2B_API_URL", url)
        monkeypatch.setenv("E2B_SANDBOX_URL", url)
        for name in ("E2B_DEBUG", "E2B_DOMAIN", "E2B_API_KEY", "E2B_TEMPLATE"):
            monkeypatch.delenv(name, raising=False)
        yield fake

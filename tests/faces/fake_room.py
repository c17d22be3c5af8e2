"""A room that speaks docs/http.md over a real socket, with the faults that a client must live with.

It stores what is posted and answers nothing by itself: a test says what happens (`say`, `frame`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import uuid_utils
from aiohttp import WSMsgType, web

KEY = "room-token"
AGENTS = [
    {"name": "CLAUDE", "kind": "command", "enabled": True, "installed": True, "paused": False, "queued": 0},
    {"name": "CODEX", "kind": "command", "enabled": True, "installed": False, "detail": "not on PATH"},
]
COMMANDS = [
    {"name": "/task", "usage": "/task <title>", "help": "make a task"},
    {"name": "/tasks", "usage": "/tasks", "help": "show the board"},
]


def _refusal(status: int, message: str, fix: str, code: str = "no") -> web.Response:
    return web.json_response({"error": {"code": code, "message": message, "fix": fix}}, status=status)


@dataclass
class FakeRoom:
    """`lose_acks`: so many posts are taken in and their answer is lost; `posts` counts the requests."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    stored: list[dict[str, Any]] = field(default_factory=list)
    jobs: dict[int, dict[str, Any]] = field(default_factory=dict)
    acks: dict[str, dict[str, Any]] = field(default_factory=dict)
    posts: int = 0
    lose_acks: int = 0
    busy: int = 0
    #: It has no connection to its database.
    cut: bool = False
    port: int = 0
    on_post: Any = None
    _sockets: set[web.WebSocketResponse] = field(default_factory=set)
    _runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(middlewares=[self._check])
        app.add_routes(
            [
                web.get("/api/state", self._state),
                web.get("/api/transcript", self._transcript),
                web.get("/api/queue", self._queue),
                web.post("/api/messages", self._post),
                web.get("/ws", self._ws),
            ]
        )
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            for socket in list(self._sockets):
                # Gone already where the client has left first.
                if (transport := socket._req.transport) is not None:  # type: ignore[union-attr]
                    transport.abort()
            await self._runner.cleanup()
            self._runner = None

    async def cut_off(self) -> None:
        """It loses its database, as docs/http.md says that."""
        self.cut = True
        for socket in list(self._sockets):
            await socket.close(code=1013, message=b"the room's database is away")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def say(self, speaker: str, body: str, **fields: Any) -> dict[str, Any]:
        """An entry appears in the room."""
        number = len(self.entries) + 1
        entry = {
            "id": str(uuid_utils.uuid7()),
            "number": number,
            "ts": "2026-01-02T03:04:05.678Z",
            "speaker": speaker,
            "kind": "human" if speaker.islower() else "agent",
            "body": body,
            "in_reply_to": None,
            "to": [],
            "job": None,
            "meta": {},
            **fields,
        }
        self.entries.append(entry)
        entry["cursor"] = await self._store("entry", entry)
        return entry

    async def receipt(self, job: int, message: str, agent: str, state: str, **fields: Any) -> None:
        row = {"id": job, "message_id": message, "agent": agent, "state": state, **fields}
        self.jobs[job] = row
        await self._store("receipt", row)

    async def frame(self, kind: str, data: Any) -> None:
        """A frame that is not stored."""
        await self._send({"cursor": None, "type": kind, "data": data})

    async def _store(self, kind: str, data: Any) -> str:
        cursor = f"c{len(self.stored) + 1:08}"
        self.stored.append({"cursor": cursor, "type": kind, "data": data})
        await self._send(self.stored[-1])
        return cursor

    async def _send(self, frame: dict[str, Any]) -> None:
        for socket in list(self._sockets):
            await socket.send_json(frame)

    def _cursor(self) -> str:
        return f"c{len(self.stored):08}"

    @web.middleware
    async def _check(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.headers.get("X-API-Key") != KEY:
            return _refusal(401, "this key is not known", "read .relay/token")
        if self.cut:
            answer = _refusal(503, "This relay is cut off.", "It passes.", "cut_off")
            answer.headers["Retry-After"] = "0.1"
            return answer
        return await handler(request)

    async def _state(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "agents": AGENTS,
                "commands": COMMANDS,
                "tasks": [],
                "people": [],
                "room": {"cursor": self._cursor()},
            }
        )

    async def _transcript(self, request: web.Request) -> web.Response:
        limit = int(request.query.get("limit", "100"))
        return web.json_response({"entries": self.entries[-limit:], "next": self._cursor()})

    async def _queue(self, request: web.Request) -> web.Response:
        return web.json_response({"jobs": list(self.jobs.values())[::-1]})

    async def _post(self, request: web.Request) -> web.Response:
        self.posts += 1
        if self.busy:
            self.busy -= 1
            answer = _refusal(429, "too many", "wait")
            answer.headers["Retry-After"] = "0.1"
            return answer
        told = await request.json()
        if told["name"].upper() in ("CLAUDE", "CODEX", "RELAY"):
            return _refusal(403, f"{told['name']} is an agent's name.", "Take another one.")
        ack = self.acks.get(told["client_id"])
        if ack is None:
            entry = await self.say(told["name"], told["body"])
            ack = self.acks[told["client_id"]] = {key: entry[key] for key in ("id", "cursor", "number")}
            if self.on_post is not None:
                await self.on_post(entry)
        if self.lose_acks:
            self.lose_acks -= 1
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(ack, status=201)

    async def _ws(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        after = (await socket.receive_json())["after"]
        await socket.send_json(
            {"cursor": None, "type": "hello", "data": {"cursor": self._cursor(), "version": "0"}}
        )
        sent = len(self.stored) if after is None else int(after[1:])
        while sent < len(self.stored):
            await socket.send_json(self.stored[sent])
            sent += 1
        self._sockets.add(socket)
        try:
            async for message in socket:
                if message.type is WSMsgType.ERROR:
                    break
        finally:
            self._sockets.discard(socket)
        return socket


async def until(condition: Any, what: str, seconds: float = 30.0) -> None:
    """Wait until `condition()` (plain or a coroutine function) is true; fail saying `what` was awaited."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return
        assert asyncio.get_running_loop().time() < deadline, f"waited {seconds} s for: {what}"
        await asyncio.sleep(0.05)

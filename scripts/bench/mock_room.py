"""A room for the page's tests: docs/http.md over real sockets, with handles for what is hard to provoke.

It serves the built page under the CSP of the real room and keeps the contract's promises (cursors, one answer
per `client_id`, resume without a gap), so a page that works here works for the reason it should. It does not decide
anything: it has no queue and no agents; a test says what happens (mock_state.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import WSMsgType, web

from scripts.bench.mock_airspace import stamp
from scripts.bench.mock_state import Client, MockState

STATIC = Path(__file__).parents[2] / "relay" / "faces" / "static"
TOKEN = "test-room-token"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
COMMANDS = [
    {"name": "/task", "usage": "/task <title>", "help": "add a task to the board"},
    {"name": "/move", "usage": "/move t<number> <pending|in_progress|done>", "help": "move a task"},
    {"name": "/moveall", "usage": "/moveall <pending|in_progress|done>", "help": "move every active task"},
    {"name": "/clearall", "usage": "/clearall", "help": "remove all tasks; /undo brings them back"},
    {"name": "/undo", "usage": "/undo", "help": "take back the last change of the board"},
    {"name": "/tasks", "usage": "/tasks", "help": "list the board"},
    {"name": "/help", "usage": "/help", "help": "what can be said here"},
    {"name": "/who", "usage": "/who", "help": "who is here"},
    {"name": "/queue", "usage": "/queue", "help": "what is queued"},
    {"name": "/route", "usage": "/route #<id> <AGENT...>", "help": "overrule the dispatcher"},
    {"name": "/retry", "usage": "/retry #<id>", "help": "ask again"},
    {"name": "/cancel", "usage": "/cancel @<AGENT>", "help": "end the running turn"},
    {"name": "/pause", "usage": "/pause @<AGENT>", "help": "give an agent no new messages"},
    {"name": "/resume", "usage": "/resume @<AGENT>", "help": "end a pause"},
    {"name": "/continue", "usage": "/continue", "help": "lift the hop limit"},
]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class MockRoom(MockState):
    """The room: what `MockState` holds, over HTTP and WebSocket."""

    def __init__(self) -> None:
        super().__init__()
        self.url = ""
        self._started_at = stamp(datetime.now(UTC))
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(middlewares=[self._guard], client_max_size=8 * 1024 * 1024)
        app.router.add_get("/health", self._health)
        app.router.add_get("/", self._index)
        app.router.add_static("/assets", STATIC / "assets")
        app.router.add_post("/api/sign-in", self._sign_in)
        app.router.add_get("/api/state", self._state)
        app.router.add_get("/api/transcript", self._transcript)
        app.router.add_get("/api/search", self._search)
        app.router.add_get("/api/queue", self._queue)
        app.router.add_get("/api/usage", self._usage)
        app.router.add_get("/api/agents/{name}/log", self._agent_log)
        app.router.add_post("/api/messages", self._post)
        app.router.add_post("/api/messages/{id}/route", self._route)
        app.router.add_post("/api/queue/{job}/retry", self._retry)
        app.router.add_post("/api/agents/{name}/{action:pause|resume|cancel|try}", self._agent_action)
        app.router.add_patch("/api/agents/{name}", self._agent_patch)
        app.router.add_get("/api/tasks", self._tasks)
        app.router.add_post("/api/tasks", self._task_add)
        app.router.add_post("/api/tasks/undo", self._task_undo)
        app.router.add_patch("/api/tasks/{number}", self._task_patch)
        self.air.add_routes(app.router)
        self.held.add_routes(app.router)
        self.timeline.add_routes(app.router)
        self.memory.add_routes(app.router)
        self.explorations.add_routes(app.router)
        self.metrics.add_routes(app.router)
        app.router.add_get("/ws", self._ws)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"

    async def stop(self) -> None:
        await self.drop_clients()
        if self._runner:
            await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.down:
            assert request.transport is not None
            request.transport.abort()
            raise web.HTTPServiceUnavailable
        is_open = request.path in {"/health", "/", "/api/sign-in"} or request.path.startswith("/assets/")
        if not is_open and request.cookies.get("relay") not in self.sessions:
            return refuse(401, "unauthorised", "You are not signed in.", "Run `relay link` for a new link.")
        response = await handler(request)
        if not response.prepared:
            response.headers["Content-Security-Policy"] = CSP
            response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"ok": True})

    async def _index(self, _: web.Request) -> web.StreamResponse:
        return web.FileResponse(STATIC / "index.html")

    async def _sign_in(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body.get("link") in self.links:
            self.links.remove(body["link"])
        elif body.get("key") != TOKEN:
            return refuse(
                401,
                "bad_link",
                "This link was used already or has expired.",
                "Run `relay link` for a new one.",
            )
        response = web.json_response({"ok": True})
        session = uuid.uuid4().hex
        self.sessions.add(session)
        response.set_cookie("relay", session, httponly=True, samesite="Strict", path="/")
        return response

    async def _state(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "room": {
                    "name": "payments",
                    "version": "0.1.0",
                    "started_at": self._started_at,
                    "cursor": str(len(self.log)),
                    "repo": "payments",
                },
                "agents": self.agents,
                "tasks": [t for t in self.tasks if t["status"] != "done" and t["assignee"]],
                "board": self.board_counts(),
                **self.held.as_json(),
                "people": self.here(),
                "dispatcher": self.dispatcher,
                "storage": {"engine": "sqlite", "path": ".relay/events.db"},
                "tail": self.tail,
                "commands": COMMANDS,
            }
        )

    async def _transcript(self, request: web.Request) -> web.Response:
        limit = int(request.query.get("limit", 100))
        query = request.query
        last = str(len(self.log))
        if "before" in query:
            older = [e for e in self.entries if int(e["cursor"]) < int(query["before"])]
            return web.json_response({"entries": older[-limit:], "next": last, "more": len(older) > limit})
        if "after" in query:
            newer = [e for e in self.entries if int(e["cursor"]) > int(query["after"])][:limit]
            return web.json_response(
                {"entries": newer, "next": newer[-1]["cursor"] if newer else query["after"]}
            )
        if "around" in query:
            wanted = query["around"]
            at = [
                i for i, e in enumerate(self.entries) if wanted in {e["id"], f"#{e['number']}", e["cursor"]}
            ]
            if not at:
                return refuse(404, "not_found", f"There is no entry {wanted}.", "")
            start = max(0, at[0] - limit // 2)
            page = self.entries[start : start + limit]
            more = {"more": start > 0, "more_after": start + limit < len(self.entries)}
            return web.json_response({"entries": page, "next": page[-1]["cursor"]} | more)
        page = self.entries[-limit:]
        return web.json_response({"entries": page, "next": last, "more": len(self.entries) > limit})

    async def _search(self, request: web.Request) -> web.Response:
        wanted = request.query["q"]
        hits = []
        for entry in reversed(self.entries):
            hit = re.search(re.escape(wanted), entry["body"], re.IGNORECASE)
            if hit:
                start, end = hit.span()
                body = entry["body"]
                snippet = (
                    f"{body[max(0, start - 40) : start]}\u0001{body[start:end]}\u0002{body[end : end + 80]}"
                )
                hits.append(entry | {"snippet": snippet})
        return web.json_response({"entries": hits[: int(request.query.get("limit", 20))]})

    async def _queue(self, request: web.Request) -> web.Response:
        state, named = request.query.get("state", ""), request.query.get("messages")
        jobs = [j for j in self.jobs.values() if not state or j["state"] == state]
        if named is not None:
            jobs = [j for j in jobs if j["message_id"] in named.split(",")]
        limit = int(request.query.get("limit", 200))
        return web.json_response({"jobs": sorted(jobs, key=lambda j: -j["id"])[:limit]})

    async def _usage(self, _: web.Request) -> web.Response:
        return web.json_response(self.usage)

    async def _agent_log(self, request: web.Request) -> web.Response:
        return web.json_response({"lines": self.lines.get(request.match_info["name"], [])})

    async def _post(self, request: web.Request) -> web.Response:
        message = await request.json()
        self.posts.append(message)
        name = message.get("name") or "someone"
        reserved = {a["name"] for a in self.agents} | {"DISPATCHER", "ALL"}
        if name.upper() in reserved:
            return refuse(403, "reserved_name", f"{name} is an agent's name.", "Choose another name.")
        client_id = message.get("client_id")
        answer = self.sent.get(client_id)
        if answer is None:
            entry = self.say(name, message["body"], in_reply_to=message.get("in_reply_to"))
            answer = {"id": entry["id"], "cursor": entry["cursor"], "number": entry["number"]}
            self.sent[client_id] = answer
        if self.lose_answers > 0:
            self.lose_answers -= 1
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(answer, status=201)

    async def _route(self, request: web.Request) -> web.Response:
        agents = (await request.json())["agents"]
        self.routed.append((request.match_info["id"], agents))
        message = next(e for e in self.entries if e["id"] == request.match_info["id"])
        self.cycle(
            message, "routed", action="route", agents=agents, reason="overruled by a person", took_ms=0
        )
        for agent in agents:
            self.receipt(message, agent, "pending")
        return web.json_response({"success": True})

    async def _retry(self, request: web.Request) -> web.Response:
        job = self.jobs[int(request.match_info["job"])]
        self.retried.append(job["id"])
        self.receipt({"id": job["message_id"]}, job["agent"], "pending", reason=None, error_class=None)
        return web.json_response({"success": True})

    async def _agent_action(self, request: web.Request) -> web.Response:
        name, action = request.match_info["name"], request.match_info["action"]
        self.actions.append((name, action))
        self.agent(name, **({"running": None} if action == "cancel" else {"paused": action == "pause"}))
        return web.json_response({"success": True})

    async def _agent_patch(self, request: web.Request) -> web.Response:
        changes = await request.json()
        changes.pop("name", None)
        self.patches.append((request.match_info["name"], changes))
        self.agent(request.match_info["name"], **changes)
        return web.json_response({"success": True})

    async def _tasks(self, request: web.Request) -> web.Response:
        status = request.query.get("status")
        listed = [t for t in self.tasks if status in (None, t["status"])]
        return web.json_response({"tasks": listed, "undo": "ann changed the board" if self.boards else ""})

    async def _task_add(self, request: web.Request) -> web.Response:
        body = await request.json()
        return web.json_response(
            {"task": self.task(body["title"], created_by=body.get("name", ""))}, status=201
        )

    async def _task_patch(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        changes = await request.json()
        changes.pop("name", None)
        await self.answers.wait()
        if not any(t["number"] == number for t in self.tasks):
            return refuse(404, "not_found", f"There is no task #{number}.", "")
        self._remember_board()
        self.change_task(number, **changes)
        return web.json_response({"success": True})

    async def _task_undo(self, _: web.Request) -> web.Response:
        if not self.boards:
            return web.json_response({"success": False, "reason": "There is nothing to undo."})
        before, self.tasks = self.tasks, self.boards.pop()
        gone = {t["id"] for t in before} - {t["id"] for t in self.tasks}
        self.store("task", {"changed": self.tasks, "gone": sorted(gone), "board": self.board_counts()})
        return web.json_response({"success": True})

    async def _ws(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        first = await socket.receive(timeout=10)
        if first.type != WSMsgType.TEXT:
            return socket
        wanted = json.loads(first.data)
        after = wanted["after"]
        self.resumed_from.append(after)
        client = Client(socket, request.transport, wanted.get("name"))
        hello = {"cursor": str(len(self.log)), "version": "0.1.0"}
        client.outgoing.put_nowait({"cursor": None, "type": "hello", "data": hello})
        # No await between the stored frames and the joining: so no gap and no double.
        for frame in self.log[len(self.log) if after is None else int(after) :]:
            client.outgoing.put_nowait(frame)
        self.clients.append(client)
        self.tell("people", {"people": self.here()})
        writer = asyncio.create_task(self._write(client))
        try:
            async for _ in socket:
                pass
        finally:
            writer.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await writer
            if client in self.clients:
                self.clients.remove(client)
            self.tell("people", {"people": self.here()})
        return socket

    async def _write(self, client: Client) -> None:
        while True:
            frame = await client.outgoing.get()
            await client.socket.send_str(json.dumps(frame))


def refuse(status: int, code: str, message: str, fix: str) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message, "fix": fix}}, status=status)

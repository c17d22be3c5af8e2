"""What the room of the page's tests holds, and what a test makes happen in it (`say`, `stream`, `receipt`, ...)."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from scripts.bench.mock_airspace import MockAirspace, stamp
from scripts.bench.mock_explorations import MockExplorations
from scripts.bench.mock_held import MockHeld
from scripts.bench.mock_memory import MockMemory
from scripts.bench.mock_metrics import MockMetrics
from scripts.bench.mock_timeline import MockTimeline


def new_agent(name: str, **changes: Any) -> dict[str, Any]:
    """AGENT of docs/http.md, installed and idle."""
    return {
        "name": name,
        "kind": "command",
        "preset": name.lower(),
        "model": None,
        "effort": None,
        "enabled": True,
        "paused": False,
        "installed": True,
        "detail": "",
        "fix": "",
        "version": "1.0.0",
        "about": "",
        "breaker": {"state": "closed", "failures": 0, "threshold": 3, "retry_at": None},
        "parked_until": None,
        "running": None,
        "queued": 0,
        "budget": {"turns_per_hour": None, "tokens": None, "usd": None},
    } | changes


NOTHING_USED: dict[str, float] = dict.fromkeys(
    ("turns", "input", "cache_write", "cache_read", "output", "usd", "unpriced"), 0
)


@dataclass(eq=False)
class Client:
    """One live socket; what it is to be sent waits in `outgoing`."""

    socket: web.WebSocketResponse
    transport: asyncio.Transport | None = None
    name: str | None = None
    outgoing: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)


class MockState:
    """The room. `log` holds every stored frame; the cursor of a frame is its place in it, as text."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.log: list[dict[str, Any]] = []
        self.jobs: dict[int, dict[str, Any]] = {}
        self.tasks: list[dict[str, Any]] = []
        self.usage: dict[str, Any] = {
            "since": stamp(datetime.now(UTC)),
            "total": NOTHING_USED,
            "agents": {},
            "hours": [],
        }
        self.boards: list[list[dict[str, Any]]] = []
        self.agents = [
            new_agent("CLAUDE", model="opus", effort="high"),
            new_agent("CODEX", model="gpt-5-codex"),
        ]
        self.agents.append(new_agent("RELAY", kind="steward", preset=None))
        self.people: list[str] = []
        self.dispatcher = {"enabled": True, "model": "llama3.2:3b", "host": "http://127.0.0.1:11434"}
        self.dispatcher |= {"state": "ok", "detail": ""}
        self.links = {"one-time-secret"}
        self.sessions: set[str] = set()
        self.sent: dict[str, dict[str, Any]] = {}
        self.routed: list[tuple[str, list[str]]] = []
        self.retried: list[int] = []
        self.actions: list[tuple[str, str]] = []
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.posts: list[dict[str, Any]] = []
        self.resumed_from: list[str | None] = []
        self.clients: list[Client] = []
        self.lines: dict[str, list[dict[str, str]]] = {}
        self.tail: dict[str, Any] = {"catching_up": False, "offset": 0, "size": 0}
        #: Accept no connection at all, as a stopped daemon.
        self.down = False
        #: Take a message in, and lose the answer on its way: the next n posts.
        self.lose_answers = 0
        #: Changes of a task are answered while it is set.
        self.answers = asyncio.Event()
        self.answers.set()
        #: Airspace, worktrees and permission requests.
        self.air = MockAirspace(self.tell, self.store)
        #: Locks and sessions, and whole tasks.
        self.held = MockHeld(self.store, lambda: self.tasks)
        self.timeline = MockTimeline()
        self.memory = MockMemory()
        self.explorations = MockExplorations()
        self.metrics = MockMetrics()

    # -- what a test makes happen

    def say(self, speaker: str, body: str, kind: str = "human", **more: Any) -> dict[str, Any]:
        """Append an entry; every live client gets it. `at` sets its time, other keywords its fields."""
        at = more.pop("at", None) or datetime.now(UTC)
        entry = {
            "id": str(uuid.uuid4()),
            "number": len(self.entries) + 1,
            "ts": stamp(at),
            "speaker": speaker,
            "kind": kind,
            "body": body,
            "in_reply_to": None,
            "to": [],
            "job": None,
            "meta": {},
            "cursor": str(len(self.log) + 1),
        } | more
        self.entries.append(entry)
        self.store("entry", entry)
        return entry

    def receipt(self, message: dict[str, Any], agent: str, state: str, **more: Any) -> dict[str, Any]:
        """Make or change the job of (message, agent)."""
        known = [j for j in self.jobs.values() if (j["message_id"], j["agent"]) == (message["id"], agent)]
        at = stamp(datetime.now(UTC))
        job = (
            known[0]
            if known
            else {
                "id": len(self.jobs) + 1,
                "message_id": message["id"],
                "agent": agent,
                "attempts": 0,
                "reason": None,
                "error_class": None,
                "created_at": at,
                "not_before": None,
                "started_at": None,
                "ended_at": None,
                "answer_id": None,
                "folded_into": None,
            }
        )
        changed = {"state": state} | (
            {"started_at": at, "attempts": job["attempts"] + 1} if state == "active" else {}
        )
        if state in {"done", "dead", "skipped"}:
            changed["ended_at"] = at
        job = job | changed | more
        self.jobs[job["id"]] = job
        self.store("receipt", job)
        return job

    def cycle(self, message: dict[str, Any], state: str, **more: Any) -> None:
        data = {"message_id": message["id"], "state": state, "action": None, "agents": [], "reason": ""}
        data |= {"took_ms": None, "folded_into": None} | more
        if data["action"]:
            decision = {key: data[key] for key in ("action", "agents", "reason", "took_ms")}
            message["meta"] = message["meta"] | {"decision": decision | {"model": self.dispatcher["model"]}}
        self.store("cycle", data)

    def stream(self, job: dict[str, Any], text: str, offset: int, tool: str | None = None) -> None:
        data = {
            "job": job["id"],
            "agent": job["agent"],
            "message_id": job["message_id"],
            "text": text,
            "offset": offset,
        }
        self.tell("stream", data | ({"tool": tool} if tool else {}))

    def agent(self, name: str, **changes: Any) -> None:
        at = next(i for i, a in enumerate(self.agents) if a["name"] == name)
        self.agents[at] = self.agents[at] | changes
        self.tell("agent", self.agents[at])

    def task(self, title: str, status: str = "pending", **more: Any) -> dict[str, Any]:
        self._remember_board()
        at = stamp(datetime.now(UTC))
        task = {
            "id": str(uuid.uuid4()),
            "number": max((t["number"] for t in self.tasks), default=0) + 1,
            "title": title,
            "status": status,
            "badge": None,
            "assignee": None,
            "created_by": "ann",
            "created_at": at,
            "updated_at": at,
            "priority": 5,
        } | more
        self.tasks = [*self.tasks, task]
        self.store("task", {"changed": [task], "gone": [], "board": self.board_counts()})
        return task

    def change_task(self, number: int, **changes: Any) -> None:
        changes = {"updated_at": stamp(datetime.now(UTC))} | changes
        self.tasks = [t | changes if t["number"] == number else t for t in self.tasks]
        changed = [t for t in self.tasks if t["number"] == number]
        self.store("task", {"changed": changed, "gone": [], "board": self.board_counts()})

    def board_counts(self) -> dict[str, int]:
        return {
            "open": sum(task["status"] != "done" for task in self.tasks),
            "last": max((task["number"] for task in self.tasks), default=0),
        }

    async def drop_clients(self) -> None:
        """Break every socket, without a closing handshake."""
        for client in list(self.clients):
            if client.transport:
                client.transport.abort()
        await asyncio.sleep(0)

    def lag(self) -> None:
        """Tell every client that it was too slow; what follows it does not get on this socket."""
        for client in list(self.clients):
            self.clients.remove(client)
            client.outgoing.put_nowait({"cursor": None, "type": "lagging", "data": {"dropped": 7}})

    def here(self) -> list[str]:
        """Who is in the room: those whom a test put there, and whose page is open."""
        return sorted({*self.people, *(client.name for client in self.clients if client.name)})

    # -- inside

    def store(self, kind: str, data: dict[str, Any]) -> None:
        self.log.append({"cursor": str(len(self.log) + 1), "type": kind, "data": data})
        for client in self.clients:
            client.outgoing.put_nowait(self.log[-1])

    def tell(self, kind: str, data: dict[str, Any]) -> None:
        for client in self.clients:
            client.outgoing.put_nowait({"cursor": None, "type": kind, "data": data})

    def _remember_board(self) -> None:
        self.boards.append([dict(t) for t in self.tasks])

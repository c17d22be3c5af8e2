"""The mock room's locks and sessions (docs/coordination.md), and its whole tasks: what the page asks of them.

It decides nothing: a test says who holds what, and when its clock is ahead of the browser's.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from scripts.bench.mock_airspace import stamp

Json = dict[str, Any]


class MockHeld:
    """`store` records a frame; `tasks` gives the board."""

    def __init__(self, store: Callable[[str, Json], None], tasks: Callable[[], list[Json]]) -> None:
        self._store, self._tasks = store, tasks
        self.locks: list[Json] = []
        self.sessions: list[Json] = []
        #: By number: what a whole task has beside TASK.
        self.stories: dict[int, Json] = {}
        #: (path, reason, name) of what people took.
        self.taken: list[tuple[str, str, str]] = []
        #: Answers a forced release with this refusal.
        self.refusal = ""
        #: The room's clock is ahead of the machine's by that.
        self.ahead = timedelta()

    def at(self, seconds: float = 0.0) -> str:
        """The room's time, so many seconds from now."""
        return stamp(datetime.now(UTC) + self.ahead + timedelta(seconds=seconds))

    def lock(
        self, path: str, holder: str, left_s: float = 1800.0, *, told: str = "acquired", **more: Any
    ) -> Json:
        """LOCK, taken and told."""
        lock = {
            "file_path": path,
            "locked_by": holder,
            "session": f"{holder.lower()}-1",
            "mode": "exclusive",
            "fencing_token": len(self.locks) + 1,
            "reason": None,
            "acquired_at": self.at(),
            "expires_at": self.at(left_s),
            "kind": "path",
        } | more
        self.locks = [*self.locks, lock]
        self._store("lock", {"change": told, "lock": lock, "by": holder})
        return lock

    def wait(self, path: str, agent: str, seconds: float) -> None:
        """Somebody stands in line; nobody tells it."""
        waiting = {
            "agent": agent,
            "session": f"{agent.lower()}-1",
            "since": self.at(-seconds),
            "until": self.at(60),
        }
        self.locks = [
            {**lock, "waiting": [*lock.get("waiting", ()), waiting]} if lock["file_path"] == path else lock
            for lock in self.locks
        ]

    def release(self, path: str, told: str = "released", by: str = "") -> None:
        gone = [lock for lock in self.locks if lock["file_path"] == path]
        self.locks = [lock for lock in self.locks if lock["file_path"] != path]
        for lock in gone:
            self._store("lock", {"change": told, "lock": lock, "by": by or lock["locked_by"]})

    def session(self, agent: str, change: str = "started", **more: Any) -> Json:
        """SESSION, begun or ended, and told."""
        session = {
            "session_id": f"{agent.lower()}-1",
            "agent_id": agent,
            "agent_type": "agent",
            "kind": "process",
            "alive": change == "started",
            "started_at": self.at(),
            "heartbeat_at": self.at(),
            "lease_until": self.at(90),
            "ended_at": None if change == "started" else self.at(),
            "locks": 0,
            "claims": 0,
        } | more
        rest = [s for s in self.sessions if s["session_id"] != session["session_id"]]
        self.sessions = [*rest, session] if session["alive"] else rest
        if not session["alive"]:
            self.locks = [lock for lock in self.locks if lock["session"] != session["session_id"]]
        self._store("session", {"change": change, "session": session})
        return session

    def story(self, number: int, *steps: tuple[str, str, str], **more: Any) -> None:
        """What happened to a task: (who, change, note) each, a minute apart."""
        history = [
            {
                "id": uuid.uuid4().hex,
                "at": self.at(-60.0 * (len(steps) - place)),
                "by": by,
                "change": change,
                "status": "pending",
                "note": note or None,
            }
            for place, (by, change, note) in enumerate(steps)
        ]
        self.stories[number] = {"input_data": None, "result": None, "history": history, "more": False} | more

    # -- the routes

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/locks", self._list)
        router.add_post("/api/locks/release", self._release)
        router.add_get("/api/tasks/{number}", self._task)

    def as_json(self) -> Json:
        now = self.at()
        held = [lock for lock in self.locks if lock["expires_at"] > now]
        return {"locks": held, "sessions": self.sessions, "now": now}

    async def _list(self, _: web.Request) -> web.Response:
        return web.json_response(self.as_json())

    async def _release(self, request: web.Request) -> web.Response:
        body = await request.json()
        if self.refusal:
            return web.json_response({"success": False, "reason": self.refusal})
        self.taken.append((body["path"], body["reason"], body["name"]))
        self.release(body["path"], "forced", body["name"])
        return web.json_response({"success": True, "reason": "It is free."})

    async def _task(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        task = next((t for t in self._tasks() if t["number"] == number), None)
        if task is None:
            error = {"code": "not_found", "message": f"There is no task #{number}.", "fix": ""}
            return web.json_response({"error": error}, status=404)
        cost = dict.fromkeys(
            ("turns", "input", "cache_write", "cache_read", "output", "usd", "unpriced", "shared", "seconds"),
            0,
        )
        work: Json = {"conversation": [], "changes": [], "branch": None, "verifications": [], "cost": cost}
        nothing: Json = {"input_data": None, "result": None, "history": [], "more": False, "work": work}
        return web.json_response({"task": task | nothing | self.stories.get(number, {})})

"""How a worker of the swarm asks the room: work with its locks, the guard, the landing queue.

Invariant: every request is in the worker's own name, by the credential that the room gave it: an agent's key in its
turn, the room's token for a person.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from relay.app.demo.swarm.codebase import Item

Json = dict[str, Any]
_NONE: Mapping[str, str] = MappingProxyType({})
#: Seconds that the room may take for an answer, beside those that it is asked to wait.
_ANSWER_S = 60.0
#: Seconds that one request waits for work.
_WAIT_S = 20.0


class RoomSaysNo(Exception):
    """The room refused what a worker needs to go on; the message is the room's."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claimed item. `waited_s`: how long there was nothing free for this worker."""

    item: Item
    task: str
    number: int
    token: int
    waited_s: float


class Desk:
    """Of one worker. `key`: its credential; `name`: None for an agent, whom the key names, else the person's."""

    def __init__(self, url: str, key: str, name: str | None = None, session: str = "") -> None:
        self._url, self._key, self._name, self._session = url, key, name, session

    @classmethod
    def of_turn(cls, environ: Mapping[str, str]) -> Desk:
        """The desk of the agent whose turn this process is."""
        state = Path(environ["RELAY_CONFIG"]).parent / ".relay" / "state.json"
        url = str(json.loads(state.read_text())["url"])
        return cls(url, environ["RELAY_API_KEY"], session=environ["RELAY_SESSION_ID"])

    def claim(self) -> Claim | None:
        """The next item that is free, with the locks of its files; waits for one while any is left to be taken."""
        began = time.monotonic()
        while True:
            got = self.post("/work/get", {"task_types": ["item"], "wait_seconds": _WAIT_S})
            if got.get("task_id"):
                waited = time.monotonic() - began
                item = Item.of(got["input_data"])
                return Claim(item, got["task_id"], got["number"], got["fencing_token"], waited)
            why = got.get("why") or {}
            if not (why.get("files_held") or why.get("blocked") or why.get("backing_off")):
                return None

    def complete(self, task: str, token: int, result: Json) -> Json:
        """Say that a task is done. Raises RoomSaysNo."""
        done = {"task_id": task, "success": True, "result": result, "fencing_token": token}
        return self._agreed(self.post("/work/complete", done), f"complete {task}")

    def give_back(self, task: str, reason: str) -> None:
        self._agreed(self.post("/work/release", {"task_id": task, "reason": reason[:500]}), f"release {task}")

    def may(self, path: str, text: str) -> str:
        """Ask the guard before an edit, as a coding agent's hook does; empty = it may, else why not."""
        asked = {
            "agent": os.environ["RELAY_AGENT_ID"],
            "session": self._session,
            "path": path,
            "content": text,
        }
        told = self.post("/api/guard", asked, own=False)
        return "" if told["decision"] == "allow" else f"{told['decision']}: {told['reason']}"

    def land(self) -> None:
        """Put the worker's branch into the landing queue. Raises RoomSaysNo."""
        self._agreed(self.post("/land", {} if self._name is None else {"agent": self._name}), "land")

    def in_queue(self, name: str) -> bool:
        """Does this one's branch wait to land?"""
        return any(entry["agent"] == name for entry in self._asked("GET", "/api/landing")["queue"])

    def post(self, path: str, body: Json, *, own: bool = True) -> Json:
        """`own`: as an operation of this worker's, in its session."""
        named = {"name": self._name} if own and self._name is not None else {}
        session = {"X-Relay-Session": self._session} if own and self._session else {}
        return self._asked("POST", path, json.dumps({**body, **named}).encode(), session)

    def _asked(
        self, method: str, path: str, body: bytes | None = None, more: Mapping[str, str] = _NONE
    ) -> Json:
        headers = {"X-API-Key": self._key, "Content-Type": "application/json", **more}
        request = urllib.request.Request(self._url + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_S + _WAIT_S) as answer:
                told: Json = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise RoomSaysNo(f"{path}: {error.code} {error.read().decode(errors='replace')[:500]}") from None
        return told

    @staticmethod
    def _agreed(answer: Json, what: str) -> Json:
        if not answer.get("success"):
            raise RoomSaysNo(f"{what}: {answer.get('message') or answer}")
        return answer

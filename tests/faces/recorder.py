"""Services that write down what they are asked, for tests of interfaces: who asks, and with which words."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from relay.faces.services import Services
from relay.model import Caller

ANSWERS: dict[str, Any] = {
    "locks.check": [],
    "locks.status": {"file_path": "a", "locked": False, "locks": [], "waiting": []},
    "work.pending": [],
    "work.list": {"tasks": [], "next": None},
    "work.task": {"id": "t", "task_type": "x", "title": "y"},
    "work.get": {"success": True, "task_id": None, "why": "nothing is there"},
    "memory.recall": [],
    "sessions.list": [],
    "changesets.list": [],
    "room.read": {"entries": [], "next": "0", "more": False},
    "room.who": {"you": {}, "agents": [], "visitors": [], "people": [], "sessions": []},
    "room.post": {"success": True, "id": "m", "number": 1, "cursor": "1", "asked": []},
}


@dataclass
class Recorder:
    """`asked` holds (method, caller, arguments, named arguments), without the heartbeats; `answers` can be set."""

    asked: list[tuple[str, Caller, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    beats: list[Caller] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)

    def services(self, keys: Any = None) -> Services:
        parts: dict[str, Any] = {field.name: _Part(self, field.name) for field in fields(Services)}
        return Services(**{**parts, "keys": keys or parts["keys"]})

    @property
    def last(self) -> tuple[str, Caller, tuple[Any, ...], dict[str, Any]]:
        return self.asked[-1]


class _Part:
    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder, self._name = recorder, name

    def __getattr__(self, method: str) -> Any:
        async def ask(caller: Caller, *args: Any, **named: Any) -> Any:
            what = f"{self._name}.{method}"
            if what == "sessions.touch":
                self._recorder.beats.append(caller)
                return None
            self._recorder.asked.append((what, caller, args, named))
            told = self._recorder.answers.get(what, ANSWERS.get(what, {"success": True}))
            if isinstance(told, Exception):
                raise told
            return told

        return ask

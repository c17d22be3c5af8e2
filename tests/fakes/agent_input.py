"""The input of programs that go on reading it while they work, as the real ones speak it (docs/doors.md, 1 and 6).

FAKE_DIR has what the test and the program tell each other: `received` (a line for each message that was read),
`taken` (one for each that the model was given), and `go`, which the program waits for in the middle of its work.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("FAKE_DIR", "."))
PROMPT = "prompt"


def note(file: str, text: str) -> None:
    with (FOLDER / file).open("a") as notes:
        notes.write(json.dumps(text) + "\n")


class Input:
    """Lines of standard input as they come; `put` writes events."""

    def __init__(self, put: Callable[..., None]) -> None:
        self.put = put
        self.closed = False
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._lines.put(line)
        self._lines.put("")

    def next(self) -> dict[str, Any]:
        """The next line; {} at the end of the input."""
        line = self._lines.get()
        self.closed = not line
        return json.loads(line) if line else {}

    def ready(self) -> Iterable[dict[str, Any]]:
        """The lines that are there, without waiting."""
        while not self.closed:
            try:
                line = self._lines.get_nowait()
            except queue.Empty:
                return
            self.closed = not line
            if line:
                yield json.loads(line)

    def wait(self) -> None:
        """Work until the test says `go`, and read meanwhile."""
        (FOLDER / "works").touch()
        while not (FOLDER / "go").exists():
            self.poll()
            time.sleep(0.002)
        self.poll()

    def begin(self) -> str:
        raise NotImplementedError

    def poll(self) -> None:
        raise NotImplementedError

    def boundary(self) -> list[str]:
        raise NotImplementedError

    def ended(self, result: Callable[[list[str]], None]) -> None:
        raise NotImplementedError

    def later(self, turn: Callable[[str], None]) -> None:
        raise NotImplementedError


class ClaudeInput(Input):
    """`claude -p --input-format stream-json --replay-user-messages`."""

    def __init__(self, put: Callable[..., None], capable: bool) -> None:
        super().__init__(put)
        self.capable = capable
        self.asks = False
        self.prompt = ""
        self.prompt_uuid = ""
        self.waiting: list[dict[str, Any]] = []
        self._in_turn: list[dict[str, Any]] = []
        self._answers: dict[str, dict[str, Any]] = {}

    def begin(self) -> str:
        """The prompt."""
        while (event := self.next()) and event["type"] != "user":
            refused = os.environ.get("FAKE_HOOKS") == "refused"
            self.asks = not refused and "PreToolUse" in event["request"]["hooks"]
            how = (
                {"subtype": "error", "error": "hooks?"} if refused else {"subtype": "success", "response": {}}
            )
            self.put({"type": "control_response", "response": {**how, "request_id": event["request_id"]}})
        if not event:
            sys.exit(0)
        self.prompt, self.prompt_uuid = event["message"]["content"], event["uuid"]
        return self.prompt

    def poll(self) -> None:
        for event in self.ready():
            if event["type"] == "control_response":
                self._answers[event["response"]["request_id"]] = event["response"]["response"]
                continue
            if event["type"] == "control_request":
                note("stopped", event["request"]["subtype"])
                self.put({"type": "result", "subtype": "error_during_execution", "is_error": True})
                continue
            self.waiting.append(event)
            self._state(event["uuid"], "queued")
            note("received", event["message"]["content"])

    def _state(self, uuid: str, state: str) -> None:
        if self.capable:
            self.put({"type": "command_lifecycle", "command_uuid": uuid, "state": state})

    def may(self, tool: str, given: dict[str, Any]) -> tuple[bool, str]:
        """Asks the hook on the pipe, where there is one, and gives what it said."""
        if not self.asks:
            return True, ""
        told = {
            "tool_name": tool,
            "tool_input": given,
            "cwd": str(Path.cwd()),
            "hook_event_name": "PreToolUse",
        }
        request = {"subtype": "hook_callback", "callback_id": "guard", "input": told, "tool_use_id": "t"}
        self.put({"type": "control_request", "request_id": "q1", "request": request})
        while "q1" not in self._answers:
            self.poll()
            time.sleep(0.002)
        said = self._answers.pop("q1").get("hookSpecificOutput") or {}
        reason = said.get("permissionDecisionReason", "")
        return said.get("permissionDecision") != "deny", reason or said.get("additionalContext", "")

    def boundary(self) -> list[str]:
        """What the model is given with its next request."""
        self.poll()
        taken, self.waiting = self.waiting, []
        for event in taken:
            self.put({**event, "isReplay": True})
            self._state(event["uuid"], "started")
            note("taken", event["message"]["content"])
        self._in_turn += taken
        return [event["message"]["content"] for event in taken]

    def ended(self, result: Callable[[list[str]], None]) -> None:
        """The turn is over."""
        uuid = self.prompt_uuid
        for event in self._in_turn:
            self._state(event["uuid"], "completed")
        result([uuid, *(event["uuid"] for event in self._in_turn)])
        self._in_turn = []
        self._state(uuid, "completed")

    def later(self, turn: Callable[[str], None]) -> None:
        """What comes too late is a turn of its own, until the input is closed."""
        while not self.closed or self.waiting:
            self.poll()
            if self.waiting:
                event = self.waiting.pop(0)
                self._state(event["uuid"], "started")
                note("taken", event["message"]["content"])
                self.prompt_uuid = event["uuid"]
                turn(event["message"]["content"])
            elif not self.closed:
                time.sleep(0.002)


class PiInput(Input):
    """`pi --mode rpc`."""

    def __init__(self, put: Callable[..., None], session: str) -> None:
        super().__init__(put)
        self.session = session
        self.running = True
        self.waiting: list[str] = []

    @staticmethod
    def say(put: Callable[..., None], text: str) -> None:
        usage = {"input": 12, "output": 9, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.0}}
        content = [{"type": "text", "text": text}]
        message = {"role": "assistant", "content": content, "stopReason": "stop", "usage": usage}
        put({"type": "message_end", "message": message})

    @staticmethod
    def fail(put: Callable[..., None], text: str) -> None:
        message = {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": text}
        put({"type": "message_end", "message": message})

    def begin(self) -> str:
        while event := self.next():
            self._answer(event)
            if event["type"] == "prompt":
                self.put({"type": "agent_start"})
                self._user(event["message"])
                return str(event["message"])
        sys.exit(0)

    def _answer(self, event: dict[str, Any]) -> None:
        answer = {"type": "response", "id": event["id"], "command": event["type"], "success": True}
        if event["type"] == "get_state":
            waiting = len(self.waiting)
            state = {"isStreaming": self.running, "pendingMessageCount": waiting}
            answer["data"] = {"sessionId": self.session, **state}
        self.put(answer)

    def _user(self, text: str) -> None:
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        self.put({"type": "message_end", "message": message})

    def poll(self) -> None:
        for event in self.ready():
            if event["type"] == "prompt":
                self.waiting.append(event["message"])
                note("received", event["message"])
                if self.running:
                    self.put({"type": "queue_update", "steering": self.waiting})
            self._answer(event)

    def boundary(self) -> list[str]:
        self.poll()
        taken, self.waiting = self.waiting, []
        for text in taken:
            self._user(text)
            note("taken", text)
        return taken

    def ended(self, result: Callable[[list[str]], None]) -> None:
        """The run goes on with what waits; else it is over."""
        for text in self.boundary():
            self.say(self.put, f"Late: {text}")
        self.running = False
        self.put({"type": "agent_end", "messages": []})

    def later(self, turn: Callable[[str], None]) -> None:
        if self.running:
            self.ended(lambda _: None)
        while not self.closed or self.waiting:
            self.poll()
            if self.waiting:
                self.running = True
                self.put({"type": "agent_start"})
                self.ended(lambda _: None)
            time.sleep(0.002)

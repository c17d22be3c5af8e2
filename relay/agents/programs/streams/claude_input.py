"""What `claude -p --input-format stream-json` reads while it works, and what it says of that (docs/doors.md, 1).

Seen in Claude Code 2.1.330. Each message has an id of its own. `command_lifecycle` tells of each: queued, started
when the model is given it, and completed, cancelled, discarded or refused when nothing more comes of it. A message
that comes too late for the running turn begins one of its own in the same process, with a result of its own.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from relay.agents.process.session import Question, Session, line
from relay.agents.process.stream import JSON
from relay.agents.programs.streams.claude import ClaudeStream
from relay.agents.setup.hooks import CLAUDE_TOOLS, HOOK_S
from relay.model import Channel, DeliveredPart, Hears, Part, SteeringMessage, ToolPart

NAME = "stream-json input"
#: The capability of a program that says what became of each message.
RECEIPTS = "msg_lifecycle_v1"
#: The states after which nothing more comes of a message.
THROUGH = frozenset({"completed", "cancelled", "discarded", "refused"})
#: Asks for a question before each edit, on the pipe (hooks of the Agent SDK).
HOOKS = line(
    {
        "type": "control_request",
        "request_id": "hooks",
        "request": {
            "subtype": "initialize",
            "hooks": {
                "PreToolUse": [{"matcher": CLAUDE_TOOLS, "hookCallbackIds": ["guard"], "timeout": HOOK_S}]
            },
        },
    }
)
INTERRUPT = line(
    {
        "type": "control_request",
        "request_id": "interrupt",
        "request": {"subtype": "interrupt", "cancel_queued": True},
    }
)


class ClaudeSession(ClaudeStream, Session):
    """One turn whose input stays open."""

    def __init__(self) -> None:
        super().__init__()
        self._prompt = ""
        #: Of the room's messages, by the ids that the program knows them by: those that something may come of yet.
        self._told: dict[str, str] = {}
        self._started: set[str] = set()
        self._tool = ""
        self._over = False
        self._answered: set[str] = set()
        self._kept = ""

    @property
    def finished(self) -> bool:
        return self._over and not self._told

    def begin(self, prompt: str) -> bytes:
        if not self.asks:
            return _said(prompt, str(uuid4()))
        self._prompt = prompt  # said once the program has taken the hooks
        return HOOKS

    def tell(self, message: SteeringMessage) -> bytes:
        ident = str(uuid4())
        self._told[ident] = message.id
        return _said(message.text, ident, priority="next")

    @property
    def cut(self) -> bool:
        return self._over

    def interrupt(self) -> bytes:
        # What waits yet would begin a turn of its own. It is the room's again.
        return INTERRUPT if self.session is not None else b""

    def reply(self, question: Question, reason: str, note: str = "") -> bytes:
        said: dict[str, str] = {"hookEventName": "PreToolUse"}
        if reason:
            said |= {"permissionDecision": "deny", "permissionDecisionReason": reason}
        elif note:
            said["additionalContext"] = note
        # Without a decision the program's own rules decide.
        return _answer(question.id, {"hookSpecificOutput": said} if len(said) > 1 else {})

    def event(self, event: JSON) -> list[Part]:
        match event["type"]:
            case "command_lifecycle":
                return self._on_lifecycle(str(event["command_uuid"]), str(event["state"]))
            case "control_request":
                self._on_request(str(event["request_id"]), event["request"])
                return []
            case "control_response":
                self._on_response(event["response"])
                return []
            case "system" if event.get("subtype") == "init":
                self._on_init(event.get("capabilities") or ())
        parts = super().event(event)
        for part in parts:
            if isinstance(part, ToolPart) and part.helper is None and part.name:
                self._tool = part.name
        return parts

    def _on_init(self, capabilities: Any) -> None:
        if RECEIPTS in capabilities:
            self.channel = Channel(NAME, Hears.BOUNDARY, "Claude Code says when it takes a message in.")
        else:
            self.channel = Channel(
                why=f"This Claude Code does not say when it takes a message in ({RECEIPTS})."
            )

    def _on_lifecycle(self, ident: str, state: str) -> list[Part]:
        message = self._told.get(ident)
        if message is None:
            return []
        if state in THROUGH:
            del self._told[ident]
        if state != "started" or ident in self._started:
            return []
        self._started.add(ident)
        if self._over:  # too late for the turn before: this is one of its own
            self._over = self.completed = False
        return [DeliveredPart((message,), after=self._tool)]

    def _on_request(self, ident: str, request: JSON) -> None:
        if request["subtype"] == "hook_callback":
            told = request["input"]
            asked = Question(ident, told["tool_name"], told["tool_input"], str(told.get("cwd") or ""))
            self.unanswered.append(asked)
            return
        error = {"subtype": "error", "request_id": ident, "error": "relay does not know this request"}
        self.outgoing += line({"type": "control_response", "response": error})

    def _on_response(self, response: JSON) -> None:
        prompt, self._prompt = self._prompt, ""
        if not prompt:
            return
        self.refused = response["subtype"] != "success"
        if not self.refused:
            self.outgoing += _said(prompt, str(uuid4()))

    def _on_result(self, event: JSON) -> list[Part]:
        before, self.answer = self.answer, None
        parts = super()._on_result(event)
        self._over, self._tool = True, ""
        asked = set(event.get("user_message_uuids") or ())
        if asked - self._answered:
            self._kept = before or ""
        elif self.answer is None:  # it goes on with what it had answered, and has nothing new to say
            self.answer = before
            return parts
        self._answered |= asked
        self.answer = "\n\n".join(text for text in (self._kept, self.answer or "") if text) or None
        return parts


def _said(text: str, ident: str, **more: str) -> bytes:
    message = {"role": "user", "content": text.encode("utf-8", "replace").decode()}
    return line({"type": "user", "message": message, "uuid": ident, **more})


def _answer(ident: str, response: JSON) -> bytes:
    answer = {"subtype": "success", "request_id": ident, "response": response}
    return line({"type": "control_response", "response": answer})

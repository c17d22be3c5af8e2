"""pi (`pi --mode rpc`): its command line, and its lines of JSON. `pi_extension.js` asks before an edit."""

from __future__ import annotations

import json
import re
from pathlib import Path

from relay.agents.process.failure import StreamError
from relay.agents.process.helpers import text_of
from relay.agents.process.session import Question, Session, line
from relay.agents.process.stream import JSON, count, tool
from relay.agents.setup.mcp import TOOL_S
from relay.agents.setup.presets import Preset, Route, modes
from relay.model import Channel, DeliveredPart, Hears, LogPart, Part, SteeringMessage, UsagePart

CHANNEL = Channel("rpc prompt", Hears.BOUNDARY, "It reads messages while it works (--mode rpc).")


class PiSession(Session):
    """One turn. It has ended when nothing runs and nothing waits after an `agent_end`, which a retry may follow."""

    lost = re.compile(r"No session found matching", re.IGNORECASE)

    def __init__(self) -> None:
        super().__init__()
        #: The room's messages that it has not taken in, by the ids of the commands that told them.
        self._told: dict[str, SteeringMessage] = {}
        self._usage, self._answers = UsagePart(), list[str]()
        self._tool, self._asked, self._ending, self._over = "", 0, False, False

    @property
    def finished(self) -> bool:
        return self._over

    def begin(self, prompt: str) -> bytes:
        return line({"id": "session", "type": "get_state"}) + _prompt("prompt", prompt)

    def tell(self, message: SteeringMessage) -> bytes:
        self._told[ident := f"told-{message.id}"] = message
        # Told while it ends, it may begin to work again: only what it says after that counts.
        return _prompt(ident, message.text) + (self._ask() if self._ending else b"")

    def _ask(self) -> bytes:
        self._asked += 1
        return line({"id": f"state-{self._asked}", "type": "get_state"})

    def reply(self, question: Question, reason: str, note: str = "") -> bytes:
        said = json.dumps({"reason": reason, "note": note})
        return line({"type": "extension_ui_response", "id": question.id, "value": said})

    def event(self, event: JSON) -> list[Part]:
        match event["type"]:
            case "response":
                return self._on_response(event)
            case "message_end":
                return self._on_message(event["message"])
            case "tool_execution_start":
                self._tool = event["toolName"]
                return [tool(self._tool, event["args"])]
            case "extension_ui_request" if event["method"] in ("select", "confirm", "input", "editor"):
                self._on_dialog(event)
            case "agent_start":
                self._ending = False
            case "auto_retry_start":  # right after the `agent_end` of what failed
                self._ending, self.error = False, None
                return [LogPart(f"it tries again: {event.get('errorMessage')}"[:500])]
            case "agent_end":
                self._ending, self.completed = True, self.error is None
                self.outgoing += self._ask()
        return []

    def _on_dialog(self, event: JSON) -> None:
        if event["title"] == "relay" and self.asks:
            asked = json.loads(event["placeholder"])
            self.unanswered.append(Question(event["id"], asked["tool"], asked["input"], asked["cwd"]))
        else:  # nobody is to be asked: our own then lets the tool pass
            self.outgoing += line({"type": "extension_ui_response", "id": event["id"], "cancelled": True})

    def _on_response(self, event: JSON) -> list[Part]:
        ident = str(event.get("id"))
        if not event["success"]:
            self._told.pop(ident, None)  # the room's again
            if ident == "prompt":
                self.error, self._over = StreamError(str(event.get("error"))), True
            return [LogPart(str(event.get("error"))[:500])]
        if ident == "session":
            self.channel = CHANNEL
            return self._begin(event["data"]["sessionId"])
        if ident == f"state-{self._asked}" and self._ending:
            # What it was told and has not taken in, it begins in a moment; else, 200 answers on, it is the room's.
            self._over = not (event["data"].get("isStreaming") or (self._told and self._asked < 200))
            self.outgoing += b"" if self._over else self._ask()
        return []

    def _on_message(self, message: JSON) -> list[Part]:
        text = text_of(message.get("content"))
        if message["role"] == "user":
            taken = next((ident for ident, told in self._told.items() if told.text == text), None)
            return [] if taken is None else [DeliveredPart((self._told.pop(taken).id,), after=self._tool)]
        if message["role"] != "assistant":
            return []
        self._usage += _usage(message.get("usage") or {})
        if message.get("stopReason") == "error":
            self.error = StreamError(str(message.get("errorMessage")))
            return [self._usage]
        if message.get("stopReason") != "toolUse":
            self._tool = ""
            self._answers += [text] if text else []
            self.answer = "\n\n".join(self._answers) or None
        return [*self._block(text), self._usage]


def _prompt(ident: str, text: str) -> bytes:
    """Begins to work on this; while it works, it is given to the model with its next request."""
    said = text.encode("utf-8", "replace").decode()
    return line({"id": ident, "type": "prompt", "message": said, "streamingBehavior": "steer"})


def _usage(usage: JSON) -> UsagePart:
    given, output, write, read = (count(usage, key) for key in ("input", "output", "cacheWrite", "cacheRead"))
    cost = float((usage.get("cost") or {}).get("total") or 0.0)
    return UsagePart(given, output, cost, cache_write_tokens=write, cache_read_tokens=read)


PROGRAM = Preset(
    title="pi",
    program="pi",
    seen="1.6.0",
    install="npm install -g @earendil-works/pi-coding-agent",
    sign_in="pi",
    about="a coding agent (pi), with the model that is set up for it: reads and changes code",
    env_prefixes=("PI_", "ANTHROPIC_", "OPENAI_", "GEMINI_", "OPENROUTER_", "DEEPSEEK_", "MISTRAL_", "XAI_"),
    words=("--mode", "rpc", "--offline", "--extension", str(Path(__file__).with_name("pi_extension.js"))),
    # It asks nobody for anything: what it may do is which tools it has. Its shell is not kept within a folder.
    modes=modes(
        "--tools read,grep,find,ls,mcp__relay__*",
        "--tools read,grep,find,ls,edit,write,mcp__relay__*",
        "--tools read,grep,find,ls,edit,write,bash,mcp__*",
    ),
    guarded=True,
    # `direct`: the model is offered its tools as pi's own are. pi counts seconds.
    mcp=lambda server: [
        "--relay-mcp",
        json.dumps({**server.entry(), "timeout": TOOL_S, "exposure": "direct"}),
    ],
    options=("--model", "{model}", "--thinking", "{effort}", "--session", "{session}"),
    stream=PiSession,
    routes=(Route(CHANNEL, help=("--mode", "rpc"), words=(), session=PiSession, asks=True),),
)

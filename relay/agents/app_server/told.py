"""What Codex' app-server tells of one turn, read into parts.

Invariants: never raises on anything that it tells; items give the same parts as those of `codex exec --json`, whose
names they are translated into; a message of the inbox is delivered once, when it stands in the conversation
(`item/started` of a `userMessage` with its `clientId`). Seen with 0.169.0 (docs/doors.md, section 3).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from relay.agents.process.failure import StreamError
from relay.agents.programs.codex import CodexStream, codex_usage
from relay.model import (
    AccountLimit,
    DeliveredPart,
    FailureClass,
    LogPart,
    Part,
    SessionPart,
    TextPart,
    ToolPart,
    UsagePart,
)

JSON = Mapping[str, Any]
#: How the server says that it knows no such conversation.
UNKNOWN_THREAD = re.compile(r"no rollout found|invalid (?:thread|session) id|thread not found", re.IGNORECASE)
#: Its `codexErrorInfo`, where the text alone might not say it.
FAILURES = {
    "unauthorized": FailureClass.NOT_SIGNED_IN,
    "usageLimitExceeded": FailureClass.RATE_LIMIT,
    "rateLimitExceeded": FailureClass.RATE_LIMIT,
    "serverOverloaded": FailureClass.RATE_LIMIT,
}
#: The same for the HTTP status that some of them carry.
STATUSES = {401: FailureClass.NOT_SIGNED_IN, 429: FailureClass.RATE_LIMIT, 529: FailureClass.RATE_LIMIT}
#: Characters of the tool that a message was delivered after.
AFTER = 80
WINDOWS = ("primary", "secondary")


class ToldTurn(CodexStream):
    """`thread` and `turn`: the ids of ours, as soon as they are known. `completed`: it ended well; `ended`: it ended.
    `changes`: of each file change, by its item's id, the files."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = self.turn = ""
        self.ended = False
        self.interrupted = False
        self.changes: dict[str, tuple[str, ...]] = {}
        #: Messages that were handed over, and are not in the conversation yet.
        self.handed: set[str] = set()
        self._after = ""
        self._streamed: set[str] = set()
        self._used = UsagePart()
        #: By conversation: what it had used at the last request that was counted, and what a helper said last.
        self._totals: dict[str, Any] = {}
        self._said: dict[str, str] = {}
        self._limits: dict[str, Any] = {}

    def tell(self, method: str, params: JSON) -> list[Part]:
        """The parts that one notification gives."""
        try:
            return self._tell(method, params)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            return [LogPart(f"unknown {method!r} notification: {json.dumps(params)[:500]}")]

    def opened(self, thread: str) -> list[Part]:
        self.thread = self.session = thread
        return [SessionPart(thread)]

    def retry_at(self) -> float | None:
        """When the account's limits that are used up are there again (Unix time in seconds); None = not told."""
        windows = [self._limits.get(name) or {} for name in WINDOWS]
        resets = [float(each["resetsAt"]) for each in windows if each.get("resetsAt") and _spent(each)]
        return max(resets, default=None)

    def limits(self) -> tuple[AccountLimit, ...]:
        """What it told of the account's limits."""
        windows = [self._limits.get(name) for name in WINDOWS]
        return tuple(
            AccountLimit(
                _span(each.get("windowDurationMins")), float(each["usedPercent"]), each.get("resetsAt")
            )
            for each in windows
            if isinstance(each, dict) and isinstance(each.get("usedPercent"), int | float)
        )

    def _tell(self, method: str, params: JSON) -> list[Part]:
        if method == "account/rateLimits/updated":
            return self._on_limits(params["rateLimits"])
        if method in ("warning", "configWarning"):
            return [LogPart(str(params.get("message") or params.get("summary") or "")[:500])]
        if params.get("threadId") != self.thread:
            return self._on_helper(method, params)
        match method:
            case "turn/started":
                self.turn = params["turn"]["id"]
            case "item/started" | "item/completed":
                return self._on_told(params["item"], method == "item/completed")
            case "item/agentMessage/delta":
                return self._on_delta(params["itemId"], params["delta"])
            case "thread/tokenUsage/updated":
                return self._on_usage(params["tokenUsage"], self.thread, params["turnId"] == self.turn)
            case "error":
                message = str(params["error"]["message"])
                self.stuck = self.stuck or message.startswith("Reconnecting")
                return [LogPart(message[:500])]
            case "turn/completed" if params["turn"]["id"] == self.turn:
                self._on_end(params["turn"])
        return []

    def _on_told(self, item: JSON, completed: bool) -> list[Part]:
        kind, ident = item["type"], item.get("id")
        if kind == "userMessage":
            said = item.get("clientId")
            if said not in self.handed:
                return []
            self.handed.discard(said)
            return [DeliveredPart((said,), self._after)]
        if kind == "agentMessage" and completed and ident in self._streamed:
            self.answer = item["text"] or self.answer
            return []
        parts = self._on_work(item, completed, self.thread)
        for part in parts:
            if isinstance(part, ToolPart) and part.name:
                self._after = (f"{part.name}: {part.summary}" if part.summary else part.name)[:AFTER]
        return parts

    def _on_delta(self, ident: str, text: str) -> list[Part]:
        if not text:
            return []
        if ident in self._streamed:
            return [TextPart(text)]
        self._streamed.add(ident)
        return self._block(text)

    def _on_usage(self, usage: JSON, thread: str, ours: bool) -> list[Part]:
        """Each request is told with what it used, and may be told again. A resumed conversation begins with the last
        one of the turn before."""
        again, self._totals[thread] = usage["total"] == self._totals.get(thread), usage["total"]
        if again or not ours:
            return []
        self._used += codex_usage(snake(usage["last"]))
        return [self._used]

    def _on_limits(self, limits: JSON) -> list[Part]:
        """Only what has changed is told; None clears nothing."""
        before = dict(self._limits)
        self._limits.update({key: value for key, value in limits.items() if value is not None})
        known = {key: self._limits[key] for key in (*WINDOWS, "rateLimitReachedType") if key in self._limits}
        if not known or self._limits == before:
            return []
        return [LogPart(f"rate limits: {json.dumps(known)}")]

    def _on_end(self, turn: JSON) -> None:
        self.ended = True
        self.completed = turn["status"] == "completed"
        self.interrupted = turn["status"] == "interrupted"
        if turn["status"] == "failed":
            error = turn.get("error") or {}
            more = error.get("additionalDetails")
            text = str(error.get("message") or "the turn failed")
            text = f"{text} {more}" if more and more not in text else text
            self.error = StreamError(text, failure_of(error.get("codexErrorInfo")), self.retry_at())

    def _on_work(self, item: JSON, completed: bool, thread: str) -> list[Part]:
        """What is done in our conversation, or in that of a helper."""
        if item["type"] == "fileChange":
            self.changes[str(item.get("id"))] = tuple(change["path"] for change in item["changes"])
        if item["type"] == "subAgentActivity":
            said = self._said.get(str(item["agentThreadId"]), "")
            return self._helpers.codex_tells(item, thread, said) if completed else []
        return self._on_item(as_exec(item), completed)

    # -- the helpers' own conversations

    def _on_helper(self, method: str, params: JSON) -> list[Part]:
        helper = self._helpers.known(params.get("threadId"))
        if helper is None:
            return []
        if method == "thread/tokenUsage/updated":
            return self._on_usage(params["tokenUsage"], helper, ours=True)
        if method not in ("item/started", "item/completed"):
            return []
        item = params["item"]
        if item["type"] == "agentMessage":
            self._said[helper] = str(item.get("text") or "")
        if item["type"] in ("agentMessage", "error", "collabAgentToolCall"):
            return []
        parts = self._on_work(item, method == "item/completed", helper)
        return [replace(part, helper=helper) if isinstance(part, ToolPart) else part for part in parts]


def as_exec(item: JSON) -> dict[str, Any]:
    """An item with the names that `codex exec --json` has for it: `agentMessage` is its `agent_message`."""
    told = snake(item)
    told["type"] = _snake(item["type"])
    if told["type"] == "collab_agent_tool_call":
        told["type"], told["tool"] = "collab_tool_call", _snake(item["tool"])
        told["agents_states"] = {
            helper: {**state, "status": _snake(state["status"])}
            for helper, state in item["agentsStates"].items()
            if state
        }
    return told


def snake(told: JSON) -> dict[str, Any]:
    return {_snake(key): value for key, value in told.items()}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", name)


def failure_of(info: Any) -> FailureClass | None:
    """What `codexErrorInfo` says: a word, or one with what belongs to it."""
    if isinstance(info, str):
        return FAILURES.get(info)
    if isinstance(info, dict):
        for name, more in info.items():
            status = more.get("httpStatusCode") if isinstance(more, dict) else None
            return FAILURES.get(name) or (STATUSES.get(status) if isinstance(status, int) else None)
    return None


def _span(minutes: Any) -> str:
    """How long a window is, as people read it."""
    if not isinstance(minutes, int) or minutes <= 0:
        return "the account's limit"
    if minutes % 1440 == 0:
        return "1 day" if minutes == 1440 else f"{minutes // 1440} days"
    return f"{minutes / 60:g} h"


def _spent(window: JSON) -> bool:
    used = window.get("usedPercent")
    return isinstance(used, int | float) and used >= 100

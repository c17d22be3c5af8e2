"""The helpers that an agent starts, as far as its stream tells of them.

Invariant: of each helper there is one brief, and then at most one debrief. One that is asked again after its end is a
new one. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relay.model import BriefPart, DebriefPart, Part

#: Claude Code's tool that starts a helper; it was called Task before 2.1.63.
CLAUDE_TOOLS = frozenset({"Agent", "Task"})
#: Gemini CLI's.
GEMINI_TOOL = "invoke_agent"


class Helpers:
    """The helpers of one turn that are at work, by the ids of its stream."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        #: Those whose tool call was answered before they ended: they say so themselves.
        self._background: set[str] = set()

    def known(self, helper: Any) -> str | None:
        """The id, where it is one of a helper at work."""
        return helper if isinstance(helper, str) and helper in self._open else None

    def brief(self, helper: str, brief: str, sort: str = "", by: Any = None) -> list[Part]:
        if helper in self._open:
            return []
        self._open.add(helper)
        return [BriefPart(helper, brief, sort, self.known(by))]

    def debrief(self, helper: str, result: str, *, failed: bool = False) -> list[Part]:
        if helper not in self._open:
            return []
        self._open.discard(helper)
        self._background.discard(helper)
        return [DebriefPart(helper, result, failed)]

    # -- Claude Code, in its own stream and over ACP

    def claude_uses(self, call: str, arguments: Mapping[str, Any], by: Any) -> list[Part]:
        """The tool that starts a helper is used."""
        return self.brief(
            call, str(arguments.get("prompt") or ""), str(arguments.get("subagent_type") or ""), by
        )

    def claude_answers(self, call: str, response: Any, result: str, *, failed: bool) -> list[Part]:
        """That tool has answered: the helper has ended, or it goes on in the background."""
        if isinstance(response, Mapping) and response.get("isAsync") and call in self._open:
            self._background.add(call)
        if call in self._background:
            return []
        return self.debrief(call, result, failed=failed)

    def claude_tells(self, event: Mapping[str, Any]) -> list[Part]:
        """A `system` line about a task: one of the background begins or ends."""
        call = event.get("tool_use_id")
        if not isinstance(call, str):
            return []
        if event.get("subtype") == "task_started" and event.get("task_type") == "local_agent":
            begun = self.brief(
                call,
                str(event.get("prompt") or event.get("description") or ""),
                str(event.get("subagent_type") or ""),
            )
            if begun:
                self._background.add(call)
            return begun
        if event.get("subtype") == "task_notification" and call in self._background:
            return self.debrief(
                call, str(event.get("summary") or ""), failed=event.get("status") != "completed"
            )
        return []

    # -- Codex: its first way of helpers (`multi_agent`); of the second (`multi_agent_v2`) `codex exec` tells nothing

    def codex_calls(self, item: Mapping[str, Any]) -> list[Part]:
        """A `collab_tool_call` that has ended."""
        parts: list[Part] = []
        if item["tool"] in ("spawn_agent", "send_input", "resume_agent"):
            for helper in item["receiver_thread_ids"]:
                parts += self.brief(helper, str(item.get("prompt") or ""), by=item.get("sender_thread_id"))
        for helper, state in item["agents_states"].items():
            if state["status"] in ("completed", "errored", "interrupted", "shutdown", "not_found"):
                failed = state["status"] != "completed"
                parts += self.debrief(helper, str(state.get("message") or ""), failed=failed)
        return parts

    def codex_tells(self, item: Mapping[str, Any], by: Any, result: str) -> list[Part]:
        """What the app-server tells of a helper of `multi_agent_v2`: a `subAgentActivity`. Its brief is encrypted, so
        only its name is known; `result`: what it said last."""
        helper, name = item["agentThreadId"], str(item["agentPath"]).rpartition("/")[2]
        if item["kind"] in ("started", "interacted"):
            return self.brief(helper, name, by=by)
        return self.debrief(helper, result, failed=item["kind"] != "completed")


def text_of(content: Any) -> str:
    """The text of a tool's result: a string, or blocks of text among others."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block["text"]) for block in blocks if isinstance(block, dict) and block.get("text"))

"""What an agent's tool calls tell over ACP of the helpers that it starts.

The protocol itself has no word for them. Claude's adapter names the tool in `_meta.claudeCode`, and a helper's own
calls name the call that started it; Gemini CLI's calls are known by their ids, and tell no brief.
"""

from __future__ import annotations

from typing import Any

from acp import schema

from relay.agents.process.helpers import CLAUDE_TOOLS, GEMINI_TOOL, Helpers, text_of
from relay.model import Part


def tell(helpers: Helpers, update: schema.ToolCallStart | schema.ToolCallProgress) -> list[Part]:
    """The helper that this update says has begun or ended."""
    claude, call = _claude(update), update.tool_call_id
    over, failed = update.status in ("completed", "failed"), update.status == "failed"
    if claude.get("toolName") in CLAUDE_TOOLS:
        given, parts = update.raw_input, list[Part]()
        if isinstance(given, dict) and given.get("prompt"):
            parts += helpers.claude_uses(call, given, claude.get("parentToolUseId"))
        response = claude.get("toolResponse")
        if over or (isinstance(response, dict) and response.get("isAsync")):
            parts += helpers.claude_answers(call, response, text_of(update.raw_output), failed=failed)
        return parts
    if call.startswith(f"{GEMINI_TOOL}__"):
        parts = helpers.brief(call, update.title or "")
        return parts + (helpers.debrief(call, "", failed=failed) if over else [])
    return []


def used_by(helpers: Helpers, update: schema.ToolCallStart | schema.ToolCallProgress) -> str | None:
    """The helper whose call it is; None = the agent's own."""
    return helpers.known(_claude(update).get("parentToolUseId"))


def _claude(update: schema.ToolCallStart | schema.ToolCallProgress) -> dict[str, Any]:
    meta = (update.field_meta or {}).get("claudeCode")
    return meta if isinstance(meta, dict) else {}

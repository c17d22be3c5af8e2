"""`relay guard told`: an agent's program runs it after its tools, to hear what is urgent in the room.

It is the way in for a program whose running process cannot be told anything: what it prints is in the next request
to the model (docs/doors.md, sections 2, 3 and 5).

Invariants: it ends within `LIMIT_S`, silently and with exit code 0 where the room gives no answer; what it printed it
acknowledges after that, so that what was never printed comes with the next turn. Only the standard library, as
relay/app/guard/hook.py.
"""

from __future__ import annotations

import os
import sys
import time

from relay.app.guard import hook, quick_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Seconds that the next request of the model waits for it.
LIMIT_S = 1.0


def main(words: list[str]) -> int:
    """`--format claude|codex|gemini --config PATH [--agent NAME]`; gives its exit code, 0."""
    options = dict(zip(words[::2], words[1::2], strict=False))
    config = options.get("--config") or os.environ.get("RELAY_CONFIG", "config.json")
    give_up = time.monotonic() + LIMIT_S
    try:
        event = quick_json.loads(sys.stdin.buffer.read().decode("utf-8", "replace"))
        agent = os.environ.get("RELAY_AGENT_ID") or options.get("--agent", "")
        who = {"agent": agent, "session": os.environ.get("RELAY_SESSION_ID", "")}
        address = hook.room(config)
        answer = hook.post(address, "/api/inbox/take", who, give_up)
        if not answer.get("messages"):
            return 0
        print(quick_json.dumps(told(str(event.get("hook_event_name")), str(answer["text"]))), flush=True)
        heard = {**who, "messages": answer["messages"], "after": last_tool(event)}
        hook.post(address, "/api/inbox/heard", heard, give_up + LIMIT_S)
    except (hook.CannotAsk, OSError, ValueError, AttributeError, TypeError, KeyError):
        pass
    return 0


def told(event: str, text: str) -> dict[str, Any]:
    """`text` for the program's model, in the form of all three programs."""
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def last_tool(event: dict[str, Any]) -> str:
    """The tool that ran last, of a batch of tools too; "" where the program does not say."""
    calls = event.get("tool_calls")
    last = calls[-1] if isinstance(calls, list) and calls and isinstance(calls[-1], dict) else event
    return str(last.get("tool_name") or "")

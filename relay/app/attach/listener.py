"""`guard_cli.py session listen`: waits beside an idle Claude Code session for a message that is to wake it.

Claude Code runs it in the background (`asyncRewake` of a SessionStart and of a Stop hook): when it ends with exit
code 2, what it wrote to standard error begins a turn. It sends no keystroke.

Invariants: it ends with the session's program, when the room is gone, and when a later one listens for the session
(the room tells); it wakes the session once. Standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import time

from relay.app.attach.hook import acknowledge, quietly
from relay.app.guard import hook as guard
from relay.app.mcp.parent_process import looked_up

#: Seconds that one question to the room may take: the room answers within 25 s.
ASKED_S = 35.0
#: Seconds of an acknowledgement.
SAID_S = 2.0
#: Claude Code's exit code for "wake the session with this".
WAKE = 2


def main(words: list[str]) -> int:
    """`--format claude --config PATH`; gives its exit code."""
    return quietly(words, listen)


def listen(program: str, config: str) -> int:
    """Its exit code: 2 to wake the session, else 0. Raises CannotAsk, OSError, ValueError, KeyError."""
    # A session without a person (`claude -p`) waits for its hooks, and is never idle.
    if os.environ.get("CLAUDE_CODE_SESSION_ATTENDED") != "1":
        return 0
    event = json.loads(sys.stdin.buffer.read().decode("utf-8", "replace"))
    pid = int(os.environ["CLAUDE_PID"])
    started = looked_up(pid)
    question = {"program": program, "session": event["session_id"]}
    while started is not None and _same(looked_up(pid), started):
        answer = guard.post(guard.room(config), "/api/sessions/listen", question, time.monotonic() + ASKED_S)
        if answer.get("end"):
            return 0
        if answer.get("messages"):
            print(answer["context"], file=sys.stderr, flush=True)
            acknowledge(program, config, event["session_id"], answer["messages"], time.monotonic() + SAID_S)
            return WAKE
    return 0


def _same(now: tuple[int, str] | None, before: tuple[int, str]) -> bool:
    """The parent of the program may change, its start does not."""
    return now is not None and now[1] == before[1]

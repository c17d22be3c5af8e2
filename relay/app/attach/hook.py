"""`guard_cli.py session`: the hook of an attached session, which Claude Code and Codex run (docs/attach.md).

Invariants:
- it tells the room what its program does, and prints what the room has for the session, in the program's form. It
  acknowledges messages after it has printed them: what was never printed is told again;
- a room that does not run costs nothing: the hook ends at once, silently, with exit code 0. So does every trouble.
  Only before an edit it says what the guard says, which looks the locks up where the room gives no answer;
- it ends within `LIMIT_S`, the guard's look-up apart;
- only the standard library is imported, and little of it, since it starts before every tool. It does nothing in an
  agent that the room itself runs, or that has a key: that one has a name, a guard and messages of its own.

What the programs send and expect: docs/doors.md, sections 2, 3 and 8 (Claude Code 2.1.330, Codex 0.169.0).
"""

from __future__ import annotations

import os
import sys
import time

from relay.app.guard import hook as guard
from relay.app.guard import quick_json as json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Seconds of one hook; of the question who the session is, before an edit in a session that no record names.
LIMIT_S, WHO_S = 2.0, 0.5
#: Characters of one text of a tool that are sent: the room wants to know which tool ran on what, and no outputs.
MOST_SENT = 20_000
#: Characters of what a session said last.
MOST_SAID = 1_000_000
#: Hooks inside a turn.
_INSIDE = ("PostToolBatch", "PostToolUse")
#: What the room is told of a hook.
_TOLD = (
    *("session_id", "cwd", "hook_event_name", "source", "reason", "agent_id", "notification_type"),
    *("tool_name", "tool_input", "last_assistant_message"),
)


def main(words: list[str]) -> int:
    """`--format claude|codex --config PATH`; gives its exit code, which is 0."""
    return quietly(words, _hook)


def quietly(words: list[str], work: Callable[[str, str], int]) -> int:
    """Run `work` for the program and the configuration that the words name; 0 also where it fails."""
    options = dict(zip(words[::2], words[1::2], strict=False))
    program, config = options.get("--format", ""), options.get("--config", "")
    named = os.environ.get("RELAY_AGENT_ID") or os.environ.get("RELAY_API_KEY")
    if named or program not in ("claude", "codex"):
        return 0
    try:
        return work(program, config)
    except (guard.CannotAsk, OSError, ValueError, AttributeError, TypeError, KeyError):
        return 0


def _hook(program: str, config: str) -> int:
    give_up = time.monotonic() + LIMIT_S
    _end_at(give_up)
    event = json.loads(sys.stdin.buffer.read().decode("utf-8", "replace"))
    name = str(event.get("hook_event_name"))
    if name == "PreToolUse":
        return _before_tool(program, config, event, give_up)
    answer = tell(program, config, event, give_up)
    if text := answer.get("context"):
        print(json.dumps(told(program, name, str(text))), flush=True)
    if answer.get("messages"):
        after = str(_shortened(event).get("tool_name") or "") if name in _INSIDE else None
        acknowledge(program, config, event["session_id"], answer["messages"], give_up, after)
    return 0


def _end_at(give_up: float) -> None:
    """Whatever hangs (a pipe, a disk), the program does not wait for it."""
    import signal

    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, max(0.01, give_up - time.monotonic()))


def _before_tool(program: str, config: str, event: dict[str, Any], give_up: float) -> int:
    """Ask the guard as the session itself, and tell the room which tool is about to run."""
    import signal

    # The guard has a limit of its own, and looks up what nobody answers.
    signal.setitimer(signal.ITIMER_REAL, 0)
    agent, session = guard.whose(config, event.get("session_id"))
    said = False
    if not session:
        try:
            answer = tell(program, config, event, min(give_up, time.monotonic() + WHO_S))
            agent, session, said = str(answer["agent"]), str(answer["session"]), True
        except (guard.CannotAsk, OSError, ValueError, KeyError):
            agent, session = agent or program, str(event.get("session_id") or "")
    try:
        reasons, note, context = guard.ask(event, agent, session, config)
    except (guard.CannotAsk, OSError, ValueError, AttributeError, TypeError):
        # As the guard's own hook: the commit is asked about again. Nothing is said in a room that does not run.
        reasons, note, context = [], "", ""
    if reasons:
        print(json.dumps(guard.refusal(program, " ".join(reasons))), flush=True)
    elif context:
        print(json.dumps(guard.allowed(context)), flush=True)
    if note and reasons:
        print(f"relay: {note}", file=sys.stderr)
    if not said:
        tell(program, config, event, give_up)
    return 0


def tell(program: str, config: str, event: dict[str, Any], give_up: float) -> dict[str, Any]:
    """Tell the room what the program does; its answer. Raises CannotAsk, OSError, ValueError."""
    record = f"{guard.runtime(config)}/mcp/attached-{event.get('session_id')}.json"
    question: dict[str, Any] = {"program": program, "event": _shortened(event)}
    known = os.path.exists(record)  # noqa: PTH110
    if not known:
        from relay.app.attach.session_record import program_process

        process = program_process(program)
        if process is not None:
            question["process"] = json.dumps(process)
    address = guard.room(config)
    answer = guard.post(address, "/api/sessions/hook", question, give_up)
    if event.get("hook_event_name") == "SessionEnd":
        if known:
            os.unlink(record)  # noqa: PTH108
    elif not known and "process" in question:
        from relay.app.attach.session_record import write_record

        write_record(guard.runtime(config), record, answer["agent"], answer["session"], question["process"])
    return answer


def acknowledge(
    program: str, config: str, session: str, messages: list[str], give_up: float, after: str | None = None
) -> None:
    """The program was told these messages, inside a turn `after` this tool, else with a prompt. Raises CannotAsk,
    OSError, ValueError."""
    question = {"program": program, "session": session, "messages": messages, "after": after}
    guard.post(guard.room(config), "/api/sessions/heard", question, give_up)


def told(program: str, event: str, text: str) -> dict[str, Any]:
    """`text` for the session's model, in the program's form. At a stop, the turn goes on with it."""
    if program == "codex" and event == "Stop":
        return {"decision": "block", "reason": text}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def _shortened(event: dict[str, Any]) -> dict[str, Any]:
    """What the room is told of the hook: of a batch its last tool."""
    calls = event.get("tool_calls")
    if isinstance(calls, list) and calls and isinstance(calls[-1], dict):
        event = {**event, "tool_name": calls[-1].get("tool_name"), "tool_input": calls[-1].get("tool_input")}
    shown = {key: event[key] for key in _TOLD if event.get(key) is not None}
    if isinstance(shown.get("tool_input"), dict):
        given = shown["tool_input"]
        shown["tool_input"] = {
            key: given[key][:MOST_SENT] if isinstance(given[key], str) else None
            for key in ("file_path", "notebook_path", "path", "command", "input", "patch")
            if key in given
        }
    if isinstance(shown.get("last_assistant_message"), str):
        shown["last_assistant_message"] = shown["last_assistant_message"][:MOST_SAID]
    return shown

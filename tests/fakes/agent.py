#!/usr/bin/env python3
"""A program that speaks the stream of claude, codex, gemini or agy, after the name it is called by.

FAKE_ACT says how it behaves; FAKE_DIR is the folder where it notes its calls and the processes it leaves. The
lines are those of the real programs at the versions in docs/agents.md, cut to what matters. FAKE_OLD: it knows none
of the ways of hearing (`help`), or gives no receipts (`receipts`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from agent_input import ClaudeInput, Input, PiInput

NAME = Path(sys.argv[0]).name
OLD = os.environ.get("FAKE_OLD", "")
FOLDER = Path(os.environ["FAKE_DIR"])
SESSION = "22222222-2222-4222-8222-222222222222"
SIGN_IN = {
    "claude": "Not logged in · Please run /login",
    "codex": "unexpected status 401 Unauthorized: Missing bearer or basic authentication in header",
    "gemini": "Please set an Auth method in your settings.json or specify one of the following environment "
    "variables before running: GEMINI_API_KEY",
}
SIGN_IN["qwen"] = "[API Error: 401 Incorrect API key provided]"
SIGN_IN["pi"] = "401 Incorrect API key provided"
SIGN_IN["agy"] = "Authentication required. Please sign in."
LIMIT = {
    "claude": "You've hit your session limit · resets 1:20am (Europe/Vienna)",
    "codex": "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro) or "
    "try again at 2:07 AM.",
    "gemini": '[API Error: {"error":{"code":429,"message":"You exceeded your current quota. Please retry in '
    '3527.18s.","status":"RESOURCE_EXHAUSTED"}}]',
}
LIMIT["qwen"] = "[API Error: 429 quota exceeded. Please retry in 3527.18s.]"
LIMIT["pi"] = "429 Rate limit reached. Please try again in 37s."
LIMIT["agy"] = "Individual quota reached. Resets in 34m13s."
LOST = {
    "claude": "No conversation found with session ID: {}",
    "codex": "Error: thread/resume: thread/resume failed: no rollout found for thread id {} (code -32600)",
    "gemini": 'Error resuming session: Invalid session identifier "{}".',
    "agy": "conversation {} not found",
    "qwen": "No saved session found with ID {}",
    "pi": "No session found matching '{}'",
}


HELP = {
    "claude": "  --input-format <format>\n  --replay-user-messages\n",
    "pi": "  --mode <mode>  Output mode: text (default), json, or rpc\n",
}
#: Where its input stays open.
INPUT: list[Input] = []


def put(*events: dict[str, object]) -> None:
    for event in events:
        print(json.dumps(event, ensure_ascii=False), flush=True)


def begin() -> None:
    if NAME == "pi":
        return
    put(
        {
            "claude": {
                "type": "system",
                "subtype": "init",
                "session_id": SESSION,
                "permissionMode": "dontAsk",
                "capabilities": [] if OLD else ["interrupt_receipt_v1", "msg_lifecycle_v1"],
            },
            "qwen": {"type": "system", "subtype": "init", "session_id": SESSION},
            "codex": {"type": "thread.started", "thread_id": SESSION},
            "gemini": {"type": "init", "session_id": SESSION, "model": "auto"},
            "agy": {"event": "init", "conversation_id": SESSION, "init": {"permission_mode": "plan"}},
        }[NAME]
    )


def say(*pieces: str) -> None:
    text = "".join(pieces)
    if NAME == "codex":
        put({"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": text}})
    elif NAME == "agy":
        step = {"step_index": 1, "step_type": "agent_response", "state": "ACTIVE"}
        put(*({"event": "step_update", "step_update": {**step, "text_delta": piece}} for piece in pieces))
    elif NAME == "gemini":
        put(*({"type": "message", "role": "assistant", "content": piece, "delta": True} for piece in pieces))
    elif NAME == "pi":
        PiInput.say(put, text)
    elif NAME == "qwen":
        # The whole input holds the cached ones, and the result counts the whole conversation (0.24.4).
        usage = {"input_tokens": 32, "output_tokens": 9, "cache_read_input_tokens": 20}
        message = {"id": "m", "content": [{"type": "text", "text": text}], "usage": usage}
        put({"type": "assistant", "message": message})
    else:
        claude_pieces(*pieces)
        put({"type": "assistant", "message": {"id": "msg_1", "content": [{"type": "text", "text": text}]}})


def claude_pieces(*pieces: str) -> None:
    start = {
        "type": "message_start",
        "message": {"id": "msg_1", "usage": {"input_tokens": 12, "output_tokens": 1}},
    }
    events: list[dict[str, object]] = [
        start,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    ]
    put(*({"type": "stream_event", "event": event, "parent_tool_use_id": None} for event in events))


def done(text: str) -> None:
    if INPUT:
        INPUT[0].ended(lambda asked: result(text, user_message_uuids=asked))
        INPUT[0].later(late)
    else:
        result(text)


def late(said: str) -> None:
    begin()
    say(f"Late: {said}")
    INPUT[0].ended(lambda asked: result(f"Late: {said}", user_message_uuids=asked))


def result(text: str, **more: object) -> None:
    usage = {"input_tokens": 12, "output_tokens": 9}
    put(
        {
            "claude": {
                "type": "result",
                "is_error": False,
                "result": text,
                "session_id": SESSION,
                "usage": usage,
                "total_cost_usd": 0.25,
                **more,
            },
            "qwen": {"type": "result", "is_error": False, "result": text, "usage": {"input_tokens": 9000}},
            "codex": {"type": "turn.completed", "usage": usage},
            "gemini": {"type": "result", "status": "success", "stats": usage},
            "agy": {"event": "result", "result": {"status": "SUCCESS", "response": text, "usage": usage}},
        }[NAME]
    )


def fail(text: str, kind: str) -> None:
    if NAME == "claude":
        message = {"id": "m", "content": [{"type": "text", "text": text}]}
        put(
            {"type": "assistant", "message": message, "error": kind, "is_api_error_message": True},
            {"type": "result", "is_error": True, "result": text, "session_id": SESSION, "usage": {}},
        )
    elif NAME == "codex":
        put({"type": "error", "message": text}, {"type": "turn.failed", "error": {"message": text}})
    elif NAME == "agy":
        put({"event": "result", "result": {"status": "ERROR", "error": text}})
    elif NAME == "qwen":  # it says so of what its service refuses
        put({"type": "result", "subtype": "success", "is_error": False, "result": text, "usage": {}})
        return
    elif NAME == "pi":
        PiInput.fail(put, text)
        INPUT[0].later(late)
    elif kind == "authentication_failed":
        print(text, file=sys.stderr)
        sys.exit(41)
    else:
        put({"type": "result", "status": "error", "error": {"type": "unknown", "message": text}})
    sys.exit(1)


def leave(*, session: bool, deaf: bool = False) -> None:
    """Leave a process behind that holds our output open."""
    ready = FOLDER / f"ready-{time.monotonic_ns()}"
    ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN)" if deaf else "pass"
    code = f"import pathlib, signal, time; {ignore}; pathlib.Path({str(ready)!r}).touch(); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code], start_new_session=session)
    with (FOLDER / "left").open("a") as file:
        file.write(f"{child.pid}\n")
    while not ready.exists():
        time.sleep(0.005)


def hang() -> None:
    with (FOLDER / "left").open("a") as file:
        file.write(f"{os.getpid()}\n")
    (FOLDER / "hangs").touch()
    time.sleep(600)


def resumed() -> str | None:
    for flag in ("--resume", "resume", "--conversation", "--session"):
        if flag in sys.argv:
            return sys.argv[sys.argv.index(flag) + 1]
    return None


def replay() -> None:
    """What a real program printed: the first FAKE_LINES of the file FAKE_REPLAY, and then nothing more; 0 = all."""
    lines, upto = Path(os.environ["FAKE_REPLAY"]).read_text().splitlines(), int(os.environ["FAKE_LINES"])
    print("\n".join(lines[: upto or None]), flush=True)
    if upto:
        hang()


def work() -> None:
    """Use a tool until the test says `go`; then answer, with what was heard at the boundary behind the tool."""
    tool = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "make"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "made"}
    heard: list[str] = []
    if NAME == "claude":
        put({"type": "assistant", "message": {"id": "msg_0", "content": [tool]}})
    if NAME == "pi":
        put(
            {
                "type": "tool_execution_start",
                "toolCallId": "t",
                "toolName": "bash",
                "args": {"command": "make"},
            }
        )
    for given in INPUT:
        given.wait()
    if not INPUT:
        wait()
    if NAME == "claude":
        put({"type": "user", "message": {"role": "user", "content": [result]}})
    for given in INPUT:
        heard = given.boundary()
    text = " and ".join(["Hello there.", *heard])
    say(text)
    if os.environ.get("FAKE_SLOW"):
        (FOLDER / "answers").touch()
        wait("end")
    done(text)


def edit() -> None:
    """Ask the hook on the pipe about an edit of a.py, and say what it said."""
    said = "nobody was asked"
    for given in INPUT:
        change = {"file_path": str(Path.cwd() / "a.py"), "old_string": "b\n", "new_string": "B\n"}
        assert isinstance(given, ClaudeInput)
        may, why = given.may(
            os.environ.get("FAKE_TOOL", "Edit"), json.loads(os.environ.get("FAKE_GIVEN", "0")) or change
        )
        said = f"{'allowed' if may else 'denied'}: {why}"
    say(said)
    done(said)


def wait(file: str = "go") -> None:
    (FOLDER / "works").touch()
    while not (FOLDER / file).exists():
        time.sleep(0.002)


def act(what: str) -> None:
    if what == "replay":
        return replay()
    begin()
    match what:
        case "answer":
            say("Hello ", "there.")
            done("Hello there.")
        case "work":
            work()
        case "edit":
            edit()
        case "hang":
            hang()
        case "hang-deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            hang()
        case "hang-family":
            leave(session=False)
            leave(session=True)
            leave(session=True, deaf=True)
            hang()
        case "hang-pair":
            leave(session=False)
            hang()
        case "reconnect":
            put({"type": "error", "message": "Reconnecting... 2/5 (stream disconnected before completion)"})
            hang()
        case "grandchild":
            leave(session=False)
            leave(session=True)
            say("I started something.")
            done("I started something.")
        case "linger":
            say("All done.")
            done("All done.")
            hang()
        case "flood-text":
            for _ in range(1600):
                say("x" * 65_536)
            done("x" * 65_536)
        case "flood-line":
            for _ in range(1600):
                sys.stdout.write("x" * 65_536)
            sys.stdout.write("\n")
            say("Still here.")
            done("Still here.")
        case "flood-errors":
            for _ in range(1_000_000):
                sys.stderr.write("noise " * 16 + "\n")
            say("Still here.")
            done("Still here.")
        case "silent":
            done("")
        case "nothing":
            pass
        case "signal":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            print("first line\nthe disk is full", file=sys.stderr)
            sys.exit(3)
        case "sign-in":
            fail(SIGN_IN[NAME], "authentication_failed")
        case "rate-limit":
            fail(LIMIT[NAME], "rate_limit")
        case _:
            sys.exit(f"unknown FAKE_ACT {what}")


def main() -> None:
    if "--version" in sys.argv:
        with (FOLDER / "versions").open("a") as file:
            file.write("asked\n")
        print(f"{NAME} 9.8.7 (fake)")
        return
    if sys.argv[1:3] == ["login", "status"]:
        sys.exit("Not logged in")
    if "--help" in sys.argv:
        print(f"usage: {NAME}\n{'' if OLD == 'help' else HELP.get(NAME, '')}")
        return
    if NAME == "claude" and "--replay-user-messages" in sys.argv:
        INPUT.append(ClaudeInput(put, capable=not OLD))
        prompt = INPUT[0].begin()
    elif NAME == "pi":
        INPUT.append(PiInput(put, SESSION))
        # One that does not find its session ends before it reads.
        prompt = INPUT[0].begin() if resumed() in (None, SESSION) else ""
    else:
        prompt = sys.stdin.read()  # to its end: codex would wait for it too
    call = {"argv": sys.argv[1:], "prompt": prompt, "env": dict(os.environ), "cwd": str(Path.cwd())}
    with (FOLDER / "calls").open("a") as file:
        file.write(json.dumps(call) + "\n")
    session = resumed()
    if session is not None and session != SESSION:
        print(LOST[NAME].format(session), file=sys.stderr)
        sys.exit(1)
    act(os.environ.get("FAKE_ACT", "answer"))


main()

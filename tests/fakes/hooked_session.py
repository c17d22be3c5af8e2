"""A stand-in for an interactive Claude Code or Codex: a process that calls the hooks of its settings as those do.

    python tests/fakes/hooked_session.py claude|codex SESSION SETTINGS

Each line of standard input is what the program gives a hook: {"hook_event_name": ..., ...}. It runs the hooks of that
event whose matcher fits the tool, each through `sh`, with the variables of Claude Code 2.1.330 and the JSON on
standard input, and answers with one line: {"outputs": [each hook's JSON or null], "codes": [...], "errors": [...]}.
Hooks with `asyncRewake` run beside it; when one ends with exit code 2, a line {"woken": what it wrote} comes.
"""

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

PROGRAM, SESSION, SETTINGS = sys.argv[1:]
writing = threading.Lock()


def say(line: dict) -> None:
    with writing:
        print(json.dumps(line), flush=True)


def environ() -> dict:
    if PROGRAM == "codex":
        return dict(os.environ)
    return {
        **os.environ,
        "CLAUDE_PID": str(os.getpid()),
        "CLAUDE_CODE_SESSION_ID": SESSION,
        "CLAUDE_PROJECT_DIR": str(Path.cwd()),
        "CLAUDE_CODE_SESSION_ATTENDED": "1",
        "CLAUDECODE": "1",
    }


def start(hook: dict) -> subprocess.Popen:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        ["sh", "-c", hook["command"]], stdin=pipe, stdout=pipe, stderr=pipe, env=environ()
    )


def beside(hook: dict, given: bytes) -> None:
    process = start(hook)
    _, error = process.communicate(given)
    if process.returncode == 2:
        say({"woken": error.decode()})


def main() -> None:
    for line in sys.stdin:
        event = {"session_id": SESSION, "cwd": str(Path.cwd()), **json.loads(line)}
        given = json.dumps(event).encode()
        settings = json.loads(Path(SETTINGS).read_text()) if Path(SETTINGS).exists() else {}
        outputs, codes, errors = [], [], []
        for group in settings.get("hooks", {}).get(event["hook_event_name"], ()):
            matcher = group.get("matcher", "")
            if matcher and not re.fullmatch(matcher, event.get("tool_name", "")):
                continue
            for hook in group["hooks"]:
                if hook.get("asyncRewake"):
                    threading.Thread(target=beside, args=(hook, given), daemon=True).start()
                    continue
                process = start(hook)
                out, error = process.communicate(given, timeout=hook["timeout"] * 12)
                outputs.append(json.loads(out) if out.strip() else None)
                codes.append(process.returncode)
                errors.append(error.decode())
        say({"outputs": outputs, "codes": codes, "errors": errors})


main()

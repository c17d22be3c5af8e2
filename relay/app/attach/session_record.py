"""Which process an attached session's program is, written down as `relay mcp` does it.

So git's hooks and the guard's find out, from any shell that the program opened, whose session it is (docs/guard.md,
"Who is about to write"): the nearest ancestor that a record names decides, and the program's own session id where one
process has several sessions. Standard library only: the hook loads it once in a session.
"""

from __future__ import annotations

import json
import os

from relay.app.mcp.parent_process import FOLDER, client, looked_up, machine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from relay.app.mcp.parent_process import Process


def program_process(program: str) -> list[object] | None:
    """[machine, id, start] of the program whose hook this process is; None: it cannot be seen. Claude Code names its
    process; Codex' hooks are children of the process that runs its turns, maybe behind a shell."""
    process: Process | None = None
    if program == "claude" and os.environ.get("CLAUDE_PID", "").isdigit():
        pid = int(os.environ["CLAUDE_PID"])
        found = looked_up(pid)
        process = None if found is None else (pid, found[1])
    elif program == "codex":
        process = client((0, 1))
    return None if process is None else [machine(), *process]


def write_record(folder: str, path: str, agent: str, session: str, process: str) -> None:
    """Raises OSError, ValueError."""
    where, pid, started = json.loads(process)
    told = {
        "agent": agent,
        "key": None,
        "session": session,
        "machine": where,
        "parent": [pid, started],
        "process": [pid, started],
        "client_session": session,
    }
    os.makedirs(f"{folder}/{FOLDER}", mode=0o700, exist_ok=True)  # noqa: PTH103
    fresh = f"{path}.{os.getpid()}.new"
    with open(fresh, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(json.dumps(told))
    os.replace(fresh, path)  # noqa: PTH105

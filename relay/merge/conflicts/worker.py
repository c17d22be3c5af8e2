"""The process that looks for conflicts across files for the daemon: it parses, and nothing may hold the room.

Invariant: it ends with its daemon: it reads requests from its standard input until that closes. Its standard output
carries frames and nothing else. Who asks limits the time, and ends the process that is too slow.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from relay.code.workers.frames import encoded, read_frame
from relay.git.run import Git, GitError
from relay.merge.conflicts.commits import Unrelated, check_commits

NICENESS = 10
LEVEL = 3


def main(role: str) -> None:
    """Serve requests until the input ends: `{folder, env, config, a, b}`, the git to read with and two commits ->
    `{conflicts: [{value, places}]}` of level 3, or `{error}`: why git cannot tell."""
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # a stray print must not break a frame
    while (frame := read_frame(stdin)) is not None:
        try:
            stdout.write(encoded(asyncio.run(_answer(frame[0]))))
            stdout.flush()
        except BrokenPipeError:
            return


async def _answer(message: dict[str, Any]) -> dict[str, Any]:
    git = Git(Path(message["folder"]), message["env"], tuple(message["config"]))
    try:
        checked = await check_commits(git, message["a"], message["b"], (LEVEL,))
    except (Unrelated, GitError, OSError) as error:
        return {"error": str(error)}
    found = [{"value": each.as_json(), "places": each.places} for each in checked.conflicts]
    return {"conflicts": found}

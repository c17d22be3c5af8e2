"""The process that merges texts for the daemon: beyond git's merge one may take long, and nothing may hold the room.

Invariant: it ends with its daemon: it reads requests from its standard input until that closes. Its standard output
carries frames and nothing else. Who asks limits the time, and ends the process that is too slow.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from relay.code.workers.frames import encoded, read_frame
from relay.merge.text.git_text import GitText, GitTextError
from relay.merge.text.ladder import merge_text

NICENESS = 5


def main(role: str) -> None:
    """Serve requests until the input ends: `{path}` with the base, ours and theirs, in UTF-8 -> `{by}` with the
    merged text, or `{by: null}` where it conflicts."""
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # a stray print must not break a frame
    with tempfile.TemporaryDirectory(prefix="relay-merge-") as made:
        git = GitText(Path(made))
        while (frame := read_frame(stdin)) is not None:
            message, parts = frame
            try:
                stdout.write(encoded(*_answer(git, message, parts)))
                stdout.flush()
            except BrokenPipeError:
                return


def _answer(git: GitText, message: dict[str, Any], parts: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    try:
        base, ours, theirs = (part.decode() for part in parts)
        merged = merge_text(git, base, ours, theirs, message["path"])
    except (UnicodeDecodeError, GitTextError, RecursionError, MemoryError):
        return {"by": None}, []
    if not merged.clean:
        return {"by": None}, []
    return {"by": list(merged.steps) or [merged.by]}, [merged.text.encode()]

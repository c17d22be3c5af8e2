"""The processes that got away from a command: they left its group, and one of them killed the shim that would have
ended them.

Invariant: a process is known by its own environment, which names the command's folder, and nobody else's does. One
that was started with another environment is not found: only a sandbox holds that.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psutil

#: Looks at most, since a process may start another one between two.
LOOKS = 20


def end_leftovers(folder: Path) -> None:
    """Kill this user's processes that have the folder in their environment, until there is none. Blocks."""
    mark = str(folder)
    for _ in range(LOOKS):
        found = [process for process in psutil.process_iter() if _has(process, mark)]
        if not found:
            return
        for process in found:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=1.0)


def _has(process: psutil.Process, mark: str) -> bool:
    try:
        return process.pid != os.getpid() and any(mark in value for value in process.environ().values())
    except (psutil.Error, OSError):
        return False  # it is gone, another user's, or a zombie

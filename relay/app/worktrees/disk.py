"""How much of the disk a folder takes.

Invariant: a look is bounded in entries and time, and says when it did not see all.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

#: Entries and seconds after which a look ends; entries between two pauses, in which others of this process run.
MOST_ENTRIES, MOST_S, PAUSE_EVERY = 2_000_000, 60.0, 500


@dataclass(frozen=True, slots=True)
class DiskUse:
    """`bytes`: what the files take; `whole`: all was seen. `at`: when it was measured, Unix seconds."""

    bytes: int
    whole: bool
    at: float


def measure(folder: Path, *, most_entries: int = MOST_ENTRIES, most_s: float = MOST_S) -> DiskUse:
    """What a folder takes. A file with several names counts with its share at each: three worktrees that link one
    file take it once together. No link is followed, and no other file system is entered. Blocks, up to `most_s`."""
    began, total, entries = time.monotonic(), 0.0, 0
    waiting = [os.fspath(folder)]
    try:
        device = os.lstat(folder).st_dev
    except OSError:
        return DiskUse(0, True, time.time())
    while waiting:
        try:
            with os.scandir(waiting.pop()) as there:
                for entry in there:
                    entries += 1
                    if entries % PAUSE_EVERY == 0:
                        time.sleep(0.0005)
                        if entries >= most_entries or time.monotonic() - began > most_s:
                            return DiskUse(int(total), False, time.time())
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if stat.S_ISDIR(found.st_mode):
                        if found.st_dev == device:
                            waiting.append(entry.path)
                            total += found.st_blocks * 512
                    else:
                        total += found.st_blocks * 512 / max(1, found.st_nlink)
        except OSError:
            continue  # gone meanwhile, or nobody may look
    return DiskUse(int(total), True, time.time())


def megabytes(size: int) -> str:
    """In words: `12 MB`, `1.4 GB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(1, round(size / 1e6)) if size else 0} MB"

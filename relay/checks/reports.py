"""The figures of the reports that a check left in its tree.

Invariant: only files that this run wrote count, that stand in the exported tree itself. A report that was committed
with the tree says nothing about this run, and one behind a link that leads out is not opened.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from relay.base.child_process import STDOUT, ChildProcess
from relay.checks.results import Parse

READER = str(Path(__file__).with_name("report_reader.py"))
#: Files of one report, paths that its glob may give, bytes of an answer, seconds.
MOST_FILES = 1000
MOST_PATHS = 100_000
MOST_ANSWER = 65_536
READ_S = 20.0

#: What tells a file that was written again: inode, ctime in ns, bytes.
Stamp = tuple[int, int, int]


def report_files(folder: Path, report: str) -> dict[Path, Stamp]:
    """The regular files in `folder` that a path or glob names, with what changes when one is written. Blocks."""
    top = folder.resolve()
    found: dict[Path, Stamp] = {}
    try:
        for path in islice(folder.glob(report), MOST_PATHS):
            about = path.lstat()
            if stat.S_ISREG(about.st_mode) and path.resolve().is_relative_to(top):
                found[path] = (about.st_ino, about.st_ctime_ns, about.st_size)
    except (OSError, ValueError, NotImplementedError, RuntimeError):
        return found
    return found


async def read_figures(
    parse: Parse, folder: Path, before: Mapping[Path, Stamp], text: str
) -> tuple[dict[str, float], str]:
    """The figures by name, and why one is missing. `before`: the files of the report as they stood before the run;
    `text`: what it printed."""
    files: list[Path] = []
    if parse.report is not None:
        now = await asyncio.to_thread(report_files, folder, parse.report)
        files = sorted(path for path, stamp in now.items() if before.get(path) != stamp)
        if not files:
            older = "only one that stood in the tree before" if now else "no such file"
            return {}, f"{parse.report}: the command left {older}"
        if len(files) > MOST_FILES:
            return {}, f"{parse.report}: the command left more than {MOST_FILES} files"
    request = {
        "format": parse.format,
        "files": [os.fspath(path) for path in files],
        "text": text,
        "pattern": parse.pattern,
    }
    answer = await _read(json.dumps(request).encode())
    if answer is None:
        return {}, "the report was too much to be read"
    return answer["metrics"], answer["reason"]


async def _read(request: bytes) -> Any:
    """What the reader answers; None: it was ended by its limits."""
    printed = b""
    argv = (sys.executable, "-I", "-S", READER)
    async with await ChildProcess.start(argv, env={}, cwd=Path("/"), stdin=request) as process:
        try:
            async with asyncio.timeout(READ_S):
                async for stream, data in process.output():
                    printed += data if stream == STDOUT and len(printed) < MOST_ANSWER else b""
        except TimeoutError:
            return None
        ended = process.exit
    try:
        return json.loads(printed) if ended is not None and ended.code == 0 else None
    except ValueError:
        return None

"""The programs of the swarm that no room runs: people, and the workers without relay.

Invariant: what is started here is ended here, with its whole process group.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from relay.app.demo.stage import end_group

#: Seconds that a program gets to end when it is told to.
_END_S = 5.0


class Programs:
    """Those that run. What each has printed stands in a file of its name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.started: dict[str, asyncio.subprocess.Process] = {}

    def over(self) -> bool:
        return all(child.returncode is not None for child in self.started.values())

    async def wait(self) -> None:
        """Until all are over."""
        await asyncio.gather(*(child.wait() for child in self.started.values()))

    def failed(self) -> str:
        """Who has failed, and its last words; empty: nobody."""
        for name, child in self.started.items():
            if child.returncode:
                return f"{name} failed: {self.output(name).read_text(errors='replace').strip()[-1000:]}"
        return ""

    def output(self, name: str) -> Path:
        return self._folder / f"{name}.out"


@asynccontextmanager
async def running(
    words: Mapping[str, tuple[str, Path, Sequence[str]]], folder: Path, **environ: str
) -> AsyncIterator[Programs]:
    """Run a module of this package for each name, in a folder, with its arguments."""
    programs = Programs(folder)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
    try:
        for name, (module, place, arguments) in words.items():
            with programs.output(name).open("wb") as out:
                programs.started[name] = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", f"relay.app.demo.swarm.{module}", *arguments),
                    cwd=place,
                    env={**kept, **environ},
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
        yield programs
    finally:
        ending = asyncio.gather(*(end_group(child, _END_S) for child in programs.started.values()))
        while not ending.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(ending)

"""People's own sessions for tests: real processes that call the hooks which `relay attach` wrote."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.outside import PATIENCE_S, Outside

Json = dict[str, Any]
FAKE = Path(__file__).parents[2] / "fakes" / "hooked_session.py"
PLACES = {"claude": ".claude/settings.local.json", "codex": ".codex/hooks.json"}


class Session:
    """One window of a program."""

    def __init__(self, id: str, process: asyncio.subprocess.Process) -> None:
        self.id, self.process = id, process
        self.woken: list[str] = []
        self.raw: Json = {}

    async def hook(self, event: str, **more: Any) -> Json | None:
        """What the program's hooks of this event printed: the first answer that is one."""
        assert self.process.stdin is not None
        line = json.dumps({"hook_event_name": event, **more})
        self.process.stdin.write(line.encode() + b"\n")
        while True:
            told = await self._line()
            if "woken" not in told:
                self.raw = told
                return next((output for output in told["outputs"] if output), None)
            self.woken.append(told["woken"])

    async def until_woken(self) -> str:
        while not self.woken:
            told = await self._line()
            assert "woken" in told, told
            self.woken.append(told["woken"])
        return self.woken.pop(0)

    async def context(self, event: str, **more: Any) -> str:
        """The text that the model gets."""
        output = await self.hook(event, **more)
        return "" if output is None else str(output["hookSpecificOutput"].get("additionalContext", ""))

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def _line(self) -> Json:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            line = await self.process.stdout.readline()
        told: Json = json.loads(line)
        return told


@asynccontextmanager
async def session(
    one: Outside, id: str, program: str = "claude", *, folder: Path | None = None, **env: str
) -> AsyncIterator[Session]:
    """A session in the room's folder, which was attached."""
    place = folder or one.folder
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(FAKE), program, id, str(place / PLACES[program])),
        cwd=place,
        env=one.environ(env),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    opened = Session(id, process)
    try:
        yield opened
    finally:
        await opened.kill()

"""`relay mcp` with services of a few lines, for tests of the transport: `python -m tests.faces.mcp.mcp_toy JOURNAL`.

What happens to a lock's path says what the service does: `noise` prints in every way there is, `crash` raises,
`busy` is a locked database, `slow` waits until it is cancelled. The journal tells what became of it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from relay.app.mcp.stdio_server import OpenRoom, run
from relay.config.settings import Settings
from relay.faces.mcp import stdio
from relay.faces.services import Services
from relay.model import Caller, Fault, Refusal
from relay.store.ports import StoreBusy, StoreError


class Toy:
    """Locks and sessions; everything else fails if it is asked."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal

    def services(self) -> Services:
        toy: Any = self
        return Services(*[toy] * len(dataclasses.fields(Services)))

    def note(self, text: str) -> None:
        with self._journal.open("a") as file:
            file.write(text + "\n")

    async def acquire(
        self, caller: Caller, paths: list[str], *, wait_s: float = 0.0, on_wait: Any = None, **_: Any
    ) -> dict[str, Any]:
        match paths[0]:
            case "noise":
                print("printed")
                os.write(1, b"written\n")
                subprocess.run(["sh", "-c", "cat; echo from a child"], check=True)  # noqa: ASYNC221
                warnings.warn("warned", stacklevel=1)
            case "crash":
                raise RuntimeError("the inside")
            case "busy":
                raise StoreBusy("locked")
            case "newer":
                raise StoreError("it was written by a newer relay; update this one")
            case "line":
                for place in ("2nd in line behind BEN.", "1st in line behind EVE."):
                    on_wait(place)
                    await asyncio.sleep(0.05)
            case "slow":
                self.note("waits")
                try:
                    await asyncio.sleep(wait_s)
                except asyncio.CancelledError:
                    self.note("cancelled")
                    raise
            case "half":
                return {"success": True, "file_path": "\ud800"}
            case "held":
                raise Refusal("BEN holds it.", "Wait.", Fault.REFUSED, "locked", details={"locked_by": "BEN"})
        return {
            "success": True,
            "action": "acquired",
            "file_path": paths[0],
            "agent": dataclasses.asdict(caller)["agent"],
        }

    async def check(self, caller: Caller, paths: Any = None, **page: Any) -> list[dict[str, Any]]:
        return [{"file_path": "a", "locked_by": caller.agent, "paths": paths}]

    async def status(self, caller: Caller, path: str) -> dict[str, Any]:
        if path == "nowhere":
            raise Refusal("There is no such path.", "", Fault.UNKNOWN)
        return {"file_path": path, "locked": False, "by": caller.agent}

    async def touch(self, caller: Caller) -> None:
        self.note(f"touch {caller.agent} {caller.agent_type}")

    async def end(self, caller: Caller, *, reason: str = "ended", by: str | None = None) -> dict[str, Any]:
        self.note(f"end {caller.session[:4]} {reason}")
        return {"success": True}

    async def find(self, key: str) -> Any:
        scopes = frozenset({"read"})
        return (
            SimpleNamespace(identity="ANN", agent_type="agent", scopes=scopes, id="k")
            if key == "good"
            else None
        )

    async def close(self) -> None:
        self.note("closed")


def main() -> None:
    toy: Any = Toy(Path(sys.argv[1]))
    tries = 0

    async def opening(_settings: Settings) -> OpenRoom:
        nonlocal tries
        tries += 1
        if os.environ.get("TOY_AWAY") and tries == 1:
            raise StoreBusy("away")
        if os.environ.get("TOY_PRINTS"):
            print("opened")
        return OpenRoom(toy, toy.services())

    wire = stdio.claim()
    code = run(wire, config=None, agent=None, opening=opening)
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()

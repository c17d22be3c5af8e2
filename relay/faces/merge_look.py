"""Merges for callers of an operation: who is behind the lines of a file, and whether two branches conflict.

Invariant: nothing changes, and nothing heavy is imported before it is asked for.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from relay.config.settings import LiveSettings
from relay.model import Caller, Fault, Refusal
from relay.store.ports import Store

Json = dict[str, Any]
#: Seconds that a check takes at most, beside the tests that it runs: three times, on both sides and on the merge.
CHECK_S = 300.0
#: Characters of an error that are quoted.
QUOTED = 600


class MergeLook:
    """Looks at the merges of one room."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        self._store, self._settings = store, settings

    async def blame(self, caller: Caller, path: str, at: str | None) -> Json:
        """`BlamedFile.as_json`. Raises Refusal."""
        from relay.faces.blamed_file import blamed_file

        settings = self._settings.current
        found = await blamed_file(settings.repo, path, at, settings=settings, store=self._store)
        return found.as_json()

    async def check(self, caller: Caller, a: str, b: str, level: str | None) -> Json:
        """What `relay merge check A B --json` prints, in a process of its own: reading two branches takes a while,
        and nothing may hold the room. Raises Refusal."""
        from relay.base.child_process import STDOUT, ChildProcess

        settings = self._settings.current
        words = [sys.executable, "-P", "-m", "relay.cli", "merge", "check", "--json"]
        words += ["--config", str(settings.path), *(["--level", level] if level else []), "--", a, b]
        said: dict[int, bytes] = {}
        try:
            async with (
                asyncio.timeout(CHECK_S + 3 * settings.merge.test_timeout_s),
                await ChildProcess.start(words, env=os.environ, cwd=settings.repo) as child,
            ):
                async for pipe, piece in child.output():
                    said[pipe] = said.get(pipe, b"") + piece
                code = child.exit.code if child.exit is not None else None
        except TimeoutError:
            raise Refusal("The check took too long.", "Ask for fewer levels: 1-3.", Fault.BUSY) from None
        except OSError as error:
            raise Refusal(f"The check could not be started: {error}.", "", Fault.UNAVAILABLE) from error
        if code in (0, 1) and (out := said.get(STDOUT)):
            found: Json = json.loads(out)
            return found
        lines = b"".join(text for pipe, text in said.items() if pipe != STDOUT).decode("utf-8", "replace")
        last = lines.strip().split("\n")[-1].removeprefix("relay: ")[-QUOTED:]
        if code == 2:
            raise Refusal(last, "Name two branches, commits or agents.", Fault.UNKNOWN, "not_found")
        raise Refusal(last or "The check ended without an answer.", "", Fault.UNAVAILABLE)

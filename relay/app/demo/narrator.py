"""What the demo prints while it is played.

Invariant: an entry of the transcript is printed once, as the room has it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from relay.app.demo.stage import LOOK_S, YOU, Stage
from relay.base.terminal_text import indented

_COLOURS = {
    **{"AVA": "cyan", "BEN": "magenta", "CLEO": "green", "DAN": "blue", "EVE": "bright_cyan", "FAY": "red"},
    **{"RELAY": "bright_black", YOU: "bold"},
}


class Narrator:
    """Prints what happens in the room as it happens."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._seen: set[str] = set()

    def scene(self, text: str) -> None:
        self.console.print(f"\n[bold]{text}[/bold]")

    def note(self, text: str) -> None:
        self.console.print(Text(text, style="dim"))

    def entry(self, entry: dict[str, Any]) -> None:
        """One entry of the transcript."""
        if entry["id"] in self._seen:
            return
        self._seen.add(entry["id"])
        speaker = str(entry["speaker"])
        style = "bold yellow" if entry["kind"] == "advisory" else ""
        line = Text(f"  [{speaker}] ", style=_COLOURS.get(speaker, ""))
        line.append(indented(str(entry["body"])), style=style)
        self.console.print(line)

    async def link(self, stage: Stage) -> None:
        """Say where the room can be watched."""
        link = await stage.post("/api/links")
        self.note(f"Watch it in the page: {link['url']}")

    async def follow(self, stage: Stage) -> None:
        """Print the transcript for ever."""
        after = ""
        while True:
            page = await stage.get(f"/api/transcript?limit=100{after}")
            for entry in page["entries"]:
                self.entry(entry)
            after = f"&after={page['next']}"
            await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def beside(watching: Any) -> AsyncIterator[None]:
    """Run `watching` meanwhile; let it see the last entries before it ends."""
    task = asyncio.create_task(watching, name="demo-narrator")
    try:
        yield
        await asyncio.sleep(3 * LOOK_S)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until_interrupted() -> None:
    """Wait for Ctrl-C."""
    pressed, loop, current = asyncio.Event(), asyncio.get_running_loop(), asyncio.current_task()
    assert current is not None
    loop.add_signal_handler(signal.SIGINT, pressed.set)
    try:
        await pressed.wait()
    finally:
        loop.add_signal_handler(signal.SIGINT, current.cancel)


def console_of(file: TextIO) -> Console:
    """A terminal gets lines of its width; a pipe gets each line whole."""
    return Console(file=file, highlight=False, soft_wrap=not file.isatty())

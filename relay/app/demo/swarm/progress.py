"""The line in which a run of the swarm is seen going on: it moves in a terminal, else it is printed now and then."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

#: Seconds between two lines where nobody sees one move.
_LINE_S = 10.0
_WIDTH = 24


class Progress:
    """Of one run. `of`: how many items there are."""

    def __init__(self, console: Console, name: str, of: int) -> None:
        self._console, self._name, self._of = console, name, of
        self._began = self._said = time.monotonic()
        self._live = (
            Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, done: int, more: str) -> None:
        """`done` of the items are over; `more`: what else there is to say."""
        now = time.monotonic()
        spent = int(now - self._began)
        full = _WIDTH * done // max(1, self._of)
        bar = "█" * full + "░" * (_WIDTH - full)
        line = f"  {self._name}  {bar}  {done:>3}/{self._of}  {more}  {spent // 60}:{spent % 60:02}"
        if self._live is not None:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        elif now - self._said >= _LINE_S:
            self._said = now
            self._console.print(Text(line, style="dim"))

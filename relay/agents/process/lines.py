"""Bytes into lines, with a bound on each.

Invariant: no more than `limit` bytes of one line are ever held; a longer line is dropped whole, and counted.
"""

from __future__ import annotations

#: Bytes of one line of a JSON stream: a tool's result may hold a whole file.
LINE_LIMIT = 4 * 1_048_576
STDERR_LINE_LIMIT = 8192
#: Characters of the diagnostics' end that a failure is judged by.
STDERR_TAIL = 4096


class Lines:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()
        self._skipping = False
        self.dropped = 0

    def feed(self, data: bytes) -> list[str]:
        """The lines that `data` completes, without their ends; what is no UTF-8 shows as U+FFFD."""
        *ended, rest = data.split(b"\n")
        lines: list[str] = []
        for piece in ended:
            self._hold(piece)
            if not self._skipping:
                lines.append(self._held.decode("utf-8", "replace").rstrip("\r"))
            self._held.clear()
            self._skipping = False
        self._hold(rest)
        return lines

    def end(self) -> list[str]:
        """The last line, when no line end follows it."""
        lines = [self._held.decode("utf-8", "replace")] if self._held else []
        self._held.clear()
        return lines

    def _hold(self, piece: bytes) -> None:
        if self._skipping:
            return
        if len(self._held) + len(piece) > self._limit:
            self._held.clear()
            self._skipping = True
            self.dropped += 1
            return
        self._held += piece

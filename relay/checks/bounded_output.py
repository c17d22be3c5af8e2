"""The first and the last bytes of what a program prints.

Invariant: memory is bounded, whatever is printed, and what is kept is text that no terminal obeys.
"""

from __future__ import annotations

from relay.base.terminal_text import safe

#: Bytes that are kept of the beginning, and of the end.
KEPT = 20_000


class BoundedOutput:
    """`count`: the bytes of all that was added."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._head, self._tail = bytearray(), bytearray()
        self.count = 0

    def add(self, data: bytes) -> None:
        self.count += len(data)
        room = self._kept - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > 8 * self._kept:
            del self._tail[: -self._kept]

    @property
    def head(self) -> str:
        """The first bytes as text, no longer than they."""
        return _text(self._head)[: self._kept]

    @property
    def tail(self) -> str:
        """The last bytes of what follows the head."""
        return _text(self._tail[-self._kept :])[-self._kept :]


def _text(data: bytes | bytearray) -> str:
    return safe(data.decode("utf-8", "replace"))

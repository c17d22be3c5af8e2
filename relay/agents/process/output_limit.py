"""How much of a turn's output is kept.

Invariant: what was counted as kept fits the limits; what does not is dropped, and that is known.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Characters of diagnostics that one turn may add to the agent's log.
LOG_LIMIT = 65_536


@dataclass(slots=True)
class OutputLimit:
    """How much of a turn's output may still be kept: bytes of its `text`, characters of its `log`."""

    text: int
    log: int = LOG_LIMIT
    truncated: bool = False

    def cut(self, text: str) -> str:
        """As much of `text` as still fits, in bytes of UTF-8."""
        data = text.encode("utf-8", "replace")
        self.truncated = self.truncated or len(data) > self.text
        fitting = data[: max(0, self.text)]
        self.text -= len(fitting)
        return fitting.decode("utf-8", "ignore")

    def cut_log(self, line: str) -> str:
        """The line of diagnostics, or that the log is full; empty after that."""
        if self.log <= 0:
            return ""
        self.log -= len(line) + 1
        return line if self.log > 0 else "the log of this turn is full: further diagnostics are dropped"

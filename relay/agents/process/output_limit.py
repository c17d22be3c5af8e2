"""How much of a turn's output is kept.

Invariant: what was counted as kept fits the limits; what does not is dropped, and that is known.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay.agents.process.failure import Verdict
from relay.model import EndPart

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

    def end(self, verdict: Verdict, answer: str | None, most: int) -> EndPart:
        """The end of a turn. One that went well has its answer, `most` bytes of it, whatever was kept before."""
        text = None
        if verdict.failure is None and answer is not None:
            self.text = most
            text = self.cut(answer)
        return EndPart(
            verdict.failure, verdict.detail, text=text, retry_at=verdict.retry_at, truncated=self.truncated
        )

    def cut_log(self, line: str) -> str:
        """The line of diagnostics, or that the log is full; empty after that."""
        if self.log <= 0:
            return ""
        self.log -= len(line) + 1
        return line if self.log > 0 else "the log of this turn is full: further diagnostics are dropped"

"""How long something lasts, in words: what a refusal says beside the moment, for who has no clock at hand.

Pure: the caller gives the time, by the store's clock.
"""

from __future__ import annotations

import math

_UNITS = (("days", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def duration(seconds: float) -> str:
    """The two largest units: `4 min 10 s`, `2 h 5 min`, `45 s`. Less than a second is `0 s`."""
    left = max(0, math.floor(seconds))
    parts: list[tuple[int, str]] = []
    for name, size in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append((count, name))
    return " ".join(f"{count} {name}" for count, name in parts[:2] if count) or "0 s"


def within(at: float, now: float) -> str:
    """How long it is until then, rounded up: who comes again after it does not come too early."""
    return duration(math.ceil(max(0.0, at - now)))


def since(at: float, now: float) -> str:
    """How long ago it was."""
    return f"{duration(now - at)} ago"

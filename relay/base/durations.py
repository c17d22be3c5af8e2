"""Times and how long something lasts, in words.

Invariant: a time of another day says which; a duration is what a refusal says beside the moment, for who has no
clock at hand. The caller gives the time, by the store's clock; the day is that of this machine's time zone.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta

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


def clock_time(at: float, now: float) -> str:
    """A time for people (Unix seconds): `14:12:05`, `14:12 tomorrow, 23 November`, `14:12 on 2 January 2027`. With
    the date even where a word would do: what the room says is read on other days too."""
    then, today = datetime.fromtimestamp(at), datetime.fromtimestamp(now)
    if then.date() == today.date():
        return f"{then:%H:%M:%S}"
    date = f"{then.day} {then:%B}" + ("" if then.year == today.year else f" {then.year}")
    names = {today.date() + timedelta(days=1): "tomorrow,", today.date() - timedelta(days=1): "yesterday,"}
    return f"{then:%H:%M} {names.get(then.date(), 'on')} {date}"

"""Times and durations: ISO 8601 for programs, words for people, and the parsing of both.

A time is Unix seconds (float). No function reads a clock except `now_iso`: the caller passes `now`, by the store's
clock. Words for people use the day of this machine's time zone.
"""

from __future__ import annotations

import math
import re
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import overload

_UNITS = (("days", 86_400), ("h", 3600), ("min", 60), ("s", 1))
#: The seconds of a unit, by its first letter (two for milliseconds).
UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_AMOUNT = re.compile(r"(?<!\d)(\d++(?:\.\d++)?)\s*+([a-z]+)", re.IGNORECASE)


@overload
def iso(at: float) -> str: ...
@overload
def iso(at: None) -> None: ...
@overload
def iso(at: float | None) -> str | None: ...
def iso(at: float | None) -> str | None:
    """Unix seconds as ISO 8601 in UTC with milliseconds: `2026-11-22T14:12:05.250Z`."""
    return None if at is None else _iso(at)


@lru_cache(maxsize=1024)
def _iso(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC).isoformat(timespec='milliseconds')[:-6]}Z"


def now_iso() -> str:
    """The time on this machine's clock, as `iso` writes it. For display only: order comes from the log."""
    return iso(time.time())


def parse_iso(text: str) -> float:
    """An ISO 8601 time as Unix seconds; UTC where it names no zone. Raises ValueError."""
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def parse_amounts(text: str) -> float:
    """The seconds of all amounts in a text: `12h`, `5h32m10s`, `3 days 4 hours`, `250 ms`; 0 for none."""
    total = 0.0
    for number, unit in _AMOUNT.findall(text):
        total += float(number) * UNIT_S["ms" if unit.lower().startswith(("ms", "milli")) else unit[0].lower()]
    return total


def duration(seconds: float) -> str:
    """The two largest units: `4 min 10 s`, `2 h 5 min`, `45 s`. Less than a second is `0 s`."""
    left = max(0, math.floor(seconds))
    parts: list[tuple[int, str]] = []
    for name, size in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append((count, name))
    return " ".join(f"{count} {name}" for count, name in parts[:2] if count) or "0 s"


def rough_duration(seconds: float, *, zero_minutes: bool = False) -> str:
    """About how long: `45 s`, `12 min`, `2 h 5 min`, `3 days` (from 48 hours). `zero_minutes`: `2 h 0 min`, not
    `2 h`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes or zero_minutes else f"{hours} h"
    return f"{hours // 24} days"


def time_limit(seconds: float) -> str:
    """A configured limit in one unit: `90 s`, `2.5 min`."""
    return f"{seconds:g} s" if seconds < 120 else f"{seconds / 60:.3g} min"


def elapsed(seconds: int) -> str:
    """A count that runs on a screen, of a steady width: `45 s`, `3 min 05 s`."""
    return f"{seconds} s" if seconds < 90 else f"{seconds // 60} min {seconds % 60:02d} s"


def within(at: float, now: float) -> str:
    """How long it is until `at`, rounded up: a caller that comes back after it does not come too early."""
    return duration(math.ceil(max(0.0, at - now)))


def since(at: float, now: float) -> str:
    """How long ago `at` was."""
    return f"{duration(now - at)} ago"


def clock_time(at: float, now: float) -> str:
    """A time for people: `14:12:05`, `14:12 tomorrow, 23 November`, `14:12 on 2 January 2027`. The date stands beside
    "tomorrow" too: what the room says is read on other days."""
    then, today = datetime.fromtimestamp(at), datetime.fromtimestamp(now)
    if then.date() == today.date():
        return f"{then:%H:%M:%S}"
    date = f"{then.day} {then:%B}" + ("" if then.year == today.year else f" {then.year}")
    names = {today.date() + timedelta(days=1): "tomorrow,", today.date() - timedelta(days=1): "yesterday,"}
    return f"{then:%H:%M} {names.get(then.date(), 'on')} {date}"

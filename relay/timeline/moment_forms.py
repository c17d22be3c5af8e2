"""The forms that a moment of the timeline can be given in, but for names: numbers, ids, times.

Invariant: pure. A checkpoint's name has none of these forms, so one text never means two things.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from relay.base.durations import parse_amounts, parse_iso

#: The beginning of an event's id, or of a tree's.
HEX = re.compile(r"[0-9a-f]{8,64}")
NUMBER = re.compile(r"#?(\d{1,18})")
#: A checkpoint, so many before the newest of its name.
BACK = re.compile(r"(.*)~(\d{1,6})", re.DOTALL)
_AGO = re.compile(r"-\s*(?:\d+(?:\.\d+)?\s*(?:ms|[smhdw])[a-z]*\s*)+", re.IGNORECASE)
_HOUR = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
#: What only looks like a time: `12:99`, `3h` without its `-`.
_NO_TIME = re.compile(r"\d+:\d+(?::\d+)?|(?:\d+(?:\.\d+)?\s*(?:ms|[smhdw])\s*)+", re.IGNORECASE)


def time_of(text: str, now: float) -> float | None:
    """Unix seconds of `now`, `-1h`, `14:00` (the last time it was that here), `2026-11-23 14:00` (by this machine's
    time zone, where the text names none). None for what is no time, and for one before 1970."""
    if text.lower() == "now":
        return now
    if _AGO.fullmatch(text):
        since = now - parse_amounts(text)
        return since if since >= 0 else None
    if match := _HOUR.fullmatch(text):
        at = datetime.fromtimestamp(now).replace(
            hour=int(match[1]), minute=int(match[2]), second=int(match[3] or 0), microsecond=0
        )
        return (at if at.timestamp() <= now else at - timedelta(days=1)).timestamp()
    if not _DATE.match(text):
        return None
    try:
        at = datetime.fromisoformat(text)
        return parse_iso(text) if at.tzinfo else at.timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def is_past(text: str) -> bool:
    """Is it how long ago, like `-1h`?"""
    return _AGO.fullmatch(text) is not None


def is_no_time(text: str) -> bool:
    """Does it only look like a time, as `12:99` and `3h` do?"""
    return _HOUR.fullmatch(text) is None and _NO_TIME.fullmatch(text) is not None


def is_taken(text: str) -> bool:
    """Does it mean something else than a checkpoint by its form alone?"""
    forms = (HEX, NUMBER, _AGO, _HOUR, BACK)
    if text.lower() == "now":
        return True
    return any(form.fullmatch(text.lower()) for form in (*forms, _NO_TIME)) or _DATE.match(text) is not None

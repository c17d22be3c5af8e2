"""Why a turn failed, decided from what the program left behind.

Invariant: pure and total: every combination of exit, error and diagnostics has one class, and the answer's
own text never decides it (an answer may well talk about rate limits). What a failure says is plain text, with
nothing in it that a terminal obeys. The patterns are what the three programs were seen to print;
`docs/agents.md` names the versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from errno import ENOENT
from zoneinfo import ZoneInfo

from relay.base.child_process import Exit
from relay.base.durations import parse_amounts
from relay.base.terminal_text import safe
from relay.model import FailureClass

RATE_LIMIT = re.compile(
    r"rate.?limit|usage.limit|(?:session|weekly|daily|hit your|your \w+|opus|sonnet) limit|limit reached"
    r"|quota.{0,20}(?:exceeded|exhausted|reached)|(?:exceeded|exhausted) your|RESOURCE_EXHAUSTED|too many requests"
    r"|\b429\b|overloaded|\b529\b",
    re.IGNORECASE,
)
SIGN_IN = re.compile(
    r"not (?:logged|signed) in|(?:please|run|need to)\W+(?:\w+\W+){0,2}(?:log ?in\b|sign ?in\b)"
    r"|login required|authentication (?:required|failed)"
    r"|\b401\b.{0,20}unauthorized|authentication_(?:failed|error)|invalid (?:x-)?api.key|api.key not valid"
    r"|API_KEY_INVALID|oauth token (?:has )?(?:expired|been revoked|revoked)|auth(?:entication)? method"
    r"|token could not be refreshed|missing (?:bearer|api.key)|incorrect api.key|no api.key found"
    r"|no auth type is selected",
    re.IGNORECASE,
)
STDERR_LINES = 5
#: Characters of what a failure says.
SENTENCE = 600


@dataclass(frozen=True, slots=True)
class StreamError:
    """What the program itself said went wrong. `failure` when its stream names the class, else None."""

    text: str
    failure: FailureClass | None = None
    retry_at: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`failure` None = the turn ended well. `retry_at`: Unix time in seconds, for a rate limit only."""

    failure: FailureClass | None = None
    detail: str = ""
    retry_at: float | None = None


def classify(
    ended: Exit,
    *,
    stderr: str,
    error: StreamError | None,
    answered: bool,
    now: datetime,
    sign_in_codes: frozenset[int] = frozenset(),
) -> Verdict:
    """The class of a turn that ran to its own end (a timeout or a cancellation is known without this).

    `stderr` is the tail of the diagnostics, `now` an aware time in the zone that the program prints in.
    """
    if ended.errno is not None:
        failure = FailureClass.NOT_INSTALLED if ended.errno == ENOENT else FailureClass.CRASH
        return Verdict(failure, f"The program {ended}.")
    if error is None and ended.code == 0 and answered:
        return Verdict()
    stderr = safe(stderr)
    message = safe(error.text) if error is not None else last_lines(stderr)
    known = error.failure if error is not None else None
    if known is None and ended.code in sign_in_codes:
        known = FailureClass.NOT_SIGNED_IN
    if known is None:
        known = recognise(message if error is not None else stderr)
    if known is FailureClass.RATE_LIMIT:
        retry = error.retry_at if error is not None else None
        return Verdict(known, sentence(message), retry or retry_time(message, now))
    if known is not None:
        return Verdict(known, sentence(message))
    if error is not None:
        return Verdict(FailureClass.CRASH, sentence(message) or f"The program {ended}.")
    if ended.code == 0:
        return Verdict(FailureClass.EMPTY, "The program ended without an answer.")
    return Verdict(FailureClass.CRASH, f"The program {ended}." + (f" It said: {message}" if message else ""))


def recognise(text: str) -> FailureClass | None:
    """Rate limit or missing sign-in, if the text says so."""
    if SIGN_IN.search(text) and not re.search(r"\b429\b", text):
        return FailureClass.NOT_SIGNED_IN
    if RATE_LIMIT.search(text):
        return FailureClass.RATE_LIMIT
    return None


def last_lines(text: str) -> str:
    return "\n".join([line for line in text.splitlines() if line.strip()][-STDERR_LINES:])


def sentence(text: str) -> str:
    text = text.strip()
    return text if len(text) <= SENTENCE else text[: SENTENCE - 1] + "…"


def with_sign_in(detail: str, command: str) -> str:
    """A missing sign-in, and the command that signs in; empty: it is not known."""
    detail = detail if detail.endswith((".", "!", "?")) else f"{detail}."
    return f"{detail} Sign in with `{command}`, as the user that runs relay." if command else detail


_AMOUNT = (
    r"\d+(?:\.\d+)?\s*(?:ms|milliseconds?|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)(?![a-z])"
)
_WAIT = re.compile(
    rf"(?:again in|retry in|retry after|reset(?:s)? (?:in|after)|retry.?delay\W+|wait)\s*"
    rf"({_AMOUNT}(?:[\s,]*(?:and\s+)?{_AMOUNT})*)",
    re.IGNORECASE,
)
_HEADER = re.compile(r"retry-after\W+(\d+)(?!\S)", re.IGNORECASE)
_EPOCH = re.compile(r"limit reached\|(\d{10,13})\b")
JUST_PASSED = timedelta(minutes=10)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = re.compile(
    r"(?:resets?|try again)\s+(?:at\s+)?"
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?"
    r"(?:,?\s+(?P<year>\d{4}))?\s*(?:,|at|\s)\s*(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap])\.?m\b"
    r"(?:\s*\((?P<zone>[A-Za-z_]+(?:/[A-Za-z_+\-0-9]+)*)\))?",
    re.IGNORECASE,
)


def retry_time(text: str, now: datetime) -> float | None:
    """The Unix time that a rate-limit message names, or None. `now` is aware; bare clock times are in its
    zone.

    Known forms: `limit reached|1749924000`, `resets 3pm (Europe/Vienna)`, `resets Jul 18 at 4am`, `try again
    at 2:07 AM`, `try again at Nov 23rd, 2026 2:07 AM`, `try again in 11.054s`, `in 3 days 4 hours`, `Please
    retry in 3527.18s`, `"retryDelay":"3527s"`, `reset after 5h32m10s`, `retry-after: 37`.
    """
    if match := _EPOCH.search(text):
        stamp = int(match[1])
        return stamp / 1000 if stamp > 10**11 else float(stamp)
    if match := _HEADER.search(text):
        return now.timestamp() + int(match[1])
    if match := _WAIT.search(text):
        return now.timestamp() + parse_amounts(match[1])
    if match := _CLOCK.search(text):
        return _clock_time(match, now)
    return None


def _clock_time(match: re.Match[str], now: datetime) -> float | None:
    zone: tzinfo | None = now.tzinfo
    if match["zone"]:
        try:
            zone = ZoneInfo(match["zone"])
        except (KeyError, ValueError, OSError):
            return None  # a zone that this machine does not know: no time is better than a wrong one
    here = now.astimezone(zone)
    if not 1 <= int(match["hour"]) <= 12:
        return None
    try:
        time = here.replace(
            hour=int(match["hour"]) % 12 + (12 if match["half"].lower() == "p" else 0),
            minute=int(match["minute"] or 0),
            second=0,
            microsecond=0,
        )
        if match["month"]:
            month = _MONTHS.index(match["month"].lower()) + 1
            time = time.replace(year=int(match["year"] or here.year), month=month, day=int(match["day"]))
            if not match["year"] and time < here - timedelta(days=1):
                time = time.replace(year=here.year + 1)
        elif time <= here:
            # A time that has only just passed is meant, not the same time tomorrow.
            time = here + timedelta(minutes=1) if here - time < JUST_PASSED else time + timedelta(days=1)
    except ValueError:
        return None
    return time.timestamp()

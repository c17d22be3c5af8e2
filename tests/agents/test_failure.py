from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from relay.agents.process.failure import StreamError, classify, recognise, retry_time
from relay.base.child_process import Exit
from relay.model import FailureClass

VIENNA = ZoneInfo("Europe/Vienna")
NOW = datetime(2026, 11, 22, 14, 0, tzinfo=VIENNA)


def at(*when: int, zone: str = "Europe/Vienna") -> float:
    return datetime(*when, tzinfo=ZoneInfo(zone)).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("Claude AI usage limit reached|1749924000", 1749924000),
        ("Claude AI usage limit reached|1749924000000", 1749924000),
        ("limit reached ∙ resets 3pm", at(2026, 11, 22, 15)),
        ("You've hit your session limit · resets 1:20am (Europe/Vienna)", at(2026, 11, 23, 1, 20)),
        ("resets 10:10pm (Asia/Calcutta)", at(2026, 11, 22, 22, 10, zone="Asia/Calcutta")),
        ("resets 12am", at(2026, 11, 23)),
        ("resets 12pm", at(2026, 11, 23, 12)),
        ("weekly limit · resets Nov 25 at 4am (Europe/Vienna)", at(2026, 11, 25, 4)),
        ("resets 1:58pm", NOW.timestamp() + 60),
        ("resets 1:50pm", at(2026, 11, 23, 13, 50)),
        ("resets Jan 2, 5pm", at(2027, 1, 2, 17)),
        ("or try again at 2:07 PM.", at(2026, 11, 22, 14, 7)),
        ("try again at Nov 23rd, 2026 2:07 AM.", at(2026, 11, 23, 2, 7)),
        ("Please try again in 11.054s. Visit", NOW.timestamp() + 11.054),
        ("try again in 20s", NOW.timestamp() + 20),
        ("try again in 500ms", NOW.timestamp() + 0.5),
        ("try again in 6m0s", NOW.timestamp() + 360),
        ("Try again in 3 days 4 hours 5 minutes.", NOW.timestamp() + 3 * 86400 + 4 * 3600 + 300),
        ("Please retry in 3527.18s", NOW.timestamp() + 3527.18),
        ('"retryDelay":"3527s"', NOW.timestamp() + 3527),
        ("Your quota will reset after 5h32m10s.", NOW.timestamp() + 5 * 3600 + 32 * 60 + 10),
        ("HTTP 429\nretry-after: 37\n", NOW.timestamp() + 37),
        ("Retry after 37 seconds", NOW.timestamp() + 37),
        ("resets 3pm (Nowhere/Land)", None),
        ("resets 99pm", None),
        ("resets Feb 31 at 4am", None),
        ("rate limit reached", None),
    ],
)
def test_the_time_that_a_rate_limit_names(text: str, time: float | None) -> None:
    found = retry_time(text, NOW)
    assert found == (None if time is None else pytest.approx(time))


def test_a_clock_time_is_never_in_the_past() -> None:
    for hour in range(24):
        now = NOW + timedelta(hours=hour)
        found = retry_time("resets 3pm", now)
        assert found is not None and 0 < found - now.timestamp() <= 86400


SIGN_IN, LIMIT = FailureClass.NOT_SIGNED_IN, FailureClass.RATE_LIMIT


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("Not logged in · Please run /login", SIGN_IN),
        ("Invalid API key · Fix external API key", SIGN_IN),
        ("OAuth token has expired. Please run /login", SIGN_IN),
        ("unexpected status 401 Unauthorized: Missing bearer or basic authentication in header", SIGN_IN),
        ("Your access token could not be refreshed. Please log out and sign in again.", SIGN_IN),
        ("Please set an Auth method in your settings.json", SIGN_IN),
        ('{"reason":"API_KEY_INVALID"}', SIGN_IN),
        ("API Error: Request rejected (429) · This request would exceed the rate limit", LIMIT),
        ("You've hit your limit · resets 6:20pm", LIMIT),
        ("You’ve hit your usage limit.", LIMIT),
        ("Quota exceeded for metric: x", LIMIT),
        ("You have exhausted your capacity on this model.", LIMIT),
        ("RESOURCE_EXHAUSTED", LIMIT),
        ('API Error: 529 {"type":"overloaded_error"}', LIMIT),
        ("429 Too Many Requests. Please log in for a higher limit", LIMIT),
        ("the disk is full", None),
        ("no limits here; wrote 4290 bytes", None),
        ("logged 12 items into the log", None),
    ],
)
def test_what_a_text_says(text: str, failure: FailureClass | None) -> None:
    assert recognise(text) is failure


OK, THREE, KILLED, ABSENT = Exit(code=0), Exit(code=3), Exit(signal=9), Exit(errno=2)
BOOM = StreamError("boom")


@pytest.mark.parametrize(
    ("ended", "stderr", "error", "answered", "failure", "said"),
    [
        (OK, "", None, True, None, ""),
        (OK, "429 Too Many Requests, trying again", None, True, None, ""),
        (OK, "", None, False, FailureClass.EMPTY, "without an answer"),
        (OK, "Please log in", None, False, SIGN_IN, "Please log in"),
        (OK, "", BOOM, True, FailureClass.CRASH, "boom"),
        (THREE, "a\n\nthe disk is full\n", None, False, FailureClass.CRASH, "exit code 3"),
        (THREE, "a\n\nthe disk is full\n", None, False, FailureClass.CRASH, "the disk is full"),
        (THREE, "", None, True, FailureClass.CRASH, "exit code 3"),
        (THREE, "noise", BOOM, False, FailureClass.CRASH, "boom"),
        (THREE, "", StreamError("x", LIMIT, 5.0), False, LIMIT, "x"),
        (THREE, "Not logged in", BOOM, False, FailureClass.CRASH, "boom"),
        (KILLED, "", None, False, FailureClass.CRASH, "SIGKILL"),
        (ABSENT, "", None, False, FailureClass.NOT_INSTALLED, "No such file"),
        (Exit(errno=13), "", None, False, FailureClass.CRASH, "Permission denied"),
        (Exit(code=41), "anything", None, False, SIGN_IN, "anything"),
    ],
)
def test_the_class_of_an_end(
    ended: Exit,
    stderr: str,
    error: StreamError | None,
    answered: bool,
    failure: FailureClass | None,
    said: str,
) -> None:
    verdict = classify(
        ended, stderr=stderr, error=error, answered=answered, now=NOW, sign_in_codes=frozenset({41})
    )
    assert verdict.failure is failure
    assert said in verdict.detail
    assert (verdict.detail == "") == (failure is None)
    assert verdict.retry_at == (5.0 if error is not None and error.retry_at else None)


def test_a_long_error_is_cut() -> None:
    verdict = classify(OK, stderr="", error=StreamError("x" * 9000), answered=False, now=NOW)
    assert len(verdict.detail) == 600


def test_what_a_program_says_is_plain_text() -> None:
    """Colours do not hide the class either."""
    stderr = "\x1b]0;owned\x07\x1b[31mrate \x1b[1mlimit reached\x1b[0m"
    verdict = classify(Exit(code=1), stderr=stderr, error=None, answered=False, now=NOW)
    assert verdict.failure is FailureClass.RATE_LIMIT
    assert verdict.detail == "rate limit reached"
    said = StreamError("boom\x1b[2J\u202e!")
    verdict = classify(Exit(code=1), stderr="", error=said, answered=False, now=NOW)
    assert verdict.detail == "boom‹U+202E›!"

"""Each check of the fleet's faults holds for a good record, and fails on one that is wrong as it looks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.fleet import checks

Json = dict[str, Any]


def entry(id: str, speaker: str, body: str, kind: str = "human", **more: Any) -> Json:
    return {
        "id": id,
        "speaker": speaker,
        "body": body,
        "kind": kind,
        "job": None,
        "in_reply_to": None,
        **more,
    }


ASKED = entry("1", "ann", "@ADA @EVE tok-1")
ADA = entry("2", "ADA", "answer to tok-1", "agent", job=1, in_reply_to="1")
EVE = entry("3", "EVE", "answer to tok-1", "agent", job=2, in_reply_to="1")
HAND = entry("4", "dan", "tok-2 by hand")
ROOM = [ASKED, ADA, EVE, HAND]
MENTIONS = {"tok-1": ("ADA", "EVE"), "tok-2": ()}


def lines(*entries: Json) -> list[tuple[str, Json | str]]:
    return [(one["speaker"], one) for one in entries]


#: dan's line was appended by hand to the first file, before what is in front of it in the log.
FILES = {"m1": [*lines(ASKED), ("dan", "tok-2 by hand"), *lines(ADA, EVE)], "m2": lines(*ROOM)}


def note(
    what: str, state: str, key: str, at: float, who: str = "ADA", process: str = "p1", **more: Any
) -> Json:
    return {"what": what, "state": state, "key": key, "at": at, "who": who, "process": process, **more}


#: ADA holds a.py with token 1 and gives it back; EVE has it then, is killed, and is there until her last beat.
NOTES = [
    note("lock", "begin", "a.py", 1.0, token=1, until=20.0),
    note("lock", "end", "a.py", 2.0, token=1),
    note("lock", "begin", "a.py", 2.1, "EVE", "p2", token=2, until=20.0),
    note("process", "beat", "", 3.0, "EVE", "p2"),
    note("lock", "begin", "a.py", 3.1, token=3, until=20.0),
    note("lock", "end", "a.py", 3.2, token=3),
]


def lock(type: str, who: str, token: int, at: str, until: str) -> Json:
    one = {
        "file_path": "a.py", "locked_by": who, "session": who.lower(), "fencing_token": token, "acquired_at": at,
        "expires_at": until,
    }  # fmt: skip
    return {"type": f"lock.{type}", "outputs": {"lock": one}}


def task(change: str, by: str = "ADA", id: str = "t") -> Json:
    pair = {"after": {"id": id, "claimed_by": by}}
    return {"type": "task.changed", "outputs": {"change": change, "tasks": [pair]}}


ACQUIRED = lock("acquired", "ADA", 1, "10:00", "10:30")
RELEASED = lock("released", "ADA", 1, "10:00", "10:30")
LOCKS = [
    ACQUIRED,
    RELEASED,
    lock("acquired", "EVE", 2, "10:01", "10:02"),
    lock("acquired", "ADA", 3, "10:02", "10:03"),
]
CLAIMS = [task("claimed"), task("recovered"), task("claimed", "EVE"), task("completed", "EVE")]

GOOD: dict[str, Callable[[], list[str]]] = {
    "lost": lambda: checks.lost({"tok-1": "1"}, ROOM),
    "said once": lambda: checks.said_once(["tok-1", "tok-9"], ROOM),
    "there": lambda: checks.there(["tok-2"], ROOM),
    "answers": lambda: checks.answers(MENTIONS, ROOM),
    "transcripts": lambda: checks.transcripts(FILES, ROOM),
    "overlaps": lambda: checks.overlaps(checks.spans(NOTES), "lock"),
    "tokens": lambda: checks.tokens(checks.spans(NOTES)),
    "completed once": lambda: checks.completed_once([note("completed", "once", "t", 1.0)] * 2),
    "completed once, and forgotten by a server": lambda: checks.completed_once(
        [note("completed", "once", "t", 1.0), note("completed", "once", "t", 2.0, "EVE", "p2")], [(0.5, 1.5)]
    ),
    "holders": lambda: checks.holders(LOCKS),
    "claims": lambda: checks.claims(CLAIMS),
    "notices": lambda: checks.notices(["m1 is away.", "m1 is back."], {"m1 is away": (1, 1), "m2": (0, 0)}),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_record_holds(name: str) -> None:
    assert GOOD[name]() == []


BAD: dict[str, tuple[Callable[[], list[str]], str]] = {
    "an acknowledged entry is lost": (lambda: checks.lost({"tok-9": "9"}, ROOM), "tok-9 .* is lost"),
    "an acknowledged entry has another id": (lambda: checks.lost({"tok-1": "2"}, ROOM), "tok-1 .* as \\['1'\\]"),
    "an id is there twice": (lambda: checks.lost({"tok-1": "1"}, [*ROOM, ASKED]), "id 1 is in the room 2 times"),
    "nothing was acknowledged": (lambda: checks.lost({}, ROOM), "nothing was acknowledged"),
    "a retry became a second message": (
        lambda: checks.said_once(["tok-1"], [*ROOM, {**ASKED, "id": "7"}]), "tok-1 is in the room 2 times",
    ),
    "a line by hand is lost": (lambda: checks.there(["tok-3"], ROOM), "tok-3 was appended"),
    "an answer is missing": (lambda: checks.answers(MENTIONS, [ASKED, ADA]), "EVE answered tok-1 0 times"),
    "an answer is double": (
        lambda: checks.answers(MENTIONS, [*ROOM, {**ADA, "id": "9", "job": 3}]), "ADA answered tok-1 2 times",
    ),
    "one job has two answers": (
        lambda: checks.answers(MENTIONS, [*ROOM, {**ADA, "id": "9", "body": "more"}]), "job 1 has 2 answers",
    ),
    "another agent answers": (
        lambda: checks.answers({"tok-1": ("ADA",), "tok-2": ()}, ROOM), "EVE answered tok-1, which did not name it",
    ),
    "nobody was asked": (lambda: checks.answers({}, ROOM), "no agent was asked"),
    "a file lacks an entry": (
        lambda: checks.transcripts({"m1": lines(ASKED, ADA, HAND)}, ROOM), "not in m1's file",
    ),
    "a file has an entry twice": (
        lambda: checks.transcripts({"m1": lines(*ROOM, EVE)}, ROOM), "3 is in m1's file 2 times",
    ),
    "a file has what nobody said": (
        lambda: checks.transcripts({"m1": lines(*ROOM, entry("8", "x", "y"))}, ROOM), "8 is in m1's file and not",
    ),
    "a file has another order": (
        lambda: checks.transcripts({"m1": lines(ASKED, EVE, ADA, HAND)}, ROOM), "line 1 of m1's file",
    ),
    "a file has another text": (
        lambda: checks.transcripts({"m1": lines(ASKED, {**ADA, "body": "no"}, EVE, HAND)}, ROOM),
        "line 1 of m1's file",
    ),
    "a file has another speaker": (
        lambda: checks.transcripts({"m1": [*lines(ASKED), ("BOB", ADA), *lines(EVE, HAND)]}, ROOM),
        "line 1 of m1's file",
    ),
    "a plain line was not read": (
        lambda: checks.transcripts({"m1": [*lines(*ROOM), ("dan", "tok-5")]}, ROOM), "'tok-5' of dan, which is no",
    ),
    "a plain line was read and written again": (
        lambda: checks.transcripts({"m1": [*lines(*ROOM), ("dan", "tok-2 by hand")]}, ROOM), "4 is in m1's file and",
    ),
    "a torn line": (lambda: checks.transcripts({"m1": [*lines(*ROOM), ("", '[ADA] {"id')]}, ROOM), "is no entry"),
    "there is no file": (lambda: checks.transcripts({}, ROOM), "there is no transcript"),
    "two hold a path": (
        lambda: checks.overlaps(
            checks.spans([*NOTES, note("lock", "begin", "a.py", 1.5, "BOB", "p3", token=9, until=20.0),
                          note("lock", "end", "a.py", 1.6, "BOB", "p3", token=9)]), "lock",
        ),
        "lock a.py: BOB .* before ADA",
    ),
    "one takes what a killed holder's process still holds": (
        lambda: checks.overlaps(checks.spans([*NOTES, note("process", "beat", "", 3.5, "EVE", "p2")]), "lock"),
        "lock a.py: ADA .* before EVE",
    ),
    "a turn runs twice": (
        lambda: checks.overlaps(
            checks.spans([note("turn", "begin", "ADA", 1.0), note("process", "beat", "", 5.0),
                          note("turn", "begin", "ADA", 4.0, process="p2"),
                          note("turn", "end", "ADA", 4.5, process="p2")]),
            "turn",
        ),
        "turn ADA",
    ),
    "nothing was noted": (lambda: checks.overlaps([], "claim"), "no claim was noted"),
    "a token goes back": (
        lambda: checks.tokens(checks.spans([*NOTES, note("lock", "begin", "a.py", 9.0, "BOB", "p3", token=2)])),
        "BOB has token 2",
    ),
    "two have one token": (
        lambda: checks.tokens(checks.spans([*NOTES, note("lock", "begin", "a.py", 9.0, "BOB", "p3", token=3)])),
        "BOB has token 3",
    ),
    "two completed one task": (
        lambda: checks.completed_once(
            [note("completed", "once", "t", 1.0), note("completed", "once", "t", 2.0, "EVE", "p2")]
        ),
        "completed by",
    ),
    "two completed one task, before and after a server forgot": (
        lambda: checks.completed_once(
            [note("completed", "once", "t", 1.0), note("completed", "once", "t", 2.0, "EVE", "p2")], [(1.5, 1.9)]
        ),
        "completed by",
    ),
    "the log has two holders": (
        lambda: checks.holders([ACQUIRED, lock("acquired", "EVE", 2, "10:10", "10:40")]), "ADA held it until 10:30",
    ),
    "the log has a token that goes back": (
        lambda: checks.holders([ACQUIRED, RELEASED, lock("acquired", "EVE", 1, "10:40", "10:50")]),
        "token 1 came after 1",
    ),
    "the log has no lock": (lambda: checks.holders(CLAIMS), "no lock"),
    "a task is claimed twice at once": (
        lambda: checks.claims([task("claimed"), task("claimed", "EVE")]), "claimed again while ADA",
    ),
    "a task is completed twice": (
        lambda: checks.claims([task("claimed"), task("completed"), task("claimed"), task("completed")]),
        "completed twice",
    ),
    "the log has no claim": (lambda: checks.claims(LOCKS), "no claim"),
    "a notice is missing": (lambda: checks.notices([], {"m1 is away": (1, 1)}), "0 times, not 1"),
    "a notice is double": (
        lambda: checks.notices(["m1 is away."] * 2, {"m1 is away": (0, 1)}), "2 times, not 0 to 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_record_is_refused(name: str) -> None:
    check, wrong = BAD[name]
    found = check()
    assert any(re.search(wrong, one) for one in found), found


def test_a_note_that_was_cut_off_by_a_kill_is_left_out_and_no_other() -> None:
    assert len(checks.read_notes('{"a": 1}\n{"b"')) == 1
    with pytest.raises(ValueError, match="property name"):
        checks.read_notes('{"a": 1}\n{b}\n{"c": 2}\n')

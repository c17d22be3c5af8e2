"""What came, in short: which sentences are taken, and the line of numbers."""

from __future__ import annotations

import pytest

from relay.app.needs.since import MOST, MOST_BODY, MOST_EACH, MOST_LINES, Since, Words, line, said, telling
from relay.model import Kind

NOW = 1_800_000_000.0


def message(number: int, speaker: str, body: str) -> Words:
    return Words(number, speaker, Kind.HUMAN if speaker.islower() else Kind.AGENT, body)


def test_what_others_speak_of_too_is_taken_in_its_order_and_nothing_twice() -> None:
    came = [
        message(1, "ben", "The import of prices fails for carts with a discount."),
        message(2, "AVA", "Hi there, good morning."),
        message(
            3,
            "AVA",
            "The discount was read as text.\n\n```\nprices = discount\n```\n\nI mended the import of prices.",
        ),
        message(4, "BEN", "The import of prices fails for carts with a discount!"),
        message(5, "CLEO", "Should carts keep a discount when prices change, @ann?"),
    ]
    lines = telling(came, "ann")
    assert [one.number for one in lines] == sorted(one.number for one in lines)
    texts = [one.text for one in lines]
    assert "Should carts keep a discount when prices change, @ann?" in texts
    assert len({text.rstrip(".!") for text in texts}) == len(texts), "said twice, told once"
    assert not any("prices = discount" in text for text in texts), "code is no sentence"
    assert all(text in "".join(one.body for one in came) for text in texts), "nothing is worded anew"


def test_a_talker_does_not_take_all_the_lines() -> None:
    came = [message(n, "AVA", f"Word{n} other{n} something{n}.") for n in range(40)]
    came += [
        message(50 + n, name, f"{name} mended{n} module{n} completely{n}.") for n, name in enumerate("BCDEFG")
    ]
    lines = telling(came, "ann")
    assert len(lines) == MOST_LINES
    assert sum(one.speaker == "AVA" for one in lines) <= MOST_EACH


def test_of_much_that_came_the_question_to_the_reader_is_told_and_no_sentence_is_cut() -> None:
    long = " ".join(f"Module{n} reads the price of cart{n} anew." for n in range(MOST_BODY // 30))
    came = [message(n, f"A{n % 7}", long) for n in range(MOST)]
    came[700] = message(700, "AVA", "The import works. Nothing fails now. All is landed. Is that fine, @ann?")
    lines = telling(came, "ann")
    assert (700, "Is that fine, @ann?") in [(one.number, one.text) for one in lines]
    assert all(one.text.endswith((".", "?")) for one in lines)


@pytest.mark.parametrize(
    "body", ["", "ok", "```\nonly code\n```", "[DECISION: x | OWNER: y | BLOCKERS: none]"]
)
def test_what_has_no_sentence_gives_none(body: str) -> None:
    assert telling([message(1, "AVA", body)], "ann") == []


@pytest.mark.parametrize(
    ("since", "words"),
    [
        (
            Since(
                7,
                NOW - 7200,
                41,
                (("AVA", 3), ("BEN", 2)),
                (("ben", 4),),
                1,
                ("AVA",),
                ("CLEO", "AVA's app"),
                2,
                (),
                False,
            ),
            "41 messages: AVA answered 3, BEN 2, ben said 4; 1 collision settled; landed: AVA; "
            "failed: CLEO, AVA's app; waits for you: 2",
        ),
        (Since(7, NOW - 60, 1, (), (("ben", 1),), 0, (), (), 0, (), False), "1 message: ben said 1"),
        (Since(7, NOW - 60, 0, (), (), 0, (), (), 0, (), False), "0 messages"),
    ],
)
def test_the_line_has_what_there_is(since: Since, words: str) -> None:
    assert line(since) == words
    assert said(since, since.at + 7200).startswith(f"In 2 h: {words}.")

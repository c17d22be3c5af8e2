"""How people and models write what the room numbers: `m14` a message, `t14` a task, `j14` a job, `p14` a request for
permission, `h14` a handoff, `x14` an exploration, `c14` a conflict, `r14` a memory (what is remembered),
`v14` a verification, `a14` an approval that somebody asks for. What is known has an id: `k1a2b3c4d`.

Invariant: one function writes a reference and one reads it, for every interface. `#14` is a message; where only
another kind can be meant (`/move #3`, `work show 3`) it, or the bare number, is that one: `bare` says which. Later
kinds take a letter of their own here. Pure.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Thing(StrEnum):
    """What has a number of its own; the value is its letter."""

    MESSAGE = "m"
    TASK = "t"
    JOB = "j"
    REQUEST = "p"
    HANDOFF = "h"
    EXPLORATION = "x"
    MEMORY = "r"
    CONFLICT = "c"
    VERIFICATION = "v"
    APPROVAL = "a"


#: In words, with their article.
NAMES = {
    Thing.MESSAGE: "a message",
    Thing.TASK: "a task",
    Thing.JOB: "a job",
    Thing.REQUEST: "a request",
    Thing.HANDOFF: "a handoff",
    Thing.EXPLORATION: "an exploration",
    Thing.MEMORY: "a memory",
    Thing.CONFLICT: "a conflict",
    Thing.VERIFICATION: "a verification",
    Thing.APPROVAL: "an approval",
}
# Nine digits are more than any room numbers, and fit every integer column.
_WRITTEN = re.compile(r"#? ?([mtjphxrcva]?)([0-9]{1,9})", re.IGNORECASE)
#: The id of an entry of the knowledge, or its first digits: so many are enough to name it in a text.
DIGITS, LEAST_DIGITS = 24, 8
_ENTRY = re.compile(rf"k[\da-f]{{{LEAST_DIGITS},{DIGITS}}}", re.IGNORECASE)


def ref(thing: Thing, number: int) -> str:
    """`m14`."""
    return f"{thing}{number}"


def message(number: int) -> str:
    return ref(Thing.MESSAGE, number)


def task(number: int) -> str:
    return ref(Thing.TASK, number)


def job(number: int) -> str:
    return ref(Thing.JOB, number)


def request(number: int) -> str:
    return ref(Thing.REQUEST, number)


def handoff(number: int) -> str:
    return ref(Thing.HANDOFF, number)


def exploration(number: int) -> str:
    return ref(Thing.EXPLORATION, number)


def conflict(number: int) -> str:
    return ref(Thing.CONFLICT, number)


def verification(number: int) -> str:
    return ref(Thing.VERIFICATION, number)


def approval(number: int) -> str:
    return ref(Thing.APPROVAL, number)


def memory(number: int) -> str:
    return ref(Thing.MEMORY, number)


def named(number: int | None, id: str) -> str:
    """What an entry of the knowledge is called: by the memory of the same event, `r14`, else by the beginning of its
    id, which is enough to name it."""
    return id[: LEAST_DIGITS + 1] if number is None else memory(number)


def entry(text: str) -> str | None:
    """The id, or the beginning of it, that names an entry of the knowledge: `k1a2b3c4d`; None: another thing."""
    return text.lower() if _ENTRY.fullmatch(text) else None


def read(text: str, bare: Thing = Thing.MESSAGE) -> tuple[Thing, int] | None:
    """What `m14`, `#m14`, `#14` or `14` means, None when it is no reference. `bare`: what a number without a letter
    is here."""
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        return None
    return (Thing(match[1].lower()) if match[1] else bare), int(match[2])

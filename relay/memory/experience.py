"""An experience: what happened, how it came out, and what it taught; and how two tellings of one are joined.

Invariants:
- joining loses nothing. Lessons, tags and details keep every distinct value in the order in which they came; an
  outcome that a later one replaces stays among the details;
- what is kept has passed `experience`, and no key or token stands in it (`masked`).

Pure: no clock, no I/O. (004, "Episodic Memory": merge "rather than create duplicates".)
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from relay.base.secret_text import masked
from relay.model.validation import json_value, shallow, text, texts

MOST_EVENT_TYPE = 64
MOST_SUMMARY = 4096
MOST_LESSON = 4096
MOST_LESSONS = 100
MOST_TAG = 100
MOST_TAGS = 50
MOST_OUTCOME = 200
#: Bytes of `details`, as JSON; and of everything in one memory: what would grow beyond is a new one.
MOST_DETAILS = 262_144
MOST_JOINED = 1_048_576
#: What the room calls the memories that it makes itself (observed.py): no words of these.
OBSERVED = frozenset(
    {"message", "answer", "decision", "task", "lock", "advisory", "changeset", "exploration"}
)
#: Where a sentence ends, and the next begins.
_NEXT = re.compile(r"(?<=[.!?…。！？؟])\s+|\n+|(?<=[。！？])")
#: A sentence that asks, with what may stand around its end.
_ASKS = re.compile(r"[?？؟][\W_]*\Z")
_ASKS_AT_ALL = re.compile("[?？؟]")
_SAYS = re.compile(r"\w")
#: Whom a message is for; a sentence that only gives them something to do; what makes it say more than that.
_FOR = re.compile(r"\A\s*(?:@[\w./-]+[\s,:]*)+")
_ORDERS = re.compile(
    r"\A(?:(?:please|now|then|also|next|first|and|again|ok|okay|(?:can|could|would|will)\s+you)\b[\s,]*)*"
    r"(?:add|answer|begin|build|change|check|clean|commit|continue|create|debug|delete|deploy|do|document|explain|"
    r"extend|find|finish|fix|format|go|help|implement|improve|inspect|investigate|list|look|make|measure|merge|"
    r"migrate|move|port|prepare|push|read|rebase|refactor|release|remove|rename|repeat|replace|report|reproduce|"
    r"revert|review|rewrite|run|say|set|show|simplify|sort|split|start|stop|summarise|summarize|take|tell|test|try|"
    r"update|upgrade|verify|work|write)\b",
    re.IGNORECASE,
)
_TEACHES = re.compile(
    r"\b(?:always|because|decided|instead|lesson|must|never|not|only|otherwise|remember|should|since)\b"
    r"|n['\u2019]t\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Experience:
    """What `remember` was given. `details` are JSON values, each once."""

    event_type: str
    summary: str
    details: tuple[Any, ...] = ()
    outcome: str | None = None
    lessons: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def joined(self, later: Experience) -> Experience:
        """This one with what a later telling adds."""
        outcome = self.outcome if later.outcome is None else later.outcome
        replaced = [{"outcome": self.outcome}] if self.outcome not in (None, outcome) else []
        return replace(
            self,
            details=distinct([*self.details, *replaced, *later.details]),
            outcome=outcome,
            lessons=tuple(dict.fromkeys([*self.lessons, *later.lessons])),
            tags=tuple(dict.fromkeys([*self.tags, *later.tags])),
        )

    def content(self) -> str:
        """The experience as a text to read."""
        lines = [self.summary]
        if self.outcome is not None:
            lines.append(f"Outcome: {self.outcome}")
        lines += map(_lesson, self.lessons)
        if self.details:
            lines.append(f"Details: {'; '.join(_shown(value) for value in self.details)}")
        return "\n".join(lines)

    def body(self) -> str:
        """The text beside the summary by which it is found."""
        kind = "" if self.event_type in OBSERVED else self.event_type
        lines = [kind, self.outcome or "", *self.lessons, *map(_shown, self.details), *self.tags]
        return "\n".join(lines)

    @property
    def only_asks(self) -> bool:
        """Does it ask, and say nothing else? Each of its sentences is a question or an order, and it came out in no
        way, taught nothing, and has no details that are more than a text which only asks."""
        if self.outcome is not None or self.lessons:
            return False
        return all(isinstance(text, str) and only_asks(text) for text in (self.summary, *self.details))

    def masked(self) -> Experience:
        """This one without keys and tokens."""
        return replace(
            self,
            event_type=masked(self.event_type),
            summary=masked(self.summary),
            details=tuple(_masked(value) for value in self.details),
            outcome=None if self.outcome is None else masked(self.outcome),
            lessons=tuple(map(masked, self.lessons)),
            tags=tuple(map(masked, self.tags)),
        )

    def bytes(self) -> int:
        """How large it is, as it is kept."""
        return sum(len(str(value).encode()) for value in self.columns().values())

    def columns(self) -> dict[str, Any]:
        """The values of the table's columns."""
        lists = {"details": self.details, "lessons": self.lessons, "tags": self.tags}
        encoded = {
            name: json.dumps(value, ensure_ascii=False) if value else "[]" for name, value in lists.items()
        }
        return encoded | {"event_type": self.event_type, "summary": self.summary, "outcome": self.outcome}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Experience:
        details, lessons, tags = (tuple(json.loads(row[name])) for name in ("details", "lessons", "tags"))
        return cls(row["event_type"], row["summary"], details, row["outcome"], lessons, tags)


def experience(
    event_type: object,
    summary: object,
    *,
    details: Any = None,
    outcome: object = None,
    lessons: object = (),
    tags: object = (),
) -> Experience:
    """What somebody tells, checked. Raises Refusal (malformed)."""
    return Experience(
        nfc(text(event_type, "event_type", MOST_EVENT_TYPE)),
        nfc(text(summary, "summary", MOST_SUMMARY)),
        distinct(as_details(shallow(json_value(details, "details", MOST_DETAILS), "details"))),
        None if outcome is None else nfc(text(outcome, "outcome", MOST_OUTCOME)),
        tuple(nfc(lesson) for lesson in texts(lessons, "lessons", MOST_LESSONS, MOST_LESSON)),
        tuple(nfc(tag) for tag in texts(tags, "tags", MOST_TAGS, MOST_TAG)),
    )


def only_asks(text: str) -> bool:
    """Is each sentence of a text a question, or something to do for those whom it names first? A sentence without a
    word is none; one that says what always holds, or why, says more."""
    addressed = _FOR.match(text)
    said = text[addressed.end() :] if addressed else text
    if not addressed and not _ASKS_AT_ALL.search(said):
        return False
    sentences = [sentence for sentence in _NEXT.split(said) if _SAYS.search(sentence)]
    return bool(sentences) and all(
        _ASKS.search(sentence)
        or (addressed and _ORDERS.match(sentence.strip()) and not _TEACHES.search(sentence))
        for sentence in sentences
    )


def nfc(value: str) -> str:
    """A text without blanks around it, in one spelling of its letters."""
    return unicodedata.normalize("NFC", value.strip())


def distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    """Each JSON value once, the first of equal ones; 1, 1.0 and true are three."""
    values_by_json: dict[str, Any] = {}
    for value in values:
        values_by_json.setdefault(json.dumps(value, sort_keys=True), value)
    return tuple(values_by_json.values())


def as_details(value: Any) -> Sequence[Any]:
    """What `details` says, as a list of values: nothing is none, and a list each of its entries."""
    if value is None:
        return ()
    return value if isinstance(value, list) else [value]


def _lesson(lesson: str) -> str:
    """What `/decide ... because ...` keeps is the reason of a decision."""
    reason = lesson.removeprefix("because ")
    return f"Lesson: {lesson}" if reason == lesson else f"Reason: {reason}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, list):
        return [_masked(entry) for entry in value]
    if isinstance(value, dict):
        return {masked(name): _masked(entry) for name, entry in value.items()}
    return value

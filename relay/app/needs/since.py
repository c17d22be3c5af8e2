"""What came since somebody left, in short: numbers, and the sentences that say most (docs/inbox.md).

Invariant: every sentence is one that somebody wrote, with the number of its message: nothing is worded anew, and no
model is asked.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from relay.airspace.advisories import table
from relay.app.needs.words import prose, unmarked
from relay.base.durations import iso, parse_iso, rough_duration
from relay.base.terminal_text import safe_line
from relay.model import Fault, Kind, Message, Refusal, references
from relay.room.journal.ledger import Q
from relay.room.journal.pages import row_at
from relay.room.journal.values import message_of_row
from relay.room.steward import markdown
from relay.store.ports import Tx
from relay.verification.landing import journal as landings
from relay.verification.landing.entry import EntryState

#: Entries that are looked at: the newest. Sentences, and those of one speaker, that are given. Characters of one.
MOST, MOST_LINES, MOST_EACH, MOST_WORDS = 2000, 5, 2, 240
#: Landings and advisories among which those that ended meanwhile are looked for.
MOST_ENDED = 50
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"\w{4,}")
_MERGED = "merged"
#: A number that no message has yet.
_NEWEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence of the message of this number."""

    number: int
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Since:
    """`at`: when it began, Unix seconds. `messages`: of people and agents; `answers`: of each agent, most first;
    `said`: of each person. `settled`: collisions that ended; `landed`: whose work came to the main branch; `waits`:
    what needs a person now. `more`: there was more than was looked at."""

    after: int
    at: float
    messages: int
    answers: tuple[tuple[str, int], ...]
    said: tuple[tuple[str, int], ...]
    settled: int
    landed: tuple[str, ...]
    waits: int
    lines: tuple[Line, ...]
    more: bool

    def as_json(self) -> dict[str, Any]:
        return {
            "after": self.after,
            "at": iso(self.at),
            "messages": self.messages,
            "answers": [{"name": name, "count": count} for name, count in self.answers],
            "said": [{"name": name, "count": count} for name, count in self.said],
            "settled": self.settled,
            "landed": list(self.landed),
            "waits": self.waits,
            "lines": [{"number": one.number, "speaker": one.speaker, "text": one.text} for one in self.lines],
            "more": self.more,
        }


async def read(tx: Tx, after: str, *, reader: str, waits: int) -> Since:
    """What came behind the message `after` (`m12`), for this reader, whose own messages do not count. Raises
    Refusal."""
    row = await row_at(tx, after)
    if row is None:
        raise Refusal(f"There is no message {safe_line(after, 40)}.", "Name one like m12.", Fault.UNKNOWN)
    return await _behind(tx, message_of_row(row), reader, waits)


async def read_from_own(tx: Tx, reader: str, *, waits: int) -> Since:
    """As `read`, behind what the reader said last, but for asking this. Raises Refusal."""
    rows = await tx.all(Q.messages_between, after=0, upto=_NEWEST, limit=MOST)
    own = (one for one in map(message_of_row, rows) if one.speaker == reader and one.kind is Kind.HUMAN)
    last = next((one for one in own if not one.body.startswith("/since")), None)
    if last is None:
        raise Refusal(
            "You have said nothing here before.", "Name the message, like `/since m12`.", Fault.UNKNOWN
        )
    return await _behind(tx, last, reader, waits)


async def _behind(tx: Tx, mark: Message, reader: str, waits: int) -> Since:
    at = parse_iso(mark.ts)
    rows = await tx.all(Q.messages_between, after=mark.number, upto=_NEWEST, limit=MOST + 1)
    came = [message_of_row(row) for row in rows[:MOST]][::-1]
    merged = [str(one.meta.get("agent", "")) for one in came if one.meta.get("change") == _MERGED]
    ended = await landings.newest_ended(tx, MOST_ENDED)
    landed = [one.agent for one in ended if one.state is EntryState.LANDED and (one.ended or 0.0) > at]
    over = [one for one in await table.latest(tx, MOST_ENDED) if (one.closed_at or 0.0) > at]
    talk = [one for one in came if one.kind in (Kind.HUMAN, Kind.AGENT) and one.speaker != reader]
    talk = [one for one in talk if not one.body.startswith("/")]
    return Since(
        mark.number,
        at,
        len(talk),
        _counted(one.speaker for one in talk if one.kind is Kind.AGENT),
        _counted(one.speaker for one in talk if one.kind is Kind.HUMAN),
        len(over),
        tuple(dict.fromkeys(filter(None, [*merged, *landed]))),
        waits,
        tuple(telling(talk, reader)),
        len(rows) > MOST,
    )


def _counted(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(names).most_common())


def telling(came: Sequence[Message], reader: str) -> list[Line]:
    """The sentences that say most of what came, in its order: whose words come again in others, and what is asked of
    the reader. What says the same as one that is taken is left out. Pure."""
    sentences = [(one, text) for one in came for text in _sentences(one.body)]
    spread = Counter(word for _, text in sentences for word in _words(text))
    named = reader.casefold()

    def weight(place: int) -> float:
        message, text = sentences[place]
        words = _words(text)
        common = sum(math.log(spread[word]) for word in words) / math.sqrt(len(words) + 1)
        asks = 2.0 * text.endswith("?") + 2.0 * (f"@{named}" in text.casefold())
        first = 1.0 if place == 0 or sentences[place - 1][0] is not message else 0.0
        return common + asks + first + (0.5 if message.kind is Kind.AGENT else 0.0)

    taken: list[int] = []
    each: Counter[str] = Counter()
    for place in sorted(range(len(sentences)), key=weight, reverse=True):
        message, text = sentences[place]
        words = _words(text)
        if not words or each[message.speaker] >= MOST_EACH:
            continue
        if any(len(words & _words(sentences[one][1])) > len(words) / 2 for one in taken):
            continue
        taken.append(place)
        each[message.speaker] += 1
        if len(taken) == MOST_LINES:
            break
    return [
        Line(sentences[one][0].number, sentences[one][0].speaker, sentences[one][1]) for one in sorted(taken)
    ]


def _sentences(body: str) -> list[str]:
    return [
        safe_line(text, MOST_WORDS)
        for part in _SENTENCE.split(unmarked(prose(body)))
        if len(text := part.strip(" -#>|")) > 8
    ]


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text))


def line(since: Since) -> str:
    """`41 messages: AVA answered 3, BEN 2; 1 collision settled; landed: AVA; waits for you: 2`. Pure."""
    many = f"{since.messages}{' or more' if since.more else ''} message{'s' * (since.messages != 1)}"
    who = [f"{name} answered {n}" if at == 0 else f"{name} {n}" for at, (name, n) in enumerate(since.answers)]
    who += [f"{name} said {n}" for name, n in since.said]
    parts = [f"{many}: {', '.join(who)}" if who else many]
    if since.settled:
        parts.append(f"{since.settled} collision{'s' * (since.settled != 1)} settled")
    if since.landed:
        parts.append(f"landed: {', '.join(since.landed)}")
    if since.waits:
        parts.append(f"waits for you: {since.waits}")
    return "; ".join(parts)


def said(since: Since, now: float) -> str:
    """`/since` as markdown, in which the sentences shape nothing. Pure."""
    lines = [f"In {rough_duration(max(0.0, now - since.at))}: {line(since)}.", ""]
    lines += [
        f"- **{markdown.plain(one.speaker)}** ({references.message(one.number)}): {markdown.plain(one.text)}"
        for one in since.lines
    ]
    return "\n".join(lines).rstrip()

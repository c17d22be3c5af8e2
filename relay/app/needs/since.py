"""What came since somebody left, in short: numbers, and the sentences that say most (docs/inbox.md).

Invariant: every sentence is one that somebody wrote, with the number of its message: nothing is worded anew. A line
that was written straight into the transcript is not quoted, and one in the name of an agent or of the room does not
count.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay.airspace.advisories import table
from relay.airspace.worktrees.lifecycle import CHANGED, MERGED
from relay.airspace.worktrees.merging.takebacks import taken_merge
from relay.app.needs.words import prose, unmarked
from relay.base.durations import iso, parse_iso, rough_duration
from relay.base.terminal_text import safe_line
from relay.log import events
from relay.model import Fault, Kind, Refusal, references
from relay.room.journal.ledger import Q
from relay.room.journal.pages import row_at
from relay.room.steward import markdown
from relay.store.ports import Row, Tx
from relay.verification.landing import journal as landings
from relay.verification.landing.entry import EntryState

#: Entries that are looked at: the newest. Sentences, and those of one speaker, that are given. Characters of one.
MOST, MOST_LINES, MOST_EACH, MOST_WORDS = 2000, 5, 2, 240
#: Characters of one entry that are read. Of all together, about: characters that are gone through, and sentences
#: whose words are counted. So the most that can come takes a part of a second.
MOST_BODY, MOST_READ, MOST_SENTENCES = 1500, 1_000_000, 5000
#: Landings and advisories among which those that ended meanwhile are looked for; changes of worktrees.
MOST_ENDED, MOST_CHANGES = 50, 1000
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"\w{4,}")
#: In the meta of the room's notices: of a message that was given up or skipped, and of what failed beside it.
_FAILED = re.compile(r'"notice":\s*"(?:dead|skipped)"|"failed":\s*"')
#: Who speaks for the room: an agent is told what is wrong with its work, too.
_ROOM = (Kind.SYSTEM, Kind.ADVISORY)


@dataclass(frozen=True, slots=True)
class Words:
    """What a message says, from its beginning. `proven`: its speaker said it."""

    number: int
    speaker: str
    kind: Kind
    body: str
    proven: bool = True


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence of the message of this number."""

    number: int
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Since:
    """`at`: when it began, Unix seconds. `messages`: of people and agents; `answers`: of each agent, most first;
    `said`: of each person. `settled`: collisions that ended; `landed`: whose work came to the main branch and
    was not taken back; `failed`: who could not answer (`CLEO`), and what of whom failed (`AVA's setup`); `waits`:
    what needs a person now. `more`: there was more than was looked at."""

    after: int
    at: float
    messages: int
    answers: tuple[tuple[str, int], ...]
    said: tuple[tuple[str, int], ...]
    settled: int
    landed: tuple[str, ...]
    failed: tuple[str, ...]
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
            "failed": list(self.failed),
            "waits": self.waits,
            "lines": [{"number": one.number, "speaker": one.speaker, "text": one.text} for one in self.lines],
            "more": self.more,
        }


@dataclass(frozen=True, slots=True)
class Came:
    """What was read for a `Since`, and not gone through yet. `rows`: of `messages_in_short`, the newest first."""

    after: int
    at: float
    reader: str
    rows: Sequence[Row]
    landed: tuple[str, ...]
    put_out: tuple[str, ...]
    settled: int
    waits: int


async def read(tx: Tx, after: str, *, reader: str, waits: int) -> Came:
    """What came behind the message `after` (`m12`), for this reader, whose own messages do not count. Raises
    Refusal."""
    row = await row_at(tx, after)
    if row is None:
        raise Refusal(f"There is no message {safe_line(after, 40)}.", "Name one like m12.", Fault.UNKNOWN)
    return await _behind(tx, row, reader, waits)


async def read_from_own(tx: Tx, reader: str, *, waits: int) -> Came:
    """As `read`, behind what the reader said last, but for asking this. Raises Refusal."""
    row = await tx.one(Q.last_said, speaker=reader, most=MOST, but="/since")
    if row is None:
        raise Refusal(
            "You have said nothing here before.", "Name the message, like `/since m12`.", Fault.UNKNOWN
        )
    return await _behind(tx, row, reader, waits)


async def _behind(tx: Tx, mark: Row, reader: str, waits: int) -> Came:
    at = parse_iso(mark["ts"])
    rows = await tx.all(Q.messages_in_short, after=mark["number"], most=MOST_BODY + 1, limit=MOST + 1)
    ended = await landings.newest_ended(tx, MOST_ENDED)
    landed = await _landed(tx, at)
    out = tuple(one.agent for one in ended if one.state is EntryState.PUT_OUT and (one.ended or 0.0) > at)
    over = [one for one in await table.latest(tx, MOST_ENDED) if (one.closed_at or 0.0) > at]
    return Came(mark["number"], at, reader, rows, landed, out, len(over), waits)


async def _landed(tx: Tx, since: float) -> tuple[str, ...]:
    """Whose work came to the main branch since then, and was not taken back."""
    merges = dict[str, str]()
    for event in reversed(await events.about(tx, '"change"', types=[CHANGED], limit=MOST_CHANGES)):
        change = event.outputs
        if change["change"] == MERGED and parse_iso(event.at) > since:
            merges[change["commit"]] = change["agent"]
        merges.pop(taken_merge(change) or "", None)
    return tuple(dict.fromkeys(merges.values()))


def told(came: Came) -> Since:
    """What was read, in short. Pure, but not quick: in a thread, and behind the transaction that read it."""
    rows = came.rows[:MOST][::-1]
    failures = [
        json.loads(row["meta"]) for row in rows if row["kind"] in _ROOM and _FAILED.search(row["meta"])
    ]
    talk = talk_of(came)
    return Since(
        came.after,
        came.at,
        len(talk),
        _counted(one.speaker for one in talk if one.kind is Kind.AGENT),
        _counted(one.speaker for one in talk if one.kind is Kind.HUMAN),
        came.settled,
        came.landed,
        tuple(dict.fromkeys([*map(_failed, failures), *(f"{name}'s landing" for name in came.put_out)])),
        came.waits,
        tuple(telling([one for one in talk if one.proven], came.reader)),
        len(came.rows) > MOST,
    )


def talk_of(came: Came) -> list[Words]:
    """What people and agents said to others than the room, the oldest first. Pure."""
    return [
        Words(
            *(row["number"], row["speaker"], Kind(row["kind"]), row["body"]),
            proven='"unverified"' not in row["meta"],
        )
        for row in came.rows[:MOST][::-1]
        if row["kind"] in (Kind.HUMAN, Kind.AGENT)
        and '"claims"' not in row["meta"]
        and row["speaker"] != came.reader
        and not row["body"].startswith("/")
    ]


def _failed(notice: Mapping[str, Any]) -> str:
    """Of the room's notice that something failed: who could not answer, or what of whom it was."""
    return f"{notice['agent']}'s {notice['failed']}" if "failed" in notice else str(notice["agent"])


def _counted(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(names).most_common())


def telling(came: Sequence[Words], reader: str) -> list[Line]:
    """The sentences that say most of what came, in its order: whose words come again in others, and what is asked of
    the reader. What says the same as one that is taken is left out. Pure."""
    many = max(1, len(came))
    each, most = max(2, MOST_SENTENCES // many), min(MOST_BODY, MOST_READ // many)
    named = f"@{reader.casefold()}"
    sentences = [
        (message, place, text, _words(text))
        for message in came
        for place, text in enumerate(_sentences(message.body, most))
        if place < each or named in text.casefold()
    ]
    spread = Counter(word for *_, words in sentences for word in words)
    heavy = {word: math.log(times) for word, times in spread.items()}

    def weight(one: int) -> float:
        message, place, text, words = sentences[one]
        common = sum(heavy[word] for word in words) / math.sqrt(len(words) + 1)
        asks = 2.0 * text.endswith("?") + 2.0 * (named in text.casefold())
        return common + asks + (1.0 if place == 0 else 0.0) + (0.5 if message.kind is Kind.AGENT else 0.0)

    taken: list[int] = []
    by: Counter[str] = Counter()
    for one in sorted(range(len(sentences)), key=weight, reverse=True):
        message, _, _, words = sentences[one]
        if not words or by[message.speaker] >= MOST_EACH:
            continue
        if any(len(words & sentences[other][3]) > len(words) / 2 for other in taken):
            continue
        taken.append(one)
        by[message.speaker] += 1
        if len(taken) == MOST_LINES:
            break
    lines = [(sentences[one][0], sentences[one][2]) for one in sorted(taken)]
    return [Line(message.number, message.speaker, safe_line(text, MOST_WORDS)) for message, text in lines]


def _sentences(body: str, most: int) -> list[str]:
    """Of the first `most` characters. Of a longer text the last sentence is not whole, and left out."""
    parts = _SENTENCE.split(unmarked(prose(body[:most])))
    whole = parts[:-1] if len(body) > most and len(parts) > 1 else parts
    return [text for part in whole if len(text := part.strip(" -#>|")) > 8]


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text[: MOST_WORDS * 2]))


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
    if since.failed:
        parts.append(f"failed: {', '.join(since.failed)}")
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

"""Memories that are imported, a line each: what a line may say, and how many lines are kept at once.

Invariants:
- a line is kept whole or refused by its number, with the reason and what to do; the lines beside it are kept;
- a line that was kept is known from then on, by its `key`, or without one by what it says. So an import that was
  killed at any instant goes on with the same file, and a file that is imported twice adds nothing;
- a line says whose memory it is and when it happened; who imported it is kept beside that, and nobody imports what
  the room itself would have said.

(Issue 13, "Batch doors"; 004, "Episodic Memory".)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from relay.memory.episodic.keeping import OWN_KEY, NewMemory, keep, new_counts
from relay.memory.experience import Experience, experience, nfc
from relay.model import Caller, Refusal
from relay.model.speaker_names import is_reserved
from relay.model.validation import digest, malformed, text, unsecret
from relay.store.ports import Store, Tx

#: Lines of one transaction: others write in between, and what a killed import has to do again is less than that.
BATCH = 200
#: Bytes of a line.
MOST_LINE = 1_048_576
MOST_KEY = 200
MOST_SESSION = 200
MOST_AGENT = 200
FIELDS = (
    "key",
    "event_type",
    "summary",
    "details",
    "outcome",
    "lessons",
    "tags",
    "session",
    "at",
    "agent",
)
_NEEDED = ("event_type", "summary")
#: What the reason begins with for which a line is refused that is no JSON.
NOT_JSON = "The line is not JSON"


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that was not kept: its number, from 1, why, and what would make it succeed."""

    line: int
    reason: str
    fix: str


@dataclass(slots=True)
class ImportResult:
    """What became of the lines. `imported`: new memories; `merged`: lines that joined a memory that was there;
    `known`: lines that had been kept before."""

    imported: int = 0
    merged: int = 0
    known: int = 0
    refused: list[RefusedLine] = field(default_factory=list)

    def add(self, other: ImportResult) -> None:
        """Count another one in."""
        self.imported += other.imported
        self.merged += other.merged
        self.known += other.known
        self.refused += other.refused

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def import_lines(
    store: Store, caller: Caller, lines: Sequence[object], *, first: int = 1
) -> ImportResult:
    """Keep the memories of these lines: JSON texts, or the values of such. Empty ones are passed over. `first`: the
    number of the first line. Each `BATCH` is a transaction."""
    result, alike = ImportResult(), Counter[str]()
    for start in range(0, len(lines), BATCH):
        batch = lines[start : start + BATCH]
        now = await store.read(lambda tx: tx.now())
        memories: list[NewMemory] = []
        for number, line in enumerate(batch, first + start):
            try:
                memory = None if _empty(line) else read_line(line, caller.agent, now)
            except Refusal as refusal:
                result.refused.append(RefusedLine(number, refusal.message, refusal.fix))
                continue
            if memory is not None:
                memories.append(memory if memory.key is not None else _with_own_key(memory, line, alike))
        if memories:
            result.add(await _keep(store, memories))
    return result


def read_line(line: object, caller: str, now: float) -> NewMemory:
    """The memory that a line tells, imported by `caller`, who is its author too where it names none. A memory without
    a `key` has None. `now`: Unix seconds. Raises Refusal."""
    values = _values(line)
    for name in values:
        if name not in FIELDS:
            raise malformed(name, f"Unknown field {name[:60]!r}.", f"Known: {', '.join(FIELDS)}.")
    for name in _NEEDED:
        if name not in values:
            raise malformed(name, f"`{name}` is missing.", f'Give {{"{name}": "..."}}.')
    lists = {name: values[name] for name in ("lessons", "tags") if name in values}
    told: Experience = experience(
        values["event_type"],
        values["summary"],
        details=values.get("details"),
        outcome=values.get("outcome"),
        **lists,
    )
    key = _name(values, "key", MOST_KEY)
    if key is not None and key.startswith(OWN_KEY):
        message = f"`key` begins with {OWN_KEY}, as relay's own keys do."
        raise malformed("key", message, "Give another one.")
    agent = _name(values, "agent", MOST_AGENT) or caller
    if agent != caller and is_reserved(agent, ()):
        message = f"`agent` is {agent[:60]!r}, which is the room's own name, or reads like it."
        raise malformed("agent", message, "Name who it was, or leave `agent` out.")
    session = _name(values, "session", MOST_SESSION) or ""
    at = _time(values["at"], now) if "at" in values else now
    return NewMemory(told, agent, session, at, key=key, imported_by=caller)


async def _keep(store: Store, memories: Sequence[NewMemory]) -> ImportResult:
    async def work(tx: Tx) -> ImportResult:
        kept, counts = ImportResult(), new_counts()
        for memory in memories:
            done = await keep(tx, memory, counts)
            if done.known:
                kept.known += 1
            elif done.merged:
                kept.merged += 1
            else:
                kept.imported += 1
        async with tx.as_room():
            await counts.write(tx)
        return kept

    # With the room's rights: the memories are of others too.
    return await store.write(work)


def _empty(line: object) -> bool:
    return isinstance(line, str) and not line.strip()


def _values(line: object) -> dict[str, Any]:
    """The fields of a line; null is the same as left out."""
    values = line
    if isinstance(line, str):
        # Of characters each is a byte at least, so no long line is encoded to be measured.
        if len(line) > MOST_LINE or len(line.encode("utf-8", "surrogatepass")) > MOST_LINE:
            message = f"The line is longer than {MOST_LINE:,} bytes."
            raise malformed("line", message, "Shorten it, or name a file in `details`.")
        try:
            values = json.loads(line)
        except ValueError as error:
            where = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
            raise malformed("line", f"{NOT_JSON}: {where}.", "Give one JSON object a line.") from None
        except RecursionError:
            raise malformed("line", "The line's JSON is nested too deeply.", "Nest it less.") from None
    if not isinstance(values, dict):
        raise malformed("line", "The line is no JSON object.", 'Give {"event_type": ..., "summary": ...}.')
    return {name: value for name, value in values.items() if value is not None}


def _name(values: dict[str, Any], name: str, most: int) -> str | None:
    """A text of one line that stands in columns and lists, or None. Raises Refusal."""
    if name not in values:
        return None
    given = nfc(text(values[name], name, most))
    if not given.isprintable():
        bad = next(character for character in given if not character.isprintable())
        message = f"`{name}` has the invisible character U+{ord(bad):04X}."
        raise malformed(name, message, "Leave it out.")
    return unsecret(given, name)


def _time(value: object, now: float) -> float:
    """`at` as Unix seconds. Raises Refusal."""
    fix = "Give ISO 8601 with an offset, like 2026-03-02T14:05:00Z or 2026-03-02T15:05:00+01:00."
    try:
        at = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise malformed("at", f"`at` is {str(value)[:60]!r}, which is no time.", fix) from None
    if at.tzinfo is None:
        raise malformed("at", f"`at` is {str(value)[:60]!r}, without an offset.", fix)
    seconds = at.timestamp()
    if seconds > now:
        message = f"`at` is {str(value)[:60]!r}, which lies ahead."
        then = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        raise malformed("at", message, f"A memory is of something that has happened; it is {then} now.")
    if seconds < 0:
        raise malformed("at", f"`at` is {str(value)[:60]!r}, before 1970.", "Give a later time.")
    return seconds


def _with_own_key(memory: NewMemory, line: object, alike: Counter[str]) -> NewMemory:
    """The memory under a key that is made of what its line says; of equal lines each has its own."""
    content = digest([memory.agent, _values(line)])
    alike[content] += 1
    nth = f":{alike[content]}" if alike[content] > 1 else ""
    return replace(memory, key=f"{OWN_KEY}{content}{nth}")

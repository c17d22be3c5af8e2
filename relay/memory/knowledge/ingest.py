"""Knowledge made of the log, as the room goes on and anew.

Invariants:
- the rows are a function of the events and their order: ids, numbers, what closes what, what is forgotten. `rebuild`
  gives the same;
- what an agent only repeats of what it was given makes no entry, so what is forgotten is not told again as its word;
- an event that was taken in already changes nothing, so a rebuild and the follower may run side by side;
- a contradiction or a supersession ends the time in which the older held, and nothing is deleted. It does so only
  where everybody who may read the older may read the newer, and by no lesser word: a line that proves nobody ends
  only what was said by such a line, and an agent nothing that a person said. Else both stay open, and the newer
  contradicts the older.

(003, section 7.4, `ingest_event`.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from relay.base.durations import parse_iso
from relay.log import events
from relay.log.encoding import dumps, loads
from relay.log.events import Event
from relay.memory.knowledge import contradictions
from relay.memory.knowledge.contradictions import COMPARED, Said
from relay.memory.knowledge.entry import (
    CLOSING,
    POSITIONS,
    Draft,
    Reference,
    Relation,
    Standing,
    entry_id,
    reader,
)
from relay.memory.knowledge.extractors import EXTRACTORS, FILE_TOPIC, Extracted, extract
from relay.memory.knowledge.forgetting import ENTRY_FORGOTTEN, FORGOTTEN, forget_entries, forget_entry
from relay.memory.knowledge.repeated import without_repeated
from relay.memory.knowledge.visibility import EVERYBODY, Q, audience_of
from relay.memory.ranking.words import meant
from relay.model.references import DIGITS, LEAST_DIGITS
from relay.store.ports import Row, Store, Tx

#: Events of one transaction of a rebuild, and of one that does something else besides, at most.
BATCH, MOST_AT_ONCE = 1000, 100
#: The events that are looked at.
_FORGETTING = {FORGOTTEN: forget_entries, ENTRY_FORGOTTEN: forget_entry}
READS = frozenset({*EXTRACTORS, *_FORGETTING})
#: Older statements that are compared with a new one at once; the newest with a word among which they are looked for.
MOST_COMPARED, MOST_WALKED = 50, 2000


@dataclass(frozen=True, slots=True)
class _Entry:
    """A draft with what the database knows it by; `said`: what is compared, None where nothing is."""

    draft: Draft
    event: Event
    audience: int
    said: Said | None
    words: tuple[str, ...]
    other_words: tuple[str, ...]

    @property
    def number(self) -> int:
        return self.event.pos * POSITIONS + self.draft.position

    @property
    def id(self) -> str:
        return entry_id(self.event.id, self.draft.position)

    def row(self) -> dict[str, Any]:
        draft = self.draft
        return {
            "number": self.number,
            "id": self.id,
            "kind": str(draft.kind),
            "content": draft.content,
            "agent": draft.agent,
            "event": self.event.id,
            "topics": dumps(list(draft.topics)),
            "files": dumps(list(draft.files)),
            "confidence": draft.confidence,
            "rationale": draft.rationale,
            "alternatives": dumps(list(draft.alternatives)),
            "severity": draft.severity,
            "extractor": str(draft.extractor),
            "audience": self.audience,
            "standing": int(draft.standing),
            "at": draft.at,
            "statement": contradictions.digest(self.said or contradictions.said(draft.content))
            if self.words
            else None,
            "words": " ".join(self.words),
            "other_words": " ".join(self.other_words),
        }


class KnowledgeFollower:
    """Takes in each event as it is recorded (`relay.log.follow`)."""

    name = "knowledge"
    reads = READS
    emits: frozenset[str] = frozenset()

    async def apply(self, tx: Tx, event: Event) -> None:
        await ingest(tx, [event])

    async def apply_all(self, tx: Tx, new: Sequence[Event]) -> None:
        await ingest(tx, new)


async def ingest(tx: Tx, new: Sequence[Event]) -> int:
    """Put what these events say into the tables, in their order; gives the number of entries."""
    made = 0
    for forget, some in groupby(new, lambda event: _FORGETTING.get(event.type)):
        if forget is None:
            made += await _take_in(tx, list(some))
            continue
        for event in some:
            await forget(tx, event)
    return made


async def _take_in(tx: Tx, new: Sequence[Event]) -> int:
    found = [(event, await without_repeated(tx, event, extract(event))) for event in new]
    entries = [await _entry(tx, event, draft) for event, said in found for draft in said.drafts]
    if entries:
        numbers = [entry.number for entry in entries]
        rows = await tx.all(Q.entries_known, least=min(numbers), most=max(numbers))
        known = {row["number"] for row in rows}
        entries = [entry for entry in entries if entry.number not in known]
    if entries:
        await _put(tx, entries)
        for entry in entries:
            await _relate(tx, entry)
    for event, said in found:
        if said.mentions:
            await _note_mentions(tx, event, said)
    return len(entries)


async def rebuild(store: Store) -> int:
    """Drop the tables' rows and make them anew from the log; gives the number of entries. The room may go on
    meanwhile: each step is a transaction of its own, and where it stops the follower goes on. What comes from events
    that are archived stays as it is."""

    async def clear(tx: Tx) -> None:
        kept = await tx.one(Q.entry_of_archive)
        if kept is None:
            for query in _CLEAR:
                await tx.execute(query)
        else:
            for query in _CLEAR_LOGGED:
                await tx.execute(query)
        await tx.execute(events.Q.put_follower, name=KnowledgeFollower.name, pos=0)

    await store.write(clear)
    made = 0
    while True:
        read, count = await take_in(store, batch=BATCH)
        made += count
        if not read:
            return made


async def take_in(store: Store, *, batch: int) -> tuple[int, int]:
    """Take in the next events behind the follower's cursor, in one transaction; gives how many were read, and the
    entries that they made."""

    return await store.write(lambda tx: _take_in_next(tx, batch, batch))


async def take_in_now(tx: Tx) -> bool:
    """Take in what the follower has not come to yet, in the caller's transaction, which knows then what it has ended;
    the follower has nothing left to do. False: that is too much (the knowledge is being made anew), and nothing is
    taken in."""
    read, _ = await _take_in_next(tx, MOST_AT_ONCE + 1, MOST_AT_ONCE)
    return read <= MOST_AT_ONCE


async def _take_in_next(tx: Tx, limit: int, most: int) -> tuple[int, int]:
    """How many of the next events were read, `limit` at most, and the entries that they made: none of more than
    `most`."""
    row = await tx.one(events.Q.follower, name=KnowledgeFollower.name)
    after = row["pos"] if row else 0
    new = await events.read_after(tx, after, types=sorted(READS), limit=limit)
    if not new or len(new) > most:
        return len(new), 0
    count = await ingest(tx, new)
    await tx.execute(events.Q.put_follower, name=KnowledgeFollower.name, pos=new[-1].pos)
    return len(new), count


_CLEAR = (
    Q.clear_words,
    Q.clear_counts,
    Q.clear_files,
    Q.clear_relations,
    Q.clear_mentions,
    Q.clear_entries,
    Q.clear_readers,
    Q.clear_audiences,
)
_CLEAR_LOGGED = (
    Q.count_logged_down,
    Q.clear_logged_words,
    Q.clear_logged_files,
    Q.clear_logged_relations,
    Q.clear_logged_mentions,
    Q.open_closed_by_logged,
    Q.clear_logged_entries,
)


async def _entry(tx: Tx, event: Event, draft: Draft) -> _Entry:
    audience = await audience_of(tx, draft.agent, draft.access)
    if draft.topics[:1] == (FILE_TOPIC,):
        return _Entry(draft, event, audience, None, (), _stems(*draft.files[:50]))
    content = _stems(draft.content)
    others = _stems(draft.rationale or "", *draft.topics, *draft.files, *draft.alternatives)
    said = contradictions.said(draft.content, draft.alternatives) if draft.kind in COMPARED else None
    return _Entry(
        draft, event, audience, said, content, tuple(each for each in others if each not in content)
    )


def _stems(*texts: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for text in texts for word in meant(text)))


async def _put(tx: Tx, entries: Sequence[_Entry]) -> None:
    await tx.execute(Q.put_entries, rows=dumps([entry.row() for entry in entries]))
    postings, files = [], []
    counts: Counter[tuple[str, int]] = Counter()
    for entry in entries:
        stems = (*entry.words, *entry.other_words)
        counts.update((word, entry.audience) for word in (*stems, "", f"@{entry.draft.agent}"))
        shared = {
            "number": entry.number,
            "at": entry.draft.at,
            "agent": entry.draft.agent,
            "kind": str(entry.draft.kind),
            "audience": entry.audience,
        }
        if stems:
            postings.append(shared | {"words": list(stems)})
        origins = dict(entry.draft.origins)
        if entry.draft.files:
            paths = [{"path": path, "from": origins.get(path)} for path in entry.draft.files]
            files.append(shared | {"paths": paths})
    if postings:
        await tx.execute(Q.put_words, rows=dumps(postings))
    if files:
        await tx.execute(Q.put_files, rows=dumps(files))
    rows = [{"word": word, "audience": who, "entries": n} for (word, who), n in sorted(counts.items())]
    await tx.execute(Q.put_counts, rows=dumps(rows))


async def _relate(tx: Tx, entry: _Entry) -> None:
    """Put the relations of an entry to older ones, and close what it contradicts or supersedes."""
    named: set[int] = set()
    for reference in entry.draft.references:
        target = await _resolve(tx, entry, reference)
        if target is not None:
            named.add(target["number"])
            await _put_relation(tx, entry, reference.relation, target)
    closed, supported = True, False
    # What is closed makes room for the next, however often it was said.
    while closed and entry.said is not None:
        closed = False
        for target in await _compared(tx, entry):
            if target["number"] in named:
                continue
            old = contradictions.said(target["content"], tuple(loads(target["alternatives"])))
            relation = contradictions.relation(entry.said, old)
            if relation is not None:
                named.add(target["number"])
                if relation is Relation.SUPPORTS and supported:
                    # What is said for the hundredth time relates to the last of these, not to all.
                    if _validates(entry, target):
                        await tx.execute(Q.validate_entry, number=target["number"], at=entry.draft.at)
                    continue
                ended = await _put_relation(tx, entry, relation, target)
                supported = supported or relation is Relation.SUPPORTS
                closed = closed or ended


async def _resolve(tx: Tx, entry: _Entry, reference: Reference) -> Row | None:
    """The older entry that is meant, of those that the author of this one may read; None: none, or it is unclear."""
    if isinstance(reference.target, int):
        return await tx.one(Q.entry_of_number, number=entry.event.pos * POSITIONS + reference.target)
    look = {"number": entry.number, "audience": entry.audience, "reader": reader(entry.draft.agent)}
    if reference.quoted:
        digest = contradictions.digest(contradictions.said(reference.target))
        return await tx.one(Q.named_by_statement, statement=digest, **look) if digest else None
    return await _of_id(tx, reference.target, **look)


async def _of_id(tx: Tx, beginning: str, **look: Any) -> Row | None:
    least = beginning.lower()
    if not LEAST_DIGITS < len(least) <= DIGITS + 1:
        return None
    rows = await tx.all(Q.named_by_id, least=least, most=least + "g", **look)
    return rows[0] if len(rows) == 1 else None


async def _compared(tx: Tx, entry: _Entry) -> list[Row]:
    """Older statements that still hold, for the same readers, which may say the same or the contrary."""
    said = entry.said
    if said is None:
        return []
    look = {"number": entry.number, "audience": entry.audience, "limit": MOST_COMPARED}
    digest = contradictions.digest(said)
    rows = list(await tx.all(Q.of_statement, statement=digest, **look)) if digest else []
    if not said.negated:
        for against in said.against:
            # Not the rarest word: what is counted depends on the steps in which the log is taken in.
            words = {
                "word": max(against, key=lambda word: (len(word), word)),
                "words": dumps(sorted(against)),
            }
            for row in await tx.all(Q.of_words, most=MOST_WALKED, **words, **look):
                rows += [row] if all(row["number"] != known["number"] for known in rows) else []
    return rows


async def _put_relation(tx: Tx, entry: _Entry, relation: Relation, target: Row) -> bool:
    """Put it, with what it does to the target; gives whether it ends it."""
    stands = entry.draft.standing >= target["standing"]
    if relation in CLOSING and not stands:
        relation = Relation.CONTRADICTS
    await tx.execute(Q.put_relation, source=entry.number, relation=str(relation), target=target["number"])
    if entry.audience not in (EVERYBODY, target["audience"]):
        return False
    if relation is Relation.SUPPORTS and _validates(entry, target):
        await tx.execute(Q.validate_entry, number=target["number"], at=entry.draft.at)
    if relation not in CLOSING or not stands:
        return False
    await tx.execute(Q.close_entry, number=target["number"], at=entry.draft.at, by=entry.id)
    return True


def _validates(entry: _Entry, target: Row) -> bool:
    """Does it count that this entry says the same again?"""
    return entry.draft.standing > Standing.UNVERIFIED or target["standing"] == Standing.UNVERIFIED


async def _note_mentions(tx: Tx, event: Event, said: Extracted) -> None:
    """Note that an event names entries, of those that its author may read."""
    look = {"number": (event.pos + 1) * POSITIONS, "audience": EVERYBODY, "reader": reader(said.agent)}
    for beginning in said.mentions:
        target = await _of_id(tx, beginning, **look)
        if target is not None:
            await tx.execute(
                Q.put_mention, id=target["id"], agent=said.agent, event=event.id, at=parse_iso(event.at)
            )

"""How a memory is kept: one function, whoever remembers (an agent's call, the room itself, an import).

Invariants:
- a memory, its words, their counts and its event commit together. What the room observes has an event of its own only
  where it joins a memory that was there: else the event that it is made from says all of it, its id too (`_id`);
- the same agent, event type and summary (NFC, exactly) within `MERGE_S` is one memory, however many write at once:
  the look and the write are one transaction, and the hour goes by when it happened (`at`), not by when it was told;
- an event is made into one memory, and a key is imported once, also when that memory was merged or forgotten since;
- no key or token that is known by its form is kept.

Everything here runs in the caller's transaction. (004, "Episodic Memory".)
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import uuid_utils

from relay.base.durations import iso
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.memory.experience import MOST_JOINED, Experience
from relay.memory.found import is_unverified
from relay.memory.ranking.counts import WordCounts
from relay.memory.ranking.weights import outcome_of
from relay.memory.ranking.words import filter_terms, spaced, term, words
from relay.store.ports import Queries, Row, Tx

Q = Queries(Path(__file__).parents[1])
REMEMBERED = "memory.remembered"
#: The kind of texts that memories are, among those whose words are counted.
KIND = "episodic"
#: What keys begin with that relay makes itself, for what is imported without one. Nobody is told them.
OWN_KEY = "relay:"
#: Seconds in which the same is one memory (004: "within 1 hour").
MERGE_S = 3600.0


@dataclass(frozen=True, slots=True)
class NewMemory:
    """What is to be kept: an experience of `agent` in `session`, which happened `at` (Unix seconds).

    `event_id`: the event that it is made from; `observed`: by the room itself, on nobody's order. `key`: what an
    import names it by; `imported_by`: who imports.
    What the room observes and what is imported are turns of a conversation, their session: those directly before and
    behind one are its neighbours. What an agent remembers by itself stands alone, and so does what has no session.
    """

    experience: Experience
    agent: str
    session: str
    at: float
    event_id: str | None = None
    observed: bool = False
    key: str | None = None
    imported_by: str | None = None

    @property
    def is_turn(self) -> bool:
        return self.event_id is not None or self.imported_by is not None


@dataclass(frozen=True, slots=True)
class Kept:
    """Where it is now. `merged`: it joined a memory that was there; `known`: its event or key had been kept before,
    and nothing was written."""

    id: str
    number: int
    merged: bool = False
    known: bool = False


@dataclass(frozen=True, slots=True)
class _New:
    """A memory that joins none. `event_id`: the event that it is made from, else the one that recorded it."""

    new: NewMemory
    told: Experience
    id: str
    number: int
    event_id: str | None


@dataclass(frozen=True, slots=True)
class _Told:
    """A memory that is to be found. `session`: the conversation that it is a turn of, '' = it stands alone."""

    number: int
    agent: str
    session: str
    at: float
    whole: Experience


def new_counts() -> WordCounts:
    """For a transaction that keeps many memories: `keep` gathers in it, and the caller writes it at the end."""
    return WordCounts(KIND)


async def keep(tx: Tx, new: NewMemory, counts: WordCounts | None = None) -> Kept:
    """Keep a memory, or join it with the same one of within an hour. `counts`: see `new_counts`; None = its words are
    counted here."""
    known = await _known(tx, new)
    if known is not None:
        return known
    told = new.experience.masked()
    row, whole = await _alike(tx, new, told)
    if row is None:
        id_, number = _id(new), await events.next_number(tx, "memory")
    else:
        id_, number = row["id"], row["number"]
    merged, event_id = row is not None, new.event_id
    if merged or not new.observed:
        event = await events.append(tx, _event(new, told, id_, number, merged))
        event_id = event_id or event.id
    gathered = counts or new_counts()
    async with tx.as_room():
        if row is None:
            await _put(tx, [_New(new, told, id_, number, event_id)], gathered)
        else:
            await unindex(tx, [row], gathered)
            columns = whole.columns()
            joined = {name: columns[name] for name in ("details", "outcome", "lessons", "tags")}
            await tx.execute(Q.join_memory, number=number, at=new.at, **joined)
            await _index(tx, [_Told(number, new.agent, _conversation(new), new.at, whole)], gathered)
            if new.event_id is not None:
                await tx.execute(Q.put_memory_event, event_id=new.event_id, number=number)
        if new.key is not None:
            await tx.execute(Q.put_memory_key, key=new.key, number=number)
        if counts is None:
            await gathered.write(tx)
    return Kept(id_, number, merged)


async def keep_observed(tx: Tx, news: Sequence[NewMemory]) -> None:
    """As `keep` for each of what the room observed, in their order. What is new, as most is, is put together."""
    made_of = [new.event_id for new in news if new.event_id is not None]
    known = {row["event_id"] for row in await tx.all(Q.events_remembered, events=json.dumps(made_of))}
    counts = new_counts()
    waiting: dict[tuple[str, str, str], tuple[NewMemory, Experience]] = {}

    async def put() -> None:
        last = await events.next_number(tx, "memory", len(waiting))
        numbered = enumerate(waiting.values(), last - len(waiting) + 1)
        async with tx.as_room():
            rows = [_New(new, told, _id(new), number, new.event_id) for number, (new, told) in numbered]
            await _put(tx, rows, counts)
        waiting.clear()

    for new in news:
        if new.event_id in known:
            continue
        told = new.experience.masked()
        same = (new.agent, told.event_type, told.summary)
        if same not in waiting and (await _alike(tx, new, told))[0] is None:
            waiting[same] = new, told
            continue
        if waiting:
            await put()
        await keep(tx, new, counts)
    if waiting:
        await put()
    if counts.changes:
        async with tx.as_room():
            await counts.write(tx)


async def index(tx: Tx, rows: Iterable[Row], counts: WordCounts) -> None:
    """Make memories found by their words. `rows`: of memory_episodic, with `is_turn`."""
    told = [
        _Told(
            row["number"],
            row["agent_id"],
            row["session_id"] if row["is_turn"] else "",
            row["created_at"],
            Experience.of_row(row),
        )
        for row in rows
    ]
    await _index(tx, told, counts)


async def unindex(tx: Tx, rows: Sequence[Row], counts: WordCounts) -> None:
    """Let memories be found by no word any more. `rows`: of memory_episodic, as they were indexed."""
    numbers = json.dumps([row["number"] for row in rows])
    indexed = {row["number"]: row for row in await tx.all(Q.memory_words, numbers=numbers)}
    for row in rows:
        held = indexed.get(row["number"])
        if held is None:
            continue
        experience = Experience.of_row(row)
        summary, body = held["summary"].split(), held["body"].split()
        terms = _terms({*summary, *body}, row["agent_id"], experience)
        await tx.execute(Q.unindex_memory, number=row["number"], terms=terms)
        counts.add(summary, body, -1)


async def _known(tx: Tx, new: NewMemory) -> Kept | None:
    row = None
    if new.event_id is not None:
        row = await tx.one(Q.memory_of_event, event_id=new.event_id)
    if row is None and new.key is not None:
        row = await tx.one(Q.memory_of_key, key=new.key)
    return None if row is None else Kept(row["id"], row["number"], known=True)


async def _alike(tx: Tx, new: NewMemory, told: Experience) -> tuple[Row | None, Experience]:
    """The memory that this one joins, and what both are together."""
    row = await tx.one(
        Q.alike,
        agent=new.agent,
        sayer=new.imported_by or new.agent,
        event_type=told.event_type,
        summary=told.summary,
        since=new.at - MERGE_S,
        until=new.at + MERGE_S,
    )
    if row is None:
        return None, told
    there = Experience.of_row(row)
    if is_unverified(there.tags) != is_unverified(told.tags):
        return None, told  # nobody's word makes a proven one unverified, nor is it proven by that
    whole = there.joined(told)
    return (None, told) if whole.bytes() > MOST_JOINED else (row, whole)


def _id(new: NewMemory) -> str:
    """The id of a new memory. Of what the room observes it is a function of the event."""
    if new.observed and new.event_id is not None:
        return str(uuid.UUID(new.event_id[:32], version=5))
    return str(uuid_utils.uuid7())


def _event(new: NewMemory, told: Experience, id_: str, number: int, merged: bool) -> NewEvent:
    """What is recorded: on the author's lane where it remembers itself, else on a short one of the memory's own."""
    memory = {"id": id_, "number": number, "merged": merged, "agent_id": new.agent}
    memory |= {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(told).items()
    }
    if new.is_turn:
        memory |= {"session_id": new.session, "at": iso(new.at)}
        others = {"event_id": new.event_id, "key": new.key, "imported_by": new.imported_by}
        memory |= {name: value for name, value in others.items() if value is not None}
    return NewEvent(
        type=REMEMBERED,
        lane=Lane("room", f"memory:{id_}", short=True) if new.is_turn else Lane(new.session, new.agent),
        outputs={"memory": memory},
        parents=[] if new.event_id is None else [new.event_id],
    )


def _conversation(new: NewMemory) -> str:
    return new.session if new.is_turn else ""


async def _put(tx: Tx, news: Sequence[_New], counts: WordCounts) -> None:
    """Put these into the tables, and make them found."""
    rows = [
        {
            "number": each.number,
            "id": each.id,
            "agent": each.new.agent,
            "session": each.new.session,
            "at": each.new.at,
            "event_id": each.event_id,
            "imported_by": each.new.imported_by,
            **each.told.columns(),
        }
        for each in news
    ]
    await tx.many(Q.put_memory, rows)
    told = [
        _Told(each.number, each.new.agent, _conversation(each.new), each.new.at, each.told) for each in news
    ]
    await _index(tx, told, counts)
    made_of = [
        {"event_id": each.new.event_id, "number": each.number}
        for each in news
        if each.new.event_id is not None
    ]
    await tx.many(Q.put_memory_event, made_of)


async def _index(tx: Tx, memories: Sequence[_Told], counts: WordCounts) -> None:
    terms, rows = [], []
    for each in memories:
        summary, body = words(each.whole.summary), words(each.whole.body())
        terms.append({"number": each.number, "terms": _terms({*summary, *body}, each.agent, each.whole)})
        rows.append(
            {
                "number": each.number,
                "agent": each.agent,
                "session": each.session,
                "at": each.at,
                "outcome": outcome_of(each.whole),
                "summary": spaced(summary),
                "body": spaced(body),
                "summary_count": len(summary),
                "body_count": len(body),
            }
        )
        counts.add(summary, body)
    await tx.many(Q.index_memory, terms)
    await tx.many(Q.put_memory_words, rows)


def _terms(stems: Iterable[str], agent: str, experience: Experience) -> str:
    terms = {*map(term, stems), *filter_terms(agent, experience.event_type, experience.tags)}
    return " ".join(sorted(terms))

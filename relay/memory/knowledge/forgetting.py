"""Knowledge of what was forgotten: told to nobody any more.

Invariants:
- where a memory is forgotten (`memory.forgotten`), the entries of its events, or one entry alone
  (`knowledge.forgotten`), have an audience that nobody is in, no word, no file and no count, so no statement of any
  question finds them; their rows and events stay;
- it is taken in like all else that knowledge is made of, in the order of the log, so a rebuild gives the same rows;
- what such an entry had ended holds again, as if the entry had never been said: unless another ends it too, or the
  entry was superseded itself, and so both are by what did that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from relay.log import events
from relay.log.encoding import dumps, loads
from relay.log.events import Event
from relay.memory.knowledge import contradictions
from relay.memory.knowledge.contradictions import COMPARED, Said
from relay.memory.knowledge.entry import CLOSING, POSITIONS, Relation, entry_id
from relay.memory.knowledge.recording import model_key
from relay.memory.knowledge.visibility import EVERYBODY, NOBODY, Q
from relay.store.ports import Row, Tx

#: Later statements that may end what holds again, and the oldest with a word among which they are looked for.
MOST_LATER, MOST_WALKED = 50, 2000
FORGOTTEN, ENTRY_FORGOTTEN = "memory.forgotten", "knowledge.forgotten"


async def forget_entries(tx: Tx, event: Event) -> None:
    """Take in a `memory.forgotten`: its `event_ids` are the events that the memory was made of; what a model found in
    them goes with them."""
    made_of = event.outputs["memory"].get("event_ids", ())
    found = [await events.of_source(tx, model_key(event_id)) for event_id in made_of]
    for event_id in (*made_of, *(each.id for each in found if each is not None)):
        least = await _first_number(tx, event_id)
        if least is None:
            continue
        rows = await tx.all(Q.entries_of_event, least=least, most=least + POSITIONS - 1)
        told = [row for row in rows if row["audience"] != NOBODY]
        if told:
            await _forget(tx, told)


async def forget_entry(tx: Tx, event: Event) -> None:
    """Take in a `knowledge.forgotten`: of one entry alone."""
    known = await tx.one(Q.entry_numbered, id=event.outputs["entry"]["id"])
    if known is not None and known["audience"] != NOBODY:
        await _forget(tx, await tx.all(Q.entry_of_number, number=known["number"]))


async def is_forgotten(tx: Tx, id: str) -> bool:
    """Is the entry with this id one of these? (To be asked of one that its reader was told.)"""
    entry = await tx.one(Q.entry_numbered, id=id)
    return entry is not None and entry["audience"] == NOBODY


async def _first_number(tx: Tx, event_id: str) -> int | None:
    """The number that an event's first statement has; not every statement has become an entry. Of an archived event
    it is known by its first entry alone."""
    event = await events.get(tx, event_id)
    if event is not None:
        return event.pos * POSITIONS
    first = await tx.one(Q.entry_numbered, id=entry_id(event_id, 0))
    return None if first is None else int(first["number"])


async def _forget(tx: Tx, entries: Sequence[Row]) -> None:
    counts: Counter[tuple[str, int]] = Counter()
    for entry in entries:
        stems = [*entry["words"].split(), *entry["other_words"].split()]
        counts.subtract((word, entry["audience"]) for word in (*stems, "", f"@{entry['agent_id']}"))
        place = {"at": entry["valid_from"], "number": entry["number"]}
        await tx.execute(Q.drop_words, words=dumps(stems), **place)
        await tx.execute(Q.drop_files, paths=entry["files"], **place)
        await tx.execute(Q.hide_entry, number=entry["number"], audience=NOBODY)
    fewer = [{"word": word, "audience": who, "entries": n} for (word, who), n in sorted(counts.items())]
    await tx.execute(Q.put_counts, rows=dumps(fewer))
    for entry in entries:
        for ended in await tx.all(Q.closed_by_entry, number=entry["number"], id=entry["id"]):
            await _open_again(tx, ended, entry)


async def ended_by(tx: Tx, event_id: str) -> list[Row]:
    """What the statements of this event have ended, as far as everybody may read it."""
    least = await _first_number(tx, event_id)
    if least is None:
        return []
    made = await tx.all(Q.entries_of_event, least=least, most=least + POSITIONS - 1)
    ended = [
        row
        for entry in made
        for row in await tx.all(Q.closed_by_entry, number=entry["number"], id=entry["id"])
    ]
    return [row for row in ended if row["audience"] == EVERYBODY]


async def that_hold(tx: Tx, entries: Sequence[Row]) -> list[Row]:
    """Those of these entries that hold now."""
    rows = await tx.all(Q.entry_of_ids, ids=dumps([entry["id"] for entry in entries])) if entries else ()
    return [row for row in rows if row["valid_to"] is None and row["audience"] != NOBODY]


async def _open_again(tx: Tx, ended: Row, forgotten: Row) -> None:
    """Let hold what a forgotten entry had ended, or end it by what else does."""
    await tx.execute(Q.open_entry, number=ended["number"])
    if ended["audience"] == NOBODY:
        return
    others = [*await _that_name(tx, ended), *await _that_say_else(tx, ended, forgotten)]
    first = min(others, key=lambda row: row["number"], default=None)
    if first is None:
        first = await _that_came_after(tx, ended, forgotten)
    if first is None:
        return
    relation = contradictions.relation(_said(first), _said(ended))
    relation = relation if relation in CLOSING else Relation.SUPERSEDES
    if not any(row["number"] == first["number"] for row in await _that_name(tx, ended)):
        await tx.execute(
            Q.put_relation, source=first["number"], relation=str(relation), target=ended["number"]
        )
    await tx.execute(Q.close_entry, number=ended["number"], at=first["valid_from"], by=first["id"])


async def _that_name(tx: Tx, ended: Row) -> Sequence[Row]:
    """What contradicts or supersedes it by a relation that is there."""
    asked = {"audience": ended["audience"], "standing": ended["standing"]}
    return await tx.all(Q.enders_of, number=ended["number"], **asked)


async def _that_say_else(tx: Tx, ended: Row, forgotten: Row) -> list[Row]:
    """Later statements that would have ended it by their words, had it held then."""
    old = _said(ended)
    if ended["kind"] not in COMPARED or not old.chosen:
        return []
    look = {"after": forgotten["number"], "audience": ended["audience"], "standing": ended["standing"]}
    look["limit"] = MOST_LATER
    rows = list(await tx.all(Q.later_of_statement, statement=ended["statement"], **look))
    if not old.negated:
        rarest = max(old.chosen, key=lambda word: (len(word), word))
        words = {"word": rarest, "words": dumps(sorted(old.chosen)), "since": forgotten["valid_from"]}
        rows += await tx.all(Q.later_of_words, most=MOST_WALKED, **words, **look)
    return [row for row in rows if contradictions.relation(_said(row), old) in CLOSING]


async def _that_came_after(tx: Tx, ended: Row, forgotten: Row) -> Row | None:
    """What has superseded the forgotten entry, which had superseded this one."""
    entry = forgotten
    while entry["closed_by"] is not None:
        rows = await tx.all(Q.entry_of_ids, ids=dumps([entry["closed_by"]]))
        if not rows:
            return None
        by = rows[0]
        if not await tx.all(Q.superseding, source=by["number"], target=entry["number"]):
            return None
        if by["audience"] in (EVERYBODY, ended["audience"]) and by["standing"] >= ended["standing"]:
            return by
        if by["audience"] != NOBODY:
            return None
        entry = by
    return None


def _said(row: Row) -> Said:
    return contradictions.said(row["content"], tuple(loads(row["alternatives"])))

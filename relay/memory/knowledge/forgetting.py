"""Knowledge of what was forgotten: told to nobody any more.

Invariants:
- where a memory is forgotten (`memory.forgotten`), the entries of its events, or one entry alone
  (`knowledge.forgotten`), have an audience that nobody is in, no word, no file and no count, so no statement of any
  question finds them; their rows and events stay;
- it is taken in like all else that knowledge is made of, in the order of the log, so a rebuild gives the same rows;
- what such an entry had ended stays ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event
from relay.memory.knowledge.entry import POSITIONS, entry_id
from relay.memory.knowledge.recording import model_key
from relay.memory.knowledge.visibility import NOBODY, Q
from relay.store.ports import Row, Tx

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

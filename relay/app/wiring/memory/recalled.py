"""What the room's own doors (a prompt, `/recall`) find: memories, skills, and the knowledge that still holds.

Invariant: what comes of one event is found once, by the number of its memory; what is forgotten is not found, nor is
the knowledge that was made of the same event. That a file was changed is no knowledge worth telling unasked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from relay.memory import skill_index
from relay.memory.episodic import keeping, recalling
from relay.memory.episodic.recalling import Wanted
from relay.memory.found import Found, whose
from relay.memory.given import memory_of, memory_of_event
from relay.memory.knowledge import service as knowledge
from relay.memory.knowledge.entry import Kind
from relay.memory.knowledge.extractors import FILE_TOPIC
from relay.memory.knowledge.forgetting import is_forgotten
from relay.memory.prompt import Quote, with_lessons
from relay.model import Caller, references
from relay.store.ports import Tx

#: Characters of an author, and of who imported: both are told.
MOST_AUTHOR = 24


async def recalled(
    tx: Tx, caller: Caller, text: str, limit: int, *, hop_decay: bool = recalling.HOP_DECAY
) -> list[Found]:
    """What bears on the text, best first; the newest memories where it is empty. `hop_decay`: `memory.hop_decay`."""
    found = await recalling.found(tx, Wanted(text, hop_decay=hop_decay), limit)
    if text.strip():
        found += await skill_index.found(tx, caller, text, limit)
        known = {each.id for each in found}
        for each in await knowledge.found(tx, caller, text, limit):
            told = await _as_told(tx, each)
            if told is not None and told.id not in known:
                known.add(told.id)
                found.append(told)
    return await knowledge.with_ended(tx, sorted(found, key=lambda each: each.order)[:limit])


async def _as_told(tx: Tx, entry: Found) -> Found | None:
    """An entry of the knowledge, by the number of the memory that was made of the same event; None: not told."""
    if FILE_TOPIC in entry.more["topics"]:
        return None
    reason = entry.more.get("rationale")
    told = replace(entry, content=f"{entry.content}\nbecause {reason}" if reason else entry.content)
    memory = None if entry.event_id is None else await memory_of_event(tx, entry.event_id)
    if memory is None:
        return told
    if memory.forgotten:
        return None
    return replace(told, id=memory.id, number=memory.number, memory_type=keeping.KIND)


def quote_of(found: Found, weight: float = 0.0) -> Quote:
    """What was found, as it is told."""
    more = found.more
    episodic = found.memory_type == keeping.KIND
    said = with_lessons(more["summary"], more.get("lessons", ())) if "summary" in more else found.content
    skill = found.memory_type == skill_index.KIND
    return Quote(
        found.id,
        found.memory_type,
        "skill" if skill else references.named(found.number if episodic else None, found.id),
        "of this room" if skill else _author(more),
        found.at,
        said,
        found.relevance,
        found.event_id,
        more.get("outcome") or more.get("knowledge_type") or _kind(more),
        len(found.why.get("words", ())),
        weight,
        asks=found.asks,
        ended=found.ended,
        replaced_by=found.replaced_by,
    )


def _kind(more: Mapping[str, Any]) -> str | None:
    """A decision is told as one, whichever of its memory and its knowledge was found."""
    kind = more.get("event_type")
    return kind if kind == Kind.DECISION else None


def _author(more: Mapping[str, Any]) -> str:
    """Whose it is. Of what was imported, its author is what somebody else says: so it is said who."""
    author, importer = str(more.get("agent_id", "")), more.get("imported_by")
    if importer is None or importer == author:
        return whose(more, author)
    return whose(more, f"{author[:MOST_AUTHOR]}, imported by {importer[:MOST_AUTHOR]}")


async def stands(tx: Tx, quote: Quote) -> bool:
    """Is it still to be told?"""
    if quote.memory_type != keeping.KIND:
        return not await is_forgotten(tx, quote.id)
    memory = await memory_of(tx, quote.id)
    return memory is not None and not memory.forgotten

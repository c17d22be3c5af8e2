"""The room's memory for people who look at it: what bears on their words, where each comes from, what was said of it.

Invariant: reads only, and looking is no sign of life of anybody; what is forgotten, or not for the reader, is in no
answer, no count and no choice.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from relay.log import events
from relay.log.events import Event
from relay.memory import skill_index
from relay.memory.episodic import keeping, recalling
from relay.memory.episodic.feedback import feedback_on
from relay.memory.episodic.recalling import Wanted
from relay.memory.episodic.showing import was_forgotten
from relay.memory.found import Found, said_beside
from relay.memory.given import memory_of_event, message_of
from relay.memory.knowledge import service as knowledge
from relay.memory.knowledge.extractors import FILE_TOPIC
from relay.memory.ranking.counts import counts_of, words_begun
from relay.memory.ranking.words import question, words
from relay.model import Caller, references
from relay.model.references import Thing
from relay.store.ports import Store, Tx
from relay.timeline import reading

Json = dict[str, Any]
#: Memories that one look shows at most; and the newest that filters are proposed of.
MOST_SHOWN, MOST_CHOICES = 100, 1000
#: Words of a memory that are looked at for marks.
MOST_MARKED = 2000
_SPOKEN, _PIECE = re.compile(r"\w+"), re.compile(r"[^\W_]+")
#: The word that is being typed: of so many letters it is taken for the beginning of so many others.
_TYPED = re.compile(r"[^\W_]{2,64}$")
BEGUN = 8


class MemoryLook:
    """Looks into one room's memory."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def search(self, caller: Caller, wanted: Wanted, limit: int) -> Json:
        """`{memories, more, forgotten, choices: {agents, kinds, tags}}`. A memory is `Found.as_json` with `marks`
        (words of it, as they stand in it, that answer the question), `beside`, `source` and `feedback`. What is only
        `beside` a memory with such words comes behind all that have one. A last word that nobody said is taken for
        the beginning of one. `choices`: what the newest memories
        have, the most frequent first; all empty = nothing is remembered. `forgotten`: the number of a memory (`r14`)
        that is asked for and is forgotten, to people."""

        async def work(tx: Tx) -> Json:
            asked = replace(wanted, text=await _typed(tx, wanted.text))
            found = await _found(tx, caller, asked, limit)
            memories = await _shown(tx, caller, found[:limit], asked.text)
            gone = await _forgotten(tx, wanted.text) if caller.person and not found else None
            more = {"more": len(found) > limit, "forgotten": gone}
            return {"memories": memories, **more, "choices": await _choices(tx)}

        return await self._store.read(work, actor=caller)


async def source_of(tx: Tx, event_id: str | None) -> Json | None:
    """Where a memory of this event comes from: `{type, event, message, task, moment}`. `event`: its number in the
    timeline, None where that does not show it; `message`: an id; `task`: a number; `moment`: its place in the log."""
    event = None if event_id is None else await events.get(tx, event_id)
    if event is None:
        return None
    return {
        "type": event.type,
        "event": event.pos if event.type in reading.TYPES else None,
        "message": await message_of(tx, event.id),
        "task": _task(event),
        "moment": event.pos,
    }


async def _typed(tx: Tx, text: str) -> str:
    """A text that somebody types: where nobody said its last word, it goes on with the words that begin so."""
    typed = _TYPED.search(text)
    stems = words(typed[0]) if typed else []
    if len(stems) != 1 or references.read(text) or (await counts_of(tx, keeping.KIND, stems)).get(stems[0]):
        return text
    begun = await words_begun(tx, keeping.KIND, stems[0], BEGUN)
    return " ".join([text, *begun])


async def _found(tx: Tx, caller: Caller, wanted: Wanted, limit: int) -> list[Found]:
    """Experiences, skills and knowledge together, best first, and one more than the limit where there are more; or
    the one that a text like `r14` names. Filters are about experiences alone."""
    reference = references.read(wanted.text)
    if reference is not None and reference[0] is Thing.MEMORY:
        return await knowledge.with_ended(tx, await recalling.of_number(tx, reference[1]))
    if not wanted.text.strip():
        return await knowledge.with_ended(tx, await recalling.found(tx, wanted, limit + 1))
    # Twice as many, so that what was only said next to a hit pushes none with a word of its own behind the limit.
    found = await recalling.found(tx, wanted, min(2 * limit, MOST_SHOWN) + 1)
    if wanted.filters or wanted.times:
        return await knowledge.with_ended(tx, found)
    found += await skill_index.found(tx, caller, wanted.text, limit + 1)
    events_told = {memory.event_id for memory in found}
    for entry in await knowledge.found(tx, caller, wanted.text, limit + 1):
        if FILE_TOPIC in entry.more["topics"] or entry.event_id in events_told:
            continue
        memory = None if entry.event_id is None else await memory_of_event(tx, entry.event_id)
        if memory is None or not memory.forgotten:
            found.append(entry)
    return await knowledge.with_ended(
        tx, sorted(found, key=lambda memory: (said_beside(memory.why), memory.order))
    )


async def _forgotten(tx: Tx, text: str) -> str | None:
    reference = references.read(text)
    if reference is None or reference[0] is not Thing.MEMORY:
        return None
    return references.memory(reference[1]) if await was_forgotten(tx, reference[1]) else None


async def _shown(tx: Tx, caller: Caller, found: Sequence[Found], text: str) -> list[Json]:
    numbers = [memory.number for memory in found if memory.memory_type == keeping.KIND]
    feedback = await feedback_on(tx, numbers, caller.agent)
    asked = asked_for(text)
    shown = []
    for memory in found:
        episodic = memory.memory_type == keeping.KIND
        shown.append(
            {
                **memory.as_json(),
                "marks": marks(memory.content, asked),
                "beside": said_beside(memory.why),
                "source": await source_of(tx, memory.event_id),
                "feedback": feedback[memory.number] if episodic else None,
            }
        )
    return shown


@dataclass(frozen=True, slots=True)
class Asked:
    """The stems that a question looks for: `parts`, where words are parted at their humps, and `whole`."""

    parts: frozenset[str]
    whole: frozenset[str]

    def has(self, word: str) -> bool:
        """Is a word of a text one of these, or a part of one, or has it one as a part? Two that have only a part in
        common, like PostgreSQL and MySQL, are two words."""
        return any(
            stems[-1] in self.parts or not self.whole.isdisjoint(stems)
            for stems in filter(None, map(words, _PIECE.findall(word)))
        )


def asked_for(text: str) -> Asked:
    """What a text asks for, as its hits are marked."""
    parts = frozenset(question(text).words)
    pieces = map(words, _PIECE.findall(text)[:MOST_MARKED])
    return Asked(parts, frozenset(stems[-1] for stems in pieces if parts.intersection(stems)))


def marks(text: str, asked: Asked) -> list[str]:
    """The words of a text, as they stand in it, that answer a question; each once, small."""
    if not asked.parts:
        return []
    spoken = dict.fromkeys(
        word.lower() if word.islower() else word for word in _SPOKEN.findall(text)[:MOST_MARKED]
    )
    return sorted({word.lower() for word in spoken if asked.has(word)})


async def _choices(tx: Tx) -> Json:
    rows = await tx.all(keeping.Q.memory_choices, limit=MOST_CHOICES)
    tags = (tag for row in rows for tag in json.loads(row["tags"]))
    return {
        "agents": _often(row["agent_id"] for row in rows),
        "kinds": _often(row["event_type"] for row in rows),
        "tags": _often(tags),
    }


def _often(values: Iterable[str]) -> list[str]:
    """Each once, what is there most often first."""
    return [value for value, _ in sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0]))]


def _task(event: Event) -> int | None:
    """The number of the task that an event is about; None for several, or none."""
    pairs = (event.outputs or {}).get("tasks") if event.type == "task.changed" else None
    return pairs[0]["after"]["number"] if pairs and len(pairs) == 1 and pairs[0].get("after") else None

"""The knowledge of the room, as an agent or a person asks for it.

Invariant: an answer is of one moment of the database. What somebody was shown is noted as read by them, once, and
nothing else is changed by a question.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from relay.base.durations import iso, parse_iso
from relay.log.encoding import dumps, loads
from relay.memory.found import Found
from relay.memory.knowledge import queries
from relay.memory.knowledge.contradictions import COMPARED
from relay.memory.knowledge.entry import Kind, Relation, Standing, entry_id
from relay.memory.knowledge.extractors import FILE_TOPIC
from relay.memory.knowledge.queries import Hit, Look
from relay.memory.knowledge.visibility import EVERYBODY, NOBODY, Q
from relay.model import Caller, references
from relay.model.validation import malformed, text
from relay.store.ports import Row, Store, Tx

Json = dict[str, Any]
MOST_QUESTION, MOST_PATH, MOST_NAME = 16_384, 4096, 200
MOST_SHOWN, SHOWN = 500, 20
#: Statements of one message that are looked at for whether they hold.
MOST_STATEMENTS = 8


class KnowledgeGraph:
    """What the room knows."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def knowledge(
        self,
        caller: Caller,
        *,
        about: str | None = None,
        agent: str | None = None,
        kind: str | None = None,
        file: str | None = None,
        as_of: str | None = None,
        near: str | None = None,
        limit: int = SHOWN,
    ) -> Json:
        """The entries that the caller may read: about a text (best first), of an agent, of a kind, of a file,
        near an entry, as of a time (ISO 8601); else the newest first -> `{success, entries, relations, more}`. Raises
        Refusal."""
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_SHOWN:
            raise malformed("limit", f"`limit` is {str(limit)[:40]}.", f"Give 1 to {MOST_SHOWN}.")
        question = None if about is None else _nfc(text(about, "about", MOST_QUESTION))
        path = None if file is None else text(file, "file", MOST_PATH).strip().removeprefix("./")
        look = Look(
            caller.agent,
            None if agent is None else _nfc(text(agent, "agent", MOST_NAME)).removeprefix("@"),
            None if kind is None else _kind(kind),
            None if as_of is None else _moment(as_of),
        )

        async def work(tx: Tx) -> tuple[Json, list[str]]:
            named = await queries.with_agent_named(tx, look)
            hits = await _find(tx, named, question, path, near, limit + 1)
            shown = hits[:limit]
            answer = await _answer(tx, named, shown)
            others = [hit.row["id"] for hit in shown if hit.row["agent_id"] != caller.agent]
            unread = await tx.all(Q.unread, me=caller.agent, ids=dumps(others)) if others else []
            return answer | {"more": len(hits) > limit}, [row["id"] for row in unread]

        answer, unread = await self._store.read(work, actor=caller)
        if unread:
            await self._store.write(lambda tx: _note_read(tx, caller, unread), actor=caller)
        return {"success": True, **answer}


async def found(tx: Tx, caller: Caller, question: str, limit: int) -> list[Found]:
    """The knowledge that bears on a question and still holds, best first: for `recall` and for prompts."""
    look = Look(caller.agent)
    hits = [hit for hit in await queries.search(tx, look, question) if hit.row["valid_to"] is None][:limit]
    shown = (await _answer(tx, look, hits))["entries"]
    return [
        Found(
            "knowledge",
            hit.row["id"],
            hit.relevance or 0.0,
            hit.row["content"],
            hit.row["valid_from"],
            hit.row["number"],
            {"words": list(hit.words)},
            hit.row["event_id"],
            more={**entry, "agent_id": hit.row["agent_id"], "created_at": entry["created_at"]},
        )
        for hit, entry in zip(hits, shown, strict=True)
    ]


async def _find(
    tx: Tx, look: Look, question: str | None, path: str | None, near: str | None, limit: int
) -> list[Hit]:
    if near is not None:
        return await queries.near(tx, look, near, limit, path=path, text=question)
    if path is not None:
        return await queries.history(tx, look, path, question, limit)
    if question is not None:
        return await queries.search(tx, look, question)
    return await queries.newest(tx, look, limit)


async def with_ended(tx: Tx, memories: Sequence[Found]) -> list[Found]:
    """The same memories; one of which all that was decided or stated has ended since, has `is_valid` false, and what
    ended it as `replaced_by`."""
    ended = await ended_events(tx, [memory.event_id for memory in memories if memory.event_id is not None])
    return [
        replace(memory, more={**memory.more, "is_valid": False, "replaced_by": ended[memory.event_id]})
        if memory.event_id in ended
        else memory
        for memory in memories
    ]


async def ended_events(tx: Tx, events: Sequence[str]) -> dict[str | None, str | None]:
    """Those of these events of which all that was decided or stated has ended since, each with what ended the last of
    it, as `ended_by` names that."""
    ids = [
        entry_id(event, position) for event in dict.fromkeys(events) for position in range(MOST_STATEMENTS)
    ]
    stated: dict[str, list[Row]] = {}
    for row in await tx.all(Q.entry_of_ids, ids=dumps(ids)) if ids else ():
        if row["kind"] in COMPARED and row["audience"] != NOBODY and FILE_TOPIC not in loads(row["topics"]):
            stated.setdefault(row["event_id"], []).append(row)
    over = {
        event: max(rows, key=lambda row: (row["valid_to"], row["number"]))["id"]
        for event, rows in stated.items()
        if all(row["valid_to"] is not None for row in rows)
    }
    by = await ended_by(tx, list(over.values()))
    return {event: by.get(last) for event, last in over.items()}


async def ended_by(tx: Tx, ids: Sequence[str]) -> dict[str, str]:
    """What ended these entries, by their ids: the number of the memory of its event (`r14`), else the beginning of
    its id. What is forgotten is not named."""
    rows = await tx.all(Q.entry_of_end, ids=dumps(list(ids))) if ids else ()
    return {row["id"]: references.named(row["number"], row["ended_by"]) for row in rows}


async def _answer(tx: Tx, look: Look, hits: Sequence[Hit]) -> Json:
    numbers = [hit.row["number"] for hit in hits]
    memories = await _numbers(tx, [hit.row["event_id"] for hit in hits])
    by = await ended_by(tx, [hit.row["id"] for hit in hits if hit.row["valid_to"] is not None])
    related = await queries.relations(tx, look, numbers) if numbers else []
    ids = dumps([hit.row["id"] for hit in hits])
    uses = await tx.all(Q.uses_of, me=look.me, ids=ids) if numbers else []
    audiences = {
        row["audience"]: row for row in await tx.all(Q.audiences_of, me=look.me, numbers=dumps(numbers))
    }
    return {
        "entries": [
            _shown(hit, related, uses, audiences.get(hit.row["audience"]))
            | {"number": memories.get(hit.row["event_id"]), "replaced_by": by.get(hit.row["id"])}
            for hit in hits
        ],
        "relations": [
            {"source": row["source"], "relation": row["relation"], "target": row["target"]} for row in related
        ],
    }


async def _numbers(tx: Tx, events: Sequence[str]) -> dict[str, int]:
    """The numbers of the memories that were made of these events."""
    rows = await tx.all(Q.memories_of_events, events=dumps(list(dict.fromkeys(events)))) if events else ()
    return {row["event_id"]: row["number"] for row in rows}


def _shown(hit: Hit, related: Sequence[Row], uses: Sequence[Row], audience: Row | None) -> Json:
    """An entry as every interface shows it (003, `KnowledgeEntry` and `KnowledgeAccess`)."""
    row = hit.row
    references = [each for each in related if each["source"] == row["id"]]
    solved = [each["target"] for each in references if each["relation"] == Relation.SOLVES]
    referenced = {(each["agent"], each["event"]): None for each in related if each["target"] == row["id"]}
    own = [use for use in uses if use["id"] == row["id"]]
    referenced |= {(use["agent_id"], use["event_id"]): None for use in own if use["event_id"]}
    names = loads(audience["names"]) if audience is not None else []
    value = {
        "id": row["id"],
        "knowledge_type": row["kind"],
        "content": row["content"],
        "source_agent": row["agent_id"],
        "unverified": row["standing"] == Standing.UNVERIFIED,
        "source_event": row["event_id"],
        "topics": loads(row["topics"]),
        "related_files": loads(row["files"]),
        "confidence": row["confidence"],
        "rationale": row["rationale"],
        "alternatives": loads(row["alternatives"]),
        "severity": row["severity"],
        "for_problem": solved[0] if solved else None,
        "references": [{"target": each["target"], "relation": each["relation"]} for each in references],
        "created_at": iso(row["created_at"]),
        "validated_at": iso(row["validated_at"]),
        "valid_from": iso(row["valid_from"]),
        "valid_to": iso(row["valid_to"]),
        "is_valid": row["valid_to"] is None,
        "extracted_by": row["extracted_by"],
        "visibility": "public"
        if row["audience"] == EVERYBODY or audience is None
        else audience["visibility"],
        "visible_to": names,
        "read_by": [{"agent": use["agent_id"], "at": iso(use["at"])} for use in own if not use["event_id"]],
        "referenced_by": [{"agent": agent, "event_id": event} for agent, event in referenced],
    }
    if hit.relevance is not None:
        value["relevance"] = hit.relevance
    if hit.distance is not None:
        value["distance"] = hit.distance
    return value


async def _note_read(tx: Tx, caller: Caller, ids: Sequence[str]) -> None:
    await tx.execute(Q.put_reads, me=caller.agent, ids=dumps(list(ids)), now=await tx.now())


def _kind(value: str) -> Kind:
    try:
        return Kind(value)
    except ValueError:
        raise malformed("kind", f"`kind` is {value[:40]!r}.", f"Give one of {', '.join(Kind)}.") from None


def _moment(value: str) -> float:
    try:
        return parse_iso(value.strip())
    except (ValueError, OverflowError):
        fix = "Give an ISO 8601 time, like 2026-11-23T14:00:00Z."
        raise malformed("as_of", f"`as_of` is {value[:60]!r}, which is no time.", fix) from None


def _nfc(value: str) -> str:
    return unicodedata.normalize("NFC", value.strip())

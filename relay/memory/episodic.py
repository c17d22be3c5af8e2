"""Episodic memory: remember what happened, recall what is relevant.

Invariants:
- a memory, its words in the full-text index and its event commit together;
- the same agent, event type and summary (NFC, exactly) within `MERGE_S` of the last is one memory, however many write
  at once: the look and the write are one transaction;
- what is recalled comes in order of relevance, the newest first among equals, and none is below the least.

(004, "Episodic Memory".)
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import uuid_utils

from relay.base.durations import iso
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.memory.experience import Experience, as_details, distinct
from relay.memory.relevance import HALF_LIFE_S, LEAST, decay, indexed, outcome_factor, question, text_score
from relay.model import Caller, Refusal
from relay.model.validation import json_value, malformed, text, texts
from relay.store.ports import Queries, Row, Store, Tx

FOLDER = Path(__file__).parent
Q = Queries(FOLDER)
REMEMBERED = "memory.remembered"
#: Seconds in which the same is one memory (004: "within 1 hour").
MERGE_S = 3600.0
MOST_SUMMARY = 4096
MOST_LESSON = 4096
MOST_LESSONS = 100
MOST_TAG = 100
MOST_TAGS = 50
MOST_OUTCOME = 200
MOST_QUESTION = 16_384
#: Bytes of `details`, as JSON; and of everything in one memory: what would grow beyond is a new one.
MOST_DETAILS = 262_144
MOST_JOINED = 1_048_576
MOST_RECALLED = 100
#: Candidates that the full-text rank and the age give to be weighed by outcome too.
CANDIDATES = 200

Json = dict[str, Any]


class Heartbeat(Protocol):
    """The heartbeat of a call, in its transaction (`relay.coordination.sessions`)."""

    async def touch(self, tx: Tx, caller: Caller) -> Any: ...

    async def fresh(self, tx: Tx, caller: Caller) -> Any: ...


class Once(Protocol):
    """Does a request with a key once (`relay.coordination.idempotency.once`)."""

    async def __call__(
        self,
        tx: Tx,
        caller: Caller,
        operation: str,
        key: str | None,
        request: Mapping[str, Any],
        work: Callable[[], Awaitable[Json]],
    ) -> Json: ...


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that was found, and how relevant it is."""

    row: Row
    experience: Experience
    relevance: float

    def as_json(self) -> Json:
        return {
            "memory_type": "episodic",
            "content": self.experience.content(),
            "relevance": round(self.relevance, 6),
            "memory_id": self.row["id"],
            "event_type": self.experience.event_type,
            "summary": self.experience.summary,
            "outcome": self.experience.outcome,
            "lessons": list(self.experience.lessons),
            "tags": list(self.experience.tags),
            "agent_id": self.row["agent_id"],
            "created_at": iso(self.row["created_at"]),
        }


class EpisodicMemory:
    """What the agents of the room went through."""

    def __init__(self, store: Store, *, sessions: Heartbeat, once: Once) -> None:
        self._store, self._sessions, self._once = store, sessions, once

    async def remember(
        self,
        caller: Caller,
        event_type: str,
        summary: str,
        *,
        details: Any = None,
        outcome: str | None = None,
        lessons: Sequence[str] = (),
        tags: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Json:
        """Keep an experience, or join it with the same one of the last hour. Raises Refusal."""
        experience = Experience(
            _nfc(text(event_type, "event_type", 64)),
            _nfc(text(summary, "summary", MOST_SUMMARY)),
            distinct(as_details(json_value(details, "details", MOST_DETAILS))),
            None if outcome is None else _nfc(text(outcome, "outcome", MOST_OUTCOME)),
            tuple(_nfc(lesson) for lesson in texts(lessons, "lessons", MOST_LESSONS, MOST_LESSON)),
            tuple(_nfc(tag) for tag in texts(tags, "tags", MOST_TAGS, MOST_TAG)),
        )

        async def work(tx: Tx) -> Json | Refusal:
            await self._sessions.touch(tx, caller)
            try:
                return await self._once(
                    tx,
                    caller,
                    "remember",
                    idempotency_key,
                    experience.columns(),
                    lambda: _keep(tx, caller, experience),
                )
            except Refusal as refusal:
                return refusal  # not raised: what the heartbeat wrote stays

        answer = await self._store.write(work, actor=caller)
        if isinstance(answer, Refusal):
            raise answer
        return answer

    async def recall(
        self, caller: Caller, task_description: str, *, tags: Sequence[str] = (), limit: int = 10
    ) -> list[Json]:
        """What is relevant to a task, most relevant first. `tags`: only what has one of them. An empty description
        asks for the newest. Raises Refusal."""
        query = _nfc(text(task_description, "task_description", MOST_QUESTION, least=0))
        wanted_tags = [_nfc(tag) for tag in texts(tags, "tags", MOST_TAGS, MOST_TAG)]
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_RECALLED:
            raise malformed("limit", f"`limit` is {str(limit)[:40]}.", f"Give 1 to {MOST_RECALLED}.")
        if await self._store.read(lambda tx: self._sessions.fresh(tx, caller)) is None:
            await self._store.write(lambda tx: self._sessions.touch(tx, caller), actor=caller)
        find = _matching if query.strip() else _newest
        candidates = await self._store.read(lambda tx: find(tx, query, wanted_tags), actor=caller)
        relevant = [memory for memory in candidates if memory.relevance >= LEAST]
        relevant.sort(
            key=lambda memory: (-round(memory.relevance, 6), -memory.row["updated_at"], -memory.row["number"])
        )
        return [memory.as_json() for memory in relevant[:limit]]


async def _keep(tx: Tx, caller: Caller, experience: Experience) -> Json:
    now = await tx.now()
    row = await tx.one(
        Q.alike,
        agent=caller.agent,
        event_type=experience.event_type,
        summary=experience.summary,
        since=now - MERGE_S,
    )
    whole = experience if row is None else Experience.of_row(row).joined(experience)
    if row is not None and _bytes(whole) > MOST_JOINED:
        row, whole = None, experience
    columns = whole.columns()
    if row is None:
        id_, number = str(uuid_utils.uuid7()), await events.next_number(tx, "memory")
        who = {"agent": caller.agent, "session": caller.session}
        await tx.execute(Q.put_memory, number=number, id=id_, now=now, **who, **columns)
        await tx.execute(Q.index_memory, number=number, text=indexed(whole.words()))
    else:
        id_, number = row["id"], row["number"]
        joined = {name: columns[name] for name in ("details", "outcome", "lessons", "tags")}
        await tx.execute(Q.join_memory, number=number, now=now, **joined)
        await tx.execute(Q.index_memory_anew, number=number, text=indexed(whole.words()))
    memory = {"id": id_, "number": number, "merged": row is not None, "agent_id": caller.agent}
    memory |= {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(experience).items()
    }
    lane = Lane(caller.session, caller.agent)
    await events.append(tx, NewEvent(type=REMEMBERED, lane=lane, outputs={"memory": memory}))
    return {"success": True, "memory_id": id_, "merged": row is not None}


async def _matching(tx: Tx, query: str, tags: Sequence[str]) -> list[Recalled]:
    asked = question(query)
    if not asked.words:
        return []
    now = await tx.now()
    look = {
        "looked": json.dumps([indexed(term) for term in (*asked.words, *asked.phrases)]),
        "now": now,
        "half_life": HALF_LIFE_S,
        "limit": CANDIDATES,
    }
    if tags:
        rows = await tx.all(Q.found_memories_tagged, tags=json.dumps(tags), **look)
    else:
        rows = await tx.all(Q.found_memories, **look)
    numbers = json.dumps([row["number"] for row in rows])
    words = json.dumps([indexed(word) for word in asked.words])
    covered = {
        row["number"]: row["covered"] for row in await tx.all(Q.covered_words, words=words, numbers=numbers)
    }
    best = max((row["score"] for row in rows), default=0.0)
    return [
        _weighed(row, text_score(covered.get(row["number"], 0), len(asked.words), row["score"], best), now)
        for row in rows
    ]


async def _newest(tx: Tx, query: str, tags: Sequence[str]) -> list[Recalled]:
    now = await tx.now()
    # Older than this, nothing reaches the least relevance, however well it came out.
    oldest = now
    while decay(now - oldest) >= LEAST:
        oldest -= HALF_LIFE_S
    look = {"since": oldest, "limit": CANDIDATES}
    if tags:
        rows = await tx.all(Q.newest_memories_tagged, tags=json.dumps(tags), **look)
    else:
        rows = await tx.all(Q.newest_memories, **look)
    return [_weighed(row, 1.0, now) for row in rows]


def _weighed(row: Row, score: float, now: float) -> Recalled:
    """A memory whose text matches with `score`."""
    experience = Experience.of_row(row)
    return Recalled(row, experience, score * outcome_factor(experience) * decay(now - row["updated_at"]))


def _bytes(experience: Experience) -> int:
    return sum(len(str(value).encode()) for value in experience.columns().values())


def _nfc(value: str) -> str:
    return unicodedata.normalize("NFC", value.strip())

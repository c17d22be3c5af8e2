"""Episodic memory: remember what happened, recall what is relevant.

Invariant: every method checks what it is given before it does anything, and does it in one transaction; how a memory
is kept and found is `keeping`'s and `recalling`'s.

(004, "Episodic Memory".)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from relay.memory import skill_index
from relay.memory.episodic import nearby
from relay.memory.episodic.feedback import give_feedback
from relay.memory.episodic.forgetting import forget
from relay.memory.episodic.importing import import_lines
from relay.memory.episodic.indexing import index_the_rest
from relay.memory.episodic.keeping import NewMemory, keep
from relay.memory.episodic.recalling import HOP_DECAY, Wanted
from relay.memory.episodic.showing import shown
from relay.memory.episodic.vectors import Vectors
from relay.memory.experience import MOST_EVENT_TYPE, MOST_TAG, MOST_TAGS, Experience, experience, nfc
from relay.memory.found import MOST_RECALLED, Found
from relay.memory.given import memory_of_event
from relay.memory.knowledge import ingest
from relay.memory.knowledge import service as knowledge
from relay.memory.knowledge.extractors import FILE_TOPIC
from relay.memory.ranking.nearest import Near
from relay.model import Caller, Refusal
from relay.model.validation import malformed, text, texts
from relay.store.ports import Store, Tx

MOST_QUESTION = 16_384
#: Characters of an id, and of what is said with feedback.
MOST_NAME, MOST_NOTE = 64, 1000

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


class EpisodicMemory:
    """What the agents of the room went through."""

    def __init__(
        self,
        store: Store,
        *,
        sessions: Heartbeat,
        once: Once,
        hop_decay: Callable[[], bool] = lambda: HOP_DECAY,
        vectors: Vectors | None = None,
    ) -> None:
        self._store, self._sessions, self._once, self._hop_decay = store, sessions, once, hop_decay
        self._vectors, self._indexed = vectors, False

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
        told = experience(event_type, summary, details=details, outcome=outcome, lessons=lessons, tags=tags)

        async def work(tx: Tx) -> Json | Refusal:
            await self._sessions.touch(tx, caller)
            try:
                return await self._once(
                    tx,
                    caller,
                    "remember",
                    idempotency_key,
                    told.columns(),
                    lambda: _remember(tx, caller, told),
                )
            except Refusal as refusal:
                return refusal  # not raised: what the heartbeat wrote stays

        answer = await self._store.write(work, actor=caller)
        if isinstance(answer, Refusal):
            raise answer
        return answer

    async def recall(
        self,
        caller: Caller,
        task_description: str,
        *,
        tags: Sequence[str] = (),
        agents: Sequence[str] = (),
        event_types: Sequence[str] = (),
        limit: int = 10,
    ) -> list[Json]:
        """What is relevant to a task, most relevant first. `tags`, `agents`, `event_types`: only what has one of
        each. An empty description asks for the newest. Raises Refusal."""
        wanted = Wanted(
            nfc(text(task_description, "task_description", MOST_QUESTION, least=0)),
            [nfc(tag) for tag in texts(tags, "tags", MOST_TAGS, MOST_TAG)],
            [nfc(agent) for agent in texts(agents, "agents", MOST_TAGS, MOST_TAG)],
            [nfc(kind) for kind in texts(event_types, "event_types", MOST_TAGS, MOST_EVENT_TYPE)],
            hop_decay=self._hop_decay(),
        )
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_RECALLED:
            raise malformed("limit", f"`limit` is {str(limit)[:40]}.", f"Give 1 to {MOST_RECALLED}.")
        if not self._indexed:
            await index_the_rest(self._store)
            self._indexed = True
        if await self._store.read(lambda tx: self._sessions.fresh(tx, caller)) is None:
            await self._store.write(lambda tx: self._sessions.touch(tx, caller), actor=caller)
        near = await self._vectors.near(wanted.text) if self._vectors else []
        memories = await self._store.read(lambda tx: _recalled(tx, caller, wanted, near, limit), actor=caller)
        return [memory.as_json() for memory in memories]

    async def feedback(
        self, caller: Caller, memory_id: str, useful: bool, *, note: str | None = None
    ) -> Json:
        """Say whether a memory, by its id or its number, helped; the last word of each caller counts. Raises Refusal:
        unknown."""
        name = text(memory_id, "memory_id", MOST_NAME)
        said = None if note is None else text(note, "note", MOST_NOTE)
        if not isinstance(useful, bool):
            raise malformed("useful", "`useful` is not true or false.", "Give true or false.")

        async def work(tx: Tx) -> Json:
            await self._sessions.touch(tx, caller)
            counted = await give_feedback(tx, caller, name, useful, said)
            answer = {"memory_id": counted["id"], "useful": counted["useful"], "useless": counted["useless"]}
            return {"success": True, **answer}

        return await self._store.write(work, actor=caller)

    async def import_lines(self, caller: Caller, lines: Sequence[object], *, first: int = 1) -> Json:
        """Keep the memories that these lines tell, `{imported, merged, known, refused: [{line, reason, fix}]}`; see
        `relay.memory.episodic.importing`."""
        return (await import_lines(self._store, caller, lines, first=first)).as_json()

    async def show(self, caller: Caller, memory_id: str) -> Json:
        """One memory, by its id or its number. Raises Refusal (`unknown_memory`)."""
        return await self._store.read(lambda tx: shown(tx, caller, memory_id), actor=caller)

    async def forget(self, caller: Caller, memory_id: str) -> Json:
        """Let a memory, by its id or its number, or an entry of the knowledge, by its id, be told to nobody any more.
        Raises Refusal: unknown, `not_yours`."""
        # With the room's rights: a person forgets others' too. Who may is decided there.
        forgotten = await self._store.write(lambda tx: forget(tx, caller, memory_id))
        # Nobody is told it once this is answered, also where no daemon follows the log.
        await ingest.take_in(self._store, batch=ingest.BATCH)
        return {"success": True, **asdict(forgotten)}


async def _recalled(tx: Tx, caller: Caller, wanted: Wanted, near: Sequence[Near], limit: int) -> list[Found]:
    """Experiences, skills and knowledge together, best first. Filters are about experiences alone."""
    found = await nearby.found(tx, wanted, near, limit)
    if wanted.text and not wanted.filters:
        found += await skill_index.found(tx, caller, wanted.text, limit)
        events = {memory.event_id for memory in found}
        for entry in await knowledge.found(tx, caller, wanted.text, limit):
            if entry.event_id not in events and await _is_told(tx, entry):
                found.append(entry)
    return await knowledge.with_ended(tx, sorted(found, key=lambda memory: memory.order)[:limit])


async def _is_told(tx: Tx, entry: Found) -> bool:
    """Not what was made of the event of a memory that is forgotten; that a file was changed is no answer."""
    if FILE_TOPIC in entry.more["topics"]:
        return False
    memory = None if entry.event_id is None else await memory_of_event(tx, entry.event_id)
    return memory is None or not memory.forgotten


async def _remember(tx: Tx, caller: Caller, told: Experience) -> Json:
    kept = await keep(tx, NewMemory(told, caller.agent, caller.session, await tx.now()))
    return {"success": True, "memory_id": kept.id, "number": kept.number, "merged": kept.merged}

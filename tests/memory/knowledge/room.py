"""A log with knowledge in it, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.memory.knowledge.ingest import ingest
from relay.memory.knowledge.service import KnowledgeGraph
from relay.model import Caller
from relay.store.ports import Query, Store
from tests import engines

SCHEMAS = engines.wings("log", "memory", "knowledge")
FOLDER = Path(__file__).parent
#: Tables of the knowledge that a rebuild makes anew, and their order.
MADE = {
    "entries": "number",
    "relations": "source",
    "audiences": "audience",
    "readers": "reader",
    "words": "word",
    "counts": "word",
    "files": "path",
    "mentions": "id",
}


def said(agent: str, body: str, at: str = "2026-11-01T10:00:00Z", kind: str = "agent") -> NewEvent:
    message = {"speaker": agent, "kind": kind, "body": body}
    lane = Lane("s1", agent) if kind == "agent" else Lane("room", f"human:{agent}")
    return NewEvent("message.posted", lane, outputs={"message": message}, at=at)


def unproven(name: str, body: str, at: str = "2026-11-01T10:00:00Z") -> NewEvent:
    """A line of the transcript file that anybody may have written."""
    message = {"speaker": name, "kind": "human", "body": body, "meta": {"unverified": True}}
    return NewEvent("message.posted", Lane("room", f"unverified:{name}"), outputs={"message": message}, at=at)


def touch(path: str, kind: str = "write", *, origin: str | None = None, gone: bool = False) -> dict[str, Any]:
    value = {"path": path, "before": "a", "after": None if gone else "b", "kind": kind}
    return value if origin is None else {**value, "from": origin}


def renamed(old: str, new: str) -> list[dict[str, Any]]:
    """As git's difference tells it: two touches."""
    return [touch(old, "rename", gone=True), touch(new, "rename", origin=old)]


def changed(
    lane: Lane, touches: Sequence[dict[str, Any]], at: str = "2026-11-01T10:00:00Z", **more: Any
) -> NewEvent:
    outputs = {"touches": list(touches), "source": "tree", **more}
    return NewEvent("files.changed", lane, outputs=outputs, at=at)


async def recorded(store: Store, *news: NewEvent) -> list[Event]:
    """Append the events and take them in."""

    async def work(tx: Any) -> list[Event]:
        made = [await events.append(tx, new) for new in news]
        await ingest(tx, made)
        return made

    return await store.write(work)


async def ask(store: Store, who: str, /, **question: Any) -> list[dict[str, Any]]:
    answer = await KnowledgeGraph(store).knowledge(Caller(who, f"s-{who}"), **question)
    assert answer["success"] is True
    entries: list[dict[str, Any]] = answer["entries"]
    return entries


async def contents(store: Store, who: str, /, **question: Any) -> list[str]:
    return [entry["content"] for entry in await ask(store, who, **question)]


async def rows(store: Store) -> dict[str, list[str]]:
    """Every row that a rebuild makes."""

    async def work(tx: Any) -> dict[str, list[str]]:
        found = {}
        for table in MADE:
            query = Query(FOLDER, f"all_{table}")
            found[table] = sorted(json.dumps(dict(row), sort_keys=True) for row in await tx.all(query))
        return found

    return await store.read(work)

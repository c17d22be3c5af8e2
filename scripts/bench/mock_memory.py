"""The mock room's memory and knowledge (docs/http.md, docs/memory.md): what the page asks of them.

It finds by whole words and neighbours, and weighs nothing: a test says what is remembered and what is known.
"""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from scripts.bench.mock_airspace import stamp

Json = dict[str, Any]
#: What was asked, to be looked at by tests.
Asked = list[tuple[str, Json]]
KINDS = (
    *("decision", "fact", "constraint", "pattern"),
    *("problem", "solution", "contract", "configuration"),
)


class MockMemory:
    """What is remembered, known and given."""

    def __init__(self) -> None:
        self.memories: list[Json] = []
        self.entries: dict[str, Json] = {}
        self.relations: list[Json] = []
        #: By message id: the memories that its agent was given.
        self.given: dict[str, list[Json]] = {}
        self.forgotten: set[int] = set()
        self.asked: Asked = []
        #: Where what was made of an event comes from.
        self.sources: dict[str, Json] = {}
        #: Answers what forgets with this refusal.
        self.refusal: Json | None = None

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/memory", self._search)
        router.add_get("/api/memory/source/{event}", self._source)
        router.add_post("/api/memory/{memory}/forget", self._forget)
        router.add_get("/api/messages/{message}/memories", self._given)
        router.add_post("/memory/feedback", self._feedback)
        router.add_get("/knowledge", self._knowledge)

    # -- what a test makes happen

    def remember(self, agent: str, summary: str, *, days: float = 0.0, **more: Any) -> Json:
        """A memory, so many days old."""
        number = len(self.memories) + 1
        lessons, details = more.get("lessons", []), more.pop("details", "")
        content = "\n".join([summary, *(f"Lesson: {each}" for each in lessons)])
        memory = {
            "memory_type": "episodic",
            "memory_id": f"memory-{number}",
            "content": content + (f"\nDetails: {details}" if details else ""),
            "relevance": 0.5,
            "why": {"words": [], "tags": [], "neighbour": [], "author": None},
            "marks": [],
            "beside": False,
            "source": None,
            "event_id": f"e{number}",
            "feedback": {"useful": 0, "useless": 0, "mine": None},
            "number": number,
            "event_type": "note",
            "summary": summary,
            "outcome": None,
            "lessons": lessons,
            "tags": [],
            "agent_id": agent,
            "created_at": stamp(datetime.now(UTC) - timedelta(days=days)),
            "imported_by": None,
        } | more
        self.memories.append(memory)
        return memory

    def know(self, agent: str, kind: str, content: str, *, days: float = 0.0, **more: Any) -> Json:
        """An entry of the knowledge, so many days old."""
        at = stamp(datetime.now(UTC) - timedelta(days=days))
        entry = {
            "id": f"k{len(self.entries) + 1:024x}",
            "knowledge_type": kind,
            "content": content,
            "source_agent": agent,
            "source_event": f"{len(self.entries) + 1:064x}",
            "topics": [],
            "related_files": [],
            "confidence": 1.0,
            "rationale": None,
            "alternatives": [],
            "severity": None,
            "created_at": at,
            "validated_at": at,
            "valid_from": at,
            "valid_to": None,
            "is_valid": True,
            "extracted_by": "rule",
            "visibility": "public",
            "visible_to": [],
        } | more
        self.entries[entry["id"]] = entry
        return entry

    def relate(self, source: Json, relation: str, target: Json) -> None:
        """A relation; what contradicts or supersedes closes its target."""
        ends = {"source": source["id"], "relation": relation, "target": target["id"]}
        self.relations.append(ends)
        if relation in ("contradicts", "supersedes"):
            target |= {"valid_to": source["valid_from"], "is_valid": False}

    def much(self, count: int, *, seed: int = 13) -> None:
        """So many entries, the first of which relates to a hundred others."""
        chance = random.Random(seed)
        words = [
            "clock",
            "cart",
            "price",
            "index",
            "lock",
            "queue",
            "token",
            "cache",
            "retry",
            "schema",
            "branch",
            "merge",
        ]
        entries = [
            self.know(
                chance.choice(("CLAUDE", "CODEX", "ann")),
                chance.choice(KINDS),
                f"{' '.join(chance.sample(words, 4))} {n}",
                days=n / 50,
            )
            for n in range(count)
        ]
        relations = ("supports", "contradicts", "supersedes", "derived_from", "depends_on", "solves")
        for n, entry in enumerate(entries[1:], 1):
            target = entries[0] if n <= 100 else entries[chance.randrange(n)]
            self.relate(entry, relations[n % 6 if n > 100 else (0, 3, 4, 5)[n % 4]], target)

    # -- HTTP

    async def _search(self, request: web.Request) -> web.Response:
        query = request.query
        self.asked.append(("search", dict(query)))
        stands = [each for each in self.memories if each.get("number") not in self.forgotten]
        found = [each for each in reversed(stands) if _fits(each, query)]
        words = set(re.findall(r"\w+", query.get("q", "").lower()))
        if named := re.fullmatch(r"r(\d+)", query.get("q", "")):
            found = [each for each in stands if each["number"] == int(named[1])]
        elif words:
            found = [
                {**each, "marks": each["marks"] or sorted(words.intersection(_words(each)))}
                for each in found
                if words.intersection(_words(each)) or each["marks"] or each["beside"]
            ]
        limit = int(query.get("limit", 30))
        choices = {
            "agents": sorted({each["agent_id"] for each in stands if each.get("agent_id")}),
            "kinds": sorted({each["event_type"] for each in stands if each.get("event_type")}),
            "tags": sorted({tag for each in stands for tag in each.get("tags", [])}),
        }
        gone = query["q"] if named and int(named[1]) in self.forgotten else None
        more = {"more": len(found) > limit, "forgotten": gone}
        return web.json_response({"memories": found[:limit], **more, "choices": choices})

    async def _source(self, request: web.Request) -> web.Response:
        event = request.match_info["event"]
        missing = {"type": "message.posted", "event": None, "message": None, "task": None, "moment": 1}
        return web.json_response({"source": self.sources.get(event, missing)})

    async def _forget(self, request: web.Request) -> web.Response:
        body, name = await request.json(), request.match_info["memory"]
        if name in self.entries:
            self.asked.append(("forget", {"entry": name, **body}))
            del self.entries[name]
            self.relations = [each for each in self.relations if name not in (each["source"], each["target"])]
            return web.json_response({"success": True, "reason": f"`{name}` is forgotten."})
        number = int(name.lstrip("r"))
        self.asked.append(("forget", {"number": number, **body}))
        if self.refusal:
            return web.json_response(self.refusal)
        self.forgotten.add(number)
        return web.json_response({"success": True, "reason": f"`r{number}` is forgotten."})

    async def _given(self, request: web.Request) -> web.Response:
        feedback = {each["memory_id"]: each["feedback"] for each in self.memories}
        given = self.given.get(request.match_info["message"], [])
        memories = [
            {**each, "feedback": feedback.get(each["id"])}
            | ({"forgotten": True, "text": None} if each["number"] in self.forgotten else {})
            for each in given
        ]
        return web.json_response({"memories": memories})

    async def _feedback(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(("feedback", body))
        memory = next(each for each in self.memories if each["memory_id"] == body["memory_id"])
        said = memory["feedback"]
        if said["mine"] is not None:
            said["useful" if said["mine"] else "useless"] -= 1
        said["useful" if body["useful"] else "useless"] += 1
        said["mine"] = body["useful"]
        counts = {"useful": said["useful"], "useless": said["useless"]}
        return web.json_response({"success": True, "memory_id": body["memory_id"], **counts})

    async def _knowledge(self, request: web.Request) -> web.Response:
        query, limit = request.query, int(request.query.get("limit", 20))
        self.asked.append(("knowledge", dict(query)))
        if "near" in query:
            entries = self._around(query["near"], limit + 1)
        else:
            words = set(re.findall(r"\w+", query.get("about", "").lower()))
            entries = [
                each
                for each in reversed(self.entries.values())
                if query.get("kind", each["knowledge_type"]) == each["knowledge_type"]
                and (not words or words.intersection(re.findall(r"\w+", each["content"].lower())))
            ]
        shown = entries[:limit]
        ids = {each["id"] for each in shown}
        relations = [each for each in self.relations if {each["source"], each["target"]} <= ids]
        more = len(entries) > limit
        return web.json_response({"success": True, "entries": shown, "relations": relations, "more": more})

    def _around(self, centre: str, limit: int) -> list[Json]:
        beside: dict[str, list[str]] = {}
        for each in self.relations:
            beside.setdefault(each["source"], []).append(each["target"])
            beside.setdefault(each["target"], []).append(each["source"])
        distances, ring = {centre: 0}, [centre]
        for distance in (1, 2, 3):
            ring = [end for id in ring for end in dict.fromkeys(beside.get(id, ())) if end not in distances]
            distances |= dict.fromkeys(ring, distance)
        nearest = sorted(distances.items(), key=lambda pair: pair[1])[:limit]
        return [{**self.entries[id], "distance": distance} for id, distance in nearest]


def _words(memory: Json) -> set[str]:
    return set(re.findall(r"\w+", memory["content"].lower()))


def _fits(memory: Json, query: Any) -> bool:
    return (
        query.get("agent", memory.get("agent_id")) == memory.get("agent_id")
        and query.get("kind", memory.get("event_type")) == memory.get("event_type")
        and ("tag" not in query or query["tag"] in memory.get("tags", []))
        and ("since" not in query or memory["created_at"] >= query["since"])
    )

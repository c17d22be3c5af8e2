"""What vectors find beside what words find (`relay.memory.episodic.vectors`).

Invariants:
- the order is that of both by reciprocal rank, and `relevance` agrees with it: what words found has its own or more;
- outcome, feedback and age count for both; no condition is passed by, and what is forgotten is not found.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from relay.memory.episodic import recalling
from relay.memory.episodic.recalling import Wanted
from relay.memory.found import Found
from relay.memory.ranking.nearest import Near, joined
from relay.memory.ranking.weights import factors
from relay.store.ports import Queries, Row, Tx

Q = Queries(Path(__file__).parents[1])
#: What likeness alone is worth: so near a text has half of what one has that says all of the question's words.
LIKENESS = 0.5
#: How much more relevant a memory is than the next one at least.
STEP = 1e-6


async def found(tx: Tx, wanted: Wanted, near: Sequence[Near], limit: int) -> list[Found]:
    """As `recalling.found`, with the memories that are near to the question; without any it is the same."""
    if not near:
        return await recalling.found(tx, wanted, limit)
    by_words = await recalling.found(tx, wanted, max(limit, len(near)))
    by_vectors = await _found(tx, wanted, near)
    memories = {each.number: each for each in [*by_vectors, *by_words]}
    order = joined([each.number for each in by_words], [each.number for each in by_vectors])
    ordered: list[Found] = []
    relevance = 0.0
    for number in reversed(order):
        relevance = min(1.0, max(memories[number].relevance, relevance + STEP))
        ordered.insert(0, replace(memories[number], relevance=relevance))
    return ordered[:limit]


async def _found(tx: Tx, wanted: Wanted, near: Sequence[Near]) -> list[Found]:
    """What vectors alone find, best first."""
    likeness = {each.number: each.likeness for each in near}
    numbers = json.dumps(list(likeness))
    words = {row["number"]: row for row in await tx.all(Q.memory_words, numbers=numbers)}
    now, memories = await tx.now(), []
    for row in await tx.all(Q.memories_of_numbers, numbers=numbers):
        held = words.get(row["number"])
        if held is not None and _is_wanted(row, held, wanted):
            relevance = LIKENESS * likeness[row["number"]]
            relevance *= factors(held["outcome"], held["useful"], held["useless"], now - held["at"])
            why = {"words": [], "tags": list(wanted.tags), "neighbour": [], "author": None}
            memories.append(recalling.as_found(row, min(1.0, relevance), why))
    return sorted(memories, key=lambda memory: memory.order)


def _is_wanted(row: Row, held: Row, wanted: Wanted) -> bool:
    return (
        (not wanted.tags or not {*wanted.tags}.isdisjoint(json.loads(row["tags"])))
        and (not wanted.agents or row["agent_id"] in wanted.agents)
        and (not wanted.event_types or row["event_type"] in wanted.event_types)
        and (wanted.since is None or held["at"] >= wanted.since)
        and (wanted.until is None or held["at"] < wanted.until)
    )

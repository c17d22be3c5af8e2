"""How memories are found: candidates by their rarest words, then weighed exactly.

Invariants:
- the engine says only which memories have a word. Which of them are candidates and how they are weighed is decided
  here and in `relay.memory.ranking`, so that the order is the same on every engine;
- no question reads more than about `MOST_HITS` hits, however many memories there are: its rarest words are looked up,
  and what is common counts where it is weighed;
- what is forgotten is in no index, and in no answer.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from relay.base.durations import iso
from relay.memory.episodic.keeping import KIND
from relay.memory.experience import Experience
from relay.memory.found import Found
from relay.memory.ranking.counts import TEXTS, counts_of
from relay.memory.ranking.weights import OUTCOMES, Match, Weighing, age_factor, factors
from relay.memory.ranking.words import Question, filters, names, question, term
from relay.store.ports import Queries, Row, Tx

Q = Queries(Path(__file__).parents[1])
#: Hits that are read for a question, about: its rarest words first, and of each the newest at most.
MOST_HITS = 8_000
#: Of these the best by how rare the words are that they have; they are weighed by what they say themselves.
CANDIDATES = 300
#: Of these the best are weighed with what stood beside them, and so is that.
WITH_NEIGHBOURS = 100
#: How many memories before and behind one in its session are its neighbours.
TURNS = 2
#: What is less relevant is no answer.
LEAST = 0.001


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for. `text`: empty = the newest. The others leave out what has none of theirs."""

    text: str
    tags: Sequence[str] = ()
    agents: Sequence[str] = ()
    event_types: Sequence[str] = ()

    @property
    def filters(self) -> str:
        return filters({"tag": self.tags, "agent": self.agents, "event_type": self.event_types})


@dataclass(slots=True)
class _Weighed:
    match: Match
    row: Row
    near: list[Row] = field(default_factory=list)


async def found(tx: Tx, wanted: Wanted, limit: int) -> list[Found]:
    """The memories that answer a question, the most relevant first."""
    if not wanted.text.strip():
        return await _newest(tx, wanted, limit)
    asked = question(wanted.text)
    if not asked.words:
        return []
    counts = await counts_of(tx, KIND, [*asked.words, TEXTS, "_summary", "_body"])
    weighing = Weighing.of(asked, counts)
    candidates = await _candidates(tx, weighing, counts, wanted.filters)
    if not candidates:
        return []
    weighed = await _weighed(tx, weighing, candidates, wanted)
    now = await tx.now()
    relevance = {
        number: min(1.0, held.match.score * _factors(held.row, now)) for number, held in weighed.items()
    }
    order = sorted(
        weighed,
        key=lambda number: (-round(relevance[number], 6), -weighed[number].row["at"], -number),
    )
    best = [number for number in order[:limit] if relevance[number] >= LEAST]
    rows = {row["number"]: row for row in await _rows(tx, best)}
    told = []
    for number in best:
        if number in rows:
            why = _why(asked, weighed[number].match, rows[number], wanted)
            told.append(as_found(rows[number], relevance[number], why))
    return told


async def _candidates(tx: Tx, weighing: Weighing, counts: Mapping[str, int], conditions: str) -> list[int]:
    """The memories that have the question's rarest words, those with the most of them first."""
    scores: dict[int, int] = {}
    left = MOST_HITS
    for word in sorted((word for word in weighing.rarity if word in counts), key=lambda w: (counts[w], w)):
        if scores and counts[word] > left:
            break
        # Whole numbers, so that no engine and no order of adding makes a difference.
        rarity = round(1000 * weighing.rarity[word])
        numbers = await _with(tx, f'"{term(word)}"{conditions}', max(left, 1))
        left -= counts[word]
        for number in numbers:
            scores[number] = scores.get(number, 0) + rarity
    return sorted(scores, key=lambda number: (-scores[number], -number))[:CANDIDATES]


async def _with(tx: Tx, match: str, limit: int) -> list[int]:
    row = await tx.one(Q.memories_with, match=match, limit=limit)
    numbers: list[int] = json.loads(row["numbers"]) if row else []
    return numbers


async def _weighed(
    tx: Tx, weighing: Weighing, candidates: Sequence[int], wanted: Wanted
) -> dict[int, _Weighed]:
    authors = _Authors(weighing.question)
    weighed = {}
    for row in await tx.all(Q.memory_words, numbers=json.dumps(candidates)):
        match = weighing.match(row, named=authors.named(row["agent_id"]))
        weighed[row["number"]] = _Weighed(match, row)
    best = sorted(weighed, key=lambda number: (-weighed[number].match.score, -number))[:WITH_NEIGHBOURS]
    for row in await tx.all(Q.memory_neighbours, numbers=json.dumps(best), turns=TURNS):
        weighed[row["beside"]].near.append(row)
    for number in best:
        held = weighed[number]
        held.match = weighing.match(held.row, held.near, named=held.match.named)
    return weighed


class _Authors:
    """Which authors the question names."""

    def __init__(self, asked: Question) -> None:
        self._said, self._named = asked.said, dict[str, bool]()

    def named(self, agent: str) -> bool:
        if agent not in self._named:
            words = names(agent)
            self._named[agent] = bool(words) and words <= self._said
        return self._named[agent]


def _factors(row: Row, now: float) -> float:
    return factors(row["outcome"], row["useful"], row["useless"], now - row["at"])


def _why(asked: Question, match: Match, row: Row, wanted: Wanted) -> dict[str, object]:
    tags = json.loads(row["tags"])
    return {
        "words": [asked.spoken[word] for word in match.words],
        "tags": [tag for tag in tags if tag in wanted.tags],
        "neighbour": [asked.spoken[word] for word in match.near],
        "author": row["agent_id"] if match.named else None,
    }


def as_found(row: Row, relevance: float, why: Mapping[str, object]) -> Found:
    """A row of memory_episodic (with its `keys`) as an answer."""
    experience = Experience.of_row(row)
    return Found(
        memory_type=KIND,
        id=row["id"],
        relevance=relevance,
        content=experience.content(),
        at=row["updated_at"],
        number=row["number"],
        why=why,
        event_id=row["event_id"],
        keys=json.loads(row["keys"]),
        more={
            "number": row["number"],
            "event_type": experience.event_type,
            "summary": experience.summary,
            "outcome": experience.outcome,
            "lessons": list(experience.lessons),
            "tags": list(experience.tags),
            "agent_id": row["agent_id"],
            "session_id": row["session_id"],
            "created_at": iso(row["created_at"]),
        },
    )


async def _newest(tx: Tx, wanted: Wanted, limit: int) -> list[Found]:
    now = await tx.now()
    conditions = wanted.filters.removeprefix(" AND ")
    if conditions:
        rows = await _rows(tx, await _with(tx, conditions, MOST_HITS))
        rows = sorted(rows, key=lambda row: (-row["updated_at"], -row["number"]))[:limit]
    else:
        newest = await tx.all(Q.newest_memories, limit=limit)
        rows = await _rows(tx, [row["number"] for row in newest])
    why = {"words": [], "tags": list(wanted.tags), "neighbour": [], "author": None}
    found = [as_found(row, OUTCOMES["partly"] * age_factor(now - row["updated_at"]), why) for row in rows]
    return sorted(found, key=lambda memory: memory.order)


async def _rows(tx: Tx, numbers: Iterable[int]) -> Sequence[Row]:
    return await tx.all(Q.memories_of_numbers, numbers=json.dumps(list(numbers)))

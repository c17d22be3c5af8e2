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
from dataclasses import dataclass
from pathlib import Path

from relay.base.durations import iso
from relay.memory.episodic.keeping import KIND, OWN_KEY
from relay.memory.experience import Experience
from relay.memory.found import Found, is_unverified
from relay.memory.ranking import hops
from relay.memory.ranking.counts import counts_of
from relay.memory.ranking.weights import (
    OUTCOMES,
    UNNAMED,
    UNSAID,
    Text,
    Weighing,
    age_factor,
    best,
    factors,
    length_of,
)
from relay.memory.ranking.words import filters, names, question, term
from relay.store.ports import Queries, Row, Tx

Q = Queries(Path(__file__).parents[1])
#: Hits that are read for a question, about: its rarest words first, and of each the newest at most.
MOST_HITS = 6_000
#: Of these the best by how rare the words are that they have; they are weighed by what they say themselves.
CANDIDATES = 150
#: Bits of a memory's number beside its score.
NUMBER_BITS = 48
#: Of these the best at least, with their neighbours, are weighed together with what stood beside them.
BEST = 40
#: How many memories before and behind one in its session are its neighbours.
TURNS = 2
#: Whether what stood beside a memory says less with each hop (`memory.hop_decay`), unless it is said.
HOP_DECAY = False
#: What is less relevant is no answer.
LEAST = 0.001
#: After all times.
ALWAYS = 1e18


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for. `text`: empty = the newest. `hop_decay`: `memory.hop_decay`. The others leave out what has
    none of theirs, and what happened before `since`, or at `until` and later (Unix seconds)."""

    text: str
    tags: Sequence[str] = ()
    agents: Sequence[str] = ()
    event_types: Sequence[str] = ()
    since: float | None = None
    until: float | None = None
    hop_decay: bool = HOP_DECAY

    @property
    def filters(self) -> str:
        return filters({"tag": self.tags, "agent": self.agents, "event_type": self.event_types})

    @property
    def times(self) -> dict[str, float]:
        """The bounds of its time; none where any time is wanted."""
        if self.since is None and self.until is None:
            return {}
        since = -ALWAYS if self.since is None else self.since
        return {"since": since, "until": ALWAYS if self.until is None else self.until}


@dataclass(frozen=True, slots=True)
class _Hit:
    """A memory that was weighed, with its neighbours. `factor`: what outcome, feedback, age and author make of its
    text's share; `named`: the question names its author."""

    row: Row
    relevance: float
    factor: float
    text: Text
    near: Sequence[Text]
    named: bool

    @property
    def order(self) -> tuple[float, float, int]:
        return -round(self.relevance, 6), -self.row["at"], -self.row["number"]


async def found(tx: Tx, wanted: Wanted, limit: int) -> list[Found]:
    """The memories that answer a question, the most relevant first."""
    if not wanted.text.strip():
        return await _newest(tx, wanted, limit)
    asked = question(wanted.text)
    if not asked.words:
        return []
    counts = await counts_of(tx, KIND, asked.words)
    weighing = Weighing.of(asked, counts)
    with_word = await _looked_up(tx, weighing, counts, wanted)
    candidates = _candidates(weighing, with_word)
    if not candidates:
        return []
    hits = await _weighed(tx, weighing, with_word, candidates, limit, wanted)
    hits = [hit for hit in sorted(hits, key=lambda hit: hit.order)[:limit] if hit.relevance >= LEAST]
    rows = {row["number"]: row for row in await _rows(tx, [hit.row["number"] for hit in hits])}
    found = []
    for hit in hits:
        row = rows.get(hit.row["number"])
        if row is not None:
            beside = hit.relevance - min(hit.relevance, hit.factor * weighing.score(hit.text))
            found.append(as_found(row, hit.relevance, _why(weighing, hit, row, wanted), beside=beside))
    return found


async def _looked_up(
    tx: Tx, weighing: Weighing, counts: Mapping[str, int], wanted: Wanted
) -> dict[int, set[int]]:
    """By the place of a word in the question, which memories have it: of its rarest words. If even the rarest is
    common, of the newest that have it."""
    words, left = weighing.question.words, MOST_HITS
    with_word: dict[int, set[int]] = {}
    for at in sorted(range(len(words)), key=lambda at: (counts.get(words[at], 0), words[at])):
        count = counts.get(words[at], 0)
        if not count:
            with_word[at] = set()
        elif count <= left or not any(with_word.values()):
            with_word[at] = set(await _with(tx, f'"{term(words[at])}"{wanted.filters}', wanted, left))
            left -= count
    return with_word


def _candidates(weighing: Weighing, with_word: Mapping[int, set[int]]) -> list[int]:
    """The memories that have the rarest words, those with the most of them first."""
    scores: dict[int, int] = {}
    for at, numbers in with_word.items():
        # Whole numbers, so that no engine and no order of adding makes a difference.
        rarity = round(1000 * weighing.rarity[at])
        if not scores:
            scores = dict.fromkeys(numbers, rarity)
            continue
        for number in numbers:
            scores[number] = scores.get(number, 0) + rarity
    # As one whole number each, which are sorted several times faster than pairs; of equal ones the newest first.
    best_first = sorted([score << NUMBER_BITS | number for number, score in scores.items()], reverse=True)
    return [both & (1 << NUMBER_BITS) - 1 for both in best_first[:CANDIDATES]]


async def _with(tx: Tx, match: str, wanted: Wanted, limit: int) -> list[int]:
    asked = Q.memories_with_in_time if wanted.times else Q.memories_with
    row = await tx.one(asked, match=match, limit=limit, **wanted.times)
    numbers: list[int] = json.loads(row["numbers"]) if row else []
    return numbers


async def _weighed(
    tx: Tx,
    weighing: Weighing,
    with_word: Mapping[int, set[int]],
    candidates: Sequence[int],
    limit: int,
    wanted: Wanted,
) -> list[_Hit]:
    """The candidates and what stands beside the best of them, weighed."""
    rest = [at for at in range(len(weighing.rarity)) if at not in with_word]

    def places(number: int) -> list[int]:
        return [at for at, numbers in with_word.items() if number in numbers]

    rows = {row["number"]: row for row in await _words(tx, candidates)}
    texts = {number: weighing.text(row, [*places(number), *rest]) for number, row in rows.items()}
    ahead = best(weighing, texts, max(BEST, limit))
    # Of what stands beside them the length counts, and the text where it has a word that was looked up.
    beside = await tx.all(Q.memory_neighbours, numbers=json.dumps(ahead), turns=2 * TURNS)
    rows |= {row["number"]: row for row in beside if row["number"] not in rows}
    read = {row["number"]: row for row in await _words(tx, [n for n in rows if n not in texts and places(n)])}
    for number, row in rows.items():
        if number in read:
            texts[number] = weighing.text(read[number], places(number))
        elif number not in texts:
            texts[number] = Text(length_of(row), {}, {})
    near = _neighbours(rows, hop_decay=wanted.hop_decay)
    # With conditions only the candidates are asked for.
    alone = wanted.filters or wanted.times
    also = [] if alone else [n for number in ahead for n, _ in near[number]]
    together = {
        number: [(texts[n], says) for n, says in near[number]] for number in dict.fromkeys([*ahead, *also])
    }
    authors = {rows[number]["agent_id"] for number in together}
    named = {author for author in authors if names(author) and names(author) <= weighing.question.said}
    now, hits = await tx.now(), []
    for number, others in together.items():
        row = rows[number]
        factor = factors(row["outcome"], row["useful"], row["useless"], now - row["at"])
        by_named = row["agent_id"] in named
        factor *= UNNAMED if named and not by_named else 1.0
        factor *= 1.0 if texts[number].times else UNSAID
        relevance = min(1.0, factor * weighing.score(texts[number], others))
        hits.append(_Hit(row, relevance, factor, texts[number], [text for text, _ in others], by_named))
    return hits


def _neighbours(rows: Mapping[int, Row], *, hop_decay: bool) -> dict[int, list[tuple[int, float]]]:
    """Which of these stand directly before and behind each in its session, and how much they say."""
    sessions: dict[str, list[int]] = {}
    for number, row in rows.items():
        if row["session_id"]:
            sessions.setdefault(row["session_id"], []).append(number)
    near: dict[int, list[tuple[int, float]]] = {number: [] for number in rows}
    for numbers in sessions.values():
        numbers.sort(key=lambda number: (rows[number]["at"], number))
        for at, number in enumerate(numbers):
            for other in range(max(0, at - TURNS), min(len(numbers), at + 1 + TURNS)):
                if other != at:
                    there = rows[numbers[other]]["agent_id"]
                    says = 1.0
                    if hop_decay:
                        edges = hops.edges(rows[number]["agent_id"], there)
                        # Where the other is a hit, this one went before it, or followed it.
                        says = hops.weight(abs(other - at), before=at < other, edges=edges)
                    near[number].append((numbers[other], says))
    return near


def _why(weighing: Weighing, hit: _Hit, row: Row, wanted: Wanted) -> dict[str, object]:
    words = weighing.words(hit.text)
    near = dict.fromkeys(word for other in hit.near for word in weighing.words(other))
    return {
        "words": words,
        "tags": [tag for tag in json.loads(row["tags"]) if tag in wanted.tags],
        "neighbour": [word for word in near if word not in words],
        "author": row["agent_id"] if hit.named else None,
    }


def as_found(row: Row, relevance: float, why: Mapping[str, object], *, beside: float = 0.0) -> Found:
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
        keys=[key for key in json.loads(row["keys"]) if not key.startswith(OWN_KEY)],
        more={
            "number": row["number"],
            "event_type": experience.event_type,
            "summary": experience.summary,
            "outcome": experience.outcome,
            "lessons": list(experience.lessons),
            "tags": list(experience.tags),
            "agent_id": row["agent_id"],
            "unverified": is_unverified(experience.tags),
            "imported_by": row["imported_by"],
            "session_id": row["session_id"],
            "created_at": iso(row["created_at"]),
            "updated_at": iso(row["updated_at"]),
            "merged": row["merged"] - 1,
        },
        asks=experience.only_asks,
        beside=beside,
    )


async def of_number(tx: Tx, number: int) -> list[Found]:
    """The memory of this number; none where there is none, or it is forgotten."""
    return [as_found(row, 1.0, {}) for row in await _rows(tx, [number])]


async def _newest(tx: Tx, wanted: Wanted, limit: int) -> list[Found]:
    now = await tx.now()
    conditions = wanted.filters.removeprefix(" AND ")
    if conditions:
        rows = await _rows(tx, await _with(tx, conditions, wanted, MOST_HITS))
        rows = sorted(rows, key=lambda row: (-row["updated_at"], -row["number"]))[:limit]
    else:
        asked = Q.newest_memories_in_time if wanted.times else Q.newest_memories
        newest = await tx.all(asked, limit=limit, **wanted.times)
        rows = await _rows(tx, [row["number"] for row in newest])
    why = {"words": [], "tags": list(wanted.tags), "neighbour": [], "author": None}
    found = [as_found(row, OUTCOMES["partly"] * age_factor(now - row["updated_at"]), why) for row in rows]
    return sorted(found, key=lambda memory: memory.order)


async def _words(tx: Tx, numbers: Sequence[int]) -> Sequence[Row]:
    return await tx.all(Q.memory_words, numbers=json.dumps(numbers)) if numbers else []


async def _rows(tx: Tx, numbers: Iterable[int]) -> Sequence[Row]:
    return await tx.all(Q.memories_of_numbers, numbers=json.dumps(list(numbers)))

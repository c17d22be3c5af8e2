"""What is known: who decided what, the history of a file, what somebody knows, search, and neighbours (003, 7.4).

Invariants:
- every statement says who asks (`knowledge.sql`), so an entry that the asker may not read is in no answer, no count
  and no weight, and nobody can tell whether it is there;
- each question reads a bounded number of rows, whatever the size of the tables: the rarest words first, or the
  newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from relay.log.encoding import dumps, loads
from relay.memory.knowledge import ranking
from relay.memory.knowledge.entry import Kind
from relay.memory.knowledge.extractors import FILE_TOPIC
from relay.memory.knowledge.ranking import Term
from relay.memory.knowledge.visibility import Q
from relay.memory.ranking.words import Question, question
from relay.model import Fault, Refusal
from relay.model.references import DIGITS, LEAST_DIGITS
from relay.store.ports import Row, Tx

#: Steps from an entry to its neighbours.
MOST_HOPS = 3
#: Hits of words that are read, and the entries that are weighed: the best of these, and the newest with a common one.
MOST_HITS, CANDIDATES = 6000, 300
#: Newest entries with a common word, or of a file, among which those of an agent and a kind are looked for.
MOST_WALKED = 50_000
#: Newest facts among which those that were said are looked for.
NEWEST_FACTS = 100
#: Shorter words are not taken for the beginning of another, and so many others are.
LEAST_BEGINNING, BEGINNINGS = 3, 8
#: Entries that are looked at for neighbours.
MOST_NEAR = 2000
#: Names of a file that are followed, entries of it that are weighed, relations that are read at once.
MOST_NAMES, MOST_OF_FILE, MOST_RELATIONS = 32, 1000, 2000
#: Agents that a common word is looked for.
MOST_AGENTS = 200
#: Behind and before all times.
ALWAYS, NEVER = 1e18, -1e18


@dataclass(frozen=True, slots=True)
class Look:
    """Who asks (`me`), and which entries count: of an agent, of a kind, as of a time (Unix seconds)."""

    me: str
    agent: str | None = None
    kind: Kind | None = None
    as_of: float | None = None

    @property
    def until(self) -> float:
        return ALWAYS if self.as_of is None else self.as_of

    @property
    def open_at(self) -> float:
        """What was closed at this time or before does not count."""
        return NEVER if self.as_of is None else self.as_of

    @property
    def times(self) -> dict[str, float]:
        return {"until": self.until, "open_at": self.open_at}

    @property
    def of(self) -> dict[str, str]:
        """Agent and kind, empty for any."""
        return {"agent": self.agent or "", "kind": self.kind or ""}

    def counts(self, row: Row) -> bool:
        """Is this entry of the agent and the kind?"""
        return self.agent in (None, row["agent_id"]) and self.kind in (None, row["kind"])


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that was found. `relevance` to the question, None where there was none; `distance` in steps; `words`
    of the question, as they were said, that it has."""

    row: Row
    relevance: float | None = None
    distance: int | None = None
    words: tuple[str, ...] = ()


async def newest(tx: Tx, look: Look, limit: int) -> list[Hit]:
    """The newest entries. Where no kind is asked for, what says only that files changed comes behind all others: an
    agent at work makes so many of these that nothing else would be seen."""
    if look.kind is not None:
        return [Hit(row) for row in await _newest_of(tx, look, look.kind, limit)]
    rows: list[Row] = []
    for kind in Kind:
        most = max(limit, NEWEST_FACTS) if kind is Kind.FACT else limit
        rows += await _newest_of(tx, look, kind, most)
    rows.sort(key=lambda row: (FILE_TOPIC in loads(row["topics"]), -row["valid_from"], -row["number"]))
    return [Hit(row) for row in rows[:limit]]


async def _newest_of(tx: Tx, look: Look, kind: Kind, limit: int) -> Sequence[Row]:
    asked = {"me": look.me, "kind": kind, "limit": limit, **look.times}
    if look.agent is None:
        return await tx.all(Q.newest_of_kind, **asked)
    return await tx.all(Q.newest_of_agent_and_kind, agent=look.agent, **asked)


async def search(tx: Tx, look: Look, text: str) -> list[Hit]:
    """The entries that have words of the text, best first; at most `CANDIDATES`."""
    asked = question(text)
    terms, whole = await _terms(tx, look, asked)
    if not terms:
        return []
    terms.sort(key=lambda each: (each.entries, each.word))
    rare, hits = 0, 0
    while rare < len(terms) and hits + terms[rare].entries <= MOST_HITS:
        hits += terms[rare].entries
        rare += 1
    found: list[Row] = []
    if rare:
        weighed = dumps([{"word": each.word, "weight": each.weight} for each in terms[:rare]])
        limits = {"me": look.me, "until": look.until, "limit": CANDIDATES, **look.of}
        found += await tx.all(Q.with_words, words=weighed, **limits)
    if rare < len(terms) and len(found) < CANDIDATES:
        found += await _newest_with(tx, look, terms[rare].word, CANDIDATES - len(found))
    rows = await with_numbers(tx, look, dict.fromkeys(row["number"] for row in found))
    return _weighed(rows, asked, terms, whole)


async def history(tx: Tx, look: Look, path: str, text: str | None, limit: int) -> list[Hit]:
    """What is known of a file, under the names that it had before and has now, the newest first; with a text: what
    has words of it, best first."""
    # As of a time some of the newest may hold no longer, or not yet.
    most = limit if text is None and look.as_of is None else MOST_OF_FILE
    known: dict[int, float] = {}
    for name, since, until in await _names(tx, look, path):
        asked = {"me": look.me, "path": name, "since": since, "most": MOST_WALKED, "limit": most, **look.of}
        found = await tx.all(Q.newest_of_file, until=min(until, look.until), **asked)
        known |= {row["number"]: row["valid_from"] for row in found}
    newest_first = sorted(known, key=lambda number: (-known[number], -number))
    rows = await with_numbers(tx, look, newest_first[:most])
    if text is not None:
        asked_for = question(text)
        return _weighed(rows, asked_for, *await _terms(tx, look, asked_for))
    in_time = sorted(rows, key=lambda row: (-row["valid_from"], -row["number"]))
    return [Hit(row) for row in in_time[:limit]]


async def near(
    tx: Tx, look: Look, beginning: str, limit: int, *, path: str | None = None, text: str | None = None
) -> list[Hit]:
    """An entry and what relates to it in up to `MOST_HOPS` steps, the nearest first; no step goes through an entry
    that the asker may not read, or that does not hold as of the time. `path`, `text`: of its neighbours only those of
    the file, and with a word of the text. Raises Refusal when there is no such entry."""
    centre = await with_id(tx, look.me, beginning)
    if centre is None:
        raise _unknown(beginning)
    stems = None if text is None else {*question(text).words}
    hits = {centre["number"]: Hit(centre, distance=0)}
    kept, ring = [hits[centre["number"]]], [centre["number"]]
    for distance in range(1, MOST_HOPS + 1):
        found = await relations(tx, look, ring)
        ends = {row[end] for row in found for end in ("source_number", "target_number")} - {*hits}
        ring = sorted(ends, reverse=True)[: max(0, MOST_NEAR - len(hits))]
        if not ring:
            break
        for row in await with_numbers(tx, look, ring):
            hits[row["number"]] = hit = Hit(row, distance=distance)
            if _meant(row, look, path, stems):
                kept.append(hit)
        if len(kept) >= limit:
            break  # what is farther comes behind these
    kept.sort(key=lambda hit: (hit.distance, -hit.row["valid_from"], -hit.row["number"]))
    return kept[:limit]


def _meant(row: Row, look: Look, path: str | None, stems: set[str] | None) -> bool:
    """Is an entry of the agent, the kind and the file, and has it one of the words?"""
    words = {*row["words"].split(), *row["other_words"].split()}
    return (
        look.counts(row)
        and (path is None or path in loads(row["files"]))
        and (stems is None or not stems.isdisjoint(words))
    )


async def relations(tx: Tx, look: Look, numbers: Iterable[int]) -> Sequence[Row]:
    """The relations of these entries, to them and from them."""
    asked = {"me": look.me, "limit": MOST_RELATIONS, **look.times}
    return await tx.all(Q.relations_of, numbers=dumps(list(numbers)), **asked)


async def with_numbers(tx: Tx, look: Look, numbers: Iterable[int]) -> Sequence[Row]:
    return await tx.all(Q.with_numbers, me=look.me, numbers=dumps(list(numbers)), **look.times)


async def with_id(tx: Tx, me: str, beginning: str) -> Row | None:
    """The entry whose id begins so; None: none does, or several do."""
    least = beginning.strip().lower()
    if not LEAST_DIGITS < len(least) <= DIGITS + 1:
        return None
    rows = await tx.all(Q.entry_with_id, me=me, least=least, most=least + "g")
    return rows[0] if len(rows) == 1 else None


async def with_agent_named(tx: Tx, look: Look) -> Look:
    """The look with the agent's name as it is written, when it was not given so."""
    if look.agent is None or await tx.all(Q.counted, me=look.me, words=dumps([f"@{look.agent}"])):
        return look
    names = [name for name in await _agents(tx, look.me) if name.casefold() == look.agent.casefold()]
    return replace(look, agent=names[0]) if names else look


async def _agents(tx: Tx, me: str) -> list[str]:
    """Those who have entries, the most first."""
    rows = await tx.all(Q.words_beginning, me=me, least="@", most="A", limit=MOST_AGENTS)
    return [row["word"][1:] for row in rows]


def _weighed(rows: Sequence[Row], asked: Question, terms: Sequence[Term], whole: int) -> list[Hit]:
    return [
        Hit(each.row, each.relevance, words=tuple(asked.spoken[stem] for stem in each.stems))
        for each in ranking.in_order(rows, terms, whole)
    ]


async def _terms(tx: Tx, look: Look, wanted: Question) -> tuple[list[Term], int]:
    """The words of the index that are asked for, and what all words of the question weigh."""
    asked = wanted.words
    rows = await tx.all(Q.counted, me=look.me, words=dumps(["", *asked]))
    counts = {row["word"]: row["entries"] for row in rows}
    every = counts.get("", 0)
    terms = [ranking.term(word, word, counts[word], every) for word in asked if counts.get(word)]
    for word in asked:
        if counts.get(word) or len(word) < LEAST_BEGINNING:
            continue
        limits = {"least": word, "most": word + "\U0010ffff", "limit": BEGINNINGS}
        longer = await tx.all(Q.words_beginning, me=look.me, **limits)
        terms += [ranking.term(row["word"], word, row["entries"], every) for row in longer]
    return terms, ranking.weight_of_question(asked, terms, every)


async def _newest_with(tx: Tx, look: Look, word: str, limit: int) -> Sequence[Row]:
    """The newest entries with a word that many have, of the agent and the kind."""
    limits = {"until": look.until, "most": MOST_WALKED, "limit": limit}
    return await tx.all(Q.newest_with_word, me=look.me, word=word, **limits, **look.of)


async def _names(tx: Tx, look: Look, path: str) -> list[tuple[str, float, float]]:
    """(path, since, until) of each name of a file: those before it back in time, those after it on."""
    spans = {path: (path, NEVER, ALWAYS)}
    back, on = [(path, ALWAYS)], [(path, NEVER)]
    while back and len(spans) < MOST_NAMES:
        name, until = back.pop()
        for row in await tx.all(Q.renamed_from, me=look.me, path=name, until=min(until, look.until)):
            if row["path"] not in spans:
                spans[row["path"]] = (row["path"], NEVER, row["valid_from"])
                back.append((row["path"], row["valid_from"]))
    while on and len(spans) < MOST_NAMES:
        name, since = on.pop()
        for row in await tx.all(Q.renamed_to, me=look.me, path=name, since=since, until=look.until):
            if row["path"] not in spans:
                spans[row["path"]] = (row["path"], row["valid_from"], ALWAYS)
                on.append((row["path"], row["valid_from"]))
    return [*spans.values()]


def _unknown(beginning: str) -> Refusal:
    return Refusal(
        f"No entry {beginning[:60]!r} is known to you.",
        f"Give the id of an entry, or {LEAST_DIGITS} or more of its first digits behind the k.",
        Fault.UNKNOWN,
    )

"""Who may read what: random questions against an oracle that looks at every entry (003, section 7.6).

`RELAY_KNOWLEDGE_QUERIES=10000` asks as many questions as issue 13 names; the suite asks a twentieth.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from relay.base.durations import iso, parse_iso
from relay.log.encoding import loads
from relay.log.events import Lane
from relay.memory.knowledge import ranking
from relay.memory.knowledge.entry import Access, Draft, Visibility, entry_id
from relay.memory.knowledge.extractors import FILE_TOPIC, extract
from relay.memory.knowledge.ingest import rebuild
from relay.memory.knowledge.service import KnowledgeGraph, found
from relay.memory.knowledge.visibility import FOLDER, put_roles
from relay.memory.ranking.words import question
from relay.model import Caller, Refusal
from relay.store.ports import Query, Store, load_queries
from tests import engines
from tests.engines import BOTH
from tests.memory.knowledge.room import FOLDER as TABLES
from tests.memory.knowledge.room import SCHEMAS, ask, changed, contents, recorded, renamed, said, touch

QUERIES = int(os.environ.get("RELAY_KNOWLEDGE_QUERIES", "500"))
AGENTS = ("ALPHA", "BETA", "GAMMA", "DELTA", "EPSILON", "STRANGER")
ROLES = {"ALPHA": "developer", "BETA": "developer", "GAMMA": "reviewer", "DELTA": "architect"}
WORDS = (
    "clock",
    "store",
    "lock",
    "page",
    "queue",
    "merge",
    "token",
    "lane",
    "turn",
    "graph",
    "index",
    "cursor",
)
FILES = ("src/a.py", "src/b.py", "src/c.py", "docs/d.md")
KINDS = ("DECISION", "CONSTRAINT", "PROBLEM", "SOLUTION", "FACT", "PATTERN")
RELATIONS = ("supersedes", "contradicts", "supports", "implements", "depends on", "derived from", "solves")
ACCESS = ("", "", " (private)", " (role developer)", " (role reviewer, architect)", " (shared with {0}, {1})")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await engines.open_store(tmp_path, SCHEMAS)
    yield store
    await store.close()


@dataclass
class Oracle:
    """Every row of the tables, and who may read each entry as its event says."""

    rows: list[Mapping[str, Any]]
    relations: list[tuple[str, str, str]]
    drafts: dict[str, Draft]
    roles: Mapping[str, str]

    def sees(self, me: str, id_: str) -> bool:
        draft = self.drafts[id_]
        access: Access = draft.access
        return (
            draft.agent == me
            or {
                Visibility.PUBLIC: True,
                Visibility.PRIVATE: False,
                Visibility.ROLE: self.roles.get(me) in access.names,
                Visibility.SHARED: me in access.names,
            }[access.visibility]
        )

    def held(self, row: Mapping[str, Any], as_of: float | None) -> bool:
        if as_of is None:
            return True
        return bool(row["valid_from"] <= as_of and (row["valid_to"] is None or row["valid_to"] > as_of))

    def entries(self, me: str, asked: dict[str, Any]) -> list[tuple[str, float | None]] | None:
        """The ids of the answer in its order, with the relevance; None: there is no such entry."""
        mine = [row for row in self.rows if self.sees(me, row["id"])]
        as_of = parse_iso(asked["as_of"]) if "as_of" in asked else None
        rows = [row for row in mine if self.held(row, as_of)]
        stems = question(asked["about"]).words if "about" in asked else None
        if "near" in asked:
            return self._near(me, asked, rows)
        rows = [row for row in rows if asked.get("agent") in (None, row["agent_id"])]
        rows = [row for row in rows if asked.get("kind") in (None, row["kind"])]
        if "file" in asked:
            spans = self._names(me, asked["file"], as_of)
            rows = [
                row
                for row in rows
                for path in loads(row["files"])
                if path in spans and spans[path][0] <= row["valid_from"] <= spans[path][1]
            ]
            rows = list({row["id"]: row for row in rows}.values())
        if stems is None:
            # Unasked, what only says that files changed comes behind all others.
            unasked = "file" not in asked and "kind" not in asked
            rows.sort(
                key=lambda row: (
                    unasked and FILE_TOPIC in loads(row["topics"]),
                    -row["valid_from"],
                    -row["number"],
                )
            )
            return [(row["id"], None) for row in rows]
        terms = self._terms(mine, stems)
        whole = ranking.weight_of_question(stems, terms, len(mine))
        return [(each.row["id"], each.relevance) for each in ranking.in_order(rows, terms, whole)]

    def _terms(self, mine: list[Mapping[str, Any]], stems: tuple[str, ...]) -> list[ranking.Term]:
        counts: dict[str, int] = {}
        for row in mine:
            for word in {*row["words"].split(), *row["other_words"].split()}:
                counts[word] = counts.get(word, 0) + 1
        terms = []
        for stem in stems:
            if counts.get(stem):
                terms.append(ranking.term(stem, stem, counts[stem], len(mine)))
                continue
            longer = sorted(
                (-counts[word], word) for word in counts if word.startswith(stem) and len(stem) > 2
            )
            terms += [ranking.term(word, stem, -count, len(mine)) for count, word in longer[:8]]
        return terms

    def _names(self, me: str, path: str, as_of: float | None) -> dict[str, tuple[float, float]]:
        renames = [
            (old, new, row["valid_from"])
            for row in self.rows
            if self.sees(me, row["id"]) and (as_of is None or row["valid_from"] <= as_of)
            for new, old in self.drafts[row["id"]].origins
        ]
        spans = {path: (-1e18, 1e18)}
        back, on = [(path, 1e18)], [(path, -1e18)]
        while back:
            name, until = back.pop()
            for old, new, at in sorted(renames, key=lambda rename: -rename[2]):
                if new == name and at <= until and old not in spans:
                    spans[old] = (-1e18, at)
                    back.append((old, at))
        while on:
            name, since = on.pop()
            for old, new, at in sorted(renames, key=lambda rename: -rename[2]):
                if old == name and at >= since and new not in spans:
                    spans[new] = (at, 1e18)
                    on.append((new, at))
        return spans

    def _near(
        self, me: str, asked: dict[str, Any], rows: list[Mapping[str, Any]]
    ) -> list[tuple[str, float | None]] | None:
        by_id = {row["id"]: row for row in self.rows}
        if asked["near"] not in by_id or not self.sees(me, asked["near"]):
            return None
        known = {row["id"] for row in rows}
        distances = {asked["near"]: 0}
        for distance in (1, 2, 3):
            ring = {id_ for id_, far in distances.items() if far == distance - 1 and id_ in known}
            for source, _, target in self.relations:
                if {source, target} <= known:
                    for one, other in ((source, target), (target, source)):
                        if one in ring and other not in distances:
                            distances[other] = distance
        order = sorted(
            distances, key=lambda id_: (distances[id_], -by_id[id_]["valid_from"], -by_id[id_]["number"])
        )
        return [
            (id_, None)
            for id_ in order
            if distances[id_] == 0
            or (
                asked.get("agent") in (None, by_id[id_]["agent_id"])
                and asked.get("kind") in (None, by_id[id_]["kind"])
            )
        ]


async def filled(store: Store, pick: random.Random, count: int) -> Oracle:
    """A room of `count` events, and its oracle."""
    await store.write(lambda tx: put_roles(tx, ROLES))
    drafts: dict[str, Draft] = {}
    for number in range(count):
        agent, at = pick.choice(AGENTS[:5]), iso(1_780_000_000 + number * 60)
        if number % 5 == 4:
            old, new = pick.sample(FILES, 2)
            touches = renamed(old, new) if pick.random() < 0.3 else [touch(old)]
            news = [changed(Lane("s1", agent), touches, at)]
        else:
            lines = [line_of(pick, drafts) for _ in range(pick.choice((1, 1, 2)))]
            news = [said(agent, "\n".join(lines), at)]
        for event in await recorded(store, *news):
            for draft in extract(event).drafts:
                drafts[entry_id(event.id, draft.position)] = draft
    return await oracle_of(store, drafts, ROLES)


def line_of(pick: random.Random, drafts: Mapping[str, Draft]) -> str:
    text = " ".join(pick.sample(WORDS, 3))
    text = (
        pick.choice(("never ", "", "")) + text + (f" in {pick.choice(FILES)}" if pick.random() < 0.3 else "")
    )
    if pick.random() < 0.2:
        text += f" instead of {pick.choice(WORDS)}"
    if drafts and pick.random() < 0.5:
        text += f" ({pick.choice(RELATIONS)} {pick.choice([*drafts])})"
    access = pick.choice(ACCESS).format(*pick.sample(AGENTS, 2))
    return f"{pick.choice(KINDS)}{access}: {text}"


async def oracle_of(store: Store, drafts: dict[str, Draft], roles: Mapping[str, str]) -> Oracle:
    rows = await store.read(lambda tx: tx.all(Query(TABLES, "all_entries")))
    ids = {row["number"]: row["id"] for row in rows}
    related = await store.read(lambda tx: tx.all(Query(TABLES, "all_relations")))
    relations = [(ids[row["source"]], row["relation"], ids[row["target"]]) for row in related]
    assert {row["id"] for row in rows} == {*drafts}
    return Oracle(list(rows), relations, drafts, roles)


def question_of(pick: random.Random, oracle: Oracle) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if pick.random() < 0.5:
        words = (*WORDS, "nothing", "clo", "tok")
        asked["about"] = " ".join(pick.sample(words, pick.choice((1, 2, 4))))
    if pick.random() < 0.3:
        asked["agent"] = pick.choice(AGENTS)
    if pick.random() < 0.3:
        asked["kind"] = pick.choice(KINDS).lower()
    if pick.random() < 0.3:
        asked["as_of"] = iso(1_780_000_000 + pick.random() * 60 * len(oracle.rows))
    if pick.random() < 0.2:
        asked["file"] = pick.choice(FILES)
    elif pick.random() < 0.25:
        asked = {name: value for name, value in asked.items() if name != "about"}
        asked["near"] = pick.choice([*oracle.drafts])
    return asked


@BOTH
async def test_visibility_no_leak(store: Store) -> None:
    """Each answer is, to the last number, what it would be if nothing else were there."""
    pick = random.Random(13)
    oracle = await filled(store, pick, 120)
    graph = KnowledgeGraph(store)
    hidden = shown = 0
    for at in range(QUERIES):
        if at == QUERIES // 2:
            # Roles change: what is asked next goes by the new ones.
            oracle.roles = {"BETA": "reviewer", "STRANGER": "developer"}
            await store.write(lambda tx: put_roles(tx, oracle.roles))
        me, asked, limit = pick.choice(AGENTS), question_of(pick, oracle), pick.randint(1, 60)
        expected = oracle.entries(me, asked)
        if expected is None:
            with pytest.raises(Refusal):
                await graph.knowledge(Caller(me, "s"), **asked, limit=limit)
            hidden += 1
            continue
        answer = await graph.knowledge(Caller(me, "s"), **asked, limit=limit)
        told = [(entry["id"], entry.get("relevance")) for entry in answer["entries"]]
        assert told == expected[:limit], (me, asked)
        assert answer["more"] is (len(expected) > limit), (me, asked)
        every = {
            *re.findall(
                r"k[0-9a-f]{24}", str({**answer, "entries": [_without_text(e) for e in answer["entries"]]})
            )
        }
        assert {id_ for id_ in every if not oracle.sees(me, id_)} == set(), (me, asked)
        _check_relations(oracle, me, asked, answer)
        shown += len(told)
        hidden += sum(not oracle.sees(me, row["id"]) for row in oracle.rows)
        if at % 10 == 0 and "about" in asked:
            hits = await store.read(lambda tx: found(tx, Caller(me, "s"), asked["about"], 20))  # noqa: B023
            whole = oracle.entries(me, {"about": asked["about"]}) or []
            open_ids = {row["id"] for row in oracle.rows if row["valid_to"] is None}
            assert [hit.id for hit in hits] == [id_ for id_, _ in whole if id_ in open_ids][:20]
    assert shown > QUERIES and hidden > QUERIES


def _without_text(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What an entry says itself may name any id; its author wrote it."""
    return {
        name: value for name, value in entry.items() if name not in ("content", "rationale", "alternatives")
    }


def _check_relations(oracle: Oracle, me: str, asked: dict[str, Any], answer: Mapping[str, Any]) -> None:
    """All of the shown entries, with ends that the asker sees as of the time; and so in the entries."""
    as_of = parse_iso(asked["as_of"]) if "as_of" in asked else None
    known = {row["id"] for row in oracle.rows if oracle.sees(me, row["id"]) and oracle.held(row, as_of)}
    shown = {entry["id"] for entry in answer["entries"]}
    expected = {
        (source, relation, target)
        for source, relation, target in oracle.relations
        if {source, target} <= known and {source, target} & shown
    }
    assert {(row["source"], row["relation"], row["target"]) for row in answer["relations"]} == expected
    for entry in answer["entries"]:
        of_entry = {(each["relation"], each["target"]) for each in entry["references"]}
        assert of_entry == {
            (relation, target) for source, relation, target in expected if source == entry["id"]
        }
        agents = {oracle.drafts[source].agent for source, _, target in expected if target == entry["id"]}
        assert {each["agent"] for each in entry["referenced_by"]} == agents


@BOTH
async def test_each_visibility(store: Store) -> None:
    await store.write(lambda tx: put_roles(tx, ROLES))
    await recorded(
        store,
        said("ALPHA", "FACT: the public word"),
        said("ALPHA", "FACT (private): the private word"),
        said("ALPHA", "FACT (role developer): the role word"),
        said("ALPHA", "FACT (shared with GAMMA): the shared word"),
    )
    kinds = ("public", "private", "role", "shared")
    for me, sees in {
        "ALPHA": kinds,
        "BETA": ("public", "role"),
        "GAMMA": ("public", "shared"),
        "STRANGER": ("public",),
    }.items():
        entries = await ask(store, me, about="word")
        assert {entry["visibility"] for entry in entries} == {*sees}
        assert {entry["content"].split()[1] for entry in entries} == {*sees}


@BOTH
async def test_nobody_closes_or_names_what_it_may_not_read(store: Store) -> None:
    await recorded(store, said("ALPHA", "DECISION (private): use tabs"))
    [entry] = await ask(store, "ALPHA")
    await recorded(
        store,
        said("BETA", f"DECISION: use spaces (supersedes {entry['id']})\nFACT: {entry['id']} is wrong"),
        said("BETA", 'DECISION: use blanks (supersedes "use tabs")'),
        said("BETA", "DECISION: never use tabs"),
        said("BETA", "DECISION: use spaces instead of tabs"),
    )
    [entry] = [each for each in await ask(store, "ALPHA") if each["id"] == entry["id"]]
    assert (entry["is_valid"], entry["referenced_by"]) == (True, [])
    # Its owner closes it; and a private word against a public one closes nothing for the others.
    await recorded(store, said("ALPHA", f"DECISION (private): use both (supersedes {entry['id']})"))
    [closed] = [each for each in await ask(store, "ALPHA") if each["id"] == entry["id"]]
    assert closed["is_valid"] is False
    [public] = [each for each in await ask(store, "BETA") if each["content"] == "use blanks"]
    await recorded(store, said("ALPHA", f"DECISION (private): not so (contradicts {public['id']})"))
    [public] = [each for each in await ask(store, "ALPHA") if each["id"] == public["id"]]
    assert public["is_valid"] is True and len(public["referenced_by"]) == 1
    [public] = [each for each in await ask(store, "BETA") if each["id"] == public["id"]]
    assert public["referenced_by"] == []


@BOTH
async def test_both_stores_give_the_same(tmp_path: Path) -> None:
    """The same log gives the same rows and the same answers on the other engine."""
    if engines.current() != "postgres":
        pytest.skip("one comparison")
    answers = []
    for engine in engines.ENGINES:
        with engines.on_engine(engine):
            store = await engines.open_store(tmp_path / engine if engine == "postgres" else tmp_path, SCHEMAS)
            oracle = await filled(store, random.Random(5), 60)
            pick = random.Random(6)
            told = []
            for _ in range(60):
                asked = {name: value for name, value in question_of(pick, oracle).items() if name != "near"}
                told.append(await contents(store, pick.choice(AGENTS), **asked))
            answers.append(told)
            assert await rebuild(store) == len(oracle.rows)
            await store.close()
    assert answers[0] == answers[1]


def test_each_statement_that_a_question_runs_says_who_asks() -> None:
    """Of every statement that reads entries, words, counts, files, relations or uses for somebody."""
    room = (
        "put_ clear_ drop_ hide_ count_logged open_closed entries_known entries_of_event entry_of_ entry_numbered "
        "named_by of_statement of_words close_ open_entry closed_by_entry enders_of superseding later_of "
        "memories_of"
    )
    for dialect in engines.ENGINES:
        for name, text in load_queries(FOLDER, dialect).items():
            if name.startswith(tuple(room.split())) or name in ("audience", "unread", "validate_entry"):
                continue
            tables = {*re.findall(r"(?:FROM|JOIN) knowledge_(\w+)", text)} - {"readers", "roles"}
            wanted = 2 if name == "relations_of" else 1
            assert tables and text.count("'@' || CAST(:me AS text)") == wanted, (dialect, name)

"""003, section 7.4, on both stores: who decided what, the history of a file, what somebody knows, ingest, rebuild."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.log import events, follow
from relay.log.events import Lane, NewEvent
from relay.log.verify import verify
from relay.memory.knowledge.ingest import KnowledgeFollower, ingest, rebuild
from relay.memory.knowledge.service import KnowledgeGraph, found
from relay.model import Caller, Fault, Refusal
from relay.store.ports import Store
from tests import engines
from tests.engines import BOTH
from tests.memory.knowledge.room import SCHEMAS, ask, changed, contents, recorded, renamed, rows, said, touch

pytestmark = BOTH
CODEX = Lane("s2", "CODEX")


def day(number: int) -> str:
    return f"2026-11-{number:02}T12:00:00Z"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await engines.open_store(tmp_path, SCHEMAS)
    yield store
    assert await verify(store) == []
    await store.close()


async def test_query_agent_decisions(store: Store) -> None:
    """What did Agent A decide about the database?"""
    await recorded(
        store,
        said("CLAUDE", "DECISION (database): use PostgreSQL with a pool because rows are locked"),
        said("CLAUDE", "DECISION: three tiers\nPROBLEM: the database is slow"),
        said("CODEX", "DECISION: the database is named relay"),
    )
    [entry] = await ask(store, "CODEX", agent="CLAUDE", kind="decision", about="the database")
    assert entry["content"] == "use PostgreSQL with a pool" and entry["rationale"] == "rows are locked"
    assert (entry["source_agent"], entry["knowledge_type"], entry["is_valid"]) == ("CLAUDE", "decision", True)
    event = await store.read(lambda tx: events.get(tx, entry["source_event"]))
    assert event is not None and "use PostgreSQL" in event.outputs["message"]["body"]
    assert len(await ask(store, "CODEX", agent="claude", kind="decision")) == 2
    # As 003's `contains`: the beginning of a word is enough.
    assert len(await ask(store, "CODEX", agent="CLAUDE", about="datab")) == 2


async def test_changes_of_files_hide_nothing_else(store: Store) -> None:
    """One file that grows makes a fact at every look; what was decided before is still among the newest."""
    await recorded(
        store,
        said("CODEX", "DECISION: use tabs\nFACT: the gate is open", day(1)),
        *(changed(CODEX, [touch("fg.log")], day(2)) for _ in range(30)),
        said("CODEX", "PROBLEM: the log grows", day(3)),
    )
    for asked in ({}, {"agent": "CODEX"}, {"as_of": day(4)}):
        told = await contents(store, "BETA", **asked, limit=5)
        # Of one message, the last line is the newest.
        assert told[:3] == ["the log grows", "the gate is open", "use tabs"], asked
        assert all("fg.log" in content for content in told[3:]), asked
    assert await contents(store, "BETA", as_of="2026-11-02T13:00:00Z", limit=2) == [
        "the gate is open",
        "use tabs",
    ]
    answer = await KnowledgeGraph(store).knowledge(Caller("BETA", "s"), limit=33)
    assert (len(answer["entries"]), answer["more"]) == (33, False)


async def test_query_file_history(store: Store) -> None:
    """What modifications were made to file X? Renames are followed, both ways."""
    await recorded(
        store,
        changed(CODEX, [touch("old.py"), touch("other.py")], day(1)),
        changed(CODEX, renamed("old.py", "mid.py"), day(2)),
        said("CLAUDE", "CONSTRAINT: keep `mid.py` small", day(3)),
        changed(Lane("s1", "CLAUDE"), [*renamed("mid.py", "new.py"), touch("x.py")], day(4)),
        changed(CODEX, [touch("new.py")], day(5)),
        changed(CODEX, [touch("old.py")], day(6)),  # another file of the first name
    )
    whole = [
        "Modified file: new.py",
        "Renamed file: mid.py to new.py",
        "keep `mid.py` small",
        "Renamed file: old.py to mid.py",
        "Modified file: old.py",
    ]
    assert await contents(store, "CODEX", file="new.py") == whole
    assert await contents(store, "CODEX", file="./old.py") == ["Modified file: old.py", *whole]
    assert await contents(store, "CODEX", file="mid.py", as_of=day(2)) == whole[3:]
    assert await contents(store, "CODEX", file="new.py", agent="CLAUDE") == [whole[1], whole[2]]
    assert await contents(store, "CODEX", file="new.py", kind="constraint") == [whole[2]]
    assert await contents(store, "CODEX", file="new.py", about="small") == [whole[2]]
    assert await contents(store, "CODEX", file="none.py") == []


async def test_query_by_topic(store: Store) -> None:
    """What does Agent B know about authentication?"""
    await recorded(
        store,
        said("CODEX", "FACT: authentication is in src/auth.py\nPATTERN: tests have names"),
        said("CLAUDE", "DECISION: authentication by tokens"),
        changed(CODEX, [touch("src/auth.py")]),
    )
    assert await contents(store, "ann", agent="CODEX", about="authentication") == [
        "authentication is in src/auth.py"
    ]
    assert len(await contents(store, "ann", about="authentication")) == 2
    assert set(await contents(store, "ann", agent="CODEX", about="auth")) == {
        "authentication is in src/auth.py",
        "Modified file: src/auth.py",
    }
    assert await contents(store, "ann", about="kubernetes") == []


async def test_ingest_event(store: Store) -> None:
    """003, `ingest_event`: a write of a file is a fact, and what a text decides a decision; once, by a follower."""
    await store.write(lambda tx: events.append(tx, changed(CODEX, [touch("a.py")])))
    await store.write(lambda tx: events.append(tx, said("ann", "DECISION: use tabs", kind="human")))
    for _ in range(2):
        await follow.step(store, KnowledgeFollower())
    [decision, fact] = await ask(store, "ann")
    assert (fact["content"], fact["topics"], fact["related_files"], fact["confidence"]) == (
        "Modified file: a.py",
        ["file_modification"],
        ["a.py"],
        1.0,
    )
    assert (decision["content"], decision["source_agent"], decision["extracted_by"]) == (
        "use tabs",
        "ann",
        "rule",
    )


async def test_a_problem_a_solution_and_what_names_them(store: Store) -> None:
    await recorded(store, said("CODEX", "PROBLEM (high): a race\nSOLUTION: a mutex"))
    assert await store.check() == []
    solution, problem = await ask(store, "ann")
    assert (problem["severity"], solution["for_problem"]) == ("high", problem["id"])
    [event] = await recorded(store, said("CLAUDE", f"As {problem['id'][:12]} shows, it is bad."))
    problem = (await ask(store, "ann", kind="problem"))[0]
    assert {"agent": "CLAUDE", "event_id": event.id} in problem["referenced_by"]
    assert {reader["agent"] for reader in problem["read_by"]} == {"ann"}
    assert (await ask(store, "CODEX", kind="problem"))[0]["read_by"] == problem[
        "read_by"
    ]  # its owner reads it


async def test_a_problem_is_named_by_its_text(store: Store) -> None:
    await recorded(store, said("CODEX", "PROBLEM: the walrus cache loses writes"))
    await recorded(
        store, said("CLAUDE", 'SOLUTION: flush at the end (solves "the walrus cache loses writes")')
    )
    solution, problem = await ask(store, "ann")
    assert (solution["knowledge_type"], solution["for_problem"]) == ("solution", problem["id"])


async def test_what_is_superseded_or_contradicted_is_closed_and_stays(store: Store) -> None:
    await recorded(
        store,
        said("CLAUDE", "DECISION: use PostgreSQL for the events", day(1)),
        said("CLAUDE", "CONSTRAINT: never mock the clock", day(1)),
        said("CLAUDE", "DECISION: deploy on Fridays", day(1)),
    )
    fridays = (await ask(store, "ann", about="fridays"))[0]["id"]
    await recorded(
        store,
        said("CODEX", "DECISION: use SQLite for the events instead of PostgreSQL", day(3)),
        said("CODEX", "CONSTRAINT: mock the clock", day(4)),
        said("CODEX", f"DECISION: deploy at any day (supersedes {fridays[:10]})", day(5)),
        said("CODEX", "DECISION: deploy at any day", day(6)),
    )
    by_text = {entry["content"]: entry for entry in await ask(store, "ann", limit=50)}
    closed = [text for text, entry in by_text.items() if not entry["is_valid"]]
    assert set(closed) == {"use PostgreSQL for the events", "never mock the clock", "deploy on Fridays"}
    assert by_text["use PostgreSQL for the events"]["valid_to"] == "2026-11-03T12:00:00.000Z"
    assert by_text["mock the clock"]["references"][0]["relation"] == "contradicts"
    first = (await ask(store, "ann", about="deploy at any day"))[-2:]
    assert {entry["validated_at"] for entry in first} >= {None}
    said_twice = [entry for entry in await ask(store, "ann", about="any day") if entry["validated_at"]]
    assert [entry["validated_at"] for entry in said_twice] == ["2026-11-06T12:00:00.000Z"]
    # The one that holds comes first; as of a time, what held then.
    assert (await contents(store, "ann", about="database for events"))[0].startswith("use SQLite")
    assert await contents(store, "ann", about="events", as_of=day(2)) == ["use PostgreSQL for the events"]
    assert await contents(store, "ann", about="events", as_of="2026-10-01T00:00:00Z") == []
    assert (await contents(store, "ann", as_of=day(4)))[0] == "mock the clock"


async def test_all_that_said_it_is_closed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it was said, and whatever else was said of it since."""
    monkeypatch.setattr("relay.memory.knowledge.ingest.MOST_COMPARED", 2)
    for at in range(5):
        await recorded(store, said("A", "CONSTRAINT: never mock the clock", day(at + 1)))
        await recorded(store, said("A", "DECISION: use PostgreSQL for the events", day(at + 1)))
    await recorded(store, *(said("A", f"FACT: PostgreSQL is fast {at}", day(6)) for at in range(2)))
    twice = await KnowledgeGraph(store).knowledge(Caller("C", "c"), about="mock the clock")
    assert [row["relation"] for row in twice["relations"]] == ["supports"] * 4, "each the one before it"
    assert [entry["validated_at"] is None for entry in twice["entries"]] == [True, *[False] * 4]
    await recorded(store, said("B", "CONSTRAINT: mock the clock", day(7)))
    assert await contents(store, "C", about="clock", as_of=day(8)) == ["mock the clock"]
    monkeypatch.setattr("relay.memory.knowledge.ingest.MOST_COMPARED", 4)
    await recorded(store, said("B", "DECISION: use SQLite for the events instead of PostgreSQL", day(7)))
    assert await contents(store, "C", about="events", as_of=day(8)) == [
        "use SQLite for the events instead of PostgreSQL"
    ]


async def test_neighbours_to_three_steps(store: Store) -> None:
    await recorded(store, said("A", "DECISION: entry number 0"))
    ids = [(await ask(store, "A"))[0]["id"]]
    for at in range(1, 6):
        await recorded(store, said("A", f"FACT: entry number {at} (depends on {ids[-1]})", day(at)))
        ids.append((await ask(store, "A"))[0]["id"])
    answer = await KnowledgeGraph(store).knowledge(Caller("B", "b"), near=ids[1])
    assert [(entry["id"], entry["distance"]) for entry in answer["entries"]] == [
        (ids[1], 0),
        (ids[2], 1),
        (ids[0], 1),
        (ids[3], 2),
        (ids[4], 3),
    ]
    assert {(row["source"], row["target"]) for row in answer["relations"]} == {
        *zip(ids[1:], ids, strict=False)
    }
    assert len(await ask(store, "B", near=ids[1][:10], limit=2)) == 2
    assert [entry["id"] for entry in await ask(store, "B", near=ids[1], kind="decision")] == [ids[1], ids[0]]
    with pytest.raises(Refusal) as refused:
        await ask(store, "B", near="k" + "0" * 24)
    assert refused.value.fault is Fault.UNKNOWN


async def test_rebuild_is_identical(store: Store) -> None:
    """`relay memory rebuild` drops and makes the same rows, ids too, whatever the steps in which they were made."""
    await recorded(
        store,
        said("CLAUDE", "DECISION: use PostgreSQL for events\nPROBLEM (private): a race\nSOLUTION: a mutex"),
        changed(CODEX, [touch("a.py"), *renamed("b.py", "c.py")]),
        said("CODEX", "DECISION (shared with CLAUDE): never mock the clock"),
    )
    await recorded(store, said("CODEX", "CONSTRAINT (shared with CLAUDE): mock the clock"))
    await recorded(store, said("ann", "DECISION: use SQLite for events instead of PostgreSQL", kind="human"))
    empty = {"paths": [], "source": "start", "trailers": [["Decision", "keep it"], ["Because", "it works"]]}
    await recorded(store, NewEvent("files.read", Lane("room", "human:ann"), outputs=empty))
    for at in range(5):
        await recorded(store, said("ann", f"CONSTRAINT (role developer): say it, {at % 2}", kind="human"))
    read = await ask(store, "CODEX", about="race events clock")
    await recorded(store, said("ann", f"As {read[0]['id']} says.", kind="human"))
    before = await rows(store)
    assert len(before["entries"]) == 14 and before["relations"] and len(before["audiences"]) == 3
    assert len(before["mentions"]) == 1
    assert await rebuild(store) == 14
    assert await rows(store) == before
    assert [entry["read_by"] for entry in await ask(store, "CODEX", about="race events clock")] != [
        entry["read_by"] for entry in read
    ], "what was read stays known"
    # Taken in once more, one by one: nothing is there twice.
    for event in await engines.all_events(store):
        await store.write(lambda tx, event=event: ingest(tx, [event]))  # type: ignore[misc]
    assert await rows(store) == before


async def test_what_is_forgotten_is_told_to_nobody(store: Store) -> None:
    """Not at any door, nor in a count; a rebuild says the same, and the same said again is told again."""
    first, second, _ = await recorded(
        store,
        said("A", "DECISION: use zebra storage because stripes scale (file src/zebra.py) #zoo"),
        said("A", "DECISION: use zebra storage\nFACT (private): the zebra eats at night"),
        said("B", "FACT: the cache eats at night"),
    )
    old = await ask(store, "A")
    assert len(old) == 4 and old[-1]["validated_at"]
    gone = {"memory": {"id": "m", "number": 1, "event_ids": [first.id, second.id]}}
    lane = Lane("room", "memory:m", short=True)
    await recorded(store, NewEvent("memory.forgotten", lane, outputs=gone))
    after = await rows(store)
    for who in ("A", "B"):
        for question in (
            {},
            {"about": "zebra eats"},
            {"agent": "A"},
            {"kind": "decision"},
            {"file": "src/zebra.py"},
        ):
            assert "zebra" not in str(await ask(store, who, **question))
        for entry in (each for each in old if each["source_agent"] == "A"):
            with pytest.raises(Refusal):
                await ask(store, who, near=entry["id"])
        assert await store.read(lambda tx, who=who: found(tx, Caller(who, "s"), "zebra storage", 9)) == []  # type: ignore[misc]
    assert [entry["content"] for entry in await ask(store, "B", about="eats")] == ["the cache eats at night"]
    counts = {(row["word"], row["audience"]): row["entries"] for row in map(json.loads, after["counts"])}
    assert counts["", 0] == 1 and counts["@A", 0] == 0 and counts["zebra", 0] == 0
    assert not any("zebra" in row for table in ("words", "files") for row in after[table])
    assert len(after["entries"]) == 4, "the rows stay"
    assert await rebuild(store) == 4
    assert await rows(store) == after
    await recorded(store, said("B", "DECISION: use zebra storage"))
    (again,) = await ask(store, "A", about="zebra")
    assert (again["references"], again["source_agent"]) == ([], "B")


async def test_what_comes_from_archived_events_is_kept_by_a_rebuild(store: Store, tmp_path: Path) -> None:
    await recorded(
        store, said("A", "DECISION: use tabs", day(1)), said("A", "CONSTRAINT: speak plainly", day(1))
    )
    await recorded(store, said("B", "DECISION: never use tabs", day(2)))
    before = await rows(store)
    gone = (await engines.all_events(store))[0]
    engines.change(tmp_path, "UPDATE events SET id = $1 WHERE id = $2", "x" * 64, gone.id)
    await rebuild(store)
    after = await rows(store)
    # The event is there under another name, so its entry is made once more beside the one that was kept.
    assert {row for row in before["entries"] if gone.id in row} <= {*after["entries"]}
    engines.change(tmp_path, "UPDATE events SET id = $1 WHERE id = $2", gone.id, "x" * 64)


async def test_found_gives_what_still_holds(store: Store) -> None:
    await recorded(
        store,
        said("A", "DECISION: use PostgreSQL for events"),
        said("A", "DECISION: use SQLite for events instead of PostgreSQL because it needs no server"),
    )
    hits = await store.read(lambda tx: found(tx, Caller("B", "b"), "Which store has the events?", 10))
    assert [hit.content for hit in hits] == ["use SQLite for events instead of PostgreSQL"]
    [hit] = hits
    assert (hit.memory_type, hit.more["rationale"], hit.why["words"]) == (
        "knowledge",
        "it needs no server",
        ["events"],
    )
    assert 0 < hit.relevance <= 1


async def test_a_common_word_and_a_rare_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rare word decides; of what is common the newest is read, of the agent and the kind that are asked for."""
    monkeypatch.setattr("relay.memory.knowledge.queries.MOST_HITS", 5)
    monkeypatch.setattr("relay.memory.knowledge.queries.CANDIDATES", 4)
    await recorded(
        store,
        said("A", "DECISION: the zebra is common", day(1)),
        said("A", "FACT: common ground of the lone agent", day(1)),
        *(said("B", f"FACT: common number {at}", day(2)) for at in range(20)),
    )
    assert (await contents(store, "C", about="common zebra"))[0] == "the zebra is common"
    assert await contents(store, "C", about="common", limit=2) == ["common number 19", "common number 18"]
    assert len(await contents(store, "C", about="common", agent="A")) == 2
    assert await contents(store, "C", about="common", kind="decision") == ["the zebra is common"]
    answer = await KnowledgeGraph(store).knowledge(Caller("C", "c"), about="common", limit=3)
    assert answer["more"] is True and len(answer["entries"]) == 3


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "rumour"}, {"as_of": "soon"}, {"limit": 0}, {"limit": 501}, {"about": " "}, {"near": "x"}],
)
async def test_what_is_wrong_is_refused(store: Store, wrong: dict[str, object]) -> None:
    with pytest.raises(Refusal) as refused:
        await ask(store, "A", **wrong)
    assert refused.value.fix

"""Every named query of every wing on PostgreSQL: it exists, the server takes it, it reads no more than it gives."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from relay.app.wiring.schema import SCHEMAS as TABLES
from relay.store.ports import load_migrations, load_queries
from relay.store.postgres.query import translate
from tests import postgres
from tests.store.test_queries import ONLY_POSTGRES, SCHEMAS, WALKS

#: What walks a table here and not on SQLite.
ALSO = {
    ("coordination", "forget_tasks"): "empties the table",
    ("coordination", "forget_changes"): "empties the table",
    ("coordination", "forget_all_needs"): "empties the table",
    ("airspace", "forget_pairs"): "empties the table",
    ("room", "release_held"): "empties the table",
    ("fleet", "members"): "all relays of the room, a few",
    ("fleet", "leader"): "one row",
    ("fleet", "resign"): "one row",
    ("fleet", "give_up"): "one row",
    ("fleet", "work_versions"): "of all agents of the others, a few",
    ("fleet", "picture"): "one row",
    ("timeline", "clear_touches"): "empties the table",
    ("timeline", "clear_rewinds"): "empties the table",
    ("timeline", "clear_checkpoints"): "empties the table",
    ("timeline", "clear_trees"): "empties the table",
    ("knowledge", "clear_roles"): "empties the table",
    ("knowledge", "clear_entries"): "empties the table",
    ("knowledge", "clear_words"): "empties the table",
    ("knowledge", "clear_counts"): "empties the table",
    ("knowledge", "clear_files"): "empties the table",
    ("knowledge", "clear_relations"): "empties the table",
    ("knowledge", "clear_readers"): "empties the table",
    ("knowledge", "clear_audiences"): "empties the table",
    ("rights", "room_token"): "one row",
    ("rights", "replace_room_token"): "one row",
}
#: What a statement is given here and not on SQLite, where a function of Python does it.
GIVEN = {"take_lock": {"shape"}, "holders": {"shape"}, "lapsed": {"shape"}}
#: Steps that are PostgreSQL's alone: what a crash of its server takes back, and functions of the database.
ONLY_THERE = {"after_a_crash", "own_event", "named_folders", "trees_in_order", "move_tail"}
#: A room that has been used for a while: an empty table is read in any way.
_FILL = """
INSERT INTO messages (number, id, pos, event_id, ts, at, speaker, kind, body)
SELECT i, 'm' || i, i, 'e' || i, '', i, 'ann', 'human', 'entry ' || md5(i::text) FROM generate_series(1, 4000) i;
INSERT INTO dispatch_queue (id, message_id, agent, state, cause_event, created_at, ended_at)
SELECT i, 'm' || i, 'A' || i % 5, CASE i % 50 WHEN 0 THEN 'pending' WHEN 1 THEN 'dead' ELSE 'done' END, '', i, i
FROM generate_series(1, 4000) i;
INSERT INTO advisories (id, founders, opened_at, closed_at, worst, body)
SELECT 'a' || i, 'f' || i, i, i, 0, '{}' FROM generate_series(1, 2000) i;
ANALYZE;
"""


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """A database with the tables of all wings."""
    server = postgres.server()
    name = server.new_database(TABLES)
    postgres.run(_fill(server.dsn(name)))
    yield server.dsn(name)
    server.drop_database(name)


async def _fill(dsn: str) -> None:
    connection = await asyncpg.connect(dsn, server_settings={"search_path": "relay"})
    try:
        await connection.execute(_FILL)
    finally:
        await connection.close()


@pytest.fixture
async def whole(database: str) -> AsyncIterator[Any]:
    """A connection that plans for any values, and takes an index where there is one."""
    settings = {"search_path": "relay", "enable_seqscan": "off", "plan_cache_mode": "force_generic_plan"}
    connection = await asyncpg.connect(database, server_settings=settings)
    yield connection
    await connection.close()


@pytest.mark.parametrize("wing", sorted(set(SCHEMAS) - set(ONLY_POSTGRES)))
def test_both_engines_have_the_same_queries_and_steps(wing: str) -> None:
    one, other = (load_queries(SCHEMAS[wing], engine) for engine in ("sqlite", "postgres"))
    assert sorted(one) == sorted(other)
    for name in one:
        asked = [set(re.findall(r"(?<!:):([a-z_]\w*)", texts[name])) for texts in (one, other)]
        assert asked[0] | GIVEN.get(name, set()) == asked[1], name
    steps = [
        [step.name for step in load_migrations(SCHEMAS[wing], engine) if step.name not in ONLY_THERE]
        for engine in ("sqlite", "postgres")
    ]
    assert steps[0] == steps[1]


async def plan(connection: Any, sql: str) -> list[dict[str, Any]]:
    """Every node of the plan of a statement."""
    made = translate(sql)
    await connection.execute(f"PREPARE asked AS {made.text}")
    values = ", ".join(["NULL"] * len(made.names))
    try:
        told = await connection.fetchval(
            f"EXPLAIN (FORMAT JSON) EXECUTE asked{f'({values})' if values else ''}"
        )
    finally:
        await connection.execute("DEALLOCATE asked")
    nodes, waiting = [], [json.loads(told)[0]["Plan"]]
    while waiting:
        node = waiting.pop()
        waiting += node.get("Plans", [])
        nodes.append(node)
    return nodes


async def test_the_server_takes_every_query_and_none_reads_a_table_whole(whole: Any) -> None:
    wrong, asked, seen = [], 0, set()
    for wing, folder in SCHEMAS.items():
        for name, sql in load_queries(folder, "postgres").items():
            try:
                nodes = await plan(whole, sql)
            except asyncpg.PostgresError as error:
                wrong.append((wing, name, str(error)))
                continue
            asked += 1
            scans = [node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"]
            seen |= {(wing, name)} if scans else set()
            if scans and (wing, name) not in WALKS | ALSO:
                wrong.append((wing, name, scans))
    assert wrong == []
    assert asked > 120
    assert set(ALSO) - seen == set(), "walks that are none any more"


@pytest.mark.parametrize(
    ("wing", "name", "index"),
    [
        ("log", "events_after", "events_pkey"),
        ("room", "messages_after", "messages_by_pos"),
        ("room", "messages_before", "messages_by_pos"),
        ("room", "messages_by_ids", "messages_id_key"),
        ("room", "search", "messages_by_words"),
        ("room", "claim", "dispatch_waiting"),
        ("room", "next_due", "dispatch_waiting"),
        ("room", "open_jobs_of_agent", "dispatch_waiting"),
        ("room", "last_skips", "dispatch_given_up"),
        ("room", "active_jobs", "dispatch_by_state"),
        ("room", "renew", "dispatch_by_state"),
        ("room", "jobs_in_state", "dispatch_by_state"),
        ("room", "open_jobs", "dispatch_by_state"),
        ("room", "jobs_of_messages", "dispatch_queue_message_id_agent_key"),
        ("room", "spent", "turns_by_agent"),
        ("room", "entries_since", "messages_by_at"),
        ("room", "routing", "cycles_routing"),
        ("coordination", "shown_tasks", "work_shown"),
        ("coordination", "last_undoable", "task_changes_to_undo"),
        ("airspace", "standing_advisories", "advisories_by_end"),
        ("airspace", "samples", "airspace_samples_by_time"),
        ("log", "places_of", "events_id_key"),
    ],
)
async def test_what_is_asked_often_is_asked_by_its_index(
    whole: Any, wing: str, name: str, index: str
) -> None:
    nodes = await plan(whole, load_queries(SCHEMAS[wing], "postgres")[name])
    assert index in {node.get("Index Name") for node in nodes}, nodes


async def test_what_has_a_limit_is_not_sorted_first(whole: Any) -> None:
    names = ("last_skips", "jobs", "messages_after", "messages_between", "next_due", "messages_from")
    for name in (*names, "messages_in_short"):
        nodes = await plan(whole, load_queries(SCHEMAS["room"], "postgres")[name])
        assert "Sort" not in {node["Node Type"] for node in nodes}, (name, nodes)


def test_nothing_names_the_schema() -> None:
    """The store's search_path says where the tables are; a setting of ours has the name in it too."""
    files = [file for folder in SCHEMAS.values() for file in Path(folder, "postgres").rglob("*.sql")]
    assert len(files) > 15
    named = re.compile(r"\b(relay|public)\.\w")
    assert [
        str(file)
        for file in files
        if named.search(re.sub(r"--[^\n]*|'relay\.\w+'", "", file.read_text("utf-8")))
    ] == []

"""Every named query of every wing: it is used, it exists, and it reads no more than it gives."""

from __future__ import annotations

import ast
import importlib
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import relay
from relay.app.daemon import daemon
from relay.app.health import context
from relay.code import cache
from relay.store.ports import Queries, load_queries
from relay.store.sqlite.store import add_functions, open_store

CODE = Path(relay.__file__).parent
SCHEMAS = {folder.name: folder for folder in (*daemon.SCHEMAS, context.Q.folder, cache.Q.folder)}
#: Those that only PostgreSQL has something of: functions that are whole operations, who may do what, and the relays
#: of several machines.
ONLY_POSTGRES = ("critical", "rights", "fleet")
#: Tables that grow with the room's age; what walks one of them whole, or sorts it, is named here with the reason.
WALKS = {
    ("room", "jobs"): "backwards by its key, as far as its limit",
    ("room", "state_counts"): "an index alone",
    ("room", "messages_with_files"): "an index of those that name files",
    ("coordination", "tasks_with_files"): "every task, when the files of the room are full",
    ("room", "last_skips"): "backwards by an index of its own, as far as its limit",
    ("room", "latest_speakers"): "what its inner query found, at most as much as it asked for",
    ("room", "last_asked"): "what its inner query found, at most 20",
    ("room", "entries_since"): "what its inner query found, at most as much as it asked for",
    ("room", "routing"): "an index of what is being routed",
    ("room", "search"): "the full-text index gives the hits alone",
    ("room", "held"): "what waits for /continue",
    ("room", "tails"): "a row a member",
    ("room", "any_held"): "its first entry",
    ("room", "breakers"): "a row an agent",
    ("room", "agents"): "a row an agent",
    ("room", "used_by_hour"): "a row an agent; its turns by their index",
    ("log", "parked"): "what followers passed over",
    ("health", "applied_migrations"): "a row a migration",
    ("health", "memory_index"): "whoever asks for a health check: each memory is looked up in its index",
    ("airspace", "latest_advisories"): "backwards by an index, as far as its limit",
    ("airspace", "pair_tracks"): "a row a pair that is near, or was said within the cool-down",
    ("code", "graph_files"): "a warm start wants all",
    ("code", "prune_graph_files"): "once a start, after all were read",
    ("code", "prune_graph_snapshots"): "a row a repository",
    ("airspace", "intents"): "what holds for half an hour",
    ("airspace", "forget_intents"): "as many",
    ("airspace", "told_edits"): "what agents have in hand now",
    ("airspace", "samples"): "what its inner query found by an index",
    ("coordination", "tasks_in_hand"): "the index of what the board shows, and of it a few rows",
    ("coordination", "tasks_counted"): "the index of what the board shows",
    ("coordination", "attached_here"): "an index of who is here",
    ("coordination", "attached_names"): "two weeks of people's own sessions",
    ("coordination", "attached_gone"): "as many, every ten seconds",
    ("coordination", "forget_attached"): "as many, once a start",
    ("coordination", "latest_changesets"): "backwards by an index, as far as its limit",
    ("coordination", "shown_tasks"): "an index of what is shown",
    ("coordination", "all_tasks"): "a rebuild wants all",
    ("coordination", "all_changes"): "a rebuild wants all",
    ("coordination", "last_undoable"): "backwards by an index of its own, as far as its limit",
    ("coordination", "last_changes"): "backwards by its key, as far as its limit",
    ("verification", "open_verifications"): "an index of what is open",
    ("verification", "policies"): "a row a policy that people made",
    ("verification", "waiting_approvals"): "an index of what waits for people",
    ("verification", "newest_approvals"): "backwards by its key, as far as its limit",
    ("verification", "open_entries"): "an index of what is in the queue",
    ("verification", "newest_entries"): "backwards by its key, as far as its limit",
    ("access", "keys_made_by"): "a row a key, once a start",
    ("coordination", "waits"): "who stands in line now",
    ("coordination", "take_lock"): "the same, to the first",
    ("coordination", "forget_waits"): "as many",
    ("coordination", "to_compare"): "the locks of a day at most, to be compared outside of the writer's turn",
    ("coordination", "all_sessions"): "backwards by an index, as far as its limit",
    ("coordination", "ready"): "an index of what is pending, as far as its limit",
    ("coordination", "work_counts"): "indexes of what is pending, claimed and blocked",
    ("coordination", "work_counts_of_types"): "the same; of other types no more than are told",
    ("coordination", "needs_within"): "what its inner query reached by an index",
    ("coordination", "all_needs"): "a rebuild wants all",
    ("memory", "memories_with"): "the full-text index gives the hits alone, as far as its limit",
    ("memory", "memories_of_numbers"): "the keys of each",
    ("memory", "memory_neighbours"): "what its inner queries found by an index",
    ("memory", "newest_memories"): "backwards by an index, as far as its limit",
    ("memory", "memory_choices"): "backwards by an index, as far as its limit",
    ("memory", "memories_with_in_time"): "the full-text index gives the hits alone, as far as its limit",
    ("memory", "unindex_all"): "an index alone: all are indexed anew",
    ("memory", "unindexed_memories"): "what is still to be indexed, as far as its limit",
    ("knowledge", "newest_with_word"): "what its inner query found by the key, as far as its limit",
    ("knowledge", "newest_of_file"): "what its inner query found by the key, as far as its limit",
    ("knowledge", "of_words"): "what its inner query found by the key, as far as its limit",
    ("knowledge", "later_of_words"): "what its inner query found by the key, as far as its limit",
    ("resolution", "newest_conflicts"): "backwards by its key, as far as its limit",
    ("resolution", "open_conflicts"): "an index of what is open, as far as its limit",
    ("resolution", "newest_findings"): "backwards by its key, as far as its limit",
    ("resolution", "open_findings"): "an index of what is open, as far as its limit",
    ("knowledge", "relations_of"): "what its inner query found by indexes, as far as its limit",
    ("knowledge", "entry_of_archive"): "a rebuild",
    ("knowledge", "clear_mentions"): "a rebuild",
    ("knowledge", "clear_logged_words"): "a rebuild",
    ("knowledge", "clear_logged_files"): "a rebuild",
    ("knowledge", "clear_logged_relations"): "a rebuild",
    ("knowledge", "clear_logged_mentions"): "a rebuild",
    ("knowledge", "open_closed_by_logged"): "a rebuild",
    ("knowledge", "clear_logged_entries"): "a rebuild",
    ("knowledge", "count_logged_down"): "a rebuild",
    ("timeline", "timeline_heads"): "the causes of each event of a page",
    ("timeline", "newest_of_types"): "what its inner query found by an index, a page of each type at most",
    ("timeline", "newest_holding"): "what its inner query found by an index, a page of each type at most",
    ("timeline", "first_of_types"): "the same",
    ("timeline", "newest_of_lanes"): "the same, of each lane",
    ("timeline", "lane_names"): "an index of those who are not bookkeeping, as far as its limit",
    ("timeline", "short_lanes_among"): "what its inner query found, at most as much as is archived at once",
    ("timeline", "needed_events"): "a row a follower, what is set aside, and what is begun",
    ("timeline", "used_bytes"): "three numbers",
    (
        "timeline",
        "kept_events",
    ): "once an archive of many events: what was written last is found by all that was",
    ("timeline", "drop_archived_touches"): "the same: its rows go",
    ("timeline", "drop_archived_trees"): "the same",
    ("access", "forget_links"): "good for minutes, so few",
    ("access", "forget_sessions"): "a row a browser",
    ("access", "api_keys"): "a row a key, as far as its limit",
    ("checks", "forget_check_results"): "once an hour, with the snapshots",
    ("timeline", "newest_checkpoints"): "backwards by its key, as far as its limit",
    ("timeline", "checkpoint_names"): "an index of names alone, for a refusal",
    ("timeline", "trees_from_id"): "what its inner queries found by indexes",
    ("timeline", "checkpoint_trees"): "once an hour: what is kept for ever",
    ("timeline", "begun_rewinds"): "an index of what is begun: one at most",
    ("timeline", "rewound_branches"): "a row a rewind, when a person looks at the branches",
    ("timeline", "rewind_to_undo"): "a row a rewind, backwards by its key, to the first",
    ("timeline", "rewind_to_redo"): "the same",
    ("timeline", "rewinds_standing"): "a row a rewind, when a page is looked at and one was made or undone",
    ("timeline", "open_handoffs"): "an index of what is open: as many as there are agents",
    ("timeline", "last_handoff_with"): "a row a handoff, when one begins",
    ("exploration", "open_explorations"): "an index of what is open: few at once",
    ("exploration", "newest_explorations"): "backwards by its key, as far as its limit",
}
#: Walks in which SQLite must name an index: the table itself would be read whole.
BY_INDEX = (
    {"state_counts", "last_skips", "routing", "shown_tasks", "last_undoable"}
    | {"ready", "messages_with_files", "all_sessions", "lane_names"}
)  # fmt: skip


def used() -> Iterator[tuple[str, str, str]]:
    """(file, wing, query) of every `Q.x` in the code."""
    for file in sorted(CODE.rglob("*.py")):
        name = ".".join(file.relative_to(CODE.parent).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.Attribute):
                continue
            owner = ast.unparse(node.value)
            if owner != "Q" and not owner.endswith(".Q"):
                continue
            found: object = importlib.import_module(name)
            for part in owner.split("."):
                found = getattr(found, part)
            assert isinstance(found, Queries)
            if node.attr != "folder":
                yield str(file.relative_to(CODE)), found.folder.name, node.attr


def dialect_of(wing: str) -> str:
    return "postgres" if wing in ONLY_POSTGRES else "sqlite"


def test_every_query_that_is_asked_for_exists() -> None:
    known = {wing: load_queries(folder, dialect_of(wing)) for wing, folder in SCHEMAS.items()}
    asked = list(used())
    assert len(asked) > 100
    assert [(file, wing, name) for file, wing, name in asked if name not in known[wing]] == []


def test_every_query_is_used() -> None:
    asked = {(wing, name) for _, wing, name in used()}
    every = {
        (wing, name) for wing, folder in SCHEMAS.items() for name in load_queries(folder, dialect_of(wing))
    }
    assert sorted(every - asked) == []


@pytest.fixture
async def whole(tmp_path: Path) -> sqlite3.Connection:
    """A database with the tables of all wings."""
    store = await open_store(tmp_path / "events.db", daemon.SCHEMAS)
    await store.close()
    connection = sqlite3.connect(tmp_path / "events.db")
    add_functions(connection, daemon.SCHEMAS)
    return connection


def plan(connection: sqlite3.Connection, sql: str) -> list[str]:
    parameters = dict.fromkeys(re.findall(r":(\w+)", sql), 1)
    return [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + sql, parameters)]


async def test_no_query_reads_a_table_whole(whole: sqlite3.Connection) -> None:
    seen, wrong = set(), []
    for wing, folder in SCHEMAS.items():
        for name, sql in load_queries(folder, "sqlite").items():
            steps = plan(whole, sql)
            scans = [step for step in steps if step.startswith("SCAN ") and "json_each" not in step]
            scans = [step for step in scans if step != "SCAN CONSTANT ROW"]
            scans = [step for step in scans if not re.search(r"SCAN \w+ VIRTUAL TABLE INDEX 1:", step)]
            if scans:
                seen.add((wing, name))
            if scans and (wing, name) not in WALKS:
                wrong.append((wing, name, scans))
            wrong += [(wing, name, scans) for step in scans if name in BY_INDEX and " INDEX " not in step]
    whole.close()
    assert wrong == []
    assert set(WALKS) - seen == set(), "walks that are none any more"


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("claim", "dispatch_waiting (agent=?"),
        ("next_due", "dispatch_waiting (agent=?)"),
        ("open_jobs_of_agent", "dispatch_waiting (agent=?)"),
        ("last_skips", "dispatch_given_up"),
        ("active_jobs", "dispatch_by_state (state=?)"),
        ("renew", "dispatch_by_state (state=?)"),
        ("open_counts", "dispatch_by_state (state=?)"),
        ("open_jobs", "dispatch_by_state (state=?)"),
        ("jobs_in_state", "dispatch_by_state (state=?)"),
        ("state_counts", "COVERING INDEX dispatch_by_state"),
        ("spent", "turns_by_agent (agent=? AND started_at>?)"),
        ("entries_since", "COVERING INDEX messages_by_at (at>?)"),
        ("routing", "cycles_routing"),
    ],
)
async def test_the_queue_is_asked_by_its_indexes(whole: sqlite3.Connection, name: str, index: str) -> None:
    steps = plan(whole, load_queries(SCHEMAS["room"], "sqlite")[name])
    whole.close()
    assert any(index in step for step in steps), steps


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("newest_of_kind", "knowledge_by_kind (kind=? AND valid_from<?)"),
        ("newest_of_agent_and_kind", "knowledge_by_agent_and_kind (agent_id=? AND kind=? AND valid_from<?)"),
        ("newest_of_file", "PRIMARY KEY (path=? AND valid_from>? AND valid_from<?)"),
        ("newest_with_word", "PRIMARY KEY (word=? AND valid_from<?)"),
        ("renamed_from", "knowledge_renames_to (path=? AND valid_from<?)"),
        ("renamed_to", "knowledge_renames_from (origin=? AND valid_from>? AND valid_from<?)"),
    ],
)
async def test_knowledge_is_walked_newest_first(whole: sqlite3.Connection, name: str, index: str) -> None:
    """By an index that has what is looked for, and nothing is sorted: so as far as the limit."""
    steps = plan(whole, load_queries(SCHEMAS["knowledge"], "sqlite")[name])
    whole.close()
    assert any(index in step for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps), steps


async def test_what_has_a_limit_is_not_sorted_first(whole: sqlite3.Connection) -> None:
    for name in (
        "search",
        "last_skips",
        "jobs",
        "jobs_in_state",
        "messages_between",
        "messages_in_short",
        "next_due",
        "messages_from",
    ):
        steps = plan(whole, load_queries(SCHEMAS["room"], "sqlite")[name])
        assert not any("TEMP B-TREE" in step for step in steps), (name, steps)
    whole.close()


@pytest.mark.parametrize("name", ["take_lock", "holders"])
async def test_what_meets_a_lock_is_found_by_indexes(whole: sqlite3.Connection, name: str) -> None:
    steps = [
        step
        for step in plan(whole, load_queries(SCHEMAS["coordination"], "sqlite")[name])
        if "SEARCH" in step
    ]
    whole.close()
    locks = [step for step in steps if "file_locks" in step]
    assert [step for step in locks if "locks_with_globs" not in step and "PRIMARY KEY (key" not in step] == []
    assert len(locks) == 4


async def test_no_statement_of_locks_is_planned_anew_at_every_call(whole: sqlite3.Connection) -> None:
    """Beside an index WHERE x = 'y', SQLite plans a statement with `x = :x` again whenever :x is bound."""
    rows = whole.execute(
        "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'file_locks'"
    ).fetchall()
    whole.close()
    assert [sql for (sql,) in rows if sql and "WHERE" in sql and "IS NOT NULL" not in sql] == []

"""What an earlier version made goes on working: the database, git's hooks, the settings of agents and of programs.

The commands are run as that version wrote them; only the paths of its machine are those of this one.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sqlite3
import time
import tomllib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from relay.app.wiring.schema import SCHEMAS
from relay.store.ports import load_migrations
from tests import postgres
from tests.outside import Json, Ran, eventually
from tests.upgrade.earlier_room import STORES, EarlierRoom, earlier_room

#: What is left of a lease is not what it was.
TIMES = ("expires_at", "lease_until", "heartbeat_at", "used_at", "updated_at")


@pytest.fixture(params=STORES)
async def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EarlierRoom]:
    async with earlier_room(request.param, tmp_path) as made:
        yield made


def lasting(rows: Iterable[Json], known: Iterable[str]) -> list[Json]:
    """What rows said in the earlier version (`known`: its names) and still say. A later one may say more."""
    return [{key: row.get(key) for key in known if key not in TIMES} for row in rows]


def worktrees(rows: Iterable[Json]) -> list[list[Any]]:
    return [[row[name] for name in ("agent", "branch", "base", "files", "own")] for row in rows]


async def listed(earlier: EarlierRoom, *words: str) -> Any:
    ran = await earlier.room.relay(words[0], *words[1:], "--json")
    assert ran.code == 0, ran.all
    return json.loads(ran.out)


# -- the database


async def test_a_second_open_changes_nothing(earlier: EarlierRoom) -> None:
    """Nor does the first one but for steps that are new since; each step keeps the name that it was applied under."""
    written = await earlier.rows()
    await listed(earlier, "keys", "list")
    once = await earlier.rows()
    await listed(earlier, "keys", "list")
    assert await earlier.rows() == once
    assert set(written["schema_migrations"]) <= set(once["schema_migrations"])
    known = {
        (step.wing, step.version, step.name, step.digest)
        for folder in SCHEMAS
        for step in load_migrations(folder, earlier.store)
    }
    applied = {tuple(row) for row in earlier.facts["schema_migrations"]}
    assert applied <= known
    assert len(once["schema_migrations"]) == len(known)
    if applied == known:
        assert once == written


async def test_row_level_security_holds_on_tables_that_are_new_since(tmp_path: Path) -> None:
    async with earlier_room("postgres", tmp_path) as earlier:
        await listed(earlier, "keys", "list")
        connection = await asyncpg.connect(postgres.server().dsn(earlier.database))
        try:
            unsafe = await connection.fetch(
                "SELECT relname FROM pg_class WHERE relnamespace = 'relay'::regnamespace AND relkind = 'r'"
                " AND NOT relrowsecurity"
            )
        finally:
            await connection.close()
        assert unsafe == [], "a step of access/rights has to run relay_secure() (CONTRIBUTING.md, A table)"


async def test_all_of_it_is_there_for_the_commands(earlier: EarlierRoom) -> None:
    facts = earlier.facts
    for name, words in {
        "locks": ("locks", "list"),
        "work": ("work", "list", "--all"),
        "changesets": ("changesets", "list"),
    }.items():
        known = [*facts[name][0]] if facts[name] else []
        assert lasting(await listed(earlier, *words), known) == lasting(facts[name], known), name
    # Those that the room makes for its own agents end with it.
    made = [key for key in facts["keys"] if key["created_by"] != "RELAY"]
    assert len(made) == 3 and lasting(await listed(earlier, "keys", "list"), made[0]) == lasting(
        made, made[0]
    )
    sessions = {(row["agent_id"], row["session_id"]) for row in await listed(earlier, "sessions", "list")}
    assert sessions >= {("CODEX", "c1"), ("DORA", "d1")}
    assert worktrees((await listed(earlier, "worktrees", "list"))["worktrees"]) == worktrees(
        facts["worktrees"]
    )
    assert (await listed(earlier, "verify"))["ok"]
    assert (await listed(earlier, "guard", "status"))["repositories"][0]["ok"]


async def test_the_room_goes_on_where_it_was(earlier: EarlierRoom) -> None:
    room, facts = earlier.room, earlier.facts
    await room.start()
    now = (await room.entries())[: len(facts["entries"])]
    # Later versions may say more of an entry.
    assert [{key: entry[key] for key in facts["entries"][0]} for entry in now] == facts["entries"]
    known = [*facts["tasks"][0]]
    assert lasting((await room.get("/api/state"))["tasks"], known) == lasting(facts["tasks"], known)

    async def advised() -> list[str]:
        return [advisory["id"] for advisory in (await room.get("/api/airspace"))["advisories"]]

    assert await eventually(advised, "the advisories") == [advisory["id"] for advisory in facts["advisories"]]
    rows = (await room.get("/api/worktrees"))["worktrees"]
    assert {row["agent"] for row in rows} == {row["agent"] for row in facts["worktrees"]}

    async def ask(agent: str, path: str, **body: Any) -> tuple[int, Any]:
        headers = {"X-API-Key": facts["secrets"][agent], "X-Relay-Session": "new"}
        async with room.session.post(f"{room.url}{path}", headers=headers, json=body) as answer:
            return answer.status, await answer.json()

    status, refused = await ask("CODEX", "/locks/acquire", file_path="src/dora.py")
    assert (status, refused["success"], refused["locked_by"]) == (200, False, "DORA")
    status, taken = await ask("CODEX", "/locks/acquire", file_path="src/free.py")
    assert (status, taken["success"]) == (200, True)
    assert taken["fencing_token"] > max(lock["fencing_token"] for lock in facts["locks"])
    status, memories = await ask("DORA", "/memory/recall", task_description="the prices")
    assert status == 200
    known = [row["memory_id"] for row in facts["memories"]]
    # The room remembers by itself since.
    assert [row["memory_id"] for row in memories if row["memory_id"] in known] == known
    assert (await ask("EVE", "/locks/check"))[0] == 401

    # An agent goes on in its worktree, and a person merges its work.
    posted = await room.post("@CAT write notes")
    answer = await room.reply_to(posted["id"], "CAT")
    assert answer["body"] == "Done." and answer["number"] > facts["entries"][-1]["number"]
    merged = await listed(earlier, "worktrees", "merge", "BEE", "--name", "ann")
    assert merged["success"] and "# BEE" in (earlier.code / "src" / "shop.py").read_text()

    checked = await room.script("healthcheck.sh", "--json")
    checks = json.loads(checked.out)["checks"]
    assert checked.code == 0 and not [check for check in checks if check["status"] == "failed"], checks
    stopped = await room.script("stop.sh")
    assert stopped.code == 0, stopped.all
    assert (await room.script("healthcheck.sh")).code == 1
    before = len(await asyncio.to_thread(lambda: room.transcript.read_bytes().splitlines()))
    await room.start()
    assert len(await room.entries()) >= len(facts["entries"])
    assert len(room.transcript.read_bytes().splitlines()) >= before


# -- the memory, as it was before the room remembered by itself: one table, and an index of its own

LESSON = "never mock the flamingo clock, it hid a bug"
#: Memories of before, one a week back in time.
OLD = 300
_WEEK_S = 7 * 86_400


async def remembered_before(earlier: EarlierRoom) -> None:
    """Rows as an earlier version wrote them: the oldest holds the lesson."""
    rows = [
        (
            1000 + at,
            f"old-{at}",
            "CODEX",
            "c1",
            "fix",
            LESSON if at == OLD - 1 else f"mended the part {at}",
            week,
        )
        for at, week in enumerate(time.time() - at * _WEEK_S for at in range(1, OLD + 1))
    ]
    columns = "number, id, agent_id, session_id, event_type, summary, created_at, updated_at"
    if earlier.database:
        connection = await asyncpg.connect(postgres.server().dsn(earlier.database))
        try:
            statement = (
                f"INSERT INTO relay.memory_episodic ({columns}) VALUES ($1, $2, $3, $4, $5, $6, $7, $7)"
            )
            await connection.executemany(statement, rows)
        finally:
            await connection.close()
        return
    with closing(sqlite3.connect(earlier.room.runtime / "events.db")) as connection, connection:
        statement = f"INSERT INTO memory_episodic ({columns}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)"
        connection.executemany(statement, rows)


async def test_memories_of_before_are_found_at_any_age(earlier: EarlierRoom) -> None:
    """And judged, and forgotten, as those that were kept since."""
    await remembered_before(earlier)

    async def found(text: str) -> list[str]:
        recalled = (await listed(earlier, "memory", "recall", text))["memories"]
        return [memory["memory_id"] for memory in recalled]

    (old,) = earlier.facts["memories"]
    assert await found(old["summary"]) == [old["memory_id"]]
    assert await found("may I mock the clock here") == [f"old-{OLD - 1}"]
    assert (await found("the part 7"))[0] == "old-7"
    assert len(await found("")) == 10
    shown = await listed(earlier, "memory", "show", f"r{1000 + OLD - 1}")
    assert (shown["summary"], shown["agent_id"]) == (LESSON, "CODEX")
    assert (await earlier.room.relay("memory", "feedback", f"r{1000 + OLD - 1}", "--useful")).code == 0
    assert (await earlier.room.relay("memory", "forget", f"r{1000 + OLD - 1}")).code == 0
    assert await found("may I mock the clock here") == []
    assert (await listed(earlier, "verify"))["ok"]


# -- git's hooks


async def git(earlier: EarlierRoom, *words: str, cwd: Path | None = None) -> Ran:
    return await earlier.room.run("git", "-C", str(cwd or earlier.code), *words)


@pytest.mark.parametrize("runs", [True, False], ids=["open", "closed"])
async def test_git_asks_before_a_commit_and_a_push(earlier: EarlierRoom, runs: bool) -> None:
    if runs:
        await earlier.room.start()
    assert (await git(earlier, "clone", "-q", "--bare", ".", "../else.git")).code == 0
    for tree in (earlier.code, earlier.room.runtime / "worktrees" / "gemini"):
        (tree / "src" / "dora.py").write_text("DORA = False\n")
        refused = await git(earlier, "commit", "-m", "x", "src/dora.py", cwd=tree)
        assert refused.code == 1 and "src/dora.py is locked by DORA" in refused.err, refused.all
        (tree / "README.md").write_text("# The shop\n")
        done = await git(earlier, "commit", "-m", "x", "README.md", cwd=tree)
        assert done.code == 0, done.all
    assert (await git(earlier, "push", "../else.git", "main")).code == 0
    assert (await git(earlier, "commit", "-nm", "x", "src/dora.py")).code == 0
    pushed = await git(earlier, "push", "../else.git", "main")
    assert pushed.code == 1 and "src/dora.py is locked by DORA" in pushed.err, pushed.all
    # Installed once more they are the same, and uninstalled they are gone.
    hook = earlier.code / ".git" / "hooks" / "pre-commit"
    assert (await earlier.room.relay("guard", "install")).code == 0
    assert hook.exists()
    assert (await earlier.room.relay("guard", "uninstall")).code == 0
    assert not hook.exists()


# -- the settings of the agents' programs


def overrides(argv: list[str]) -> Json:
    """What `--config KEY=VALUE` of a Codex says, as its file would."""
    pairs = [argv[at + 1] for at, word in enumerate(argv) if word == "--config"]
    return tomllib.loads("\n".join(pair for pair in pairs if not pair.startswith("hooks.state")))


def edit_hooks(earlier: EarlierRoom) -> list[tuple[str, str]]:
    """(program, line of a shell) for each hook before an edit: what the room hands its agents, and what a person
    wrote as docs/guard.md said."""
    calls = earlier.facts["calls"]
    argv = calls["claude"]["argv"]
    claude = json.loads(argv[argv.index("--settings") + 1])["hooks"]["PreToolUse"]
    codex = overrides(calls["codex"]["argv"])["hooks"]["PreToolUse"]
    gemini = json.loads(Path(calls["gemini"]["settings"]).read_text())["hooks"]["BeforeTool"]
    handed = [group[0]["hooks"][0]["command"] for group in (claude, codex, gemini)]
    by_hand = json.loads((earlier.room.folder / "edit-hooks.json").read_text())
    programs = ("claude", "codex", "gemini")
    return [*zip(programs, handed, strict=True), *zip(programs, by_hand, strict=True)]


def edit_of(program: str, path: Path, folder: Path) -> Json:
    if program == "codex":
        patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-a\n+b\n*** End Patch\n"
        return {"tool_name": "apply_patch", "tool_input": {"command": patch}, "cwd": str(folder)}
    tool = "write_file" if program == "gemini" else "Edit"
    return {"tool_name": tool, "tool_input": {"file_path": str(path)}, "cwd": str(folder)}


async def piped(earlier: EarlierRoom, line: str, said: str, **env: str) -> Ran:
    """A line of a shell with this on its standard input."""
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", line),
        cwd=earlier.code,
        env=earlier.room.environ(env),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate(said.encode())
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), err.decode())


@pytest.mark.parametrize("runs", [True, False], ids=["open", "closed"])
async def test_an_agent_s_edit_is_asked_about(earlier: EarlierRoom, runs: bool) -> None:
    if runs:
        await earlier.room.start()
    hooks = edit_hooks(earlier)
    assert len(hooks) == 6
    for program, line in hooks:
        held = json.dumps(edit_of(program, earlier.code / "src" / "dora.py", earlier.code))
        asked = await piped(earlier, line, held)
        assert asked.code == 0, (line, asked.all)
        if earlier.database and not runs:  # nobody can be asked: the commit is asked about again
            assert not asked.out and "the edit goes on" in asked.err, (line, asked.all)
            continue
        answer = json.loads(asked.out)
        decision = answer.get("hookSpecificOutput", answer)
        assert "deny" in (decision.get("permissionDecision"), decision.get("decision")), (line, asked.all)
        assert "DORA" in asked.out
        free = await piped(earlier, line, json.dumps(edit_of(program, earlier.code / "new.md", earlier.code)))
        assert (free.code, free.out) == (0, ""), (line, free.all)
        assert ("is not running" in free.err) != runs, (line, free.err)


def servers(earlier: EarlierRoom) -> dict[str, Json]:
    """The room's server in each file that `relay mcp install` wrote, and as the room hands it to its agents."""
    entries = {}
    for folder in (earlier.code, earlier.home, earlier.room.folder / "other"):
        claude = ".claude.json" if folder == earlier.home else ".mcp.json"
        for name in (claude, ".gemini/settings.json"):
            entries[str(folder / name)] = json.loads((folder / name).read_text())["mcpServers"]["relay"]
        codex = folder / ".codex" / "config.toml"
        entries[str(codex)] = tomllib.loads(codex.read_text())["mcp_servers"]["relay"]
    calls = earlier.facts["calls"]
    argv = calls["claude"]["argv"]
    entries["claude"] = json.loads(argv[argv.index("--mcp-config") + 1])["mcpServers"]["relay"]
    entries["codex"] = overrides(calls["codex"]["argv"])["mcp_servers"]["relay"]
    gemini = json.loads(Path(calls["gemini"]["settings"]).read_text())
    entries["gemini"] = gemini["mcpServers"]["relay"]
    return entries


async def tools(earlier: EarlierRoom, entry: Mapping[str, Any]) -> set[str]:
    """What the server of such an entry lists."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    line = shlex.join([entry["command"], *entry["args"]])
    env = entry.get("env") or {"RELAY_AGENT_ID": "CLAUDE", "RELAY_SESSION_ID": "given"}
    ran = await piped(earlier, line, "".join(f"{json.dumps(request)}\n" for request in requests), **env)
    assert ran.code == 0, (line, ran.all)
    answer = next(line for line in map(json.loads, ran.out.splitlines()) if line.get("id") == 2)
    return {tool["name"] for tool in answer["result"]["tools"]}


async def test_the_settings_of_every_program_start_a_server(earlier: EarlierRoom) -> None:
    files = servers(earlier)
    assert len(files) == 12
    # The files say the same on both stores: on the second, one of each program is enough.
    unlike = ("command",) if earlier.database else ("command", "args", "env")
    entries = {json.dumps([entry.get(name) for name in unlike]): entry for entry in files.values()}
    assert {"relay", "python"} == {Path(entry["command"]).name for entry in entries.values()}
    for entry in entries.values():
        assert {"acquire_lock", "post_message", "get_work", "remember"} <= await tools(earlier, entry)
    # The commands that wrote them find them as they are.
    for scope in ("project", "user"):
        again = await earlier.room.relay("mcp", "install", "all", "--scope", scope, "--json")
        assert again.code == 0, again.all
        assert [target["changed"] for target in json.loads(again.out)] == [False] * 3


async def test_the_agents_of_a_kept_demo_can_be_started(earlier: EarlierRoom) -> None:
    agents = json.loads((earlier.room.folder / "demo.json").read_text())["agents"]
    for command in {tuple(agent["cmd"]) for agent in agents}:
        ran = await earlier.room.run(*command, "--help")
        assert ran.code == 0 and "--pace" in ran.out, ran.all

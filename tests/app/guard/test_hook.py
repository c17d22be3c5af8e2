"""The guard: what its routes answer, and what the hook makes of it for each program."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from relay import guard_cli
from relay.app.guard import hook as edit_hook
from relay.coordination.writes.fencing import LockCheck
from relay.coordination.writes.lock_guard import LockGuard
from relay.faces.http.routes.guard import GuardRoutes
from relay.model import LOCKED, STALE, Caller, GuardDecision, Location, LockRefusal, Unguarded
from tests import engines
from tests.coordination.desk import over
from tests.engines import BOTH, Clock
from tests.faces.house import House, house, reader_of
from tests.standing import REASON, Folders, Standing

SCRIPT = str(Path(guard_cli.__file__))
#: The script, run as itself, but for how long it waits: a loaded machine may take more than its two seconds.
PATIENT = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("guard_cli", sys.argv[1])
guard = importlib.util.module_from_spec(spec)
sys.path.insert(0, sys.argv[1].removesuffix("relay/guard_cli.py"))
spec.loader.exec_module(guard)
sys.modules["relay.app.guard.hook"].ANSWER_S = 60.0
sys.exit(guard.main(sys.argv[2:]))
"""


@pytest.fixture
def guard() -> Standing:
    return Standing("src/a.py")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "src").mkdir(parents=True)
    (tree / "src" / "a.py").write_text("one\ntwo\nthree\nfour\n")
    (tree / "out").symlink_to("/etc")
    return tree


@pytest_asyncio.fixture
async def home(
    tmp_path: Path, tree: Path, guard: Standing, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[House]:
    monkeypatch.setattr("relay.faces.http.routes.guard.GUARD_S", 50.0)

    monkeypatch.setattr("relay.faces.http.requests.reader.owner", lambda: "owner")
    allows: Any = guard
    routes = GuardRoutes(allows, Folders(tree, {"BOT": tree}), reader_of("BOT"))
    async with house(tmp_path / "room", routes=routes.table()) as one:
        (tmp_path / "room" / ".relay" / "state.json").write_text(json.dumps({"url": f"http://{one.at}"}))
        yield one


async def hook(
    given: bytes,
    *words: str,
    config: Path | None = None,
    env: dict[str, str] | None = None,
    hasty: bool = False,
) -> tuple[int, Any, str]:
    """Exit code, what standard output says as JSON (None: nothing), and standard error. `hasty`: it waits as long as
    it does for an agent."""
    told = ["--agent", "BOT", "--config", str(config)] if config is not None else []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", *([] if hasty else ["-c", PATIENT]), SCRIPT, "hook", *told, *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=env,
    )
    out, said = await process.communicate(given)
    assert process.returncode is not None
    return process.returncode, json.loads(out) if out else None, said.decode()


def edit(tree: Path, tool: str = "Edit", **given: Any) -> bytes:
    return json.dumps({"tool_name": tool, "tool_input": given, "cwd": str(tree)}).encode()


# -- the routes


@pytest.mark.parametrize(
    ("path", "decision"),
    [("src/a.py", "steer"), ("src/../src/a.py", "steer"), ("src/b.py", "allow"), ("new/deep/c.py", "allow")],
)
async def test_the_route_answers_by_the_path_in_the_agents_folder(
    home: House, tree: Path, path: str, decision: str
) -> None:
    for named in (path, str(tree / path)):
        status, told, _ = await home.ask("POST", "/api/guard", json={"agent": "BOT", "path": named})
        assert (status, told["decision"]) == (200, decision)
        assert (told["advisory"], told["reason"]) == (("a1", REASON) if decision == "steer" else (None, ""))


@pytest.mark.parametrize("path", ["/etc/passwd", "../other", "out/passwd", ".", "a\0b"])
async def test_what_is_outside_goes_on_and_is_not_asked_about(
    home: House, guard: Standing, path: str
) -> None:
    status, told, _ = await home.ask("POST", "/api/guard", json={"agent": "BOT", "path": path})
    assert (status, told["decision"]) == (200, "allow") and told["reason"]
    assert guard.asked == []


async def test_a_file_of_another_checkout_is_the_same_file(tmp_path: Path, guard: Standing) -> None:
    main = tmp_path / "main"
    own, other = main / ".relay/worktrees/bot", main / ".relay/worktrees/other"
    for top in (main, own, other):
        (top / "src").mkdir(parents=True)
    allows: Any = guard
    folders = Folders(main, {"BOT": own, "TOP": main}, [main, own, other])
    routes = GuardRoutes(allows, folders, reader_of())
    async with house(tmp_path / "room", routes=routes.table()) as one:
        for agent in ("BOT", "TOP"):
            for top in (main, own, other):
                ask = {"agent": agent, "path": str(top / "src/a.py")}
                _, told, _ = await one.ask("POST", "/api/guard", json=ask)
                assert told["decision"] == "steer", (agent, top)
    assert {place.path for _, place in guard.asked} == {"src/a.py"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"path": "a"}, 400),
        ({"agent": "BOT"}, 400),
        ({"agent": "BOT", "path": "x" * 5000}, 400),
        ({"agent": "BOT", "path": "a", "lines": [2, 1]}, 400),
        ({"agent": "BOT", "path": "a", "lines": [True, 2]}, 400),
        ({"agent": "BOT", "path": "a", "lines": 3}, 400),
        ({"agent": "BOT", "path": "a", "more": 1}, 400),
        ({"agent": "BOT", "path": "a", "paths": ["b"]}, 400),
        ({"agent": "BOT", "paths": ["b"], "lines": [1, 2]}, 400),
        ({"agent": "BOT", "paths": "b"}, 400),
        ({"agent": "BOT", "paths": ["\ud800"]}, 400),
        ({"agent": "BOT", "paths": ["b", "x" * 5000]}, 400),
        ({"agent": "x" * 65, "path": "a"}, 400),
        ({"agent": "@BOT", "path": "a"}, 400),
        ({"agent": "BOT", "path": "a", "edits": [{"old": "", "new": "", "all": {}}]}, 400),
        ({"agent": "BOT", "path": "a", "content": "b", "edits": [{"old": "a"}]}, 400),
    ],
)
async def test_a_wrong_question_is_refused(home: House, body: dict[str, Any], status: int) -> None:
    found, told, _ = await home.ask("POST", "/api/guard", json=body)
    assert found == status and told["error"]["message"]


@BOTH
async def test_an_agent_that_somebody_else_runs_is_answered_by_the_same_rules(
    tmp_path: Path, tree: Path
) -> None:
    (tree / ".git").mkdir()
    beside, elsewhere = tmp_path / "beside", tmp_path / "elsewhere"
    for folder, told in ((beside, f"gitdir: {tree}/.git/worktrees/beside"), (elsewhere, "gitdir: /nowhere")):
        (folder / "src").mkdir(parents=True)
        (folder / ".git").write_text(told)
    clock = Clock()
    store = await engines.open_store(tmp_path / "log", engines.SCHEMAS, clock=clock)
    judge, sky = LockCheck(), Standing("src/b.py")
    guard = LockGuard(store, judge, sky)
    routes = GuardRoutes(guard, Folders(tree, {"BOT": tree}), reader_of("BOT"))
    try:
        locks = over(store).locks
        dev, bot = Caller("dev", "d1"), Caller("BOT", "b1")
        assert (await locks.acquire(bot, ["src/a.py"], reason="a move"))["success"]
        assert (await locks.acquire(dev, ["own.py"], ttl_s=60.0))["success"]
        async with house(tmp_path / "room", routes=routes.table()) as one:

            async def edit(agent: str, path: str, session: str | None = None) -> tuple[str, str | None]:
                asked = {"agent": agent, "path": path, "lines": [1, 2]}
                asked |= {"session": session} if session else {}
                status, told, _ = await one.ask("POST", "/api/guard", json=asked)
                assert status == 200, told
                return told["decision"], told["locked_by"]

            async def commit(agent: str, session: str, *paths: str) -> tuple[str, list[str]]:
                asked = {"agent": agent, "session": session, "paths": paths, "act": "commit"}
                _, told, _ = await one.ask("POST", "/api/guard/write", json=asked)
                return told["decision"], [f"{it['code']} {it['locked_by']}" for it in told["refusals"]]

            held = ("locked", "BOT")
            assert await edit("dev", "src/a.py", "d1") == await edit("dev", str(tree / "src/a.py")) == held
            # A worktree that somebody made without the room is one of the codebase; another repository is not.
            assert await edit("dev", str(beside / "src/a.py")) == held
            assert await edit("dev", str(elsewhere / "src/a.py")) == ("allow", None)
            assert await edit("dev", "own.py", "d1") == await edit("dev", "free.py") == ("allow", None)
            assert await edit("dev", "src/b.py") == ("steer", None)
            assert {place.lines for _, place in sky.asked} == {None}
            # An agent of the room's is known in whichever case its name is written.
            assert await edit("bot", "src/a.py", "b1") == ("allow", None)
            assert await commit("bot", "b1", "src/a.py") == ("allow", [])
            assert await commit("dev", "d1", "src/a.py", "own.py") == ("locked", ["locked BOT"])
            clock.now += 61.0
            assert await edit("dev", "own.py", "d1") == ("stale", "dev")
            assert await commit("dev", "d1", "own.py") == ("stale", ["stale_token dev"])
    finally:
        await store.close()


async def test_the_route_wants_a_key(home: House) -> None:
    async with home.client.post("/api/guard", json={"agent": "BOT", "path": "a"}) as response:
        assert response.status == 401


async def test_a_guard_that_does_not_answer_holds_no_edit_up(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck:
        async def decide(self, agent: str, location: Location, session: str | None = None) -> GuardDecision:
            await asyncio.Event().wait()
            raise AssertionError

    stuck: Any = Stuck()
    monkeypatch.setattr("relay.faces.http.routes.guard.GUARD_S", 0.05)
    async with house(
        tmp_path / "room", routes=GuardRoutes(stuck, Folders(tree, {"BOT": tree}), reader_of("BOT")).table()
    ) as one:
        _, told, _ = await one.ask("POST", "/api/guard", json={"agent": "BOT", "path": "src/a.py"})
        _, both, _ = await one.ask(
            "POST", "/api/guard", json={"agent": "BOT", "paths": ["/etc/x", "src/a.py"]}
        )
    assert told["decision"] == "allow" and "no answer" in told["reason"]
    assert [one["reason"][:20] for one in both["decisions"]] == ["The path is outside ", told["reason"][:20]]


async def test_without_an_airspace_nothing_is_contested() -> None:
    assert not (await Unguarded().decide("BOT", Location("src/a.py"))).steer


async def test_a_key_asks_as_its_own_agent_only(home: House, tree: Path) -> None:
    made = await home.auth.keys.create(Caller("ann", "web", person=True), "BOT", scopes=["read"])
    key = {"X-API-Key": made["key"]}
    for path in ("/api/guard", "/api/guard/write"):
        for agent, wanted in (("BOT", 200), ("OTHER", 403)):
            body = {"agent": agent, "path": "src/b.py"}
            if path.endswith("write"):
                body = {"agent": agent, "paths": ["b.py"], "act": "commit"}  # type: ignore[dict-item]
            status, told, _ = await home.ask("POST", path, json=body, headers=key)
            assert status == wanted, told
    status, told, _ = await home.ask(
        "POST", "/api/guard/write", json={"paths": ["b.py"], "act": "push", "override": "x"}, headers=key
    )
    # Whoever comes with an agent's key is that agent, and no person.
    assert told["asked"] == ["BOT", "-", False, ["b.py"], "push", "x"]
    _, told, _ = await home.ask("POST", "/api/guard/write", json={"paths": ["b.py"], "act": "commit"})
    assert told["asked"] == ["owner", "-", True, ["b.py"], "commit", ""]
    for bad in ({"act": "commit"}, {"paths": [], "act": "rm"}, {"paths": "a", "act": "push"}):
        status, _, _ = await home.ask("POST", "/api/guard/write", json=bad)
        assert status == 400, bad


# -- the hook


LOCK = LockRefusal(LOCKED, "src/a.py", "src", "CODEX", "s2", 1_800_000_000.0, 7, "a move")


async def test_a_locked_or_lost_file_is_refused_by_name(
    home: House, tree: Path, tmp_path: Path, guard: Standing
) -> None:
    config = tmp_path / "room" / "config.json"
    env = {"RELAY_SESSION_ID": "s-bot"}
    for code, decision in ((LOCKED, "locked"), (STALE, "stale")):
        guard.locks = {"src/a.py": replace(LOCK, code=code)}
        _, told, _ = await home.ask("POST", "/api/guard", json={"agent": "BOT", "path": "src/a.py"})
        assert (told["decision"], told["locked_by"], told["fencing_token"]) == (decision, "CODEX", 7)
        ended, said, noted = await hook(edit(tree, file_path="src/a.py"), config=config, env=env)
        reason = said["hookSpecificOutput"]["permissionDecisionReason"]
        assert (ended, noted) == (0, "") and reason == told["reason"]
        assert "2027-01-15T08:00:00+00:00" in reason
    assert guard.sessions == [None, "s-bot", None, "s-bot"]


@pytest.mark.parametrize("form", ["claude", "codex", "gemini"])
async def test_who_has_a_file_in_hand_is_told_beside_an_edit_that_goes_on(
    home: House, tree: Path, tmp_path: Path, guard: Standing, form: str
) -> None:
    guard.contested, guard.notes = set(), {"src/a.py": "CODEX changes src/a.py now."}
    config = tmp_path / "room" / "config.json"
    code, said, noted = await hook(edit(tree, file_path="src/a.py"), "--format", form, config=config)
    assert (code, noted) == (0, "")
    told = {"hookEventName": "PreToolUse", "additionalContext": "CODEX changes src/a.py now."}
    # No decision: the program's own rules decide as they would without us.
    assert said == (
        {"systemMessage": told["additionalContext"]} if form == "gemini" else {"hookSpecificOutput": told}
    )


async def test_the_locks_of_a_room_that_is_down_still_hold(tree: Path, tmp_path: Path) -> None:
    """They stand in its database. Nothing but the standard library is at hand: the hook runs with -I -S."""
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "config.json").write_text('{"agents": [{"name": "CODEX"}]}')
    (tree / ".git").mkdir()
    store = await engines.join(str(folder / ".relay" / "events.db"), engines.SCHEMAS)
    locks = over(store).locks
    try:
        assert (await locks.acquire(Caller("CODEX", "s1"), ["src/*.py"], reason="a move"))["success"]
        config, deep = folder / "config.json", tree / "src"
        for given in (edit(tree, file_path="src/a.py"), edit(deep, file_path="a.py")):
            code, said, noted = await hook(given, config=config)
            reason = said["hookSpecificOutput"]["permissionDecisionReason"]
            assert (
                code == 0 and "src/a.py is locked by CODEX" in reason and "advisories were not asked" in noted
            )
        for path in ("src/a.txt", "/etc/passwd", "other.py"):
            code, said, noted = await hook(edit(tree, file_path=path), config=config)
            assert (code, said) == (0, None) and "advisories" in noted
        mine = {"RELAY_AGENT_ID": "codex", "RELAY_SESSION_ID": "s1", "RELAY_CONFIG": str(config)}
        assert (await hook(edit(tree, file_path="src/a.py"), env=mine))[:2] == (0, None)
    finally:
        await store.close()
    # The database as a clean end leaves it, without what SQLite keeps beside it.
    assert (await hook(edit(tree, file_path="src/a.py"), config=config))[1] is not None
    (folder / ".relay" / "events.db").write_text("no database")
    code, said, noted = await hook(edit(tree, file_path="src/a.py"), config=config)
    assert (code, said) == (0, None) and "cannot be read" in noted
    config.write_text('{"storage": "postgres"}')
    code, said, noted = await hook(edit(tree, file_path="src/a.py"), config=config)
    assert (code, said) == (0, None) and "postgres" in noted


DENIED = {
    "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": REASON,
    }
}
PATCH = "*** Begin Patch\n*** Update File: {}\n*** Move to: {}\n@@\n-x\n+y\n*** End Patch\n"


@pytest.mark.parametrize(
    ("form", "tool", "given", "refused"),
    [
        ("claude", "Edit", {"file_path": "src/a.py", "old_string": "two", "new_string": "2"}, DENIED),
        ("claude", "NotebookEdit", {"notebook_path": "src/a.py"}, DENIED),
        ("codex", "apply_patch", {"command": PATCH.format("src/a.py", "src/z.py")}, DENIED),
        ("codex", "apply_patch", {"command": ["apply_patch", PATCH.format("b.py", "src/a.py")]}, DENIED),
        ("gemini", "replace", {"file_path": "src/a.py"}, {"decision": "deny", "reason": REASON}),
    ],
)
async def test_a_contested_edit_is_refused_in_the_programs_own_words(
    home: House, tree: Path, tmp_path: Path, form: str, tool: str, given: dict[str, Any], refused: Any
) -> None:
    config = tmp_path / "room" / "config.json"
    code, said, noted = await hook(edit(tree, tool, **given), "--format", form, config=config)
    assert (code, said, noted) == (0, refused, "")


async def test_every_file_of_a_patch_is_asked_about(
    home: House, tree: Path, tmp_path: Path, guard: Standing
) -> None:
    config = tmp_path / "room" / "config.json"
    new = [f"new/{number}.py" for number in range(edit_hook.AT_ONCE + 1)]
    added = "".join(f"*** Add File: {name}\n+x\n" for name in new)
    patch = f"*** Begin Patch\n{added}*** Update File: {{}}\n@@\n-x\n+y\n*** End Patch\n"
    code, said, noted = await hook(edit(tree, "apply_patch", command=patch.format("src/a.py")), config=config)
    assert (code, said, noted) == (0, DENIED, "")
    assert [place.path for _, place in guard.asked] == [*new, "src/a.py"]
    given = edit(tree, "apply_patch", command=patch.format("/etc/passwd"))
    assert await hook(given, config=config) == (0, None, "")
    body = {"agent": "BOT", "paths": ["src/b.py", "src/a.py", "/etc/passwd"]}
    _, told, _ = await home.ask("POST", "/api/guard", json=body)
    assert [one["decision"] for one in told["decisions"]] == ["allow", "steer", "allow"]
    assert "outside" in told["decisions"][2]["reason"]


async def test_an_edit_that_may_go_on_gets_no_word(
    home: House, tree: Path, tmp_path: Path, guard: Standing
) -> None:
    config = tmp_path / "room" / "config.json"
    for form in edit_hook.FORMATS:
        found = await hook(edit(tree, file_path=str(tree / "src" / "b.py")), "--format", form, config=config)
        assert found == (0, None, "")
    assert [(agent, place.path) for agent, place in guard.asked] == [("BOT", "src/b.py")] * 3


async def test_the_lines_of_an_exchange_of_texts_are_told(
    home: House, tree: Path, tmp_path: Path, guard: Standing
) -> None:
    config = tmp_path / "room" / "config.json"
    await hook(edit(tree, file_path="src/a.py", old_string="two\nthree\n"), config=config)
    await hook(edit(tree, file_path="src/a.py", old_string="not there"), config=config)
    await hook(edit(tree, "Write", file_path="src/a.py", content="x"), config=config)
    assert [place.lines for _, place in guard.asked] == [(2, 3), None, None]


async def test_who_and_where_come_from_the_environment(home: House, tree: Path, tmp_path: Path) -> None:
    env = {"RELAY_AGENT_ID": "BOT", "RELAY_CONFIG": str(tmp_path / "room" / "config.json")}
    code, said, _ = await hook(edit(tree, file_path="src/a.py"), env=env)
    assert (code, said) == (0, DENIED)
    # A room that does not take the question is quoted by message and fix, without its HTTP.
    code, said, noted = await hook(edit(tree, file_path="src/a.py"), env={**env, "RELAY_API_KEY": "rk_bad"})
    assert (code, said) == (0, None) and "the room says: " in noted and "relay keys create" in noted
    assert "HTTP/1.1" not in noted and "{" not in noted


async def test_a_room_that_does_not_run_refuses_nothing(tree: Path, tmp_path: Path) -> None:
    code, said, noted = await hook(edit(tree, file_path="src/a.py"), config=tmp_path / "config.json")
    assert (code, said) == (0, None) and "is not running" in noted


async def test_a_room_that_went_away_refuses_nothing(tree: Path, tmp_path: Path) -> None:
    async with house(tmp_path / "room") as one:
        (tmp_path / "room" / ".relay" / "state.json").write_text(json.dumps({"url": f"http://{one.at}"}))
    given = edit(tree, file_path="src/a.py")
    code, said, noted = await hook(given, config=tmp_path / "room" / "config.json")
    assert (code, said) == (0, None) and "goes on" in noted


async def test_a_room_that_hangs_is_given_up(tree: Path, tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the hook hangs up
        writer.close()
        ended.set()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        (tmp_path / ".relay").mkdir()
        (tmp_path / ".relay" / "token").write_text("t\n")
        (tmp_path / ".relay" / "state.json").write_text(json.dumps({"url": f"http://127.0.0.1:{port}"}))
        config = tmp_path / "config.json"
        code, said, noted = await hook(edit(tree, file_path="src/a.py"), config=config, hasty=True)
        await ended.wait()
    assert (code, said) == (0, None) and "goes on" in noted


@pytest.mark.parametrize("given", [b"", b"{", b"[]", b'{"tool_input": 3}', b"null", b"\xff\xfe"])
async def test_what_is_not_understood_goes_on(home: House, tmp_path: Path, given: bytes) -> None:
    code, said, noted = await hook(given, config=tmp_path / "room" / "config.json")
    assert (code, said) == (0, None) and "goes on" in noted


@pytest.mark.parametrize("words", [("--format", "vim"), ("--nonsense", "1"), ("--format",)])
async def test_a_wrong_use_is_said(tmp_path: Path, words: tuple[str, ...]) -> None:
    code, said, noted = await hook(b"{}", *words, config=tmp_path / "config.json")
    # Not 2: to all three programs that is a refusal of the edit.
    assert (code, said) == (1, None) and "usage" in noted


async def test_the_command_of_relay_is_the_same(home: House, tree: Path, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "relay.cli", "guard", "hook", "--agent", "BOT"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "RELAY_CONFIG": str(tmp_path / "room" / "config.json")},
    )
    out, _ = await process.communicate(edit(tree, file_path="src/a.py"))
    assert (process.returncode, json.loads(out)) == (0, DENIED)


def test_what_an_error_says_is_shown_without_its_form(capsys: pytest.CaptureFixture[str]) -> None:
    told = b'{"error": {"code": "scope", "message": "No.", "fix": "Ask\\u001b ann."}}'
    assert edit_hook.said_no(b"HTTP/1.1 403 Forbidden", told) == "No. Ask\ufffd ann."
    assert edit_hook.said_no(b"HTTP/1.1 503 Service Unavailable", b"<html>") == "503 Service Unavailable"
    assert edit_hook.said_no(b"", b"[]") == "not HTTP"
    assert edit_hook.main(["hook", "--help"]) == 0 and "usage" in capsys.readouterr().out


def test_what_was_refused_stands_when_time_runs_out_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [f"{number}.py" for number in range(edit_hook.AT_ONCE + 1)]

    def ask(decision: str, reason: str) -> tuple[list[str], str]:
        def post(_: Any, path: str, question: dict[str, Any], give_up: float) -> dict[str, Any]:
            if "paths" not in question:
                raise edit_hook.CannotAsk("no answer in time")
            return {"decisions": [{"decision": decision, "reason": reason}] * len(question["paths"])}

        monkeypatch.setattr(edit_hook, "post", post)
        return edit_hook.ask_room(("", 0, "", ""), places, "apply_patch", {}, "BOT", "", 0.0)

    assert ask("locked", "It is ann's.") == (["It is ann's."], "", "")
    with pytest.raises(edit_hook.CannotAsk):
        ask("allow", "")
    places.pop()
    assert ask("allow", "The guard gave no answer within 1.5 s.") == (
        [],
        "The guard gave no answer within 1.5 s.",
        "",
    )


def test_the_hook_imports_little() -> None:
    """It starts before every edit; what is not needed at once is not to be loaded."""
    source = Path(edit_hook.__file__).read_text()
    imports = [line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))]
    assert set(imports) == {"__future__", "_socket", "relay.app.guard", "os", "sys", "time"}

"""The commands of a shell: what the guard's route answers on them, and what the hook makes of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay.app.guard import hook as edit_hook
from relay.coordination.writes.fencing import LockCheck
from relay.coordination.writes.lock_guard import LockGuard
from relay.faces.http.routes.guard import GuardRoutes
from relay.model import LOCKED, Caller, LockRefusal
from tests import engines
from tests.app.guard.test_hook import edit, guard, home, hook, tree
from tests.coordination.desk import over
from tests.engines import BOTH
from tests.faces.house import House, house, reader_of
from tests.standing import REASON, Folders, Standing

__all__ = ["guard", "home", "tree"]
LOCK = LockRefusal(LOCKED, "src/b.py", "src", "CODEX", "s2", 1_800_000_000.0, 7, "a move")


async def ask(home: House, command: str, cwd: str = "", **more: Any) -> Any:
    body = {"agent": "BOT", "command": command, "cwd": cwd, **more}
    status, told, _ = await home.ask("POST", "/api/guard", json=body)
    assert status == 200, told
    return told


@pytest.mark.parametrize(
    ("command", "cwd", "decision"),
    [
        ("sed -i s/one/1/ src/a.py", "", "steer"),
        ("sed -i s/one/1/ a.py", "src", "steer"),
        ("echo x | tee new.txt src/a.py", "", "steer"),
        ("rm -rf src", "", "steer"),
        ("cp -r src other", "", "allow"),
        ("cat src/a.py; grep -rn two src | sort > found.txt", "", "allow"),
        ("make test && git status", "", "allow"),
        ("test -f x && true || echo x > src/a.py", "", "allow"),
        ("git checkout -- src", "", "allow"),
        ("echo x > /tmp/a.py", "", "allow"),
    ],
)
async def test_a_command_is_judged_by_what_it_surely_writes(
    home: House, guard: Standing, command: str, cwd: str, decision: str
) -> None:
    told = await ask(home, command, cwd)
    assert told["decision"] == decision, told
    if decision == "steer":
        assert told["reason"].startswith(f"This shell command would write src/a.py. {REASON}")
        assert guard.ran == []
    else:
        assert guard.ran == [("BOT", command)]


async def test_what_may_be_written_is_noted_and_what_nobody_can_tell_passes(
    home: House, guard: Standing
) -> None:
    guard.locks = {"src/b.py": LOCK}
    told = await ask(home, "if make; then echo x > src/b.py; fi; python3 -c 'open(1)'")
    assert told["decision"] == "allow"
    assert "may write what is held: src/b.py is locked by CODEX" in told["note"]
    assert told["writes"] == [{"path": "src/b.py", "sure": False}]
    assert told["unknown"] == ["a script that `python3` is given"]
    told = await ask(home, "echo x > src/b.py")
    assert (told["decision"], told["locked_by"]) == ("locked", "CODEX")
    for part in ("shell command", "src/b.py", "CODEX", "2027-01-15T08:00:00+00:00", "Take other work first"):
        assert part in told["reason"]


async def test_a_folder_of_many_files_is_asked_about_with_all_of_them(
    home: House, tree: Path, guard: Standing
) -> None:
    for number in range(120):
        (tree / "src" / f"f{number:03}.py").write_text("x")
    guard.contested = set()
    guard.locks = {"src/f117.py": replace(LOCK, path="src/f117.py")}
    told = await ask(home, "rm -rf src")
    assert told["decision"] == "locked" and "would write src/f117.py" in told["reason"]
    assert told["more"] > 0
    assert (await ask(home, "rm -rf src/f001.py src/f002.py"))["decision"] == "allow"


@pytest.mark.parametrize(
    "body",
    [
        {"command": " "},
        {"command": 3},
        {"command": "ls", "path": "a"},
        {"command": "ls", "paths": ["a"]},
        {"command": "ls", "content": "a"},
        {"command": "ls", "cwd": 3},
    ],
)
async def test_a_wrong_question_is_refused(home: House, body: dict[str, Any]) -> None:
    status, told, _ = await home.ask("POST", "/api/guard", json={"agent": "BOT", **body})
    assert status == 400 and told["error"]["message"]


@BOTH
async def test_locks_are_asked_of_the_store(tmp_path: Path, tree: Path) -> None:
    store = await engines.open_store(tmp_path / "log", engines.SCHEMAS)
    guard = LockGuard(store, LockCheck(), Standing())
    routes = GuardRoutes(guard, Folders(tree, {"BOT": tree}), reader_of("BOT"))
    try:
        locks = over(store).locks
        assert (await locks.acquire(Caller("CODEX", "c1"), ["src/a.py"], reason="a move"))["success"]
        assert (await locks.acquire(Caller("BOT", "b1"), ["src/mine.py"]))["success"]
        async with house(tmp_path / "room", routes=routes.table()) as one:
            told = await ask(one, "touch src/mine.py && mv src/a.py src/z.py", session="b1")
            assert (told["decision"], told["locked_by"]) == ("locked", "CODEX")
            assert "until " in told["reason"] and '"a move"' in told["reason"]
            assert (await ask(one, "echo x > src/mine.py", session="b1"))["decision"] == "allow"
            told = await ask(one, "ls || rm src/a.py", session="b1")
            assert told["decision"] == "allow" and "src/a.py is locked by CODEX" in told["note"]
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("form", "tool", "given"),
    [
        ("claude", "Bash", {"command": "sed -i s/one/1/ src/a.py", "description": "x"}),
        ("codex", "Bash", {"command": "cat > src/a.py <<'EOF'\nx\nEOF"}),
        ("codex", "shell", {"command": ["bash", "-lc", "sed -i s/one/1/ src/a.py"]}),
        ("gemini", "run_shell_command", {"command": "rm a.py", "dir_path": "src"}),
    ],
)
async def test_a_command_is_refused_in_the_programs_own_words(
    home: House, tree: Path, tmp_path: Path, form: str, tool: str, given: dict[str, Any]
) -> None:
    config = tmp_path / "room" / "config.json"
    code, said, noted = await hook(edit(tree, tool, **given), "--format", form, config=config)
    reason = said["reason"] if form == "gemini" else said["hookSpecificOutput"]["permissionDecisionReason"]
    assert (code, noted) == (0, "") and reason.startswith("This shell command would write src/a.py.")
    given["command"] = "cat src/a.py | wc -l"
    assert await hook(edit(tree, tool, **given), "--format", form, config=config) == (0, None, "")


async def test_without_a_room_the_locks_are_looked_up(tree: Path, tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "config.json").write_text('{"agents": [{"name": "CODEX"}]}')
    (tree / ".git").mkdir()
    store = await engines.join(str(folder / ".relay" / "events.db"), engines.SCHEMAS)
    try:
        assert (await over(store).locks.acquire(Caller("CODEX", "s1"), ["src/a.py"]))["success"]
    finally:
        await store.close()
    config = folder / "config.json"
    code, said, noted = await hook(edit(tree, "Bash", command="cd src && rm a.py"), config=config)
    reason = said["hookSpecificOutput"]["permissionDecisionReason"]
    assert code == 0 and "would write src/a.py. src/a.py is locked by CODEX" in reason
    assert "advisories were not asked" in noted
    for command in ("cat src/a.py", "rm other.py", "true || rm src/a.py"):
        assert (await hook(edit(tree, "Bash", command=command), config=config))[:2] == (0, None)


async def test_a_room_of_before_lets_a_command_pass(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def post(*_: Any) -> dict[str, Any]:
        refused = edit_hook.CannotAsk("the room says: unknown field: command")
        refused.status = 400
        raise refused

    monkeypatch.setattr(edit_hook, "post", post)
    reasons, note, context = edit_hook.ask_command(("", 0, "", ""), "rm a", str(tree), "Bash", "BOT", "", 0.0)
    assert (reasons, context) == ([], "") and "not asked about" in note


def test_only_a_shell_is_given_a_command() -> None:
    patch = {"command": "*** Begin Patch\n*** End Patch"}
    assert edit_hook.command_of("apply_patch", patch) == ""
    assert edit_hook.command_of("Edit", {"file_path": "a"}) == ""
    assert edit_hook.command_of("Bash", {"command": "  "}) == ""
    assert json.loads('{"command": "ls"}')["command"] == edit_hook.command_of("Bash", {"command": "ls"})

"""`relay locks`, `work`, `sessions` and `changesets`, over a real database, with no daemon."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from relay.cli import main
from relay.config.loading import load
from relay.config.settings import LiveSettings
from relay.faces.services import Services, services_of
from relay.model import Caller, Refusal
from relay.store.open import open_store
from tests.engines import SCHEMAS, all_events
from tests.git.repository import commit, git, repository

CLAUDE, CODEX = Caller("CLAUDE", "c-1"), Caller("CODEX", "x-1")
Did = tuple[int, str, str]


class Room:
    """A room that no daemon runs, and its command line."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.config = folder / "config.json"
        self.config.write_text(
            json.dumps({"agents": [{"name": "CLAUDE", "kind": "command", "cmd": ["true"]}]})
        )
        self._capsys = capsys

    def relay(self, *words: str) -> Did:
        """Exit code, standard output, standard error."""
        self._capsys.readouterr()
        try:
            code = main([words[0], *words[1:], "--config", str(self.config)])
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else -1
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def json(self, *words: str) -> Any:
        code, out, err = self.relay(*words, "--json")
        assert code == 0, err
        return json.loads(out)

    def agents_do(self, work: Callable[[Services], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            settings = load(self.config)
            settings.runtime_dir.mkdir(exist_ok=True)
            store = await open_store(settings, SCHEMAS)
            try:
                return await work(services_of(store, LiveSettings(settings)))
            finally:
                await store.close()

        return asyncio.run(run())

    def events(self, *types: str) -> list[Any]:
        async def run() -> list[Any]:
            store = await open_store(load(self.config), SCHEMAS)
            try:
                return await all_events(store, *types)
            finally:
                await store.close()

        return asyncio.run(run())


@pytest.fixture
def room(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Room:
    return Room(tmp_path, capsys)


def test_locks_are_listed_shown_and_released_by_force(room: Room) -> None:
    assert room.relay("locks") == (0, "Nobody holds a lock.\n", "")
    assert room.json("locks") == []

    async def take(services: Services) -> None:
        await services.locks.acquire(CLAUDE, ["src/app.py"], reason="a new\x1b[31m door")
        await services.locks.acquire(CODEX, ["docs/**"], mode="shared")

    room.agents_do(take)
    code, out, _ = room.relay("locks", "list")
    assert code == 0
    assert [line.split() for line in sorted(out.splitlines())] == [
        ["docs/**", "CODEX", "30", "min", "left", "shared"],
        ["src/app.py", "CLAUDE", "30", "min", "left", "a", "new", "door"],
    ]
    assert {lock["locked_by"] for lock in room.json("locks")} == {"CLAUDE", "CODEX"}
    assert "CLAUDE (session c-1) holds src/app.py, since" in room.relay("locks", "show", "src/app.py")[1]
    assert room.relay("locks", "show", "lib")[1] == "lib is free.\n"
    for words, said in (
        (("locks", "release", "src/app.py"), "--reason"),
        (("locks", "release"), "PATH"),
        (("locks", "show"), "PATH"),
        (("locks", "list", "src"), "no PATH"),
        (("locks", "take", "src"), "invalid choice"),
        (("locks", "show", "../x"), "root"),
        (("locks", "list", "--name", "CLAUDE"), "--name"),
    ):
        code, out, err = room.relay(*words)
        assert (code, out) == (2, "") and said in err, (words, err)
    code, out, err = room.relay("locks", "release", "src", "--reason", "mine", "--json")
    assert (code, json.loads(out)["reason"]) == (1, "not_held") and "src/app.py" in err
    code, out, _ = room.relay("locks", "release", "src/app.py", "--reason", "it's mine", "--name", "ann")
    assert (code, out) == (0, "src/app.py is free: CLAUDE held it, and has been told.\n")
    assert [lock["file_path"] for lock in room.json("locks")] == ["docs/**"]
    (forced,) = room.events("lock.forced")
    assert (forced.outputs["by"], forced.outputs["reason"]) == ("ann", "it's mine")


def test_sessions_are_listed_and_ended(room: Room) -> None:
    async def come(services: Services) -> None:
        await services.locks.acquire(CLAUDE, ["src/app.py"])
        await services.locks.acquire(Caller("CODEX", "c-1"), ["src/b.py"])

    room.agents_do(come)
    assert "CLAUDE" in room.relay("sessions")[1] and "1 lock" in room.relay("sessions")[1]
    code, _, err = room.relay("sessions", "end", "c-1")
    assert code == 2 and "--agent" in err
    code, _, err = room.relay("sessions", "end", "c-9")
    assert code == 1 and "There is no living session c-9" in err
    assert room.relay("sessions", "end")[0] == room.relay("sessions", "end", "a b")[0] == 2
    code, out, _ = room.relay("sessions", "end", "c-1", "--agent", "CLAUDE", "--name", "ann")
    assert (code, out) == (0, "The session c-1 of CLAUDE is ended; what it held is free.\n")
    assert [lock["locked_by"] for lock in room.json("locks")] == ["CODEX"]
    living = {(one["agent_id"], one["alive"]) for one in room.json("sessions")}
    assert ("CODEX", True) in living and ("CLAUDE", True) not in living
    ended = [one for one in room.json("sessions", "--all") if one["agent_id"] == "CLAUDE"]
    assert [(one["alive"], one["end_reason"]) for one in ended] == [(False, "ended by ann")]
    assert "ended by ann" in room.relay("sessions", "--all")[1]

    async def wake(services: Services) -> None:
        with pytest.raises(Refusal) as lost:
            await services.locks.release(CLAUDE, "src/app.py")
        assert (lost.value.code, lost.value.details["forced_by"]) == ("stale_token", "ann")

    room.agents_do(wake)


def test_work_is_submitted_shown_and_reopened(room: Room) -> None:
    assert room.relay("work") == (0, "No task is open.\n", "")
    code, out, _ = room.relay(
        "work",
        "submit",
        "Build it",
        "--type",
        "build",
        "--priority",
        "2",
        "--input",
        '{"a": [1]}',
        "--name",
        "ann",
    )
    assert (code, out) == (0, "Task t1 is pending.\n")
    folder = repository(room.config.parent)
    git(folder, "config", "user.name", "Ann Lee")  # without --name git says who it is
    told = room.json("work", "submit", "Ship it", "--depends-on", "#1", "--file", "src/**")
    assert "made by Ann Lee" in room.relay("work", "show", "2")[1]
    assert (told["number"], told["status"]) == (2, "blocked")
    assert [one["number"] for one in room.json("work", "list", "--status", "blocked")] == [2]
    assert [one["number"] for one in room.json("work", "list", "--of-type", "build")] == [1]
    assert room.relay("work", "list", "--assignee", "nobody")[1] == "No task is open.\n"
    for words, code, said in (
        (("work", "submit", "x", "--input", "{"), 2, "not JSON"),
        (("work", "submit", "x", "--priority", "11"), 2, "priority"),
        (("work", "submit", "x", "--depends-on", "9"), 1, "t9"),
        (("work", "submit", "x", "--depends-on", "one"), 2, "'one'"),
        (("work", "submit"), 2, "what is to be done"),
        (("work", "show"), 2, "number"),
        (("work", "show", "99"), 1, "99"),
        (("work", "show", "9" * 10), 2, "not a task number, like t12"),
        (("work", "list", "1"), 2, "takes nothing"),
        (("work", "reopen", "1"), 1, ""),
    ):
        did = room.relay(*words)
        assert did[0] == code and did[1] == "" and said in did[2], (words, did)

    async def fail(services: Services) -> None:
        task = await services.work.get(CLAUDE, ["build"])
        await services.work.complete(CLAUDE, task["task_id"], False, error_message="exit code 1")

    room.agents_do(fail)
    lines = room.relay("work")[1].splitlines()
    assert lines[0].split()[:2] == ["t2", "blocked"] and lines[1].split()[:2] == ["t1", "failed"]
    assert "exit code 1" in lines[1] and "failed" in lines[1] and "CLAUDE" in lines[1]
    waiting = room.relay("work", "show", "2")[1]
    for words in ("waits for: t1 (failed)", "type task, priority 5, attempt 1 of 3", "files: src/**"):
        assert words in waiting, waiting
    shown = room.relay("work", "show", "#1")[1]
    for words in (
        "failed, made by ann",
        "type build, priority 2, attempt 1 of 3",
        "ended by CLAUDE",
        'input: {"a": [1]}',
        "error: exit code 1",
        "CLAUDE claimed",
        "CLAUDE failed",
    ):
        assert words in shown, shown
    code, out, _ = room.relay("work", "reopen", "1", "--reason", "the disk is mended")
    assert (code, out) == (0, "Task t1 is open again: a new attempt.\n")
    assert [(task["number"], task["status"], task["badge"]) for task in room.json("work")] == [
        (1, "pending", None),
        (2, "pending", "blocked"),
    ]


def test_changesets_are_listed_and_shown(room: Room) -> None:
    assert room.relay("changesets") == (0, "No changeset is recorded.\n", "")
    assert room.relay("changesets", "--limit", "0")[0] == room.relay("changesets", "show")[0] == 2
    code, _, err = room.relay("changesets", "show", "nothing")
    assert code == 1 and f"relay changesets --config {room.config}`" in err, "it would find no other room"
    assert f"relay sessions --config {room.config}`" in room.relay("sessions", "end", "nobody")[2]
    assert f"relay keys list --config {room.config}`" in room.relay("keys", "revoke", "0" * 16)[2]
    repo = repository(room.config.parent / "repo")
    configured = json.loads(room.config.read_text()) | {"workspace": {"repo": "repo"}}
    room.config.write_text(json.dumps(configured))
    base = git(repo, "rev-parse", "HEAD").strip()
    commit(repo, {"new.py": "x = 1\n", "other.py": "y = 1\n"})

    async def record(services: Services) -> Any:
        return await services.changesets.record(CLAUDE, "one file", ["new.py"], base=base, head="HEAD")

    made = room.agents_do(record)
    assert made["undeclared"] == ["other.py"]
    (line,) = room.relay("changesets")[1].splitlines()
    assert "CLAUDE" in line and " 1 file  1 undeclared" in line and line.endswith("one file")
    shown = room.relay("changesets", "show", made["changeset_id"][:13])[1]
    assert "declared: new.py" in shown and "not declared: other.py" in shown
    words = ("record", "by hand", "new.py", "gone.py", "--base", base, "--head", "HEAD")
    code, out, err = room.relay("changesets", *words, "--name", "ann")
    assert (code, err) == (0, "")
    assert "not declared: other.py" in out and "not changed: gone.py" in out
    assert len(room.json("changesets")) == 2
    assert [one["agent_id"] for one in room.json("changesets", "--agent", "ann")] == ["ann"]
    assert room.relay("changesets", "record", "by hand")[0] == 2


def test_a_key_that_is_taken_back_gives_back_what_it_held(room: Room) -> None:
    made = json.loads(room.relay("keys", "create", "cloud", "--json")[1])
    its = Caller("cloud", f"key-{made['id']}")
    room.agents_do(lambda services: services.locks.acquire(its, ["a.py"]))
    assert [lock["locked_by"] for lock in room.json("locks")] == ["cloud"]
    assert room.relay("keys", "revoke", made["id"])[0] == 0
    assert room.json("locks") == []


_LIE = "mine\nNobody holds a lock.\rCODEX holds all.\u2028CODEX is done.\x1b[2J\x85t9 done"


def test_what_others_wrote_makes_no_line_of_a_commands_own(room: Room) -> None:
    async def work(services: Services) -> Any:
        await services.locks.acquire(CLAUDE, ["src/a.py"], reason=_LIE)
        return await services.work.submit(CLAUDE, "task", _LIE)

    room.agents_do(work)
    for words in (
        ("locks",),
        ("locks", "show", "src/a.py"),
        ("work",),
        ("work", "show", "1"),
        ("sessions",),
        ("changesets",),
    ):
        code, out, err = room.relay(*words)
        assert code == 0, err
        assert not [line for line in out.split("\n") if line.startswith(("Nobody", "CODEX", "t9"))], (
            f"{words}: {out}"
        )
        assert all(char == "\n" or char.isprintable() for char in out), words
    raw = room.relay("locks", "--json")[1]
    assert raw.isascii()
    assert json.loads(raw)[0]["reason"] == _LIE

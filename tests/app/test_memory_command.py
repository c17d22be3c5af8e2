"""`relay memory`, over a real database with no daemon, and beside a room that runs."""

from __future__ import annotations

import asyncio
import io
import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.app.memory import lines
from relay.config.loading import load
from relay.log import events
from relay.memory.episodic.importing import MOST_LINE
from relay.memory.episodic.keeping import REMEMBERED
from relay.model import ADMIN, SCOPES, Caller
from relay.store.open import opened_store
from tests import engines
from tests.app.test_coordination_commands import Room
from tests.engines import BOTH
from tests.outside import eventually

ANN = Caller("ann", "cli", "person", person=True, scopes=SCOPES | {ADMIN})
AT = "2023-05-08T13:56:00Z"


@pytest.fixture
def room(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Room:
    made = Room(tmp_path, capsys)
    engine = engines.configure(tmp_path / ".relay", monkeypatch)
    made.config.write_text(json.dumps(json.loads(made.config.read_text()) | engine))
    return made


def told(key: str, summary: str, **more: Any) -> str:
    return json.dumps({"key": key, "event_type": "fix", "summary": summary, "at": AT} | more)


def file_of(folder: Path, *said: str) -> str:
    path = folder / "memories.jsonl"
    path.write_text("\n".join([*said, ""]))
    return str(path)


@BOTH
def test_memories_are_imported_and_each_bad_line_is_named(room: Room, tmp_path: Path) -> None:
    file = file_of(
        tmp_path,
        told("a", "never mock the clock"),
        "{",
        told("b", "deploys need the VPN"),
        told("c", "x", at="9999-01-01T00:00:00Z"),
    )
    code, out, err = room.relay("memory", "import", file, "--name", "ann", "--json")
    done = json.loads(out)
    assert (code, err, done["imported"], done["merged"], done["known"]) == (1, "", 2, 0, 0)
    assert [(line["line"], sorted(line)) for line in done["refused"]] == [
        (2, ["fix", "line", "reason"]),
        (4, ["fix", "line", "reason"]),
    ]
    code, out, _ = room.relay("memory", "import", file, "--name", "ann")
    assert (code, out.splitlines()[0]) == (1, "0 imported, 2 known, 2 refused.")
    assert out.splitlines()[1].startswith("line 2: The line is not JSON")
    [found] = room.json("memory", "recall", "may I mock the clock?", "--limit", "1")["memories"]
    assert (found["key"], found["keys"], found["memory_type"]) == ("a", ["a"], "episodic")
    row = room.relay("memory", "recall", "clock")[1]
    assert "never mock the clock" in row and "imported by" not in row
    room.relay("memory", "import", file_of(tmp_path, told("d", "tabs in Go", agent="BETA")), "--name", "ann")
    assert "BETA (imported by ann)" in room.relay("memory", "recall", "tabs")[1]
    shown = room.json("memory", "show", found["memory_id"])
    assert (shown["keys"], shown["imported_by"], shown["agent_id"]) == (["a"], "ann", "ann")
    code, out, _ = room.relay("memory", "show", f"r{found['number']}")
    assert code == 0 and "imported by ann" in out
    name = f"r{found['number']}"
    assert room.json("memory", "feedback", name, "--useful", "--note", "it hid a bug")["useful"] == 1
    code, out, _ = room.relay("memory", "feedback", found["memory_id"], "--not-useful")
    assert (code, out) == (0, "It is noted: 0 say that it helped, 1 that it did not.\n")
    assert room.relay("memory", "recall", "zebra")[1] == "Nothing that is remembered bears on it.\n"


@BOTH
def test_a_memory_is_shown_with_what_was_said_of_it(room: Room, tmp_path: Path) -> None:
    file = file_of(tmp_path, told("a", "use PostgreSQL", lessons=["because two machines need it", "tune it"]))
    room.json("memory", "import", file)
    assert room.json("memory", "show", "r1")["feedback"] == []
    assert "feedback" not in room.relay("memory", "show", "r1")[1]
    room.json("memory", "feedback", "r1", "--useful", "--name", "ann")
    room.json("memory", "feedback", "r1", "--not-useful", "--note", "we have SQLite", "--name", "bob")
    said = room.json("memory", "show", "r1")["feedback"]
    assert [(each["agent_id"], each["useful"], each["note"]) for each in said] == [
        ("ann", True, None),
        ("bob", False, "we have SQLite"),
    ]
    assert all(sorted(each) == ["agent_id", "at", "note", "useful"] for each in said)
    first, second = room.relay("memory", "show", "r1")[1].splitlines()[-2:]
    assert first.startswith("feedback") and first.endswith(": useful")
    assert second.startswith(" ") and second.endswith(": not useful: we have SQLite")
    # The words of a text need no quotation marks, and what it says has its reason.
    for words in (("two", "machines"), ("--limit", "3", "two", "machines"), ("two machines", "--limit", "3")):
        (line,) = room.relay("memory", "recall", *words)[1].splitlines()
        assert line.endswith("use PostgreSQL because two machines need it / tune it"), words


def test_a_file_of_another_kind_is_refused_in_one_sentence(room: Room, tmp_path: Path) -> None:
    file = file_of(tmp_path, *(f"a line of prose, {number}" for number in range(30)))
    code, out, err = room.relay("memory", "import", file, "--name", "ann")
    assert (code, out) == (1, "")
    assert err.startswith(
        f"relay: {file} is not a JSONL file: none of its 30 lines is JSON; give one JSON object"
    )
    code, out, _ = room.relay("memory", "import", file, "--name", "ann", "--json")
    assert code == 1 and len(json.loads(out)["refused"]) == 30, "a program has each of them"


@BOTH
def test_what_was_only_said_next_to_a_hit_stands_behind_a_line(room: Room, tmp_path: Path) -> None:
    said = ("the emu eats grass", "never mock the clock")
    file = file_of(tmp_path, *(told(text, text, session="s", at=AT) for text in said))
    room.json("memory", "import", file)
    first, label, second = room.relay("memory", "recall", "clock")[1].splitlines()
    assert (first.endswith("never mock the clock"), label, second.endswith("the emu eats grass")) == (
        True,
        "Said next to it:",
        True,
    )
    # It takes no place of what has the words itself.
    file = file_of(tmp_path, told("alone", "the old clock of the tower, of the church and of the town"))
    room.json("memory", "import", file)
    lines = room.relay("memory", "recall", "clock", "--limit", "2")[1].splitlines()
    assert [line[-4:] for line in lines] == ["lock", "town"]
    # A number that nothing explains says nothing to a person; programs have it.
    assert "0." not in first
    memories = room.json("memory", "recall", "clock")["memories"]
    by_text = {each["summary"]: (each["why"]["words"], each["why"]["neighbour"]) for each in memories}
    assert (by_text[said[0]], by_text[said[1]]) == (([], ["clock"]), (["clock"], []))


@BOTH
def test_forgotten_is_told_by_no_command(room: Room, tmp_path: Path) -> None:
    file = file_of(tmp_path, told("a", "never mock the clock"), told("b", "the clock of the host is wrong"))
    room.json("memory", "import", file)
    found = {each["key"]: each for each in room.json("memory", "recall", "clock")["memories"]}
    a, b = found["a"], found["b"]
    assert room.json("memory", "forget", f"r{a['number']}")["success"]
    code, out, _ = room.relay("memory", "forget", b["memory_id"])
    said = f'Forgotten: r{b["number"]}, "the clock of the host is wrong". Nobody is told it again.'
    assert code == 0 and out.startswith(said)
    hint = out.partition("`")[2].partition("`")[0]
    typed = shlex.split(hint)
    assert typed[-2:] == ["--config", str(room.config)], "as it stands it means this room"
    code, kept, _ = room.relay(*typed[1:-2])
    assert code == 0 and "the clock of the host is wrong" in kept, "as it is said, the log shows it"
    code, out, _ = room.relay("memory", "forget", b["memory_id"])
    assert (code, out) == (0, f"r{b['number']}: forgotten before; nobody is told it.\n"), "not what it said"
    for words in (("recall", "clock"), ("recall",)):
        assert room.json("memory", *words)["memories"] == []
    for name in (a["memory_id"], f"r{b['number']}"):
        code, out, err = room.relay("memory", "show", name, "--json")
        assert (code, json.loads(out)["reason"]) == (1, "unknown_memory")
        assert "is forgotten. Nobody is told it." in err
    assert room.json("memory", "import", file) == {"imported": 0, "merged": 0, "known": 2, "refused": []}
    assert room.json("memory", "rebuild")["memories"] == 2
    assert room.json("memory", "recall", "clock")["memories"] == []
    assert room.relay("memory", "forget", "r9")[0] == 1


@BOTH
def test_questions_are_answered_in_their_order_and_a_bad_one_by_its_error(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.json(
        "memory",
        "import",
        file_of(
            tmp_path,
            told("a", "never mock the clock", tags=["test"]),
            told("b", "the clock of the deploy host is wrong"),
        ),
    )
    asked = [
        {"id": "one", "text": "mock the clock"},
        {"id": 2, "text": "clock", "tags": ["test"]},
        {"id": "three", "text": "clock", "want": ["a"]},
        {"text": "clock"},
        {"id": "five"},
        {"id": "six", "text": 6},
        {"id": "seven", "text": "zebra"},
    ]
    file = tmp_path / "queries.jsonl"
    file.write_text("\n".join([*map(json.dumps, asked), "", "nonsense"]))
    code, out, _ = room.relay("memory", "recall", "--queries", str(file), "--limit", "5", "--json")
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert [answer["id"] for answer in answers] == ["one", 2, "three", None, "five", "six", "seven", None]
    assert [[each["key"] for each in answer["memories"]] for answer in answers if "memories" in answer] == [
        ["a", "b"],
        ["a"],
        [],
    ]
    for answer in answers[2:6] + answers[7:]:
        assert set(answer) == {"id", "error"} and answer["error"]["message"] and answer["error"]["fix"]
    assert {"memory_id", "key", "keys", "relevance"} <= set(answers[0]["memories"][0])
    code, out, _ = room.relay("memory", "recall", "--queries", str(file))
    assert code == 1 and "one:" in out and "Unknown field 'want'" in out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"id": 1, "text": ""}\n')))
    code, out, _ = room.relay("memory", "recall", "--queries", "-", "--limit", "1", "--json")
    assert (code, len(json.loads(out)["memories"])) == (0, 1)


def test_wrong_use_and_what_is_not_there(room: Room, tmp_path: Path) -> None:
    for words, code, said in (
        (("recall", "x", "--limit", "0"), 2, "--limit"),
        (("recall", "x", "--limit", "101"), 2, "--limit"),
        (("recall", "x", "--queries", "y"), 2, "--queries"),
        (("import",), 2, "FILE"),
        (("lose", "x"), 2, "invalid choice"),
        (("show", "r1", "--name", "CLAUDE"), 2, "--name"),
        (("feedback", "r1"), 2, "--useful"),
        (("feedback", "r1", "--useful", "--not-useful"), 2, "not allowed"),
        (("feedback", "r1", "--useful"), 1, "no memory r1"),
        (("show", "r1"), 1, "no memory r1"),
        (("import", str(tmp_path / "nowhere")), 1, "nowhere: No such file"),
        (("import", str(tmp_path)), 1, "Is a directory"),
        (("recall", "--queries", str(tmp_path / "nowhere")), 1, "nowhere: No such file"),
    ):
        left, out, err = room.relay("memory", *words)
        assert (left, out) == (code, "") and said in err, (words, err)
    code, out, _ = room.relay("memory", "show", "r1", "--json")
    assert (code, json.loads(out)["reason"]) == (1, "unknown_memory")


@BOTH
def test_an_agents_shell_goes_with_its_key(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(tmp_path, told("a", "never mock the clock"))
    keys = {}

    async def make(services: Any) -> None:
        for scopes in (["read"], ["read", "memory"]):
            keys[len(scopes)] = (await services.keys.create(ANN, "CLAUDE", scopes=scopes))["key"]

    room.agents_do(make)
    for key, code in ((keys[1], 1), ("rk_nonsense", 1), (keys[2], 0)):
        monkeypatch.setenv("RELAY_API_KEY", key)
        left, out, err = room.relay("memory", "import", file, "--json")
        assert left == code, err
    assert json.loads(out)["imported"] == 1
    [found] = room.json("memory", "recall", "clock")["memories"]
    assert room.json("memory", "show", found["memory_id"])["imported_by"] == "CLAUDE"
    assert room.relay("memory", "rebuild")[0] == 1
    monkeypatch.delenv("RELAY_API_KEY")
    assert room.json("memory", "rebuild")["memories"] == 1
    assert [each["key"] for each in room.json("memory", "recall", "clock")["memories"]] == ["a"]


def test_a_file_is_read_in_pieces_and_no_line_is_read_whole_that_is_too_long() -> None:
    said = b"\xef\xbb\xbfone\r\n\n" + b"x" * (3 * MOST_LINE) + b"\n\xff\nlast"
    read = list(lines.pieces(io.BytesIO(said), 2))
    assert [(piece.first, [line[:5] for line in piece.lines]) for piece in read] == [
        (1, ["one", ""]),
        (3, ["xxxxx"]),
        (4, ["\udcff", "last"]),
    ]
    assert len(read[1].lines[0]) == MOST_LINE + 1
    assert list(lines.pieces(io.BytesIO(b""))) == []


async def killed_import(room: Room, file: str) -> int:
    """kill -9 an import when something of it is in the database; how many memories are there then."""
    command = [sys.executable, "-m", "relay.cli", "memory", "import", file, "--config", str(room.config)]
    async with opened_store(load(room.config), create=False) as store:
        before = await store.read(events.last_pos)
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)

        async def begun() -> bool:
            # A batch of it, and not just the beginning of the session that it is done in.
            return process.returncode is not None or await store.read(events.last_pos) >= before + 100

        try:
            await eventually(begun, "a batch", every_s=0.01)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
        return len(await engines.all_events(store, REMEMBERED))


async def test_an_import_that_is_stopped_says_how_it_goes_on(room: Room) -> None:
    await asyncio.to_thread(room.relay, "memory", "recall")  # makes the database
    words = ("memory", "import", "-", "--config", str(room.config))
    relay = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "relay.cli",
        *words,
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert relay.stdin is not None and relay.stderr is not None
    relay.stdin.write(
        "".join(told(f"k{number}", f"lesson {number}") + "\n" for number in range(2000)).encode()
    )

    async def begun() -> bool:
        return bool(await asyncio.to_thread(room.events, REMEMBERED))

    await eventually(begun, "a batch")
    relay.send_signal(signal.SIGINT)
    said = (await relay.stderr.read()).decode()
    relay.stdin.close()
    assert await relay.wait() == 1
    go_on = "import the same file again: what is kept already is known."
    assert said == f"relay: It was stopped. To go on, {go_on}\n"


@BOTH
def test_import_killed_goes_on(room: Room, tmp_path: Path) -> None:
    """kill -9 at commits of an import: the same file goes on, and nothing is lost or doubled."""
    count = 3000
    memories = [
        told(f"k{number}", f"lesson {number}", lessons=[f"because of {number}"]) for number in range(count)
    ]
    file = file_of(tmp_path, *memories)
    room.relay("memory", "recall")  # makes the database
    kept = [0]
    for _ in range(3):
        kept.append(asyncio.run(killed_import(room, file)))
    assert kept == sorted(set(kept)) and kept[-1] < count, "it ended before it was killed"
    done = room.json("memory", "import", file)
    assert done == {"imported": count - kept[-1], "merged": 0, "known": kept[-1], "refused": []}
    assert len(room.events(REMEMBERED)) == count
    assert room.relay("verify")[0] == 0
    assert room.json("memory", "import", file) == {"imported": 0, "merged": 0, "known": count, "refused": []}
    asked = [{"id": number, "text": f"lesson {number}"} for number in range(0, count, 500)]
    queries = tmp_path / "queries.jsonl"
    queries.write_text("\n".join(map(json.dumps, asked)))
    _, out, _ = room.relay("memory", "recall", "--queries", str(queries), "--limit", "1", "--json")
    keys = [json.loads(line)["memories"][0]["keys"] for line in out.splitlines()]
    assert keys == [[f"k{number}"] for number in range(0, count, 500)]

"""`relay memory` beside a room that runs, in an agent's turn, and when the room has stopped."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from tests.e2e.conftest import Open
from tests.outside import Outside, eventually, program

#: An agent's turn that imports and recalls in its shell, with nothing but what its environment says.
SHELL = """
import json, subprocess, sys
def relay(*words, said="", form=("--json",)):
    command = [sys.executable, "-m", "relay.cli", "memory", *words, *form]
    done = subprocess.run(command, input=said, capture_output=True, text=True)
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}
line = json.dumps({"key": "own", "event_type": "fix", "summary": "the linter wants tabs"})
answers = [relay("import", "-", said=line), relay("recall", "clock"), relay("forget", sys.argv[1])]
answers.append(relay("forget", sys.argv[1], form=()))
open("answers.json", "w").write(json.dumps(answers))
print("done")
"""


def line(key: str, summary: str, **more: Any) -> str:
    return json.dumps(
        {"key": key, "event_type": "fix", "summary": summary, "at": "2023-05-08T13:56:00Z"} | more
    )


async def said(one: Outside, *words: str, code: int = 0, env: dict[str, str] | None = None) -> Any:
    command = [sys.executable, "-m", "relay.cli", "memory", *words, "--json", "--config", str(one.path)]
    ran = await one.run(*command, env=env)
    assert ran.code == code, ran.all
    lines = [json.loads(text) for text in ran.out.splitlines()]
    return lines[0] if len(lines) == 1 else lines


async def test_memories_go_through_the_room_that_runs_and_into_its_database_without(open_room: Open) -> None:
    one = await open_room(program("SHELL", "shell.py", "r1"), files={"shell.py": SHELL})
    # What the page tells people to type means this room.
    typed = (await one.get("/api/state"))["shell"]["import"]
    assert typed.endswith(f"relay memory import FILE.jsonl --config {one.path}")
    memories = one.folder / "memories.jsonl"
    memories.write_text(
        "\n".join([line("a", "never mock the clock"), "{", line("b", "deploys need the VPN", agent="Mel")])
    )
    done = await said(one, "import", str(memories), "--name", "ann", code=1)
    assert (done["imported"], [refused["line"] for refused in done["refused"]]) == (2, [2])
    [found] = (await said(one, "recall", "may I mock the clock?", "--limit", "1"))["memories"]
    assert (found["key"], found["agent_id"], found["number"]) == ("a", "ann", 1)
    assert (await said(one, "show", "r2"))["imported_by"] == "ann"

    posted = await one.post("@SHELL go")
    await one.reply_to(posted["id"], "SHELL")
    answers = json.loads((one.folder / "answers.json").read_text())
    assert [answer["code"] for answer in answers] == [0, 0, 1, 1], answers
    told = [json.loads(answer["out"]) for answer in answers[:3]]
    assert told[0] == {"imported": 1, "merged": 0, "known": 0, "refused": []}
    assert "a" in [memory["key"] for memory in told[1]["memories"]]
    assert told[2]["reason"] == "not_yours"
    assert (answers[3]["out"], "r1 is ann's" in answers[3]["err"]) == ("", True), answers[3]
    [own] = (await said(one, "recall", "linter tabs", "--limit", "1"))["memories"]
    assert (own["agent_id"], (await said(one, "show", own["memory_id"]))["imported_by"]) == ("SHELL", "SHELL")

    for env in ({"RELAY_API_KEY": "rk_nonsense"}, {"RELAY_API_KEY": f"rk_{'0' * 16}_{'a' * 43}"}):
        refused = await said(one, "import", str(memories), code=1, env=env)
        assert refused["reason"] == "bad_key"
    for name in ("r99", "working", "skills", "recall", ".."):
        assert (await said(one, "show", name, code=1))["reason"] == "unknown_memory"
    assert (await said(one, "forget", "r1", "--name", "bob"))["success"]

    questions = one.folder / "queries.jsonl"
    questions.write_text(
        '{"id": 1, "text": "clock"}\n{"id": 2, "text": "VPN", "tags": 3}\n{"id": 3, "text": "VPN"}\n'
    )
    answered = []
    for running in (True, False):
        if not running:
            assert (await one.script("stop.sh")).code == 0
        answers = await said(one, "recall", "--queries", str(questions), "--limit", "1", code=1)
        assert [answer["id"] for answer in answers] == [1, 2, 3]
        assert "a" not in [memory["key"] for memory in answers[0]["memories"]]
        assert answers[1]["error"]["code"] and answers[2]["memories"][0]["key"] == "b"
        answered.append([answers[1], answers[2]["memories"][0]["memory_id"]])
    assert answered[0] == answered[1]
    assert await said(one, "import", str(memories), code=1) == {**done, "imported": 0, "known": 2}


async def test_an_import_goes_on_when_the_room_was_killed_in_it(open_room: Open) -> None:
    # A room whose requests are small: what is too large for one goes in parts.
    one = await open_room(workspace={"max_entry_bytes": 1024})
    count = 3000
    memories = one.folder / "memories.jsonl"
    memories.write_text("\n".join(line(f"k{number}", f"lesson {number}") for number in range(count)))
    importing = asyncio.create_task(said(one, "import", str(memories), code=1))

    async def begun() -> bool:
        status, found = await one.ask("POST", "/memory/recall", json={"task_description": "", "limit": 1})
        return importing.done() or bool(status == 200 and found)

    await eventually(begun, "a batch", every_s=0.02)
    one.kill()
    assert (await importing)["reason"] == "busy"
    await one.start()
    done = await said(one, "import", str(memories))
    assert 0 < done["known"] < count
    assert done == {"imported": count - done["known"], "merged": 0, "known": done["known"], "refused": []}
    assert (await one.relay("verify")).code == 0

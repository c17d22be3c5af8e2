"""What a person says on Monday reaches another agent on Thursday, and shows where it came from."""

from __future__ import annotations

import json
import sys

from tests.e2e.conftest import Open
from tests.outside import REPO, Json, Outside, eventually, program

#: Writes down each prompt that it is given, and answers with nothing of it.
SCRIBE = """
import pathlib, sys
prompt = sys.stdin.read()
folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
(folder / f"{len(list(folder.iterdir()))}.txt").write_text(prompt)
print("Yes, done.")
"""
PARROT = """
import sys
print(sys.stdin.read())
"""
LESSON = "never mock the clock here, it hid a bug"
ASKED = "write a test for the scheduler and mock the clock in it"


def prompts(one: Outside, agent: str) -> list[str]:
    folder = one.folder / agent
    return [file.read_text() for file in sorted(folder.iterdir())] if folder.exists() else []


async def ask(one: Outside, agent: str, body: str) -> Json:
    posted = await one.post(f"@{agent} {body}", name="bob")
    return await one.reply_to(posted["id"], agent)


async def memories_of(one: Outside, answer: Json) -> list[Json]:
    given: list[Json] = (await one.get(f"/api/messages/{answer['id']}/memories"))["memories"]
    return given


async def command(one: Outside, line: str, by: str = "ann") -> str:
    posted = await one.post(line, name=by)
    return str((await one.reply_to(posted["id"], "RELAY"))["body"])


async def remembered(one: Outside, text: str, *words: str) -> None:
    """Wait until `/recall text` says these words."""

    async def look() -> bool:
        body = await command(one, f"/recall {text}")
        return all(word in body for word in words)

    await eventually(look, f"{words} to be remembered", every_s=0.5)


async def test_what_was_said_on_monday_reaches_who_needs_it_on_thursday(open_room: Open) -> None:
    scribe = {"scribe.py": SCRIBE}
    one = await open_room(
        program("MONDAY", "scribe.py", "monday"),
        files=scribe,
        workspace={"context_len": 200, "worktrees": False},
    )
    said = await one.post(LESSON, name="ann")
    await one.reply_to(said["id"], "MONDAY")
    await remembered(one, "mock the clock", LESSON)
    await ask(one, "MONDAY", "the weather report of today is long and says nothing about the work; " * 4)
    one.kill()
    # Another vendor's agent, in a session of its own, who reads the last lines of the room only.
    one.configure(
        json.loads(one.path.read_text())
        | {"agents": [program(name, "scribe.py", name.lower()) for name in ("THURSDAY", "FRIDAY")]}
    )
    await one.start()
    answer = await ask(one, "THURSDAY", ASKED)
    (prompt,) = prompts(one, "thursday")
    header, line, *_ = prompt.split("\n")
    assert header.startswith("[MEMORY] check against the code")
    assert line.startswith("> r1 ann, 20")
    assert line.endswith(f" UTC: {LESSON}")
    assert prompt.count(LESSON) == 1
    # Under its answer stands what it was given, with where it came from.
    assert [each["reference"] for each in answer["meta"]["memories"]] == ["r1"]
    (memory,) = await memories_of(one, answer)
    assert (memory["author"], memory["text"], memory["number"]) == ("ann", LESSON, 1)
    assert (memory["message"], memory["forgotten"]) == (said["id"], False)
    assert (memory["source"]["message"], memory["source"]["task"]) == (said["id"], None)
    # Whether it helped is said there, and known there.
    assert memory["feedback"] == {"useful": 0, "useless": 0, "mine": None}
    judged = {"memory_id": memory["id"], "useful": True, "name": "bob"}
    assert (await one.ask("POST", "/memory/feedback", json=judged))[0] == 200
    for name, mine in (("bob", True), ("ann", None)):
        path = f"/api/messages/{answer['id']}/memories?name={name}"
        (memory,) = (await one.get(path))["memories"]
        assert memory["feedback"] == {"useful": 1, "useless": 0, "mine": mine}
    said = "ann says that r1 did not help: 1 say that it helped, 1 that it did not."
    assert await command(one, "/useful r1 no") == said
    (memory,) = (await one.get(f"/api/messages/{answer['id']}/memories?name=ann"))["memories"]
    assert memory["feedback"] == {"useful": 1, "useless": 1, "mine": False}
    assert "r99" in await command(one, "/useful r99")
    # The agent is not told it again in this conversation.
    await ask(one, "THURSDAY", "and does the scheduler test mock the clock now")
    assert LESSON not in prompts(one, "thursday")[1]
    # Forgotten, nobody is told it again.
    assert await command(one, "/forget r1") == "r1 is forgotten: it is told to nobody any more."
    (memory,) = await memories_of(one, answer)
    assert (memory["forgotten"], memory["text"]) == (True, None)
    assert (await one.ask("GET", "/api/messages/nothing/memories"))[0] == 404
    await ask(one, "FRIDAY", ASKED)
    assert LESSON not in prompts(one, "friday")[0]
    assert LESSON not in await command(one, "/recall mock the clock")


async def test_an_agent_that_repeats_its_prompt_makes_no_memory_of_a_memory(open_room: Open) -> None:
    one = await open_room(
        program("PARROT", "parrot.py"),
        files={"parrot.py": PARROT},
        workspace={"context_len": 0, "worktrees": False},
    )
    assert (await command(one, f"/remember {LESSON}")).startswith("Remembered as r1.")
    answer = await ask(one, "PARROT", "mock the clock")
    assert LESSON in answer["body"]
    await one.post("an unrelated line about flamingos and teapots", name="bob")
    await remembered(one, "flamingos teapots", "flamingos")
    body = await command(one, "/recall never mock the clock, it hid a bug")
    assert body.count(LESSON) == 1


async def test_the_same_words_in_a_terminal(open_room: Open) -> None:
    one = await open_room()
    join = str(REPO / "scripts" / "join.py")

    async def say(*words: str) -> str:
        ran = await one.run(
            sys.executable, join, "--config", str(one.path), "--name", "ann", "--wait", "60", "--say", *words
        )
        return ran.all

    assert "Remembered as r1." in await say("/remember never mock the clock here")
    assert "Decided, and remembered as r2." in await say("/decide use PostgreSQL because two hosts write")
    assert "> r2 ann" in await say("/recall why PostgreSQL")
    assert "r1 is forgotten" in await say("/forget #1")

"""forgotten_is_told_nowhere: what a person took back is told at no door, on every store; its message stays."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.clients import HttpClient, McpClient
from tests.acceptance.stores import STORES
from tests.outside import Outside, eventually, program, room, settings

#: Writes down each prompt that it is given, and answers with nothing of it.
SCRIBE = """
import pathlib, sys
prompt = sys.stdin.read()
folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
(folder / f"{len(list(folder.iterdir()))}.txt").write_text(prompt)
print("Yes, done.")
"""
#: Nobody but the one who said it writes the last word.
SECRET = "swordfish"
DECIDED = f"use the flamingo store because the {SECRET} scales"
ASKED = "what do we know of the flamingo store"


@pytest.fixture(params=sorted(STORES))
async def one(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Outside]:
    agents = [program(name, "scribe.py", name.lower()) for name in ("HEARER", "EARLY", "LATE")]
    more: dict[str, Any] = {"workspace": {"context_len": 0, "worktrees": False}}
    async with (
        STORES[request.param](tmp_path) as (where, env),
        room(tmp_path / "room", settings(*agents, **more, **where)) as opened,
    ):
        (opened.folder / "scribe.py").write_text(SCRIBE)
        opened.env.update(env)
        await opened.start()
        yield opened


def quoted(one: Outside, agent: str) -> str:
    """What the agent was told of the room's memory. (What was said stands in the room, and agents read that.)"""
    prompts = [file.read_text() for file in sorted((one.folder / agent).iterdir())]
    return "\n".join(line for prompt in prompts for line in prompt.split("\n") if line.startswith("> "))


async def say(one: Outside, line: str, speaker: str) -> Any:
    posted = await one.post(line, name="ann")
    return await one.reply_to(posted["id"], speaker)


async def beside(one: Outside) -> str:
    """The words that only neighbours of a memory have, of a question that has the word."""
    asked = {"task_description": f"heron {SECRET} boat", "limit": 100}
    found = (await one.ask("POST", "/memory/recall", json=asked))[1]
    heron = next(memory for memory in found if "heron" in memory["content"])
    return str(heron["why"]["neighbour"])


async def doors(one: Outside, agents: list[Any], id: str, entry: str, answer: str) -> dict[str, str]:
    """What each door tells of it, by the door's name."""
    told: dict[str, Any] = {}
    for agent in agents:
        kind = type(agent).__name__
        for text in (ASKED, "flamingo", ""):
            told[f"{kind} recall {text!r}"] = await agent.call("recall", task_description=text, limit=100)
        told[f"{kind} recall by tag"] = await agent.call("recall", task_description="", tags=["zoo"])
        for question in (
            {"about": ASKED},
            {"agent": "ann"},
            {"kind": "decision"},
            {"file": "src/zoo.py"},
            {},
        ):
            told[f"{kind} knowledge {question}"] = await agent.call("knowledge", **question)
        told[f"{kind} skill"] = await agent.call("skill", task_type="flamingo")
    http = next(agent for agent in agents if isinstance(agent, HttpClient))
    for path in (
        f"/memory/{id}",
        f"/api/memory?q={ASKED}",
        "/api/memory",
        f"/api/messages/{answer}/memories",
    ):
        told[path] = await one.ask("GET", path)
    told["near"] = await http.ask("POST", "/knowledge", json={"near": entry})
    told["feedback"] = await http.ask("POST", "/memory/feedback", json={"memory_id": id, "useful": True})
    for words in (("recall", "flamingo"), ("recall",), ("show", id)):
        ran = await one.relay("memory", *words, "--json")
        told[f"relay memory {words}"] = ran.all
    queries = one.folder / "queries.jsonl"
    queries.write_text(json.dumps({"id": 1, "text": ASKED}) + "\n")
    found = await one.relay("memory", "recall", "--queries", str(queries), "--json")
    told["relay memory recall --queries"] = found.all
    for line in (f"/recall {ASKED}", "/recall"):
        told[line] = (await say(one, line, "RELAY"))["body"]
    return {door: str(answer) for door, answer in told.items()}


async def test_forgotten_is_told_nowhere(one: Outside) -> None:
    # Said to another one: who was asked a message is not given the memory of it.
    decision = f"@HEARER DECISION (topic zoo; file src/zoo.py): {DECIDED}"
    said = await one.post(decision, name="ann")
    await one.post("@HEARER the heron mended the roof of the boat house", name="ann")

    async def remembered() -> Any:
        hits = [
            hit
            for hit in (await one.get("/api/memory?q=flamingo"))["memories"]
            if hit["memory_type"] == "episodic"
        ]
        known = (await one.ask("POST", "/knowledge", json={"about": "flamingo"}))[1]["entries"]
        return (hits[0], known[0]) if hits and known else None

    memory, entry = await eventually(remembered, "the decision to be remembered")
    id, number = memory["memory_id"], memory["number"]
    answer = (await say(one, f"@EARLY {ASKED}", "EARLY"))["id"]
    async with AsyncExitStack() as stack:
        tool = await McpClient.open(one, "CODEX")
        stack.push_async_callback(tool.close)
        agents = [tool, await HttpClient.open(one, "GEMINI")]
        before = await doors(one, agents, id, entry["id"], answer)
        silent = {door for door, told in before.items() if SECRET not in told and id not in told}
        assert {door.partition(" ")[2] or door for door in silent} <= {"recall by tag", "skill", "feedback"}
        assert SECRET in quoted(one, "early") and SECRET in await beside(one)
        assert f"r{number} is forgotten" in (await say(one, f"/forget r{number}", "RELAY"))["body"]

        async def gone() -> bool:
            known = (await one.ask("POST", "/knowledge", json={"about": "flamingo"}))[1]["entries"]
            return not any(SECRET in str(each) for each in known)

        await eventually(gone, "the knowledge of it to be taken back")
        for step in ("at once", "made anew"):
            after = await doors(one, agents, id, entry["id"], answer)
            assert [door for door, told in after.items() if SECRET in told] == [], step
            if step == "at once":
                assert (await one.relay("memory", "rebuild")).code == 0
        assert SECRET not in await beside(one), "it is nobody's neighbour either"
        await say(one, f"@LATE {ASKED}", "LATE")
        assert SECRET not in quoted(one, "late")
    # What was said stays where it was said.
    assert [each["body"] for each in await one.entries() if each["id"] == said["id"]] == [decision]

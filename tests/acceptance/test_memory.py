"""Scenarios of the memory by name, at the doors that programs have: MCP over stdio, HTTP, and both stores.

With RELAY_TESTS_WHOLE=1 in the counts of document 004; else a twentieth of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.acceptance.clients import AgentClient, HttpClient, McpClient
from tests.acceptance.stores import STORES
from tests.outside import Outside, eventually, room, settings

pytestmark = pytest.mark.asyncio(loop_scope="module")

WRITERS, SUMMARIES = 4, 300 if os.environ.get("RELAY_TESTS_WHOLE") else 15
#: Memories that one recall gives at most.
MOST = 100


@dataclass(frozen=True)
class House:
    """A room, and an agent at each kind of door."""

    room: Outside
    mcp: McpClient
    http: HttpClient

    @property
    def doors(self) -> tuple[AgentClient, AgentClient]:
        return self.mcp, self.http

    async def bring(self, lines: Sequence[dict[str, Any]]) -> Any:
        status, done = await self.http.ask("POST", "/memory/import", json=list(lines))
        assert status == 200, done
        return done


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def houses(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[list[House]]:
    """One on each store."""
    async with AsyncExitStack() as stack:
        made = []
        for store, where in sorted(STORES.items()):
            folder: Path = tmp_path_factory.mktemp(store)
            more, env = await stack.enter_async_context(where(folder))
            one = await stack.enter_async_context(room(folder, settings(**more)))
            one.env.update(env)
            await one.start()
            mcp = await McpClient.open(one, "CODEX")
            stack.push_async_callback(mcp.close)
            made.append(House(one, mcp, await HttpClient.open(one, "GEMINI")))
        yield made


def new_word() -> str:
    return f"word{uuid.uuid4().hex[:10]}"


async def test_old_but_only_hit_is_told(houses: list[House]) -> None:
    word, other = new_word(), new_word()
    old = {"event_type": "lesson", "summary": f"never mock the {word}", "at": "2006-05-08T13:56:00Z"}
    new = [{"event_type": "fix", "summary": f"the {other} of host {number}"} for number in range(20)]
    for house in houses:
        assert (await house.bring([old, *new]))["imported"] == 21
        for door in house.doors:
            [found] = await door.call("recall", task_description=word)
            assert (found["summary"], found["created_at"][:4]) == (old["summary"], "2006")
            found = await door.call("recall", task_description=f"may I mock the {word} of the {other}?")
            assert old["summary"] in [each["summary"] for each in found]


async def test_both_stores_same_order(houses: list[House]) -> None:
    tag = new_word()
    nouns = ("clock", "queue", "cache", "lock", "socket", "deploy", "token", "index")
    lines = [
        {
            "key": f"{tag}-{number}",
            "event_type": ("fix", "message", "decision")[number % 3],
            "summary": f"the {nouns[number % 8]} of the {nouns[number * 5 % 7]} broke the {nouns[number // 8]}",
            "lessons": [f"check the {nouns[number * 3 % 8]}"] * (number % 2),
            "outcome": ("success", "failure", None)[number % 3],
            "tags": [tag],
            "session": f"{tag}-{number // 10}",
            "agent": ("Ann", "Bob", "Mel")[number % 3],
            "at": f"20{10 + number % 12}-03-{1 + number % 28:02}T10:00:00Z",
        }
        for number in range(60)
    ]
    asked = ["why did the clock break", "the cache of the queue", "what did Bob say of the token", "lock", ""]
    told = []
    for house in houses:
        await house.bring(lines)
        for door in house.doors:
            answers = [
                await door.call("recall", task_description=text, tags=[tag], limit=20) for text in asked
            ]
            told.append(
                [[(each["keys"], round(each["relevance"], 3)) for each in answer] for answer in answers]
            )
    assert all(each == told[0] for each in told)
    assert all(len(answer) >= 5 for answer in told[0])


async def test_import_twice_adds_nothing(houses: list[House]) -> None:
    tag = new_word()
    lesson = {"event_type": "lesson", "agent": "Mel", "tags": [tag]}
    lines = [lesson | {"summary": f"lesson {number}"} for number in range(40)]
    lines = [line | ({"key": f"{tag}-{at}"} if at % 2 else {}) for at, line in enumerate(lines)]
    for house in houses:
        assert await house.bring(lines) == {"imported": 40, "merged": 0, "known": 0, "refused": []}

        async def told(house: House = house) -> list[list[tuple[str, list[str]]]]:
            asked = {"task_description": "lesson", "tags": [tag], "limit": MOST}
            answers = [await door.call("recall", **asked) for door in house.doors]
            return [[(each["memory_id"], each["keys"]) for each in found] for found in answers]

        before = await told()
        assert [len(found) for found in before] == [40, 40]
        known = {"imported": 0, "merged": 0, "known": 40, "refused": []}
        assert await house.bring(lines) == known
        # And by the command, beside the room that runs.
        file = house.room.folder / "lessons.jsonl"
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        ran = await house.room.relay("memory", "import", str(file), "--json")
        assert (ran.code, json.loads(ran.out)) == (0, known)
        assert await told() == before


async def test_duplicate_memory_detection(houses: list[House]) -> None:
    """004: four writers of one agent tell the same at once, and each summary is one row."""
    for house in houses:
        agent, tag = f"agent-{uuid.uuid4().hex[:8]}", new_word()
        async with AsyncExitStack() as stack:
            http = await HttpClient.open(house.room, agent)
            writers: list[AgentClient] = [http, http]
            for _ in range(WRITERS - len(writers)):
                process = await McpClient.open(house.room, agent)
                stack.push_async_callback(process.close)
                writers.append(process)

            async def write(writer: AgentClient, nth: int, tag: str = tag) -> list[Any]:
                return [
                    await writer.call(
                        "remember",
                        event_type="fix",
                        summary=f"{tag} number {number}",
                        lessons=[f"lesson {nth}"],
                        tags=[f"{tag}-{number // MOST}"],
                    )
                    for number in range(SUMMARIES)
                ]

            answers = await asyncio.gather(*(write(writer, nth) for nth, writer in enumerate(writers)))
            ids = [[answer["memory_id"] for answer in each] for each in answers]
            assert all(each == ids[0] for each in ids) and len(set(ids[0])) == SUMMARIES
            assert sum(not answer["merged"] for each in answers for answer in each) == SUMMARIES
            for door in house.doors:
                rows = [
                    row
                    for hundred in range(-(-SUMMARIES // MOST))
                    for row in await door.call(
                        "recall", task_description="", tags=[f"{tag}-{hundred}"], limit=MOST
                    )
                ]
                assert sorted(row["memory_id"] for row in rows) == sorted(ids[0])
                assert all(
                    sorted(row["lessons"]) == [f"lesson {nth}" for nth in range(WRITERS)] for row in rows
                )


async def test_forgotten_knowledge_is_told_nowhere(houses: list[House]) -> None:
    """By its id, where no memory was made of its event: by its author, and for good."""
    for house in houses:
        word, reader = new_word(), house.mcp.agent
        await house.http.call("post_message", body=f"DECISION (shared with {reader}): {word} stays closed")

        async def known(word: str = word, house: House = house) -> Any:
            return (await house.mcp.call("knowledge", about=word))["entries"]

        [entry] = await eventually(known, "the decision is known")
        asked: list[tuple[str, dict[str, Any]]] = [
            *[
                ("knowledge", each)
                for each in ({}, {"about": word}, {"agent": "GEMINI"}, {"kind": "decision"})
            ],
            ("recall", {"task_description": word}),
        ]

        async def told(house: House = house, asked: Any = asked) -> list[str]:
            return [str(await door.call(name, **given)) for door in house.doors for name, given in asked]

        assert all(word in answer for answer in await told())
        forget = {"memory_id": entry["id"][:9]}
        other = await HttpClient.open(house.room, reader)
        refused = (await other.ask("POST", "/memory/forget", json=forget))[1]
        assert (refused["success"], refused["reason"]) == (False, "not_yours")
        # Who may not read it knows nothing of it.
        stranger = await HttpClient.open(house.room, "STRANGER")
        for client, name in ((stranger, entry["id"]), (house.http, "k" + "0" * 24)):
            assert (await client.ask("POST", "/memory/forget", json={"memory_id": name}))[0] == 404
        done = (await house.http.ask("POST", "/memory/forget", json=forget))[1]
        assert (done["entry"], done["number"], done["content"]) == (
            *(entry["id"], None),
            f"{word} stays closed",
        )
        for step in ("at once", "made anew"):
            assert not [answer for answer in await told() if word in answer], step
            near = {"near": entry["id"]}
            assert (await house.http.ask("POST", "/knowledge", json=near))[0] == 404
            if step == "at once":
                assert (await house.room.relay("memory", "rebuild")).code == 0
        again = (await house.http.ask("POST", "/memory/forget", json={"memory_id": entry["id"]}))[1]
        assert (again["success"], again["content"]) == (True, None)

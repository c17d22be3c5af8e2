"""One storm over coordination: agents write at both interfaces while the daemon and their own servers are killed.

Each agent repeats what was not acknowledged, with the same idempotency key, until it is. What holds afterwards: every
acknowledged lock, task, completion, memory and message is there once, and the log verifies. Everything random comes
from one seed. By hand: `scripts/faults writes --runs 20 --store postgres`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.acceptance.clients import HttpClient, McpClient
from tests.acceptance.stores import STORES
from tests.outside import PATIENCE_S, Json, Outside, room, settings

#: What a client that was cut off says.
CUT = (aiohttp.ClientError, OSError, AssertionError, ValueError, TimeoutError)


@dataclass
class Told:
    """What was acknowledged: path -> (agent, token); task -> agent that completed it; id -> summary; id -> body."""

    locks: dict[str, tuple[str, int]] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    claimed: list[str] = field(default_factory=list)
    completed: dict[str, str] = field(default_factory=dict)
    memories: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    repeated: int = 0


class Agent:
    """Writes at one interface, again and again until it is acknowledged."""

    def __init__(self, one: Outside, name: str, told: Told) -> None:
        self.room, self.name, self.told = one, name, told

    async def ask(self, operation: str, **said: Any) -> Any:
        """The answer to this client. Raises one of CUT."""
        raise NotImplementedError

    async def surely(self, operation: str, **said: Any) -> Json:
        """The first answer that is one: `busy` is none."""
        give_up = time.monotonic() + 2 * PATIENCE_S
        while True:
            with suppress(*CUT):
                answer: Json = await self.ask(operation, **said)
                if answer.get("reason") != "busy":
                    return answer
            self.told.repeated += 1
            if time.monotonic() > give_up:
                raise AssertionError(f"{self.name}: {operation} was never answered")
            await asyncio.sleep(0.05)

    async def work(self, die: random.Random, rounds: int, killed: asyncio.Event) -> None:
        """So many rounds, and more until the killing is over, so that each kill meets somebody who writes."""
        number = 0
        while number < rounds or not killed.is_set():
            # One word, so that the memory is found by what no other round says.
            await self._round(f"{self.name.replace('-', '')}x{number}")
            await asyncio.sleep(die.uniform(0, 0.15))
            number += 1

    async def _round(self, word: str) -> None:
        told = self.told
        path = f"src/{word}.py"
        got = await self._done("acquire_lock", file_path=path, ttl_minutes=60, idempotency_key=f"lock-{word}")
        told.locks[path] = (self.name, got["fencing_token"])
        made = await self._done(
            "submit_work", task_type="storm", task_description=word, idempotency_key=f"task-{word}"
        )
        told.tasks[made["task_id"]] = word
        given = await self._done("get_work", task_types=["storm"])
        if given["task_id"] is not None:
            told.claimed.append(given["task_id"])
            result = {"by": self.name, "word": word}
            await self._done("complete_work", task_id=given["task_id"], success=True, result=result)
            told.completed[given["task_id"]] = self.name
        kept = await self._done(
            "remember", event_type="storm", summary=f"storm {word}", idempotency_key=f"m-{word}"
        )
        told.memories[kept["memory_id"]] = f"storm {word}"
        said = await self._done("post_message", body=f"storm {word}", client_id=f"{self.name}:{word}")
        told.messages[said["id"]] = f"storm {word}"

    async def _done(self, operation: str, **said: Any) -> Json:
        answer = await self.surely(operation, **said)
        assert answer["success"] is True, f"{self.name}: {operation} {said}: {answer}"
        return answer


class HttpAgent(Agent):
    """With a key; the address is read anew each time, since a new daemon may have another port."""

    def __init__(self, one: Outside, name: str, told: Told, key: str) -> None:
        super().__init__(one, name, told)
        self._client = HttpClient(name, one, key)

    async def ask(self, operation: str, **said: Any) -> Any:
        return await self._client.call(operation, **said)


class McpAgent(Agent):
    """`relay mcp` with a session that was given to it, so that a new process goes on where a killed one was."""

    def __init__(self, one: Outside, name: str, told: Told) -> None:
        super().__init__(one, name, told)
        self.client: McpClient | None = None

    async def ask(self, operation: str, **said: Any) -> Any:
        if self.client is None or self.client.process.returncode is not None:
            self.client = await McpClient.open(self.room, self.name, RELAY_SESSION_ID=f"session-{self.name}")
        return await self.client.call(operation, **said)

    def kill(self) -> None:
        if self.client is not None and self.client.process.returncode is None:
            self.client.process.kill()

    async def close(self) -> None:
        self.kill()
        if self.client is not None:
            await self.client.process.wait()


async def writes(
    folder: Path, seed: int, *, kills: int = 3, rounds: int = 4, store: str = "sqlite"
) -> tuple[list[str], Json]:
    """One run; what does not hold (empty: all is well), and what was counted."""
    die = random.Random(seed)
    async with STORES[store](folder) as (more, env), room(folder, settings(**more)) as one:
        one.env.update(env)
        await one.start()
        told = Told()
        tools = [McpAgent(one, f"tool-{number}", told) for number in range(2)]
        agents: list[Agent] = [*tools, *[await _with_key(one, f"cloud-{n}", told) for n in range(3)]]
        try:
            killed = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                for agent in agents:
                    group.create_task(agent.work(random.Random(die.random()), rounds, killed))
                await _kills(one, tools, random.Random(die.random()), kills)
                killed.set()
        except ExceptionGroup as trouble:
            return [f"{type(cause).__name__}: {cause}\n{one.said()}" for cause in trouble.exceptions], {}
        finally:
            for tool in tools:
                await tool.close()
        # What the last daemon did not live to write is found by one more.
        await asyncio.to_thread(one.kill)
        await one.start()
        found = await _problems(one, told)
    counts: Json = {
        name: len(getattr(told, name)) for name in ("locks", "tasks", "completed", "memories", "messages")
    }
    return found, {**counts, "repeated": told.repeated}


async def _with_key(one: Outside, name: str, told: Told) -> Agent:
    status, made = await one.ask("POST", "/keys", json={"identity": name})
    assert status == 200, made
    return HttpAgent(one, name, told, made["key"])


async def _kills(one: Outside, tools: list[McpAgent], die: random.Random, kills: int) -> None:
    """SIGKILL to the daemon, and every third time to one of the servers."""
    for number in range(kills):
        await asyncio.sleep(die.uniform(0.2, 0.8))
        if number % 3 == 2:
            die.choice(tools).kill()
            continue
        await asyncio.to_thread(one.kill)
        await asyncio.sleep(die.uniform(0, 0.3))
        await one.start()


# -- what must hold


async def _problems(one: Outside, told: Told) -> list[str]:
    found = await _locks(one, told) + await _tasks(one, told) + await _said(one, told)
    found += await _memories(one, told)
    verified = await one.relay("verify")
    if verified.code != 0:
        found.append(f"the log does not verify: {verified.all}")
    return found


async def _locks(one: Outside, told: Told) -> list[str]:
    held = {
        lock["file_path"]: (lock["locked_by"], lock["fencing_token"])
        for lock in await one.get("/locks?limit=1000")
    }
    found = [
        f"{path} was {lock}'s and is {held.get(path)}'s"
        for path, lock in told.locks.items()
        if held.get(path) != lock
    ]
    tokens = Counter(token for _, token in held.values())
    return found + [f"the token {token} is there {n} times" for token, n in tokens.items() if n != 1]


async def _tasks(one: Outside, told: Told) -> list[str]:
    found = [f"task {id} was given {n} times" for id, n in Counter(told.claimed).items() if n != 1]
    tasks = {task["id"]: task for task in (await one.get("/api/tasks"))["tasks"]}
    words = Counter(task["title"] for task in tasks.values())
    found += [
        f"the task {word} is there {words[word]} times" for word in told.tasks.values() if words[word] != 1
    ]
    found += [f"task {id} is gone" for id in told.tasks if id not in tasks]
    for id, agent in told.completed.items():
        task = await one.get(f"/work/{id}")
        if task["status"] != "completed" or task["result"]["by"] != agent:
            found.append(f"task {id} was completed by {agent} and is {task}")
    return found


async def _said(one: Outside, told: Told) -> list[str]:
    entries = await one.entries()
    ids, bodies = Counter(entry["id"] for entry in entries), Counter(entry["body"] for entry in entries)
    lines = Counter(line["id"] for _, line in one.file_lines() if isinstance(line, dict))
    found = []
    for id, body in told.messages.items():
        if (ids[id], bodies[body], lines[id]) != (1, 1, 1):
            found.append(
                f"{body!r} is in the room {ids[id]} and {bodies[body]} times, in the file {lines[id]} times"
            )
    return found


async def _memories(one: Outside, told: Told) -> list[str]:
    found = []
    for id, summary in told.memories.items():
        status, recalled = await one.ask(
            "POST", "/memory/recall", json={"task_description": summary, "limit": 100}
        )
        # The message of the same words is a memory of its own.
        remembered = [memory for memory in recalled if memory["event_type"] == "storm"]
        same = [memory["memory_id"] for memory in remembered if memory["summary"] == summary]
        if status != 200 or same != [id]:
            found.append(f"{summary!r} was kept as {id} and is recalled as {same}")
    return found

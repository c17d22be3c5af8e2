"""One storm over the memory: agents remember and forget, files are imported, people post, decide and ask, while the
daemon is killed.

Each repeats what was not acknowledged until it is. What holds afterwards: every acknowledged memory is told once, and
none that was forgotten; every line of an import, every message and every decision is one memory, and a decision is
one entry of the knowledge; a question has one answer at most, which was given nothing twice and made no memory; and
the log verifies. Everything random comes from one seed. By hand: `scripts/faults memory --runs 20 --store postgres`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.acceptance.clients import HttpClient
from tests.acceptance.stores import STORES
from tests.faults.writes import CUT
from tests.outside import PATIENCE_S, Json, Outside, eventually, program, room, settings

#: An agent that says what it was given of the room's memory, and nothing else.
PARROT = """
import sys
lines = sys.stdin.read().split("\\n")
print("\\n".join([line for line in lines if line.startswith(("[MEMORY]", "> "))] or ["ok"]))
"""
#: Lines of an import: several transactions.
LINES = 500
#: Seconds that a daemon lives at most before it is killed.
LIFE_S = 1.5
#: What the room remembers of what happened behind the last answer is looked for so long.
FOLLOWED_S = 3 * PATIENCE_S


@dataclass
class Told:
    """What was acknowledged: summary -> its id, or "" where only the room knows it."""

    memories: dict[str, str] = field(default_factory=dict)
    forgotten: dict[str, str] = field(default_factory=dict)
    decided: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    imported: list[list[Json]] = field(default_factory=list)
    repeated: int = 0


class Writers:
    """All who write, until the killing is over."""

    def __init__(self, one: Outside, keys: dict[str, str], rounds: int) -> None:
        self.told, self.killed = Told(), asyncio.Event()
        self._room, self._keys, self._rounds = one, keys, rounds

    async def again_and_again(self, name: str, work: Callable[[str, int], Awaitable[None]]) -> None:
        """So many rounds, and more until the killing is over. A word of its own is in what each round says."""
        number = 0
        while number < self._rounds or not self.killed.is_set():
            await work(f"{name}{''.join(chr(97 + int(digit)) for digit in str(number))}q", number)
            number += 1

    async def remember(self, word: str, number: int) -> None:
        """An agent remembers, and of four it forgets one."""
        key = self._keys[word[:2]]
        summary = f"lesson of the {word}"
        body = {"event_type": "lesson", "summary": summary, "idempotency_key": word}
        kept = await self._surely("/memory/remember", body, key)
        if number % 4:
            self.told.memories[summary] = kept["memory_id"]
            return
        await self._surely("/memory/forget", {"memory_id": kept["memory_id"]}, key)
        self.told.forgotten[summary] = kept["memory_id"]

    async def bring(self, word: str, number: int) -> None:
        """Somebody imports, as often as it takes."""
        lines = [
            {"key": f"{word}-{at}", "event_type": "note", "summary": f"import {at} of the {word}"}
            for at in range(LINES)
        ]
        done = await self._surely("/memory/import", {"lines": lines}, self._room.token)
        assert done["imported"] + done["known"] == LINES and not done["refused"], done
        self.told.imported.append(lines)
        await asyncio.sleep(0.5)

    async def say(self, word: str, number: int) -> None:
        """A person posts, decides, and asks an agent about what is remembered."""
        if number % 3 == 0:
            body = f"the harbour master keeps the {word}"
            self.told.memories[body] = ""
        elif number % 3 == 1:
            self.told.decided.append(f"use the {word} for the harbour")
            body = f"DECISION: {self.told.decided[-1]}"
        else:
            known = [*self.told.memories][-1] if self.told.memories else "harbour"
            body = f"@PARROT what about the {word} and the {known}"
            self.told.memories[body] = ""
        id = await self._room.post_stubbornly(body, "ann")
        if body.startswith("@"):
            self.told.asked.append(id)

    async def _surely(self, path: str, body: Json, key: str) -> Json:
        """The first answer that is one. While daemons are killed nobody gives up: none may live long enough."""
        give_up = 0.0
        while True:
            with suppress(*CUT):
                status, answer = await HttpClient("", self._room, key).ask("POST", path, json=body)
                if status in (200, 201):
                    done: Json = answer
                    return done
            self.told.repeated += 1
            if not self.killed.is_set():
                give_up = time.monotonic() + 2 * PATIENCE_S
            assert time.monotonic() < give_up, f"{path} {str(body)[:200]} was never answered"
            await asyncio.sleep(0.05)


async def kills_of_the_memory(
    folder: Path, seed: int, *, kills: int = 3, rounds: int = 4, store: str = "sqlite"
) -> tuple[list[str], Json]:
    """One run; what does not hold (empty: all is well), and what was counted."""
    die = random.Random(seed)
    more: Json
    async with STORES[store](folder) as (where, env):
        more = {"workspace": {"context_len": 0, "worktrees": False}, **where}
        async with room(folder, settings(program("PARROT", "parrot.py"), **more)) as one:
            (one.folder / "parrot.py").write_text(PARROT)
            one.env.update(env)
            await one.start()
            keys = {name: (await HttpClient.open(one, name)).key for name in ("va", "vb")}
            writers = Writers(one, keys, rounds)
            try:
                async with asyncio.TaskGroup() as group:
                    for name in keys:
                        group.create_task(writers.again_and_again(name, writers.remember))
                    group.create_task(writers.again_and_again("vc", writers.bring))
                    group.create_task(writers.again_and_again("vd", writers.say))
                    for _ in range(kills):
                        await asyncio.sleep(die.uniform(0, LIFE_S))
                        await asyncio.to_thread(one.kill)
                        await one.start()
                    writers.killed.set()
            except ExceptionGroup as trouble:
                return [f"{type(cause).__name__}: {cause}\n{one.said()}" for cause in trouble.exceptions], {}
            found, given = await _problems(one, writers.told)
    told = writers.told
    counts = {name: len(getattr(told, name)) for name in ("memories", "forgotten", "decided", "asked")}
    return found, {
        **counts,
        "imported": LINES * len(told.imported),
        "given": given,
        "repeated": told.repeated,
    }


async def _problems(one: Outside, told: Told) -> tuple[list[str], int]:
    """What does not hold, and how many memories PARROT was given."""

    async def followed() -> bool:
        # The log is followed in its order: what was said last is remembered last.
        last = [summary for summary, id in told.memories.items() if not id][-1:] + told.decided[-1:]
        return all([summary in await _recalled(one, summary) for summary in last])

    await eventually(followed, "what was said last to be remembered", within_s=FOLLOWED_S, every_s=0.5)
    found: list[str] = []
    for summary, id in [*told.memories.items(), *((decision, "") for decision in told.decided)]:
        ids = (await _recalled(one, summary)).get(summary, [])
        if len(ids) != 1 or id not in ("", *ids):
            found.append(f"{summary!r} was kept as {id!r} and is recalled as {ids}")
    for summary in told.forgotten:
        if summary in await _recalled(one, summary):
            found.append(f"{summary!r} was forgotten and is recalled")
    for decision in told.decided:
        _, known = await one.ask("POST", "/knowledge", json={"about": decision, "limit": 500})
        times = [entry["content"] for entry in known["entries"]].count(decision)
        if times != 1:
            found.append(f"{decision!r} is {times} times in the knowledge")
    for lines in told.imported:
        _, done = await one.ask("POST", "/memory/import", json={"lines": lines})
        if done != {"imported": 0, "merged": 0, "known": LINES, "refused": []}:
            found.append(f"an import that was acknowledged is sent once more: {str(done)[:300]}")
    answers, given = await _answers(one, told)
    made = (await one.get("/api/memory?kind=answer"))["memories"]
    found += answers + [f"an answer made the memory {memory['summary']!r}" for memory in made]
    verified = await one.relay("verify")
    return found + ([] if verified.code == 0 else [f"the log does not verify: {verified.all}"]), given


async def _answers(one: Outside, told: Told) -> tuple[list[str], int]:
    found, given = [], 0
    answers: dict[str, list[Json]] = {}
    for entry in await one.entries():
        if entry["speaker"] == "PARROT" and entry["in_reply_to"]:
            answers.setdefault(entry["in_reply_to"], []).append(entry)
    for id in told.asked:
        if len(answers.get(id, [])) > 1:
            found.append(f"the question {id} has {len(answers[id])} answers")
        for answer in answers.get(id, []):
            ids = Counter(memory["id"] for memory in answer["meta"].get("memories", ()))
            given += len(ids)
            found += [f"{id} was given {memory} {n} times" for memory, n in ids.items() if n != 1]
    return found, given


async def _recalled(one: Outside, summary: str) -> dict[str, list[Any]]:
    """The ids of the memories that are recalled for it, by their summaries."""
    status, recalled = await one.ask(
        "POST", "/memory/recall", json={"task_description": summary, "limit": 100}
    )
    assert status == 200, recalled
    ids: dict[str, list[Any]] = {}
    for memory in recalled:
        ids.setdefault(str(memory.get("summary")), []).append(memory["memory_id"])
    return ids

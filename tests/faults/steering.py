"""Messages that go into running turns while the daemon is killed: a steer, a follow-up, a line in the file.

Agents work all the time, each by a process that speaks Claude Code's stream-json input
(`scripts/bench/steering_program.py`) and names in its answer what it was told. What holds afterwards (`problems`):
every acknowledged message is in the room and its file once, has one job, which is done, and is named by one answer of
its agent, whether it was heard in the turn or came with the next one. A turn that a kill cut off has no answer; what
it heard comes again. By hand: `scripts/faults steering`.
"""

from __future__ import annotations

import asyncio
import random
import re
import sqlite3
import uuid
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from relay.model import Kind, Message
from relay.room.parsing import line_format
from scripts.bench.steering import AGENTS, seen, settings
from tests.outside import PATIENCE_S, Json, Outside, eventually, room

#: Tools of a turn, and seconds of each: long enough that most messages meet a turn that works.
TOOLS, TOOL_S = 12, 0.1
#: People who write at once; of ten messages one is a line in the file.
PEOPLE = 8
TOKEN = re.compile(r"tok-[0-9a-f]+")
HEARD = "SELECT count(*) FROM dispatch_queue WHERE heard_at IS NOT NULL AND state = 'done'"
OPEN = "SELECT count(*) FROM dispatch_queue WHERE state NOT IN ('done', 'dead', 'skipped')"


@dataclass(slots=True)
class Told:
    """`agent`: of each token the agent that it is said to; `ids`: what the room, or the file, took of it."""

    agent: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    kills: int = 0


class Steering:
    """One run: `messages` in all, and `kills` SIGKILLs spread over them. `pause_s`: seconds between two messages of a
    person, at most."""

    def __init__(
        self, one: Outside, programs: Path, seed: int, *, messages: int, kills: int, pause_s: float
    ) -> None:
        self.room, self.programs = one, programs
        self.messages, self.kills, self.pause_s = messages, kills, pause_s
        self.told = Told()
        self._left = messages
        self._random = random.Random(seed)

    async def run(self) -> None:
        await self.room.start()
        await self._begin(random.Random(self._random.random()))
        async with asyncio.TaskGroup() as group:
            for number in range(PEOPLE):
                group.create_task(self._person(f"ann{number}", random.Random(self._random.random())))
            group.create_task(self._kill(random.Random(self._random.random())))
        # What the last daemon did not live to write is found by one more.
        await asyncio.to_thread(self.room.kill)
        await self.room.start()
        await self._settled()

    async def _begin(self, die: random.Random) -> None:
        """Steer one agent until it has heard something and its turn is over: this run meets turns that hear."""

        async def look() -> bool:
            token = f"tok-{die.getrandbits(64):016x}"
            self.told.agent[token] = "A0"
            self.told.ids[token] = await self.room.post_stubbornly(f"/steer @A0 {token}.", "ann")
            return self.count(HEARD) > 0

        await eventually(look, "a message that is heard in a turn", every_s=0.3)

    async def _person(self, who: str, die: random.Random) -> None:
        while self._left > 0:
            self._left -= 1
            token, name = f"tok-{die.getrandbits(64):016x}", f"A{die.randrange(AGENTS)}"
            self.told.agent[token] = name
            kind = die.random()
            if kind < 0.1:
                self.told.ids[token] = await self._append(who, f"@{name} {token}.", die)
            else:
                body = f"/steer @{name} {token}." if kind < 0.55 else f"@{name} {token}."
                self.told.ids[token] = await self.room.post_stubbornly(body, who)
            await asyncio.sleep(die.uniform(0, self.pause_s))

    async def _append(self, who: str, body: str, die: random.Random) -> str:
        path = self.room.transcript
        message = Message(str(uuid.UUID(int=die.getrandbits(128), version=4)), "", who, Kind.HUMAN, body)
        lock = line_format.lock_path(self.room.runtime, path)
        await asyncio.to_thread(line_format.append, path, lock, line_format.encode(message))
        return message.id

    async def _kill(self, die: random.Random) -> None:
        """Each in its share of the messages; every tenth while the daemon starts again."""
        for number in range(self.kills):
            due = self.messages * (number + die.random()) / self.kills
            # Each message counts, and none has an event to wait for.
            while len(self.told.ids) < due and self._left > 0:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(die.uniform(0, 0.3))
            await asyncio.to_thread(self.room.kill)
            self.told.kills += 1
            self.room.launch()
            if number % 10 != 9:
                await self.room.until_open()

    async def _settled(self) -> None:
        last: list[object] = []

        async def look() -> bool:
            stood, last[:] = list(last), [self.count("SELECT count(*) FROM messages"), self.count(OPEN)]
            return last[1] == 0 and stood == last

        # Two looks a second apart that see the same, however long the work takes that was left.
        await eventually(look, "all to be told", within_s=PATIENCE_S + self.messages, every_s=1.0)

    # -- what must hold

    def count(self, sql: str) -> int:
        return int(self._rows(sql)[0][0])

    def _rows(self, sql: str) -> list[sqlite3.Row]:
        path = self.room.runtime / "events.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return connection.execute(sql).fetchall()

    async def problems(self) -> tuple[list[str], Json]:
        """What does not hold, and what was counted."""
        entries = await self.room.entries()
        jobs = self._rows("SELECT message_id, agent, state, heard_at, answer_id FROM dispatch_queue")
        found = [*self._entries(entries), *self._answers(entries, jobs)]
        verified = await self.room.relay("verify")
        if verified.code != 0:
            found.append(f"the log does not verify: {verified.all}")
        counts: Json = {
            "messages": len(self.told.ids),
            "kills": self.told.kills,
            "heard in the turn": sum(job["heard_at"] is not None for job in jobs),
            "with the next turn": sum(job["heard_at"] is None for job in jobs),
            "turns": sum(one["what"] == "prompt" for n in range(AGENTS) for one in seen(self.programs, n)),
            "answers": sum(one["kind"] == "agent" for one in entries),
        }
        return found, counts

    def _entries(self, entries: list[Json]) -> list[str]:
        people = [one for one in entries if one["kind"] == "human"]
        said = Counter(token for one in people for token in TOKEN.findall(one["body"]))
        ids = Counter(one["id"] for one in entries)
        lines = Counter(line["id"] for _, line in self.room.file_lines() if isinstance(line, dict))
        found = []
        for token in self.told.agent:
            id = self.told.ids.get(token, "")
            if (said[token], ids[id], lines[id]) != (1, 1, 1):
                where = f"in the room {said[token]} and {ids[id]} times, in the file {lines[id]} times"
                found.append(f"{token}, acknowledged as {id}, is {where}")
        return found

    def _answers(self, entries: list[Json], jobs: list[sqlite3.Row]) -> list[str]:
        answers = {one["id"]: one for one in entries if one["kind"] == "agent"}
        told = Counter((one["speaker"], t) for one in answers.values() for t in TOKEN.findall(one["body"]))
        of_message: dict[str, list[sqlite3.Row]] = {}
        for job in jobs:
            of_message.setdefault(job["message_id"], []).append(job)
        found = [f"{who} was told {token} {n} times" for (who, token), n in told.items() if n != 1]
        for token, name in self.told.agent.items():
            mine = of_message.get(self.told.ids.get(token, ""), [])
            if [(job["agent"], job["state"]) for job in mine] != [(name, "done")]:
                found.append(f"{token} to {name} has the jobs {[tuple(job) for job in mine]}")
                continue
            answer = answers.get(mine[0]["answer_id"])
            if answer is None or token not in answer["body"]:
                found.append(f"{token} is done, and {name} was not told: {tuple(mine[0])}")
            elif (mine[0]["heard_at"] is not None) != (mine[0]["message_id"] in _heard(answer)):
                found.append(f"{token}'s receipt is not its answer's: {tuple(mine[0])}")
        return found


def _heard(answer: Json) -> set[str]:
    return {one["message"] for one in answer["meta"].get("heard", ())}


async def steering(
    folder: Path, seed: int, *, messages: int = 600, kills: int = 4, pause_s: float = 0.2
) -> tuple[list[str], Json]:
    """One run in a folder of its own: what did not hold, and what was counted."""
    configuration = {**settings(folder / "bin", TOOLS, TOOL_S), "ui": {"port": 0}}
    async with room(folder / "room", configuration) as one:
        try:
            run = Steering(one, folder / "bin", seed, messages=messages, kills=kills, pause_s=pause_s)
            await run.run()
            return await run.problems()
        except (AssertionError, OSError, ExceptionGroup) as trouble:
            causes = trouble.exceptions if isinstance(trouble, ExceptionGroup) else (trouble,)
            return [f"{type(cause).__name__}: {cause}\n{one.said()}" for cause in causes], {}

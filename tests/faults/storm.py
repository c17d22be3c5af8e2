"""One storm over a room: people post and agents answer while the daemon is killed at random points.

Everything random comes from one seed. What holds afterwards (`problems`): every entry is in once, nothing that
was acknowledged is lost or doubled in database or file, every job has ended, no agent answered anything twice,
no process is left, and the log verifies. By hand: `scripts/faults`.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from relay.model import Kind, Message
from relay.room.parsing import line_format
from tests.acceptance.stores import STORES
from tests.outside import Json, Outside, agent, eventually, program, room, settings

#: A command agent: notes its own and its grandchild's pid, takes its time, answers with the tokens asked.
WORKER = """
import json, os, random, re, subprocess, sys, time
asked = sys.stdin.read().rsplit("The message to answer:", 1)[1]
child = subprocess.Popen(["sleep", "300"], start_new_session=random.random() < 0.5)
with open("pids", "a") as file:
    file.write(f"{os.getpid()} {child.pid}\\n")
time.sleep(random.uniform(0.02, 0.5))
print("answer to", " ".join(re.findall(r"tok-[0-9a-f]+", asked)))
"""
#: Fails for good where it is told to, and now and then elsewhere.
SCRIPT = """
- match: break-it
  exit: 3
- delay_s: 0.05
  say: ["{agent} heard ", "{body}"]
  pause_s: 0.02
"""
SLOW = '- delay_s: 0.4\n  say: "{agent} heard {body}"\n'
TOKEN = re.compile(r"tok-[0-9a-f]+")
AGENTS = ("QUICK", "SLOW", "WORKER")
ENDED = ("done", "dead", "skipped")


@dataclass
class Told:
    """What people said: token -> the agents it names; and what the room acknowledged: token -> id."""

    mentions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    acknowledged: dict[str, str] = field(default_factory=dict)
    appended: dict[str, str] = field(default_factory=dict)
    plain: set[str] = field(default_factory=set)
    breaking: set[str] = field(default_factory=set)
    orders: set[str] = field(default_factory=set)


class Storm:
    """One run. `kills` SIGKILLs while `posts` messages come in by each of the four ways. `in_order`: the transcript
    is that of a fleet's member, as every one on PostgreSQL is."""

    def __init__(
        self, one: Outside, seed: int, *, kills: int = 4, posts: int = 10, in_order: bool = False
    ) -> None:
        self.room, self.seed, self.kills, self.posts, self.in_order = one, seed, kills, posts, in_order
        self.told = Told()
        self._posting = asyncio.Event()
        self._random = random.Random(seed)

    async def blow(self) -> None:
        """Post and kill, then start once more and wait until all is settled."""
        dice = [random.Random(self._random.random()) for _ in range(6)]
        self.room.runtime.mkdir(mode=0o700, exist_ok=True)
        self.room.launch()
        async with asyncio.TaskGroup() as group:
            for who, die in zip(("ann", "ben"), dice, strict=False):
                group.create_task(self._posts(who, die))
            group.create_task(self._appends("cleo", dice[2]))
            group.create_task(self._echoes("dan", dice[3]))
            killer = group.create_task(self._kills(dice[4]))
        assert killer.done()
        await self.room.until_open()
        await self._settled()

    # -- people

    def _say(self, die: random.Random) -> tuple[str, str]:
        token = f"tok-{die.getrandbits(64):016x}"
        named = tuple(die.sample(AGENTS, die.choice((0, 1, 1, 2))))
        words = " ".join(f"@{name}" for name in named)
        if die.random() < 0.1:
            self.told.mentions[token] = ()
            self.told.orders.add(token)
            return token, f"/task {token}"
        self.told.mentions[token] = named
        if die.random() < 0.1:
            self.told.breaking.add(token)
            return token, f"{words} {token} break-it"
        return token, f"{words} {token} {'x' * die.choice((1, 40, 3000))}"

    async def _posts(self, who: str, die: random.Random) -> None:
        for _ in range(self.posts):
            token, body = self._say(die)
            self._posting.set()
            self.told.acknowledged[token] = await self.room.post_stubbornly(body, who)
            await asyncio.sleep(die.uniform(0, 0.5))

    async def _appends(self, who: str, die: random.Random) -> None:
        path = self.room.transcript
        lock = line_format.lock_path(self.room.runtime, path)
        for _ in range(self.posts):
            token, body = self._say(die)
            message = Message(str(uuid.UUID(int=die.getrandbits(128), version=4)), "", who, Kind.HUMAN, body)
            await asyncio.to_thread(line_format.append, path, lock, line_format.encode(message))
            self.told.appended[token] = message.id
            await asyncio.sleep(die.uniform(0, 0.5))

    async def _echoes(self, who: str, die: random.Random) -> None:
        for _ in range(self.posts):
            token, body = self._say(die)
            self.room.echo(f"[{who}] {body}")
            self.told.plain.add(token)
            await asyncio.sleep(die.uniform(0, 0.5))

    async def _kills(self, die: random.Random) -> None:
        for _ in range(self.kills):
            await self._moment(die)
            if die.random() < 0.2 and self.room.process is not None:
                # Killed while it stops: what it had begun to put away is put away by the next one.
                self.room.process.terminate()
                await asyncio.sleep(die.uniform(0, 0.5))
            await asyncio.to_thread(self.room.kill)
            self.room.launch()

    async def _moment(self, die: random.Random) -> None:
        """Any time, while it starts too; or just when a message is on its way, or the file has grown."""
        aim = die.choice(("time", "open", "post", "file"))
        if aim != "time":
            await self.room.until_open()
        if aim in ("time", "open"):
            await asyncio.sleep(die.uniform(0.05, 1.2))
            return
        self._posting.clear()
        size = self._size()
        with suppress(TimeoutError):
            async with asyncio.timeout(2):
                # A file has no event to wait for.
                while not (self._posting.is_set() if aim == "post" else self._size() != size):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
        await asyncio.sleep(die.uniform(0, 0.02))

    def _size(self) -> int:
        return self.room.transcript.stat().st_size if self.room.transcript.exists() else 0

    async def _settled(self) -> None:
        last: list[object] = []

        async def look() -> bool:
            jobs = await self.room.jobs()
            if any(job["state"] not in ENDED for job in jobs):
                return False
            entries = await self.room.entries()
            tokens = {token for one in entries for token in TOKEN.findall(one["body"])}
            if not tokens >= set(self.told.mentions) or any(t not in _jobbed(entries, jobs) for t in tokens):
                return False
            now: list[object] = [len(jobs), len(entries), self.room.transcript.stat().st_size]
            same, last[:] = last == now, now
            return same

        # Two looks a second apart that see the same: nothing is under way.
        await eventually(look, "all to be settled", within_s=120, every_s=1.0)

    # -- what must hold

    async def problems(self) -> list[str]:
        """What does not hold; empty when all is well."""
        entries, jobs = await self.room.entries(), await self.room.jobs()
        found = [
            *self._entries(entries),
            *self._file(entries),
            *self._jobs(entries, jobs),
            *_answers(entries, jobs),
            *await self._orders(entries),
            *await self._left(),
        ]
        verified = await self.room.relay("verify")
        if verified.code != 0:
            found.append(f"the log does not verify: {verified.all}")
        return found

    def _entries(self, entries: list[Json]) -> list[str]:
        found = []
        people = [one for one in entries if one["kind"] == "human"]
        counts = Counter(token for one in people for token in TOKEN.findall(one["body"]))
        found += [f"{t} is in the room {counts[t]} times" for t in self.told.mentions if counts[t] != 1]
        ids = Counter(one["id"] for one in entries)
        found += [f"the id {id} is there {n} times" for id, n in ids.items() if n != 1]
        for token, id in (self.told.acknowledged | self.told.appended).items():
            if ids[id] != 1:
                found.append(f"{token} was acknowledged as {id} and is there {ids[id]} times")
        return found

    def _file(self, entries: list[Json]) -> list[str]:
        lines = self.room.file_lines()
        ids = Counter(told["id"] for _, told in lines if isinstance(told, dict))
        found = [f"{id} is in the file {n} times" for id, n in ids.items() if n != 1]
        known = {one["id"] for one in entries}
        found += [f"{id} is in the file and not in the room" for id in ids if id not in known]
        plain = Counter(t for _, told in lines if isinstance(told, str) for t in TOKEN.findall(told))
        for one in entries:
            tokens = TOKEN.findall(one["body"])
            by_hand = one["kind"] == "human" and any(token in self.told.plain for token in tokens)
            # Where the file follows the log's order, a line that came when others were due becomes blank, and stands
            # as the room's own where it is due.
            times = plain[tokens[0]] + (ids[one["id"]] if self.in_order else 0) if by_hand else 1
            if times != 1:
                found.append(f"the plain line {tokens[0]} is in the file {times} times")
            if not by_hand and ids[one["id"]] != 1:
                found.append(f"{one['speaker']}'s {one['id']} is in the file {ids[one['id']]} times")
        return found

    def _jobs(self, entries: list[Json], jobs: list[Json]) -> list[str]:
        found = [f"job {j['id']} of {j['agent']} is {j['state']}" for j in jobs if j["state"] not in ENDED]
        pairs = Counter((job["message_id"], job["agent"]) for job in jobs)
        found += [f"{pair} has {n} jobs" for pair, n in pairs.items() if n != 1]
        said = {t: one for one in entries if one["kind"] == "human" for t in TOKEN.findall(one["body"])}
        for token, named in self.told.mentions.items():
            for name in named:
                if token in said and pairs[said[token]["id"], name] != 1:
                    found.append(f"{token} mentions {name}, which has no job for it")
        by_message = {token: one["id"] for token, one in said.items()}
        broken = {by_message[token] for token in self.told.breaking if token in by_message}
        for job in jobs:
            # A turn takes what waits together, so a message beside one that breaks the agent may fail with it.
            if job["state"] != "done" and job["message_id"] not in broken and not self.told.breaking:
                found.append(f"job {job['id']} of {job['agent']} is {job['state']}: {job['reason']}")
        return found

    async def _orders(self, entries: list[Json]) -> list[str]:
        """A command is carried out once, and answered once."""
        tasks = Counter(task["title"] for task in (await self.room.get("/api/tasks"))["tasks"])
        found = [f"there are {tasks[t]} tasks {t}" for t in self.told.orders if tasks[t] != 1]
        answers = Counter(one["in_reply_to"] for one in entries if one["speaker"] == "RELAY")
        for one in entries:
            if one["body"].startswith("/task ") and answers[one["id"]] != 1:
                found.append(f"{one['body']} was answered {answers[one['id']]} times")
        return found

    async def _left(self) -> list[str]:
        async def none() -> bool:
            return not self.room.agent_processes()

        try:
            await eventually(none, "agents to end", within_s=10)
        except AssertionError:
            left = [f"{p.pid} {p.cmdline()}" for p in self.room.agent_processes()]
            return [f"left behind: {left}"]
        noted = (
            (self.room.folder / "pids").read_text().split() if (self.room.folder / "pids").exists() else []
        )
        return [f"{pid} is left: {name}" for pid in noted if (name := _is_ours(int(pid)))]


def _is_ours(pid: int) -> str:
    """A noted pid that still is one of the storm's programs, and not another's by now."""
    try:
        process = psutil.Process(pid)
        words = process.cmdline()
    except psutil.Error:
        return ""
    ours = process.status() != psutil.STATUS_ZOMBIE and (words == ["sleep", "300"] or "worker.py" in words)
    return " ".join(words) if ours and os.getpid() != pid else ""


def _jobbed(entries: list[Json], jobs: list[Json]) -> set[str]:
    """The tokens whose message has a job, or was folded into one that has, or needs none."""
    with_job = {job["message_id"] for job in jobs}
    return {
        token
        for one in entries
        for token in TOKEN.findall(one["body"])
        if one["kind"] != "human" or one["id"] in with_job or one["meta"].get("folded_into")
    }


def _answers(entries: list[Json], jobs: list[Json]) -> list[str]:
    found = []
    answers = [one for one in entries if one["kind"] == "agent"]
    by_job = Counter(one["job"] for one in answers)
    found += [f"job {job} has {n} answers" for job, n in by_job.items() if n != 1]
    heard = Counter((one["speaker"], token) for one in answers for token in set(TOKEN.findall(one["body"])))
    found += [f"{who} answered {token} {n} times" for (who, token), n in heard.items() if n != 1]
    known = {one["id"] for one in answers}
    said = {one["id"]: TOKEN.findall(one["body"]) for one in entries if one["kind"] == "human"}
    for job in jobs:
        if job["state"] != "done" or job["agent"] == "RELAY":
            continue
        if job["answer_id"] not in known:
            found.append(f"job {job['id']} is done and its answer {job['answer_id']} is not there")
        for token in said.get(job["message_id"], []):
            if heard[job["agent"], token] != 1:
                found.append(
                    f"{job['agent']} is done with {token} and answered it {heard[job['agent'], token]} times"
                )
    return found


async def storm(
    folder: Path, seed: int, *, kills: int = 4, posts: int = 10, store: str = "sqlite"
) -> list[str]:
    """One run in a folder of its own; what did not hold."""
    agents = [
        agent("QUICK", "quick.yaml"),
        agent("SLOW", "slow.yaml"),
        program("WORKER", "worker.py", timeout_s=60),
    ]
    async with STORES[store](folder) as (more, env), room(folder, settings(*agents, **more)) as one:
        one.env.update(env)
        (folder / "quick.yaml").write_text(SCRIPT)
        (folder / "slow.yaml").write_text(SLOW)
        (folder / "worker.py").write_text(WORKER)
        try:
            blowing = Storm(one, seed, kills=kills, posts=posts, in_order=store == "postgres")
            await blowing.blow()
            return await blowing.problems()
        except (AssertionError, OSError, ExceptionGroup) as trouble:
            causes = trouble.exceptions if isinstance(trouble, ExceptionGroup) else (trouble,)
            return [f"{type(cause).__name__}: {cause}\n{one.said()}" for cause in causes]

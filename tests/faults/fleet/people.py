"""Two people who write to the room, each at a member of their own, and do not stop while things break.

A person repeats what was not acknowledged, with the same `client_id`, and goes to another member's door when the own
one stays shut. What a door takes without the room (202) is not acknowledged.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import aiohttp

from tests.faults.fleet.members import Member

#: Seconds that one request may take, and how often a person tries one door before going to the next.
REQUEST_S, TRIES = 5.0, 4


@dataclass
class Told:
    """What people said: token -> the agents it names; what the room acknowledged: token -> its id; the tasks it took;
    what was appended to a file by hand."""

    mentions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    acknowledged: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    appended: dict[str, str] = field(default_factory=dict)
    repeated: int = 0
    moved: int = 0
    #: Answers of a door that are neither a success nor a plain "not now".
    odd: list[str] = field(default_factory=list)


class Person:
    """`doors`: the own member first."""

    def __init__(
        self, name: str, doors: Sequence[Member], agents: Sequence[str], told: Told, dice: random.Random
    ) -> None:
        self.name, self.doors, self.agents, self.told, self.dice = name, doors, agents, told, dice

    async def write(self, over: asyncio.Event, pause_s: float) -> None:
        """Messages and tasks, until it is over; what was begun is ended."""
        while not over.is_set():
            if self.dice.random() < 0.3:
                await self._task()
            else:
                await self.message(over)
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), self.dice.uniform(0.2, 2.0) * pause_s)

    async def message(self, over: asyncio.Event | None = None) -> str:
        """One message, to one agent or two, or to nobody by a card (which no agent answers)."""
        token = f"tok-{self.dice.getrandbits(64):016x}"
        named = tuple(self.dice.sample(list(self.agents), min(self.dice.choice((1, 1, 2)), len(self.agents))))
        self.told.mentions[token] = named
        body = f"{' '.join(f'@{name}' for name in named)} {token} {'x' * self.dice.choice((1, 40, 2000))}"
        said = {
            "body": body,
            "name": self.name,
            "client_id": str(uuid.UUID(int=self.dice.getrandbits(128), version=4)),
        }
        answer = await self._surely("/api/messages", said, over)
        if answer is not None:
            self.told.acknowledged[token] = answer["id"]
        return token

    async def _task(self) -> None:
        word = f"work-{self.dice.getrandbits(64):016x}"
        said = {
            "task_type": "storm",
            "task_description": word,
            "idempotency_key": word,
            "name": self.name,
        }
        answer = await self._surely("/work/submit", said, None)
        if answer is not None and answer.get("success"):
            self.told.tasks[answer["task_id"]] = word

    async def _surely(
        self, path: str, said: dict[str, str], over: asyncio.Event | None
    ) -> dict[str, str] | None:
        """The success that a door answers with. None when all is over and no door does: then it is not known whether
        the room has it."""
        tried = 0
        at = 0
        while True:
            door = self.doors[at % len(self.doors)]
            try:
                async with asyncio.timeout(REQUEST_S):
                    status, answer = await door.ask("POST", path, json=said)
                if status in (200, 201):
                    return dict(answer)
                if status not in (202, 429, 503):
                    self.told.odd.append(f"{door.name}: {path} answered {status}: {answer}")
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
                pass  # the door is shut: it is tried again below
            self.told.repeated += 1
            tried += 1
            if tried % TRIES == 0:
                at += 1
                self.told.moved += 1
            if over is not None and over.is_set() and tried > 10 * TRIES:
                return None
            await asyncio.sleep(0.2)


async def append_by_hand(
    name: str,
    members: Sequence[Member],
    agents: Sequence[str],
    told: Told,
    dice: random.Random,
    over: asyncio.Event,
    pause_s: float,
    closed: set[str],
) -> None:
    """`echo '[NAME] ...' >> transcript.log` at any member that is not `closed`."""
    while not over.is_set():
        member, token = dice.choice(list(members)), f"tok-{dice.getrandbits(64):016x}"
        named = dice.choice(list(agents))
        if member.name not in closed and member.transcript.exists():
            told.mentions[token], told.appended[token] = (named,), member.name
            with member.transcript.open("ab") as file:
                file.write(f"[{name}] @{named} {token} by hand\n".encode())
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), dice.uniform(1.0, 3.0) * pause_s)

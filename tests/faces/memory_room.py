"""A room in memory, for the tests of the interfaces: real values, cursors without gaps, frames for ever; no agents.

It has the parts of `relay.room.service.Room`; an interface that works with it relies on nothing else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from relay.model import Fault, Kind, Message, Refusal
from relay.model.actions import Action, Answer, Cancel, EditTasks, Retry, Route, SetAgent
from relay.room.journal.values import Frame, Job, JobState, Page

TS = "2026-01-02T03:04:05.678Z"


class MemoryFeed:
    """Live frames of one subscriber; the oldest go when there are too many."""

    def __init__(self, feeds: set[MemoryFeed]) -> None:
        self._frames: deque[Frame] = deque(maxlen=1000)
        self._some = asyncio.Event()
        self._feeds = feeds
        feeds.add(self)

    def put(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._some.set()

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        while not self._frames:
            if self not in self._feeds:
                raise StopAsyncIteration
            self._some.clear()
            await self._some.wait()
        return self._frames.popleft()

    def close(self) -> None:
        self._feeds.discard(self)
        self._some.set()


class MemoryRoom:
    """See the module. `acts` records what persons did; `fail` is raised by the next call of `state`."""

    def __init__(self, *, batch: int = 100) -> None:
        self.messages: list[Message] = []
        self.stored: list[Frame] = []
        self.people: list[str] = []
        self.acts: list[tuple[Any, ...]] = []
        self.tasks_kept: list[dict[str, Any]] = []
        self.fail: Exception | None = None
        self.trouble = ""
        self.silent = False
        # One object is all the parts of a room.
        self.reader = self.poster = self.actions = self.status = self.live = self
        self.readers = 0
        self._batch = batch
        self._by_client: dict[str, Message] = {}
        self._more = asyncio.Condition()
        self._feeds: set[MemoryFeed] = set()
        #: What running turns have said so far.
        self.writing: list[Frame] = []

    def streams(self) -> list[Frame]:
        return self.writing

    def cut_off(self) -> bool:
        """Does its database not answer?"""
        return self.silent

    async def post(
        self,
        body: str,
        *,
        name: str,
        in_reply_to: str | None = None,
        client_id: str | None = None,
        verified: bool = True,
    ) -> Message:
        if client_id is not None and client_id in self._by_client:
            return self._by_client[client_id]
        number = len(self.messages) + 1
        cursor = 2 * number + 1  # not every cursor is a message's, as in the log
        message = Message(f"m{number}", TS, name, Kind.HUMAN, body, number, cursor, in_reply_to)
        self.messages.append(message)
        if client_id is not None:
            self._by_client[client_id] = message
        await self.store(Frame(cursor, "entry", message.as_json()))
        return message

    async def store(self, *frames: Frame) -> None:
        self.stored += frames
        async with self._more:
            self._more.notify_all()

    async def transcript(
        self, *, after: int | None = None, before: int | None = None, limit: int = 100
    ) -> Page:
        if after is not None:
            found = [one for one in self.messages if one.cursor > after]
            return Page(found[:limit], found[:limit][-1].cursor if found else after, after > 0)
        found = [one for one in self.messages if before is None or one.cursor < before]
        return Page(found[-limit:], await self.last_cursor(), len(found) > limit)

    async def around(self, place: str, *, limit: int = 100) -> Page:
        names = [{one.id, f"#{one.number}", str(one.cursor)} for one in self.messages]
        at = next((at for at, known in enumerate(names) if place in known), None)
        if at is None:
            raise Refusal(f"There is no message {place}.", "Ids are in the transcript.", Fault.UNKNOWN)
        first, behind = max(0, at - limit // 2), at + limit - limit // 2
        found = self.messages[first:behind]
        return Page(found, found[-1].cursor, first > 0, behind < len(self.messages))

    async def search(self, text: str, *, limit: int = 50) -> list[tuple[Message, str]]:
        found = [one for one in reversed(self.messages) if text in one.body]
        return [(one, one.body.replace(text, f"\x01{text}\x02")) for one in found[:limit]]

    async def jobs(
        self, *, state: str | None = None, messages: Sequence[str] | None = None, limit: int = 200
    ) -> list[dict[str, Any]]:
        job = Job(7, "m1", "CLAUDE", JobState.PENDING, created_at=1.0, cause_event="e1")
        asked = messages is None or "m1" in messages
        shown = {**job.as_json(), "asked": {"number": 1, "by": "ann", "text": "0"}}
        return [shown] if asked and state in (None, "pending") else []

    async def undoable(self) -> str:
        return ""

    async def tasks(self) -> list[dict[str, Any]]:
        return self.tasks_kept

    async def as_json(self, *, claimed: bool = False) -> dict[str, Any]:
        if self.fail is not None:
            raise self.fail
        return {
            "room": {"name": "memory", "cursor": str(await self.last_cursor())},
            "agents": [],
            "commands": [],
        }

    async def agent_log(self, name: str, *, limit: int = 200) -> list[dict[str, Any]]:
        self._agent(name)
        return [{"ts": TS, "text": "started"}][:limit]

    async def why(self, event_or_message_id: str) -> list[dict[str, Any]]:
        if event_or_message_id not in {one.id for one in self.messages}:
            raise Refusal("There is no such event.", "Ids are in the transcript.", Fault.UNKNOWN)
        return [{"id": event_or_message_id, "type": "message", "lane": "x", "at": TS, "summary": "said"}]

    def _agent(self, name: str | None) -> None:
        if name not in (None, "CLAUDE"):
            raise Refusal(f"There is no agent {name}.", "There is CLAUDE.", Fault.UNKNOWN)

    async def act(self, action: Action, *, by: str) -> Answer:
        for agent in action.named():
            self._agent(agent)
        if isinstance(action, Cancel):
            raise Refusal("CLAUDE is not at work.", "Nothing to do.")
        self.acts.append((action, by))
        return Answer(True, "Done.")

    async def set_agent(self, action: SetAgent, *, by: str) -> dict[str, Any]:
        self._agent(action.agent)
        self.acts.append((action, by))
        return {"success": True}

    async def route(self, message_id: str, agents: list[str], *, by: str) -> Answer:
        if not agents:
            raise Refusal("No agent was named.", "There is CLAUDE.", Fault.MALFORMED)
        return await self.act(Route(tuple(agents), 1), by=by)

    async def retry(self, job: int, *, by: str) -> Answer:
        return await self.act(Retry(job, "job"), by=by)

    async def create_task(self, title: str, description: str | None = None, *, by: str) -> dict[str, Any]:
        task = {"number": len(self.tasks_kept) + 1, "title": title, "status": "pending", "created_by": by}
        self.tasks_kept.append(task)
        return task

    async def change_task(
        self, number: int, changes: dict[str, Any], edits: Sequence[EditTasks] = (), *, by: str
    ) -> dict[str, Any]:
        for task in self.tasks_kept:
            if task["number"] == number:
                task.update(changes)
                return task
        raise Refusal(f"There is no task #{number}.", "", Fault.UNKNOWN)

    async def frames(self, after: int | None) -> AsyncIterator[list[Frame]]:
        at = await self.last_cursor() if after is None else after
        self.readers += 1
        try:
            while True:
                found = [one for one in self.stored if (one.cursor or 0) > at][: self._batch]
                if found:
                    at = found[-1].cursor or at
                    yield found
                    await asyncio.sleep(0)
                    continue
                async with self._more:
                    if not any((one.cursor or 0) > at for one in self.stored[-1:]):
                        await self._more.wait()
        finally:
            self.readers -= 1

    def feed(self) -> MemoryFeed:
        return MemoryFeed(self._feeds)

    @property
    def feeds(self) -> int:
        """How many listen to what is not stored."""
        return len(self._feeds)

    def say_live(self, frame: Frame) -> None:
        for feed in self._feeds:
            feed.put(frame)

    async def last_cursor(self) -> int:
        return (self.stored[-1].cursor or 0) if self.stored else 0

    @contextmanager
    def here(self, name: str) -> Iterator[None]:
        self.people.append(name)
        try:
            yield
        finally:
            self.people.remove(name)

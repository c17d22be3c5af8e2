"""Read the room: its messages, jobs, tasks, locks and agents, and the frames that connected clients are sent."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any

from relay.base.durations import iso
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event
from relay.log.follow import tail
from relay.model import Board, BoardTask, Fault, Holds, Message, Refusal
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.running import RunningTurns
from relay.room.dispatch.view_queries import agents_json, asked_in_short
from relay.room.journal import ledger, pages, usage
from relay.room.journal.frames import (
    LANDINGS,
    SHOWN,
    TASK_EVENTS,
    WORKTREE_CHANGED,
    frames_of,
    latest,
    summary,
)
from relay.room.journal.ledger import Q
from relay.room.journal.pages import IDS_FIX
from relay.room.journal.values import Frame, Job, JobState, Page
from relay.room.journal.visitors import reached, visitors
from relay.store.ports import Row, Store, Tx

#: Tasks that somebody has, of which the first screen tells.
MOST_CLAIMED = 60


class Reader:
    """Answers every question about the room. Nothing here writes."""

    def __init__(
        self,
        store: Store,
        roster: Roster,
        turns: RunningTurns,
        board: Board,
        holds: Holds,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._roster, self._turns, self._board, self._holds = store, roster, turns, board, holds
        self._clock = clock

    @property
    def agents_fix(self) -> str:
        """What to do after a name that is no agent's: the names there are."""
        return f"The room has: {', '.join(self._roster.names) or 'none'}."

    def require_agent(self, name: str) -> None:
        """Raises Refusal: unknown."""
        if name not in self._roster.members:
            raise Refusal(f"There is no agent {name}.", self.agents_fix, Fault.UNKNOWN)

    async def sessions(self) -> Mapping[str, str]:
        """People's own sessions that a message reaches, and what each does."""
        return reached(visitors(await self._store.read(self._holds.sessions), self._roster.members))

    def is_working(self, agent: str) -> bool:
        return agent in self._turns.by_agent

    def streams(self) -> list[Frame]:
        """What the turns that run here have said so far."""
        return [Frame(None, "stream", data) for data in self._turns.streams()]

    async def last_cursor(self) -> int:
        return await self._store.read(events.last_pos)

    async def transcript(
        self, *, after: int | None = None, before: int | None = None, limit: int = 100
    ) -> Page:
        """A page, oldest first: behind `after`, or before `before`, or the newest."""

        async def work(tx: Tx) -> Page:
            return await pages.with_replies(tx, await pages.page(tx, after=after, before=before, limit=limit))

        return await self._store.read(work)

    async def thread(self, place: str, *, limit: int = 100) -> Page:
        """The thread that the entry at `place` (an id or `m12`) is in."""

        async def work(tx: Tx) -> Page | None:
            page = await pages.thread(tx, place, limit=limit)
            return None if page is None else await pages.with_replies(tx, page)

        return _there(await self._store.read(work), place)

    async def message(self, id: str) -> Message:
        message = await self._store.read(lambda tx: ledger.message(tx, id))
        if message is None:
            raise Refusal(f"There is no message {id[:60]}.", IDS_FIX, Fault.UNKNOWN)
        return message

    async def around(self, place: str, *, limit: int = 100) -> Page:
        """The entry at `place` (an id, `m12` or a cursor) among its neighbours."""

        async def work(tx: Tx) -> Page | None:
            page = await pages.around(tx, place, limit=limit)
            return None if page is None else await pages.with_replies(tx, page)

        return _there(await self._store.read(work), place)

    async def search(self, text: str, *, limit: int = 50) -> list[tuple[Message, str]]:
        """Entries with all the words of `text`, newest first, each with a snippet around the hits."""
        return await self._store.read(lambda tx: pages.search(tx, text, limit=limit), long=True)

    async def jobs(
        self, *, state: str | None = None, messages: Sequence[str] | None = None, limit: int = 200
    ) -> list[dict[str, Any]]:
        """JOB shapes of docs/http.md, newest first: of one state, or of these messages, or all."""
        if state is not None and state not in list(JobState):
            allowed = ", ".join(JobState)
            raise Refusal(f"There is no state {state!r}.", f"One of: {allowed}.", Fault.MALFORMED)

        async def work(tx: Tx) -> list[dict[str, Any]]:
            if messages is not None:
                of_messages = await tx.all(Q.jobs_of_messages, ids=dumps(list(messages)), limit=limit)
                rows = [row for row in of_messages if state in (None, row["state"])]
            elif state is None:
                rows = list(await tx.all(Q.jobs, limit=limit))
            else:
                rows = list(await tx.all(Q.jobs_in_state, state=state, limit=limit))
            jobs = [Job.of_row(row) for row in rows]
            ids = list(dict.fromkeys(job.message_id for job in jobs))
            asked = {row["id"]: row for row in await tx.all(Q.messages_by_ids, ids=dumps(ids))}
            return [{**job.as_json(), "asked": _asked(asked.get(job.message_id))} for job in jobs]

        return await self._store.read(work)

    async def job(self, id: int) -> Job:
        row = await self._store.read(lambda tx: tx.one(Q.job, id=id))
        if row is None:
            raise Refusal(f"There is no job {id}.", "GET /api/queue lists them.", Fault.UNKNOWN)
        return Job.of_row(row)

    async def tasks(self) -> list[dict[str, Any]]:
        """The board, as lists have tasks."""

        async def work(tx: Tx) -> list[dict[str, Any]]:
            return await self._listed(tx, await self._board.list(tx))

        return await self._store.read(work)

    async def claimed(self) -> dict[str, Any]:
        """Of the board what the first screen shows: `{tasks, board: {open, last}}`, `tasks` what somebody has now, by
        number and MOST_CLAIMED at most, `board` what is counted of all of it."""

        async def work(tx: Tx) -> dict[str, Any]:
            had = await self._listed(tx, await self._board.in_hand(tx))
            shown = [task for task in had if task["status"] == "in_progress"]
            return {"tasks": shown[:MOST_CLAIMED], "board": await self._board.counts(tx)}

        return await self._store.read(work)

    async def _listed(self, tx: Tx, tasks: Sequence[BoardTask]) -> list[dict[str, Any]]:
        merged = await self._board.landed(tx, tasks)
        return [{**task.as_listed(), **_work(merged.get(task.id, ""))} for task in tasks]

    async def undoable(self) -> str:
        """What the board's undo takes back now, in one sentence. Empty: there is nothing."""
        return await self._store.read(self._board.undoable)

    async def task(self, number: int) -> dict[str, Any] | None:
        """A task of the board whole, None: it is not there."""

        async def work(tx: Tx) -> dict[str, Any] | None:
            tasks = [task for task in await self._board.list(tx) if task.number == number]
            merged = await self._board.landed(tx, tasks)
            return next(({**task.as_json(), **_work(merged.get(task.id, ""))} for task in tasks), None)

        return await self._store.read(work)

    async def held(self) -> dict[str, Any]:
        """Who holds what, as of `now`: `{locks: [LOCK + waiting], sessions: [SESSION], now}`."""

        async def work(tx: Tx) -> dict[str, Any]:
            locks, sessions = await self._holds.locks(tx), await self._holds.sessions(tx)
            return {"locks": list(locks), "sessions": list(sessions), "now": iso(await tx.now())}

        return await self._store.read(work)

    async def agents(self, only: Sequence[str] | None = None) -> list[dict[str, Any]]:
        now = self._clock()
        return await self._store.read(
            lambda tx: agents_json(tx, self._roster.members, self._turns.by_agent, now, only)
        )

    async def usage(self) -> dict[str, Any]:
        """What the agents' turns used today, and by hour (docs/http.md)."""
        now = self._clock()
        return (await self._store.read(lambda tx: usage.day_use(tx, now))).as_json()

    async def agent_log(self, name: str, *, limit: int = 200) -> list[dict[str, str]]:
        self.require_agent(name)
        return self._turns.log_of(name, limit)

    async def why(self, id: str) -> list[dict[str, Any]]:
        """The causes of an event or a message, nearest first."""

        async def work(tx: Tx) -> list[Event]:
            row = await tx.one(Q.event_of_message, id=id)
            return await events.why(tx, row["event_id"] if row else id)

        chain = await self._store.read(work)
        if not chain:
            raise Refusal(f"There is no event or message {id}.", IDS_FIX, Fault.UNKNOWN)
        return [
            {
                "id": event.id,
                "type": event.type,
                "lane": event.lane,
                "at": event.at,
                "summary": summary(event),
            }
            for event in chain
        ]

    async def frames(self, after: int | None) -> AsyncIterator[list[Frame]]:
        """Stored frames behind the cursor (None: from now on), first the stored, then the live. Never ends."""
        start = await self.last_cursor() if after is None else after
        async for batch in tail(self._store, start, types=(*SHOWN, WORKTREE_CHANGED), first=True):
            frames: list[Frame] = []
            for event in batch:
                frames += frames_of(event)
            frames = latest(frames)
            ids = [
                task["after"]["id"]
                for event in batch
                if event.type in TASK_EVENTS
                for task in event.outputs["tasks"]
            ]
            # A merge and a takeback change what a card says of the work that was done for it, and so does the answer
            # of a turn that changed something.
            agents = {
                event.outputs["agent"]
                for event in batch
                if event.type == WORKTREE_CHANGED and event.outputs["change"] in LANDINGS
            }
            agents |= {
                frame.data["speaker"]
                for frame in frames
                if frame.type == "entry" and frame.data["meta"].get("worktree")
            }
            told = await self._changed_tasks(ids, agents)
            if told["changed"] or told["gone"]:
                frames.append(Frame(batch[-1].pos, "task", told))
            if frames:
                yield frames

    async def _changed_tasks(self, ids: Sequence[str], agents: Collection[str]) -> dict[str, Any]:
        """The tasks of these ids, and those that these agents were given last, as they are now, the ids of those that
        left the board, and its counts."""
        if not ids and not agents:
            return {"changed": [], "gone": []}

        async def work(tx: Tx) -> dict[str, Any]:
            tasks = list(await self._board.among(tx, list(dict.fromkeys(ids))))
            if agents:
                there = {task.id for task in tasks}
                given = [task for task in await self._board.list(tx) if task.given and task.id not in there]
                tasks += [task for task in given if task.given[-1][2] in agents]
            changed = await self._listed(tx, tasks)
            on_board = {task["id"] for task in changed}
            gone = [id for id in dict.fromkeys(ids) if id not in on_board]
            return {"changed": changed, "gone": gone, "board": await self._board.counts(tx)}

        return await self._store.read(work)


def _work(merged: str | None) -> dict[str, Any]:
    """Where the work for a task is. `merged`: as `Board.landed` has it, empty = it is not there."""
    return {"landed": merged or None, "in_branch": merged is None}


def _asked(message: Row | None) -> dict[str, Any] | None:
    """What a job is about, in short; None: its message is archived."""
    if message is None:
        return None
    return {"number": message["number"], **asked_in_short(message["speaker"], message["body"])}


def _there(page: Page | None, place: str) -> Page:
    """The page. Raises Refusal where there is none."""
    if page is None:
        raise Refusal(f"There is no message {place[:60]}.", IDS_FIX, Fault.UNKNOWN)
    return page

"""The room as the doors see it: post, read, follow, and act.

Invariants: a door never touches a table; a person's act in the page is a message in the room, as the command
would be, so everybody sees who did what; every refusal says what would make it succeed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from relay.base.durations import iso
from relay.config.command_line import command, script
from relay.log import events
from relay.log.events import Event, Lane, dumps
from relay.log.follow import tail
from relay.model import (
    RESERVED_NAMES,
    TASK_STATUSES,
    Board,
    Fault,
    Holds,
    Kind,
    Message,
    Refusal,
    references,
)
from relay.model.messages import check_client_id, checked_body
from relay.model.speaker_names import clean_name, is_reserved, posing_as
from relay.room.dispatch import roster
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.worker import Drain
from relay.room.journal import hop_limit, ledger, pages
from relay.room.journal.frames import SHOWN, TASK_EVENTS, frames_of, latest, summary
from relay.room.journal.ledger import NewMessage, Q, Rules
from relay.room.journal.live_bus import Live, LiveFeed
from relay.room.journal.values import Frame, Job, JobState, Page, Posted, message_of_row
from relay.room.journal.visitors import visitors
from relay.room.parsing import commands
from relay.room.parsing.actions import (
    Action,
    AddTask,
    Answer,
    Cancel,
    MoveTask,
    Retry,
    Route,
    Status,
)
from relay.room.routing.router import Router
from relay.room.steward.worker import Desk
from relay.room.transcript.tail import Transcript
from relay.store.ports import Store, StoreBusy, StoreMoved, Tx

log = structlog.get_logger(__name__)
#: Seconds for which the room is not well after a message had to be refused, unless one is taken before.
REFUSED_S = 15.0
_IDS = "GET /api/transcript lists the messages with their ids."
#: Seconds that an act in the page waits for the steward.
ORDER_S = 20.0


@dataclass(frozen=True, slots=True)
class About:
    """What the state says of the room itself. `set_agent` writes an agent's settings; raises Refusal."""

    name: str
    version: str
    started_at: str
    repo: Path
    config: Path
    engine: str
    database: str
    max_entry_bytes: int


class Room:
    """Everything a door may do. Built by the composition root from parts that run elsewhere."""

    def __init__(
        self,
        store: Store,
        about: About,
        *,
        live: Live,
        board: Board,
        drain: Drain,
        router: Router,
        desk: Desk,
        transcript: Transcript,
        roster: Callable[[], Roster],
        rules: Callable[[], Rules],
        set_agent: Callable[[str, Mapping[str, Any]], Any],
        trouble: Callable[[], str] = lambda: "",
        holds: Holds | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self.about = about
        self._live = live
        self._board = board
        self._drain = drain
        self._router = router
        self._desk = desk
        self._transcript = transcript
        self._roster = roster
        self._rules = rules
        self._set_agent = set_agent
        self._trouble = trouble
        self._holds = holds
        self._clock = clock
        self.catching_up = True
        self._refused: tuple[float, str] | None = None

    def healthy(self) -> tuple[bool, str]:
        """Can the room be used, and if not: why."""
        trouble = self._trouble()
        if not trouble and self._refused and time.monotonic() - self._refused[0] < REFUSED_S:
            trouble = self._refused[1]
        return not trouble, trouble

    # -- people write

    async def post(
        self,
        body: str,
        *,
        name: str,
        in_reply_to: str | None = None,
        client_id: str | None = None,
        verified: bool = True,
        action: Action | None = None,
        id: str = "",
    ) -> Posted:
        """A person's message; on disk, with all that it opens, when this returns. `action`: what a door orders by it;
        `id`: the message's, empty = a new one."""
        speaker = self.person(name)
        body = checked_body(body, self.about.max_entry_bytes, fix_empty="Write something.")
        check_client_id(client_id)
        new = NewMessage(
            speaker,
            Kind.HUMAN,
            body,
            self._clock(),
            id=id,
            action=action,
            in_reply_to=in_reply_to,
            client_id=client_id,
            meta={} if verified else {"unverified": True},
        )

        async def work(tx: Tx) -> Message:
            if client_id is not None:
                known = await tx.one(Q.message_by_client, client_id=client_id)
                if known is not None:
                    return message_of_row(known)
            row = None
            if in_reply_to is not None:
                row = await tx.one(Q.event_of_message, id=in_reply_to)
                if row is None:
                    raise Refusal(f"There is no message {in_reply_to} to reply to.", _IDS, Fault.UNKNOWN)
            admitted = await ledger.admit(
                tx,
                _caused_by(new, row["event_id"] if row else None),
                self._rules(),
                visitors=await self._visitors(tx) if "@" in body else (),
            )
            if verified:
                await hop_limit.reset(tx)
            return admitted

        message = await self._write(work, durable=True)
        return Posted(message.id, message.cursor, message.number)

    async def _visitors(self, tx: Tx) -> list[str]:
        sessions = await self._holds.sessions(tx) if self._holds is not None else ()
        return [one.name for one in visitors(sessions, self._roster().names)]

    def person(self, name: str) -> str:
        """The name a person may post under. Raises Refusal: unusable or reserved."""
        try:
            clean = clean_name(name)
        except ValueError as error:
            raise Refusal(str(error), "Take another name.", Fault.MALFORMED) from None
        if is_reserved(clean, [*self._roster().names, *RESERVED_NAMES]):
            raise Refusal(
                f"{clean} is the name of an agent or of the room; nobody posts under it.",
                "Choose a name of your own.",
                Fault.FORBIDDEN,
                "reserved",
            )
        if (other := posing_as(clean, self._live.people)) is not None:
            raise Refusal(
                f"{clean} reads like {other}, who is here.",
                "Choose a name that cannot be mistaken for theirs.",
                Fault.FORBIDDEN,
                "reserved",
            )
        return clean

    async def _write(self, work: Any, *, durable: bool = False) -> Any:
        try:
            done = await self._store.write(work, durable=durable)
        except (StoreBusy, self._store.transient) as error:
            text = f"The database cannot take it now: {error}"
            if self._refused is None:
                log.warning("messages are refused", error=str(error))
            self._refused = time.monotonic(), text
            if isinstance(error, StoreMoved):
                raise Refusal(text, f"Nothing was posted. {error.fix}", Fault.UNAVAILABLE) from error
            raise Refusal(text, "Nothing was posted; send it again.", Fault.BUSY) from error
        if self._refused is not None:
            # Said now too: on a full disk the first line had no room.
            log.warning("messages are taken again", refused_with=self._refused[1])
            self._refused = None
        return done

    # -- reading

    async def last_cursor(self) -> int:
        return await self._store.read(events.last_pos)

    async def transcript(
        self, *, after: int | None = None, before: int | None = None, limit: int = 100
    ) -> Page:
        """A page, oldest first: behind `after`, or before `before`, or the newest."""
        return await self._store.read(lambda tx: pages.page(tx, after=after, before=before, limit=limit))

    async def around(self, place: str, *, limit: int = 100) -> Page:
        """The entry at `place` (an id, `m12` or a cursor) among its neighbours."""
        found = await self._store.read(lambda tx: pages.around(tx, place, limit=limit))
        if found is None:
            raise Refusal(f"There is no message {place[:60]}.", _IDS, Fault.UNKNOWN)
        return found

    async def search(self, text: str, *, limit: int = 50) -> list[tuple[Message, str]]:
        """Entries with all the words of `text`, newest first, each with a snippet around the hits."""
        return await self._store.read(lambda tx: pages.search(tx, text, limit=limit), long=True)

    async def jobs(
        self, *, state: str | None = None, messages: Sequence[str] | None = None, limit: int = 200
    ) -> list[Job]:
        """Jobs, newest first: of one state, or of these messages, or all."""
        if state is not None and state not in list(JobState):
            allowed = ", ".join(JobState)
            raise Refusal(f"There is no state {state!r}.", f"One of: {allowed}.", Fault.MALFORMED)

        async def work(tx: Tx) -> list[Job]:
            if messages is not None:
                found = await tx.all(Q.jobs_of_messages, ids=dumps(list(messages)), limit=limit)
                rows = [row for row in found if state in (None, row["state"])]
            elif state is None:
                rows = list(await tx.all(Q.jobs, limit=limit))
            else:
                rows = list(await tx.all(Q.jobs_in_state, state=state, limit=limit))
            return [Job.of_row(row) for row in rows]

        return await self._store.read(work)

    async def tasks(self) -> list[dict[str, Any]]:
        async def work(tx: Tx) -> list[dict[str, Any]]:
            return [task.as_json() for task in await self._board.list(tx)]

        return await self._store.read(work)

    async def task(self, number: int) -> dict[str, Any]:
        """A task with all that is known of it, and what happened to it."""
        try:
            return dict(await self._store.read(lambda tx: self._board.story(tx, number), long=True))
        except Refusal as refusal:
            fix = refusal.fix or "GET /api/tasks lists them."
            raise Refusal(refusal.message, fix, Fault.UNKNOWN) from None

    async def held(self) -> dict[str, Any]:
        """Who holds what, as of `now`: `{locks: [LOCK + waiting], sessions: [SESSION], now}`."""
        holds = self._holds
        if holds is None:
            return {"locks": [], "sessions": [], "now": iso(self._clock())}

        async def work(tx: Tx) -> dict[str, Any]:
            locks, sessions = await holds.locks(tx), await holds.sessions(tx)
            return {"locks": list(locks), "sessions": list(sessions), "now": iso(await tx.now())}

        return await self._store.read(work)

    async def agents(self, only: Sequence[str] | None = None) -> list[dict[str, Any]]:
        now = self._clock()
        return await self._store.read(
            lambda tx: roster.agents_json(tx, self._roster(), self._drain.running, now, only)
        )

    async def state(self) -> dict[str, Any]:
        """The whole of GET /api/state."""
        about = self.about
        standing = self._transcript.standing
        return {
            "room": {
                "name": about.name,
                "version": about.version,
                "started_at": about.started_at,
                "cursor": str(await self.last_cursor()),
                "repo": str(about.repo),
            },
            "agents": await self.agents(),
            "tasks": await self.tasks(),
            **await self.held(),
            "people": self._live.people,
            "dispatcher": self._router.state_json(),
            "storage": {"engine": about.engine, "path": about.database},
            "tail": {
                "catching_up": self.catching_up or standing.catching_up,
                "offset": standing.offset,
                "size": standing.size,
            },
            "shell": {
                "start": script("scripts/start.sh").strip("`"),
                "install": command("mcp install").strip("`"),
            },
            "commands": commands.completions(),
        }

    async def agent_log(self, name: str, *, limit: int = 200) -> list[dict[str, str]]:
        if name not in self._roster().members:
            raise self._no_agent(name)
        return self._drain.log_of(name, limit)

    async def why(self, id: str) -> list[dict[str, Any]]:
        """The causes of an event or a message, nearest first."""

        async def work(tx: Tx) -> list[Event]:
            row = await tx.one(Q.event_of_message, id=id)
            return await events.why(tx, row["event_id"] if row else id)

        chain = await self._store.read(work)
        if not chain:
            raise Refusal(f"There is no event or message {id}.", _IDS, Fault.UNKNOWN)
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

    # -- following

    async def frames(self, after: int | None) -> AsyncIterator[list[Frame]]:
        """Stored frames behind the cursor (None: from now on), first the stored, then the live. Never ends."""
        start = await self.last_cursor() if after is None else after
        async for batch in tail(self._store, start, types=SHOWN):
            frames: list[Frame] = []
            for event in batch:
                frames += frames_of(event)
            frames = latest(frames)
            moved = [event for event in batch if event.type in TASK_EVENTS]
            if moved:
                frames.append(Frame(batch[-1].pos, "task", await self._changed(moved)))
            if frames:
                yield frames

    async def _changed(self, changes: Sequence[Event]) -> dict[str, Any]:
        """The tasks of these changes as they stand now, and the ids of those that left the board."""
        ids = list(dict.fromkeys(told["after"]["id"] for one in changes for told in one.outputs["tasks"]))

        async def work(tx: Tx) -> list[dict[str, Any]]:
            return [task.as_json() for task in await self._board.among(tx, ids)]

        changed = await self._store.read(work)
        here = {task["id"] for task in changed}
        return {"changed": changed, "gone": [one for one in ids if one not in here]}

    def live(self) -> LiveFeed:
        return self._live.feed()

    def person_here(self, name: str) -> AbstractContextManager[None]:
        # Who is taken for another is not listed beside them, and posts nothing (`person`).
        return nullcontext() if posing_as(name, self._live.people) else self._live.here(name)

    # -- people act

    async def act(self, action: Action, *, by: str) -> Answer:
        """Do what a person orders, and give the room's answer. Both stand in the room, as if the person had typed
        the command. Raises Refusal."""
        known = {*self._roster().members, *(self._drain.running if isinstance(action, Cancel) else ())}
        for agent in action.named():
            if agent not in known:
                raise self._no_agent(agent)
        id = ledger.new_id()
        with self._desk.answer_to(id) as answer:
            await self.post(action.line(), name=by, action=action, id=id)
            try:
                async with asyncio.timeout(ORDER_S):
                    return await answer
            except TimeoutError:
                raise Refusal(
                    "The room has not processed it yet.", "It is queued: look in the room.", Fault.BUSY
                ) from None

    async def route(self, message_id: str, agents: Sequence[str], *, by: str) -> Answer:
        found = await self._store.read(lambda tx: ledger.message(tx, message_id))
        if found is None:
            raise Refusal(f"There is no message {message_id}.", _IDS, Fault.UNKNOWN)
        if not agents:
            raise Refusal("No agent was named.", f"The room has: {self._names()}.", Fault.MALFORMED)
        return await self.act(Route(tuple(dict.fromkeys(agents)), found.number), by=by)

    async def retry(self, job: int, *, by: str) -> Answer:
        row = await self._store.read(lambda tx: tx.one(Q.job, id=job))
        if row is None:
            raise Refusal(f"There is no job {job}.", "GET /api/queue lists them.", Fault.UNKNOWN)
        return await self.act(Retry(job, "job"), by=by)

    async def set_agent(self, agent: str, changes: Mapping[str, Any], *, by: str) -> dict[str, Any]:
        """Write an agent's model, effort or `enabled` into the configuration; it applies at once."""
        if agent not in self._roster().members:
            raise self._no_agent(agent)
        told = ", ".join(f"{key} = {value}" for key, value in changes.items())
        result: dict[str, Any] = await self._set_agent(agent, changes)
        if result.get("success"):
            await self._write(
                lambda tx: ledger.say(
                    tx, f"{by} set {agent}: {told}.", now=self._clock(), meta={"notice": "agent_settings"}
                )
            )
        return result

    async def create_task(self, title: str, *, by: str) -> dict[str, Any]:
        """A new task, as `/task` makes it."""
        title = " ".join(title.split())
        if not title:
            raise Refusal("The title is empty.", "Give the task a title.", Fault.MALFORMED)
        done = await self.act(AddTask(title), by=by)
        if not done.success or done.task is None:
            raise Refusal(done.text, "`/help /task` shows how.", Fault.MALFORMED)
        made = next((task for task in await self.tasks() if task["number"] == done.task), None)
        if made is None:
            raise Refusal(
                f"Task {references.task(done.task)} was taken off the board meanwhile.",
                "`/undo` brings it back.",
                Fault.UNKNOWN,
            )
        return made

    async def change_task(self, number: int, changes: Mapping[str, Any], *, by: str) -> dict[str, Any]:
        """Move or rename a task. Raises Refusal where the board does not do it."""
        tasks = {task["number"]: task for task in await self.tasks()}
        if number not in tasks:
            raise Refusal(
                f"There is no task {references.task(number)}.", "GET /api/tasks lists them.", Fault.UNKNOWN
            )
        status, title = changes.get("status"), changes.get("title")
        if status is None and title is None:
            raise Refusal("Nothing to change.", "Give `status` or `title`.", Fault.MALFORMED)
        if status is not None and status not in TASK_STATUSES:
            raise Refusal(
                f"There is no status {status!r}.", f"One of: {', '.join(TASK_STATUSES)}.", Fault.MALFORMED
            )
        if title is not None and title != tasks[number]["title"]:
            await self._rename(number, str(title), by)
        if status is not None and status != tasks[number]["status"]:
            done = await self.act(MoveTask(number, Status(status)), by=by)
            if not done.success:
                raise Refusal(done.text, "GET /api/tasks shows the board.")
        return next((task for task in await self.tasks() if task["number"] == number), tasks[number])

    async def _rename(self, number: int, title: str, by: str) -> None:
        speaker = self.person(by)

        async def work(tx: Tx) -> None:
            text = f"{speaker} renamed task {references.task(number)} to “{' '.join(title.split())}”."
            _, event = await ledger.say(tx, text, now=self._clock(), meta={"notice": "task"})
            lane = Lane(event.session, event.lane, short=True)
            await self._board.rename(tx, number, title, by=speaker, lane=lane, cause=[event.id])

        try:
            await self._write(work)
        except Refusal as refusal:
            raise Refusal(refusal.message, refusal.fix or "GET /api/tasks shows the board.") from None

    def _names(self) -> str:
        return ", ".join(self._roster().names) or "none"

    def _no_agent(self, agent: str) -> Refusal:
        return Refusal(f"There is no agent {agent}.", f"The room has: {self._names()}.", Fault.UNKNOWN)


def _caused_by(new: NewMessage, event_id: str | None) -> NewMessage:
    if event_id is None:
        return new
    return replace(new, parents=[event_id])

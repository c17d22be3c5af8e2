"""The steward with a person before it: commands in, answers out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

from relay.coordination.tasks.board import Board
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.model import STEWARD, Kind, Message, Refusal
from relay.model.actions import ForceRelease
from relay.room.dispatch.permissions import PermissionBroker
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.room.dispatch.running import RunningTurns, TurnHooks
from relay.room.dispatch.worker import WorkerPool
from relay.room.journal.admission_rules import Rules
from relay.room.journal.admitting import admit
from relay.room.journal.ledger import NewMessage
from relay.room.journal.live_bus import Live
from relay.room.routing.local_model import Dispatcher
from relay.room.routing.router import Router
from relay.room.steward.handlers import ActionHandlers
from relay.room.steward.overview import Overview
from relay.room.steward.worker import Steward
from relay.store.ports import Store, Tx
from tests.engines import Clock
from tests.room.parts import all_messages, until

ROSTER = Roster({name: Member(name, "played", Policy(name)) for name in ("ALPHA", "BETA")})


class Shelf:
    """What agents hold, in memory: it keeps the promises of `relay.model.Holds`, and each change as an event."""

    def __init__(self) -> None:
        self.held: list[dict[str, Any]] = []

    def put(self, path: str, holder: str, **more: Any) -> None:
        at = {"acquired_at": "2027-01-15T08:00:00.000Z", "expires_at": "2027-01-15T08:30:00.000Z"}
        lock = {"file_path": path, "locked_by": holder, "session": "s1", "mode": "exclusive", "reason": None}
        self.held.append(lock | at | {"fencing_token": 1, "kind": "path", "waiting": []} | more)

    async def locks(self, tx: Tx) -> list[dict[str, Any]]:
        return self.held

    async def meeting(self, tx: Tx, path: str) -> list[dict[str, Any]]:
        return [lock for lock in self.held if lock["file_path"] == path]

    async def sessions(self, tx: Tx) -> list[dict[str, Any]]:
        return []

    async def force_release(
        self, tx: Tx, action: ForceRelease, *, by: str, cause: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        taken = [lock for lock in self.held if lock["file_path"] == action.path]
        if not taken:
            raise Refusal(f"Nobody holds {action.path}.", "Held near it: src/app.py.")
        outputs = {"lock": taken[0], "by": by, "reason": action.reason}
        await events.append(
            tx, NewEvent(type="lock.forced", lane=Lane("-", by, short=True), parents=cause, outputs=outputs)
        )
        self.held = [lock for lock in self.held if lock not in taken]
        return taken


class Office:
    """The steward at work, and a person before it. `more`: what else commands reach (airspace, permissions)."""

    def __init__(self, store: Store, clock: Clock, roster: Roster = ROSTER, **more: Any) -> None:
        self.shelf = Shelf()
        self.store, self.clock = store, clock
        self.board = Board()
        self.roster, self.turns = Roster(roster.members), RunningTurns()
        self.workers = WorkerPool(
            store, Live(), self.roster, self.turns, TurnHooks(), holder="me", clock=clock
        )
        live = Live()
        live.here("ann").__enter__()
        router = Router(store, live, Dispatcher("m"), self.roster, TurnHooks(), clock=clock)
        #: The member that answers, "" = a room of one relay.
        self.here = ""
        overview = Overview(
            *(self.roster, self.turns, self.board, self.shelf, live, router),
            config="config.json",
            clock=clock,
            here=lambda: self.here,
        )
        overview.address = "http://127.0.0.1:1"
        reached = {
            "airspace": None,
            "permissions": PermissionBroker(store, live),
            "overview": overview,
            "handoffs": None,
        } | more
        handlers = ActionHandlers(self.board, self.roster, self.turns, self.shelf, **reached)
        self.steward = Steward(store, handlers, overview, self.roster, self.turns, clock=clock)

    async def post(self, body: str, *, by: str = "ann", verified: bool = True, **more: Any) -> Message:
        meta: dict[str, Any] = {} if verified else {"unverified": True}
        new = NewMessage(by, Kind.HUMAN, body, self.clock(), meta=meta, **more)
        rules = Rules(agents=self.roster.names)
        return await self.store.write(lambda tx: admit(tx, new, rules))

    async def answer_to(self, asked: Message) -> Message:
        async def found() -> Message | None:
            said = await all_messages(self.store)
            return next((m for m in said if m.in_reply_to == asked.id and m.speaker == STEWARD), None)

        answer: Message = await until(found)
        return answer

    async def ask(self, body: str, *, by: str = "ann", verified: bool = True) -> Message:
        return await self.answer_to(await self.post(body, by=by, verified=verified))

    async def tasks(self) -> list[tuple[int, str, str]]:
        async def work(tx: Tx) -> list[tuple[int, str, str]]:
            shown = [task.as_json() for task in await self.board.list(tx)]
            return sorted((task["number"], task["title"], task["status"]) for task in shown)

        return await self.store.read(work)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[Self]:
        running = asyncio.create_task(self.steward.run())
        try:
            yield self
            assert not running.done(), running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await self.workers.stop(0.0)

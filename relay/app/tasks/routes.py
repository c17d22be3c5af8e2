"""The routes of the board beside one task's changes (docs/board.md): a task whole, several at once, an import.

Invariant: what is done to several tasks is one action of that person in the room, by the same function as its
command.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import uuid_utils
from aiohttp import web

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.tasks.card import card
from relay.coordination.tasks.board import Board
from relay.coordination.tasks.edits import TakenIn, read_issues
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Body, Query, bad, numbered
from relay.faces.http.requests.reader import RequestReader, only_person
from relay.log.events import Lane
from relay.model import TASK_STATUSES, Fault, Refusal, actions
from relay.model.actions import Action, Field, Status
from relay.model.references import Thing
from relay.room.journal import ledger
from relay.room.service import Room
from relay.store.ports import Store, Tx

#: Tasks that are changed at once; bytes of an import.
MOST_TASKS, MOST_BYTES = 200, 8 << 20


class TaskRoutes:
    """The handlers."""

    def __init__(
        self, store: Store, room: Room, board: Board, registry: WorktreeRegistry, reader: RequestReader
    ) -> None:
        self._store, self._room, self._board = store, room, board
        self._registry, self._reader = registry, reader

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/tasks/{number:[tT]?[0-9]+}", self.show),
            web.post("/api/tasks/some", self.change_some),
            web.post("/api/tasks/import", self.take_in),
        ]

    async def show(self, request: web.Request) -> web.Response:
        """`{task}`: TASK with its history and what it led to."""
        Query(request)
        number = numbered(request.match_info["number"], Thing.TASK)
        if number is None:
            raise Refusal("There is no task with that number.", "A task has a number.", Fault.UNKNOWN)
        try:
            task = await self._store.read(lambda tx: card(tx, self._board, self._registry, number), long=True)
        except Refusal as refusal:
            fix = refusal.fix or "GET /api/tasks lists them."
            raise Refusal(refusal.message, fix, Fault.UNKNOWN) from None
        return answer({"task": task})

    async def change_some(self, request: web.Request) -> web.Response:
        """`{name, tasks: [number], action: give | move | priority | archive, to?}` -> `{success, reason}`."""
        body = await self._reader.body(request, "tasks", "action", "to")
        only_person(request, "changes several tasks at once", "Use the room's token, or POST /work/complete.")
        by = self._reader.speaker(request, body)
        return answer((await self._room.actions.act(_action(body), by=by)).as_json())

    async def take_in(self, request: web.Request) -> web.Response:
        """`{name, issues: [...]}` (what `gh issue list --json` writes) -> `{success, reason, made, updated,
        unchanged, kept, refused, undo?}`. The room is told in one line."""
        body = await self._reader.body(request, "issues", limit=MOST_BYTES)
        only_person(request, "imports issues", "Use the room's token, or POST /work/submit.")
        taken = TakenIn()
        try:
            issues = read_issues(body.values.get("issues"), taken)
        except Refusal as refusal:
            raise bad(refusal.message, refusal.fix) from None
        by = self._room.poster.person(self._reader.speaker(request, body))
        lane = Lane("room", f"import:{uuid_utils.uuid7()}", short=True)

        async def work(tx: Tx) -> tuple[TakenIn, int]:
            done = await self._board.take_in(tx, issues, by=by, lane=lane, taken=taken.copy())
            text, told = f"{by} {done.summary()}.", {"notice": "task"}
            message, _ = await ledger.say(tx, text, now=time.time(), parents=done.events, meta=told)
            return done, message.number

        done, number = await self._room.poster.write(work)
        back = {"undo": actions.Undo(number).line()} if done.events else {}
        return answer({"success": True, "reason": f"{by} {done.summary()}.", **back, **done.as_json()})


def _action(body: Body) -> Action:
    """Raises Refusal."""
    tasks, to = body.values.get("tasks"), body.maybe_text("to")
    if not isinstance(tasks, list) or not 0 < len(tasks) <= MOST_TASKS:
        raise bad("tasks is no list of tasks.", f"Send the numbers of 1 to {MOST_TASKS} tasks: [3, 5].")
    if not all(isinstance(one, int) and not isinstance(one, bool) and 0 < one < 10**9 for one in tasks):
        raise bad("tasks has what is no number of a task.", "Send their numbers: [3, 5].")
    numbers = tuple(dict.fromkeys(tasks))
    make: dict[str, Callable[[], Any]] = {
        "give": lambda: actions.Give(numbers, to),
        "move": lambda: actions.MoveTasks(numbers, Status(_one_of("to", to, TASK_STATUSES))),
        "priority": lambda: actions.EditTasks(numbers, Field.PRIORITY, _one_of("to", to, _PRIORITIES)),
        "archive": lambda: actions.Archive(numbers),
    }
    name = _one_of("action", body.text("action"), tuple(make))
    if name == "archive" and to is not None:
        raise bad("to goes with give, move and priority, and not with archive.", "Leave it out.")
    action: Action = make[name]()
    return action


_PRIORITIES = tuple(str(level) for level in range(1, 11))


def _one_of(field: str, value: str | None, known: tuple[str, ...]) -> str:
    if value not in known:
        given = "missing" if value is None else repr(value[:40])
        raise bad(f"{field} is {given}.", f"It is one of: {', '.join(known)}.")
    return value

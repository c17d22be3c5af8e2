"""The room as the steward sees it, read from the database and from the parts that are at work."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from relay.base.durations import parse_iso
from relay.log.encoding import dumps
from relay.model import Board, Hears, Holds, Program
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.running import RunningTurns
from relay.room.dispatch.view_queries import agents_json
from relay.room.journal.ledger import Q
from relay.room.journal.live_bus import Live
from relay.room.journal.values import Job
from relay.room.journal.visitors import visitors
from relay.room.routing.router import Router
from relay.room.steward.view import (
    AgentView,
    BudgetView,
    DispatcherView,
    JobView,
    LastView,
    LockView,
    RunningView,
    StewardView,
    TaskView,
    VisitorView,
)
from relay.store.ports import Tx, of_row

_BUDGETS = {
    "turns_per_hour": "turns an hour",
    "tokens": "tokens a day, cache reads apart",
    "usd": "US dollars a day",
}


class Overview:
    """Reads the room at this moment. `config`: the path of the configuration. `here`: the name of this member of a
    fleet, "" in a room of one relay; `lives_at`: where an agent lives, as all members say it. Asked at each reading.
    """

    def __init__(
        self,
        roster: Roster,
        turns: RunningTurns,
        board: Board,
        holds: Holds,
        live: Live,
        router: Router,
        *,
        config: str,
        clock: Callable[[], float] = time.time,
        here: Callable[[], str] = str,
        lives_at: Callable[[str], str] = lambda agent: "",
    ) -> None:
        self._roster, self._turns, self._board, self._holds = roster, turns, board, holds
        self._live, self._router, self._config, self._clock = live, router, config, clock
        self._here, self._lives_at = here, lives_at
        #: Where the page is; empty until it can be opened.
        self.address = ""

    async def read(self, tx: Tx) -> StewardView:
        now = self._clock()
        agents = await agents_json(tx, self._roster.members, self._turns.by_agent, now)
        rows = [*await tx.all(Q.open_jobs), *await tx.all(Q.last_skips, limit=20)]
        jobs = [Job.of_row(row) for row in rows]
        numbers = {job.message_id: 0 for job in jobs}
        for row in await tx.all(Q.messages_by_ids, ids=dumps(list(numbers))):
            numbers[row["id"]] = row["number"]
        here = self._here()
        tasks = [task.as_json() for task in await self._board.list(tx)]
        own: dict[str, list[int]] = {}
        for task in tasks:
            if task["status"] != "done":
                own.setdefault(task["assignee"] or "", []).append(task["number"])
        return StewardView(
            agents=tuple(
                replace(self._agent_view(agent, now, here), tasks=tuple(own.get(agent["name"], ())))
                for agent in agents
            ),
            people=self._people(here),
            tasks=_task_views(tasks),
            locks=tuple(_lock_view(lock, now) for lock in await self._holds.locks(tx)),
            visitors=tuple(
                VisitorView(
                    visitor.name, visitor.kind, _since(visitor.heard_at, now), visitor.holds, visitor.state
                )
                for visitor in visitors(await self._holds.sessions(tx), self._roster.members)
            ),
            jobs=tuple(
                JobView(
                    job.id,
                    numbers[job.message_id],
                    job.agent,
                    str(job.state),
                    job.error or "",
                    max(0.0, now - (job.ended_at or job.started_at or job.created_at)),
                    max(0.0, job.not_before - now),
                )
                for job in jobs
            ),
            dispatcher=of_row(DispatcherView, self._router.state_json()),
            address=self.address,
            config=self._config,
            programs=self._roster.programs,
        )

    def _agent_view(self, agent: Mapping[str, Any], now: float, here: str) -> AgentView:
        program = self._roster.programs.get(agent["preset"] or "")
        return _agent_view(agent, now, self._home(agent, here), program)

    def _home(self, agent: Mapping[str, Any], here: str) -> str:
        # Whichever member leads answers for all, and its answer is read at all.
        return (self._lives_at(agent["name"]) or agent["member"] or here) if here else ""

    def _people(self, here: str) -> tuple[str, ...]:
        if not here:
            return tuple(self._live.people)
        return tuple(f"{name} at {' and '.join(at)}" for name, at in self._live.places(here).items())


def _task_views(tasks: Sequence[Mapping[str, Any]]) -> tuple[TaskView, ...]:
    unmet = {task["id"] for task in tasks if task["status"] != "done" or task.get("badge")}
    return tuple(
        TaskView(
            task["number"],
            task["title"],
            task["status"],
            task.get("badge") or "",
            task.get("assignee") or "",
            why=task.get("error_message") or task.get("note") or "",
            waits_for=tuple(
                needed["number"] for needed in task.get("depends_on") or () if needed["id"] in unmet
            ),
            attempt=(task.get("attempts") or 0) + 1,
            attempts=task.get("max_attempts") or 0,
        )
        for task in tasks
    )


def _lock_view(lock: Mapping[str, Any], now: float) -> LockView:
    return LockView(
        path=lock["file_path"],
        holder=lock["locked_by"],
        session=lock["session"],
        shared=lock["mode"] == "shared",
        reason=lock.get("reason") or "",
        held_s=_since(lock["acquired_at"], now),
        left_s=_until(lock["expires_at"], now),
        waiting=tuple(dict.fromkeys(str(wait["agent"]) for wait in lock.get("waiting") or ())),
    )


def _agent_view(agent: Mapping[str, Any], now: float, member: str, program: Program | None) -> AgentView:
    turn, last, meters = agent["running"], agent["last"], agent["budget"].items()
    return of_row(
        AgentView,
        agent,
        member=member,
        program=program,
        preset=agent["preset"] or "",
        breaker=agent["breaker"]["state"],
        retry_in_s=_until(agent["breaker"]["retry_at"], now),
        parked_s=_until(agent["parked_until"], now),
        unheard_s=_since(agent["heard_at"], now) if agent["heard_at"] else 0.0,
        budgets=tuple(
            BudgetView(_BUDGETS[key], meter["used"], meter["limit"]) for key, meter in meters if meter
        ),
        hears=agent["channel"]["hears"] == Hears.BOUNDARY,
        tasks=(),
        last=last and LastView(last["number"], last["asked"]["text"], _since(last["at"], now)),
        running=turn and RunningView(turn["number"], _since(turn["since"], now)),
    )


def _since(at: str, now: float) -> float:
    return max(0.0, now - parse_iso(at))


def _until(at: str | None, now: float) -> float:
    """Seconds from `now` until the time `at` (as `iso` writes it); 0 for none, and for one that has passed."""
    return 0.0 if at is None else max(0.0, parse_iso(at) - now)

"""The room's agents, jobs, tasks and locks as the interfaces and the steward show them, read from the database.

Every function runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relay.base.durations import iso, parse_iso
from relay.log.encoding import dumps
from relay.room.dispatch import budget, queue
from relay.room.dispatch.roster import Member
from relay.room.dispatch.running import RunningTurn
from relay.room.dispatch.view import (
    AgentView,
    BudgetView,
    DispatcherView,
    JobView,
    LockView,
    RunningView,
    StewardView,
    TaskView,
    VisitorView,
)
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job
from relay.room.journal.visitors import visitors
from relay.store.ports import Tx

Members = Mapping[str, Member]
Running = Mapping[str, RunningTurn]


async def agents_json(
    tx: Tx, members: Members, running: Running, now: float, only: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The AGENT shapes of docs/http.md, of all members or of `only` some."""
    states = {row["name"]: row for row in await tx.all(Q.agents)}
    waiting = {row["agent"]: row["waiting"] for row in await tx.all(Q.open_counts)}
    shown = []
    for member in members.values():
        if only is not None and member.name not in only:
            continue
        breaker = await queue.load_breaker(tx, member.policy)
        spent = await queue.load_spent(tx, member.name, now) if member.budget.any else budget.Spent()
        parked = breaker.parked_until
        turn = running.get(member.name)
        shown.append(
            {
                "name": member.name,
                "kind": member.kind,
                "preset": member.preset,
                "model": member.model,
                "effort": member.effort,
                "enabled": member.enabled,
                "paused": bool(member.name in states and states[member.name]["paused"]),
                "installed": member.installed,
                "detail": member.detail,
                "fix": member.fix,
                "version": member.version,
                "breaker": {
                    "state": str(breaker.state),
                    "failures": breaker.failures,
                    "threshold": breaker.threshold,
                    "retry_at": iso(breaker.retry_at),
                },
                "parked_until": iso(parked) if parked and parked > now else None,
                "running": turn
                and {
                    "job": turn.plan.primary.id,
                    "message_id": turn.plan.asked.id,
                    "number": turn.plan.asked.number,
                    "since": iso(turn.plan.started_at),
                },
                "queued": waiting.get(member.name, 0),
                "budget": budget.as_json(member.budget, spent),
            }
        )
    return shown


async def steward_view(
    tx: Tx,
    members: Members,
    running: Running,
    *,
    now: float,
    asker: str,
    people: Sequence[str],
    tasks: Sequence[Mapping[str, Any]],
    locks: Sequence[Mapping[str, Any]] = (),
    sessions: Sequence[Mapping[str, Any]] = (),
    dispatcher: Mapping[str, Any],
    address: str,
    config: str,
) -> StewardView:
    """The room at this moment, for the steward's answers."""
    agents = await agents_json(tx, members, running, now)
    rows = [*await tx.all(Q.open_jobs), *await tx.all(Q.last_skips, limit=20)]
    jobs = [Job.of_row(row) for row in rows]
    numbers = {job.message_id: 0 for job in jobs}
    for row in await tx.all(Q.messages_by_ids, ids=dumps(list(numbers))):
        numbers[row["id"]] = row["number"]
    return StewardView(
        asker=asker,
        agents=tuple(_agent_view(agent, members, running, now) for agent in agents),
        people=tuple(people),
        tasks=_task_views(tasks),
        locks=tuple(_lock_view(lock, now) for lock in locks),
        visitors=tuple(
            VisitorView(visitor.name, visitor.kind, _since(visitor.heard_at, now), visitor.holds)
            for visitor in visitors(sessions, members)
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
        dispatcher=DispatcherView(
            str(dispatcher.get("state", "unknown")),
            str(dispatcher.get("model", "")),
            str(dispatcher.get("detail", "")),
        ),
        address=address,
        config=config,
    )


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
        left_s=_from_now(lock["expires_at"], now),
        waiting=tuple(dict.fromkeys(str(wait["agent"]) for wait in lock.get("waiting") or ())),
    )


def _agent_view(agent: Mapping[str, Any], members: Members, running: Running, now: float) -> AgentView:
    member = members[agent["name"]]
    turn = running.get(member.name)
    breaker = agent["breaker"]
    words = {
        "turns_per_hour": "turns an hour",
        "tokens": "tokens a day, cache reads apart",
        "usd": "US dollars a day",
    }
    return AgentView(
        name=member.name,
        kind=member.kind,
        preset=member.preset or "",
        model=member.model or "",
        installed=member.installed,
        detail=member.detail,
        fix=member.fix,
        enabled=member.enabled,
        paused=agent["paused"],
        breaker=breaker["state"],
        retry_in_s=_from_now(breaker["retry_at"], now),
        parked_s=_from_now(agent["parked_until"], now),
        budgets=tuple(
            BudgetView(words[key], meter["used"], meter["limit"])
            for key, meter in agent["budget"].items()
            if meter
        ),
        running=None if turn is None else RunningView(turn.plan.asked.number, now - turn.plan.started_at),
        queued=agent["queued"],
    )


def _since(at: str, now: float) -> float:
    return max(0.0, now - parse_iso(at))


def _from_now(at: str | None, now: float) -> float:
    """Seconds from `now` until the time `at` (as `iso` writes it); 0 for none, and for one that has passed."""
    return 0.0 if at is None else max(0.0, parse_iso(at) - now)

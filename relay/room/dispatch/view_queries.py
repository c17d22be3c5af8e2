"""The room's agents as the interfaces and the steward show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relay.base.durations import iso
from relay.room.dispatch import budget, queue
from relay.room.dispatch.roster import Member
from relay.room.dispatch.running import RunningTurn
from relay.room.journal.ledger import Q
from relay.store.ports import Tx


async def agents_json(
    tx: Tx,
    members: Mapping[str, Member],
    running: Mapping[str, RunningTurn],
    now: float,
    only: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """The AGENT shapes of docs/http.md, of all members or of `only` some, in the caller's transaction."""
    states = {row["name"]: row for row in await tx.all(Q.agents)}
    waiting = {row["agent"]: row["waiting"] for row in await tx.all(Q.open_counts)}
    shown = []
    for member in members.values():
        if only is not None and member.name not in only:
            continue
        breaker = await queue.load_breaker(tx, member.policy)
        limits = member.policy.budget
        spent = await queue.load_spent(tx, member.name, now) if limits.any else budget.Spent()
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
                "member": member.home,
                "away": member.away,
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
                "budget": budget.as_json(limits, spent),
            }
        )
    return shown

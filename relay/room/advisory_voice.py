"""The room's voice for the airspace: an advisory as a message, and the turns that it asks for.

Invariant: an advisory is a message of RELAY that opens no cycle; its jobs are rows of the one queue, so breaker,
budget, pause and retry apply to them as to any other (`relay.model.Voice`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relay.log.events import Lane
from relay.model import STEWARD, Holds, Kind, Message, Spoken
from relay.room.dispatch.roster import Roster
from relay.room.journal import ledger
from relay.room.journal.ledger import NewMessage, Q
from relay.room.journal.values import Job, JobState
from relay.room.journal.visitors import reached, visitors
from relay.store.ports import Tx

#: Why a person's own session is not asked for an answer, by what it does.
_IDLE = {"idle": "idle: it hears it with its next prompt", "waiting": "it waits for its person"}


class RoomVoice:
    """Speaks in the room as RELAY."""

    def __init__(self, roster: Roster, holds: Holds | None = None) -> None:
        """`holds` knows people's own sessions; without it nobody reaches them."""
        self._roster, self._holds = roster, holds

    async def _attached(self, tx: Tx, names: Sequence[str]) -> Mapping[str, str]:
        """Those of these that are people's own sessions here, and what each does (docs/attach.md)."""
        members = self._roster.members
        if self._holds is None or all(name in members for name in names):
            return {}
        here = reached(visitors(await self._holds.sessions(tx), members))
        return {name: state for name, state in here.items() if name in names}

    async def reach(self, tx: Tx, names: Sequence[str]) -> Mapping[str, str | None]:
        attached = await self._attached(tx, names)
        paused = {row["name"] for row in await tx.all(Q.agents) if row["paused"]}
        members = self._roster.members
        reasons: dict[str, str | None] = {}
        for name in names:
            member = members.get(name)
            if member is None:
                reasons[name] = _IDLE.get(attached[name], "") if name in attached else None
            elif not member.enabled:
                reasons[name] = "switched off"
            elif not member.installed:
                reasons[name] = "broken" if member.broken else "not installed"
            else:
                reasons[name] = "paused" if name in paused else ""
        return reasons

    async def say(
        self,
        tx: Tx,
        body: str,
        *,
        now: float,
        lane: Lane,
        to: Sequence[str] = (),
        ask: Sequence[str] = (),
        cause: Sequence[str] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> Spoken:
        message, event = await ledger.put_message(
            tx,
            NewMessage(
                STEWARD, Kind.ADVISORY, body, now, lane=lane, parents=cause, to=tuple(to), meta=meta or {}
            ),
        )
        # A person's own session hears it, whether it is asked or not: idle ones with their next prompt.
        hear = list(dict.fromkeys([*ask, *await self._attached(tx, to)]))
        if hear:
            await ledger.queue_jobs(tx, message.id, hear, parents=[event.id], now=now)
        return Spoken(message.id, message.number, event.id)

    async def withdraw(
        self, tx: Tx, message_id: str, reason: str, *, now: float, agents: Sequence[str]
    ) -> Sequence[str]:
        taken = []
        for row in await tx.all(Q.jobs_of_message, message_id=message_id):
            job = Job.of_row(row)
            if job.agent in agents and job.state in (JobState.PENDING, JobState.FAILED):
                await ledger.change_job(
                    tx, job, JobState.SKIPPED, now=now, reason=reason, error_class="withdrawn"
                )
                taken.append(job.agent)
        return taken

    async def message(self, tx: Tx, message_id: str) -> Message | None:
        return await ledger.message(tx, message_id)

"""One request for work: the first task that is ready is claimed, or the one that was named.

Invariant: every attempt is one transaction of the caller's, with its heartbeat, even if it is refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from relay.base.durations import iso
from relay.coordination.critical import stored_functions
from relay.coordination.sessions import Heartbeat, Session
from relay.coordination.tasks.claims import MOST_RANK, Claims, Search
from relay.coordination.tasks.needs import found_task
from relay.coordination.tasks.task import Status, Task
from relay.coordination.tasks.task_events import Q
from relay.coordination.tasks.why_not import reasons
from relay.model import Caller, Json, Refusal
from relay.store.ports import Store, Tx


@dataclass(frozen=True, slots=True)
class Try:
    """What an attempt gave: a claimed task's `answer`, or None with the `refusal`, or with what there is instead.

    `next_s`: seconds after which time alone may make one ready. `files`: held files were in the way."""

    answer: Json | None = None
    nothing: Json | None = None
    refusal: Refusal | None = None
    next_s: float | None = None
    files: bool = False

    def result(self) -> Json:
        """The answer to the caller. Raises Refusal."""
        if self.refusal is not None:
            raise self.refusal
        answer = self.answer or self.nothing
        assert answer is not None
        return answer

    @property
    def final(self) -> bool:
        """Does it answer a caller that waits? It does, too, when the named task will never be ready for it."""
        reasons = () if self.refusal is None else self.refusal.details.get("reasons", ())
        never = any(reason["reason"] in ("finished", "archived") for reason in reasons)
        return self.answer is not None or never


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """What a caller asks for: the task `task_id` (None: any), or one of these `types` (None: of any)."""

    store: Store
    heartbeat: Heartbeat
    claims: Claims
    functions: stored_functions.Functions | None
    caller: Caller
    lease_s: float
    task_id: str | None = None
    types: Sequence[str] | None = None

    async def attempt(self) -> Try:
        """Claim it, in a transaction of its own. Raises Refusal: what waiting does not change."""
        if self.task_id is not None:
            return await self._claim_named(self.task_id)
        if self.functions is not None:
            types = None if self.types is None else list(self.types)
            asked = {"agent_type": self.caller.agent_type, "types": types, "for_s": self.lease_s}
            row = await self.functions.ask(stored_functions.Q.claim_work, self.caller, **asked)
            if row is not None and row["outcome"] == "claimed":
                return Try({"success": True, **given(Task.of_row(row))})
            if row is not None:
                return await self.store.read(lambda tx: self._nothing(tx, Search()), actor=self.caller)

        async def work(tx: Tx, session: Session) -> Try:
            await self.claims.take_back(tx)
            search = await self.claims.take(tx, self.caller, self.types, self.lease_s)
            if search.task is None:
                return await self._nothing(tx, search)
            await self.heartbeat.promise(tx, self.caller, session, search.task.lease_until or 0.0)
            return Try({"success": True, **given(search.task)})

        return await self.heartbeat.write(self.store, self.caller, work)

    async def _claim_named(self, id_: str) -> Try:
        async def work(tx: Tx, session: Session) -> Try:
            await self.claims.take_back(tx)
            task = await found_task(tx, id_)
            mine = task.claim and task.holder == self.caller.holder
            if mine or task.given_to == self.caller.agent:
                return Try({"success": True, "repeated": True, **given(task)})
            against = await reasons(tx, task, self.caller, self.claims.locks)
            claimed = None if against else await self.claims.take_this(tx, self.caller, task, self.lease_s)
            if claimed is not None:
                await self.heartbeat.promise(tx, self.caller, session, claimed.lease_until or 0.0)
                return Try({"success": True, **given(claimed)})
            why = against[0]["message"] if against else "Another agent was first."
            message = f"{task.ref} cannot be claimed now: {why}"
            fix = "Wait for it with wait_seconds, or call get_work without task_id for the next one."
            refusal = Refusal(message, fix, code="not_claimable", details={"reasons": against})
            # Its back-off is a time of the store's clock; a look in between does no harm.
            backs_off = any(reason["reason"] == "backing_off" for reason in against)
            return Try(refusal=refusal, next_s=1.0 if backs_off else None, files=True)

        return await self.heartbeat.write(self.store, self.caller, work)

    async def _nothing(self, tx: Tx, search: Search) -> Try:
        """What there is instead of a task that this caller could have now: of the types that it asked for, and, up
        to 1,000, how many of others are ready."""
        now = await tx.now()
        if self.types is None:
            row = await tx.one(Q.work_counts, now=now)
        else:
            row = await tx.one(Q.work_counts_of_types, now=now, types=json.dumps(list(self.types)))
        counts = dict(row or {})
        why = counts | {"next_at": iso(counts["next_at"]), "files_held": search.held}
        nothing = {"success": True, "task_id": None, "why": why}
        return Try(nothing=nothing, next_s=1.0 if why["next_at"] else None, files=bool(search.held))

    async def ready(self, tx: Tx) -> bool:
        """May there be a task for this caller?"""
        if self.task_id is not None:
            (task,) = await self.claims.as_they_stand(tx, [await found_task(tx, self.task_id)])
            return task.status is not Status.CLAIMED
        asked: Json = {"now": await tx.now(), "rank": -MOST_RANK, "number": 0, "limit": 1}
        if self.types is None:
            return bool(await tx.all(Q.next_ready, **asked))
        return bool(await tx.all(Q.next_ready_of_types, **asked, types=json.dumps(self.types)))

    async def undo(self, answer: Json) -> None:
        """Take back the claim that an attempt gave to a caller that was gone by then."""
        work = self.claims.undo
        await self.store.write(lambda tx: work(tx, self.caller, answer["task_id"]), actor=self.caller)


def shown(task: Task) -> Json:
    """A task as an agent gets it."""
    return {
        "task_id": task.id,
        "task_type": task.task_type,
        "task_description": task.task_description,
        "status": str(task.status),
        "input_data": task.input_data,
        "number": task.number,
        # A dead one's last attempt is counted already.
        "attempt": task.attempts + (task.status is not Status.DEAD),
        "priority": task.priority,
        "files": list(task.files),
    }


def given(task: Task) -> Json:
    """A task that the agent has claimed."""
    return shown(task) | {"fencing_token": task.fence, "lease_until": iso(task.lease_until)}

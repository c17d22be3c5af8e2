"""The work queue as agents see it: submit, get, complete, give back (docs/coordination.md, "Work").

Invariants:
- every call is a heartbeat first, even if it is refused;
- a refusal changes nothing else: it is decided before the first write;
- a task that is over is over for agents: a second, different completion is refused and the stored result stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import uuid_utils

from relay.base.durations import iso
from relay.config.coordination import CoordinationSettings
from relay.coordination.critical import stored_functions
from relay.coordination.idempotency import once
from relay.coordination.locks.lock import MAX_WAIT_S
from relay.coordination.locks.lock import seconds as time_of
from relay.coordination.locks.service import Locks
from relay.coordination.sessions import Heartbeat, Session
from relay.coordination.tasks import task as work
from relay.coordination.tasks import task_events, transitions
from relay.coordination.tasks.claims import Claims, by, no_claim
from relay.coordination.tasks.completion import Completion
from relay.coordination.tasks.needs import checked_needs, found_task, reference, rewired
from relay.coordination.tasks.requests import (
    MOST_ERROR,
    MOST_JSON,
    MOST_REASON,
    MOST_TYPE,
    MOST_TYPES,
    NewTask,
    new_task,
    references,
    seconds,
    whole,
)
from relay.coordination.tasks.task import Column, Status, Task
from relay.coordination.tasks.task_events import Change, Followed, Q
from relay.coordination.tasks.wait import WorkWait
from relay.coordination.tasks.why_not import reasons
from relay.coordination.tasks.work_request import WorkRequest, shown
from relay.log import events
from relay.model import Caller, Fault, Json, Refusal
from relay.model.ports import TaskOutcomes
from relay.model.references import Thing
from relay.model.validation import json_value, malformed, text, texts
from relay.store.ports import Store, Tx

T = TypeVar("T")
#: Rows that are read at once for a list.
_PAGE = 500
#: What a list may be asked for.
WANTED = {
    **{str(status): frozenset({status}) for status in Status},
    "open": frozenset({Status.PENDING, Status.BLOCKED, Status.CLAIMED}),
    "done": frozenset({Status.COMPLETED, Status.FAILED, Status.DEAD}),
}


class WorkQueue:
    """The tasks of the room, for agents."""

    def __init__(
        self,
        store: Store,
        settings: CoordinationSettings,
        *,
        heartbeat: Heartbeat,
        locks: Locks,
        outcomes: TaskOutcomes | None = None,
    ) -> None:
        self._store, self._settings, self._heartbeat, self._locks = store, settings, heartbeat, locks
        self.claims = Claims(settings, locks, outcomes)
        self._functions = stored_functions.functions_of(store, heartbeat)

    async def submit(
        self,
        caller: Caller,
        task_type: str,
        task_description: str,
        *,
        input_data: Any = None,
        priority: int = 5,
        depends_on: Sequence[str] = (),
        on_failed: str = "block",
        files: Sequence[str] = (),
        max_attempts: int | None = None,
        task_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Json:
        """Put a task into the queue. Raises Refusal: MALFORMED; UNKNOWN `unknown_dependency`; REFUSED
        `self_dependency`, `task_exists`, `idempotency_key_reused`."""
        new = new_task(
            task_type,
            task_description,
            input_data=input_data,
            priority=priority,
            depends_on=depends_on,
            on_failed=on_failed,
            files=files,
            max_attempts=self._settings.max_attempts if max_attempts is None else max_attempts,
            task_id=task_id,
        )
        if new.files:
            # A path that no claim could lock is refused now, not then.
            new = replace(new, files=tuple(await self._locks.followed(caller, new.files)))

        async def run(tx: Tx, session: Session) -> Json:
            request = new.request()
            return await once(
                tx, caller, "submit_work", idempotency_key, request, lambda: _submit(tx, caller, new)
            )

        return await self._write(caller, run)

    async def get(
        self,
        caller: Caller,
        task_types: Sequence[str] | None = None,
        *,
        task_id: str | None = None,
        lease_s: float | None = None,
        wait_s: float = 0.0,
        on_wait: Callable[[str], None] | None = None,
    ) -> Json:
        """Claim the first task that is ready (of these types), or the one that is named. If there is none (for
        `wait_s` seconds), `task_id` is null, with `why`. Raises Refusal: UNKNOWN `unknown_task`; REFUSED
        `not_claimable` with `reasons`."""
        types = None if task_types is None else texts(task_types, "task_types", MOST_TYPES, MOST_TYPE)
        if types is not None and not types:
            fix = "Leave it out for work of any type."
            raise malformed("task_types", "`task_types` is an empty list.", fix)
        if types is not None and task_id is not None:
            message = "`task_types` and `task_id` at once: give one of them."
            raise malformed("task_types", message, "A task has one type.")
        lease = self._settings.claim_lease_s if lease_s is None else seconds(lease_s)
        wait = time_of("wait_seconds", wait_s, 0, MAX_WAIT_S)
        id_ = None if task_id is None else reference(task_id)
        parts = self._store, self._heartbeat, self.claims, self._functions
        request = WorkRequest(*parts, caller, lease, id_, types)
        if wait:
            return await WorkWait(request).wait(wait, on_wait)
        return (await request.attempt()).result()

    async def complete(
        self,
        caller: Caller,
        task_id: str,
        success: bool,
        *,
        result: Any = None,
        error_message: str | None = None,
        fencing_token: int | None = None,
        skill: str | None = None,
    ) -> Json:
        """End the caller's claim for good. `skill`: what it was done by. Raises Refusal: UNKNOWN `unknown_task`;
        REFUSED `already_completed`, `not_yours`, `stale_token`."""
        id_ = reference(task_id)
        wanted = Completion(
            Status.COMPLETED if success else Status.FAILED,
            json_value(result, "result", MOST_JSON),
            None if error_message is None else text(error_message, "error_message", MOST_ERROR, least=0),
            skill,
        )
        # What is learned of it is not the function's.
        plain = success and skill is None and not id_.startswith(Thing.TASK)
        functions = self._functions if plain else None
        if functions:
            asked = {"id": id_, **wanted.columns(), "fence": fencing_token}
            if await functions.ask(stored_functions.Q.complete_work, caller, **asked) is not None:
                return _ended(id_, wanted.status)

        async def run(tx: Tx, session: Session) -> Json:
            task = await found_task(tx, id_)
            if success and _holds(task, caller, await tx.now()):
                await self.claims.check_files(tx, caller, task)
            ended = await self.claims.end(tx, caller, task, wanted, fencing_token)
            if ended is not None:
                return _ended(task.id, wanted.status, ended[1])
            if wanted.is_that_of(task, caller):
                return _ended(task.id, task.status) | {"repeated": True}
            raise await no_claim(tx, task, caller, fencing_token)

        return await self._write(caller, run)

    async def release(self, caller: Caller, task_id: str, *, reason: str | None = None) -> Json:
        """Give a claim back: the attempt counts. Raises Refusal as `complete` does."""
        id_ = reference(task_id)
        why = "" if reason is None else text(reason, "reason", MOST_REASON, least=0).strip()

        async def run(tx: Tx, session: Session) -> Json:
            task, now = await found_task(tx, id_), await tx.now()
            if not _holds(task, caller, now):
                raise await no_claim(tx, task, caller, None)
            why_back = f"{caller.agent} gave it back{': ' * bool(why)}{why}"
            after = await self.claims.give_back(tx, caller, task, why_back)
            again = None if after.status is Status.DEAD else iso(after.not_before)
            return {"success": True, "task_id": task.id, "status": str(after.status), "next_at": again}

        return await self._write(caller, run)

    async def renew(self, caller: Caller, task_id: str, *, lease_s: float | None = None) -> Json:
        """Make a claim's lease reach further; it never gets shorter. Raises Refusal as `complete` does."""
        id_, asked = reference(task_id), None if lease_s is None else seconds(lease_s)

        async def run(tx: Tx, session: Session) -> Json:
            task, now = await found_task(tx, id_), await tx.now()
            until = now + (asked or task.lease_s or self._settings.claim_lease_s)
            row = await tx.one(Q.renew_claim, **caller.ids, id=task.id, lease_until=until, now=now)
            if row is None:
                raise await no_claim(tx, task, caller, None)
            after = Task.of_row(row)
            held = await self.claims.lock_files(tx, caller, after.id, after.number, after.files, until - now)
            await self._heartbeat.promise(tx, caller, session, after.lease_until or until)
            answer = {"success": True, "task_id": task.id, "fencing_token": after.fence}
            answer |= {"lease_until": iso(after.lease_until or until)}
            # The claim goes on; its files are not all its own any more (it released one, or was forced to).
            return answer if held is None else answer | {"files_held": [{"number": after.number, **held}]}

        return await self._write(caller, run)

    async def explain(self, caller: Caller, task_id: str) -> Json:
        """Every reason why the caller cannot claim it."""
        id_ = reference(task_id)

        async def run(tx: Tx, session: Session) -> Json:
            await self.claims.take_back(tx)
            task = await found_task(tx, id_)
            against = await reasons(tx, task, caller, self._locks)
            answer = {"success": True, "task_id": task.id, "number": task.number, "status": str(task.status)}
            return answer | {"claimable": not against, "reasons": against}

        return await self._write(caller, run)

    async def set_needs(self, caller: Caller, task_id: str, depends_on: Sequence[str]) -> Json:
        """Say anew what a task that is not over depends on. Raises Refusal: UNKNOWN `unknown_task`,
        `unknown_dependency`; REFUSED `self_dependency`, `dependency_cycle`, `already_completed`."""
        id_ = reference(task_id)
        asked = references(depends_on)

        async def run(tx: Tx, session: Session) -> Json:
            await self.claims.take_back(tx)
            task = await found_task(tx, id_)
            needs = await rewired(tx, task, asked)
            after = transitions.needing(task, needs, now=await tx.now())
            made = await task_events.make(tx, Change.NEEDS, [(task, after)], by=by(caller))
            stands = made.tasks[0]
            answer = {"success": True, "task_id": task.id, "status": str(stands.status), "note": stands.note}
            return answer | {"depends_on": [need._asdict() for need in needs]}

        return await self._write(caller, run)

    async def reopen(self, caller: Caller, task_id: str, *, reason: str | None = None) -> Json:
        """A person's: a new attempt of a finished task, under a new token. Raises Refusal: FORBIDDEN
        `person_only`; REFUSED `not_finished`."""
        id_ = reference(task_id)
        note = None if reason is None else text(reason, "reason", MOST_REASON, least=0).strip() or None
        if not caller.person:
            fix = "Submit a new task, or ask a person in the room."
            raise Refusal("Only a person can reopen a finished task.", fix, Fault.FORBIDDEN, "person_only")

        async def run(tx: Tx, session: Session) -> Json:
            await self.claims.take_back(tx)
            task = await found_task(tx, id_)
            if task.active or task.archived_at is not None:
                off = task.archived_at is not None
                where = "off the board" if off else f"{task.status}, so it has not ended"
                fix = "A task that is completed, failed or dead can be reopened."
                details = {"status": str(task.status)}
                raise Refusal(f"{task.ref} is {where}.", fix, code="not_finished", details=details)
            token = await task_events.next_fence(tx)
            after = transitions.moved(
                task, Column.PENDING, by=caller.agent, now=await tx.now(), fence=token, note=note
            )
            made = (await task_events.make(tx, Change.MOVED, [(task, after)], by=by(caller))).tasks[0]
            answer = {"success": True, "task_id": task.id, "status": str(made.status)}
            return answer | {"attempt": made.attempts + 1}

        return await self._write(caller, run)

    async def pending(self, caller: Caller, *, limit: int = 100) -> list[Json]:
        """What is ready now, in the order in which it would be given."""

        async def look(tx: Tx) -> list[Json]:
            rows = await tx.all(Q.ready, now=await tx.now(), limit=whole(limit, "limit", 1, 1000))
            return [shown(Task.of_row(row)) for row in rows]

        return await self._read(caller, look)

    async def list(
        self,
        caller: Caller,
        *,
        status: str | None = None,
        task_type: str | None = None,
        assignee: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Json:
        """`{tasks, next}`: the tasks on the board that are such, by number, each as `task` tells it; `next` is the
        cursor of the next page, None after the last. `status`: one of the queue's, or `open` (not over) or `done`.
        Raises Refusal: MALFORMED."""
        most = whole(limit, "limit", 1, 1000)
        after = 0 if cursor is None else int(cursor)
        wanted = WANTED.get(status) if status is not None else frozenset(Status)
        if wanted is None:
            words = ", ".join(WANTED)
            raise malformed("status", f"{str(status)[:40]!r} is not a status of a task.", f"One of: {words}.")

        async def look(tx: Tx) -> Json:
            fitting, number = list[Task](), after
            while rows := await tx.all(Q.tasks_after, number=number, limit=_PAGE):
                number = rows[-1]["number"]
                for task in await self.claims.as_they_stand(tx, [Task.of_row(row) for row in rows]):
                    fits = task.status in wanted and task_type in (None, task.task_type)
                    if fits and (assignee is None or _same(assignee, task.claimed_by)):
                        fitting.append(task)
                if len(fitting) > most:
                    break
            page, now = fitting[:most], await tx.now()
            following = str(page[-1].number) if len(fitting) > most else None
            return {"tasks": [_standing(task, now) for task in page], "next": following}

        return await self._read(caller, look)

    async def task(self, caller: Caller, task_id: str) -> Json:
        """TASK with what `get` gives of it, and what came out; `status` is the queue's, `column` the board's. Raises
        Refusal: UNKNOWN `unknown_task`."""
        id_ = reference(task_id)

        async def look(tx: Tx) -> Json:
            (task,) = await self.claims.as_they_stand(tx, [await found_task(tx, id_)])
            return _standing(task, await tx.now()) | {"archived": task.archived_at is not None}

        return await self._read(caller, look)

    async def take_back(self) -> Sequence[Json]:
        """Take back the claims that were lost (the daemon's sweep); TASK of each."""
        return [task.as_json() for task in await self._store.write(self.claims.take_back)]

    async def _read(self, caller: Caller, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Read, behind a heartbeat of its own."""
        await self._heartbeat.beat(self._store, caller)
        return await self._store.read(work)

    async def _write(self, caller: Caller, work: Callable[[Tx, Session], Awaitable[Json]]) -> Json:
        return await self._heartbeat.write(self._store, caller, work)


async def _submit(tx: Tx, caller: Caller, new: NewTask) -> Json:
    id_, now = new.task_id or str(uuid_utils.uuid7()), await tx.now()
    if await tx.one(Q.task_by_id, id=id_) is not None:
        fix = "Leave `task_id` out, or give a new UUID; use an `idempotency_key` to repeat a request safely."
        details = {"task_id": id_}
        raise Refusal(f"Task {id_} exists already.", fix, code="task_exists", details=details)
    needs = await checked_needs(tx, id_, new.depends_on)
    task = Task(
        id=id_,
        number=await events.next_number(tx, "task"),
        task_type=new.task_type,
        task_description=new.description,
        rank=work.rank(now, new.priority),
        status=Status.PENDING,
        created_by=caller.agent,
        created_at=now,
        updated_at=now,
        priority=new.priority,
        input_data=new.input_data,
        depends_on=needs,
        max_attempts=new.max_attempts,
        on_failed=str(new.on_failed),
        files=new.files,
    )
    # A person may bring it back with /undo, as with /task.
    change = Change.CREATED if caller.person else Change.SUBMITTED
    made = (await task_events.make(tx, change, [(None, task)], by=by(caller))).tasks[0]
    answer = {"success": True, "task_id": id_, "number": task.number, "status": str(made.status)}
    return answer | ({"note": made.note} if made.note else {})


def _standing(task: Task, now: float) -> Json:
    """TASK with what `get` gives of it, and what came out."""
    entry = task.as_json() | shown(task) | {"result": task.result, "column": str(task.column)}
    return entry if task.not_before > now else entry | {"not_before": None}


def _same(assignee: str, claimed_by: str | None) -> bool:
    return claimed_by is not None and assignee.casefold() == claimed_by.casefold()


def _ended(task_id: str, status: Status, followed: Followed | None = None) -> Json:
    then = followed or Followed()
    moved = {"unblocked": then.ids(Status.PENDING), "cascaded": then.ids(Status.FAILED)}
    return {"success": True, "status": str(status), "task_id": task_id} | moved


def _holds(task: Task, caller: Caller, now: float) -> bool:
    if task.status is not Status.CLAIMED or task.archived_at is not None or task.claimed_by != caller.agent:
        return False
    if task.claimed_session is None:
        return caller.person or task.given_to == caller.agent
    return task.claimed_session == caller.session and (task.lease_until or 0.0) > now

"""One request for locks: all that it asks for is granted at once, or what is in the way is named.

Invariants:
- every attempt is one transaction of the caller's, with its heartbeat, even if it is refused;
- a request with an idempotency key is granted once, and its answer stands while what it got still holds;
- two requests for the same take rows in one order, so they never wait for each other's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from relay.coordination.idempotency import forget, once
from relay.coordination.locks import table, wait_line
from relay.coordination.locks.conflict_precheck import Comparison, LockKey, compare
from relay.coordination.locks.lock import Blocked, Granted, Lock, LockRequest, Outcome, Repeated, Wait
from relay.coordination.sessions import Heartbeat
from relay.model import Caller, Json, Refusal
from relay.store.ports import Store, StoreError, Tx

#: What an attempt ends with.
Answer = Outcome | Repeated | Refusal
OPERATION = "acquire_lock"


@dataclass(frozen=True, slots=True)
class Acquisition:
    """A caller's request, with its idempotency key if it has one."""

    heartbeat: Heartbeat
    caller: Caller
    request: LockRequest
    idempotency_key: str | None = None

    async def compared(self, store: Store) -> Acquisition:
        """The same, compared with what is on record now, outside of the writer's turn."""

        async def look(tx: Tx) -> tuple[tuple[list[LockKey], int], list[Wait]]:
            return await table.to_compare(tx, self.caller), await wait_line.line(tx)

        (held, upto), line = await store.read(look, actor=self.caller)

        def work() -> Comparison:
            for wait in line:
                wait_line.compare_ahead(wait, self.request)
            return compare(self.request.targets, held, upto)

        return replace(self, request=replace(self.request, compared=await asyncio.to_thread(work)))

    async def attempt(self, tx: Tx, place: int | None = None, *, waits_on: bool = False) -> Answer:
        """Take all or nothing, or repeat what the request with this key got. `place`, `waits_on`: see
        `wait_line.obstacle`."""
        if self.idempotency_key is None:
            return await self.take(tx, place, waits_on=waits_on)
        await self.heartbeat.touch(tx, self.caller)
        outcomes: list[Granted | Blocked] = []

        async def work() -> Json:
            outcomes.append(await self.take(tx, place, waits_on=waits_on))
            return outcomes[0].as_json()

        request = self.request
        same = {
            "session": self.caller.session,
            "mode": request.mode,
            "ttl_s": request.ttl_s,
            "reason": request.reason,
            "targets": [[target.kind, target.key] for target in request.targets],
        }
        try:
            answer = await once(tx, self.caller, OPERATION, self.idempotency_key, same, work)
        except Refusal as refused:
            return refused
        if outcomes:
            return outcomes[0]
        now = await tx.now()
        living = {lock.token for lock in await table.of_session(tx, self.caller) if lock.expires_at > now}
        if living.issuperset(lock["fencing_token"] for lock in answer["locks"]):
            return Repeated(answer)
        message = f"The lease that the request {self.idempotency_key!r} got is over."
        fix = "Acquire with a new idempotency key, and look at what changed before you write."
        details = {"file_path": answer["file_path"], "fencing_token": answer["fencing_token"]}
        return Refusal(message, fix, code="stale_token", details=details)

    async def take(self, tx: Tx, place: int | None = None, *, waits_on: bool = False) -> Outcome:
        """Take all or nothing, whatever was done before with this key."""
        session = await self.heartbeat.touch(tx, self.caller)
        outcome = await self._grant(tx, place, waits_on)
        if isinstance(outcome, Granted):
            until = max(lock.expires_at for lock in outcome.locks)
            await self.heartbeat.promise(tx, self.caller, session, until)
        return outcome

    async def _grant(self, tx: Tx, place: int | None, waits_on: bool) -> Outcome:
        targets = self.request.targets
        # One path, and nobody in line: the statement that takes it says all.
        if len(targets) == 1:
            taken = await table.take(tx, self.caller, targets[0], self.request, looked=False)
            if taken is not None:
                return _granted([taken])
        blocked = await wait_line.obstacle(tx, self.caller, self.request, place, waits_on=waits_on)
        if blocked is not None:
            return blocked
        got = {}
        for target in sorted(targets, key=lambda target: (target.kind, target.key)):
            taken = await table.take(tx, self.caller, target, self.request, looked=True)
            if taken is None:
                raise StoreError(f"{target.path} could not be taken, and nothing is in the way")
            got[target] = taken
        return _granted([got[target] for target in targets])

    async def give_back(self, tx: Tx, granted: Granted) -> None:
        """Undo what was granted to a caller that was gone by then: its key may be used again."""
        if self.idempotency_key is not None:
            await forget(tx, self.caller, OPERATION, self.idempotency_key)
        for lock in granted.locks:
            if lock.token in granted.fresh:
                await table.free(tx, self.caller, lock.target, lock.token)


def _granted(taken: Sequence[tuple[Lock, bool]]) -> Granted:
    return Granted(tuple(lock for lock, _ in taken), frozenset(lock.token for lock, new in taken if new))

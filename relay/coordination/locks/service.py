"""Locks: what two sessions would change at once, one of them holds.

Invariants:
- two locks that hold and meet belong to one session, or are both shared;
- every call is a heartbeat, also one that is refused: a refusal is decided in the transaction and raised behind it;
- several paths are taken all or none.

(004, "File Locking"; issue 3, "Locks"; docs/coordination.md, "Locks".)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from relay.coordination.critical.stored_functions import functions_of
from relay.coordination.idempotency import forget, once
from relay.coordination.locks import postgres_functions, table, wait_line
from relay.coordination.locks.conflict_precheck import Comparison, LockKey, compare
from relay.coordination.locks.lock import (
    DEFAULT_TTL_S,
    MAX_TTL_S,
    MAX_WAIT_S,
    MIN_TTL_S,
    Granted,
    Json,
    Lock,
    LockRequest,
    Loss,
    Outcome,
    Repeated,
    Wait,
    checked_reason,
    lock_request,
    seconds,
    stale,
)
from relay.coordination.locks.table import Q
from relay.coordination.locks.wait import LetIn, LockWait
from relay.coordination.paths.links import followed, unlinked
from relay.coordination.paths.targets import Target, above, named, targets
from relay.coordination.sessions import Heartbeat
from relay.log.encoding import loads
from relay.model import Caller, Fault, Refusal, actions
from relay.model.pages import Page
from relay.store.ports import Store, StoreError, Tx

T = TypeVar("T")
#: Seconds that a lease which ran out is remembered, so that its holder is found stale: longer than any agent's turn,
#: and three times the longest lease.
KEEP_S = 24 * 3600.0


async def _everybody(tx: Tx, caller: Caller) -> Refusal | None:
    """`LetIn` where nobody comes with a key."""
    return None


class Locks:
    """The locks of the room. `fold`: the repository's file system folds case; `root`: the top of its main checkout,
    None = unknown; `root_of`: that of the checkout in which an agent works, None = the main one; `let_in`: who waits
    is asked for again before it is granted something."""

    def __init__(
        self,
        store: Store,
        heartbeat: Heartbeat,
        *,
        fold: bool = False,
        root: Path | None = None,
        root_of: Callable[[str], Path | None] = lambda agent: None,
        let_in: LetIn = _everybody,
    ) -> None:
        self._root, self._root_of = root, root_of
        self.let_in = let_in
        self._store = store
        self._heartbeat = heartbeat
        self._fold = fold
        self._functions = functions_of(store, heartbeat)

    async def target(self, caller: Caller, path: str) -> Target:
        """What the caller means by that text, links followed. Raises Refusal (malformed)."""
        return (await self.targets(caller, [path]))[0]

    async def targets(self, caller: Caller, paths: Sequence[str]) -> tuple[Target, ...]:
        """Several, each once, in the order given. Raises Refusal (malformed)."""
        return targets(await self.followed(caller, paths), self._fold)

    def kept(self, paths: Sequence[str]) -> tuple[Target, ...]:
        """Those of a task, whose links were followed when it was submitted (`WorkQueue.submit`)."""
        return targets(paths, self._fold)

    async def followed(self, caller: Caller, paths: Sequence[str]) -> Sequence[str]:
        """The texts with the links of the caller's checkout followed. Raises Refusal (malformed)."""
        root = self._root_of(caller.agent) or self._root
        try:
            # First, since it says how many names there are to look at at most.
            targets(paths, self._fold)
            if root is None:
                return paths
            # To wake a thread costs as much as a third of the lock.
            if len(paths) == 1 and unlinked(paths[0], root):
                return paths
            return await asyncio.to_thread(lambda: [followed(path, root) for path in paths])
        except Refusal as refused:
            raise named(refused, self._root) from None

    async def acquire(
        self,
        caller: Caller,
        paths: Sequence[str],
        *,
        mode: str = "exclusive",
        ttl_s: float = DEFAULT_TTL_S,
        reason: str | None = None,
        wait_s: float = 0.0,
        idempotency_key: str | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> Json:
        """All of these paths or none; see docs/coordination.md. `on_wait` is told where in line the caller stands,
        each time it changes. Raises Refusal (malformed)."""
        request = lock_request(await self.targets(caller, paths), mode=mode, ttl_s=ttl_s, reason=reason)
        wait = seconds("wait_seconds", wait_s, 0, MAX_WAIT_S)
        if self._functions and idempotency_key is None and not wait:
            short = await postgres_functions.acquire(self._functions, caller, request)
            if short is not None:
                return short.as_json()
        if len(request.targets) > 1 or request.targets[0].kind == "glob":
            request = await self._compared(caller, request)

        async def run(
            tx: Tx, place: int | None = None, waits_on: bool = False
        ) -> Outcome | Repeated | Refusal:
            return await self._acquire_once(tx, caller, request, idempotency_key, place, waits_on)

        async def given_back(tx: Tx) -> None:
            if idempotency_key is not None:
                await forget(tx, caller, "acquire_lock", idempotency_key)

        outcome = await (
            LockWait(self._store, run, given_back, caller, request, self.let_in, on_wait).take_turn(wait)
            if wait
            else self._store.write(run, actor=caller)
        )
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome.as_json()

    async def _compared(self, caller: Caller, request: LockRequest) -> LockRequest:
        """The wish, compared with what is on record now, outside of the writer's turn."""

        async def look(tx: Tx) -> tuple[tuple[list[LockKey], int], list[Wait]]:
            return await table.to_compare(tx, caller), await wait_line.line(tx)

        (held, upto), line = await self._store.read(look, actor=caller)

        def work() -> Comparison:
            for wait in line:
                wait_line.compare_ahead(wait, request)
            return compare(request.targets, held, upto)

        return replace(request, compared=await asyncio.to_thread(work))

    async def acquire_in(
        self,
        tx: Tx,
        caller: Caller,
        wanted: Sequence[Target],
        mode: str = "exclusive",
        ttl_s: float = DEFAULT_TTL_S,
        reason: str | None = None,
        task_id: str | None = None,
    ) -> Outcome:
        """All of these or none, in the caller's own transaction; `task_id`: they end with the claim of that task
        (`release_of_task`), except those that the session held before. Raises Refusal (malformed)."""
        asked = lock_request(wanted, mode=mode, ttl_s=ttl_s, reason=reason, task_id=task_id)
        return await self._acquire(tx, caller, asked)

    async def _acquire_once(
        self, tx: Tx, caller: Caller, request: LockRequest, key: str | None, place: int | None, waits_on: bool
    ) -> Outcome | Repeated | Refusal:
        """`_acquire`, or what the request with this key was answered: while what it got still holds."""
        if key is None:
            return await self._acquire(tx, caller, request, place, waits_on)
        await self._heartbeat.touch(tx, caller)
        done: list[Outcome] = []

        async def work() -> Json:
            done.append(await self._acquire(tx, caller, request, place, waits_on))
            return done[0].as_json()

        same_request = {
            "session": caller.session,
            "mode": request.mode,
            "ttl_s": request.ttl_s,
            "reason": request.reason,
        }
        same_request["targets"] = [[target.kind, target.key] for target in request.targets]
        try:
            answer = await once(tx, caller, "acquire_lock", key, same_request, work)
        except Refusal as refused:
            return refused
        if done:
            return done[0]
        now = await tx.now()
        living = {lock.token for lock in await table.of_session(tx, caller) if lock.expires_at > now}
        if living.issuperset(lock["fencing_token"] for lock in answer["locks"]):
            return Repeated(answer)
        return Refusal(
            f"The lease that the request {key!r} got is over.",
            "Acquire with a new idempotency key, and look at what changed before you write.",
            Fault.REFUSED,
            "stale_token",
            details={"file_path": answer["file_path"], "fencing_token": answer["fencing_token"]},
        )

    async def _acquire(
        self, tx: Tx, caller: Caller, request: LockRequest, place: int | None = None, waits_on: bool = False
    ) -> Outcome:
        session = await self._heartbeat.touch(tx, caller)
        outcome = await self._grant(tx, caller, request, place, waits_on)
        if isinstance(outcome, Granted):
            until = max(lock.expires_at for lock in outcome.locks)
            await self._heartbeat.promise(tx, caller, session, until)
        return outcome

    async def _grant(
        self, tx: Tx, caller: Caller, request: LockRequest, place: int | None, waits_on: bool
    ) -> Outcome:
        """Take all that is wished, or name what is in the way. `place` and `waits_on`: see `wait_line.obstacle`."""
        # One path, and nobody in line: the statement that takes it says all.
        if len(request.targets) == 1:
            taken = await table.take(tx, caller, request.targets[0], request, looked=False)
            if taken is not None:
                return _granted([taken])
        blocked = await wait_line.obstacle(tx, caller, request, place, waits_on=waits_on)
        if blocked is not None:
            return blocked
        got = {}
        # In one order, whatever was asked: two requests for the same never wait for each other's rows.
        for target in sorted(request.targets, key=lambda target: (target.kind, target.key)):
            taken = await table.take(tx, caller, target, request, looked=True)
            if taken is None:
                raise StoreError(f"{target.path} could not be taken, and nothing is in the way")
            got[target] = taken
        return _granted([got[target] for target in request.targets])

    async def release(self, caller: Caller, path: str, *, fencing_token: int | None = None) -> Json:
        """Free the caller's own lock on exactly this. Raises Refusal: not_held, not_yours, stale_token."""
        target = await self.target(caller, path)
        freed: Json = {"success": True, "released": True, "file_path": target.path}
        if self._functions and await postgres_functions.release(
            self._functions, caller, target, fencing_token
        ):
            return freed

        async def work(tx: Tx) -> Json | Refusal:
            await self._heartbeat.touch(tx, caller)
            if await table.free(tx, caller, target, fencing_token) is None:
                return await table.why_not(tx, caller, target, fencing_token)
            return freed

        return await self._decided(caller, work)

    async def renew(self, caller: Caller, path: str, *, ttl_s: float | None = None) -> Json:
        """Let the caller's own lock last `ttl_s` seconds from now, if that is longer. Raises Refusal: not_held,
        not_yours, stale_token."""
        target = await self.target(caller, path)
        ttl = seconds("ttl_minutes", DEFAULT_TTL_S if ttl_s is None else ttl_s, MIN_TTL_S, MAX_TTL_S)

        async def work(tx: Tx) -> Json | Refusal:
            session = await self._heartbeat.touch(tx, caller)
            lock = await table.renew(tx, caller, target, ttl)
            if lock is None:
                return await table.why_not_renewed(tx, caller, target)
            await self._heartbeat.promise(tx, caller, session, lock.expires_at)
            return Granted((lock,), frozenset()).as_json()

        return await self._decided(caller, work)

    async def check(
        self,
        caller: Caller,
        paths: Sequence[str] | None = None,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> list[Json]:
        """LOCK of each that holds now: all (None), or those that meet these paths (of no paths: none). With a `limit`
        a Page of them, those near what the caller holds first: the same files, then their folders, then the rest."""
        wanted = None if paths is None else await self.targets(caller, paths) if paths else ()

        async def look(tx: Tx) -> list[Json]:
            if wanted is None:
                found = await table.living(tx)
            else:
                met = [lock for target in wanted for lock in await table.meeting(tx, target)]
                found = list({(lock.target, lock.holder): lock for lock in met}.values())
            if limit is None:
                return [lock.as_json() for lock in found]
            now = await tx.now()
            mine = [lock for lock in await table.of_session(tx, caller) if lock.expires_at > now]
            places = _places(found, mine)
            return Page.of([lock.as_json() for lock in found], places, limit, cursor)

        return await self._looked(caller, look)

    async def status(self, caller: Caller, path: str) -> Json:
        """`{file_path, locked, locks: [LOCK], waiting: [...]}`: what meets the path now, and who waits for it."""
        target = await self.target(caller, path)

        async def look(tx: Tx) -> Json:
            locks = await table.meeting(tx, target)
            return {
                "file_path": target.path,
                "locked": bool(locks),
                "locks": [lock.as_json() for lock in locks],
                "waiting": _line(wait_line.wanting(await wait_line.line(tx), target)),
            }

        return await self._looked(caller, look)

    async def explain(self, caller: Caller, path: str) -> Json:
        """What keeps the caller from holding this: `{success: true, file_path, free, yours, why: [sentence], locks,
        waiting, position?, lost?}`. `free`: no lock meets it, and it would get it now; `yours`: it holds all of this;
        `lost`: how it lost its own lease on exactly this."""
        target = await self.target(caller, path)

        async def look(tx: Tx) -> Json:
            holder = (caller.agent, caller.session)
            locks = await table.meeting(tx, target)
            line = await wait_line.line(tx)
            place = next((wait.id for wait in line if wait.holder == holder and target in wait.wanted), None)
            blocked = await wait_line.obstacle(tx, caller, LockRequest((target,)), place)
            mine, now = await table.own(tx, caller, target), await tx.now()
            answer: Json = {
                "success": True,
                "file_path": target.path,
                "free": blocked is None and not locks,
                "yours": any(lock.holder == holder and table.covers(lock.target, target) for lock in locks),
                "locks": [lock.as_json() for lock in locks],
                "waiting": _line(wait_line.wanting(line, target)),
                "why": [lock.told(target, now, caller.agent) for lock in locks if lock.holder != holder],
            }
            if any(lock.holder == holder for lock in locks):
                answer["why"].append("This session holds an overlapping lock.")
            elif mine is not None:
                answer |= {"lost": stale(mine, now).message}
            if blocked is not None and blocked.position is not None:
                answer["position"] = blocked.position
            if blocked is not None and not answer["why"]:
                answer["why"].append(blocked.as_json()["message"])
            return answer

        return await self._looked(caller, look)

    async def force_release(self, caller: Caller, action: actions.ForceRelease) -> Json:
        """Take exactly this from whoever holds it: `{success: true, released: true, file_path, locks: [LOCK]}`.

        A person's, and no agent's, whatever its key allows. The holders are told at their next call (`stale_token`),
        and by whoever follows `lock.forced`.
        Raises Refusal: forbidden, not_held (with what meets it).
        """
        if not caller.person:
            fix = "Ask a person in the room, or wait: check_locks says until when."
            message = f"Only a person takes a lock from its holder, and {caller.agent} is an agent."
            raise Refusal(message, fix, Fault.FORBIDDEN)
        target = await self.target(caller, action.path)
        action = replace(action, reason=checked_reason(action.reason))

        async def work(tx: Tx) -> Json | Refusal:
            await self._heartbeat.touch(tx, caller)
            taken, met = await table.force_release(tx, action, target, by=caller.agent)
            if not taken:
                near = ", ".join(sorted({lock.path for lock in met})) or "nothing"
                fix = f"Name it as the list of locks shows it; what overlaps it now: {near}."
                message = f"There is no lock on exactly {target.path}."
                return Refusal(message, fix, Fault.REFUSED, "not_held", details={"released": False})
            return {
                "success": True,
                "released": True,
                "file_path": target.path,
                "locks": [lock.as_json() for lock in taken],
            }

        return await self._decided(caller, work)

    async def prune(self) -> None:
        """Forget what ran out a day ago and more, and waits that nobody sees any more. For the daemon's sweep."""

        async def forget(tx: Tx) -> None:
            before = await tx.now() - KEEP_S
            await tx.execute(Q.forget_locks, before=before)
            await tx.execute(Q.forget_waits, before=before)

        await self._store.write(forget)

    async def release_of_task(
        self, tx: Tx, task_id: str, *, by: str, reason: str | None = None, lost: Loss | None = None
    ) -> Sequence[Lock]:
        """Free what was taken with the claim of this task, in the caller's own transaction; except what another claim
        of the same session wants too, and goes on with. `lost`: its holder did not give it back, and its leases stay
        on record."""
        for row in await tx.all(Q.other_claims_of_session, task_id=task_id):
            wanted = {(target.kind, target.key) for target in self.kept(loads(row["files"]))}
            for lock in await table.of_task(tx, task_id):
                if (lock.target.kind, lock.target.key) in wanted:
                    await table.hand_on(tx, lock, row["id"])
        return await table.free_of_task(tx, task_id, by=by, reason=reason, lost=lost)

    async def release_of_session(self, tx: Tx, caller: Caller, reason: str, by: str | None = None) -> None:
        """Free all that the caller's session holds, and its places in line (for `Sessions.at_end`). `by`: who ends
        it in its place, and its leases stay on record."""
        who = {"agent": caller.agent, "session": caller.session}
        await tx.execute(Q.forget_waits_of_session, **who)
        lost = None if by is None else Loss(await tx.now(), by, reason)
        await table.free_of_session(tx, caller, reason=reason, lost=lost)

    async def _decided(self, caller: Caller, work: Callable[[Tx], Awaitable[Json | Refusal]]) -> Json:
        """Run `work`; its refusal is raised behind the transaction, which keeps the heartbeat."""

        async def run(tx: Tx) -> Json | Refusal:
            return await work(tx)

        answer = await self._store.write(run, actor=caller)
        if isinstance(answer, Refusal):
            raise answer
        return answer

    async def _looked(self, caller: Caller, look: Callable[[Tx], Awaitable[T]]) -> T:
        """Read, with the heartbeat where one is due."""

        async def run(tx: Tx) -> tuple[bool, T]:
            return await self._heartbeat.fresh(tx, caller) is None, await look(tx)

        due, answer = await self._store.read(run, actor=caller)
        if due:
            await self._store.write(lambda tx: self._heartbeat.touch(tx, caller), actor=caller)
        return answer


def _granted(taken: Sequence[tuple[Lock, bool]]) -> Granted:
    return Granted(tuple(lock for lock, _ in taken), frozenset(lock.token for lock, new in taken if new))


def _places(found: Sequence[Lock], mine: Sequence[Lock]) -> list[str]:
    """Where each lock stands in a list for a session that holds `mine`: the same files, what is in, above or below
    their folders, and the rest; of these the oldest first."""
    same = {(lock.target.kind, lock.target.key) for lock in mine}
    folders = {_folder(lock.target) for lock in mine if lock.target.kind != "key"}
    around = {name for folder in folders for name in above(folder)} | folders

    def far(target: Target) -> int:
        if (target.kind, target.key) in same:
            return 0
        folder = _folder(target)
        near = folder in around or any(name in folders for name in above(folder))
        return 1 if target.kind != "key" and near else 2

    return [f"{far(lock.target)}.{lock.token:020d}" for lock in found]


def _folder(of: Target) -> str:
    """The folder that it is in; of a pattern the one before its first wildcard."""
    return of.key.rpartition("/")[0] if of.base is None else of.base


def _line(found: Sequence[Wait]) -> list[Json]:
    return [wait.as_json() | {"position": number} for number, wait in enumerate(found, 1)]

"""Locks: what two sessions would change at once, one of them holds (docs/coordination.md, "Locks").

Invariants:
- two locks that hold and meet belong to one session, or are both shared;
- every call is a heartbeat, even if it is refused: a refusal is raised after its transaction has committed;
- several paths are taken all or none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from relay.coordination.critical import stored_functions
from relay.coordination.locks import postgres_functions, table, wait_line
from relay.coordination.locks.acquisition import Acquisition
from relay.coordination.locks.lock import (
    DEFAULT_TTL_S,
    MAX_TTL_S,
    MAX_WAIT_S,
    MIN_TTL_S,
    Granted,
    Lock,
    LockRequest,
    Loss,
    Outcome,
    Wait,
    checked_reason,
    lock_request,
    seconds,
    stale,
)
from relay.coordination.locks.table import Q
from relay.coordination.locks.wait import LockWait
from relay.coordination.paths.links import followed, unlinked
from relay.coordination.paths.targets import Target, above, file, named, targets
from relay.coordination.sessions import Heartbeat, Session
from relay.log.encoding import loads
from relay.model import Caller, Fault, Json, Refusal, actions
from relay.model.pages import Page
from relay.model.ports import Checkouts
from relay.store.ports import Store, Tx

T = TypeVar("T")
#: Seconds that a lease which ran out is remembered, so that its holder is found stale: longer than any agent's turn,
#: and three times the longest lease.
KEEP_S = 24 * 3600.0
#: Callers whose refused paths are remembered, and paths of each.
MOST_REFUSED = 100


class Locks:
    """The locks of the room. `fold`: the repository's file system folds case; `root`: the top of its main checkout,
    None = unknown; `checkouts`: those in which agents work, None = all in the main one."""

    def __init__(
        self,
        store: Store,
        heartbeat: Heartbeat,
        *,
        fold: bool = False,
        root: Path | None = None,
        checkouts: Checkouts | None = None,
    ) -> None:
        self._store, self._heartbeat, self._fold = store, heartbeat, fold
        self._root, self._checkouts = root, checkouts
        self._functions = stored_functions.functions_of(store, heartbeat)
        #: By agent and session: the paths that it was refused in its turn, for whoever tells it that they are free.
        self.refused: dict[tuple[str, str | None], dict[str, None]] = {}

    def was_refused(self, caller: Caller, paths: Iterable[str]) -> None:
        """Remember that somebody else's lock kept the caller from these paths."""
        if len(self.refused) < MOST_REFUSED:
            of_caller = self.refused.setdefault((caller.agent, caller.session), {})
            of_caller.update(dict.fromkeys(islice(paths, MOST_REFUSED - len(of_caller))))

    async def target(self, caller: Caller, path: str) -> Target:
        """What the caller means by that text, links followed. Raises Refusal (malformed)."""
        return (await self.targets(caller, [path]))[0]

    async def targets(self, caller: Caller, paths: Sequence[str]) -> tuple[Target, ...]:
        """Several, each once, in the order given. Raises Refusal (malformed)."""
        return targets(await self.followed(caller, paths), self._fold)

    def stored_targets(self, paths: Sequence[str]) -> tuple[Target, ...]:
        """The targets of a task's files. Their links were followed when it was submitted (`WorkQueue.submit`)."""
        return targets(paths, self._fold)

    async def followed(self, caller: Caller, paths: Sequence[str]) -> Sequence[str]:
        """The texts with the links of the caller's checkout followed. Raises Refusal (malformed)."""
        own = None if self._checkouts is None else self._checkouts.root_of(caller.agent)
        root = own or self._root
        try:
            # First, since it says how many names there are to look at at most.
            targets(paths, self._fold)
            if root is None:
                return paths
            # Waking a thread costs a third of what the lock costs.
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
        acquisition = Acquisition(self._heartbeat, caller, request, idempotency_key)
        if len(request.targets) > 1 or request.targets[0].kind == "glob":
            acquisition = await acquisition.compared(self._store)
        if wait:
            outcome = await LockWait(self._store, acquisition).take_turn(wait, on_wait)
        else:
            outcome = await self._store.write(acquisition.attempt, actor=caller)
        if isinstance(outcome, Refusal):
            raise outcome
        if not isinstance(outcome, Granted):
            self.was_refused(caller, paths)
        return outcome.as_json()

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
        request = lock_request(wanted, mode=mode, ttl_s=ttl_s, reason=reason, task_id=task_id)
        return await Acquisition(self._heartbeat, caller, request).take(tx)

    async def release(self, caller: Caller, path: str, *, fencing_token: int | None = None) -> Json:
        """Free the caller's own lock on exactly this. Raises Refusal: not_held, not_yours, stale_token."""
        target = await self.target(caller, path)
        freed: Json = {"success": True, "released": True, "file_path": target.path}
        if self._functions:
            asked = {**target.ids, "token": fencing_token}
            if await self._functions.ask(stored_functions.Q.release_lock, caller, **asked) is not None:
                return freed

        async def work(tx: Tx, session: Session) -> Json:
            if await table.free(tx, caller, target, fencing_token) is None:
                raise await table.why_not(tx, caller, target, fencing_token)
            return freed

        return await self._heartbeat.write(self._store, caller, work)

    async def renew(self, caller: Caller, path: str, *, ttl_s: float | None = None) -> Json:
        """Let the caller's own lock last `ttl_s` seconds from now, if that is longer. Raises Refusal: not_held,
        not_yours, stale_token."""
        target = await self.target(caller, path)
        ttl = seconds("ttl_minutes", DEFAULT_TTL_S if ttl_s is None else ttl_s, MIN_TTL_S, MAX_TTL_S)

        async def work(tx: Tx, session: Session) -> Json:
            lock = await table.renew(tx, caller, target, ttl)
            if lock is None:
                raise await table.why_not_renewed(tx, caller, target)
            await self._heartbeat.promise(tx, caller, session, lock.expires_at)
            return Granted((lock,), frozenset()).as_json()

        return await self._heartbeat.write(self._store, caller, work)

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
                locks = await table.living(tx)
            else:
                met = [lock for target in wanted for lock in await table.meeting(tx, target)]
                locks = list({(lock.target, lock.holder): lock for lock in met}.values())
            entries = [lock.as_json() for lock in locks]
            if limit is None:
                return entries
            now = await tx.now()
            mine = [lock for lock in await table.of_session(tx, caller) if lock.expires_at > now]
            return Page.of(entries, _places(locks, mine), limit, cursor)

        return await self._looked(caller, look)

    async def covering(self, tx: Tx, files: Sequence[str]) -> dict[str, Json]:
        """LOCK that covers each of these files now, named as git names them; what none covers is left out."""
        locks = await table.living(tx)
        plain = {lock.target.key: lock for lock in locks if lock.target.kind == "path"}
        patterns = [lock for lock in locks if lock.target.kind == "glob"]
        covered: dict[str, Json] = {}
        for name in files if locks else ():
            target = file(name, self._fold)
            lock = next((plain[key] for key in above(target.key) if key in plain), None) or next(
                (lock for lock in patterns if lock.target.meets(target.kind, target.key)), None
            )
            if lock is not None:
                covered[name] = lock.as_json()
        return covered

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
            holder = caller.holder
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
                "why": [lock.sentence(target, now, caller.agent) for lock in locks if lock.holder != holder],
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

        async def work(tx: Tx, session: Session) -> Json:
            taken, met = await table.force_release(tx, action, target, by=caller.agent)
            if not taken:
                near = ", ".join(sorted({lock.path for lock in met})) or "nothing"
                fix = f"Name it as the list of locks shows it; what overlaps it now: {near}."
                message = f"There is no lock on exactly {target.path}."
                raise Refusal(message, fix, code="not_held", details={"released": False})
            locks = [lock.as_json() for lock in taken]
            return {"success": True, "released": True, "file_path": target.path, "locks": locks}

        return await self._heartbeat.write(self._store, caller, work)

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
            wanted = [target.ids for target in self.stored_targets(loads(row["files"]))]
            for lock in await table.of_task(tx, task_id):
                if lock.target.ids in wanted:
                    await table.hand_on(tx, lock, row["id"])
        return await table.free_of_task(tx, task_id, by=by, reason=reason, lost=lost)

    async def release_of_session(self, tx: Tx, caller: Caller, reason: str, by: str | None = None) -> None:
        """Free all that the caller's session holds, and its places in line (`Holdings`)."""
        await tx.execute(Q.forget_waits_of_session, **caller.ids)
        lost = None if by is None else Loss(await tx.now(), by, reason)
        await table.free_of_session(tx, caller, reason=reason, lost=lost)

    async def _looked(self, caller: Caller, look: Callable[[Tx], Awaitable[T]]) -> T:
        """Read, with the heartbeat where one is due."""

        async def run(tx: Tx) -> tuple[bool, T]:
            return await self._heartbeat.fresh(tx, caller) is None, await look(tx)

        due, answer = await self._store.read(run, actor=caller)
        if due:
            await self._store.write(lambda tx: self._heartbeat.touch(tx, caller), actor=caller)
        return answer


def _places(locks: Sequence[Lock], mine: Sequence[Lock]) -> list[str]:
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

    return [f"{far(lock.target)}.{lock.token:020d}" for lock in locks]


def _folder(of: Target) -> str:
    """The folder that it is in; of a pattern the one before its first wildcard."""
    return of.key.rpartition("/")[0] if of.base is None else of.base


def _line(waits: Sequence[Wait]) -> list[Json]:
    return [wait.as_json() | {"position": number} for number, wait in enumerate(waits, 1)]

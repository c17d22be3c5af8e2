"""Which locks stand against writing these files and which hold at all.

Invariants:
- a write is refused where another holds what meets the file, shared or not: shared is for reading;
- it is refused where the writer's own lease on what meets the file is over and it holds none on it now: it slept, and
  does not know what was written meanwhile;
- a writer that never asked for a lock may write what nobody holds;
- every interface asks here: hooks, git, changesets, merges;
- it takes one look at what holds and what the caller has on record, however many files are asked about: a commit may
  change thousands;
- a file is its name and nothing else: no character of it is a wildcard, and a name that nobody could lock is judged
  by the folder that it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache

from relay.coordination.locks import table
from relay.coordination.locks.index import LockIndex, longest
from relay.coordination.locks.lock import Lock, WriteVerdict
from relay.coordination.paths.targets import Target, file, unfit
from relay.model import LOCKED, STALE, Caller, HeldPath, LockRefusal, Refusal
from relay.store.ports import Tx

#: Files that are asked about one by one; of more, all locks are read once instead (measured: alike at some 10 with a
#: hundred locks).
FEW = 8


class LockCheck:
    """`fold`: the repository's file system folds case."""

    def __init__(self, *, fold: bool = False) -> None:
        self._fold = fold

    async def refusals(
        self, tx: Tx, caller: Caller, paths: Sequence[str | Target], fencing_token: int | None = None
    ) -> list[LockRefusal]:
        refusals, _ = await self.look(tx, caller, paths, fencing_token)
        return refusals

    async def look(
        self, tx: Tx, caller: Caller, paths: Sequence[str | Target], fencing_token: int | None = None
    ) -> tuple[list[LockRefusal], set[str]]:
        """What stands against writing these, and those of them that the caller holds exclusively."""
        mine = await table.of_session(tx, caller)
        living = await _living(tx, caller, mine)
        verdicts = await self._verdicts(tx, caller, paths, fencing_token, mine, living)
        now = await tx.now()
        refused = [_refusal(verdict, caller, now) for verdict in verdicts if verdict.verdict != "ok"]
        exclusive = [lock for lock in living if lock.mode == "exclusive"]
        targets = {verdict.path: file_target(verdict.path, self._fold) for verdict in verdicts if exclusive}
        owned = {
            path
            for path, target in targets.items()
            if target is not None and any(lock.concerns(target) for lock in exclusive)
        }
        return refused, owned

    async def verdicts(
        self, tx: Tx, caller: Caller, paths: Sequence[str | Target], fencing_token: int | None = None
    ) -> list[WriteVerdict]:
        """May these files be written by the caller now, one verdict each, in their order?

        `fencing_token`: of the lease that the write is done under; when this session does not hold it any more, all
        are stale. A file is asked about by its name, a pattern or a key as a Target. Reads only; it is no heartbeat.
        """
        mine = await table.of_session(tx, caller)
        living = await _living(tx, caller, mine)
        return await self._verdicts(tx, caller, paths, fencing_token, mine, living)

    async def _verdicts(
        self,
        tx: Tx,
        caller: Caller,
        paths: Sequence[str | Target],
        fencing_token: int | None,
        mine: Sequence[Lock],
        living: Sequence[Lock],
    ) -> list[WriteVerdict]:
        """`mine`: the caller's rows; `living`: those of them that hold."""
        names = [path.path if isinstance(path, Target) else path for path in paths]
        if fencing_token is not None and fencing_token not in {lock.token for lock in living}:
            lost = next((lock for lock in mine if lock.token == fencing_token), None)
            return [WriteVerdict(name, "stale", lost, fencing_token) for name in names]
        files = [path if isinstance(path, Target) else file_target(path, self._fold) for path in paths]
        others = await self._others(tx, caller, files)
        had, have = LockIndex(mine), LockIndex(living)
        return [
            WriteVerdict(path, "ok")
            if target is None
            else _decide(path, other, had.concerning(target), have.concerning(target))
            for path, target, other in zip(names, files, others, strict=True)
        ]

    async def _others(self, tx: Tx, caller: Caller, files: Sequence[Target | None]) -> Sequence[Lock | None]:
        """For each file the longest lock of another that concerns it. A few files are looked up by indexes, so that
        an edit waits as long with a thousand locks as with one. For many files all locks are read."""
        me = caller.holder
        if len(files) > FEW:
            index = LockIndex(lock for lock in await table.living(tx) if lock.holder != me)
            return [None if target is None else longest(index.concerning(target)) for target in files]
        others = []
        for target in files:
            locks = [] if target is None else await table.meeting(tx, target, besides=me)
            others.append(longest([lock for lock in locks if target is not None and lock.concerns(target)]))
        return others

    async def held(self, tx: Tx) -> list[HeldPath]:
        """What holds now and is about files, for the airspace."""
        return [
            HeldPath(
                lock.agent,
                lock.session,
                lock.path,
                covers=_covers(lock, self._fold),
                file=lock.target.kind == "path",
                exclusive=lock.mode == "exclusive",
            )
            for lock in await table.living(tx)
            if lock.target.kind != "key"
        ]


async def _living(tx: Tx, caller: Caller, mine: Sequence[Lock]) -> list[Lock]:
    """Those of the caller's rows that hold."""
    now = await tx.now()
    if not mine or await tx.one(table.Q.session_alive, **caller.ids, now=now) is None:
        return []
    return [lock for lock in mine if lock.expires_at > now]


def _decide(path: str, other: Lock | None, mine: Sequence[Lock], living: Sequence[Lock]) -> WriteVerdict:
    """All of these concern the file. `other`: a living lock of another holder; `mine`: the rows of the writer;
    `living`: those of them that hold."""
    if other is not None:
        return WriteVerdict(path, "locked", other)
    if living or not mine:
        return WriteVerdict(path, "ok")
    return WriteVerdict(path, "stale", max(mine, key=lambda lock: lock.token))


@lru_cache(maxsize=4096)
def file_target(path: str, fold: bool) -> Target | None:
    """What locks are asked about for this file: its name as locks take it; else that of the nearest folder above it
    that can be locked; None when none can."""
    name = "".join("\ufffd" if unfit(char) else char for char in path)
    while name:
        with suppress(Refusal):
            return file(name, fold)
        name = name.rpartition("/")[0]
    return None


def _covers(lock: Lock, fold: bool) -> Callable[[str], bool]:
    def covers(path: str) -> bool:
        target = file_target(path, fold)
        return target is not None and lock.concerns(target)

    return covers


def _refusal(verdict: WriteVerdict, caller: Caller, now: float) -> LockRefusal:
    code = LOCKED if verdict.verdict == "locked" else STALE
    path, lock = verdict.path, verdict.lock
    text = verdict.message(now) if code == STALE else ""
    if lock is None:
        return LockRefusal(code, path, path, *caller.holder, None, verdict.token, said=text)
    why = lock.reason or ""
    return LockRefusal(code, path, lock.path, *lock.holder, lock.over_at, lock.token, why, said=text, now=now)

"""Which locks stand against writing these files (`relay.coordination.writes.guard.Judge`), and which hold at all.

Invariants:
- every door's decision is `fencing.decide`'s, and asked here: hooks, git, changesets, landings;
- it takes one look at what holds and what the caller has on record, however many files are asked about: a commit may
  change thousands;
- a file is its name and nothing else: no character of it is a wildcard, and a name that nobody could lock is judged
  by the folder that it is in.

(Issue 3, "Fencing token".)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from relay.coordination.locks import table
from relay.coordination.locks.lock import Lock, Verdict
from relay.coordination.paths.targets import Target, above, file, unfit
from relay.coordination.writes.fencing import concerns, decide
from relay.model import LOCKED, STALE, Caller, HeldPath, LockRefusal, Refusal
from relay.store.ports import Tx

#: Files that are asked about one by one; of more, all locks are read once instead (measured: alike at some 10 with a
#: hundred locks).
FEW = 8


class LockIndex:
    """Locks, to be asked which of them concern a file (`fencing.concerns`), or meet a pattern or a key. Those on
    logical keys concern no file."""

    def __init__(self, locks: Iterable[Lock]) -> None:
        self._all = list(locks)
        self._on: dict[str, list[Lock]] = defaultdict(list)
        self._below: dict[str, list[Lock]] = defaultdict(list)
        self._globs: dict[str, list[Lock]] = defaultdict(list)
        for lock in self._all:
            target = lock.target
            if target.kind == "glob":
                self._globs[target.base or ""].append(lock)
            elif target.kind == "path":
                self._on[target.key].append(lock)
                for folder in above(target.key)[:-1]:
                    self._below[folder].append(lock)

    def about(self, target: Target) -> list[Lock]:
        """All that concern this file; of a pattern or a key all that meet it."""
        if target.kind != "path":
            return [lock for lock in self._all if concerns(lock, target)]
        names = above(target.key)
        found = [lock for name in names for lock in self._on.get(name, ())]
        found += self._below.get(target.key, ())
        # A pattern stands for nothing outside of its base.
        near = (lock for base in ("", *names) for lock in self._globs.get(base, ()))
        return found + [lock for lock in near if concerns(lock, target)]


class LockJudge:
    """`fold`: the repository's file system folds case."""

    def __init__(self, *, fold: bool = False) -> None:
        self._fold = fold

    async def refusals(
        self, tx: Tx, caller: Caller, paths: Sequence[str | Target], fencing_token: int | None = None
    ) -> list[LockRefusal]:
        verdicts = await self.verdicts(tx, caller, paths, fencing_token)
        now = await tx.now()
        return [_refusal(one, caller, now) for one in verdicts if one.verdict != "ok"]

    async def verdicts(
        self, tx: Tx, caller: Caller, paths: Sequence[str | Target], fencing_token: int | None = None
    ) -> list[Verdict]:
        """May these files be written by the caller now, one verdict each, in their order (`fencing.decide`)?

        `fencing_token`: of the lease that the write is done under; when this session does not hold it any more, all
        are stale. A file is asked about by its name, a pattern or a key as a Target. Reads only; it is no heartbeat.
        """
        names = [one.path if isinstance(one, Target) else one for one in paths]
        mine = await table.of_session(tx, caller)
        living = await _living(tx, caller, mine)
        if fencing_token is not None and fencing_token not in {lock.token for lock in living}:
            told = next((lock for lock in mine if lock.token == fencing_token), None)
            return [Verdict(name, "stale", told, fencing_token) for name in names]
        files = [one if isinstance(one, Target) else file_target(one, self._fold) for one in paths]
        others = await self._others(tx, caller, files)
        had, have = LockIndex(mine), LockIndex(living)
        return [
            Verdict(path, "ok") if meant is None else decide(path, other, had.about(meant), have.about(meant))
            for path, meant, other in zip(names, files, others, strict=True)
        ]

    async def _others(self, tx: Tx, caller: Caller, files: Sequence[Target | None]) -> Sequence[Lock | None]:
        """Of each file the lock of another that concerns it, the one that lasts longest. Few are asked for by
        indexes, so that an edit waits as long with a thousand locks as with one; for many all locks are read."""
        me = (caller.agent, caller.session)
        if len(files) > FEW:
            index = LockIndex(lock for lock in await table.living(tx) if lock.holder != me)
            return [None if one is None else _longest(index.about(one)) for one in files]
        found = []
        for one in files:
            met = [] if one is None else await table.meeting(tx, one, besides=me)
            found.append(_longest([lock for lock in met if one is not None and concerns(lock, one)]))
        return found

    async def owns(self, tx: Tx, caller: Caller, path: str) -> bool:
        target = file_target(path, self._fold)
        mine = await _living(tx, caller, await table.of_session(tx, caller))
        return target is not None and any(
            lock.mode == "exclusive" and concerns(lock, target) for lock in mine
        )

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
    who = {"agent": caller.agent, "session": caller.session}
    if not mine or await tx.one(table.Q.session_alive, **who, now=now) is None:
        return []
    return [lock for lock in mine if lock.expires_at > now]


def _longest(locks: Sequence[Lock]) -> Lock | None:
    return max(locks, key=lambda lock: (lock.expires_at, -lock.token), default=None)


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
        return target is not None and concerns(lock, target)

    return covers


def _refusal(one: Verdict, caller: Caller, now: float) -> LockRefusal:
    code = LOCKED if one.verdict == "locked" else STALE
    lock = one.lock
    if lock is None:
        return LockRefusal(
            code, one.path, one.path, caller.agent, caller.session, None, one.token, said=one.message(now)
        )
    return LockRefusal(
        code,
        one.path,
        lock.path,
        lock.agent,
        lock.session,
        lock.over_at,
        lock.token,
        lock.reason or "",
        said=one.message(now) if code == STALE else "",
        now=now,
    )

"""Which locks stand against writing these files (`relay.coordination.guard.Judge`), and which hold at all.

Invariants:
- the answer is `fencing.may_write`'s, in one look at what holds and what the caller has on record, however many
  files are asked about: a commit may change thousands;
- a file is its name and nothing else: no character of it is a wildcard, and a name that nobody could lock is judged
  by the folder that it is in.

(Issue 3, "Fencing token".)
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from relay.coordination import lock_table as table
from relay.coordination.fencing import concerns, decide, may_write
from relay.coordination.lock import Lock, Verdict
from relay.coordination.paths import Target, above, file
from relay.log.store import Tx
from relay.model import LOCKED, STALE, Caller, HeldPath, LockRefusal, Rejected

#: Files that are asked about one by one; of more, all locks are read once instead (measured: alike at some 10 with a
#: hundred locks).
FEW = 8


class LockIndex:
    """Locks, to be asked which of them meet a file. Those on logical keys meet none."""

    def __init__(self, locks: Iterable[Lock]) -> None:
        self._on: dict[str, list[Lock]] = defaultdict(list)
        self._below: dict[str, list[Lock]] = defaultdict(list)
        self._globs: list[Lock] = []
        for lock in locks:
            key = lock.target.key
            if lock.target.kind == "glob":
                self._globs.append(lock)
            elif lock.target.kind == "path":
                self._on[key].append(lock)
                for folder in above(key)[:-1]:
                    self._below[folder].append(lock)

    def first(self, target: Target) -> Lock | None:
        """One that meets this file, None when none does."""
        for name in above(target.key):
            if name in self._on:
                return self._on[name][0]
        if target.key in self._below:
            return self._below[target.key][0]
        return next((lock for lock in self._globs if concerns(lock, target)), None)


class LockJudge:
    """`fold`: the repository's file system folds case."""

    def __init__(self, *, fold: bool = False) -> None:
        self._fold = fold

    async def refusals(
        self, tx: Tx, caller: Caller, paths: Sequence[str], fencing_token: int | None = None
    ) -> list[LockRefusal]:
        verdicts = await self.verdicts(tx, caller, paths, fencing_token)
        return [_refusal(one, caller) for one in verdicts if one.verdict != "ok"]

    async def verdicts(
        self, tx: Tx, caller: Caller, paths: Sequence[str], fencing_token: int | None = None
    ) -> list[Verdict]:
        """May these files be written by the caller now, one verdict each (`fencing.decide`)? With a token: by that
        lease."""
        if len(paths) <= FEW:
            return await self._few(tx, caller, paths, fencing_token)
        who = (caller.agent, caller.session)
        every, mine = await table.living(tx), await table.of_session(tx, caller)
        living = [lock for lock in every if lock.holder == who]
        forged = fencing_token is not None and fencing_token not in {lock.token for lock in living}
        told = next((lock for lock in mine if lock.token == fencing_token), None)
        others = LockIndex(lock for lock in every if lock.holder != who)
        found = []
        for path in paths:
            meant = file_target(path, self._fold)
            if forged:
                found.append(Verdict(path, "stale", told, fencing_token))
            elif meant is None:
                found.append(Verdict(path, "ok"))
            else:
                other = others.first(meant)
                found.append(decide(path, meant, [other] if other else [], mine, living))
        return found

    async def _few(
        self, tx: Tx, caller: Caller, paths: Sequence[str], fencing_token: int | None
    ) -> list[Verdict]:
        """By indexes, so that an edit waits as long with a thousand locks as with one."""
        found = []
        for path in paths:
            name = file_name(path, self._fold)
            if name is None and fencing_token is None:
                found.append(Verdict(path, "ok"))
            else:
                (one,) = await may_write(tx, caller, [name or ""], fencing_token, fold=self._fold)
                found.append(replace(one, path=path))
        return found

    async def owns(self, tx: Tx, caller: Caller, path: str) -> bool:
        mine = [lock for lock in await table.of_session(tx, caller) if lock.mode == "exclusive"]
        now, target = await tx.now(), file_target(path, self._fold)
        who = {"agent": caller.agent, "session": caller.session}
        if not mine or target is None or await tx.one(table.Q.session_alive, **who, now=now) is None:
            return False
        return any(lock.expires_at > now and concerns(lock, target) for lock in mine)

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


def file_name(path: str, fold: bool) -> str | None:
    """The file's name as locks take it; else that of the nearest folder above it that can be locked; None when none
    can."""
    name = "".join("\ufffd" if unicodedata.category(char) == "Cc" else char for char in path)
    while name:
        with suppress(Rejected):
            file(name, fold)
            return name
        name = name.rpartition("/")[0]
    return None


def file_target(path: str, fold: bool) -> Target | None:
    """What locks are asked about for this file."""
    name = file_name(path, fold)
    return None if name is None else file(name, fold)


def _covers(lock: Lock, fold: bool) -> Callable[[str], bool]:
    def covers(path: str) -> bool:
        target = file_target(path, fold)
        return target is not None and concerns(lock, target)

    return covers


def _refusal(one: Verdict, caller: Caller) -> LockRefusal:
    code = LOCKED if one.verdict == "locked" else STALE
    lock = one.lock
    if lock is None:
        return LockRefusal(
            code, one.path, one.path, caller.agent, caller.session, None, one.token, said=one.message()
        )
    return LockRefusal(
        code,
        one.path,
        lock.path,
        lock.agent,
        lock.session,
        lock.expires_at,
        lock.token,
        lock.reason or "",
        said=one.message() if code == STALE else "",
    )

"""What the operations ask for, built from a store and the settings: in the daemon, in `relay mcp`, in a command.

Invariant: nothing here needs a daemon or starts a task, and nothing heavy is imported before it is asked for: a
process that an agent's program starts is to answer within two seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relay.access.keys import Keys
from relay.app.wiring.room import IntentDesk, RoomDesk
from relay.base.case_folding import folds_case
from relay.base.git_checkouts import top_of
from relay.config.settings import Settings
from relay.coordination.idempotency import once
from relay.coordination.locks.service import Locks
from relay.coordination.sessions import Heartbeat, Sessions
from relay.coordination.tasks.service import WorkQueue
from relay.coordination.writes.lock_check import LockJudge
from relay.faces.ports import Services
from relay.memory.episodic import EpisodicMemory
from relay.model import Caller, ChangedFiles
from relay.store.ports import Store

if TYPE_CHECKING:
    from relay.coordination.writes.changesets import Changesets

Json = dict[str, Any]


def services_of(
    store: Store,
    settings: Settings,
    *,
    current: Callable[[], Settings] | None = None,
    keys: Keys | None = None,
    fold: bool | None = None,
    changes: Callable[[], ChangedFiles] | None = None,
    root_of: Callable[[str], Path | None] = lambda agent: None,
    in_hand: Callable[[str, Sequence[str]], Sequence[str]] = lambda agent, paths: (),
) -> Services:
    """The services of one room.

    `current` gives the settings as they are now, where they may change. `fold`: the repository's file system folds
    case; None = it is asked (a look into one folder, which blocks a moment). `changes` gives what tells what an
    agent changed; None = git in the repository, between revisions only. `root_of` gives the top of the checkout that
    an agent works in; None = the main one. `in_hand`: who changes which of these files now, in words.

    `more`: `keys`; `judge`, what the guard asks of the locks; `claims`, what the board asks of the work queue;
    `sweeps`, which take back claims that are over and forget what is of no use any more.
    """
    now = current or (lambda: settings)
    fold = folds(settings) if fold is None else fold
    heartbeat = Heartbeat(settings.coordination, fold=fold)
    sessions = Sessions(store, heartbeat)
    keys = keys or Keys(store, lambda: [agent.name for agent in now().agents])
    root = top_of(settings.repo)
    locks = Locks(store, heartbeat, fold=fold, root=root, root_of=root_of, let_in=keys.let_in)
    work = WorkQueue(store, settings.coordination, heartbeat=heartbeat, locks=locks)
    sessions.at_end(locks.release_of_session)
    sessions.at_end(work.claims.give_back_all)
    judge = LockJudge(fold=fold)
    return Services(
        locks=locks,
        work=work,
        sessions=sessions,
        memory=EpisodicMemory(store, sessions=heartbeat, once=once),
        changesets=_Changesets(store, now, judge, heartbeat, locks, changes, fold=fold),
        intents=IntentDesk(store, now, in_hand),
        room=RoomDesk(store, now, sessions),
        more={
            "keys": keys,
            "judge": judge,
            "claims": work.claims,
            "sweeps": (work.take_back, locks.prune),
        },
    )


def folds(settings: Settings) -> bool:
    """Does the file system of the codebase fold case? A look into one folder, which blocks for a moment."""
    try:
        return folds_case(settings.repo)
    except OSError:
        # No such folder: there is no file in it to lock in two spellings either.
        return False


class _Changesets:
    """`relay.faces.ports.ChangesetsApi`, built when it is first asked: git's part takes its time to import."""

    def __init__(
        self,
        store: Store,
        settings: Callable[[], Settings],
        judge: LockJudge,
        heartbeat: Heartbeat,
        locks: Locks,
        changes: Callable[[], ChangedFiles] | None,
        *,
        fold: bool,
    ) -> None:
        self._fold = fold
        self._store, self._settings, self._judge = store, settings, judge
        self._heartbeat, self._locks, self._changes = heartbeat, locks, changes
        self._made: Changesets | None = None

    def _there(self) -> Changesets:
        if self._made is None:
            from relay.airspace.worktrees.changes import RepoChanges
            from relay.coordination.writes.changesets import Changesets

            self._made = Changesets(
                self._store,
                self._judge,
                self._changes() if self._changes else RepoChanges(self._settings().repo),
                self._heartbeat.touch,
                self._locks.target,
                fold=self._fold,
            )
        return self._made

    async def record(
        self,
        caller: Caller,
        summary: str,
        files: Sequence[str],
        *,
        base: str | None = None,
        head: str | None = None,
        fencing_token: int | None = None,
    ) -> Json:
        return await self._there().record(
            caller, summary, files, base=base, head=head, fencing_token=fencing_token
        )

    async def list(
        self, caller: Caller, *, session: str | None = None, agent: str | None = None, limit: int = 100
    ) -> Sequence[Json]:
        return await self._there().list(caller, session=session, agent=agent, limit=limit)

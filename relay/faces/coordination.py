"""The services of coordination: locks, work, sessions, changesets, keys. A command that asks for no others loads no
more than these (`services.py` has all).

Invariants: those of `services.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.access.keys import Keys
from relay.base.case_folding import folds_case
from relay.base.git_checkouts import top_of
from relay.config.settings import LiveSettings, Settings
from relay.coordination.locks.service import Locks
from relay.coordination.sessions import Heartbeat, Sessions
from relay.coordination.tasks.claims import working_on
from relay.coordination.tasks.service import WorkQueue
from relay.coordination.writes.changesets import Changesets
from relay.coordination.writes.fencing import LockCheck
from relay.memory.procedural import Skills
from relay.model import Caller, ChangedFiles
from relay.model.ports import Checkouts
from relay.store.ports import Store


@dataclass(frozen=True, slots=True)
class CoordinationServices:
    """`heartbeat`: of the callers' sessions. `skills`: what they keep of work that was completed."""

    heartbeat: Heartbeat
    locks: Locks
    work: WorkQueue
    sessions: Sessions
    skills: Skills
    changesets: Changesets
    keys: Keys

    async def revoke_key(self, caller: Caller, key_id: str) -> dict[str, Any]:
        """Revoke a key and end the session that is its own, so that what it held is free now; a session that it named
        itself ends with its lease. Raises Refusal as `Keys.revoke` does."""
        revoked = await self.keys.revoke(caller, key_id)
        own = Caller(revoked["identity"], f"key-{revoked['id']}", revoked["agent_type"])
        await self.sessions.end(own, reason="its key was revoked", by=caller.agent)
        return revoked


def coordination_of(
    store: Store,
    settings: LiveSettings,
    *,
    fold: bool | None = None,
    changes: ChangedFiles | None = None,
    checkouts: Checkouts | None = None,
) -> CoordinationServices:
    """As `services_of`."""
    now = settings.current
    fold = folds(now) if fold is None else fold
    keys = Keys(store, lambda: settings.current.agent_names)
    heartbeat = Heartbeat(now.coordination, fold=fold, keys=keys)
    locks = Locks(store, heartbeat, fold=fold, root=top_of(now.repo), checkouts=checkouts)
    skills = Skills(store, sessions=heartbeat, working=working_on)
    work = WorkQueue(store, now.coordination, heartbeat=heartbeat, locks=locks, outcomes=skills)
    return CoordinationServices(
        heartbeat=heartbeat,
        locks=locks,
        work=work,
        sessions=Sessions(store, heartbeat, locks, work.claims),
        skills=skills,
        changesets=Changesets(
            store, LockCheck(fold=fold), changes or _RevisionChanges(now.repo), heartbeat, locks, fold=fold
        ),
        keys=keys,
    )


def folds(settings: Settings) -> bool:
    """Does the file system of the codebase fold case? A look into one folder, which blocks for a moment."""
    try:
        return folds_case(settings.repo)
    except OSError:
        # No such folder: there is no file in it to lock in two spellings either.
        return False


class _RevisionChanges:
    """`RepoChanges` of the main checkout alone, imported at the first question: git's part takes its time."""

    def __init__(self, repo: Path) -> None:
        self._repo = repo

    async def changed_files(
        self, agent: str, base: str | None = None, head: str | None = None
    ) -> Sequence[str] | None:
        from relay.airspace.worktrees.changes import RepoChanges

        return await RepoChanges(self._repo).changed_files(agent, base, head)

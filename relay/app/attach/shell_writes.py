"""What a shell of a person's own session wrote into what another one holds, found after the tool.

Before a command the guard is asked for what can be foreseen (docs/guard.md). The rest is found here: after a tool of
a shell the session's checkout is looked at, and both are told of what changed there since and is held. Whose edit it
is, is the timeline's: in the main checkout its person's (relay/app/wiring/person_edits.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree
from relay.app.attach.undeclared import tell_both
from relay.config.settings import LiveSettings
from relay.coordination.attached import AttachedSession
from relay.coordination.writes.fencing import LockCheck
from relay.git.run import name_of
from relay.model import LOCKED, Caller, LockRefusal
from relay.store.ports import Store, StoreError, Tx

log = structlog.get_logger(__name__)
#: Commands that wait to be looked at, and sessions whose last state is kept.
MOST_WAITING = 100
#: Seconds by which a file system's clock may be behind the machine's.
CLOCK_SLACK_S = 0.05


@dataclass(frozen=True, slots=True)
class _Before:
    """How a checkout stood when a command began, as far as it had been looked at: the changed files and the ids of
    their contents. What was written by `at` (seconds since 1970) is none of the command's."""

    at: float
    files: Mapping[str, str]


class ShellWrites:
    """`look_at` a session whose shell is about to run or has run; `run` for ever."""

    def __init__(
        self, store: Store, settings: LiveSettings, registry: WorktreeRegistry, judge: LockCheck
    ) -> None:
        self._store, self._settings, self._registry, self._judge = store, settings, registry, judge
        self._due: asyncio.Queue[tuple[AttachedSession, str, _Before]] = asyncio.Queue(MOST_WAITING)
        #: By session, the newest last.
        self._before: dict[str, _Before] = {}

    def look_at(self, session: AttachedSession, command: str) -> None:
        """Its shell has run this; "" = it is about to run. What is not looked at in time is left out."""
        worktree = self._checkout_of(session)
        if worktree is None:
            return
        # The state before is taken here and now: a look that waits its turn would see what the command wrote.
        before = self._before.pop(session.session, None)
        self._before[session.session] = _Before(time.time(), _changed(worktree))
        if len(self._before) > MOST_WAITING:
            self._before.pop(next(iter(self._before)))
        if command and before is not None and not self._due.full():
            self._due.put_nowait((session, command, before))

    def _checkout_of(self, session: AttachedSession) -> TrackedWorktree | None:
        tracked = self._registry.worktrees.values()
        return next((each for each in tracked if str(each.checkout.top) == session.checkout), None)

    async def run(self) -> None:
        while True:
            session, command, before = await self._due.get()
            try:
                await self._look(session, command, before)
            except (StoreError, self._store.transient, self._store.errors) as error:
                log.warning("a shell's writes not looked at", session=session.agent, reason=str(error))

    async def _look(self, session: AttachedSession, command: str, before: _Before) -> None:
        worktree = self._checkout_of(session)
        held = await self._store.read(self._judge.held)
        if worktree is None or all(each.session == session.session for each in held):
            return
        # All of it, since the watcher may not have told yet of what was written just now.
        worktree.mark_stale(None)
        await self._registry.survey(worktree)
        now = _changed(worktree)
        differing = [
            path for path in now.keys() | before.files.keys() if now.get(path) != before.files.get(path)
        ]
        top = worktree.checkout.top
        paths = await asyncio.to_thread(_written_since, top, sorted(differing), before.at - CLOCK_SLACK_S)
        if paths:
            await self._store.write(lambda tx: self._tell(tx, session, paths, command))

    async def _tell(self, tx: Tx, session: AttachedSession, paths: list[str], command: str) -> None:
        held: dict[tuple[str, str], list[LockRefusal]] = {}
        caller = Caller(session.agent, session.session)
        for refusal in await self._judge.refusals(tx, caller, paths):
            if refusal.code == LOCKED:
                held.setdefault((refusal.locked_by, refusal.session), []).append(refusal)
        agents = self._settings.current.agent_names
        for (holder, its_session), refusals in held.items():
            await tell_both(tx, session.agent, holder, its_session, refusals, command, agents)


def _changed(worktree: TrackedWorktree) -> dict[str, str]:
    """The changed files at the last look, and the ids of their contents."""
    records = worktree.work.records if worktree.work is not None else ()
    return {name_of(record.last_path): record.new for record in records}


def _written_since(top: Path, paths: Sequence[str], since: float) -> list[str]:
    """Those of these that were written or deleted since then."""

    def is_new(path: str) -> bool:
        try:
            return (top / path).lstat().st_ctime >= since
        except OSError:
            return True

    return [path for path in paths if is_new(path)]

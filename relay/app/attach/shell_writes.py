"""What a shell of a person's own session wrote into what another one holds, found after the tool.

Before a command the guard is asked for what can be foreseen (docs/guard.md). The rest is found here: after a tool of
a shell the session's checkout is looked at, and both are told of what changed there since and is held. Whose edit it
is, is the timeline's: in the main checkout its person's (relay/app/wiring/person_edits.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.attach.undeclared import tell_both
from relay.config.settings import LiveSettings
from relay.coordination.attached import AttachedSession
from relay.coordination.writes.fencing import LockCheck
from relay.git.run import name_of
from relay.model import LOCKED, Caller, LockRefusal
from relay.store.ports import Store, StoreError, Tx

log = structlog.get_logger(__name__)
#: Seconds in which the watcher of a checkout tells what a command has written.
WRITTEN_S = 0.3


class ShellWrites:
    """`look_at` a session whose shell has run; `run` for ever."""

    def __init__(
        self, store: Store, settings: LiveSettings, registry: WorktreeRegistry, judge: LockCheck
    ) -> None:
        self._store, self._settings, self._registry, self._judge = store, settings, registry, judge
        self._due: asyncio.Queue[tuple[AttachedSession, str]] = asyncio.Queue(100)
        #: By checkout: the changed files, and the ids of their contents, at the last look.
        self._stood: dict[str, Mapping[str, str]] = {}

    def look_at(self, session: AttachedSession, command: str) -> None:
        """Its shell has run this; "" = it is about to run. What is not looked at in time is left out."""
        if not self._due.full():
            self._due.put_nowait((session, command))

    async def run(self) -> None:
        while True:
            session, command = await self._due.get()
            try:
                await self._look(session, command)
            except (StoreError, self._store.transient, self._store.errors) as error:
                log.warning("a shell's writes not looked at", session=session.agent, reason=str(error))

    async def _look(self, session: AttachedSession, command: str) -> None:
        worktree = next(
            (
                each
                for each in self._registry.worktrees.values()
                if str(each.checkout.top) == session.checkout
            ),
            None,
        )
        if worktree is None:
            return
        if command:
            await asyncio.sleep(WRITTEN_S)
        await self._registry.survey(worktree)
        if worktree.work is None:
            return
        now = {name_of(record.last_path): record.new for record in worktree.work.records}
        before = self._stood.get(session.checkout)
        self._stood[session.checkout] = now
        if before is None or not command:
            return
        paths = [path for path in now.keys() | before.keys() if now.get(path) != before.get(path)]
        if paths:
            await self._store.write(lambda tx: self._tell(tx, session, sorted(paths), command))

    async def _tell(self, tx: Tx, session: AttachedSession, paths: list[str], command: str) -> None:
        held: dict[tuple[str, str], list[LockRefusal]] = {}
        caller = Caller(session.agent, session.session)
        for refusal in await self._judge.refusals(tx, caller, paths):
            if refusal.code == LOCKED:
                held.setdefault((refusal.locked_by, refusal.session), []).append(refusal)
        agents = self._settings.current.agent_names
        for (holder, its_session), refusals in held.items():
            await tell_both(tx, session.agent, holder, its_session, refusals, command, agents)

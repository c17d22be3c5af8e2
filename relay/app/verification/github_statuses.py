"""Tells GitHub how the verifications of its commits stand, as commit statuses.

Invariants:
- what is told is how a verification stands when it is told, so a status that comes late is never an old one;
- the place in the log is kept behind what was told: whoever is killed in between tells it again, which changes
  nothing on GitHub. What was verified before this ran for the first time is not told;
- where GitHub cannot be asked just now it is asked again later; what it refuses is left out, and the log says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from relay.config.settings import LiveSettings
from relay.log import events, follow
from relay.log.events import Event
from relay.store.ports import Store, Tx
from relay.verification import journal
from relay.verification.github.client import Github
from relay.verification.github.errors import GithubError
from relay.verification.github.statuses import post_status, status_of
from relay.verification.verification import Result, Verification

log = structlog.get_logger(__name__)
#: Seconds until GitHub is asked again: at first, and at most.
FIRST_S, MOST_S = 5.0, 300.0


class CommitStatuses:
    """For `verification.github.statuses`. A follower by its cursor alone: what it does is outside of the database."""

    name = "github-statuses"
    reads = frozenset({journal.ROUTED, journal.ENDED})
    emits: frozenset[str] = frozenset()

    def __init__(
        self, store: Store, settings: LiveSettings, github: Github, *, first_s: float = FIRST_S
    ) -> None:
        self._store, self._settings, self._github, self._first_s = store, settings, github, first_s

    async def run(self) -> None:
        """Tell what there is to tell, for ever."""
        after = await self._store.write(self._begin)
        async for batch in follow.tail(self._store, after, types=sorted(self.reads)):
            for number in dict.fromkeys(int(event.outputs["number"]) for event in batch):
                await self._tell(number)
            await self._store.write(lambda tx, batch=batch: self._keep(tx, batch))  # type: ignore[misc]

    async def apply(self, tx: Tx, event: Event) -> None:
        """Nothing follows in the database."""

    async def _begin(self, tx: Tx) -> int:
        """The cursor that was kept; the first time, the end of the log."""
        row = await tx.one(events.Q.follower, name=self.name)
        if row is not None:
            return int(row["pos"])
        pos = await events.last_pos(tx)
        await follow.put_cursor(tx, self, pos)
        return pos

    async def _keep(self, tx: Tx, batch: Sequence[Event]) -> None:
        await follow.put_cursor(tx, self, batch[-1].pos)

    async def _tell(self, number: int) -> None:
        pause = self._first_s
        while self._settings.current.verification.github.statuses:
            verification, results = await self._store.read(lambda tx: _standing(tx, number))
            commit = verification.change.commit
            if commit is None or self._github.missing:
                return
            try:
                await post_status(self._github, commit, status_of(verification, results))
            except GithubError as error:
                if not error.passes:
                    # 422: the commit is not on GitHub, as those of the landing queue are not.
                    if error.status != 422:
                        log.warning("a commit status was not told", verification=number, reason=str(error))
                    return
                log.warning("a commit status is told later", verification=number, reason=str(error))
                await asyncio.sleep(max(pause, error.after_s))
                pause = min(2 * pause, MOST_S)
            else:
                return


async def _standing(tx: Tx, number: int) -> tuple[Verification, list[Result]]:
    return await journal.load(tx, number), await journal.results_of(tx, number)

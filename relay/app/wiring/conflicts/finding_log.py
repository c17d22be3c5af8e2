"""Records the conflicts of levels 3 and 4 that looks at two agents' work find.

Invariant: a conflict goes when a look at the two as they stand does not find it, or when one of the two has nothing
in hand any more. What nobody could look at stays as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from relay.app.wiring.conflicts.sides import with_lanes
from relay.merge.conflicts.conflict import Conflict
from relay.merge.resolution import findings
from relay.merge.resolution.findings import Finding, Pair
from relay.merge.resolution.wording import finding_text
from relay.room.journal import ledger
from relay.store.ports import Store, Tx

#: The level whose conflicts the room is told of here; those of level 3 are traffic advisories.
TOLD = 4


class FindingLog:
    """The findings of one room."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._alone = asyncio.Lock()
        #: None: to be read.
        self._standing: list[Finding] | None = None

    async def record(self, level: int, seen: Mapping[Pair, Sequence[Conflict] | None]) -> None:
        """Record what is new in `seen`, and what is gone (`findings.changes`). Raises the store's errors."""
        async with self._alone:
            if self._standing is None:
                self._standing = await self._store.read(lambda tx: findings.newest(tx, only_open=True))
            gone, other, new = findings.changes(self._standing, seen, level)
            if not gone and not other and not new:
                return

            async def work(tx: Tx) -> list[Finding]:
                for each in gone:
                    await findings.end(tx, each)
                renewed = [
                    await findings.renew(tx, each, await with_lanes(tx, conflict, each.pair))
                    for each, conflict in other
                ]
                return renewed + [await _found(tx, pair, conflict) for pair, conflict in new]

            standing, self._standing = self._standing, None  # read anew when this fails
            made = await self._store.write(work)
            left = {each.number for each in (*gone, *(each for each, _ in other))}
            self._standing = [each for each in standing if each.number not in left] + made


async def _found(tx: Tx, pair: Pair, conflict: Conflict) -> Finding:
    made = await findings.record(tx, pair, await with_lanes(tx, conflict, pair))
    if conflict.level == TOLD:
        meta = {"notice": "conflict", "conflict": made.number}
        await ledger.say(tx, finding_text(made), parents=[made.event], meta=meta)
    return made

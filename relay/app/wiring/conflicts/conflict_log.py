"""Records the conflicts that the airspace's merge trials see.

Invariant: a conflict goes when git merges the two or they have no file in common any more. What git was not asked, or
cannot tell, stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from relay.airspace.live.scanner import Scanner
from relay.app.wiring.conflicts.finding_log import FindingLog
from relay.merge.conflicts.conflict import Conflict
from relay.merge.resolution.findings import Pair
from relay.store.ports import Store, StoreError, Tx
from relay.timeline.conflicts import MAIN, StandingConflict, record_conflict, settle, standing

log = structlog.get_logger(__name__)
ACROSS_FILES = 3
#: Of two sides, the files in conflict; None = not known.
Seen = dict[tuple[str, str], tuple[str, ...] | None]


class ConflictLog:
    """Follows the looks of `scanner`. `findings`: keeps those of level 3."""

    def __init__(self, store: Store, scanner: Scanner, findings: FindingLog) -> None:
        self._store, self._scanner, self._findings = store, scanner, findings
        self._standing: list[StandingConflict] | None = None

    async def run(self) -> None:
        """Record what each look has seen. Runs for ever."""
        self._standing = None  # another member of the fleet may have led meanwhile
        while True:
            await self._scanner.looked.wait()
            self._scanner.looked.clear()
            try:
                await self.record(self.seen())
                await self._findings.record(ACROSS_FILES, self.across_files())
            except (StoreError, self._store.transient, self._store.errors) as error:
                self._standing = None  # read anew
                log.warning("conflicts not recorded", reason=str(error))

    def seen(self) -> Seen:
        """What the last look says of each two that could conflict; two that are not in it cannot."""
        observer = self._scanner.observer
        seen: Seen = dict.fromkeys(observer.worktrees.pairs())
        seen |= {pair: tuple(sorted(paths)) for pair, paths in observer.conflicts.items()}
        for agent, trial in observer.trials.items():
            paths = tuple(sorted(trial.paths)) if trial.conflicts else ()
            seen[agent, MAIN] = None if trial.verdict is None else paths
        return seen

    def across_files(self) -> dict[Pair, Sequence[Conflict] | None]:
        """What is known of each two across files (level 3); None: not as they stand."""
        return {
            pair: None
            if check.pending or check.why
            else [Conflict.of_json(each.value) for each in check.conflicts]
            for pair, check in self._scanner.observer.semantic.items()
        }

    async def record(self, seen: Seen) -> None:
        """Record what is new in it, and what is gone. Raises the store's errors."""
        if self._standing is None:
            self._standing = await self._store.read(standing)
        known = {(conflict.sides, conflict.paths): conflict for conflict in self._standing}
        gone = [
            conflict
            for conflict in self._standing
            if seen.get(conflict.sides, ()) not in (None, conflict.paths)
        ]
        new = [(sides, paths) for sides, paths in seen.items() if paths and (sides, paths) not in known]
        if not gone and not new:
            return

        async def work(tx: Tx) -> list[StandingConflict]:
            for conflict in gone:
                await settle(tx, conflict)
            return [await record_conflict(tx, sides, paths) for sides, paths in new]

        found = await self._store.write(work)
        self._standing = [conflict for conflict in self._standing if conflict not in gone] + found

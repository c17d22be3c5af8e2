"""The room's metrics as they are now: the events that came since the last look are added to what was read before.

Invariant: the figures are those of one reading from the beginning of the log as it is. Where a part of the log was
archived meanwhile, it is read anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from relay.log import events
from relay.log.archived import ARCHIVED
from relay.store.ports import Store
from relay.verification.metrics import READS, Measured, MetricFold

#: Places in the log of one read: what is made of them keeps the event loop for some milliseconds.
BATCH = 500
#: Days of the longest window: what is older is only in the figures of the whole log.
MOST_DAYS = 3650
_TYPES = sorted({*READS, ARCHIVED})
_DAY_S = 86_400.0


class MetricReader:
    """The metrics of one room. `clock`: Unix seconds, for the days of a window."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        #: What was read up to `_pos`, and what was read to its end before.
        self._fold, self._pos = MetricFold(), 0
        self._shown = MetricFold()
        #: Where the log ended when its reading began.
        self._ended_at = 0
        self._alone = asyncio.Lock()

    async def catch_up(self) -> None:
        """Read the log to its end."""
        async with self._alone:
            last = await self._store.read(events.last_pos, single=True)
            if not self._pos:
                self._ended_at = last
            while self._pos < last:
                upto = min(self._pos + BATCH, last)
                part = partial(events.read_after, after=self._pos, types=_TYPES, limit=BATCH, upto=upto)
                new = await self._store.read(part, single=True)
                if any(event.type == ARCHIVED and event.pos > self._ended_at for event in new):
                    self._fold, self._pos, self._ended_at = MetricFold(), 0, last
                    continue
                for event in new:
                    self._fold.apply(event)
                self._pos = upto
            self._shown = self._fold

    def known(self, days: int | None = None) -> list[Measured]:
        """As of the last look, of the last `days` in UTC, today among them; None: of the whole log."""
        return self._shown.measured("" if days is None else self._first_day(days))

    async def now(self, days: int | None = None) -> dict[str, Any]:
        """As `known`, with what is new: `{days, since, metrics}`. `since`: when the window begins, None = with the
        log."""
        await self.catch_up()
        since = None if days is None else f"{self._first_day(days)}T00:00:00.000Z"
        return {
            "days": days,
            "since": since,
            "metrics": [measured.as_json() for measured in self.known(days)],
        }

    def _first_day(self, days: int) -> str:
        return datetime.fromtimestamp(self._clock() - (days - 1) * _DAY_S, UTC).date().isoformat()

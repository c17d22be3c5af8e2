"""What each place outside was told, and what it is still to be told: one setting of the database, so it outlives a
kill, and whichever member of a fleet leads goes on from it.

Invariants: an id is kept before it is sent, so a need that is told again after a kill has the same one; the setting
is bounded. Pure, but for `load` and `keep`.
"""

from __future__ import annotations

import hashlib
import json
import random
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from relay.app.needs.need import Kind, Need
from relay.app.notify.places import Place
from relay.log import events
from relay.log.encoding import dumps
from relay.store.ports import Tx

#: The setting: `{place: ...}`.
_SETTING = "notify"
#: Needs that are kept for a place. What is behind them waits in the inbox.
MOST = 300
#: Seconds after which a need that was settled, and comes again, is told again.
AGAIN_S = 900.0
#: Seconds for which is kept that the answer of a task was told, once it waits no more: shorter than the day for which
#: people put it off, so that it is told again then.
ANSWER_S = 82_800.0
#: Seconds between two tries at a place, and seconds after which a need is given up.
PAUSES_S = (2.0, 30.0, 120.0, 600.0, 1800.0, 3600.0, 7200.0, 14_400.0)
GIVE_UP_S = 86_400.0


@dataclass(slots=True)
class Telling:
    """One need at one place. `id`: of the message; `at`: since when it is to be told. `told`, `gave_up`, `gone`: when
    (Unix seconds)."""

    id: str
    at: float
    told: float | None = None
    gave_up: float | None = None
    gone: float | None = None

    @property
    def waits(self) -> bool:
        return self.told is None and self.gave_up is None and self.gone is None


@dataclass(slots=True)
class Standing:
    """How one place stands. `tries`: in a row, that failed; `next`: when it is tried again. `trouble`: what is wrong
    with it since `since`, "" = nothing; `said`: the room was told. `mark`: of the address that this is about."""

    needs: dict[str, Telling] = field(default_factory=dict)
    tries: int = 0
    next: float = 0.0
    trouble: str = ""
    since: float = 0.0
    said: bool = False
    mark: str = ""

    @property
    def waiting(self) -> list[tuple[str, Telling]]:
        """What is still to be told, the oldest first."""
        return sorted(
            ((need, telling) for need, telling in self.needs.items() if telling.waits),
            key=lambda pair: pair[1].at,
        )

    def take_in(self, needs: Iterable[Need], place: Place, now: float) -> bool:
        """What needs people now. False: nothing changed."""
        wanted = {
            need.told_as: need
            for need in needs
            if place.wants(need.kind.value) and (need.tell_at is None or need.tell_at <= now)
        }
        changed = self._meet(place, now)
        for id, telling in list(self.needs.items()):
            if id in wanted:
                if telling.gone is not None:
                    changed = True
                    telling.gone = None
                    if not _of_answer(id) and not _lately(telling, now):
                        self.needs[id] = _new(now)
            elif telling.gone is None:
                telling.gone, changed = now, True
            elif now - telling.gone > ANSWER_S if _of_answer(id) else not _lately(telling, now):
                del self.needs[id]
                changed = True
        for id in sorted(wanted, key=lambda id: wanted[id].at, reverse=True):
            if id in self.needs:
                continue
            if len(self.needs) >= MOST:
                over = [each for each, telling in self.needs.items() if telling.gone is not None]
                if not over:
                    break
                del self.needs[min(over, key=lambda each: self.needs[each].gone or 0.0)]
            self.needs[id] = _new(now)
            changed = True
        return changed

    def _meet(self, place: Place, now: float) -> bool:
        """Begin anew where the address is another one, or a variable is set or unset: what was given up before is
        told."""
        mark = hashlib.sha256(f"{place.format} {place.url}{place.trouble}".encode()).hexdigest()[:16]
        if mark == self.mark:
            return False
        for telling in self.needs.values():
            telling.gave_up = None
        self.mark = mark
        self._well()
        if place.trouble:
            self._troubled(place.trouble, now)
        return True

    def _well(self) -> None:
        self.tries, self.next, self.trouble, self.since, self.said = 0, 0.0, "", 0.0, False

    def done(self, telling: Telling, now: float) -> None:
        """It was told."""
        telling.told = now
        self._well()

    def refused(self, telling: Telling, why: str, now: float) -> None:
        """It never will be."""
        telling.gave_up = now
        self._troubled(why, now)

    def failed(self, why: str, after_s: float, now: float) -> None:
        """It may be later: nothing is sent there before `next`. What waits for too long is given up."""
        pause = PAUSES_S[min(self.tries, len(PAUSES_S) - 1)] * random.uniform(0.8, 1.2)
        self.tries += 1
        self.next = now + max(pause, after_s)
        self._troubled(why, now)
        for _, telling in self.waiting:
            if now - telling.at > GIVE_UP_S:
                telling.gave_up = now

    def _troubled(self, why: str, now: float) -> None:
        self.since = self.since or now
        self.trouble = why


def soonest(places: Iterable[Standing], now: float, most_s: float) -> float:
    """Seconds until one of these is tried next, from 0 to `most_s`."""
    return min([most_s, *(max(0.0, each.next - now) for each in places if each.waiting)])


def _new(now: float) -> Telling:
    return Telling(f"msg_{secrets.token_hex(12)}", now)


def _of_answer(id: str) -> bool:
    """Is it told once for good? Of each answer to a task it is another one."""
    return id.startswith(f"{Kind.ANSWERED.value}:")


def _lately(telling: Telling, now: float) -> bool:
    """Was it told, or given up, or to be told, not long ago? Then it is the same need still."""
    return now - max(telling.told or 0.0, telling.gave_up or 0.0, telling.at) < AGAIN_S


async def load(tx: Tx, names: Collection[str] | None = None) -> dict[str, Standing]:
    """How the places stand, by name; `names`: these alone, with those of which nothing is known yet."""
    kept: Mapping[str, Any] = json.loads(await events.setting(tx, _SETTING) or "{}")
    wanted = kept if names is None else names
    return {name: _standing(kept.get(name, {})) for name in wanted}


async def keep(tx: Tx, places: Mapping[str, Standing]) -> None:
    await events.put_setting(tx, _SETTING, dumps({name: asdict(each) for name, each in places.items()}))


def _standing(value: Mapping[str, Any]) -> Standing:
    needs = {id: Telling(**each) for id, each in value.get("needs", {}).items()}
    return Standing(**{**value, "needs": needs})

"""What the agents' turns cost today: by agent, and by hour of the last day.

Invariant: one statement reads it. The page's cards, total and chart, `/cost` and `relay agents cost` are sums of its
rows, so they agree.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from relay.base.durations import iso
from relay.room.journal.ledger import Q
from relay.store.ports import Tx

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Used:
    """Turns that began in a time: tokens by kind (`relay.model.UsagePart`), `usd` in US dollars as the agents report
    them. `unpriced`: turns of these that reported no price."""

    turns: int = 0
    input: int = 0
    cache_write: int = 0
    cache_read: int = 0
    output: int = 0
    usd: float = 0.0
    unpriced: int = 0

    def __add__(self, other: Used) -> Used:
        mine, theirs = asdict(self), asdict(other)
        return Used(**{name: mine[name] + theirs[name] for name in mine})

    def as_json(self) -> dict[str, float]:
        return {**asdict(self), "usd": round(self.usd, 4)}


@dataclass(frozen=True, slots=True)
class DayUse:
    """`midnight`: where today began, on the relay's machine; `hours`: the agents' use by the hour's beginning, the
    oldest first, with the hours in which nothing was used. Unix seconds."""

    midnight: float
    hours: tuple[tuple[float, dict[str, Used]], ...]

    @property
    def today(self) -> dict[str, Used]:
        """Each agent's use since midnight, by its name."""
        found: dict[str, Used] = {}
        for at, agents in self.hours:
            if at >= self.midnight:
                for name, used in agents.items():
                    found[name] = found.get(name, Used()) + used
        return dict(sorted(found.items()))

    @property
    def total(self) -> Used:
        """The whole room's use since midnight."""
        return sum(self.today.values(), Used())

    def as_json(self) -> dict[str, Any]:
        """The USAGE of docs/http.md."""
        return {
            "since": iso(self.midnight),
            "total": self.total.as_json(),
            "agents": {name: used.as_json() for name, used in self.today.items()},
            "hours": [
                {"at": iso(at), "agents": {name: used.as_json() for name, used in agents.items()}}
                for at, agents in self.hours
            ],
        }


async def day_use(tx: Tx, now: float) -> DayUse:
    """The use of the last 24 hours, and at least since midnight. `now`: Unix seconds."""
    midnight, first = windows(now)
    hours: dict[int, dict[str, Used]] = {hour: {} for hour in range(int((now - first) // HOUR_S) + 1)}
    for row in await tx.all(Q.used_by_hour, start=first):
        values = {name: row[name] for name in Used.__dataclass_fields__}
        hours.setdefault(row["hour"], {})[row["agent"]] = Used(**values)
    return DayUse(midnight, tuple((first + hour * HOUR_S, hours[hour]) for hour in sorted(hours)))


def windows(now: float) -> tuple[float, float]:
    """Today's midnight, and the beginning of the first hour that is shown: 23 hours before this one, or midnight on
    a day of 25 hours. By this machine's time zone; Unix seconds. Pure."""
    here = datetime.fromtimestamp(now).astimezone()
    hour = here.replace(minute=0, second=0, microsecond=0).timestamp()
    # The zone's offset at midnight may be another than now.
    midnight = datetime.combine(here.date(), datetime.min.time()).astimezone().timestamp()
    return midnight, min(midnight, hour - timedelta(hours=23).total_seconds())


def said(use: DayUse) -> str:
    """`/cost`: today's use as markdown. Pure."""
    if not use.today:
        return "No turn has begun since midnight."
    rows = [*use.today.items(), *([("all", use.total)] if len(use.today) > 1 else [])]
    lines = [
        "Since midnight:",
        "",
        "| | turns | new input | cache writes | cache reads | output | dollars |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, used in rows:
        counts = (used.turns, used.input, used.cache_write, used.cache_read, used.output)
        lines.append(f"| {name} | {' | '.join(f'{count:,}' for count in counts)} | {dollars(used)} |")
    if use.total.unpriced:
        lines += ["", f"{use.total.unpriced} of {use.total.turns} turns reported no price."]
    return "\n".join(lines)


def dollars(used: Used) -> str:
    """What was paid, as far as it is known. Pure."""
    if not used.usd:
        return "not told"
    shown = "<$0.01" if used.usd < 0.005 else f"${used.usd:.2f}"
    return f"{shown}{' and more' if used.unpriced else ''}"

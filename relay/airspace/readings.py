"""What is measured between two agents: one reading a channel, and the noisy-OR over them (000, equation 2).

Invariant: R = 1 - prod(1 - w_i r_i) and D = 1 - R are computed here and nowhere else; a level is what the
profile's thresholds and the channels that may speak alone allow. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple


class Level(IntEnum):
    """Risk bands of the TCAS protocol (000, section 3), ordered by severity."""

    CLEAR = 0
    TRAFFIC = 1
    RESOLUTION = 2

    @property
    def word(self) -> str:
        """As it stands in JSON: clear, advisory, resolution."""
        return ("clear", "advisory", "resolution")[self]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """`traffic` and `resolution` are collision probabilities in [0, 1]; so is `slack`, the hysteresis."""

    traffic: float = 0.35
    resolution: float = 0.70
    slack: float = 0.05

    def level(self, risk: float) -> Level:
        if risk >= self.resolution:
            return Level.RESOLUTION
        return Level.TRAFFIC if risk >= self.traffic else Level.CLEAR


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a channel reads what it reads, for a person to check. `text` is a clause without a full stop, such as
    "both change lines 40-58 of src/auth/session.py". Line ranges are (first, last) in the base."""

    text: str
    path: str = ""
    other_path: str = ""
    lines: tuple[tuple[int, int], ...] = ()
    symbol: str = ""

    def as_json(self) -> dict[str, Any]:
        """Without what is empty."""
        lines = [list(pair) for pair in self.lines]
        more = {"path": self.path, "other_path": self.other_path, "lines": lines, "symbol": self.symbol}
        return {"text": self.text} | {name: value for name, value in more.items() if value}


@dataclass(frozen=True, slots=True)
class Reading:
    """One channel: r in [0, 1], its weight in [0, 1], and whether it may reach a resolution advisory alone.
    `foretells`: it is about the next edits and not about those that were made, so the room is not told of it."""

    risk: float
    weight: float = 1.0
    alone: bool = True
    evidence: tuple[Evidence, ...] = ()
    foretells: bool = False

    @property
    def weighted(self) -> float:
        return self.weight * self.risk

    def as_json(self) -> dict[str, Any]:
        return {
            "risk": round(self.risk, 6),
            "weight": self.weight,
            "alone": self.alone,
            "evidence": [evidence.as_json() for evidence in self.evidence],
        }


class LazyReadings(Mapping[str, Reading]):
    """Channels whose readings and words are made at the first look: a scan needs R of all pairs, and few of them are
    looked at. `tell(*about)` gives the channels, and the same ones at each call."""

    __slots__ = ("_about", "_channels", "_tell")

    def __init__(self, tell: Callable[..., Mapping[str, Reading]], *about: object) -> None:
        self._tell = tell
        self._about = about
        self._channels: Mapping[str, Reading] | None = None

    def _told(self) -> Mapping[str, Reading]:
        if self._channels is None:
            self._channels = self._tell(*self._about)
            self._about = ()
        return self._channels

    def __getitem__(self, name: str) -> Reading:
        return self._told()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._told())

    def __len__(self) -> int:
        return len(self._told())

    def __repr__(self) -> str:
        return repr(self._told())


class Assessment(NamedTuple):
    """R(a, b) with the channels it came from, by name; symmetric in a and b. `ahead`: nothing stands between
    them, and what is foretold is worth a look (drawn, and told once at the edit it is about)."""

    risk: float
    level: Level
    channels: Mapping[str, Reading] = MappingProxyType({})
    ahead: bool = False

    @property
    def distance(self) -> float:
        """D = 1 - R."""
        return 1.0 - self.risk

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """All evidence, of the channel with the greatest share first."""
        ordered = sorted(self.channels.values(), key=lambda reading: -reading.weighted)
        return tuple(evidence for reading in ordered if reading.weighted > 0 for evidence in reading.evidence)


def noisy_or(shares: Iterable[float]) -> float:
    """R = 1 - prod(1 - w_i r_i); `shares` are the products w_i r_i in [0, 1] (000, equation 2)."""
    return 1.0 - math.prod([1.0 - share for share in shares])


def assess(channels: Mapping[str, Reading], thresholds: Thresholds) -> Assessment:
    """Combine the channels. Without one that may speak alone, a resolution advisory is not reached: then the
    level stops at traffic, whatever R is."""
    shares = {name: reading.weighted for name, reading in channels.items()}
    alone = [name for name, reading in channels.items() if reading.alone]
    return assess_shares(shares, alone, channels, thresholds)


def assess_shares(
    shares: Mapping[str, float],
    alone: Collection[str],
    channels: Mapping[str, Reading],
    thresholds: Thresholds,
    foretold: Collection[str] = (),
    ahead_from: float = math.inf,
) -> Assessment:
    """The same, of the products w_i r_i and the names of those that may speak alone: so channels that come
    `LazyReadings` stay unread. `foretold`: the names of those that reach no level without what stands; from a risk of
    `ahead_from` on they lie ahead."""
    risk = noisy_or(shares.values())
    level = thresholds.level(risk)
    if foretold and level is not Level.RESOLUTION:
        # What stands is at most all of it.
        least = thresholds.traffic - thresholds.slack
        if risk < least or noisy_or([shares[name] for name in shares if name not in foretold]) < least:
            return Assessment(risk, Level.CLEAR, channels, risk >= ahead_from)
    if level is Level.RESOLUTION:
        speaking = noisy_or([shares[name] for name in shares if name in alone])
        if speaking < thresholds.traffic:
            level = Level.TRAFFIC
    return Assessment(risk, level, channels)

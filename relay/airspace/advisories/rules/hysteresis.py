"""When is an advisory said aloud, for one pair of agents (000, section 3)?

Invariants:
- a level is entered at its threshold and left only `slack` below it, so risk that flickers is silent;
- the room hears a level when it is entered or worsens, and once when all is clear again; easing is silent;
- within the cool-down a pair hears no level twice, nor a lesser one than it has heard; what still stands when
  the cool-down is over is said then;
- a closing pair may reach a traffic advisory before its threshold, never more.

Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from relay.airspace.readings import Assessment, Level, Thresholds, noisy_or

#: Seconds over which the closure rate is measured and looked ahead. TCAS II warns 20-48 s before the closest
#: approach (RTCA DO-185B, tau of a traffic advisory); below the rate of an agent's edits there is nothing to see.
LOOK_AHEAD_S = 30.0
#: How often the risk must have risen within the look-ahead: a single jump is a change of state, no approach.
RISES = 2


@dataclass(frozen=True, slots=True)
class Rules:
    """`cooldown_s`: seconds."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    cooldown_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One scan of a pair. `risk`: R(a, b). `ceiling`: the highest level that its channels may reach, whatever R
    is. `closing`: the risk has been rising so that it crosses the traffic threshold within the look-ahead."""

    risk: float
    ceiling: Level = Level.RESOLUTION
    closing: bool = False


@dataclass(frozen=True, slots=True)
class Track:
    """What is kept of a pair from one scan to the next. Times are Unix seconds.

    `told`: the level that the room has heard and that still holds (an eased one is taken back in silence).
    `said`: when each level was last said, by its word. `early_until`: until then a closing pair stays traffic.
    """

    level: Level = Level.CLEAR
    told: Level = Level.CLEAR
    said: Mapping[str, float] = field(default_factory=dict)
    early_until: float = 0.0

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Track:
        """From its stored form, which is `asdict`."""
        return cls(**{**record, "level": Level(record["level"]), "told": Level(record["told"])})


def step(before: Track, sample: Sample, rules: Rules, now: float) -> tuple[Track, Level | None]:
    """The pair after this sample, and the level that the room must hear, None for silence (CLEAR: all clear)."""
    level, early_until = _level(before, sample, rules, now)
    told = min(before.told, level)
    after = replace(before, level=level, told=told, early_until=early_until)
    if level is Level.CLEAR:
        return after, Level.CLEAR if before.told is not Level.CLEAR else None
    if level <= told or _cooling(before, level, rules, now):
        return after, None
    return replace(after, told=level, said={**before.said, level.word: now}), level


def _level(before: Track, sample: Sample, rules: Rules, now: float) -> tuple[Level, float]:
    thresholds = rules.thresholds
    # Going up takes the plain risk; going down takes a risk that has fallen by the slack as well, so the two
    # directions cannot both be true of one sample.
    rising = min(thresholds.level(sample.risk), sample.ceiling)
    falling = min(thresholds.level(sample.risk + thresholds.slack), sample.ceiling)
    level = rising if rising > before.level else min(before.level, falling)
    if sample.ceiling is Level.CLEAR:
        return Level.CLEAR, 0.0
    early_until = now + LOOK_AHEAD_S if sample.closing else before.early_until
    if level is Level.CLEAR and now < early_until:
        return Level.TRAFFIC, early_until
    return level, early_until


def _cooling(before: Track, level: Level, rules: Rules, now: float) -> bool:
    """Was this level, or a worse one, said within the cool-down? What lies ahead of now (the clock was put back)
    does not count: rather said once more than not at all."""
    times = (before.said.get(worse.word) for worse in Level if worse >= level)
    return any(at is not None and now - rules.cooldown_s < at <= now for at in times)


def next_said_at(track: Track, rules: Rules) -> float | None:
    """When a level that stands unsaid may be said (Unix seconds); None when nothing is held back."""
    if track.level <= track.told:
        return None
    times = [track.said[level.word] for level in Level if level >= track.level and level.word in track.said]
    return max(times) + rules.cooldown_s if times else None


def ceiling(assessment: Assessment, thresholds: Thresholds) -> Level:
    """The highest level that the channels of this assessment may reach, at any R: hysteresis may not hold a
    level that they cannot carry (see `readings.assess_shares`)."""
    if assessment.level is Level.RESOLUTION:
        return Level.RESOLUTION
    readings = assessment.channels.values()
    standing = noisy_or(reading.weighted for reading in readings if not reading.foretells)
    if standing < thresholds.traffic - thresholds.slack and any(reading.foretells for reading in readings):
        return Level.CLEAR
    if assessment.risk >= thresholds.resolution:
        return Level.TRAFFIC
    alone = noisy_or(reading.weighted for reading in readings if reading.alone)
    return Level.RESOLUTION if alone >= thresholds.traffic - thresholds.slack else Level.TRAFFIC


def closure_rate(before: float, now: float, seconds: float) -> float:
    """(R_t - R_(t - dt)) / dt in risk per second, for samples `seconds` > 0 apart; positive while they approach."""
    if seconds <= 0:
        raise ValueError(f"two samples {seconds} s apart have no closure rate; they are to be in order")
    return (now - before) / seconds


def enters_early(risk: float, rate: float, thresholds: Thresholds, horizon_s: float) -> bool:
    """Is a clear pair to be told now? It is near the traffic threshold, and at this rate it crosses it within
    `horizon_s`. Near is within twice the slack: the document only says "near"."""
    near = thresholds.traffic - 2 * thresholds.slack
    return rate > 0 and near <= risk < thresholds.traffic <= risk + rate * horizon_s


def rate_of(trail: Sequence[tuple[float, float]], now: float, over_s: float) -> float:
    """The closure rate over the last `over_s` seconds, in risk a second.

    `trail`: (Unix seconds, risk), oldest first; between two samples the risk stands as it was.
    """
    if not trail:
        return 0.0
    earlier = [risk for at, risk in trail if at <= now - over_s]
    return closure_rate(earlier[-1] if earlier else trail[0][1], trail[-1][1], over_s)


def closing(trail: Sequence[tuple[float, float]], rules: Rules, now: float) -> bool:
    """Does this pair approach so that it is to be told early (`enters_early`)?

    Only a real approach counts: at least `RISES` separate rises within the look-ahead, and more in all than the
    slack, which is what the thresholds take for noise.
    """
    over, slack = LOOK_AHEAD_S, rules.thresholds.slack
    rate = rate_of(trail, now, over)
    if rate * over <= slack or not enters_early(trail[-1][1], rate, rules.thresholds, over):
        return False
    before = [risk for at, risk in trail if at <= now - over][-1:]
    recent = [*before, *(risk for at, risk in trail if at > now - over)]
    return sum(later - earlier >= slack / 2 for earlier, later in pairwise(recent)) >= RISES

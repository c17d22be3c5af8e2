"""The channel `semantic`: what one side changes and the other comes to rely on (003, section 6.1, level 3).

Invariant: it is added to whatever profile measures, since no formula of a distance has it. With a conflict a pair is
at a traffic advisory at least, and by the conflict alone never higher; an agent may be told, and is never held. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from relay.airspace.pair_facts import SemanticCheck, SemanticConflict
from relay.airspace.readings import Assessment, Evidence, LazyReadings, Level, Reading, noisy_or

NAME = "semantic"
#: Chosen, not fitted: as intent, alone a traffic advisory and no more.
WEIGHT = 0.5
#: r by the conflict's severity: each of them is worth a word while both work (w r >= .35, the traffic threshold).
RISKS = {"critical": 1.0, "high": 0.9, "medium": 0.8, "low": 0.75}
#: Conflicts that are told of one pair, the worst first.
MOST_TOLD = 3


def with_conflicts(assessment: Assessment | None, check: SemanticCheck) -> Assessment:
    """The assessment with the conflicts of this look, of which there is one at least. `assessment` None: nothing else
    lies between the two."""
    before = assessment or Assessment(0.0, Level.CLEAR)
    reading = Reading(
        max(RISKS[conflict.severity] for conflict in check.conflicts),
        WEIGHT,
        alone=False,
        evidence=tuple(_evidence(conflict) for conflict in check.conflicts[:MOST_TOLD]),
    )
    risk = noisy_or((before.risk, reading.weighted))
    channels = LazyReadings(_channels, before.channels, reading, check)
    return Assessment(risk, max(before.level, Level.TRAFFIC), channels)


def _channels(before: Mapping[str, Reading], reading: Reading, check: SemanticCheck) -> Mapping[str, Reading]:
    """The channel `symbol` says no second time what is said here in more words."""
    told = {(conflict.path, conflict.symbol) for conflict in check.conflicts[:MOST_TOLD]}

    def without(channel: Reading) -> Reading:
        left = tuple(piece for piece in channel.evidence if (piece.path, piece.symbol) not in told)
        return replace(channel, evidence=left) if len(left) < len(channel.evidence) else channel

    return {**{name: without(channel) for name, channel in before.items()}, NAME: reading}


def _evidence(conflict: SemanticConflict) -> Evidence:
    return Evidence(
        " ".join(conflict.said).rstrip("."),
        path=conflict.path,
        other_path=conflict.other_path,
        lines=(conflict.lines,) if conflict.lines[0] else (),
        symbol=conflict.symbol,
    )

"""The profiles by name: two forms of the source's formula, and the calibrated one.

Invariant: every profile reads the same working sets and the same facts, and gives the same kind of answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from relay.airspace.profiles.calibrated import NAME, THRESHOLDS, calibrated
from relay.airspace.profiles.formulas import FORMULAS, Profile

PROFILES: Mapping[str, Profile] = {**FORMULAS, NAME: Profile(NAME, THRESHOLDS, calibrated)}


def profile(name: str) -> Profile:
    """The profile of this name. Raises KeyError with a message that names them all."""
    try:
        return PROFILES[name]
    except KeyError:
        raise KeyError(f"there is no profile {name!r}; the profiles are {', '.join(PROFILES)}") from None

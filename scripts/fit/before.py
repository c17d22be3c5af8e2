"""The profile before words: fitted on people's pairs, historical merges among them. The report says what the fit has
gained over it on work that lies ahead."""

from __future__ import annotations

import numpy as np

from scripts.fit.design import Design, Floats
from scripts.fit.model import NAMES, hazards

BEFORE = {
    "OVERLAP": 2.3352,
    "OVERLAP_COMMITS": 0.3264,
    "NEAR_BASE": -3.4237,
    "NEAR_GAP": 0.1,
    "NEAR_COMMITS": 0.4544,
    "NEAR_HUNKS": 0.1732,
    "NEAR_SIZE": 0.1606,
    "NEAR_LENGTH": 0.1189,
    "CHURN_BASE": -8.1033,
    "CHURN_COMMITS": 0.2085,
    "CHURN_OTHER": 0.3313,
    "CHURN_OWN": 0.0,
    "CHURN_LEAST": 0.3418,
    "CHURN_FOLDER": 0.0741,
    "SIZE_BASE": -6.163,
    "SIZE_FILES": 0.3795,
    "SIZE_MOST_HUNKS": 0.3336,
    "SIZE_LEAST_HUNKS": 0.3969,
    "SIZE_MODIFIED": 0.2141,
    "TREE": 0.0103,
    "DEPENDENCY": 0.002,
}
#: It had no channel of words: this base gives a hazard of 0.
_NONE = {"WORDS_BASE": -50.0}
#: The cap of nearness at that time.
NEARNESS = 0.5


def risk_before(data: Design) -> Floats:
    """R of every pair, as that profile had it."""
    value = np.array([BEFORE.get(name, _NONE.get(name, 0.0)) for name in NAMES])
    return -np.expm1(-hazards(data, value, nearness=NEARNESS)[0])

"""The fitted numbers of the calibrated profile. Written by `python -m scripts.fit.airspace --write`."""

from __future__ import annotations

OVERLAP = 3.0
NEAR_BASE = -3.2
NEAR_GAP = 0.1
NEAR_COMMITS = 0.5
NEAR_HUNKS = 0.2
NEAR_SIZE = 0.1
NEAR_LENGTH = 0.17
CHURN_BASE = -10.0
CHURN_COMMITS = 1.1
CHURN_OTHER = 0.3
CHURN_OWN = 0.27
CHURN_LEAST = 0.1
CHURN_FOLDER = 0.6
SIZE_BASE = -5.7
SIZE_FILES = 0.5
SIZE_MOST_HUNKS = 0.2
SIZE_LEAST_HUNKS = 0.4
SIZE_MODIFIED = 0.2
TREE = 0.0
DEPENDENCY = 0.0
UNKNOWN_LENGTH = 200

"""The fitted numbers of the calibrated profile. Written by `python -m scripts.fit.airspace --write`.

Invariant: fitted on 10306 pairs of branches of 11 repositories, and reproduced by that command;
docs/calibration.md says how well they do on repositories that they have not seen.
"""

from __future__ import annotations

#: Hazard where git cannot merge both as they stand,
OVERLAP = 2.3352
#: and this x log(1 + commits on all paths of the side with more).
OVERLAP_COMMITS = 0.3264
#: Nearness, a shared file: the logarithm of its hazard is this,
NEAR_BASE = -3.4237
#: less this x log(1 + unchanged lines between the nearest hunks),
NEAR_GAP = 0.1
#: and this x log(1 + commits on the path among the mainline's last 100),
NEAR_COMMITS = 0.4544
#: and this x log(pairs of hunks in the file),
NEAR_HUNKS = 0.1732
#: and this x log(1 + hunks of the larger side, in all files),
NEAR_SIZE = 0.1606
#: less this x log(lines of the file).
NEAR_LENGTH = 0.1189
#: Churn, a file of one side only: the logarithm of its hazard is this,
CHURN_BASE = -8.1033
#: and this x log(1 + commits on the path),
CHURN_COMMITS = 0.2085
#: and this x log(1 + hunks of the other side),
CHURN_OTHER = 0.3313
#: and this x log(1 + files of its own side),
CHURN_OWN = 0.0
#: and this x log(1 + hunks of the smaller side),
CHURN_LEAST = 0.3418
#: and this if the other side works in the same directory.
CHURN_FOLDER = 0.0741
#: Size, a pair: the logarithm of its hazard is this,
SIZE_BASE = -6.163
#: and this x log(1 + files of the smaller side),
SIZE_FILES = 0.3795
#: and this x log(1 + hunks of the larger side),
SIZE_MOST_HUNKS = 0.3336
#: and this x log(1 + hunks of the smaller side),
SIZE_LEAST_HUNKS = 0.3969
#: and this x log(1 + modified files of the side with more).
SIZE_MODIFIED = 0.2141
#: Hazard per r_tree (000, equation 6).
TREE = 0.0103
#: Hazard per coupling (000, equations 4 and 5).
DEPENDENCY = 0.002
#: Lines of a shared file whose length is not known: the median of the data.
UNKNOWN_LENGTH = 361

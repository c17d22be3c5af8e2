"""The fitted numbers of the calibrated profile. Written by `python -m scripts.fit.airspace --write`.

Invariant: fitted on 19620 pairs of branches of 21 repositories, and reproduced by that command;
docs/calibration.md says how well they do on repositories that they have not seen.
"""

from __future__ import annotations

#: Hazard where git cannot merge both as they stand,
OVERLAP = 2.3816
#: and this x log(1 + commits on all paths of the side with more).
OVERLAP_COMMITS = 0.3423
#: Nearness, a shared file: the logarithm of its hazard is this,
NEAR_BASE = -6.155
#: less this x log(1 + unchanged lines between the nearest hunks),
NEAR_GAP = 0.1018
#: and this x log(1 + commits on the path among the mainline's last 100),
NEAR_COMMITS = 0.6681
#: and this x log(pairs of hunks in the file),
NEAR_HUNKS = 0.4207
#: and this x log(1 + hunks of the larger side, in all files),
NEAR_SIZE = 0.0828
#: less this x log(lines of the file).
NEAR_LENGTH = 0.0813
#: Churn, a file of one side only: the logarithm of its hazard is this,
CHURN_BASE = -11.287
#: and this x log(1 + commits on the path),
CHURN_COMMITS = 0.5828
#: and this x log(1 + hunks of the other side),
CHURN_OTHER = 0.6623
#: and this x log(1 + files of its own side),
CHURN_OWN = 0.0
#: and this x log(1 + hunks of the smaller side),
CHURN_LEAST = 0.2353
#: and this if the other side works in the same directory.
CHURN_FOLDER = 0.0
#: Size, a pair: the logarithm of its hazard is this,
SIZE_BASE = -6.7633
#: and this x log(1 + files of the smaller side),
SIZE_FILES = 0.4967
#: and this x log(1 + hunks of the larger side),
SIZE_MOST_HUNKS = 0.1209
#: and this x log(1 + hunks of the smaller side),
SIZE_LEAST_HUNKS = 0.0
#: and this x log(1 + modified files of the side with more).
SIZE_MODIFIED = 0.1348
#: and this x log(1 + directories in which both work).
SIZE_FOLDERS = 0.9251
#: Words, a pair of which both sides' are known: the logarithm of its hazard is this,
WORDS_BASE = -11.6292
#: and this x log(1 + 10 x likeness).
WORDS_LIKE = 7.6727
#: Hazard per r_tree (000, equation 6).
TREE = 0.002
#: Hazard per coupling (000, equations 4 and 5).
DEPENDENCY = 0.002
#: Lines of a shared file whose length is not known: the median of the data.
UNKNOWN_LENGTH = 392

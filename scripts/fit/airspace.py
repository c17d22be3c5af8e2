"""Fits the calibrated profile of the airspace: `python -m scripts.fit.airspace --train FILE.. [--write] [--report]`.

Prints the coefficients as JSON; `--write` puts them into relay/airspace/profiles/calibration.py; `--report` adds, for
repositories that the fit has not seen, what docs/calibration.md states. Invariant: the same data gives the same
numbers, to the last digit written.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from relay.airspace.scan.recorded_pairs import BadPairs, Pair, read
from scripts.fit import report
from scripts.fit.design import Design, Floats, design
from scripts.fit.model import NAMES, Whole, fit

TARGET = Path(__file__).parents[2] / "relay" / "airspace" / "profiles" / "calibration.py"
#: Digits after the point that are kept: two pairs that differ by less are not told apart.
DIGITS = 4

MEANING = {
    "OVERLAP": "Hazard where git cannot merge both as they stand,",
    "OVERLAP_COMMITS": "and this x log(1 + commits on all paths of the side with more).",
    "NEAR_BASE": "Nearness, a shared file: the logarithm of its hazard is this,",
    "NEAR_GAP": "less this x log(1 + unchanged lines between the nearest hunks),",
    "NEAR_COMMITS": "and this x log(1 + commits on the path among the mainline's last 100),",
    "NEAR_HUNKS": "and this x log(pairs of hunks in the file),",
    "NEAR_SIZE": "and this x log(1 + hunks of the larger side, in all files),",
    "NEAR_LENGTH": "less this x log(lines of the file).",
    "CHURN_BASE": "Churn, a file of one side only: the logarithm of its hazard is this,",
    "CHURN_COMMITS": "and this x log(1 + commits on the path),",
    "CHURN_OTHER": "and this x log(1 + hunks of the other side),",
    "CHURN_OWN": "and this x log(1 + files of its own side),",
    "CHURN_LEAST": "and this x log(1 + hunks of the smaller side),",
    "CHURN_FOLDER": "and this if the other side works in the same directory.",
    "SIZE_BASE": "Size, a pair: the logarithm of its hazard is this,",
    "SIZE_FILES": "and this x log(1 + files of the smaller side),",
    "SIZE_MOST_HUNKS": "and this x log(1 + hunks of the larger side),",
    "SIZE_LEAST_HUNKS": "and this x log(1 + hunks of the smaller side),",
    "SIZE_MODIFIED": "and this x log(1 + modified files of the side with more).",
    "SIZE_FOLDERS": "and this x log(1 + directories in which both work).",
    "WORDS_BASE": "Words, a pair of which both sides' are known: the logarithm of its hazard is this,",
    "WORDS_LIKE": "and this x log(1 + 10 x likeness).",
    "TREE": "Hazard per r_tree (000, equation 6).",
    "DEPENDENCY": "Hazard per coupling (000, equations 4 and 5).",
}


class Data:
    """The pairs as arrays, whole and half-done, with labels and repositories."""

    def __init__(self, pairs: list[Pair]) -> None:
        self.labels = np.array([bool(pair.conflict) for pair in pairs], float)
        self.repos = np.array([pair.repo for pair in pairs])
        self.full: Design = design(pair.full for pair in pairs)
        half = [pair for pair in pairs if pair.early is not None]
        self.early: Design = design(pair.early for pair in half if pair.early is not None)
        self.early_labels = np.array([bool(pair.conflict) for pair in half], float)
        self.early_repos = np.array([pair.repo for pair in half])
        self.early_kinds = np.array([pair.kind or "" for pair in half])
        #: Half-done pairs that git cannot merge already: nothing lies ahead of them.
        self.now = np.array([bool(pair.conflict_now) for pair in half])

    def fit(self, without: str | None = None) -> Floats:
        """The coefficients, with one repository left out if it is named."""
        chosen, early_chosen = self.repos != without, self.early_repos != without
        clash = self.full.clash & chosen
        whole = Whole(self.full.commits[clash], self.labels[clash])
        merged = (self.early_kinds == "merge").astype(float)
        return fit(self.early, self.early_labels, merged, early_chosen.astype(float), whole)


def load(*paths: Path) -> list[Pair]:
    """All pairs, checked to have a label and a repository. Raises BadPairs and OSError."""
    pairs = []
    for path in paths:
        for pair in read(path):
            if pair.conflict is None or pair.repo is None:
                raise BadPairs(f"{path}: {pair.id} has no label or no repository; the fit needs both")
            pairs.append(pair)
    return pairs


def unknown_length(pairs: list[Pair]) -> int:
    """What stands for the length of a shared file that is not told: the median of those that are."""
    lengths = [file.length for pair in pairs for file in pair.full.a.files if file.length]
    return int(np.median(lengths))


def constants(data: Data, length: int) -> dict[str, float]:
    value = data.fit()
    # Adding zero turns -0.0 into 0.0.
    return {name: round(float(number), DIGITS) + 0.0 for name, number in zip(NAMES, value, strict=True)} | {
        "UNKNOWN_LENGTH": length
    }


def module(numbers: dict[str, float], count: int, repos: int) -> str:
    """The text of relay/airspace/profiles/calibration.py."""
    lines = [
        '"""The fitted numbers of the calibrated profile. Written by `python -m scripts.fit.airspace --write`.',
        "",
        f"Invariant: fitted on {count} pairs of branches of {repos} repositories, and reproduced by that command;",
        "docs/calibration.md says how well they do on repositories that they have not seen.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
    ]
    for name, meaning in MEANING.items():
        lines += [f"#: {meaning}", f"{name} = {numbers[name]}"]
    lines += [
        "#: Lines of a shared file whose length is not known: the median of the data.",
        f"UNKNOWN_LENGTH = {numbers['UNKNOWN_LENGTH']}",
    ]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.fit.airspace", description=__doc__)
    help = "labelled pairs (FILE.jsonl[.gz]), one file or several"
    parser.add_argument("--train", type=Path, nargs="+", required=True, help=help)
    parser.add_argument("--write", action="store_true", help=f"write {TARGET.name}")
    parser.add_argument("--report", action="store_true", help="add the figures for unseen repositories")
    args = parser.parse_args(argv)
    try:
        pairs = load(*args.train)
    except (BadPairs, OSError) as error:
        print(f"fit: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadPairs) else 1
    length = unknown_length(pairs)
    data = Data(pairs)
    fitted = constants(data, length)
    repos = len(set(data.repos))
    answer: dict[str, Any] = {"pairs": len(pairs), "repositories": repos, "constants": fitted}
    if args.write:
        TARGET.write_text(module(fitted, len(pairs), repos), encoding="utf-8")
    if args.report:
        answer["report"] = report.figures(data, pairs)
    json.dump(answer, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Two codes of relay under the same benchmarks, by turns: `python -m scripts.bench --against ROOT`.

Invariant: both run in one session, round by round, every second round in the other order, and each round takes its
own floors; the benchmarks are this checkout's in both. A figure is worse only where no round of the one code reaches
any round of the other, by more than a tenth: what differs less is the machine's.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from scripts.bench.figures import turns

#: The benchmarks whose figures stand beside a floor.
RATIOS = ("log", "room", "coordination", "doors_ratio", "guard", "commands")
#: A difference that counts, as a share.
TENTH = 1.1
ROOT = Path(__file__).absolute().parents[2]
Json = dict[str, Any]


def compared(
    names: Iterable[str], root: Path, rounds: int, measured: Callable[[str, Path], Json]
) -> dict[str, Any]:
    """The medians of both codes with how many times better the new one is, and the table on standard error."""
    rows: list[Json] = []
    absent: list[Json] = []
    with tempfile.TemporaryDirectory(prefix="relay-against-") as made:
        trees = {"before": tree(Path(made), root.resolve()), "after": ROOT}
        for name in names:
            seen: dict[tuple[str, str], dict[str, list[Json]]] = defaultdict(
                lambda: {"before": [], "after": []}
            )
            for when in turns(trees, rounds):
                report = measured(name, trees[when])
                absent += [{"when": when, **one} for one in report["not_measured"]]
                for figure in report["figures"]:
                    seen[figure["name"], figure["unit"]][when].append(figure)
            rows += [_row(name, *key, found) for key, found in seen.items() if all(found.values())]
            absent += [
                {
                    "when": "before" if found["after"] else "after",
                    "name": f"{name}: {key[0]}",
                    "reason": "it has none",
                }
                for key, found in seen.items()
                if not all(found.values())
            ]
    _show(rows, absent)
    return {
        "before": _commit(root), "after": _commit(ROOT), "rounds": rounds, "figures": rows,
        "worse": [f"{row['bench']}: {row['name']}" for row in rows if row["verdict"] == "worse"],
        "not_measured": absent,
    }  # fmt: skip


def tree(folder: Path, root: Path) -> Path:
    """This checkout, but for `relay`, which is that of `root`."""
    for entry in ROOT.iterdir():
        if entry.name != "relay":
            (folder / entry.name).symlink_to(entry)
    (folder / "relay").symlink_to(root / "relay")
    return folder


def _row(bench: str, name: str, unit: str, found: dict[str, list[Json]]) -> Json:
    figures = [figure for each in found.values() for figure in each]
    signs = {told["target"][:2] for figure in figures for told in figure["targets"].values()}
    more_is_better = unit.endswith("/s") or signs == {">="}
    row: Json = {"bench": bench, "name": name, "unit": unit, "n": figures[-1]["n"], "verdict": ""}
    middle = "p50" if "p50" in figures[0] else "value"
    for key in (middle, "ratio"):
        before, after = ([figure[key] for figure in found[when] if key in figure] for when in found)
        if not (before and after):
            continue
        seen = {"before": median(before), "after": median(after), "rounds": [before, after]}
        over, under = (seen["after"], seen["before"]) if more_is_better else (seen["before"], seen["after"])
        seen["times_better"] = round(over / under, 3) if under else None
        row["ratio" if key == "ratio" else "seen"] = seen
        # The ratio comes last, and is the better judge: the machine's other work is in both of its sides.
        if more_is_better:
            before, after = after, before
        row["verdict"] = (
            "worse" if min(after) > max(before) * TENTH
            else "better" if max(after) * TENTH < min(before)
            else ""
        )  # fmt: skip
    return row


def _show(rows: list[Json], absent: list[Json]) -> None:
    cells = f"{'before':>10} {'after':>10} {'x':>6}"
    print(f"\n{'figure':<70} {cells}   to the floor: {cells}", file=sys.stderr)
    for row in rows:
        named = f"{row['bench']}: {row['name']} ({row['unit']})"
        both = [
            f"{seen['before']:>10,.2f} {seen['after']:>10,.2f} {seen['times_better'] or 0:>6.2f}"
            for seen in (row["seen"], row.get("ratio"))
            if seen
        ]
        print(f"{named:<70} {'                 '.join(both)}  {row['verdict']}".rstrip(), file=sys.stderr)
    for one in absent:
        print(f"{one['name']}, {one['when']}: not measured: {one['reason']}", file=sys.stderr)


def _commit(root: Path) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or str(root)

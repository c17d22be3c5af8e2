"""What a benchmark found, with its targets, the size of its data, its floor and the machine it was found on.

Invariant: a figure says how many samples it is of; a target is met or missed, never left out; and what could not be
measured is neither: it is named with the reason (`unmeasured`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import structlog

T = TypeVar("T")
#: The values that have a column of their own.
COLUMNS = ("p50", "p95", "p99", "value", "ratio")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured thing. `values` holds `p50`, `p95`, `p99`, `max` of `n` samples, or a single `value`.

    `limits` names the values that have a target: `("<=", 2.0)` or `(">=", 5000)`. `size`: of the data.
    `floor`: the same without relay, taken by turns in the same run (`beside`).
    """

    name: str
    unit: str
    n: int
    values: Mapping[str, float]
    limits: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    note: str = ""
    size: str = ""
    floor: Figure | None = None

    def met(self, key: str) -> bool:
        sign, limit = self.limits[key]
        return self.values[key] <= limit if sign == "<=" else self.values[key] >= limit

    def as_json(self) -> dict[str, Any]:
        targets = {
            key: {"target": f"{sign} {limit:g}", "met": self.met(key)}
            for key, (sign, limit) in self.limits.items()
        }
        named = {"name": self.name, "unit": self.unit, "n": self.n}
        floor = self.floor and {"name": self.floor.name, **self.floor.values}
        about = {"targets": targets, "note": self.note, "size": self.size, "floor": floor}
        return {**named, **self.values, **about}


def at_most(**limits: float) -> dict[str, tuple[str, float]]:
    """Targets `<=`: `at_most(p50=5, p99=25)`."""
    return {key: ("<=", limit) for key, limit in limits.items()}


def at_least(value: float) -> dict[str, tuple[str, float]]:
    return {"value": (">=", value)}


def spread(
    name: str,
    samples: Sequence[float],
    *,
    unit: str = "ms",
    scale: float = 1000.0,
    limits: Mapping[str, tuple[str, float]] | None = None,
    note: str = "",
    size: str = "",
) -> Figure:
    """p50, p95, p99 and the maximum of samples in seconds, in milliseconds (nearest rank)."""
    if not samples:
        raise ValueError(f"{name}: nothing was measured")
    ranked = sorted(samples)

    def rank(share: float) -> float:
        at = min(len(ranked) - 1, max(0, math.ceil(share * len(ranked) - 1e-9) - 1))
        return round(ranked[at] * scale, 3)

    values = {"p50": rank(0.50), "p95": rank(0.95), "p99": rank(0.99), "max": rank(1.0)}
    return Figure(name, unit, len(ranked), values, limits or {}, note, size)


def single(
    name: str,
    value: float,
    unit: str,
    *,
    n: int = 1,
    limits: Mapping[str, tuple[str, float]] | None = None,
    note: str = "",
    size: str = "",
) -> Figure:
    return Figure(name, unit, n, {"value": round(value, 3)}, limits or {}, note, size)


def beside(figure: Figure, floor: Figure, limits: Mapping[str, tuple[str, float]] | None = None) -> Figure:
    """The figure with its floor: `ratio`, how many times the floor's p50 or value its own is, and `ratio_p99`."""
    shared = {"ratio_p99": "p99", "ratio": "p50" if "p50" in figure.values else "value"}
    ratios = {
        name: round(figure.values[key] / floor.values[key], 3)
        for name, key in shared.items()
        if key in figure.values and floor.values[key]
    }
    values = {**figure.values, **ratios}
    return replace(figure, values=values, floor=floor, limits={**figure.limits, **(limits or {})})


def joined(figures: Sequence[Figure]) -> list[Figure]:
    """Each with its floor, where that is a figure too: `NAME, raw` is the floor of `NAME` and of `NAME, ours`."""
    raw = {(one.name.removesuffix(", raw"), one.unit): one for one in figures if one.name.endswith(", raw")}

    def floor_of(one: Figure) -> Figure | None:
        return raw.get((one.name.removesuffix(", ours"), one.unit))

    return [one if one.floor or not (floor := floor_of(one)) else beside(one, floor) for one in figures]


def unmeasured(name: str, reason: str) -> Figure:
    """What this machine cannot say, and what it lacks."""
    return Figure(name, "", 0, {}, note=reason)


def turns(names: Iterable[T], rounds: int) -> Iterator[T]:
    """The names round by round, every second round backwards: what else the machine does meets all of them alike."""
    order = list(names)
    for number in range(rounds):
        yield from reversed(order) if number % 2 else order


@contextmanager
def stopwatch(samples: list[float]) -> Iterator[None]:
    """Append the seconds that the block takes."""
    began = time.perf_counter()
    yield
    samples.append(time.perf_counter() - began)


def machine(folder: Path) -> dict[str, Any]:
    """What the figures depend on; the disk is the one that holds `folder`."""
    return {
        "cpu": _after("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "memory": _after("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "fsync": _fsync(folder).as_json(),
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }


def _after(path: str, key: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")


def _fsync(folder: Path, count: int = 100) -> Figure:
    took = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(count):
            file.write(b"x" * 4096)
            file.flush()
            with stopwatch(took):
                os.fsync(file.fileno())
    return spread("fsync of 4 KiB", took)


def run(name: str, measure: Callable[[Path, bool], Iterable[Figure]], about: str) -> int:
    """The command line of a benchmark without options of its own."""
    args = options(name, about).parse_args()
    return carry_out(name, lambda folder: measure(folder, args.quick), args)


def options(name: str, about: str) -> argparse.ArgumentParser:
    """The options that every benchmark has: `--quick` and `--dir`."""
    parser = argparse.ArgumentParser(prog=f"python -m scripts.bench.{name}", description=about)
    parser.add_argument("--quick", action="store_true", help="small numbers: only to see that it runs")
    parser.add_argument("--dir", type=Path, help="where its files go for the time of the run")
    return parser


def carry_out(name: str, measure: Callable[[Path], Iterable[Figure]], args: argparse.Namespace) -> int:
    """Measure in a folder of its own, print each figure as it comes, and the report; gives the exit code."""
    # Standard output is the report's.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    with tempfile.TemporaryDirectory(prefix="relay-bench-", dir=args.dir) as made:
        folder = Path(made)
        conditions = machine(folder)
        print(heading(conditions), file=sys.stderr)
        figures: list[Figure] = []
        absent: list[dict[str, str]] = []
        for figure in _told(name, measure(folder)):
            if figure.n == 0 and not figure.values:
                absent.append({"name": figure.name, "reason": figure.note})
                print(f"{figure.name}: not measured: {figure.note}", file=sys.stderr, flush=True)
                continue
            figures.append(figure)
            print(line(figure.as_json()), file=sys.stderr, flush=True)
    figures = joined(figures)
    missed = [f"{f.name}: {key}" for f in figures for key in f.limits if not f.met(key)]
    report = {
        "bench": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": args.quick,
        "machine": conditions,
        "figures": [figure.as_json() for figure in figures],
        "missed": missed,
        "not_measured": absent,
    }
    print(json.dumps(report, indent=2))
    return 0


def _told(name: str, figures: Iterable[Figure]) -> Iterator[Figure]:
    """The figures as they come. Where their measuring fails, those before stay, and the rest is not measured."""
    try:
        yield from figures
    except Exception as error:
        traceback.print_exc()
        yield unmeasured(f"the rest of {name}", f"{type(error).__name__}: {error}")


def heading(conditions: Mapping[str, Any]) -> str:
    fsync = conditions["fsync"]
    return (
        f"{conditions['cpu']}, {conditions['cores']} cores, {conditions['memory']}; Linux {conditions['kernel']}, "
        f"Python {conditions['python']}, SQLite {conditions['sqlite']}; "
        f"fsync p50 {fsync['p50']} ms, p99 {fsync['p99']} ms; load {conditions['load_before'][0]}\n"
        f"{'figure':<64} {'n':>8} {'p50, value':>10} {'p95':>9} {'p99':>9} {'floor':>10} {'ratio':>7}  goal"
    )


def line(figure: Mapping[str, Any]) -> str:
    """A figure of a report as a line under `heading`."""

    def shown(key: str, width: int, of: Mapping[str, Any] = figure) -> str:
        return f"{of[key]:>{width},.2f}" if key in of else " " * width

    middle = "p50" if "p50" in figure else "value"
    floor = figure.get("floor") or {}
    cells = [f"{figure['name'] + ' (' + figure['unit'] + ')':<64}", f"{figure['n']:>8,}", shown(middle, 10)]
    cells += [shown("p95", 9), shown("p99", 9), shown(middle, 10, floor), shown("ratio", 7)]
    goals = [
        f"{'' if key == middle else key + ' '}{'' if key in COLUMNS else f'{figure[key]:,.6g} '}"
        f"{told['target']} {'met' if told['met'] else 'MISSED'}"
        for key, told in figure["targets"].items()
    ]
    about = figure["size"] or figure["note"]
    return f"{' '.join(cells)}  {', '.join(goals)} {about and f'[{about}]'}".rstrip()

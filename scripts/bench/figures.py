"""What a benchmark found, with its targets, the size of its data and the machine it was found on.

Invariant: a figure says how many samples it is of, and a target is met or missed, never left out.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured thing. `values` holds `p50`, `p95`, `p99`, `max` of `n` samples, or a single `value`.

    `limits` names the values that have a target: `("<=", 2.0)` or `(">=", 5000)`.
    """

    name: str
    unit: str
    n: int
    values: Mapping[str, float]
    limits: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    note: str = ""

    def met(self, key: str) -> bool:
        sign, limit = self.limits[key]
        return self.values[key] <= limit if sign == "<=" else self.values[key] >= limit

    def as_json(self) -> dict[str, Any]:
        targets = {
            key: {"target": f"{sign} {limit:g}", "met": self.met(key)}
            for key, (sign, limit) in self.limits.items()
        }
        named = {"name": self.name, "unit": self.unit, "n": self.n}
        return {**named, **self.values, "targets": targets, "note": self.note}


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
) -> Figure:
    """p50, p95, p99 and the maximum of samples in seconds, in milliseconds (nearest rank)."""
    if not samples:
        raise ValueError(f"{name}: nothing was measured")
    ranked = sorted(samples)

    def rank(share: float) -> float:
        at = min(len(ranked) - 1, max(0, math.ceil(share * len(ranked) - 1e-9) - 1))
        return round(ranked[at] * scale, 3)

    values = {"p50": rank(0.50), "p95": rank(0.95), "p99": rank(0.99), "max": rank(1.0)}
    return Figure(name, unit, len(ranked), values, limits or {}, note)


def single(
    name: str,
    value: float,
    unit: str,
    *,
    n: int = 1,
    limits: Mapping[str, tuple[str, float]] | None = None,
    note: str = "",
) -> Figure:
    return Figure(name, unit, n, {"value": round(value, 3)}, limits or {}, note)


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
        print(_heading(conditions), file=sys.stderr)
        figures = []
        for figure in measure(folder):
            figures.append(figure)
            print(_line(figure), file=sys.stderr, flush=True)
    missed = [f"{f.name}: {key}" for f in figures for key in f.limits if not f.met(key)]
    report = {
        "bench": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": args.quick,
        "machine": conditions,
        "figures": [figure.as_json() for figure in figures],
        "missed": missed,
    }
    print(json.dumps(report, indent=2))
    return 0


def _heading(conditions: Mapping[str, Any]) -> str:
    fsync = conditions["fsync"]
    return (
        f"{conditions['cpu']}, {conditions['cores']} cores, {conditions['memory']}; Linux {conditions['kernel']}, "
        f"Python {conditions['python']}, SQLite {conditions['sqlite']}; "
        f"fsync p50 {fsync['p50']} ms, p99 {fsync['p99']} ms; load {conditions['load_before'][0]}\n"
        f"{'figure':<58} {'n':>8} {'p50':>9} {'p95':>9} {'p99':>9} {'max':>9}  target"
    )


def _line(figure: Figure) -> str:
    values = figure.values
    if "value" in values:
        shown = f"{values['value']:>39,.1f}"
    else:
        shown = " ".join(f"{values[key]:>9.2f}" for key in ("p50", "p95", "p99", "max"))
    targets = ", ".join(
        f"{'' if key == 'value' else key + ' '}{sign} {limit:g} {'met' if figure.met(key) else 'MISSED'}"
        for key, (sign, limit) in figure.limits.items()
    )
    return f"{figure.name + ' (' + figure.unit + ')':<58} {figure.n:>8,} {shown}  {targets}"

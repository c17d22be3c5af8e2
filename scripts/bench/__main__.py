"""Every benchmark, one after the other, each in a process of its own: `python -m scripts.bench`.

One JSON (standard output, or `--out FILE`) with the whole reports, and one table (standard error) of the figures that
have a goal or a floor: what was seen, beside what in the same run, and whether the goal was met. A benchmark that
ends in an error, or lacks something here, is named as not measured. `--against ROOT`: another checkout's relay beside
this one's (`against.py`). `--renew`: into docs/figures, as the page of figures has them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts.bench.against import RATIOS, compared
from scripts.bench.figures import heading, line
from scripts.bench.page import FOLDER, TITLES, page

ROOT = Path(__file__).absolute().parents[2]
Json = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.bench", description="Every benchmark of relay.")
    parser.add_argument("--only", nargs="+", choices=tuple(TITLES), metavar="NAME", help="these (see --list)")
    parser.add_argument("--list", action="store_true", help="name the benchmarks, and end")
    parser.add_argument("--quick", action="store_true", help="small numbers: only to see that it runs")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the JSON goes (standard output)")
    parser.add_argument("--dir", type=Path, help="where its files go for the time of the run")
    parser.add_argument(
        "--against", type=Path, metavar="ROOT",
        help=f"another checkout: its relay and this one by turns ({', '.join(RATIOS)}, or those of --only)",
    )  # fmt: skip
    parser.add_argument(
        "--renew", action="store_true", help="put them into docs/figures, and renew docs/figures.md"
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of each with --against (3)")
    args = parser.parse_args(argv)
    if args.list:
        print("\n".join(f"{name:<16} {title}" for name, title in TITLES.items()))
        return 0
    if args.against and not (args.against / "relay" / "cli.py").is_file():
        parser.error(f"{args.against} is no checkout of relay")
    if args.renew and args.quick:
        parser.error("--quick shows that it runs; its figures are not for docs/figures.md")
    if args.out:
        args.out.touch()  # it says at once where it cannot write, not after an hour
    options = [
        *(["--quick"] if args.quick else []),
        *(["--dir", str(args.dir.absolute())] if args.dir else []),
    ]
    if args.against:
        names = args.only or RATIOS

        def one(name: str, tree: Path) -> Json:
            report = measured(name, options, tree)
            if args.renew and tree == ROOT and report["figures"]:
                renew(name, report)
            return report

        report = compared(names, args.against, args.rounds, one)
        if args.renew:
            renew("against", json.loads(_told(args.quick, report)))
    else:
        reports: list[Json] = []
        for name in args.only or TITLES:
            reports.append(measured(name, options))
            report = together(reports)
            if args.renew and reports[-1]["figures"]:
                renew(name, reports[-1])
            if args.out:  # as far as it came: it may be interrupted
                args.out.write_text(_told(args.quick, report))
        show(report)
    if args.out:
        args.out.write_text(_told(args.quick, report))
    else:
        print(_told(args.quick, report), end="")
    return 0


def _told(quick: bool, report: Json) -> str:
    return (
        json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), "quick": quick, **report}) + "\n"
    )


def renew(name: str, report: Json) -> None:
    """Put a report in the place of the former one, whose remarks stay: whoever renews it reads them again."""
    path = FOLDER / f"{name}.json"
    remarks = json.loads(path.read_text()).get("remarks", []) if path.is_file() else []
    path.write_text(json.dumps({**report, "remarks": remarks} if remarks else report, indent=2) + "\n")
    (FOLDER.parent / "figures.md").write_text(page())


def measured(name: str, options: Sequence[str], tree: Path = ROOT) -> Json:
    """A benchmark's report, by the code in `tree`; without figures, and with the reason, where it failed."""
    began = time.monotonic()
    print(f"{name}: ", end="", file=sys.stderr, flush=True)
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    with tempfile.TemporaryFile("w+") as said:
        done = subprocess.run(
            [sys.executable, "-m", f"scripts.bench.{name}", *options],
            cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=said, text=True, check=False,
        )  # fmt: skip
        said.seek(0)
        lines = [line for line in said.read().splitlines() if line.strip()] or ["it said nothing"]
    if done.returncode == 0:
        report: Json = json.loads(done.stdout)
    else:
        print(*lines[-20:], sep="\n", file=sys.stderr)
        absent = [{"name": name, "reason": lines[-1].removeprefix(f"{name}.py: error: ")}]
        report = {"bench": name, "figures": [], "missed": [], "not_measured": absent}
    goals = sum(len(figure["targets"]) for figure in report["figures"])
    print(
        f"{len(report['figures'])} figures, {goals} goals, {len(report['missed'])} missed, "
        f"{len(report['not_measured'])} not measured; {time.monotonic() - began:.0f} s",
        file=sys.stderr,
        flush=True,
    )
    return report


def together(reports: Sequence[Json]) -> Json:
    """The reports, and what came of them all."""
    goals = sum(len(figure["targets"]) for report in reports for figure in report["figures"])
    missed = [f"{report['bench']}: {name}" for report in reports for name in report["missed"]]
    absent = [absent for report in reports for absent in report["not_measured"]]
    return {
        "machine": next((report["machine"] for report in reports if "machine" in report), None),
        "met": goals - len(missed),
        "missed": missed,
        "not_measured": absent,
        "reports": reports,
    }


def show(told: Json) -> None:
    """The table, on standard error."""
    said = [f"\n{heading(told['machine'])}" if told["machine"] else ""]
    for report in told["reports"]:
        shown = [figure for figure in report["figures"] if figure["targets"] or figure["floor"]]
        said += [f"{report['bench']}:", *(f"  {line(figure)}" for figure in shown)]
        said += [f"  {absent['name']}: not measured: {absent['reason']}" for absent in report["not_measured"]]
    counts = f"{len(told['missed'])} missed, {len(told['not_measured'])} things not measured"
    said += [f"\n{told['met']} goals met, {counts}", *(f"missed: {name}" for name in told["missed"])]
    print("\n".join(said), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

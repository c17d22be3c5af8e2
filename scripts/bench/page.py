"""docs/figures.md from the reports in docs/figures/: `python -m scripts.bench.page > docs/figures.md`.

A report is what a benchmark prints: `python -m scripts.bench.log > docs/figures/log.json`. The page shows the figures
that have a goal, beside their floor where they have one, and what a report's `remarks` say; the report has the rest.
`against.json` is what `--against` prints: of its figures those stand here that became better or worse.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "figures"
TITLES = {
    "log": "The log",
    "room": "The room",
    "coordination": "Locks, work and memory",
    "doors_ratio": "Locks over HTTP and MCP, beside a bare server",
    "airspace": "The airspace",
    "graph": "The graph of imports",
    "worktrees": "Worktrees",
    "guard": "The guard",
    "steering": "Inside the turn",
    "commands": "The command line",
    "timeline": "The timeline",
    "memory": "Memory",
    "merge": "Merging",
    "metrics": "Metrics",
    "webhook": "Webhooks",
    "landing": "Landing",
    "fleet": "A fleet",
    "long_life": "A long life",
    "airspace_view": "The page",
    "timeline_view": "The page's timeline",
    "room_view": "The page's first load and its room",
}
ABOUT = """# Figures

How fast relay is, against its goals. A goal missed stands here as missed. The whole reports, with every figure that
has no goal, are in [figures/](figures/).

`.venv/bin/python -m scripts.bench` takes them all: one JSON, one table, what was met and what could not be measured.
It takes long; `--only room guard` takes some, `--quick` only shows that it runs, `--list` names them. Where a figure
has a floor (plain `sqlite3`, a bare aiohttp server, the MCP SDK's own echo, a Python that does nothing), that was
taken by turns with it in the same run, and `ratio` means something on a loud machine too. `--against CHECKOUT` runs
another checkout's relay and this one's by turns, and says what became faster or slower.

To renew this page: `.venv/bin/python -m scripts.bench --renew`, for all or with `--only` for some.

The machine has two cores, and what asks runs on the same two as what answers. The load before a run stands with it: a
run on a busy machine gives upper bounds."""


def table(report: Mapping[str, Any]) -> str:
    """One benchmark's heading, machine, figures with a goal, and remarks."""
    machine = report["machine"]
    lines = [
        f"## {TITLES.get(report['bench'], report['bench'])}",
        "",
        f"`scripts.bench.{report['bench']}`{' --quick' if report['quick'] else ''}, {report['at']}: "
        f"{machine['cpu']}, {machine['cores']} cores; Python {machine['python']}, SQLite {machine['sqlite']}; "
        f"fsync of 4 KiB p50 {machine['fsync']['p50']} ms; load {machine['load_before'][0]}.",
        "",
        "| figure | n | seen | its floor | goal | |",
        "|---|---:|---:|---:|---|---|",
        *(_row(figure) for figure in report["figures"] if figure["targets"]),
    ]
    lines += [
        f"\nNot measured: {absent['name']}: {absent['reason']}." for absent in report.get("not_measured", ())
    ]
    for remark in report.get("remarks", ()):
        lines += ["", remark]
    return "\n".join(lines)


def _row(figure: Mapping[str, Any]) -> str:
    targets = figure["targets"]

    def each(shown: Mapping[str, str]) -> str:
        return ", ".join(f"{'' if key == 'value' else key + ' '}{text}" for key, text in shown.items())

    seen = each({key: f"{figure[key]:,.6g}" for key in targets})
    goals = each({key: target["target"] for key, target in targets.items()})
    met = ", ".join("met" if target["met"] else "**missed**" for target in targets.values())
    floor = f"{figure['floor'].get('p50', figure['floor'].get('value')):,.4g}" if figure.get("floor") else ""
    return f"| {figure['name']}, {figure['unit']} | {figure['n']:,} | {seen} | {floor} | {goals} | {met} |"


def before_and_after(report: Mapping[str, Any]) -> str:
    """Two codes beside each other: what became better or worse by more than a tenth in every round."""
    lines = [
        "## Before and after",
        "",
        f"`scripts.bench --against`, {report['at']}: {report['before'][:12]} and {report['after'][:12]} by turns, "
        f"{report['rounds']} rounds of each, the same benchmarks. {len(report['figures'])} figures were taken; these "
        "are better or worse by more than a tenth in every round. *To the floor*: each beside the floor of its own "
        "round.",
        "",
        "| figure | before | after | times better | to the floor, before | after | |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in report["figures"]:
        if row["verdict"]:
            seen, ratio = row["seen"], row.get("ratio")
            beside = f"{ratio['before']:,.3g} | {ratio['after']:,.3g}" if ratio else " | "
            lines.append(
                f"| {row['bench']}: {row['name']}, {row['unit']} | {seen['before']:,.5g} | {seen['after']:,.5g} "
                f"| {seen['times_better'] or 0:.2f} | {beside} | {row['verdict']} |"
            )
    return "\n".join([*lines, *(f"\n{remark}" for remark in report.get("remarks", ()))])


def page(folder: Path = FOLDER) -> str:
    """The whole page. A report without a title here comes last, under its own name."""
    reports = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    against = reports.pop("against", None)
    order = [*(name for name in TITLES if name in reports), *(name for name in reports if name not in TITLES)]
    parts = [ABOUT, *(table(reports[name]) for name in order)]
    return "\n\n".join([*parts, before_and_after(against)] if against else parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())

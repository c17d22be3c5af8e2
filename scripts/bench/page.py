"""The figures as a page: `python -m scripts.bench.page log.json room.json` prints Markdown for docs/figures.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def table(report: Mapping[str, Any]) -> str:
    """One benchmark's heading, machine and figures."""
    told, fsync = report["machine"], report["machine"]["fsync"]
    lines = [
        f"## `python -m scripts.bench.{report['bench']}`{' --quick' if report['quick'] else ''}, {report['at']}",
        "",
        f"{told['cpu']}, {told['cores']} cores, {told['memory']} of memory; Linux {told['kernel']}; Python "
        f"{told['python']}; SQLite {told['sqlite']}; fsync of 4 KiB: p50 {fsync['p50']} ms, p99 {fsync['p99']} ms; "
        f"load before the run: {told['load_before'][0]}.",
        "",
        "| figure | n | p50 | p95 | p99 | max | target | |",
        "|---|---:|---:|---:|---:|---:|---|---|",
    ]
    return "\n".join([*lines, *(_row(figure) for figure in report["figures"])])


def _row(figure: Mapping[str, Any]) -> str:
    if "value" in figure:
        shown = f"**{figure['value']:,.1f}** | | |"
    else:
        shown = " | ".join(f"{figure[key]:,.2f}" for key in ("p50", "p95", "p99", "max"))
    targets = figure["targets"]
    limits = ", ".join(
        f"{'' if key == 'value' else key + ' '}{one['target']}" for key, one in targets.items()
    )
    met = ", ".join("met" if one["met"] else "**missed**" for one in targets.values())
    note = f" ({figure['note']})" if figure["note"] else ""
    return f"| {figure['name']}, {figure['unit']}{note} | {figure['n']:,} | {shown} | {limits} | {met} |"


def main(paths: Sequence[str]) -> int:
    print("\n\n".join(table(json.loads(Path(path).read_text())) for path in paths))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

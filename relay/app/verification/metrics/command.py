"""`relay metrics`: what came of the work in the room, as figures beside their targets and definitions.

Invariant: it reads the database, whether the room runs or not, and writes nothing. Exit code 0 = done, 1 = there is
no database yet, 2 = wrong use.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import textwrap
from collections.abc import Sequence
from typing import Any

from relay.base.durations import duration
from relay.base.terminal_text import fail
from relay.config.loading import load_for_command
from relay.config.settings import Settings
from relay.store.open import opened_store
from relay.store.ports import StoreMissing
from relay.verification.metrics_reader import MOST_DAYS, MetricReader

Json = dict[str, Any]
#: Columns of a definition.
WIDTH = 100
_MET = {True: "met", False: "missed", None: ""}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=int, metavar="N", help="only the last N days in UTC, today among them")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def run(args: argparse.Namespace) -> int:
    """The command; gives its exit code."""
    if args.days is not None and not 1 <= args.days <= MOST_DAYS:
        return fail(f"--days must be from 1 to {MOST_DAYS}", 2)
    try:
        answer = asyncio.run(_read(load_for_command(args.config), args.days))
    except StoreMissing as missing:
        return fail(f"{missing}; the room has not run yet")
    print(json.dumps(answer) if args.json else _text(answer))
    return 0


async def _read(settings: Settings, days: int | None) -> Json:
    async with opened_store(settings, create=False) as store:
        return await MetricReader(store).now(days)


def _text(answer: Json) -> str:
    rows = [_row(metric) for metric in answer["metrics"]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    window = (
        f"since {answer['since'][:10]}, 00:00 UTC" if answer["since"] else "since the beginning of the log"
    )
    lines = [f"Metrics {window}"]
    for row, metric in zip(rows, answer["metrics"], strict=True):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines += ["", "  ".join(cells).rstrip()]
        lines += textwrap.wrap(metric["definition"], WIDTH, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)


def _row(metric: Json) -> Sequence[str]:
    target = metric["target"]
    wanted = (
        "" if target is None else f"target {_sign(target['sign'])}{shown(target['value'], metric['unit'])}"
    )
    value = "nothing to measure yet" if metric["value"] is None else shown(metric["value"], metric["unit"])
    return (metric["label"], value, wanted, _MET[metric["met"]], f"n = {metric['n']:,} {metric['of']}")


def _sign(sign: str) -> str:
    return "" if sign == "=" else f"{sign} "


def shown(value: float, unit: str) -> str:
    """A figure for people: `3`, `72 %`, `4 min 10 s`, `$0.42`."""
    match unit:
        case "ratio":
            # 999 of 1,000 is not all.
            return f"{min(round(value * 100, 1), 99.9) if value < 1 else 100:g} %"
        case "seconds":
            return f"{value:.2g} s" if value < 10 else duration(value)
        case "usd":
            return f"${value:,.2f}" if value >= 0.1 or not value else f"${value:.4f}"
    return f"{value:,g}"

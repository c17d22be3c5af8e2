"""`relay airspace risk`: the risk of recorded pairs of branches, by one profile.

Invariant: one line out for each line in, in order; the label, where there is one, is never read.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relay.airspace.calibrated import NAME
from relay.airspace.pairs import BadPairs, Sides, read
from relay.airspace.profiles import PROFILES


def add(commands: Any) -> argparse.ArgumentParser:
    """The command's place among `relay airspace ...` (a subparsers action); its `command` is `main`."""
    text = "Print the risk of each recorded pair of branches, a JSON object a line."
    made: argparse.ArgumentParser = commands.add_parser("risk", help=text, description=text)
    made.add_argument("--pairs", type=Path, required=True, metavar="FILE", help="FILE.jsonl or FILE.jsonl.gz")
    made.add_argument("--profile", choices=sorted(PROFILES), default=NAME, help=f"the formula ({NAME})")
    made.set_defaults(command=main)
    return made


def main(args: argparse.Namespace) -> int:
    """Exit code 0; 1 when the file cannot be read, 2 when it is not in the format."""
    try:
        with _uncollected():
            for pair in read(args.pairs):
                risk = _risk(args.profile, pair.full)
                early = None if pair.early is None else _risk(args.profile, pair.early)
                print(json.dumps({"id": pair.id, "risk": risk, "early_risk": early}))
    except BadPairs as error:
        print(f"relay: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        print(f"relay: {args.pairs}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the search for cycles of garbage: records and working sets have none, and to look through them
    again and again is a third of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _risk(profile: str, sides: Sides) -> float:
    return PROFILES[profile].assess(sides.a, sides.b, sides.near).risk

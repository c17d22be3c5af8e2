"""`relay airspace`: the commands that measure code-space without a room.

Invariant: exit code 0 = did it, 1 = could not, 2 = wrong use.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable


def main(words: list[str]) -> int:
    """`relay airspace WORDS...`; gives the exit code."""
    from relay import airspace_risk

    text = "How close agents are in code-space."
    parser = argparse.ArgumentParser(prog="relay airspace", description=text)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    airspace_risk.add(commands)
    args = parser.parse_args(words)
    command: Callable[[argparse.Namespace], int] = args.command
    return command(args)

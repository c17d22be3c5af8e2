"""`relay airspace risk`: the risk of recorded pairs of branches, by one profile.

Invariant: one line out for each line in, in order; the label, where there is one, is never read.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path

from relay.airspace.profiles.calibrated import NAME, PROFILES
from relay.airspace.scan.recorded_pairs import BadPairs, Lines, Sides, lines
from relay.base.gc_pause import held_back

#: Lines that one process works on at once: about half a second of work, beside a second to start it.
_PIECE = 250
#: Lines of output, and what ends them.
Told = tuple[list[str], BadPairs | None]


def arguments(made: argparse.ArgumentParser) -> None:
    """Those of the command; it is `main`."""
    made.add_argument("--pairs", type=Path, required=True, metavar="FILE", help="FILE.jsonl or FILE.jsonl.gz")
    made.add_argument("--profile", choices=sorted(PROFILES), default=NAME, help=f"the formula ({NAME})")
    made.set_defaults(command=main)


def main(args: argparse.Namespace) -> int:
    """Exit code 0; 1 when the file cannot be read, 2 when it is not in the format."""
    try:
        for line, bad in _in_order(lines(args.pairs, _PIECE), partial(_assessed, args.profile)):
            sys.stdout.writelines(line)
            if bad is not None:
                raise bad
    except BadPairs as error:
        print(f"relay: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        print(f"relay: {args.pairs}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


def _in_order(pieces: Iterator[Lines], work: Callable[[Lines], Told]) -> Iterator[Told]:
    """The work on each piece, in their order, on all processors; on this one, when there is one piece alone."""
    waiting = deque(islice(pieces, 2))
    processors = len(os.sched_getaffinity(0))
    if len(waiting) < 2 or processors < 2:
        yield from map(work, chain(waiting, pieces))
        return
    # Each starts anew: a forked process would take threads and locks of this one along.
    with ProcessPoolExecutor(processors, get_context("spawn")) as pool:
        running: deque[Future[Told]] = deque()
        try:
            for piece in chain(waiting, pieces):
                running.append(pool.submit(work, piece))
                if len(running) > 2 * processors:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _assessed(profile: str, piece: Lines) -> Told:
    """A line of output for each pair, and what is wrong with the first that is not in the format."""
    texts: list[str] = []
    try:
        with held_back():
            for pair in piece.pairs():
                risk = _risk(profile, pair.full)
                early = None if pair.early is None else _risk(profile, pair.early)
                texts.append(json.dumps({"id": pair.id, "risk": risk, "early_risk": early}) + "\n")
    except BadPairs as error:
        return texts, error
    return texts, None


def _risk(profile: str, sides: Sides) -> float:
    return PROFILES[profile].assess(sides.a, sides.b, sides.near).risk

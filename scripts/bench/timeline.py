"""The timeline's figures, all of them: `python -m scripts.bench.timeline [--quick] [--events N] [--part NAME ...]`.

Recording (`record`), pages of a large log (`pages`), snapshots of a large checkout (`snapshots`), rewinds (`rewind`),
checking (`verify`), exchange (`sync`, `import`) and clocks (`clocks`). Each stands beside `raw`: plain `sqlite3` or
plain git for the same, in the same run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from scripts.bench import timeline_files, timeline_log, timeline_rewind, timeline_sync
from scripts.bench.figures import Figure, carry_out, options
from scripts.bench.timeline_log import LogSizes

EVENTS = 2_000_000
FULL = LogSizes(EVENTS, 100_000, 20, 20.0, (1_000, 100_000), 200)
QUICK = LogSizes(2_000, 1_000, 3, 1.0, (200,), 5)

Part = Callable[[Path], Iterator[Figure]]


def parts(sizes: LogSizes, quick: bool) -> dict[str, Part]:
    """What is measured, by the name of `--part`, in its order."""
    files, rounds = (400, 3) if quick else (timeline_rewind.FILES, 50)
    return {
        "record": lambda folder: timeline_log.record(folder, sizes),
        "pages": lambda folder: timeline_log.pages(folder, sizes),
        "snapshots": lambda folder: timeline_files.snapshots(folder, files, rounds),
        "rewind": lambda folder: timeline_rewind.measure(folder, quick),
        "verify": lambda folder: timeline_log.verifies(folder, sizes),
        "sync": lambda folder: timeline_sync.exchanges(folder, *((50, 1) if quick else (1_000, 10))),
        "import": lambda folder: timeline_sync.imports(folder, *((2, 100) if quick else (10, 10_000))),
        "clocks": lambda folder: timeline_log.clocks(sizes),
    }


def measure(folder: Path, chosen: Sequence[tuple[str, Part]]) -> Iterator[Figure]:
    """The figures of each part, with the load at its beginning and its end."""
    for name, part in chosen:
        place = folder / name
        place.mkdir()
        load = os.getloadavg()[0]
        for figure in part(place):
            about = f"load {load:.1f} at first, {os.getloadavg()[0]:.1f} at last"
            yield replace(figure, note=f"{figure.note}; {about}" if figure.note else about)


def main() -> int:
    parser = options("timeline", "What the timeline costs.")
    known = parts(QUICK, True)
    parser.add_argument(
        "--events", type=int, default=0, help=f"events of the log that pages are read of ({EVENTS:,})"
    )
    parser.add_argument(
        "--part", action="append", choices=tuple(known), default=[], help="only this (again for more)"
    )
    args = parser.parse_args()
    sizes = QUICK if args.quick else FULL
    if args.events:
        sizes = replace(sizes, events=args.events)
    every = parts(sizes, args.quick)
    chosen = [(name, part) for name, part in every.items() if not args.part or name in args.part]
    return carry_out("timeline", lambda folder: measure(folder, chosen), args)


if __name__ == "__main__":
    sys.exit(main())

"""How a run of the swarm went, and both side by side.

Invariant: a figure that is not good stands in the table like one that is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from relay.app.demo.swarm.codebase import Item
from relay.app.demo.swarm.found import Found


@dataclass(frozen=True, slots=True)
class Plan:
    """What both runs have in common. `pace_s`: the seconds that each file of an item takes; `machines`: over how
    many relays the workers are spread."""

    items: tuple[Item, ...]
    agents: tuple[str, ...]
    people: tuple[str, ...]
    pace_s: float
    machines: int = 1

    @property
    def workers(self) -> tuple[str, ...]:
        return (*self.agents, *self.people)


@dataclass(slots=True)
class Ran:
    """A run. `tried`: the merges that were tried. Seconds of all workers together: `worked_s` at work, `lock_s` held
    back since nothing was free to be taken, `landing_s` until what was done was on main (with relay: tested before),
    `told_s` answering advisories. With relay: `put_out` branches that the queue sent back, `again` items
    that were done anew since their branch had left the queue, `batches` that it tested,
    `advisories` that were said, `without_worktree` turns that could not work. `cpu_s`: processor time of all that was
    started, the room and the counting among it."""

    relay: bool
    seconds: float
    found: Found
    tried: int
    worked_s: float = 0.0
    lock_s: float = 0.0
    landing_s: float = 0.0
    told_s: float = 0.0
    advisories: int = 0
    put_out: int = 0
    again: int = 0
    batches: int = 0
    without_worktree: int = 0
    cpu_s: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def went_well(with_it: Ran, count: int) -> bool:
    """With relay nothing conflicts, everything lands and the tests pass. Of the run without it nothing is asked."""
    found = with_it.found
    return found.conflicts == 0 and len(found.landed) == count and found.green


def table(ran: Sequence[Ran], items: int, workers: int) -> list[str]:
    """The runs side by side, as lines."""
    cells: dict[str, Callable[[Ran], str]] = {
        "merge conflicts": lambda each: f"{each.found.conflicts} in {each.tried} merges",
        "work on main": lambda each: f"{len(each.found.landed)} of {items} items",
        "work lost": lambda each: f"{len(each.found.lost)} items" if each.found.lost else "none",
        "tests of main": lambda each: "pass" if each.found.green else f"FAIL ({each.found.said})",
        "time": lambda each: clock(each.seconds),
        "of it, each worker on average": lambda each: "",
        "  at work": lambda each: clock(each.worked_s / workers),
        "  waits for files that others hold": lambda each: clock(each.lock_s / workers),
        "  waits until its work is on main": lambda each: clock(each.landing_s / workers),
        "  answers advisories": lambda each: clock(each.told_s / workers),
        "processor time of all": lambda each: clock(each.cpu_s),
    }
    rows = [("", *("with relay" if each.relay else "without relay" for each in ran))]
    rows += [(label, *(cell(each) for each in ran)) for label, cell in cells.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return ["   ".join(row).rstrip() for row in padded]


def meaning(ran: Sequence[Ran], items: int, workers: int) -> list[str]:
    """What the table says, in sentences."""
    with_it = ran[0]
    batches, back = f"{with_it.batches} batches", _times(with_it.put_out, "branch", "branches")
    lines = [
        f"With relay {len(with_it.found.landed)} of {items} items are on main; the queue tested {batches}, and sent "
        f"{back} back."
    ]
    if with_it.without_worktree:
        turns = _times(with_it.without_worktree, "turn", "turns")
        lines.append(f"relay could give {turns} no worktree; it was asked for again.")
    for without in ran[1:]:
        lost = len(without.found.lost)
        lines.append(
            f"Without it {_times(without.found.conflicts, 'merge', 'merges')} conflicted. Whoever meets a conflict "
            f"gives its merge up, so {_times(lost, 'item is', 'items are')} lost and would have to be done again."
        )
        if not without.found.green:
            lines.append("And main is red: branches that git merges without a word do not go together.")
        price = (with_it.lock_s + with_it.landing_s + with_it.told_s - without.landing_s) / workers
        lines.append(
            f"The price is waiting: {clock(price)} for each of the {workers} workers, where an item is some "
            f"{clock(with_it.worked_s / items)} of work."
        )
    return lines


def _times(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def clock(seconds: float) -> str:
    """`3.2 s`, `47 s`, `4 min 05 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02} s"

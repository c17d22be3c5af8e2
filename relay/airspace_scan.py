"""`relay airspace scan`: who is near whom, from a scenario.

Invariant: exit code 0 = the answer is on standard output, 1 = the file cannot be read, 2 = wrong use or a
scenario that makes no sense; then standard error names what is wrong, and standard output is empty.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from relay.airspace import scenario
from relay.airspace.embedding import Embedding, Placement
from relay.airspace.formulas import FORMULAS
from relay.airspace.reading import Level
from relay.airspace.right_of_way import right_of_way
from relay.airspace.scan import Airspace, Link, Profile, Scan
from relay.airspace.scenario import Scenario, ScenarioError
from relay.airspace.sky import counts_json, link_json
from relay.airspace.working_set import WorkingSet
from relay.plain import safe, safe_line


def profiles() -> Mapping[str, Profile]:
    """The profiles that can be asked for, by name."""
    return FORMULAS


def run(args: argparse.Namespace) -> int:
    """The command; gives its exit code."""
    profile = profiles().get(args.profile)
    if profile is None:
        return _fail(f"there is no profile {args.profile}; choose one of {', '.join(sorted(profiles()))}", 2)
    try:
        text = sys.stdin.read() if args.scenario == "-" else Path(args.scenario).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        return _fail(f"{args.scenario} cannot be read: {reason}", 1)
    try:
        read = scenario.read(json.loads(text))
    except ValueError as error:
        return _fail(f"{args.scenario} is not JSON: {error}", 2)
    except ScenarioError as error:
        return _fail(f"{args.scenario}: {error}", 2)
    scan, placed = scanned(read, profile)
    if args.json:
        print(json.dumps(as_json(read, scan, placed), indent=2))
    else:
        show(scan, Console(highlight=False))
    return 0


def _fail(text: str, code: int) -> int:
    print(f"relay: {safe(text)}", file=sys.stderr)
    return code


def scanned(read: Scenario, profile: Profile) -> tuple[Scan, Placement]:
    """All pairs of the scenario, and where everybody is."""
    space = Airspace()
    space.set_graph(read.adjacency)
    for agent in read.agents:
        space.update(agent)
    scan = space.scan(profile)
    return scan, Embedding().place(space.working_sets(), scan.links, space.graph)


def as_json(read: Scenario, scan: Scan, placed: Placement) -> dict[str, Any]:
    """As docs/airspace.md has it."""
    agents = {one.agent: one for one in read.agents}
    return {
        "advisories": [
            advisory(link, agents[link.a], agents[link.b])
            for link in scan.links
            if link.level is not Level.CLEAR
        ],
        "links": [link_json((link.a, link.b), link.assessment, link.level) for link in scan.links],
        "positions": {name: list(at) for name, at in placed.positions.items()},
        "fileCoordinates": {path: list(at) for path, at in placed.files.items()},
        "counts": _counts(scan, len(placed.files)),
    }


def advisory(link: Link, a: WorkingSet, b: WorkingSet) -> dict[str, Any]:
    """What the two are told (000, section 3): both transmit their intent, and at a resolution advisory the one
    with the lower right-of-way steers, the other holds."""
    hold, steer = right_of_way(a, b)
    resolution = link.level is Level.RESOLUTION
    said = (
        f"HOLD: {_worked(hold)}, STEER: {_worked(steer)}" if resolution else f"TRANSMIT: {link.a}, {link.b}"
    )
    return {
        "agents": [link.a, link.b],
        "a": link.a,
        "b": link.b,
        "risk": round(link.risk, 6),
        "level": link.level.word,
        "transmit": [link.a, link.b],
        "steer": [steer.agent] if resolution else [],
        "hold": [hold.agent] if resolution else [],
        "reason": said,
        "evidence": [one.as_json() for one in link.assessment.evidence],
    }


def _counts(scan: Scan, files: int) -> dict[str, int]:
    return counts_json(len(scan.agents), {(one.a, one.b): one.level for one in scan.links}, files)


def _worked(agent: WorkingSet) -> str:
    return f"{agent.agent} (work {agent.committed:g})"


def show(scan: Scan, console: Console) -> None:
    """A table for people, the nearest pair first."""
    counts = _counts(scan, 0)
    table = Table(box=None, pad_edge=False)
    for column in ("pair", "risk", "level", "why"):
        table.add_column(column, no_wrap=column != "why", justify="right" if column == "risk" else "left")
    for link in scan.links:
        why = link.assessment.evidence
        table.add_row(
            Text(safe_line(f"{link.a} - {link.b}")),
            f"{link.risk:.3f}",
            link.level.word,
            Text(safe_line(why[0].text) if why else ""),
        )
    if scan.links:
        console.print(table)
    console.print(
        f"{counts['agents']} agents, {counts['pairs']} pairs by profile {scan.profile}: "
        f"{counts['resolution']} resolution, {counts['advisory']} advisory, {counts['clear']} clear."
    )

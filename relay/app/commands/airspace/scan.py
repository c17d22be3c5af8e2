"""`relay airspace scan`: who is near whom, in a scenario or in a repository's real worktrees.

Invariant: exit code 0 = the answer is on standard output, 1 = the file cannot be read, 2 = wrong use or a
scenario that makes no sense; then standard error names what is wrong, and standard output is empty.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from relay.airspace.advisories.rules.right_of_way import right_of_way
from relay.airspace.live.embedding import Embedding, Placement
from relay.airspace.live.graph_keeper import outline
from relay.airspace.live.picture import counts_json, link_json
from relay.airspace.profiles.calibrated import NAME, PROFILES
from relay.airspace.profiles.formulas import Profile
from relay.airspace.readings import Level
from relay.airspace.scan import scenario
from relay.airspace.scan.scan import Link, PairScan, Scan
from relay.airspace.scan.scenario import ScenarioError
from relay.airspace.scan.symbol_hazards import SymbolFacts
from relay.airspace.worktrees.registry import scan_repo
from relay.app.wiring.merge_tools import JoiningRoom, MergeTools
from relay.base.terminal_text import fail, safe_line
from relay.code.build.listing import ListingError, listed, read_file, wanted
from relay.code.code_graph import graph_of
from relay.config.merge import MergeSettings
from relay.git.checkout import UnusableCheckout, open_checkout
from relay.git.run import GitError
from relay.git.trial_merge import JoinedFile, Merge
from relay.model.working_set import WorkingSet


def arguments(made: argparse.ArgumentParser) -> None:
    """Those of the command; it is `run`."""
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument("--scenario", metavar="FILE", help="agents and graph as JSON; - reads standard input")
    what.add_argument("--repo", metavar="DIR", type=Path, help="the real worktrees of a git repository")
    made.add_argument("--profile", choices=list(PROFILES), default=NAME, help=f"the formula ({NAME})")
    made.add_argument("--json", action="store_true", help="print the whole answer as JSON")
    made.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """The command; gives its exit code."""
    profile = PROFILES[args.profile]
    if args.repo is not None:
        return _scan_repo(args.repo, profile, as_json_text=args.json)
    try:
        text = sys.stdin.read() if args.scenario == "-" else Path(args.scenario).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        return fail(f"{args.scenario} cannot be read: {reason}", 1)
    try:
        tree = json.loads(text)
        read = scenario.read(tree)
    except (ValueError, RecursionError) as error:
        return fail(f"{args.scenario} is not JSON: {error}", 2)
    except ScenarioError as error:
        return fail(f"{args.scenario}: {error}", 2)
    for key in scenario.unknown(tree)[:20]:
        print(f"relay: {safe_line(key)} is not a key of a scenario, and was ignored", file=sys.stderr)
    space = PairScan()
    space.set_graph(read.adjacency)
    return _tell(read.agents, space, profile, {}, None, {}, as_json_text=args.json)


def _scan_repo(folder: Path, profile: Profile, *, as_json_text: bool) -> int:
    """All worktrees of the repository, as they stand, over the graph of its main checkout."""
    try:
        sets, merges = asyncio.run(_scanned(folder))
        top = asyncio.run(open_checkout(folder)).top
        graph = graph_of(
            (path, data)
            for path in listed(top)
            if wanted(path) and (data := read_file(top, path)) is not None
        )
    except (UnusableCheckout, GitError, ListingError, OSError) as error:
        return fail(f"{folder} cannot be scanned: {error}", 1)
    # As in the live scan: an agent without changes cannot collide.
    busy = {work.agent for work in sets if work.files}
    joined = {pair: merge.joined for pair, merge in sorted(merges.items()) if merge.joined}
    conflicts = {pair: merge.conflicts for pair, merge in sorted(merges.items()) if merge.conflicts}
    merges = {pair: merge for pair, merge in merges.items() if set(pair) <= busy}
    space = PairScan()
    space.set_graph(graph.adjacency())
    space.set_symbols(SymbolFacts(graph))
    return _tell(sets, space, profile, merges, conflicts, joined, as_json_text=as_json_text)


async def _scanned(folder: Path) -> tuple[list[WorkingSet], dict[tuple[str, str], Merge]]:
    tools = MergeTools(MergeSettings)
    try:
        return await scan_repo(folder, JoiningRoom(tools), outline=outline)
    finally:
        await tools.close()


def _tell(
    agents: Sequence[WorkingSet],
    space: PairScan,
    profile: Profile,
    merges: Mapping[tuple[str, str], Merge],
    conflicts: Mapping[tuple[str, str], Sequence[str]] | None,
    joined: Mapping[tuple[str, str], Sequence[JoinedFile]],
    *,
    as_json_text: bool,
) -> int:
    for agent in agents:
        space.update(agent)
    scan = space.scan(profile, merges)
    if as_json_text:
        placed = Embedding().place(space.working_sets(), scan.links, space.graph)
        result = as_json(agents, scan, placed)
        if conflicts is not None:
            result["conflicts"] = [
                {"a": a, "b": b, "paths": list(paths)} for (a, b), paths in conflicts.items()
            ]
            result["joins"] = [
                {"a": a, "b": b, "files": [file.as_json() for file in files]}
                for (a, b), files in joined.items()
            ]
        print(json.dumps(result))
    else:
        show(scan, Console(highlight=False))
        for (a, b), paths in (conflicts or {}).items():
            print(safe_line(f"git cannot merge {a} and {b}: {', '.join(paths)}"))
        for (a, b), files in joined.items():
            names = ", ".join(map(str, files))
            print(safe_line(f"git alone cannot merge {a} and {b}; relay joins {names}"))
    return 0


def as_json(sets: Sequence[WorkingSet], scan: Scan, placed: Placement) -> dict[str, Any]:
    """As docs/airspace.md has it."""
    agents = {work.agent: work for work in sets}
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
    reason = (
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
        "reason": reason,
        "evidence": [item.as_json() for item in link.assessment.evidence],
    }


def _counts(scan: Scan, files: int) -> dict[str, int]:
    return counts_json(len(scan.agents), {(link.a, link.b): link.level for link in scan.links}, files)


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

"""The airspace's figures: what a scan costs, what it costs after one change, how it grows, and how true its
picture is.

Repositories are made up, by a fixed seed. The picture is measured on real pairs of branches, where they are at
hand: `RELAY_MERGES` names the file, else ../shared/data/merges-train.jsonl.gz beside the repository.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from relay.airspace.live.embedding import Embedding, Placement, majorized, plain, wanted
from relay.airspace.profiles.calibrated import PROFILES
from relay.airspace.profiles.formulas import Profile
from relay.airspace.scan.import_distances import Dependencies, Floats
from relay.airspace.scan.scan import Link, PairScan
from relay.model.working_set import Change, FileTouch, Span, WorkingSet
from scripts.bench.figures import Figure, at_least, at_most, run, single, spread

FLOOR = 0.05
#: The live scan of a thousand agents counts imports this far (`PairScan(reach=...)`).
REACH = 6
MERGES = Path(__file__).parents[3] / "shared" / "data" / "merges-train.jsonl.gz"
Adjacency = Mapping[str, Sequence[str]]


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    yield from room(quick)
    yield from crowds(quick)
    yield from picture(quick)


def asked(profile: Profile) -> Profile:
    """The same profile as another object: the scan has nothing of it yet, and assesses every pair."""
    return Profile(profile.name, profile.thresholds, profile.assess)


@dataclass(slots=True)
class Clock:
    """Samples of one thing, in seconds: by the wall, and of the processor."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @contextmanager
    def sample(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.thread_time()
        yield
        self.cpu.append(time.thread_time() - cpu)
        self.wall.append(time.perf_counter() - wall)

    def figure(self, name: str, limit_ms: float | None, note: str) -> Figure:
        cpu = float(np.median(self.cpu)) * 1000
        limits = None if limit_ms is None else at_most(p50=limit_ms)
        return spread(name, self.wall, limits=limits, note=f"{note}; processor time p50 {cpu:.2f} ms")


# -- 50 agents in one room


def room(quick: bool) -> Iterator[Figure]:
    """50 agents x 40 files anywhere in a repository of 5,000 files and 15,000 imports: all touch all."""
    agents, files, edges, times = (10, 500, 1_500, 5) if quick else (50, 5_000, 15_000, 60)
    chance = random.Random(1)
    paths = [f"src/part{at % 50}/unit{at % 7}/f{at}.py" for at in range(files)]
    adjacency: dict[str, list[str]] = defaultdict(list)
    for _ in range(edges):
        adjacency[chance.choice(paths)].append(chance.choice(paths))
    size = f"{agents} agents x 40 files, {files:,} files, {edges:,} imports"
    sets = [working(f"A{at:03}", chance.sample(paths, 40), chance) for at in range(agents)]
    building, searching = Clock(), Clock()
    for _ in range(2 if quick else 5):
        space = PairScan(floor=FLOOR)
        with building.sample():
            space.set_graph(adjacency)
        for working_set in sets:
            space.update(working_set)
        space.graph.neighbours(paths[0])
        with searching.sample():
            space.near("A000", "A001")
    yield building.figure("room: graph taken in", None, size)
    yield searching.figure("room: distances searched, all agents", None, f"{size}; once, then kept")
    for name, profile in sorted(PROFILES.items()):
        yield from changes(name, profile, space, sets, paths, chance, times, size)
    yield from placing("room", space, sets, size, times)


def changes(
    name: str,
    profile: Profile,
    space: PairScan,
    sets: list[WorkingSet],
    paths: Sequence[str],
    chance: random.Random,
    times: int,
    size: str,
) -> Iterator[Figure]:
    full = Clock()
    for _ in range(times):
        with full.sample():
            result = space.scan(asked(profile))
    note = f"{size}; {result.looked_at} pairs touch, {len(result.links)} links"
    yield full.figure(f"room: full scan, distances warm, {name}", 30.0, note)
    space.scan(profile)

    def edited(working_set: WorkingSet) -> WorkingSet:
        lines = (Span(first := chance.randint(1, 400), first + chance.randint(0, 20)),)
        return replace(
            working_set, files=(replace(working_set.files[0], lines=lines), *working_set.files[1:])
        )

    def further(working_set: WorkingSet) -> WorkingSet:
        taken = {file.path for file in working_set.files}
        path = next(path for path in iter(lambda: chance.choice(paths), "") if path not in taken)
        return replace(working_set, files=(*working_set.files[1:], replace(working_set.files[0], path=path)))

    def elsewhere(working_set: WorkingSet) -> WorkingSet:
        return working(working_set.agent, chance.sample(paths, 40), chance)

    for what, change in (("edits a file", edited), ("another file", further), ("40 other files", elsewhere)):
        clock = Clock()
        for at in range(times):
            which = at % len(sets)
            sets[which] = change(sets[which])
            space.update(sets[which])
            with clock.sample():
                space.scan(profile)
        yield clock.figure(f"room: one agent, {what}, {name}", 3.0, size)
    clock = Clock()
    for at in range(max(3, times // 4)):
        for working_set in sets:
            space.update(older(working_set, 0.999**at))
        with clock.sample():
            space.scan(profile)
    yield clock.figure(f"room: all weights decayed, {name}", 30.0, size)


def older(working_set: WorkingSet, by: float) -> WorkingSet:
    return replace(
        working_set, files=tuple(replace(file, weight=file.weight * by) for file in working_set.files)
    )


def working(name: str, paths: Sequence[str], chance: random.Random) -> WorkingSet:
    """Three hunks in each file, and any weight that recency gives."""
    return WorkingSet(
        name,
        tuple(
            FileTouch(
                path,
                lines=tuple(
                    Span(s, s + chance.randint(0, 20)) for s in sorted(chance.sample(range(1, 400), 3))
                ),
                weight=chance.uniform(0.15, 1.0),
                length=450,
            )
            for path in paths
        ),
    )


def placing(
    what: str, space: PairScan, sets: Sequence[WorkingSet], size: str, times: int
) -> Iterator[Figure]:
    first, then = Clock(), Clock()
    profile = PROFILES["seed"]
    links = space.scan(profile).links
    for _ in range(max(2, times // 10)):
        embedding = Embedding()
        with first.sample():
            embedding.place(sets, links, space.graph)
    for at in range(max(2, times // 10)):
        space.update(older(sets[at], 0.5))
        links = space.scan(profile).links
        with then.sample():
            embedding.place(space.working_sets(), links, space.graph)
    yield first.figure(f"{what}: positions, first", None, size)
    yield then.figure(f"{what}: positions, after one change", None, size)


# -- crowds


def crowds(quick: bool) -> Iterator[Figure]:
    """The same density of agents in ever greater repositories: the pairs that touch grow with the agents, all
    pairs with their square."""
    for agents in (20, 40) if quick else (250, 500, 1_000):
        yield from crowd(agents, 2 if quick else 5, last=agents == 1_000)


def crowd(agents: int, times: int, *, last: bool) -> Iterator[Figure]:
    """An area of 250 files for every 5 agents; one import in 25 leads to the next area."""
    chance = random.Random(agents)
    areas = max(2, agents // 5)
    paths = [[f"area{area}/part{at % 10}/f{at}.py" for at in range(250)] for area in range(areas)]
    adjacency: dict[str, list[str]] = defaultdict(list)
    for area, inside in enumerate(paths):
        for _ in range(750):
            far = paths[(area + 1) % areas] if chance.random() < 1 / 25 else inside
            adjacency[chance.choice(inside)].append(chance.choice(far))
    sets = [working(f"A{at:04}", chance.sample(paths[at % areas], 40), chance) for at in range(agents)]
    space = PairScan(floor=FLOOR, reach=REACH)
    space.set_graph(adjacency)
    for working_set in sets:
        space.update(working_set)
    size = f"{agents:,} agents x 40 files, {areas * 250:,} files, {areas * 750:,} imports"
    building = Clock()
    with building.sample():
        space.near("A0000", "A0001")
    yield building.figure(f"crowd of {agents:,}: all taken in, distances searched", None, f"{size}; once")
    for name, profile in sorted(PROFILES.items()):
        full = Clock()
        for _ in range(times):
            with full.sample():
                result = space.scan(asked(profile))
            pairs = agents * (agents - 1) // 2
        per = float(np.median(full.wall)) / max(1, result.looked_at) * 1e6
        note = (
            f"{size}; {result.looked_at:,} of {pairs:,} pairs touch, {per:.1f} us for each; "
            f"{len(result.links):,} links"
        )
        yield full.figure(f"crowd of {agents:,}: full scan, {name}", 2_000.0 if last else None, note)
    edits = Clock()
    profile = PROFILES["seed"]
    space.scan(profile)
    for at in range(times):
        space.update(working(sets[at].agent, [file.path for file in sets[at].files], chance))
        with edits.sample():
            space.scan(profile)
    yield edits.figure(f"crowd of {agents:,}: one agent edits its files, seed", None, size)
    yield from placing(f"crowd of {agents:,}", space, sets, size, 20)


# -- the picture


def picture(quick: bool) -> Iterator[Figure]:
    """Spearman's correlation of distance in the view and D, on agents from real branches of one time."""
    path = Path(os.environ.get("RELAY_MERGES", MERGES))
    if not path.exists():
        print(
            f"the picture is not measured: there is no {path}; RELAY_MERGES names the pairs", file=sys.stderr
        )
        return
    rooms = list(real_rooms(path, 2 if quick else 9))
    for name, profile in sorted(PROFILES.items()):
        correlations_by_way: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for repository, sets, adjacency in rooms:
            for how, value in correlations(sets, adjacency, profile, 3 if quick else 20).items():
                correlations_by_way[how][repository].append(value)
        for how in ("plain embedding of the source", "ours", "ceiling: free positions, best of many"):
            mine = correlations_by_way[how]
            each = {repository: round(float(np.mean(values)), 2) for repository, values in mine.items()}
            values = [value for each_repository in mine.values() for value in each_repository]
            yield single(
                f"picture: Spearman with D, {name}, {how}",
                float(np.mean(values)) if values else 0.0,
                "rho",
                n=len(values),
                limits=at_least(0.70) if how == "ours" else None,
                note=f"least {min(values, default=0.0):.2f}, below 0.70: {sum(rho < 0.70 for rho in values)}; {each}",
            )


def real_rooms(path: Path, each: int) -> Iterator[tuple[str, list[WorkingSet], Adjacency]]:
    """Rooms of 8, 16 and 30 agents: the sides of pairs that follow each other in the file, so in time."""
    records: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with gzip.open(path, "rt") as file:
        for line in file:
            record = json.loads(line)
            if record["kind"] == "pair":
                records[record["repo"]].append(record)
    for repository, pairs in sorted(records.items()):
        for at in range(each):
            room = real_room(pairs[int(len(pairs) * (at + 0.5) / each) :], (8, 16, 30)[at % 3])
            if len(room[0]) >= 8:
                yield repository, *room


def real_room(records: Sequence[dict[str, Any]], size: int) -> tuple[list[WorkingSet], Adjacency]:
    sides: dict[str, Any] = {}
    adjacency: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if len(sides) >= size:
            break
        for side in (record["a"], record["b"]):
            # One branch is in several pairs, on other bases: its paths tell it.
            sides.setdefault(json.dumps([file["path"] for file in side["files"]]), side)
        for importer, imported in record["graph"]:
            adjacency[importer].add(imported)
    sets = [WorkingSet(f"A{at:02}", touches(side)) for at, side in enumerate(list(sides.values())[:size])]
    return sets, {path: sorted(imported) for path, imported in adjacency.items()}


def touches(side: Mapping[str, Any]) -> tuple[FileTouch, ...]:
    letters = {change.value for change in Change}
    return tuple(
        FileTouch(
            file["path"],
            Change(file["st"]) if file["st"] in letters else Change.MODIFIED,
            tuple(Span(start, end) for start, end in file["lines"]),
            new_path=file.get("new"),
            churn=file.get("c"),
            length=file.get("len"),
        )
        for file in side["files"]
    )


def correlations(
    sets: Sequence[WorkingSet], adjacency: Adjacency, profile: Profile, starts: int
) -> dict[str, float]:
    """By way of placing; nothing where all D are equal and no order can be told."""
    space = PairScan()
    space.set_graph(adjacency)
    for working_set in sets:
        space.update(working_set)
    links = space.scan(profile).links
    apart = distances(links, [working_set.agent for working_set in sets])
    upper = np.triu_indices(len(sets), 1)
    if len(np.unique(apart[upper])) < 2:
        return {}

    def rho(at: Floats) -> float:
        drawn = np.sqrt(((at[:, None] - at) ** 2).sum(axis=2))[upper]
        return float(np.corrcoef(ranks(drawn), ranks(apart[upper]))[0, 1])

    def of(placed: Placement) -> float:
        return rho(np.array([placed.positions[working_set.agent] for working_set in sets]))

    chance = np.random.default_rng(0)
    free = [
        rho(majorized(wanted(apart), chance.normal(size=(len(sets), 3)), np.zeros(len(sets))))
        for _ in range(starts)
    ]
    graph: Dependencies = space.graph
    return {
        "plain embedding of the source": of(plain(sets, graph)),
        "ours": of(Embedding().place(sets, links, graph)),
        "ceiling: free positions, best of many": max(free),
    }


def distances(links: Sequence[Link], names: Sequence[str]) -> Floats:
    row = {name: at for at, name in enumerate(names)}
    apart = np.ones((len(names), len(names)))
    for link in links:
        distance = round(link.assessment.distance, 6)
        apart[row[link.a], row[link.b]] = apart[row[link.b], row[link.a]] = distance
    return apart


def ranks(values: Floats) -> Floats:
    """Equal values have the mean of their ranks; to nine decimals, so that rounding makes no order."""
    _, which, counts = np.unique(np.round(values, 9), return_inverse=True, return_counts=True)
    mean_ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[which]
    return mean_ranks


if __name__ == "__main__":
    sys.exit(run("airspace", measure, (__doc__ or "").partition("\n")[0]))

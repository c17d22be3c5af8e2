"""What the scan must come to, computed the slow and plain way: one breadth-first search for each pair of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relay.airspace.pair_facts import PairFacts
from relay.model.working_set import FileTouch, WorkingSet

Graph = Mapping[str, Sequence[str]]


def distance(graph: Graph, start: str, goal: str, *, directed: bool) -> int | None:
    """Hops from start to goal, along imports or both ways; None: no way."""
    seen, level, hops = {start}, [start], 0
    while level:
        if goal in level:
            return hops
        hops += 1
        after = []
        for path in level:
            ends = list(graph.get(path, ()))
            if not directed:
                ends += [one for one, imported in graph.items() if path in imported]
            for end in ends:
                if end not in seen:
                    seen.add(end)
                    after.append(end)
        level = after
    return None


def weights(working: WorkingSet) -> dict[str, float]:
    found: dict[str, float] = {}
    for file in working.files:
        for path in file.paths:
            found[path] = max(found.get(path, 0.0), file.weight)
    return found


def dependency(a: WorkingSet, b: WorkingSet, graph: Graph, *, directed: bool, limit: int | None) -> float:
    """Equations 4 and 5."""
    best = 0.0
    for f, w_f in weights(a).items():
        for g, w_g in weights(b).items():
            ways = [distance(graph, f, g, directed=directed)]
            if directed:
                ways.append(distance(graph, g, f, directed=True))
            hops = min((one for one in ways if one is not None), default=None)
            if hops is None or hops == 0 or (limit is not None and hops > limit):
                continue
            best = max(best, w_f * w_g * 0.5 ** (hops - 1))
    return best


def tree(a: WorkingSet, b: WorkingSet) -> float:
    """Equation 6."""
    least = 1.0
    for f in weights(a):
        for g in weights(b):
            one, two = f.split("/"), g.split("/")
            common = 0
            while common < min(len(one), len(two)) and one[common] == two[common]:
                common += 1
            far = (len(one) - common) + (len(two) - common)
            least = min(least, far / (len(one) + len(two)))
    return 1.0 - least


def covered(file: FileTouch) -> set[int] | None:
    if not file.lines:
        return None
    return {line for span in file.lines for line in range(span.start, span.end + 1)}


def by_path(working: WorkingSet) -> dict[str, tuple[set[int] | None, float]]:
    found: dict[str, tuple[set[int] | None, float]] = {}
    for file in working.files:
        for path in file.paths:
            lines = covered(file) if path == file.path else None
            if path in found:
                other = found[path][0]
                lines = None if lines is None or other is None else lines | other
            found[path] = (lines, weights(working)[path])
    return found


def overlap_seed(a: WorkingSet, b: WorkingSet) -> float:
    """Equation 3."""
    mine, theirs = by_path(a), by_path(b)
    union = mine.keys() | theirs.keys()
    if not union:
        return 0.0
    best = len(mine.keys() & theirs.keys()) / len(union)
    for path in mine.keys() & theirs.keys():
        one, two = mine[path][0], theirs[path][0]
        if one is None or two is None:
            best = 1.0
        elif one | two:
            best = max(best, len(one & two) / len(one | two))
    return best


def overlap_coefficient(a: WorkingSet, b: WorkingSet) -> float:
    mine, theirs = by_path(a), by_path(b)
    best = 0.0
    for path in mine.keys() & theirs.keys():
        (one, w_a), (two, w_b) = mine[path], theirs[path]
        part = 1.0
        if one is not None and two is not None:
            part = len(one & two) / min(len(one), len(two)) if one and two else 0.0
        best = max(best, w_a * w_b * part)
    return best


def channels(profile: str, a: WorkingSet, b: WorkingSet, graph: Graph) -> dict[str, float]:
    if profile == "seed":
        return {
            "overlap": overlap_seed(a, b),
            "dependency": dependency(a, b, graph, directed=False, limit=None),
            "tree": tree(a, b),
        }
    return {
        "overlap": overlap_coefficient(a, b),
        "dependency": dependency(a, b, graph, directed=True, limit=6),
        "tree": tree(a, b),
    }


def near(a: WorkingSet, b: WorkingSet, graph: Graph, reach: int | None = None) -> tuple[float, float, float]:
    """The facts a profile reads of a pair: both kinds of dependency, and the tree."""
    return (
        dependency(a, b, graph, directed=False, limit=reach),
        dependency(a, b, graph, directed=True, limit=6),
        tree(a, b),
    )


def read(near: PairFacts) -> tuple[float, float, float]:
    """The same of what the scan gathered."""
    return (
        near.coupling.share if near.coupling else 0.0,
        near.directed.share if near.directed else 0.0,
        near.tree,
    )


def risk(channels: Mapping[str, float]) -> float:
    """Equation 2, with the weights of section 2."""
    rest = 1.0
    for name, weight in (("overlap", 1.0), ("dependency", 0.9), ("tree", 0.25)):
        rest *= 1.0 - weight * channels[name]
    return 1.0 - rest


def level(risk: float) -> str:
    return "resolution" if risk >= 0.70 else "advisory" if risk >= 0.35 else "clear"

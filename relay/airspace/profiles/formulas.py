"""The source's formulas: `seed`, the document to the letter, and `coefficient`, the origin's later form.

Invariant: every number here stands in 000, sections 2 and 3, or in the issue "The airspace"; nothing is fitted.
Pure and symmetric: what lies between the sets (distances, nearness in the tree) comes in as a `PairFacts`.

Where the document leaves a choice:
- Line ranges are inclusive; overlapping and unsorted ones are merged first. An insertion (end = start - 1)
  covers no line of the base: it overlaps nothing line by line, while its file still counts as shared.
- A file without ranges is the whole file, and a whole file overlaps with whatever the other side does in it:
  1, as in the origin's library, and whatever its length, which is mostly not known.
- A rename touches both its paths; the new one is a whole file.
- Intent is in no equation, so neither form reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from relay.airspace.identity_cache import IdentityCache
from relay.airspace.pair_facts import Coupling, PairFacts
from relay.airspace.readings import Assessment, Evidence, LazyReadings, Reading, Thresholds, assess_shares
from relay.model.working_set import FileTouch, Span, WorkingSet, joined

#: Channel weights of equation 2 (000, the issue's "The metric").
OVERLAP = 1.0
DEPENDENCY = 0.9
TREE = 0.25
#: The bands of section 3: TA 0.35, RA 0.70.
THRESHOLDS = Thresholds(traffic=0.35, resolution=0.70)
#: Gamma of equation 4.
GAMMA = 0.5
#: The later form looks this many imports far (the issue's "coefficient").
MAX_HOPS = 6

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Edit:
    """One path of a working set as the equations see it. `lines` merged and sorted; None: the whole file."""

    lines: Ranges | None
    weight: float

    @property
    def size(self) -> int:
        return _size(self.lines or ())


@dataclass(frozen=True, slots=True)
class Profile:
    """A formula with its thresholds. Its weights of dependency and tree are at most those of `seed`."""

    name: str
    thresholds: Thresholds
    assess: Callable[[WorkingSet, WorkingSet, PairFacts], Assessment]


def seed(a: WorkingSet, b: WorkingSet, near: PairFacts) -> Assessment:
    """R(a, b) by equations 2 to 6 of 000, each channel able to reach a resolution advisory alone."""
    # It carries no weights.
    overlap: Reading | None = near.kept.get("seed") if near.kept else None
    if overlap is None:
        overlap = _jaccard(edits(a.files), edits(b.files))
        if near.kept is not None:
            near.kept["seed"] = overlap
    later = LazyReadings(_channels, overlap, near.coupling, near.tree)
    return _assessed(overlap.risk, near.coupling, near.tree, later)


def coefficient(a: WorkingSet, b: WorkingSet, near: PairFacts) -> Assessment:
    """The origin's later form: the overlap coefficient of lines, weighted, and directed distances."""
    mine, theirs = edits(a.files), edits(b.files)
    # They carry no weights.
    shared: Mapping[str, float] | None = near.kept.get("coefficient") if near.kept else None
    if shared is None:
        shared = {p: line_coefficient(mine[p], theirs[p]) for p in sorted(mine.keys() & theirs.keys())}
        if near.kept is not None:
            near.kept["coefficient"] = shared
    risk, path = 0.0, ""
    if shared:
        risk, path = _greatest({p: mine[p].weight * theirs[p].weight * of for p, of in shared.items()})
    later = LazyReadings(_coefficient_channels, mine, theirs, risk, path, near.directed, near.tree)
    return _assessed(risk, near.directed, near.tree, later)


def _assessed(overlap: float, coupling: Coupling | None, tree: float, later: LazyReadings) -> Assessment:
    shares = {
        "overlap": OVERLAP * overlap,
        "dependency": DEPENDENCY * (0.0 if coupling is None else coupling.share),
        "tree": TREE * tree,
    }
    return assess_shares(shares, shares, later, THRESHOLDS)


def _channels(overlap: Reading, coupling: Coupling | None, tree: float) -> dict[str, Reading]:
    """The readings, with what there is to say about each."""
    return {"overlap": overlap, "dependency": _dependency(coupling), "tree": Reading(tree, TREE)}


def _coefficient_channels(
    a: Mapping[str, Edit],
    b: Mapping[str, Edit],
    risk: float,
    path: str,
    coupling: Coupling | None,
    tree: float,
) -> dict[str, Reading]:
    evidence = (_same_lines(path, a[path], b[path]),) if risk else ()
    return _channels(Reading(risk, OVERLAP, evidence=evidence), coupling, tree)


FORMULAS: Mapping[str, Profile] = {
    "seed": Profile("seed", THRESHOLDS, seed),
    "coefficient": Profile("coefficient", THRESHOLDS, coefficient),
}


# -- equation 3: edit overlap


def _jaccard(a: Mapping[str, Edit], b: Mapping[str, Edit]) -> Reading:
    """max(Jaccard of the files, greatest Jaccard of lines); carries no weights."""
    shared = sorted(a.keys() & b.keys())
    if not shared:
        return Reading(0.0, OVERLAP)
    files = len(shared) / (len(a) + len(b) - len(shared))
    lines, path = _greatest({path: line_jaccard(a[path], b[path]) for path in shared})
    if lines >= files:
        return Reading(lines, OVERLAP, evidence=(_same_lines(path, a[path], b[path]),))
    return Reading(files, OVERLAP, evidence=(_same_files(shared, a, b),))


def _greatest(values: Mapping[str, float]) -> tuple[float, str]:
    """The greatest value, and the first path that has it."""
    path = max(values, key=values.__getitem__)
    return values[path], path


def line_jaccard(a: Edit, b: Edit) -> float:
    """|A n B| / |A u B| of equation 3, in [0, 1]; 0 where neither side covers a line."""
    if a.lines is None or b.lines is None:
        return 1.0
    common = _size(_common(a.lines, b.lines))
    return common / (a.size + b.size - common) if common else 0.0


def line_coefficient(a: Edit, b: Edit) -> float:
    """|A n B| / min(|A|, |B|) of a shared file, in [0, 1]; 0 where a side covers no line."""
    if a.lines is None or b.lines is None:
        return 1.0
    common = _size(_common(a.lines, b.lines))
    return common / min(a.size, b.size) if common else 0.0


# -- equations 4 to 6


def _dependency(coupling: Coupling | None) -> Reading:
    """Equation 5. The files' own distance 0 is the overlap channel's, so `hops` is 1 or more."""
    if coupling is None:
        return Reading(0.0, DEPENDENCY)
    return Reading(coupling.share, DEPENDENCY, evidence=(imports_apart(coupling),))


# -- the sets, as the equations want them


_edits: IdentityCache[tuple[FileTouch, ...], Mapping[str, Edit]] = IdentityCache(4096)


def edits(files: tuple[FileTouch, ...]) -> Mapping[str, Edit]:
    """Path -> edit. A path that comes twice has the lines of both, and the greater weight."""
    return _edits.get(files, _made)


def _made(files: tuple[FileTouch, ...]) -> Mapping[str, Edit]:
    made: dict[str, Edit] = {}
    for file in files:
        _add(made, file.path, Edit(merged(file.lines) if file.lines else None, file.weight))
        if file.new_path is not None and file.new_path != file.path:
            _add(made, file.new_path, Edit(None, file.weight))
    return made


def _add(made: dict[str, Edit], path: str, edit: Edit) -> None:
    before = made.get(path)
    if before is not None:
        whole = before.lines is None or edit.lines is None
        lines = None if whole else joined([*(before.lines or ()), *(edit.lines or ())])
        edit = Edit(lines, max(before.weight, edit.weight))
    made[path] = edit


@lru_cache(maxsize=16_384)
def merged(spans: tuple[Span, ...]) -> Ranges:
    """The lines that the spans cover, as disjoint ranges in order; insertions cover none."""
    return joined([(span.start, span.end) for span in spans if span.end >= span.start])


def _size(ranges: Ranges) -> int:
    return sum(end - start + 1 for start, end in ranges)


def _common(a: Ranges, b: Ranges) -> Ranges:
    """The lines in both; both sides merged."""
    common: list[tuple[int, int]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start <= end:
            common.append((start, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


# -- evidence


def imports_apart(coupling: Coupling) -> Evidence:
    apart = "an import" if coupling.hops == 1 else f"{coupling.hops} imports"
    text = f"{coupling.path} and {coupling.other_path} are {apart} apart"
    return Evidence(text, path=coupling.path, other_path=coupling.other_path)


def _same_lines(path: str, a: Edit, b: Edit) -> Evidence:
    if a.lines is None and b.lines is None:
        return Evidence(f"both change {path}", path=path)
    if a.lines is None or b.lines is None:
        lines = (a.lines or ()) + (b.lines or ())
        where = f", one the whole file, the other {said(lines)}" if lines else ", one of them the whole file"
        return Evidence(f"both change {path}{where}", path=path, lines=lines)
    lines = _common(a.lines, b.lines)
    return Evidence(f"both change {said(lines)} of {path}", path=path, lines=lines)


def _same_files(shared: list[str], a: Mapping[str, Edit], b: Mapping[str, Edit]) -> Evidence:
    of = len(a) + len(b) - len(shared)
    text = f"both change {shared[0]}"
    if len(shared) > 1:
        more = len(shared) - 1
        text += f" and {more} more file{'s' if more > 1 else ''}"
    lines = _common(a[shared[0]].lines or (), b[shared[0]].lines or ())
    return Evidence(f"{text} ({len(shared)} of the {of} that they change)", path=shared[0], lines=lines)


def said(ranges: Ranges, most: int = 3) -> str:
    """Ranges for a person: `lines 3, 7-9`; what is too many is counted."""
    if not ranges:
        return "no line"
    words = [str(start) if start == end else f"{start}-{end}" for start, end in ranges[:most]]
    more = f" and {len(ranges) - most} more ranges" if len(ranges) > most else ""
    single = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return f"{'line' if single else 'lines'} {', '.join(words)}{more}"

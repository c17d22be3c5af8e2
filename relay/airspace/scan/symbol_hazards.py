"""What one side's change does to definitions that the other side uses (000, "Future channels").

Invariant: facts(b, a) mirrors facts(a, b). What a side does is worked out once a working set and graph;
a pair only compares two sides, and two that share no name, call and test cost two set comparisons.

A definition is changed when its head or its body reads differently in the side's own text; where that text is
not at hand or does not parse, when the side's lines lie in it. A side uses the names in the definitions that it
changes, and those that its text newly has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nsmallest

from relay.airspace.identity_cache import IdentityCache
from relay.airspace.pair_facts import CallLink, Hazard, SharedTest, SymbolFindings
from relay.code.call_graph import CallGraph, Node
from relay.code.code_graph import CodeGraph
from relay.code.read.extract import extract, unfit
from relay.code.read.facts import Call, Definition, FileSymbols
from relay.code.read.grammar import language_of
from relay.model.working_set import Change, FileTouch, WorkingSet

#: Hops of the call graph from each side: two of two meet at four, the issue's bound.
CALL_HOPS = 2
#: Hops of imports from a test to what it tests: the module, or through its package's own file.
TEST_HOPS = 2
#: Evidence is for people: more of one kind says no more.
AT_MOST = 20
#: Sides that are kept: 1,000 agents, the issue's larger scale, and their predecessors.
SIDES = 2_000
_CONTAINERS = frozenset({"namespace", "implementation", "declaration"})
_TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|spec|src/test)/|(?:^|/)test_[^/]*\.py$|_test\.(?:py|go|cc|cpp|c|rs)$"
    r"|\.(?:test|spec)\.[cm]?[jt]sx?$|Tests?\.java$"
)

#: (whose, path) -> the side's own text of a changed file; None = not at hand.
Text = Callable[[WorkingSet, str], str | None]


def is_test(path: str) -> bool:
    """Whether a path is a test's by the customs of the eight languages."""
    return _TEST.search(path) is not None


@dataclass(frozen=True, slots=True)
class Changed:
    """A definition of the base that a side changes. `signature`: its head; else only its body."""

    path: str
    definition: Definition
    removed: bool
    signature: bool


@dataclass(frozen=True, slots=True)
class Use:
    """A name that a side uses. `lines`: in the base, or where `new` in the side's own text. `target`: what a
    call is known to mean."""

    path: str
    lines: tuple[int, int]
    new: bool = False
    call: bool = False
    target: Node | None = None
    #: The names in the text that newly uses it, to tell whether it names the module of the definition.
    words: frozenset[str] = frozenset()


@dataclass(slots=True)
class SymbolSide:
    """What one working set changes, uses and reaches."""

    changed: dict[str, list[Changed]] = field(default_factory=dict)
    uses: dict[str, list[Use]] = field(default_factory=dict)
    calls: dict[Node, tuple[int, Node]] = field(default_factory=dict)
    tests: dict[str, tuple[int, str]] = field(default_factory=dict)


class SymbolFacts:
    """The facts of pairs over one graph. Not for several threads at once; its index of calls is made by the first one
    that asks: in the scan's thread, not on the event loop."""

    def __init__(self, graph: CodeGraph, text: Text | None = None) -> None:
        self._graph = graph
        self._text = text
        #: What a working set does; worked out once for each object.
        self._sides: IdentityCache[WorkingSet, SymbolSide] = IdentityCache(SIDES)

    @cached_property
    def _calls(self) -> CallGraph:
        return CallGraph(self._graph)

    def facts(self, a: WorkingSet, b: WorkingSet) -> SymbolFindings:
        """A's side first."""
        side_a, side_b = (self._sides.get(working_set, self._side) for working_set in (a, b))
        hazards = [*self._hazards(0, side_a, side_b), *self._hazards(1, side_b, side_a)]
        agents = (a.agent, b.agent)
        # What a person should read first.
        hazards.sort(
            key=lambda hazard: (
                not hazard.removed,
                not hazard.signature,
                *(hazard.path, hazard.lines, hazard.reader_path, hazard.reader_lines),
                agents[hazard.writer],
            )
        )
        return SymbolFindings(tuple(hazards[:AT_MOST]), _link(side_a, side_b), _tests(side_a, side_b))

    # -- one side

    def _side(self, working_set: WorkingSet) -> SymbolSide:
        side = SymbolSide()
        for touch in working_set.files:
            self._take(working_set, touch, side)
        changes = (change for changed in side.changed.values() for change in changed)
        nodes = {(change.path, change.definition.qualified) for change in changes}
        side.calls = self._calls.reach(nodes, CALL_HOPS)
        side.tests = self._tests_of({touch.path for touch in working_set.files})
        return side

    def _take(self, working_set: WorkingSet, touch: FileTouch, side: SymbolSide) -> None:
        path = touch.path
        if touch.binary or language_of(path) is None:
            return
        base = self._graph.symbols(path)
        new = None if touch.change is Change.DELETED else self._read(working_set, touch)
        if touch.change is not Change.ADDED:
            for change in _changes(touch, base, new):
                side.changed.setdefault(change.definition.name, []).append(change)
        if touch.change not in (Change.DELETED, Change.ADDED):
            self._base_uses(touch, base, side)
        if new is not None:
            self._new_uses(touch, base, new, side)

    def _read(self, working_set: WorkingSet, touch: FileTouch) -> FileSymbols | None:
        path = touch.new_path or touch.path
        text = None if self._text is None else self._text(working_set, path)
        if text is None:
            return None
        data = text.encode("utf-8", "surrogateescape")
        if language_of(path) is None or unfit(path, data):
            return None
        read = extract(path, data)
        return None if read.trouble else read.symbols

    def _base_uses(self, touch: FileTouch, base: FileSymbols, side: SymbolSide) -> None:
        regions = _regions(touch, base)
        if not regions:
            return
        targets: dict[tuple[str, int], Node | None] = {}
        for call in base.calls:
            if _inside(call.line, regions):
                targets[call.name, call.line] = self._calls.target(touch.path, base, call)
        for name, lines in base.references.items():
            for line in lines:
                if _inside(line, regions):
                    target = targets.get((name, line))
                    use = Use(touch.path, (line, line), call=(name, line) in targets, target=target)
                    side.uses.setdefault(name, []).append(use)

    def _new_uses(self, touch: FileTouch, base: FileSymbols, new: FileSymbols, side: SymbolSide) -> None:
        words = frozenset(new.references)
        before = Counter(_placed(base, call) for call in base.calls)
        called: set[str] = set()
        for call in new.calls:
            place = _placed(new, call)
            if before[place] > 0:
                before[place] -= 1
                continue
            called.add(call.name)
            target = self._calls.target(touch.path, new, call)
            use = Use(touch.path, (call.line, call.line), new=True, call=True, target=target, words=words)
            side.uses.setdefault(call.name, []).append(use)
        for name in words - base.references.keys() - called:
            line = new.references[name][0]
            use = Use(touch.path, (line, line), new=True, words=words)
            side.uses.setdefault(name, []).append(use)

    def _tests_of(self, paths: set[str]) -> dict[str, tuple[int, str]]:
        """Test -> (hops of imports, the changed file that it reaches)."""
        tests: dict[str, tuple[int, str]] = {}
        seen = {path: path for path in sorted(paths)}
        rim = list(seen)
        for hops in range(TEST_HOPS + 1):
            for path in rim:
                if is_test(path):
                    tests.setdefault(path, (hops, seen[path]))
            further = []
            for path in rim if hops < TEST_HOPS else ():
                for importer in self._graph.importers(path):
                    if importer not in seen:
                        seen[importer] = seen[path]
                        further.append(importer)
            rim = further
        return tests

    # -- a pair

    def _hazards(self, writer: int, changes: SymbolSide, reads: SymbolSide) -> Iterable[Hazard]:
        if changes.changed.keys().isdisjoint(reads.uses.keys()):
            return
        for name in sorted(changes.changed.keys() & reads.uses.keys()):
            for change in changes.changed[name]:
                met = [use for use in reads.uses[name] if self._means(use, change)]
                if not met:
                    continue
                use = min(met, key=lambda it: (not it.call, it.new, it.path, it.lines))
                yield Hazard(
                    writer,
                    change.definition.qualified,
                    change.path,
                    (change.definition.start, change.definition.end),
                    change.removed,
                    use.path,
                    use.lines,
                    new_call=any(it.new and it.call for it in met),
                    signature=change.signature,
                )

    def _means(self, use: Use, changed: Changed) -> bool:
        """Whether a use may be one of this definition."""
        definition = changed.definition
        if use.target is not None:
            return use.target == (changed.path, definition.qualified)
        if not (changed.removed or changed.signature) and not use.call:
            return False  # naming a function without calling it does not depend on its body
        if use.path == changed.path:
            within = definition.start <= use.lines[0] <= definition.end and not use.new
            return not within and definition.kind != "method"
        if definition.kind == "method":
            return False  # of which object, is not known
        if changed.path not in self._calls.visible(use.path) and _module_word(changed.path) not in use.words:
            return False
        own = self._graph.symbols(use.path).by_name.get(definition.name, ())
        return not any(definition.parent < 0 for definition in own)  # else it means its own


def _changes(touch: FileTouch, base: FileSymbols, new: FileSymbols | None) -> Iterable[Changed]:
    if touch.change is Change.DELETED:
        changes = [Changed(touch.path, definition, True, True) for definition in base.definitions]
    else:
        changes = _by_lines(touch, base) if new is None else _by_text(touch, base, new)
    return [change for change in changes if change.definition.kind not in _CONTAINERS]


def _by_text(touch: FileTouch, base: FileSymbols, new: FileSymbols) -> list[Changed]:
    heads: dict[str, set[str]] = {}
    bodies: dict[str, set[tuple[str, str]]] = {}
    for definition in new.definitions:
        heads.setdefault(definition.qualified, set()).add(definition.signature)
        bodies.setdefault(definition.qualified, set()).add((definition.signature, definition.body))
    changes = []
    inner: set[int] = set()  # definitions in which something smaller changed
    for index in range(len(base.definitions) - 1, -1, -1):
        definition = base.definitions[index]
        removed = definition.qualified not in heads
        signature = removed or definition.signature not in heads[definition.qualified]
        body = (definition.signature, definition.body) not in bodies.get(definition.qualified, ())
        if signature or body:
            if signature or index not in inner:
                changes.append(Changed(touch.path, definition, removed, signature))
            inner.add(definition.parent)
    return changes[::-1]


def _by_lines(touch: FileTouch, base: FileSymbols) -> list[Changed]:
    """By where the lines lie: the innermost definition around each, and its head if it is hit."""
    changes: dict[int, Changed] = {}
    for span in touch.lines:
        # An insertion stands between two lines: before a definition's first it is not in it.
        first = span.start if span.end >= span.start else span.start - 0.5
        last = max(first, span.end)
        hit = [
            i
            for i, definition in enumerate(base.definitions)
            if definition.start <= last and first <= definition.end
        ]
        outer = {base.definitions[index].parent for index in hit}
        for index in hit:
            definition = base.definitions[index]
            removed = span.new_count == 0 and span.start <= definition.start and span.end >= definition.end
            head = removed or (first <= definition.head_end and last >= definition.start)
            if (head or index not in outer) and (index not in changes or head):
                changes[index] = Changed(touch.path, definition, removed, head)
    return [change for _, change in sorted(changes.items())]


def _regions(touch: FileTouch, base: FileSymbols) -> list[tuple[int, int]]:
    """The lines of the innermost definitions that a side changes, and its own; of a whole file, all."""
    if not touch.lines:
        return [(1, 1 << 30)]
    regions = set()
    for span in touch.lines:
        regions.add((span.start, max(span.start, span.end)))
        around = base.at(span.start)
        if around is not None and around.kind in ("function", "method", "macro"):
            regions.add((around.start, around.end))
    return sorted(regions)


def _inside(line: int, regions: list[tuple[int, int]]) -> bool:
    return any(start <= line <= end for start, end in regions)


def _placed(symbols: FileSymbols, call: Call) -> tuple[str, str]:
    return (symbols.definitions[call.within].qualified if call.within >= 0 else "", call.name)


def _module_word(path: str) -> str:
    """The word that an import names a file by."""
    folder, _, base = path.rpartition("/")
    stem = base.partition(".")[0]
    return folder.rpartition("/")[2] if stem in ("__init__", "index", "mod", "lib") else stem


def _link(side: SymbolSide, other: SymbolSide) -> CallLink | None:
    met = []
    for node in side.calls.keys() & other.calls.keys():
        (hops, start), (other_hops, end) = side.calls[node], other.calls[node]
        if start != end:
            met.append((hops + other_hops, min(start, end), max(start, end), start, end))
    if not met:
        return None
    hops, _, _, start, end = min(met)
    return CallLink(start[1], start[0], end[1], end[0], hops)


def _tests(side: SymbolSide, other: SymbolSide) -> tuple[SharedTest, ...]:
    both = side.tests.keys() & other.tests.keys()
    ordered = nsmallest(AT_MOST, both, key=lambda test: (side.tests[test][0] + other.tests[test][0], test))
    return tuple(SharedTest(test, side.tests[test][1], other.tests[test][1]) for test in ordered)

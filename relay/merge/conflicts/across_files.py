"""Level 3: what one side changes, and the other comes to rely on, in one file or across files (003, section 6.3).

Invariants:
- pure: the two sides' texts, and those of the base's files that name what they change, are given;
- only what a side adds or changes itself can rely on the other's work newly. A call that stood there before was
  known to whoever changed what it calls;
- no finding without two definitions, and in words how the one reaches the other. With the sides swapped it is the
  same.

| what one side did | what the other did | kind | severity |
|---|---|---|---|
| removed or renamed a definition | newly uses it | removed_and_used, renamed_and_used | critical |
| changed what it takes or gives | newly calls it so that it does not fit | signature_and_call | critical |
| made an import, or a file, go | newly uses what it brought | import_removed_and_used | critical |
| added a definition of a package | added the same in another file of it | added_twice | critical |
| asks more of whoever implements a type | newly implements it without that | not_implemented | critical |
| changed what it does | newly calls it, or what calls it | behaviour_and_call | medium, low |
| changed what it does | did so too, and calls it as before, or what calls it | behaviour_and_change | low |
| changed a value | newly uses it | value_and_use | medium |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from relay.code.build.listing import is_vendored
from relay.code.call_graph import HUB, Node
from relay.code.code_graph import Variants
from relay.code.read.extract import extract, unfit
from relay.code.read.facts import Extract
from relay.code.read.grammar import C_FAMILY, language_of
from relay.merge.conflicts import contracts
from relay.merge.conflicts.behaviour import NOTHING, Difference, difference
from relay.merge.conflicts.conflict import Conflict, Severity, Side, quoted
from relay.merge.conflicts.entities import Entity
from relay.merge.conflicts.finding import VALUE, Finding, said_of, way_in_words
from relay.merge.conflicts.parameters import CallShape, head_of, misfit, other_default, with_defaults
from relay.merge.conflicts.reach import STEPS, Reach
from relay.merge.conflicts.same_entity import Change
from relay.merge.conflicts.side import RUNS, Definition, Reader, SideWork

#: Names that say nothing of what they name: they are not looked for in other files.
_UNTOLD = frozenset(
    {"__init__", "main", "init", "constructor", "new", "setUp", "tearDown", "__repr__", "__str__"}
)
_SHORT = 3
#: Calls between two definitions that both do something else than before, where none of the calls is new.
NEAR = 2
_CALLED = RUNS | {"declaration"}
#: Kinds of definitions that are values.
_VALUES = frozenset({"constant", "item", "macro"})


class AcrossFiles:
    """The search. Ask for `names`, give the files of the base that have one of them (`add`), until none is asked for;
    then ask for the `conflicts`."""

    def __init__(self, a: SideWork, b: SideWork) -> None:
        self.a, self.b = a, b
        changes = [file.change for side in (a, b) for file in side.files]
        self._files = {change.path: change.before for change in changes if change.before is not None}
        self._asked: set[str] = set()
        self._headers: set[str] = set()
        self._rings = 0

    # -- which files matter

    def names(self) -> frozenset[str]:
        """The names to look for next: first those of what the sides change, then those of what calls that."""
        self._rings += 1
        if self._rings == 1:
            wanted = {self._called(one) for side in (self.a, self.b) for one in side.definitions}
        elif self._rings < STEPS:
            wanted = self._callers()
        else:
            return frozenset()
        new = {name for name in wanted - self._asked if len(name) >= _SHORT and name not in _UNTOLD}
        self._asked |= new
        return frozenset(new)

    def headers(self) -> frozenset[str]:
        """The file names of the headers to look for next (C, C++): those that are included by what is known. Through
        them a file sees what it does not include itself."""
        included = {
            one.module.rpartition("/")[2]
            for path, read in self._extracts.items()
            if language_of(path) in C_FAMILY
            for one in read.facts.imports
            if one.kind != "angle"
        }
        new = included - self._headers
        self._headers |= new
        return frozenset(new)

    def add(self, files: Mapping[str, bytes]) -> None:
        """Files of the base, by path."""
        self._files.update(files)

    @staticmethod
    def _called(definition: Definition) -> str:
        """A constructor is called by its class's name."""
        entity = definition.entity
        return (
            entity.qualified.split(".")[-2]
            if entity.name in _UNTOLD and "." in entity.qualified
            else entity.name
        )

    def _callers(self) -> set[str]:
        """The names of the definitions that use what was asked for, but for what everybody uses."""
        users: dict[str, set[str]] = {}
        for read in self._extracts.values():
            symbols = read.symbols
            for name in self._asked & symbols.references.keys():
                around = (symbols.at(line) for line in symbols.references[name])
                users.setdefault(name, set()).update(one.name for one in around if one is not None)
        return {user for found in users.values() if len(found) <= HUB for user in found}

    @property
    def _extracts(self) -> Mapping[str, Extract]:
        for path, data in self._files.items():
            if (
                path not in self._read
                and language_of(path)
                and not is_vendored(path)
                and not unfit(path, data)
            ):
                self._read[path] = extract(path, data)
        return self._read

    @cached_property
    def _read(self) -> dict[str, Extract]:
        return {}

    @cached_property
    def _trees(self) -> Variants:
        return Variants(sorted(self._extracts.items()))

    def _tree_of(self, side: SideWork) -> Reach:
        """The files of a side's tree that matter."""
        changes: dict[str, Extract | None] = {file.change.path: None for file in side.files}
        changes |= {file.change.new_path: file.extract for file in side.files if file.extract is not None}
        return Reach(self._trees.with_changes(changes))

    # -- what was found

    def conflicts(self) -> list[Conflict]:
        """One for each definition that is relied on, of each kind; evidence names who else relies on it."""
        found: list[Conflict] = []
        for writer, reader, swapped in ((self.a, self.b, False), (self.b, self.a, True)):
            if not writer.files or not reader.files:
                continue
            for conflict in self._one_way(writer, reader, "BA" if swapped else "AB"):
                found.append(conflict.swapped() if swapped else conflict)
        found += contracts.added_twice(self.a, self.b)
        return found

    def _one_way(self, writer: SideWork, reader: SideWork, letters: str) -> Iterator[Conflict]:
        tree = self._tree_of(reader)
        best: dict[tuple[str, str], list[Finding]] = {}
        for finding in [*_findings(writer, reader, tree), *contracts.findings(writer, reader, tree)]:
            entity = finding.definition.entity
            # A declaration in a header and its definition are one thing.
            file = "" if entity.language in C_FAMILY else finding.definition.path
            place = (file, entity.qualified)
            best.setdefault(place, []).append(finding)
        for findings in best.values():
            findings.sort(key=lambda one: one.rank)
            yield _conflict(findings, letters)


def _findings(writer: SideWork, reader: SideWork, tree: Reach) -> Iterator[Finding]:
    moved = {file.change.path: file.change.new_path for file in reader.files}
    callables = {
        one.entity.name.encode(): (one.changed.after or one.entity).name.encode()
        for one in writer.definitions
        if one.entity.kind in _CALLED
    }
    known = {**writer.renamed_values, **callables}
    declared = writer.declared
    nodes: dict[Node, Definition] = {}
    does: dict[Node, Difference] = {}
    for definition in writer.definitions:
        changed = definition.changed
        if changed.before is None:
            continue
        node = (moved.get(definition.path, definition.path), changed.before.qualified)
        nodes[node] = definition
        if changed.what in (Change.BODY, Change.SIGNATURE) and changed.after is not None:
            names = declared.get(changed.after.name, ())
            does[node] = difference(changed.before, changed.after, known, names)
    by_name: dict[str, list[Node]] = {}
    for node, definition in nodes.items():
        by_name.setdefault(definition.entity.name, []).append(node)
    for one in reader.readers:
        called: set[Node] = set()
        both = _start(one) in nodes  # then what the two do to each other there is level 2's
        for call, shape, new in one.calls:
            target = tree.target(one.path, call, one.types)
            meant: list[Node | None] = [] if target is None else [target, tree.constructor(target)]
            for met in meant:
                if met is None or met not in nodes or _is_own(one, met):
                    continue
                called.add(met)
                if new:
                    done = NOTHING if both else does.get(met, NOTHING)
                    yield from _call(nodes[met], done, one, shape, met, declared)
        yield from _references(one, nodes, by_name, does, tree, called)
        if not both:
            yield from _far(one, nodes, does, tree, called)
            yield from _both_changed(one, nodes, does, tree)


def _is_own(reader: Reader, node: Node) -> bool:
    """Whether the node is the reader itself: then it is level 2's."""
    return reader.entity is not None and (reader.path, reader.entity.qualified) == node


def _call(
    definition: Definition,
    does: Difference,
    reader: Reader,
    shape: CallShape | None,
    node: Node,
    declared: Mapping[str, list[Entity]],
) -> Iterator[Finding]:
    """A new call of a definition that the other side changed."""
    before, after = definition.changed.before, definition.changed.after
    assert before is not None
    way = (_start(reader), node)
    if definition.changed.what in (Change.DELETE, Change.RENAME):
        yield _gone(definition, reader, way)
        return
    assert after is not None
    if shape is not None and definition.changed.what is Change.SIGNATURE:
        old, new = head_of(before), head_of(after)
        if old is not None and new is not None:
            for one in declared.get(after.name, ()):
                new = with_defaults(new, head_of(one))
            why = misfit(shape, old, new, before.language)
            if why and not misfit(shape, old, old, before.language):
                yield Finding("signature_and_call", Severity.CRITICAL, definition, reader, why, way)
                return
            default = other_default(shape, old, new)
            if default:
                said = f"its argument {default} has another default, which the call relies on"
                yield Finding("signature_and_call", Severity.MEDIUM, definition, reader, said, way)
                return
    if does:
        yield Finding("behaviour_and_call", Severity.MEDIUM, definition, reader, _does(does), way)


def _gone(definition: Definition, reader: Reader, way: tuple[Node, ...]) -> Finding:
    after = definition.changed.after
    if after is None:
        return Finding("removed_and_used", Severity.CRITICAL, definition, reader, "it is gone", way)
    why = f"it is {after.qualified} now"
    return Finding("renamed_and_used", Severity.CRITICAL, definition, reader, why, way)


def _does(does: Difference) -> str:
    return "it " + ", ".join(does.says)


def _start(reader: Reader) -> Node:
    return reader.path, "" if reader.entity is None else reader.entity.qualified


def _references(
    reader: Reader,
    nodes: Mapping[Node, Definition],
    by_name: Mapping[str, list[Node]],
    does: Mapping[Node, Difference],
    tree: Reach,
    called: set[Node],
) -> Iterator[Finding]:
    """New uses that are no calls: of values, types, fields, properties, and of functions that are handed on."""
    for word in reader.added:
        for node in by_name.get(word.decode("utf-8", "replace"), ()):
            definition = nodes[node]
            before = definition.changed.before
            if (
                before is None
                or node in called
                or _is_own(reader, node)
                or not _may_mean(reader, node, before, tree)
            ):
                continue
            way = (_start(reader), node)
            if definition.changed.what in (Change.DELETE, Change.RENAME):
                yield _gone(definition, reader, way)
            elif before.kind in _VALUES and does.get(node):
                yield Finding(
                    "value_and_use", Severity.MEDIUM, definition, reader, "it has another value", way
                )
            elif before.kind == "field" and definition.changed.what is not Change.NONE:
                yield Finding(
                    "value_and_use", Severity.MEDIUM, definition, reader, "it is declared otherwise", way
                )


def _may_mean(reader: Reader, node: Node, entity: Entity, tree: Reach) -> bool:
    """Whether a name may be that of this definition."""
    path, qualified = node
    own = tree.graph.symbols(reader.path).by_name.get(entity.name, ())
    if path != reader.path and any(definition.parent < 0 for definition in own):
        return False  # it means its own
    if entity.kind in ("field", "item", "method"):
        owner = qualified.split(".")[-2] if "." in qualified else ""
        inside = reader.entity is not None and reader.path == path and reader.entity.scope == entity.scope
        named = owner.encode() in _words(reader)
        return (inside or named) and (path == reader.path or tree.sees(reader.path, path))
    return tree.sees(reader.path, path)


def _words(reader: Reader) -> frozenset[bytes]:
    if reader.entity is None:
        return frozenset(reader.added)
    first, last = reader.entity.place
    return frozenset(reader.entity.version.words(first, last, ()))


def _far(
    reader: Reader,
    nodes: Mapping[Node, Definition],
    does: Mapping[Node, Difference],
    tree: Reach,
    called: set[Node],
) -> Iterator[Finding]:
    """What the reader reaches through what it newly calls."""
    if reader.entity is None or reader.entity.kind not in RUNS:
        return
    first = {*_entered(reader, tree)} | {
        target
        for call, _, new in reader.calls
        if (new or reader.is_new) and (target := tree.target(reader.path, call, reader.types)) is not None
    }
    for second in sorted(first):
        for node, way in tree.paths(second, STEPS - 1).items():
            if node in called or node not in nodes or len(way) < 2 or any(step in nodes for step in way[:-1]):
                continue  # who changed a definition on the way knows what it calls
            if does.get(node, NOTHING).tells and nodes[node].entity.kind in RUNS:
                whole = (_start(reader), *way)
                yield Finding(
                    "behaviour_and_call", Severity.LOW, nodes[node], reader, _does(does[node]), whole
                )
        yield from _values(reader, second, nodes, does, tree)


def _both_changed(
    reader: Reader, nodes: Mapping[Node, Definition], does: Mapping[Node, Difference], tree: Reach
) -> Iterator[Finding]:
    """A definition that does something else now, as does what it calls as before: each side relied on the other's
    being as it was."""
    if reader.entity is None or reader.before is None or reader.entity.kind not in RUNS:
        return
    if not difference(reader.before, reader.entity).tells:
        return
    for node, way in tree.paths(_start(reader), NEAR).items():
        if len(way) < 2 or node not in nodes or any(step in nodes for step in way[1:-1]):
            continue
        if does.get(node, NOTHING).tells and nodes[node].entity.kind in RUNS:
            use = "calls it as before, and does something else itself"
            yield Finding(
                "behaviour_and_change", Severity.LOW, nodes[node], reader, _does(does[node]), way, use
            )


def _entered(reader: Reader, tree: Reach) -> Iterator[Node]:
    """What a new `with` of Python's calls without naming it: the context manager's own two methods."""
    if reader.entity is None or reader.added[b"with"] <= 0:
        return
    for call, _, _ in reader.calls:
        target = tree.target(reader.path, call, reader.types) if call.line in reader.entered else None
        if target is not None:
            yield from tree.context_methods(target)


def _values(
    reader: Reader,
    second: Node,
    nodes: Mapping[Node, Definition],
    does: Mapping[Node, Difference],
    tree: Reach,
) -> Iterator[Finding]:
    """The values that decide what the reader newly calls."""
    changed = [
        node for node, definition in nodes.items() if definition.entity.kind in _VALUES and does.get(node)
    ]
    if not changed:
        return
    for step, way in tree.paths(second, STEPS - 1).items():
        if any(before in nodes for before in way):
            continue
        used = tree.names_in(step)
        for node in changed:
            name = nodes[node].entity.name
            if name in used and tree.sees(step[0], node[0]):
                whole = (_start(reader), *way, node)
                yield Finding(VALUE, Severity.LOW, nodes[node], reader, "it has another value", whole)


def _conflict(findings: list[Finding], letters: str) -> Conflict:
    first = findings[0]
    writes, reads = letters[0], letters[1]
    definition, reader = first.definition, first.reader
    side = definition.changed.side
    entity = reader.entity
    other = Side(
        quoted(reader.before.text) if reader.before is not None else None,
        quoted(entity.text) if entity is not None else None,
    )
    evidence = [
        f"{writes} {said_of(first)}.",
        f"{reads} {way_in_words(first)}.",
    ]
    more = sorted({one.reader.name for one in findings[1:]} - {reader.name})
    if more:
        evidence.append(f"So do {', '.join(more[:5])}{' and more' if len(more) > 5 else ''}.")
    return Conflict(
        3,
        first.kind,
        first.severity,
        definition.path,
        definition.entity.qualified,
        side,
        other,
        tuple(evidence),
        places=(_place(definition.path, definition.entity), _place(reader.path, entity)),
    )


def _place(path: str, entity: Entity | None) -> tuple[str, int, int]:
    return (path, 0, 0) if entity is None else (path, entity.start, entity.end)


def at_base(conflicts: Iterable[Conflict], base: str) -> list[Conflict]:
    """The same with the commit that both sides started from."""
    return [replace(conflict, base=base) for conflict in conflicts]

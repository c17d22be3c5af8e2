"""What one side of a merge changes, and what the definitions that it adds or changes use.

Invariant: everything here follows from the texts of the files that this side changed, before and after. A use is one
of a definition that the side adds or changes: what it left alone was right or wrong before it came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from relay.code.read.extract import extract
from relay.code.read.facts import Call, Extract
from relay.code.read.grammar import C_FAMILY
from relay.merge.conflicts.entities import Entity, FileVersion, keyed, read_version
from relay.merge.conflicts.parameters import CallShape, shapes
from relay.merge.conflicts.reach import types_said
from relay.merge.conflicts.same_entity import Change, Changed, changes

#: Kinds of definitions that are values or have one.
VALUES = frozenset({"field", "constant", "item"})
#: Kinds of definitions that run.
RUNS = frozenset({"function", "method", "macro"})


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that a side changed. `path`: in the base, or where it was added; `new_path`: where it is now. `before`,
    `after`: its contents, None = it was or is not there."""

    path: str
    new_path: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition that a side changes; its path in the base."""

    path: str
    changed: Changed

    @property
    def entity(self) -> Entity:
        """As it was; as it is, where it was added."""
        found = self.changed.before or self.changed.after
        assert found is not None
        return found


@dataclass(frozen=True)
class Reader:
    """A definition that a side adds or changes, as it is now; `entity` None: the code of the file outside of all.
    `path`: where it is now. `added`: words that are new in it. `calls`: its calls, each with its shape and whether it
    is new or changed."""

    path: str
    entity: Entity | None
    before: Entity | None
    added: Counter[bytes]
    calls: tuple[tuple[Call, CallShape | None, bool], ...]

    @cached_property
    def types(self) -> Mapping[str, str]:
        """The types of its variables, as far as its text says them."""
        return types_said(self.entity.text) if self.entity is not None else {}

    @cached_property
    def entered(self) -> frozenset[int]:
        """The lines on which a `with` of Python's opens something."""
        if self.entity is None or self.entity.language != "python":
            return frozenset()
        found: set[int] = set()
        waiting = [self.entity.node]
        while waiting:
            node = waiting.pop()
            if node.type == "with_item":
                found.add(node.start_point.row + 1)
            waiting.extend(node.named_children)
        return frozenset(found)

    @property
    def is_new(self) -> bool:
        return self.before is None and self.entity is not None

    @property
    def name(self) -> str:
        return self.entity.qualified if self.entity is not None else "the file's own code"


class ChangedFile:
    """One file of a side, read before and after."""

    def __init__(self, change: FileChange) -> None:
        self.change = change
        self.before = read_version(change.path, change.before)
        self.after = read_version(change.new_path, change.after)

    @property
    def readable(self) -> bool:
        """Whether each version that is there could be read."""
        change = self.change
        return (change.before is None) == (self.before is None) and (change.after is None) == (
            self.after is None
        )

    @cached_property
    def extract(self) -> Extract | None:
        """What the file says by itself, as it is now."""
        change = self.change
        return None if change.after is None else extract(change.new_path, change.after)

    @cached_property
    def keyed(self) -> tuple[Mapping[str, Entity], Mapping[str, Entity]]:
        before, after = keyed(self.before, self.after)
        return before, after

    @cached_property
    def changes(self) -> Mapping[str, Changed]:
        return changes(*self.keyed)

    @cached_property
    def readers(self) -> tuple[Reader, ...]:
        """The definitions that were added or changed, with what they use."""
        if self.after is None or self.extract is None:
            return ()
        return tuple(_readers(self.before, self.after, self.extract, self.changes))


class SideWork:
    """All that one side changed."""

    def __init__(self, files: Iterable[FileChange]) -> None:
        read = (ChangedFile(change) for change in files)
        self.files = tuple(file for file in read if file.readable and (file.before or file.after))

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """What is no longer as it was: changed, renamed and removed definitions; not those that were added."""
        return tuple(
            Definition(file.change.path, changed)
            for file in self.files
            for changed in file.changes.values()
            if changed.what is not Change.ADD
        )

    @cached_property
    def readers(self) -> tuple[Reader, ...]:
        return tuple(reader for file in self.files for reader in file.readers)

    @cached_property
    def renamed_values(self) -> Mapping[bytes, bytes]:
        """The fields and constants that have another name now, by their old one: of one scope one went and one came
        that says the same but for its name. Who only follows that does nothing else."""
        found: dict[bytes, bytes] = {}
        for file in self.files:
            gone: dict[tuple[str, str, tuple[bytes, ...]], list[str]] = {}
            come: dict[tuple[str, str, tuple[bytes, ...]], list[str]] = {}
            for changed in file.changes.values():
                for entity, into in ((changed.before, gone), (changed.after, come)):
                    if entity is None or (changed.before is None) == (changed.after is None):
                        continue
                    if entity.kind in VALUES:
                        into.setdefault((entity.scope, entity.kind, entity.whole), []).append(entity.name)
            for key in gone.keys() & come.keys():
                if len(gone[key]) == len(come[key]) == 1:
                    found[gone[key][0].encode()] = come[key][0].encode()
        return found

    @cached_property
    def declared(self) -> Mapping[str, list[Entity]]:
        """C, C++: what this side declares or changes the declaration of, by name: a default argument stands there."""
        found: dict[str, list[Entity]] = {}
        for file in self.files:
            for changed in file.changes.values():
                after = changed.after
                if after is None or after.language not in C_FAMILY:
                    continue
                if after.kind in ("declaration", "field"):
                    found.setdefault(after.name, []).append(after)
        return found

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the changed definitions."""
        return frozenset(definition.entity.name for definition in self.definitions)


def _readers(
    before: FileVersion | None, after: FileVersion, read: Extract, made: Mapping[str, Changed]
) -> Iterable[Reader]:
    # A member that changed is one of its class: what a table's item uses, the table uses.
    by_place = {
        (change.after.place, change.after.kind): change
        for change in made.values()
        if change.after is not None
    }
    calls: dict[int, list[Call]] = {}
    for call in read.symbols.calls:
        calls.setdefault(call.within, []).append(call)
    indexed = _indexed(after, read)
    for entity in after.found:
        change = by_place.get((entity.place, entity.kind))
        if change is None:
            continue
        old = change.before
        words, old_words = _own_words(entity), _own_words(old) if old is not None else Counter[bytes]()
        index = indexed.get((entity.qualified, entity.start))
        own = calls.get(index, []) if index is not None else []
        yield Reader(
            after.path,
            entity,
            old,
            words - old_words,
            tuple(_judged(own, shapes(entity.node, *entity.place), _shapes_of(old))),
        )
    yield from _module_reader(before, after, calls.get(-1, []))


def _indexed(version: FileVersion, read: Extract) -> dict[tuple[str, int], int]:
    return {
        (definition.qualified, definition.start): index
        for index, definition in enumerate(read.symbols.definitions)
    }


def _own_words(entity: Entity) -> Counter[bytes]:
    first, last = entity.place
    return Counter(entity.version.words(first, last, entity.inner))


def _shapes_of(entity: Entity | None) -> Counter[tuple[str, CallShape]]:
    if entity is None:
        return Counter()
    found = shapes(entity.node, *entity.place)
    return Counter((name, shape) for (name, _), listed in found.items() for shape in listed)


def _judged(
    calls: Iterable[Call],
    found: Mapping[tuple[str, int], list[CallShape]],
    before: Counter[tuple[str, CallShape]],
) -> Iterable[tuple[Call, CallShape | None, bool]]:
    left = Counter(before)
    names = Counter(name for name, _ in before.elements())
    taken: Counter[tuple[str, int]] = Counter()
    for call in calls:
        place = (call.name, call.line)
        listed = found.get(place, [])
        shape = listed[min(taken[place], len(listed) - 1)] if listed else None
        taken[place] += 1
        if shape is None:
            new = names[call.name] <= 0
            names[call.name] -= 1
        else:
            new = left[call.name, shape] <= 0
            left[call.name, shape] -= 1
        yield call, shape, new


def _module_reader(
    before: FileVersion | None,
    after: FileVersion,
    calls: Iterable[Call],
) -> Iterable[Reader]:
    """The code outside of all definitions, imports among it."""
    words = _outside(after) - (_outside(before) if before is not None else Counter[bytes]())
    if not words:
        return
    old: Counter[tuple[str, CallShape]] = Counter()
    if before is not None:
        root = before.outline.tree.root_node
        old = Counter(
            (name, shape)
            for (name, _), listed in shapes(root, 0, len(before.data)).items()
            for shape in listed
        )
    found = shapes(after.outline.tree.root_node, 0, len(after.data))
    yield Reader(after.path, None, None, words, tuple(_judged(calls, found, old)))


def _outside(version: FileVersion) -> Counter[bytes]:
    top = tuple(entity.place for entity in version.found)
    return Counter(version.words(0, len(version.data), top))

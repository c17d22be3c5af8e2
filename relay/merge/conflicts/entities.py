"""The entities of one version of a file: its definitions and their members, by qualified name.

Invariant: an entity changes when its own words do (tokens.py), not when something that stands in it does: a method is
no part of its class here. Entities are matched by key: the qualified name; where several have one name (overloads,
implementations of several traits) with their parameters, and then their number.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

from tree_sitter import Node

from relay.code.read.extract import Outline, outline, unfit
from relay.code.read.imports import text_of
from relay.merge.conflicts.tokens import COMMENTS, tokens

#: Kinds of definitions whose bodies have members.
CONTAINERS = frozenset({"class", "type", "namespace", "implementation"})
#: Languages in which several functions of one scope may have one name.
OVERLOADING = frozenset({"java", "cpp", "typescript", "tsx"})
#: Literals whose items stand for themselves.
_COLLECTIONS = frozenset(
    {
        *("list", "dictionary", "set", "tuple", "array", "object", "composite_literal", "literal_value"),
        *("array_expression", "initializer_list", "array_initializer"),
    }
)
#: What a body or a literal has as members.
_MEMBERS = frozenset(
    {
        *(
            "field_declaration",
            "enum_variant",
            "property_signature",
            "method_signature",
            "pair",
            "keyed_element",
        ),
        *(
            "public_field_definition",
            "field_definition",
            "enum_assignment",
            "property_identifier",
            "enumerator",
        ),
        *("expression_statement", "enum_constant", "constant_declaration", "method_elem", "declaration"),
        *("initializer_pair", "abstract_method_signature", "index_signature", "associated_type"),
    }
)
_NAME_FIELDS = ("name", "property", "left", "declarator", "key", "pattern", "type")
_NAMES = frozenset(
    {
        *("identifier", "property_identifier", "field_identifier", "type_identifier", "string", "number"),
        *(
            "private_property_identifier",
            "shorthand_property_identifier",
            "string_literal",
            "literal_element",
        ),
        *("interpreted_string_literal", "package_identifier"),
    }
)


@dataclass
class Entity:
    """`key` finds it in another version; `start`, `end`: 1-based lines. `scope`: the key of what it stands in, "" =
    the file. `kind`: function, method, class, type, constant, macro, field, item, ..."""

    key: str
    qualified: str
    kind: str
    scope: str
    start: int
    end: int
    _version: FileVersion = field(repr=False, compare=False)
    _range: tuple[int, int, int] = field(repr=False, compare=False)
    inner: tuple[tuple[int, int], ...] = field(repr=False, compare=False, default=())
    #: The head of the implementation that it is or stands in (Rust).
    _tag: str = field(repr=False, compare=False, default="")

    @property
    def name(self) -> str:
        return self.qualified.rpartition(".")[2]

    @cached_property
    def text(self) -> str:
        return self._version.data[self._range[0] : self._range[2]].decode("utf-8", "replace")

    @cached_property
    def raw(self) -> bytes:
        return self._version.data[self._range[0] : self._range[2]]

    @property
    def language(self) -> str:
        return self._version.language

    @property
    def version(self) -> FileVersion:
        return self._version

    @property
    def place(self) -> tuple[int, int]:
        """Its first byte, and the one behind its last."""
        return self._range[0], self._range[2]

    @property
    def body_place(self) -> tuple[int, int]:
        """The first byte of its body, and the one behind its last; empty where it has none."""
        return self._range[1], self._range[2]

    @property
    def head(self) -> bytes:
        return self._version.data[self._range[0] : self._range[1]]

    @cached_property
    def signature(self) -> str:
        """A hash of the words of its head: name, parameters, result, decorators."""
        first, body, _ = self._range
        return digest(self._version.words(first, body, self.inner))

    @cached_property
    def body(self) -> str:
        """A hash of the words of its body, without what is defined in it."""
        _, body, end = self._range
        return digest(self._version.words(body, end, self.inner))

    @cached_property
    def whole(self) -> tuple[bytes, ...]:
        """The words of its body with all that is in it, its own name left out: to know it again under another."""
        _, body, end = self._range
        own = self.name.encode()
        return tuple(word for word in self._version.words(body, end, ()) if word != own)

    @cached_property
    def node(self) -> Node:
        """The smallest node of the syntax tree around it."""
        found = self._version.outline.tree.root_node.descendant_for_byte_range(self._range[0], self._range[2])
        assert found is not None
        return found


def digest(words: Iterator[bytes]) -> str:
    return blake2b(b"\0".join(words), digest_size=8).hexdigest()


class FileVersion:
    """One version of a file, read."""

    def __init__(self, path: str, outline: Outline) -> None:
        self.path, self.outline, self.data = path, outline, outline.data
        self.language = outline.grammar.name

    @cached_property
    def found(self) -> tuple[Entity, ...]:
        """All entities in the order of the text; their keys are not set (`keyed`)."""
        return tuple(self._definitions())

    def words(self, first: int, last: int, without: tuple[tuple[int, int], ...]) -> Iterator[bytes]:
        """The words between two bytes."""
        if first >= last:
            return
        node = self.outline.tree.root_node.descendant_for_byte_range(first, last)
        assert node is not None
        if (node.start_byte, node.end_byte) == (first, last):
            yield from tokens(node, self.data, without)
            return
        for child in _within(node, first, last):
            yield from tokens(child, self.data, without)

    def _head(self, place: tuple[int, int, int]) -> str:
        return b" ".join(self.words(place[0], place[1], ())).decode("utf-8", "replace")

    def _definitions(self) -> Iterator[Entity]:
        definitions, ranges = self.outline.definitions, self.outline.ranges
        inner: dict[int, list[int]] = {}
        for index, definition in enumerate(definitions):
            inner.setdefault(definition.parent, []).append(index)
        for index, definition in enumerate(definitions):
            first, body, end = ranges[index]
            parent = definitions[definition.parent] if definition.parent >= 0 else None
            tag = ""
            if parent is not None and parent.kind == "implementation":
                tag = self._head(ranges[definition.parent])
            elif definition.kind == "implementation":
                tag = self._head(ranges[index])
            below = tuple((ranges[at][0], ranges[at][2]) for at in inner.get(index, ()))
            scope = definition.qualified.rpartition(".")[0]
            members = [*self._members(definition.kind, definition.qualified, body, end, below)]
            without = below + tuple((member._range[0], member._range[2]) for member in members)
            places = (definition.start, definition.end)
            yield Entity(
                definition.qualified,
                definition.qualified,
                definition.kind,
                scope,
                *places,
                _version=self,
                _range=(first, body, end),
                inner=without,
                _tag=tag,
            )
            yield from members

    def _members(
        self, kind: str, qualified: str, body: int, end: int, below: tuple[tuple[int, int], ...]
    ) -> Iterator[Entity]:
        """The fields of a class, the variants of an enum, the items of a constant table."""
        if kind not in CONTAINERS and kind != "constant":
            return
        node = self.outline.tree.root_node.descendant_for_byte_range(body, end)
        if node is None or (kind == "constant" and node.type not in _COLLECTIONS):
            return
        starts = sorted(start for start, _ in below)
        taken = {start: stop for start, stop in below}
        items = _items(node)
        if (
            kind == "constant"
            and items is not None
            and any(item.type not in _MEMBERS or _item_name(item) is None for item in items)
        ):
            return  # a list of values: its order may mean something
        for item in items or ():
            at = bisect_right(starts, item.end_byte - 1) - 1
            if at >= 0 and taken[starts[at]] > item.start_byte:
                continue  # a method, or what has one
            name = _item_name(item) if item.type in _MEMBERS else None
            if name is None:
                continue
            rows = item.start_point.row + 1, item.end_point.row + 1
            place = (item.start_byte, item.start_byte, item.end_byte)
            label = "field" if kind != "constant" else "item"
            yield Entity("", f"{qualified}.{name}", label, qualified, *rows, _version=self, _range=place)


def keyed(*versions: FileVersion | None) -> tuple[Mapping[str, Entity], ...]:
    """The entities of several versions of one file, by keys that are the same in all of them."""
    several: set[tuple[str, bool]] = set()
    for version in versions:
        counts = Counter(map(_called, version.found)) if version is not None else {}
        several |= {name for name, count in counts.items() if count > 1}
    return tuple({} if version is None else _keyed(version, several) for version in versions)


def _called(entity: Entity) -> tuple[str, bool]:
    return entity.qualified, entity.kind == "implementation"


def _keyed(version: FileVersion, several: set[tuple[str, bool]]) -> dict[str, Entity]:
    entities: dict[str, Entity] = {}
    for entity in version.found:
        base = entity.qualified
        if entity.kind == "implementation":
            base = f"{base} ({entity._tag})"
        elif _called(entity) in several:
            own = entity.body if entity.kind in ("field", "item") else entity.signature
            base = f"{base} {entity._tag or own}"
        key, number = base, 1
        while key in entities:
            number += 1
            key = f"{base} #{number}"
        entity.key = key
        entities[key] = entity
    return entities


def _within(node: Node, first: int, last: int) -> Iterator[Node]:
    """The largest nodes that lie between two bytes."""
    for child in node.children:
        if child.end_byte <= first or child.start_byte >= last:
            continue
        if first <= child.start_byte and child.end_byte <= last:
            yield child
        else:
            yield from _within(child, first, last)


def _items(node: Node) -> list[Node] | None:
    """What stands one by one in a body or a literal; None: it is neither."""
    lists = [
        child
        for child in node.named_children
        if child.type.endswith(("_list", "_body", "literal_value", "enum_body_declarations"))
        or child.type in ("block", "enum_body", "object_type", "interface_body")
    ]
    holder = lists[-1] if lists and len(node.named_children) - len(lists) <= 1 else node
    if holder is not node and any(child.type.endswith("_list") for child in holder.named_children):
        holder = holder.named_children[-1]
    return [child for child in holder.named_children if child.type not in COMMENTS]


def _item_name(node: Node) -> str | None:
    """What an item is called: its name, its key, the left of its assignment."""
    if node.type == "expression_statement" and node.named_child_count == 1:
        inner = node.named_children[0]
        return _item_name(inner) if inner.type == "assignment" else None
    if node.type in ("identifier", "property_identifier", "type_identifier"):
        return text_of(node)
    for name in _NAME_FIELDS:
        found = node.child_by_field_name(name)
        depth = 0
        while found is not None and found.type not in _NAMES and depth < 4:
            below = found.child_by_field_name("declarator") or found.child_by_field_name("name")
            if below is None and name in ("declarator", "key") and found.named_child_count:
                below = found.named_children[0]
            found, depth = below, depth + 1
        if found is not None and found.type in _NAMES:
            return text_of(found).strip("\"'`")
    return None


def read_version(path: str, data: bytes | None) -> FileVersion | None:
    """A version of a file; None when it is not there, of no known language, or does not parse."""
    if data is None or unfit(path, data):
        return None
    read = outline(path, data)
    return None if read is None or read.trouble else FileVersion(path, read)

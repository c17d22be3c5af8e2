"""Level 3, what is no call: imports and files that go, types that ask more, names that one package has twice.

Invariant: as in across_files.py; and nothing is said of a type that is only named alike: the reader's own text names
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tree_sitter import Node as SyntaxNode

from relay.code.read.imports import text_of
from relay.merge.conflicts.conflict import Conflict, Severity, Side, quoted
from relay.merge.conflicts.entities import Entity, FileVersion
from relay.merge.conflicts.finding import Finding
from relay.merge.conflicts.parameters import Head, head_of
from relay.merge.conflicts.reach import Reach
from relay.merge.conflicts.same_entity import Change, Changed
from relay.merge.conflicts.side import ChangedFile, Definition, Reader, SideWork

#: Languages whose files of one folder are one package: a name stands once in it.
_PACKAGED = frozenset({"go", "java"})
_IMPORTS = frozenset(
    {
        "import_statement",
        "import_from_statement",
        "import_declaration",
        "use_declaration",
        "future_import_statement",
    }
)
_PLAIN = frozenset(
    {"identifier", "type_identifier", "property_identifier", "dotted_name", "package_identifier"}
)


def findings(writer: SideWork, reader: SideWork, tree: Reach) -> Iterator[Finding]:
    """What the one side's contracts break of the other's work."""
    theirs = {file.change.path: file for file in reader.files}
    for file in writer.files:
        other = theirs.get(file.change.path)
        if other is not None:
            yield from _imports(file, other)
        yield from _file_gone(file, reader, tree)
        for changed in file.changes.values():
            yield from _types(file, changed, reader, tree)


# -- imports


def _imports(file: ChangedFile, other: ChangedFile) -> Iterator[Finding]:
    """An import that the one side removed, since nothing used it there, and the other side's new use of it."""
    if file.before is None or file.after is None or other.before is None or other.after is None:
        return
    gone = (_imported(file.before) - _imported(file.after)) & _imported(other.after)
    if gone:
        gone -= _used(file.after)
    for reader in other.readers if gone else ():
        for name in sorted(gone):
            if reader.added[name.encode()] <= 0 or reader.entity is None:
                continue
            import_line = _import_of(file.before, name)
            definition = Definition(file.change.path, Changed(Change.DELETE, import_line, None))
            yield Finding(
                "import_removed_and_used",
                Severity.CRITICAL,
                definition,
                reader,
                f"{name} is not imported any more",
            )


def _import_nodes(version: FileVersion) -> Iterator[SyntaxNode]:
    for node in version.outline.tree.root_node.named_children:
        if node.type in _IMPORTS:
            yield node


def _imported(version: FileVersion) -> frozenset[str]:
    """The names that the imports of a file bind, as far as their text shows them."""
    names: set[str] = set()
    for node in _import_nodes(version):
        names |= _bound(node, version.language)
    return frozenset(names)


def _bound(node: SyntaxNode, language: str) -> set[str]:
    if language == "go":
        found: set[str] = set()
        for spec in _below(node, "import_spec"):
            alias = text_of(spec.child_by_field_name("name"))
            path = text_of(spec.child_by_field_name("path")).strip('"`')
            found.add(alias or path.rpartition("/")[2])
        return found
    if language == "python":
        taken = node.children_by_field_name("name")
        return {
            text_of(one.child_by_field_name("alias") or one.child_by_field_name("name") or one).partition(
                "."
            )[0]
            for one in taken
        }
    if language in ("javascript", "typescript", "tsx"):
        names = set[str]()
        for clause in (child for child in node.named_children if child.type == "import_clause"):
            names |= {
                text_of(spec.child_by_field_name("alias") or spec.child_by_field_name("name"))
                for spec in _below(clause, "import_specifier")
            }
            names |= {text_of(child) for child in clause.named_children if child.type == "identifier"}
            for space in _below(clause, "namespace_import"):
                names |= {text_of(child) for child in space.named_children}
        return names
    words = [text_of(leaf) for leaf in _leaves(node) if leaf.type in _PLAIN]
    if language == "rust":
        return set(words) - {"crate", "self", "super"}
    return set(words[-1:])


def _below(node: SyntaxNode, kind: str) -> Iterator[SyntaxNode]:
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if here.type == kind:
            yield here
        waiting.extend(here.named_children)


def _leaves(node: SyntaxNode) -> Iterator[SyntaxNode]:
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if not here.named_child_count:
            yield here
        waiting.extend(reversed(here.named_children))


def _used(version: FileVersion) -> frozenset[str]:
    """The words of a file outside of its imports."""
    outside = tuple((node.start_byte, node.end_byte) for node in _import_nodes(version))
    words = version.words(0, len(version.data), outside)
    return frozenset(word.decode("utf-8", "replace") for word in words)


def _import_of(version: FileVersion, name: str) -> Entity:
    node = next(node for node in _import_nodes(version) if name in _bound(node, version.language))
    place = (node.start_byte, node.start_byte, node.end_byte)
    rows = node.start_point.row + 1, node.end_point.row + 1
    return Entity(name, name, "import", "", *rows, _version=version, _range=place)


def _file_gone(file: ChangedFile, reader: SideWork, tree: Reach) -> Iterator[Finding]:
    """A file that is removed or renamed, and newly imported."""
    change = file.change
    if file.before is None or (change.after is not None and change.new_path == change.path):
        return
    whole = (0, 0, len(file.before.data))
    lines = file.before.data.count(b"\n") + 1
    entity = Entity(change.path, change.path, "file", "", 1, lines, _version=file.before, _range=whole)
    definition = Definition(change.path, Changed(Change.DELETE, entity, None))
    why = "it is gone" if change.after is None else f"it is {change.new_path} now"
    stem = change.path.rpartition("/")[2].partition(".")[0].encode()
    for other in reader.files:
        path = other.change.new_path
        if change.path not in tree.graph.imports(path) or path == change.path:
            continue
        for one in other.readers:
            if one.entity is None and any(stem in word for word in one.added):
                use = "newly imports it"
                yield Finding("removed_and_used", Severity.CRITICAL, definition, one, why, (), use)


# -- types


def _types(file: ChangedFile, changed: Changed, reader: SideWork, tree: Reach) -> Iterator[Finding]:
    """A type asks more than before of whoever implements it or makes a value of it."""
    entity = changed.after if changed.what is Change.ADD else changed.before
    if entity is None or not entity.scope or entity.scope not in file.keyed[0]:
        return
    owner = file.keyed[0][entity.scope]
    if owner.kind not in ("class", "type"):
        return
    if owner.language == "go":
        yield from _go_methods(file, changed, owner, reader, tree)
    for one in reader.readers:
        if one.entity is None or not tree.sees(one.path, file.change.path):
            continue
        if changed.what is Change.ADD and changed.after is not None:
            if _is_abstract(changed.after, owner) and _newly_implements(one, owner):
                if changed.after.name not in _members_of(one):
                    why = f"whoever implements {owner.qualified} must have it"
                    use = f"newly implements {owner.qualified} without it"
                    yield _added(file, changed.after, one, "not_implemented", why, use)
            elif (
                _is_required(changed.after, owner)
                and _makes(one, owner, changed.after.name)
                and (owner.language != "go" or _has_more(file, owner))
            ):
                why = f"each {owner.qualified} must be given it"
                use = f"newly makes a {owner.qualified} without it"
                yield _added(file, changed.after, one, "not_implemented", why, use)
            elif _is_variant(changed.after) and _matches_all(one, owner, changed.after.name):
                why = f"whoever tells all {owner.qualified} apart must tell it too"
                use = f"newly tells all {owner.qualified} apart without it"
                yield _added(file, changed.after, one, "not_implemented", why, use)
        elif changed.what in (Change.SIGNATURE, Change.BODY, Change.DELETE) and changed.before is not None:
            mine = _members_of(one).get(entity.name) if _newly_implements(one, owner) else None
            before = head_of(changed.before) if mine is not None else None
            after = head_of(changed.after) if changed.after is not None else None
            if mine is None or before is None or (after is not None and not _differs(before, after)):
                continue
            if changed.after is None and not _is_abstract(changed.before, owner):
                continue
            definition = Definition(file.change.path, changed)
            why = "it is gone" if changed.after is None else "it takes or gives something else"
            use = f"newly overrides it as it was ({mine.qualified})"
            yield Finding("signature_and_override", Severity.CRITICAL, definition, one, why, (), use)


def _go_methods(
    file: ChangedFile, changed: Changed, owner: Entity, reader: SideWork, tree: Reach
) -> Iterator[Finding]:
    """Go: a new type has all methods that an interface asked for, and this side newly names the interface; so it
    implements it, though nothing says so."""
    asked = {
        one.name for one in file.keyed[0].values() if one.scope == owner.qualified and _is_go_method(one)
    }
    entity = changed.after if changed.what is Change.ADD else changed.before
    if not asked or entity is None or not _is_go_method(entity):
        return
    if not any(one.added[owner.name.encode()] > 0 for one in reader.readers):
        return
    for one in reader.readers:
        if one.entity is None or not one.is_new or one.entity.kind not in ("class", "type"):
            continue
        has = {
            each.name: each
            for each in one.entity.version.found
            if each.kind == "method" and each.scope == one.entity.qualified
        }
        if not asked <= has.keys() or not tree.sees(one.path, file.change.path):
            continue
        if changed.what is Change.ADD:
            if entity.name not in has:
                why = f"whoever implements {owner.qualified} must have it"
                use = f"newly implements {owner.qualified} without it"
                yield _added(file, entity, one, "not_implemented", why, use)
            continue
        before, after = head_of(entity), head_of(changed.after) if changed.after is not None else None
        if before is not None and after is not None and _differs(before, after):
            definition = Definition(file.change.path, changed)
            why = "it takes or gives something else"
            use = f"newly implements it as it was ({has[entity.name].qualified})"
            yield Finding("signature_and_override", Severity.CRITICAL, definition, one, why, (), use)


def _is_go_method(entity: Entity) -> bool:
    return entity.node.type in ("method_elem", "method_spec")


def _added(file: ChangedFile, entity: Entity, reader: Reader, kind: str, why: str, use: str) -> Finding:
    definition = Definition(file.change.path, Changed(Change.ADD, None, entity))
    return Finding(kind, Severity.CRITICAL, definition, reader, why, (), use)


def _is_abstract(entity: Entity, owner: Entity) -> bool:
    """Must whoever implements the owner have this member?"""
    head = owner.head
    text = entity.raw
    if entity.language == "python":
        return b"abstractmethod" in text or (b"Protocol" in head and entity.kind == "method")
    if entity.language == "rust":
        return b"trait " in head and text.rstrip().endswith(b";")
    if entity.language == "java":
        inside = b"interface " in head and b"default " not in text and b"static " not in text
        return entity.kind == "method" and b"{" not in text and (inside or b"abstract " in text)
    if entity.language in ("typescript", "tsx"):
        return (b"interface " in head and b"?" not in text.partition(b":")[0]) or b"abstract " in text
    return entity.language == "cpp" and b"virtual " in text and text.rstrip(b" ;\n").endswith(b"= 0")


def _newly_implements(reader: Reader, owner: Entity) -> bool:
    """Whether the reader is a class, or an implementation, that is new and names the owner in its head."""
    entity = reader.entity
    if entity is None or not reader.is_new or entity.kind not in ("class", "implementation", "type"):
        return False
    first, last = entity.place[0], entity.body_place[0]
    words = list(entity.version.words(first, last, ()))
    if owner.name.encode() not in words[1:]:
        return False
    if entity.language == "rust":
        return b"for" in words and words.index(owner.name.encode()) < words.index(b"for")
    return entity.name != owner.name


def _members_of(reader: Reader) -> dict[str, Entity]:
    entity = reader.entity
    if entity is None:
        return {}
    first, last = entity.place
    return {
        one.name: one
        for one in entity.version.found
        if one is not entity
        and one.place[0] >= first
        and one.place[1] <= last
        and one.scope == entity.qualified
    }


def _differs(before: Head, after: Head) -> bool:
    """Do two heads ask other things of an override?"""

    def asked(head: Head) -> tuple[object, ...]:
        return [(one.type, one.kind) for one in head.parameters], head.result, head.marks

    return asked(before) != asked(after)


def _is_required(entity: Entity, owner: Entity) -> bool:
    """Must whoever makes an owner give this field?"""
    if entity.kind != "field":
        return False
    if entity.language == "python":
        return b"dataclass" in owner.head and b"=" not in entity.raw
    return entity.language in ("rust", "go") and entity.node.type == "field_declaration"


def _makes(reader: Reader, owner: Entity, field: str) -> bool:
    if reader.entity is None:
        return False
    if owner.language == "python":
        return any(
            new
            and call.name == owner.name
            and shape is not None
            and field not in shape.names
            and not shape.spread
            for call, shape, new in reader.calls
        )
    if owner.language == "go":
        return reader.added[owner.name.encode()] > 0 and any(
            _is_unkeyed(made, owner.name) for made in _below(reader.entity.node, "composite_literal")
        )
    for made in _below(reader.entity.node, "struct_expression"):
        name = text_of(made.child_by_field_name("name")).rpartition("::")[2]
        body = made.child_by_field_name("body")
        if name != owner.name or body is None or reader.added[owner.name.encode()] <= 0:
            continue
        given = [text_of(child.child_by_field_name("field") or child) for child in body.named_children]
        rest = any(child.type == "base_field_initializer" for child in body.named_children)
        if field not in given and not rest:
            return True
    return False


def _has_more(file: ChangedFile, owner: Entity) -> bool:
    """Whether a type has more fields than before: one that only has another name keeps its place."""
    old, new = (sum(one.scope == owner.qualified for one in side.values()) for side in file.keyed)
    return new > old


def _is_unkeyed(literal: SyntaxNode, name: str) -> bool:
    """Go: a value of this type that gives its fields by their places, and so all of them."""
    body = literal.child_by_field_name("body")
    if body is None or text_of(literal.child_by_field_name("type")).rpartition(".")[2] != name:
        return False
    values = [child for child in body.named_children if child.type != "comment"]
    return bool(values) and all(child.type != "keyed_element" for child in values)


def _is_variant(entity: Entity) -> bool:
    return entity.language == "rust" and entity.kind == "field" and entity.node.type == "enum_variant"


def _matches_all(reader: Reader, owner: Entity, variant: str) -> bool:
    """Whether a new `match` tells the variants of an enum apart, without a last arm for all others."""
    if reader.entity is None or reader.added[owner.name.encode()] <= 0:
        return False
    for match in _below(reader.entity.node, "match_expression"):
        arms = [arm.child_by_field_name("pattern") for arm in _below(match, "match_arm")]
        texts = [text_of(arm) for arm in arms if arm is not None]
        named = sum(f"{owner.name}::" in text for text in texts)
        rest = any(text == "_" or text.isidentifier() for text in texts)
        if named >= 2 and not rest and not any(f"::{variant}" in text for text in texts):
            return True
    return False


# -- one name twice


def added_twice(a: SideWork, b: SideWork) -> Iterator[Conflict]:
    """Both sides add a definition of one name to two files of one package."""
    ours, theirs = _added_names(a), _added_names(b)
    for key in sorted(ours.keys() & theirs.keys()):
        (path, mine), (other_path, other) = ours[key], theirs[key]
        if path == other_path:
            continue
        evidence = (
            f"A adds the {mine.kind} {mine.qualified} ({path}:{mine.start}-{mine.end}).",
            f"B adds another of its name to the same package ({other_path}:{other.start}-{other.end}).",
        )
        sides = (Side(None, quoted(mine.text)), Side(None, quoted(other.text)))
        place = min(path, other_path)
        found = Conflict(3, "added_twice", Severity.CRITICAL, place, mine.qualified, *sides, evidence)
        places = ((path, mine.start, mine.end), (other_path, other.start, other.end))
        yield replace(found, places=places)


def _added_names(side: SideWork) -> dict[tuple[str, str], tuple[str, Entity]]:
    found: dict[tuple[str, str], tuple[str, Entity]] = {}
    for file in side.files:
        if file.after is None or file.after.language not in _PACKAGED:
            continue
        path = file.change.new_path
        package = _package(file.after)
        folder = path.rpartition("/")[0] + package
        counts = Counter(entity.qualified for entity in file.after.found)
        for changed in file.changes.values():
            entity = changed.after
            if changed.what is not Change.ADD or entity is None or entity.kind in ("field", "item"):
                continue
            if entity.name in ("init", "_", "main") or counts[entity.qualified] > 1:
                continue
            if entity.language == "java" and entity.scope:
                continue
            found.setdefault((folder, entity.qualified), (path, entity))
    return found


def _package(version: FileVersion) -> str:
    for node in version.outline.tree.root_node.named_children:
        if node.type in ("package_clause", "package_declaration"):
            return "#" + text_of(node)
    return ""

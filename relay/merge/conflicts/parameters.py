"""What a definition takes, what a call gives it, and whether the two fit.

Invariant: a misfit is named only where the text shows it: a call that spreads a list, a parameter that cannot
be read, fit whatever there is. Only what differs between the old head and the new one can misfit: a call that did
not fit before is nobody's conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tree_sitter import Node

from relay.code.read.imports import text_of
from relay.merge.conflicts.entities import Entity
from relay.merge.conflicts.tokens import COMMENTS

_CALLS = frozenset(
    {"call", "call_expression", "method_invocation", "object_creation_expression", "new_expression"}
)
_SPREAD = frozenset(
    {"list_splat", "dictionary_splat", "spread_element", "variadic_argument", "parenthesized_list_splat"}
)
_REST = frozenset(
    {"list_splat_pattern", "dictionary_splat_pattern", "rest_pattern", "variadic_parameter_declaration"}
    | {"spread_parameter", "variadic_parameter", "variadic_parameter_declarator"}
)
_OPTIONAL = frozenset(
    {"default_parameter", "typed_default_parameter", "optional_parameter", "assignment_pattern"}
    | {"optional_parameter_declaration"}
)
_SELVES = frozenset({"self", "cls", "this"})
#: Languages that give arguments by name.
BY_NAME = frozenset({"python"})
#: Languages whose types nobody checks.
UNTYPED = frozenset({"javascript"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """`kind`: "" one value, "rest" any number, "named" given by its name only. `type`: its words, "" = none said."""

    name: str
    type: str
    optional: bool
    kind: str
    default: str = ""


@dataclass(frozen=True, slots=True)
class Head:
    """What a definition takes and gives. `marks`: words such as async, static, private, its decorators."""

    parameters: tuple[Parameter, ...]
    result: str
    marks: frozenset[str]

    @property
    def positional(self) -> tuple[Parameter, ...]:
        return tuple(one for one in self.parameters if not one.kind)

    @property
    def most(self) -> int | None:
        """How many arguments it takes by place; None: any number."""
        return None if any(one.kind == "rest" for one in self.parameters) else len(self.positional)

    @property
    def needed(self) -> tuple[Parameter, ...]:
        return tuple(one for one in self.parameters if not one.optional and one.kind != "rest")


@dataclass(frozen=True, slots=True)
class CallShape:
    """What a call gives: values by place, names, and whether it spreads a list, so that more may come."""

    positional: int
    names: frozenset[str]
    spread: bool
    awaited: bool


def head_of(entity: Entity) -> Head | None:
    """The head of a function or method; None: it has no parameters that can be read."""
    node = _callable(entity)
    if node is None:
        return None
    listed = node.child_by_field_name("parameters")
    if listed is None:
        single = node.child_by_field_name("parameter")  # `x => ...`
        if single is None:
            return None
        return Head((Parameter(text_of(single), "", False, ""),), "", _marks(entity, node))
    language = entity.language
    parameters: list[Parameter] = []
    named_only = False
    for child in listed.named_children:
        if child.type in COMMENTS or child.type in ("self_parameter", "receiver_parameter"):
            continue
        if child.type in ("keyword_separator", "positional_separator"):
            named_only = named_only or child.type == "keyword_separator"
            continue
        for one in _parameters(child, language):
            kind = "named" if named_only and not one.kind else one.kind
            parameters.append(Parameter(one.name, one.type, one.optional, kind, one.default))
        # What stands behind `*args` is given by its name.
        named_only = named_only or child.type == "list_splat_pattern"
    if language == "python" and entity.kind == "method" and parameters and parameters[0].name in _SELVES:
        parameters = parameters[1:]
    result = node.child_by_field_name("return_type") or node.child_by_field_name("result")
    if result is None and language in ("java", "c", "cpp"):
        result = _outer(node).child_by_field_name("type")
    return Head(tuple(parameters), _said(result), _marks(entity, node))


def with_defaults(head: Head, declared: Head | None) -> Head:
    """The head with the defaults of a declaration of the same parameters (C++)."""
    if declared is None or [one.type for one in declared.parameters] != [one.type for one in head.parameters]:
        return head
    merged = tuple(
        replace(one, optional=True, default=other.default) if other.optional and not one.optional else one
        for one, other in zip(head.parameters, declared.parameters, strict=True)
    )
    return replace(head, parameters=merged)


def _callable(entity: Entity) -> Node | None:
    """The node that has the parameters of a definition."""
    node: Node | None = entity.node
    depth = 0
    while node is not None and depth < 6:
        if node.child_by_field_name("parameters") or node.child_by_field_name("parameter"):
            return node
        below = (
            node.child_by_field_name("definition")
            or node.child_by_field_name("value")
            or node.child_by_field_name("right")
            or node.child_by_field_name("declarator")
        )
        if (
            below is None
            and node.type in ("export_statement", "expression_statement")
            and node.named_child_count
        ):
            below = node.named_children[0]
        node, depth = below, depth + 1
    return None


def _outer(node: Node) -> Node:
    """C: the definition around a declarator."""
    while node.parent is not None and node.type.endswith("declarator"):
        node = node.parent
    return node


def _parameters(node: Node, language: str) -> Iterator[Parameter]:
    kind = "rest" if node.type in _REST else ""
    typed = node.child_by_field_name("type")
    value = node.child_by_field_name("value") or node.child_by_field_name("default_value")
    value = value or (node.child_by_field_name("right") if node.type == "assignment_pattern" else None)
    optional = node.type in _OPTIONAL or value is not None or kind == "rest"
    pattern = node.child_by_field_name("pattern")
    if any(child.type in _REST for child in (node, pattern) if child is not None) or (
        node.type == "typed_parameter" and node.named_children and node.named_children[0].type in _REST
    ):
        kind, optional = "rest", True
    names = [text_of(child) for child in node.children_by_field_name("name")]
    if not names:
        inner = pattern or node.child_by_field_name("declarator") or node.child_by_field_name("left")
        if inner is None and node.type == "typed_parameter" and node.named_children:
            inner = node.named_children[0]
        names = [_last_name(inner if inner is not None else node)]
        if language == "go" and inner is None:
            names = [""]  # a type alone
    for name in names:
        yield Parameter(name, _said(typed), optional, kind, _said(value))


def _last_name(node: Node) -> str:
    while node.named_child_count:
        below = node.child_by_field_name("declarator") or node.named_children[-1]
        node = below
    return text_of(node)


def _said(node: Node | None) -> str:
    if node is None or node.text is None:
        return ""
    return " ".join(node.text.decode("utf-8", "replace").split()).removeprefix(": ")


def _marks(entity: Entity, node: Node) -> frozenset[str]:
    """The words before the name that change what a call is."""
    first = entity.raw.split(b"(", 1)[0].split()
    known = {
        b"async",
        b"static",
        b"private",
        b"protected",
        b"public",
        b"pub",
        b"abstract",
        b"unsafe",
        b"const",
    }
    return frozenset(word.decode() for word in first if word in known)


def shapes(node: Node, first: int, last: int) -> dict[tuple[str, int], list[CallShape]]:
    """The calls below a node between two bytes, by name and line (1-based, of the file)."""
    found: dict[tuple[str, int], list[CallShape]] = {}
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if here.end_byte <= first or here.start_byte >= last:
            continue
        if here.type in _CALLS:
            name = _called(here)
            if name is not None:
                place = (text_of(name), name.start_point.row + 1)
                found.setdefault(place, []).append(_shape(here))
        waiting.extend(here.named_children)
    return found


def _called(call: Node) -> Node | None:
    node = (
        call.child_by_field_name("function")
        or call.child_by_field_name("constructor")
        or call.child_by_field_name("name")
        or call.child_by_field_name("type")
    )
    while node is not None and node.type not in ("identifier", "type_identifier", "field_identifier"):
        below = (
            node.child_by_field_name("attribute")
            or node.child_by_field_name("property")
            or node.child_by_field_name("field")
            or node.child_by_field_name("name")
            or node.child_by_field_name("function")
        )
        if below is None:
            return node if node.type == "property_identifier" else None
        node = below
    return node


def _shape(call: Node) -> CallShape:
    given = call.child_by_field_name("arguments")
    positional, names, spread = 0, set[str](), False
    for child in given.named_children if given is not None else ():
        if child.type == "keyword_argument":
            names.add(text_of(child.child_by_field_name("name")))
        elif child.type in _SPREAD:
            spread = True
        elif child.type not in COMMENTS:
            positional += 1
    around = call.parent
    awaited = around is not None and around.type in ("await", "await_expression")
    return CallShape(positional, frozenset(names), spread, awaited)


def misfit(call: CallShape, old: Head, new: Head, language: str) -> str:
    """How a call that was written for the old head does not fit the new one, in words; "" = it fits."""
    if ("async" in old.marks) != ("async" in new.marks):
        if "async" in new.marks:
            return "" if call.awaited else "it must be awaited now"
        return "it cannot be awaited any more" if call.awaited else ""
    for hidden in ("private", "protected"):
        if hidden in new.marks and hidden not in old.marks:
            return f"it is {hidden} now"
    if ("static" in old.marks) != ("static" in new.marks):
        return "it is static now" if "static" in new.marks else "it is not static any more"
    if call.spread:
        return ""
    return _count(call, new, language) or _places(call, old, new, language) or _result(old, new, language)


def _count(call: CallShape, new: Head, language: str) -> str:
    if language == "javascript" and call.positional >= len(
        [one for one in new.positional if not one.optional]
    ):
        return ""
    if new.most is not None and call.positional > new.most:
        return f"it takes {new.most} arguments, and the call gives {call.positional}"
    by_place = new.positional[: call.positional]
    taken = {one.name for one in by_place}
    missing = [one.name for one in new.needed if one not in by_place and one.name not in call.names]
    if missing:
        return f"the call does not give {', '.join(missing)}"
    if language in BY_NAME and not any(one.kind == "rest" and one.optional for one in new.parameters):
        known = {one.name for one in new.parameters}
        unknown = sorted(call.names - known)
        if unknown:
            return f"it does not take {', '.join(unknown)}"
    twice = sorted(call.names & taken)
    return f"the call gives {', '.join(twice)} twice" if twice else ""


def _places(call: CallShape, old: Head, new: Head, language: str) -> str:
    """Do the arguments still mean the same parameters?"""
    for before, after in zip(old.positional[: call.positional], new.positional, strict=False):
        names = {one.name for one in new.positional}
        if before.name != after.name and before.name in names:
            return f"its argument {before.name} stands at another place"
        if before.name != after.name and after.name in {one.name for one in old.positional}:
            return f"its argument {before.name} is gone"
        if language not in UNTYPED and before.type != after.type and before.type and after.type:
            return f"its argument {after.name} is {after.type}, it was {before.type}"
    by_name = {one.name: one for one in new.parameters}
    for parameter in old.parameters:
        other = by_name.get(parameter.name)
        if other is None or parameter.name not in call.names or language in UNTYPED:
            continue
        if parameter.type and other.type and parameter.type != other.type:
            return f"its argument {other.name} is {other.type}, it was {parameter.type}"
    return ""


def _result(old: Head, new: Head, language: str) -> str:
    if language in UNTYPED or not old.result or not new.result or old.result == new.result:
        return ""
    return f"it gives {new.result}, it gave {old.result}"


def other_default(call: CallShape, old: Head, new: Head) -> str:
    """The name of a parameter that the call leaves to a default that is another one now; "" = none."""
    before = {one.name: one for one in old.parameters if one.optional and one.kind != "rest"}
    for place, one in enumerate(new.parameters):
        known = before.get(one.name)
        given = one.name in call.names or (not one.kind and place < call.positional)
        if (
            known is not None
            and one.optional
            and known.default != one.default
            and not given
            and not call.spread
        ):
            return one.name
    return ""

"""What a change of a body changes of what a definition does.

Invariant: pure, on two syntax trees. No difference is named for a change of comments, layout, log lines, or of the
names of local variables; nor for what is only added under a parameter that callers of before do not give.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from types import MappingProxyType

from tree_sitter import Node

from relay.merge.conflicts.entities import Entity
from relay.merge.conflicts.parameters import head_of, with_defaults
from relay.merge.conflicts.tokens import COMMENTS, is_docstring, tokens

#: A statement that only tells somebody what happens.
_LOGS = re.compile(
    rb"^(?:self\.|this\.)?_?(?:log|logger|logging|console|tracing|debug|LOG|LOGGER|slog)\b\s*(?:\.|!|::|\()"
)
NONE_KNOWN: Mapping[bytes, bytes] = MappingProxyType({})
#: The share of a body's words below which it was written anew, and the words that it must have for that.
REWRITTEN, LONG_ENOUGH = 0.6, 15
_RESULTS = frozenset({"return_statement", "return_expression", "yield", "yield_expression"})
_ERRORS = frozenset({"raise_statement", "throw_statement", "throw_expression", "try_expression"})
_BRANCHES = frozenset(
    {"if_statement", "if_expression", "elif_clause", "while_statement", "match_statement", "match_expression"}
    | {
        "switch_statement",
        "conditional_expression",
        "ternary_expression",
        "while_expression",
        "for_statement",
    }
    | {
        "switch_expression",
        "expression_switch_statement",
        "for_expression",
        "do_statement",
        "for_in_statement",
    }
)
_ASSIGNS = frozenset(
    {"assignment", "augmented_assignment", "assignment_expression", "augmented_assignment_expression"}
    | {
        "assignment_statement",
        "compound_assignment_expr",
        "update_expression",
        "inc_statement",
        "dec_statement",
    }
)
_DECLARES = frozenset(
    {
        "assignment",
        "variable_declarator",
        "short_var_declaration",
        "let_declaration",
        "var_spec",
        "for_statement",
    }
    | {
        "init_declarator",
        "for_in_clause",
        "named_expression",
        "for_expression",
        "range_clause",
        "declaration",
    }
)
_IDENTIFIERS = frozenset({"identifier", "shorthand_property_identifier_pattern"})
_PATTERNS = frozenset(
    {"pattern_list", "tuple_pattern", "expression_list", "list_pattern", "array_pattern", "object_pattern"}
    | {"pointer_declarator", "mut_pattern", "tuple_struct_pattern"}
)


@dataclass(frozen=True, slots=True)
class Difference:
    """What a definition does otherwise than before. `says`: in words, the weightiest first."""

    says: tuple[str, ...]

    @property
    def tells(self) -> bool:
        """Whether it is known what is otherwise, and not only that something is."""
        return bool(self.says) and self.says != _SOMETHING

    def __bool__(self) -> bool:
        return bool(self.says)


_SOMETHING = ("does something else on its way",)
NOTHING = Difference(())


def difference(
    before: Entity,
    after: Entity,
    known: Mapping[bytes, bytes] = NONE_KNOWN,
    declared: Sequence[Entity] = (),
) -> Difference:
    """What `after` does otherwise than `before`; empty where only the text differs. `known`: names of definitions
    that the same side changes, each with its name now: who calls them by it, with other arguments, is adapted to
    that, and does nothing else. `declared`: declarations of `after` (C++), which have its defaults."""
    if before.raw == after.raw:
        return NOTHING
    plain, now = _plain(before, known), _plain(after, known)
    if (
        plain == now
        or _only_under_new_parameters(before, after, declared)
        or _only_by_new_parameters(_new_parameters(before, after, declared), plain, now)
    ):
        return NOTHING
    if before.kind in ("function", "method") and _rewritten(plain, now):
        return NOTHING
    old, new = _parts(before), _parts(after)
    says = []
    for part, words in (
        ("result", "returns something else"),
        ("error", "fails otherwise"),
        ("branch", "decides by other conditions"),
        ("state", "sets other things"),
    ):
        if old[part] != new[part]:
            says.append(words)
    if before.kind in ("constant", "item", "field", "macro"):
        says = ["has another value"]
    return Difference(tuple(says) or _SOMETHING)


def _plain(entity: Entity, known: Mapping[bytes, bytes]) -> list[bytes]:
    """The words of the body, local names numbered, without log lines and without the arguments of `known` calls."""
    first, last = entity.body_place
    root = entity.node
    names = _locals(entity)
    logs = {(node.start_byte, node.end_byte) for node in _statements(root) if _is_log(node, entity)}
    numbered: dict[bytes, bytes] = {}
    words: list[bytes] = []
    for word in entity.version.words(first, last, tuple(logs)):
        is_local = word in names and (not words or words[-1] not in (b".", b"->", b"::"))
        words.append(numbered.setdefault(word, b"\1%d" % len(numbered)) if is_local else word)
    return (
        _without_arguments([known.get(word, word) for word in words], {*known.values()}) if known else words
    )


def _without_arguments(words: list[bytes], known: set[bytes]) -> list[bytes]:
    kept: list[bytes] = []
    depth = 0
    for word in words:
        if depth:
            depth += (word == b"(") - (word == b")")
            if depth:
                continue
        elif word == b"(" and kept and kept[-1] in known:
            depth = 1
        kept.append(word)
    return kept


def _rewritten(before: list[bytes], after: list[bytes]) -> bool:
    """Whether a body was written anew to do the same, as far as one can tell: little of it is left, it has no more
    words than before, and it speaks of the same texts and fails in the same places."""
    if len(before) < LONG_ENOUGH or len(after) > len(before) or _texts(before) != _texts(after):
        return False
    return SequenceMatcher(None, before, after, autojunk=False).ratio() < REWRITTEN


def _texts(words: list[bytes]) -> set[bytes]:
    """The literal texts, and the words by which a body fails."""
    return {word for word in words if word[:1] in b"\"'`" or word in (b"raise", b"throw", b"panic")}


def _only_by_new_parameters(added: Mapping[bytes, bytes], old: list[bytes], new: list[bytes]) -> bool:
    """Whether all that came into the body has a parameter that is new and optional in it, and all that went was the
    default of one."""
    if not added:
        return False
    for what, first, last, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        came = new[start:end]
        if what == "equal":
            continue
        if not added.keys() & set(came):
            return False
        if what != "insert" and not (len(came) == 1 and b" ".join(old[first:last]) == added[came[0]]):
            return False
    return True


def _new_parameters(before: Entity, after: Entity, declared: Sequence[Entity]) -> dict[bytes, bytes]:
    """The optional parameters that are new, each with its default."""
    old, new = head_of(before), head_of(after)
    if old is None or new is None:
        return {}
    for one in declared:
        new = with_defaults(new, head_of(one))
    known = {one.name for one in old.parameters}
    return {
        one.name.encode(): one.default.encode()
        for one in new.parameters
        if one.optional and one.name not in known
    }


def _is_log(node: Node, entity: Entity) -> bool:
    return node.type in ("expression_statement", "macro_invocation") and bool(
        _LOGS.match(entity.version.data[node.start_byte : node.start_byte + 40])
    )


def _statements(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "expression_statement":
            yield node
        waiting.extend(node.named_children)


def _locals(entity: Entity) -> set[bytes]:
    """The names that a definition itself makes: its variables, not its parameters (callers may give them by name)."""
    found: set[bytes] = set()
    if entity.kind not in ("function", "method"):
        return found
    waiting = [entity.node]
    while waiting:
        node = waiting.pop()
        if node.type in _DECLARES:
            for name in ("left", "name", "pattern", "declarator"):
                for child in node.children_by_field_name(name):
                    found.update(_names(child))
        waiting.extend(node.named_children)
    return found


def _names(node: Node) -> Iterator[bytes]:
    """The plain names on the left of an assignment; no attributes, no items."""
    if node.type in _IDENTIFIERS:
        if node.text:
            yield node.text
    elif node.type in _PATTERNS:
        for child in node.named_children:
            yield from _names(child)


def _parts(entity: Entity) -> dict[str, Counter[bytes]]:
    """Of a body, by kind, what it returns, raises, decides by and sets: each as its words."""
    parts: dict[str, Counter[bytes]] = {name: Counter() for name in ("result", "error", "branch", "state")}
    data = entity.version.data
    first, last = entity.body_place
    waiting = [entity.node]
    while waiting:
        node = waiting.pop()
        if node.type in COMMENTS or is_docstring(node) or node.end_byte <= first or node.start_byte >= last:
            continue
        kind = node.type
        if kind in _RESULTS:
            parts["result"][_words(node, data)] += 1
        elif kind in _ERRORS:
            parts["error"][_words(node, data)] += 1
        elif kind in _BRANCHES:
            for name in ("condition", "value", "subject", "right", "left", "alternative"):
                child = node.child_by_field_name(name)
                if child is not None and (name != "alternative" or kind in ("conditional_expression",)):
                    parts["branch"][_words(child, data)] += 1
        elif kind in _ASSIGNS:
            target = node.child_by_field_name("left") or node.child_by_field_name("argument")
            if target is not None and target.type not in _IDENTIFIERS:
                parts["state"][_words(node, data)] += 1
        waiting.extend(node.named_children)
    tail = _last_expression(entity)
    if tail is not None:
        parts["result"][_words(tail, data)] += 1
    return parts


def _last_expression(entity: Entity) -> Node | None:
    """What a body without `return` gives: Rust's last expression, an arrow function's only one."""
    first, last = entity.body_place
    body = entity.version.outline.tree.root_node.descendant_for_byte_range(first, last)
    if body is None:
        return None
    if entity.language == "rust" and body.type == "block" and body.named_children:
        tail = body.named_children[-1]
        return tail if tail.type not in ("expression_statement", "let_declaration") else None
    if entity.language in ("javascript", "typescript", "tsx") and body.type != "statement_block":
        return body
    return None


def _words(node: Node, data: bytes) -> bytes:
    return b" ".join(tokens(node, data))


def _only_under_new_parameters(before: Entity, after: Entity, declared: Sequence[Entity]) -> bool:
    """Whether all that was added stands in branches that ask for a parameter that is new and optional, and nothing
    went."""
    added = _new_parameters(before, after, declared).keys()
    if not added:
        return False
    guarded = tuple(
        (node.start_byte, node.end_byte)
        for node in _branches(after.node)
        if (condition := node.child_by_field_name("condition")) is not None
        and added & set(tokens(condition, after.version.data))
        and node.child_by_field_name("alternative") is None
    )
    first, last = after.body_place
    left = list(after.version.words(first, last, guarded))
    return left == list(before.version.words(*before.body_place, ()))


def _branches(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type in ("if_statement", "if_expression"):
            yield node
        waiting.extend(node.named_children)

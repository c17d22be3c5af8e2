"""The words of a piece of code: what it says, without how it is laid out.

Invariant: two pieces have the same tokens exactly when they differ in comments, blanks, line breaks, a closing comma
or (Python) a docstring only. Python's indentation counts: a statement that moves into an `if` says something else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tree_sitter import Node

COMMENTS = frozenset({"comment", "line_comment", "block_comment", "html_comment"})
#: Nodes that are one word, whatever the grammar finds in them.
_WHOLE = frozenset(
    {
        *(
            "string_literal",
            "raw_string_literal",
            "interpreted_string_literal",
            "rune_literal",
            "char_literal",
        ),
        *("character_literal", "regex", "system_lib_string", "escape_sequence"),
    }
)
_CLOSING = frozenset({")", "]", "}", ">"})


def tokens(node: Node, data: bytes, without: Collection[tuple[int, int]] = ()) -> Iterator[bytes]:
    """The words between a node's first and last byte. `without`: ranges of bytes that are left out."""
    waiting: bytes | None = None
    for word in _words(node, data, frozenset(without)):
        if waiting is not None and word not in _CLOSING_BYTES:
            yield waiting
        waiting = None
        if word == b",":
            waiting = word
        else:
            yield word
    if waiting is not None:
        yield waiting


_CLOSING_BYTES = frozenset(word.encode() for word in _CLOSING)


def _words(node: Node, data: bytes, without: frozenset[tuple[int, int]]) -> Iterator[bytes]:
    stack: list[Node | bytes] = [node]
    while stack:
        here = stack.pop()
        if isinstance(here, bytes):
            yield here
            continue
        kind = here.type
        if kind in COMMENTS or (here.start_byte, here.end_byte) in without or is_docstring(here):
            continue
        children = here.children
        if not children or kind in _WHOLE or (kind == "template_string" and len(children) == 2):
            if here.end_byte > here.start_byte:
                yield data[here.start_byte : here.end_byte]
            continue
        if kind == "template_string":
            yield data[here.start_byte : here.end_byte]
            continue
        if kind == "block" and children[0].type not in ("{",):
            yield b"{"  # Python's: its braces are its indentation
            stack.append(b"}")
        stack.extend(reversed(children))


def is_docstring(node: Node) -> bool:
    """Whether a node is a string that stands alone as the first statement of a Python body."""
    if node.type != "expression_statement" or node.child_count != 1:
        return False
    only, parent = node.children[0], node.parent
    if only.type != "string" or parent is None or parent.type not in ("block", "module"):
        return False
    first = next((child for child in parent.named_children if child.type != "comment"), None)
    return first is not None and first.start_byte == node.start_byte

"""A text as a syntax tree: the units that stand side by side in it, and what it defines.

Invariant: a unit is whole lines: no two units share a line, and a unit has the comments, decorators and attributes
that stand directly above it.
"""

from __future__ import annotations

import re
import warnings
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from tree_sitter import Node, Parser, Tree

from relay.code.read.grammar import KEYWORDS, SUFFIXES, tree_language
from relay.merge.text import kinds
from relay.merge.text.matching import Change, Pair, Span, edits_of, keys_of, match

#: Languages that are merged by syntax.
LANGUAGES = frozenset({"python", "javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp"})

_NAME = re.compile(r"[^\W\d]\w+")
_STRINGS = r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
_QUOTED = re.compile(_STRINGS + r"|`[^`]*`|//.*|/\*(?:.|\n)*?\*/")
_QUOTED_PYTHON = re.compile(r'"""(?:.|\n)*?"""|\'\'\'(?:.|\n)*?\'\'\'|' + _STRINGS + r"|\#.*")


def language_of(path: str) -> str | None:
    """The language of a path by its ending; None = merged by lines only."""
    _, dot, ending = path.rpartition("/")[2].rpartition(".")
    return SUFFIXES.get((dot + ending).lower()) if dot else None


@dataclass(frozen=True, slots=True)
class Unit:
    """A definition, statement, member or item. `rows`: first line with the comments above it, and the one after the
    last; `lead`: blank lines above them. `key`: by what it is found on the other sides."""

    kind: str
    key: str
    rows: Span
    lead: int
    node: Node | None


@dataclass(frozen=True, slots=True)
class Units:
    """What stands side by side in some lines. `parent`: the type of the node that holds it ("" = nothing there);
    `tail`: blank lines at the end; `depth`: how deep it stands, where nothing but the lines says that."""

    parent: str
    units: tuple[Unit, ...]
    tail: int
    depth: str = ""


class Source:
    """A text and its tree. `language` None: no tree. `like`: a text much like it, whose tree is used where they are
    the same."""

    def __init__(self, rows: Sequence[str], language: str | None, like: Source | None = None) -> None:
        self.rows = rows
        self.language = language
        self.like = like
        #: Kinds and names by the node's id, which nodes that trees share have in common. The trees stay with them.
        self._names: dict[int, tuple[str, str]] = like._names if like is not None else {}
        self._trees: list[Tree] = like._trees if like is not None else []

    def another(self, rows: Sequence[str]) -> Source:
        """A text of this language that is much like this one."""
        return Source(rows, self.language, self)

    @cached_property
    def tree(self) -> Tree | None:
        if self.language is None:
            return None
        parser = Parser(tree_language(self.language))
        if self.like is None or self.like.tree is None:
            tree = parser.parse(self.text)
        else:
            tree = parser.parse(self.text, _edited(self.like, self, self.matched))
        self._trees.append(tree)
        return tree

    @cached_property
    def keys(self) -> list[str]:
        """The normal forms of its lines."""
        return keys_of(self.rows)

    @cached_property
    def matched(self) -> list[Pair]:
        """Its lines that are those of the text it is like, which come first."""
        return match(self.like.keys, self.keys) if self.like is not None else []

    @cached_property
    def lengths(self) -> list[int]:
        """The bytes before each line, line ends left out."""
        return [0, *accumulate(map(len, self.text.split(b"\n")))]

    def offset(self, row: int) -> int:
        """The byte at which a line begins."""
        return self.lengths[row] + row

    def name_of(self, node: Node) -> tuple[str, str]:
        """Kind and name of a node of its tree."""
        found = self._names.get(node.id)
        if found is None:
            found = self._names[node.id] = kinds.name_of(node)
        return found

    @cached_property
    def text(self) -> bytes:
        """The text as it is parsed."""
        return ("\n".join(self.rows) + "\n").encode("utf-8", "surrogatepass")

    @cached_property
    def parses(self) -> int:
        """Does it parse, and how strictly it is read (0 = it does not)?"""
        return int(self.tree is not None and not self.tree.root_node.has_error)

    @cached_property
    def compiles(self) -> bool:
        """Python: does this Python take it?"""
        return compiles("\n".join(self.rows))

    def definitions(self, low: int = 0, high: int | None = None) -> Counter[str]:
        """How often each qualified definition stands in it, of those that reach into the lines from `low` to before
        `high`."""
        found: Counter[str] = Counter()
        if self.tree is not None:
            _define(self, self.tree.root_node, "", found, 0, (low, len(self.rows) if high is None else high))
        return found

    def imported(self, low: int, high: int) -> list[str]:
        """The import statements at the top that reach into the lines from `low` to before `high`."""
        nodes = [node for first, last, node in self.top if last > low and first < high]
        nodes += [
            child
            for node in nodes
            if node.type == "import_declaration"
            for each in node.named_children
            for child in ([each] if each.type == "import_spec" else each.named_children)
            if child.type == "import_spec"
        ]
        return [
            (node.text or b"").decode("utf-8", "replace")
            for node in nodes
            if kinds.KINDS.get(node.type) == "import"
        ]

    def names(self, low: int, high: int) -> frozenset[str]:
        """The names in some lines, without keywords and without what stands in comments and strings."""
        if self.language is None:
            return frozenset()
        quoted = _QUOTED_PYTHON if self.language == "python" else _QUOTED
        found = _NAME.findall(quoted.sub(" ", "\n".join(self.rows[low:high])))
        return frozenset(found) - KEYWORDS[self.language]

    def units(self, span: Span) -> Units | None:
        """The units that make up the lines; None where the lines cut through one."""
        first, last = self._trimmed(span)
        if first == last:
            return Units("", (), 0)
        if self.tree is None:
            return None
        node = self.tree.root_node
        while True:
            if node.parent is None:
                children = self._among_top(first, last)
            else:
                children = [
                    child
                    for child in node.children
                    if child.start_point.row < last
                    and child.end_point.row >= first
                    and _reaches(child, first, last)
                ]
            whole = [
                child for child in children if row_span(child)[0] >= first and row_span(child)[1] <= last
            ]
            if len(whole) == len(children):
                if len(children) == 1 and not children[0].is_named:
                    return None
                if (
                    len(children) == 1
                    and children[0].type in kinds.BODIES
                    and row_span(node) != (first, last)
                ):
                    node = children[0]
                    continue
                break
            if len(children) > 1:
                return None
            node = children[0]
        return self._divided(node, children, (span[0], first, last, span[1]))

    @cached_property
    def top(self) -> list[tuple[int, int, Node]]:
        """The nodes that stand side by side in the whole text, with their lines."""
        return (
            [(*row_span(child), child) for child in self.tree.root_node.children]
            if self.tree is not None
            else []
        )

    def _among_top(self, first: int, last: int) -> list[Node]:
        """Those that reach into some lines."""
        at = max(0, bisect_left(self.top, last, key=lambda each: each[0]) - 1)
        while at > 0 and self.top[at - 1][1] > first:
            at -= 1
        found = []
        for low, high, node in self.top[at:]:
            if low >= last:
                break
            if high > first:
                found.append(node)
        return found

    def members(self, unit: Unit) -> tuple[Span, Span] | None:
        """The lines above a container's members, and the lines of these; None for what has none."""
        if unit.node is None:
            return None
        node = unit.node
        body = kinds.body_of(node)
        if body is None:
            return None
        start, end = row_span(node)
        inside = [child for child in body.named_children if child.type != "ERROR"]
        if not inside:
            return None
        first, last = row_span(inside[0])[0], row_span(inside[-1])[1]
        head = body.prev_sibling
        top = row_span(head)[1] if head is not None else start
        if body.children[0].type in ("{", "(", "["):
            top = body.children[0].end_point.row + 1
        if first < top or last > end:
            return None
        low = top
        high = end
        if body.children[-1].type in ("}", ")", "]"):
            high = body.children[-1].start_point.row
        if high < last:
            return None
        return (unit.rows[0], low), (low, high)

    def _trimmed(self, span: Span) -> Span:
        first, last = span
        while first < last and not self.rows[first].strip():
            first += 1
        while first < last and not self.rows[last - 1].strip():
            last -= 1
        return first, last

    def _divided(self, parent: Node, children: list[Node], rows: tuple[int, int, int, int]) -> Units | None:
        start, _, last, end = rows
        units: list[Unit] = []
        behind_comment = start
        begun: int | None = None  # where comments begin that belong to what follows
        behind = start  # the line behind the last unit
        for child in children:
            low, high = row_span(child)
            if low < behind:
                same = units and low == behind - 1 and begun is None
                if child.type in (",", ";") or (same and kinds.is_comment(child)):
                    if units and high > behind:
                        return None
                    continue
                return None
            if not child.is_named and child.type not in kinds.NAMELESS_UNITS:
                return None
            if begun is not None and any(not row.strip() for row in self.rows[behind_comment:low]):
                units.append(self._comment(begun, behind_comment, behind))
                behind, begun = behind_comment, None
            if kinds.attaches(child):
                begun = low if begun is None else begun
                behind_comment = high
                continue
            top = low if begun is None else begun
            kind, name = self.name_of(child)
            key = f"{kind} {name}" if name else f"{kind}: {self._text(low, high)}"
            units.append(Unit(kind, key, (top, high), top - behind, child))
            behind, begun = high, None
        if begun is not None:
            units.append(self._comment(begun, behind_comment, behind))
            behind = behind_comment
        if behind != last:
            return None
        return Units(kinds.parent_of(parent), tuple(numbered(units)), end - behind)

    def _comment(self, low: int, high: int, behind: int) -> Unit:
        return Unit("comment", f"comment: {self._text(low, high)}", (low, high), low - behind, None)

    def _text(self, low: int, high: int) -> str:
        return " ".join(" ".join(self.rows[low:high]).split()).rstrip(",; ")


def compiles(text: str) -> bool:
    """Does Python take a text? The grammar knows neither of a line that is too deep nor of an import from
    `__future__` that comes too late."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "text", "exec", dont_inherit=True)
        except SyntaxError:
            return False
        except (ValueError, RecursionError, MemoryError):
            return True  # not for what is wrong with its statements
    return True


def numbered(units: list[Unit]) -> Iterator[Unit]:
    """The units with keys of their own: the second of one key says so."""
    seen: Counter[str] = Counter()
    for unit in units:
        seen[unit.key] += 1
        many = seen[unit.key]
        yield unit if many == 1 else Unit(unit.kind, f"{unit.key} #{many}", unit.rows, unit.lead, unit.node)


def _edited(old: Source, new: Source, pairs: Sequence[Pair]) -> Tree:
    """The old tree, told of all lines that the new text has anew."""
    assert old.tree is not None
    tree = old.tree.copy()
    same = [(at, to) for at, to in pairs if old.rows[at] == new.rows[to]]
    for edit in reversed(edits_of(same, len(old.rows), len(new.rows), Change.OURS)):
        (low, high), (first, last) = edit.base, edit.side
        start = old.offset(low)
        tree.edit(
            start_byte=start,
            old_end_byte=old.offset(high),
            new_end_byte=start + new.offset(last) - new.offset(first),
            start_point=(low, 0),
            old_end_point=(high, 0),
            new_end_point=(low + last - first, 0),
        )
    return tree


def _reaches(node: Node, first: int, last: int) -> bool:
    low, high = row_span(node)
    return high > first and low < last


def row_span(node: Node) -> Span:
    """The lines of a node."""
    start, end = node.start_point, node.end_point
    high = end.row if end.column == 0 and end.row > start.row else end.row + 1
    return start.row, high


def _define(source: Source, node: Node, path: str, found: Counter[str], depth: int, within: Span) -> None:
    for child in node.named_children:
        if child.end_point.row < within[0] or child.start_point.row >= within[1]:
            continue
        if child.type in kinds.TRANSPARENT:
            _define(source, child, path, found, depth, within)
            continue
        kind, name = source.name_of(child)
        if not name or kind not in kinds.DEFINITIONS:
            continue
        qualified = f"{path}{kind} {name}"
        found[qualified] += 1
        body = kinds.body_of(child)
        if body is not None and depth < 8:
            _define(source, body, qualified + "/", found, depth + 1, within)

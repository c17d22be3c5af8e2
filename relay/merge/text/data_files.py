"""JSON, YAML and TOML as units: keys with their values, items of lists, tables.

Invariant: lines are only moved as a whole, so comments and format stay; a key stands once in its mapping.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import yaml

from relay.merge.text.matching import Span
from relay.merge.text.syntax import Source, Unit, Units, numbered

_STRING = r'"(?:[^"\\\n]|\\.)*+"'
_COMMENT = re.compile(_STRING + r"|//.*|/\*(?:[^*]|\*(?!/))*+\*/")
_CLOSING_COMMA = re.compile(_STRING + r"|,(?=\s*+[\]}])")
FORMATS = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}
_YAML_KEY = re.compile(r"""(?P<key>"[^"]*"|'[^']*'|[^\s#'"{}\[\]&*!|>%@`:-][^#:]*|-[^\s#:][^#:]*):(\s|$)""")
_TOML_KEY = re.compile(r"""\s*+(?P<key>[\w.\-"' ]++)\s*=""")
#: An item of an array that has a line of its own; and what of it names it: a requirement has one version.
_TOML_ITEM = re.compile(r"""\s*+(?P<item>"[^"\\]*+"|'[^']*+'|[-+\w.:]++)\s*+,?\s*+(#.*)?""")
_REQUIREMENT = re.compile(r"""["'](?P<name>[\w.-]++)(?=["' <>=!~;@\[])""")
_TOML_TABLE = re.compile(r"\s*(?P<key>\[\[?[^\[\]]+\]\]?)\s*(#.*)?$")


def format_of(path: str) -> str | None:
    """`json`, `yaml`, `toml` by a path's ending; None = none of them."""
    _, dot, ending = path.rpartition("/")[2].rpartition(".")
    return FORMATS.get((dot + ending).lower()) if dot else None


class JsonSource(Source):
    """A JSON text, read as an object of JavaScript: so its keys and items are units with their lines."""

    def __init__(self, rows: Sequence[str], like: Source | None = None) -> None:
        super().__init__(rows, "javascript", like)

    @cached_property
    def text(self) -> bytes:
        return f"({chr(10).join(self.rows)})\n".encode("utf-8", "surrogatepass")

    def another(self, rows: Sequence[str]) -> Source:
        return JsonSource(rows, self)

    @cached_property
    def parses(self) -> int:
        """3: it is JSON, each key once; 2: it is without comments and closing commas; 1: JavaScript; 0: neither."""
        text = "\n".join(self.rows)
        bare = _CLOSING_COMMA.sub(_string_or_nothing, _COMMENT.sub(_string_or_nothing, text))
        if _reads(lambda: json.loads(text, object_pairs_hook=_once)):
            return 3
        if _reads(lambda: json.loads(bare, object_pairs_hook=_once)):
            return 2
        return int(self.tree is not None and not self.tree.root_node.has_error)

    def definitions(self, low: int = 0, high: int | None = None) -> Counter[str]:
        return Counter()

    def names(self, low: int, high: int) -> frozenset[str]:
        return frozenset()


class LinesSource(Source):
    """A text of YAML or TOML: its units by indentation and headings."""

    def __init__(self, rows: Sequence[str], form: str, like: Source | None = None) -> None:
        super().__init__(rows, None, like)
        self.form = form

    def another(self, rows: Sequence[str]) -> Source:
        return LinesSource(rows, self.form, self)

    @cached_property
    def parses(self) -> bool:
        text = "\n".join(self.rows)
        if self.form == "toml":
            return _reads(lambda: tomllib.loads(text))
        return _reads(lambda: list(yaml.load_all(text, _Once)))

    def units(self, span: Span) -> Units | None:
        first, last = self._trimmed(span)
        if first == last:
            return Units("", (), 0)
        toml = self.form == "toml"
        if toml and first in self._in_arrays:
            return self._items(span, first, last)
        heads = self._toml_heads(first, last) if toml else self._yaml_heads(first, last)
        if heads is None or not heads:
            return None
        units: list[Unit] = []
        behind = span[0]
        for at, (low, key) in enumerate(heads):
            top = low
            while top > behind and self.rows[top - 1].lstrip().startswith("#"):
                top -= 1
            high = heads[at + 1][0] if at + 1 < len(heads) else last
            while at + 1 < len(heads) and high > low + 1 and self._above(high - 1):
                high -= 1
            if any(self.rows[row].strip() for row in range(behind, top)):
                return None
            units.append(Unit("item", key, (top, high), top - behind, None))
            behind = high
        row = self.rows[heads[0][0]]
        depth = "" if toml else f"{len(row) - len(row.lstrip())} {heads[0][1][:2]}"
        return Units(f"{self.form} mapping", tuple(numbered(units)), span[1] - behind, depth)

    @cached_property
    def _in_arrays(self) -> frozenset[int]:
        """The lines of a TOML text that begin inside of an array."""
        found, depth = set[int](), 0
        for row, line in enumerate(self.rows):
            if '"""' in line or "'''" in line:
                return frozenset()
            if depth > 0:
                found.add(row)
            elif _TOML_TABLE.match(line):
                continue
            depth += _opened(line)
        return frozenset(found)

    def _items(self, span: Span, first: int, last: int) -> Units | None:
        """The items of an array, each with the comments above it; None where a line is something else."""
        units: list[Unit] = []
        top = first
        for row in range(first, last):
            if self._above(row):
                continue
            found = _TOML_ITEM.fullmatch(self.rows[row])
            if found is None or row not in self._in_arrays:
                return None
            named = _REQUIREMENT.match(found["item"])
            key = named["name"].lower() if named is not None else found["item"]
            units.append(Unit("item", f"item {key}", (top, row + 1), 0, None))
            top = row + 1
        return Units("array", tuple(numbered(units)), span[1] - last) if top == last else None

    def members(self, unit: Unit) -> tuple[Span, Span] | None:
        low, high = unit.rows
        while low < high and self.rows[low].lstrip().startswith("#"):
            low += 1
        table = self.form == "toml" and _TOML_TABLE.match(self.rows[low])
        opens = self.form == "yaml" and self.rows[low].split(" #")[0].rstrip().endswith(":")
        if not (table or opens) or low + 1 >= high:
            return None
        return (unit.rows[0], low + 1), (low + 1, high)

    def _above(self, row: int) -> bool:
        """Is a line blank, or a comment?"""
        text = self.rows[row].strip()
        return not text or text.startswith("#")

    def _yaml_heads(self, first: int, last: int) -> list[tuple[int, str]] | None:
        told = [row for row in range(first, last) if not self._above(row)]
        if not told:
            return None
        width = min(len(self.rows[row]) - len(self.rows[row].lstrip()) for row in told)
        heads: list[tuple[int, str]] = []
        for row in told:
            line = self.rows[row]
            if len(line) - len(line.lstrip()) > width:
                if not heads:
                    return None
                continue
            found = _YAML_KEY.match(line.strip())
            if line.lstrip().startswith("- "):
                heads.append((row, f"- {' '.join(line.split())}"))
            elif found is not None:
                heads.append((row, f"key {found['key']}"))
            else:
                return None
        kinds = {key[:2] for _, key in heads}
        return heads if len(kinds) == 1 else None

    def _toml_heads(self, first: int, last: int) -> list[tuple[int, str]] | None:
        heads: list[tuple[int, str]] = []
        table = False
        depth = 0
        for row in range(first, last):
            line = self.rows[row]
            if '"""' in line or "'''" in line:
                return None
            inside = depth > 0
            found = _TOML_TABLE.match(line) if not inside else None
            if found is None:
                depth += _opened(line)
            if inside or self._above(row):
                continue
            if found is not None:
                table = True
                heads.append((row, found["key"]))
            elif not table:
                key = _TOML_KEY.match(line)
                if key is None:
                    return None
                heads.append((row, f"key {key['key'].rstrip()}"))
        return heads


def _opened(line: str) -> int:
    """How many brackets a line of TOML opens more than it closes."""
    code = re.sub(r'"[^"]*"|\'[^\']*\'|#.*', "", line)
    return code.count("[") + code.count("{") - code.count("]") - code.count("}")


#: libyaml's, ten times as fast, where this machine has it.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Once(_Loader):  # type: ignore[misc]  # one of two classes of the same methods
    """Refuses a key that stands twice."""


def _mapping(loader: _Once, node: yaml.MappingNode) -> dict[str, Any]:
    names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
    if len(set(names)) < len(names):
        raise ValueError("a key stands twice")
    for _, value in node.value:
        loader.construct_object(value, deep=True)
    return {}


_Once.add_constructor("tag:yaml.org,2002:map", _mapping)
_Once.add_multi_constructor("!", lambda *_: None)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _string_or_nothing(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else " "


def _reads(read: Any) -> bool:
    try:
        read()
    except (ValueError, yaml.YAMLError, RecursionError):
        return False
    return True

"""Imports as sets: what either side imports is imported, what either no longer imports is not.

Invariant: an import of the result is one of the three texts, or one statement with names of several; comments stay
with the import they stand above or behind; what was sorted on all sides is sorted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from relay.merge.text.lines import indent_of, normal

_START = {
    "python": re.compile(r"\s*(from\s+\S+\s+import\b|import\s+\w)"),
    "javascript": re.compile(
        r"\s*(import\b[^(]*$|import\s.*\sfrom\b|export\s*(\*|\{)|(const|var|let)\s[^=]+=\s*require\()"
    ),
    "go": re.compile(r'\s*(import\s|([\w.]+\s+)?"[^"]+"\s*(//.*)?$)'),
    "rust": re.compile(r"\s*(pub(\([^)]*\))?\s+)?(use|extern\s+crate|mod)\s+[^{;]*[{;]"),
    "java": re.compile(r"\s*import\s+(static\s+)?[\w.]+(\.\*)?\s*;"),
    "c": re.compile(r"\s*#\s*include\s*[<\"]"),
}
for _name, _like in (("typescript", "javascript"), ("tsx", "javascript"), ("cpp", "c")):
    _START[_name] = _START[_like]
_COMMENT = re.compile(r"\s*(#(?!\s*include)|//|/\*|\*)")
#: A statement with a list of names: what is before it, the names, what is behind.
_LIST = {
    "python": re.compile(r"^(?P<head>from\s+\S+\s+import)\s+(?P<names>[^()]+|\((?P<inner>[^()]*)\))$"),
    "javascript": re.compile(
        r"^(?P<head>(?:import|export|const|let|var)\s+(?:type\s+)?(?:[\w$]+\s*,\s*)?)\{(?P<inner>[^{}]*)\}"
        r"(?P<tail>\s*(?:from|=)\s*[^{}]*)$"
    ),
    "rust": re.compile(
        r"^(?P<head>(?:pub(?:\([^)]*\))?\s+)?use\s+[\w:]*::)\{(?P<inner>[^{}]*)\}(?P<tail>;?)$"
    ),
}
for _name in ("typescript", "tsx"):
    _LIST[_name] = _LIST["javascript"]


@dataclass(frozen=True, slots=True)
class Import:
    """One statement. `rows` with the comments above; `key`: without its names; `names`: None where it has no list."""

    rows: tuple[str, ...]
    text: str
    key: str
    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class _Block:
    """Imports, `None` for a gap of blank lines between them. `depths`: the indentations of their first lines."""

    parts: tuple[Import | None, ...]
    depths: frozenset[str]

    @property
    def imports(self) -> tuple[Import, ...]:
        return tuple(part for part in self.parts if part is not None)


def read(rows: Sequence[str], language: str) -> _Block | None:
    """The imports that the lines are made of; None where they are something else too."""
    start = _START.get(language)
    if start is None:
        return None
    parts: list[Import | None] = []
    depths: set[str] = set()
    above: list[str] = []
    at = 0
    while at < len(rows):
        row = rows[at]
        if not row.strip():
            if above:
                return None
            if parts and parts[-1] is not None:
                parts.append(None)
            at += 1
            continue
        if _COMMENT.match(row) and not start.match(row):
            above.append(row)
            at += 1
            continue
        if not start.match(row):
            return None
        end = _end(rows, at, language)
        if end is None:
            return None
        parts.append(_import(tuple(above), tuple(rows[at:end]), language))
        depths.add(indent_of(row))
        above, at = [], end
    return None if above else _Block(tuple(parts), frozenset(depths))


def _end(rows: Sequence[str], at: int, language: str) -> int | None:
    """The line behind a statement: where its brackets are closed."""
    depth = 0
    for end in range(at, min(len(rows), at + 200)):
        code = re.sub(r"(#|//).*$", "", rows[end]) if language != "c" else rows[end]
        depth += sum(code.count(sign) for sign in "({[") - sum(code.count(sign) for sign in ")}]")
        if depth < 0:
            return None
        if depth == 0 and not code.rstrip().endswith(("\\", ",")):
            return end + 1
    return None


def _import(above: tuple[str, ...], rows: tuple[str, ...], language: str) -> Import:
    code = " ".join(" ".join(rows).split())
    pattern = _LIST.get(language)
    # Names that are written behind a comment would be part of it.
    bare = any(sign in row for row in rows for sign in ("#", "//", "/*"))
    found = pattern.match(code.rstrip(";") if language != "rust" else code) if pattern and not bare else None
    key, names = normal(code), None
    if found is not None:
        parts = found.groupdict()
        inner = parts.get("inner")
        listed = [name.strip() for name in (inner if inner is not None else parts["names"]).split(",")]
        listed = [name for name in listed if name]
        if listed and listed != ["*"] and len(set(listed)) == len(listed):
            names = tuple(listed)
            key = f"{parts['head'].strip()} {{}}{(parts.get('tail') or '').rstrip(';')}"
    return Import((*above, *rows), normal(code), key, names)


_LOCAL = {
    "python": re.compile(r"^(?:from\s+\S+\s+import\s+\(?(?P<names>[^()]*)\)?|import\s+(?P<modules>.*))$"),
    "javascript": re.compile(
        r"^(?:import|const|let|var)\s+(?:type\s+)?(?P<default>[\w$]+)?[\s,]*(?:\*\s*as\s+(?P<all>[\w$]+))?"
        r"(?:\{(?P<names>[^{}]*)\})?\s*(?:from|=)"
    ),
    "go": re.compile(r"""^(?:import\s+)?(?:(?P<default>[\w.]+)\s+)?"(?:[^"]*/)?(?P<last>[^"/]+)"$"""),
    "rust": re.compile(
        r"^(?:pub(?:\([^)]*\))?\s+)?use\s+(?:[\w:]*::)?(?:\{(?P<names>[^{}]*)\}|(?P<default>[\w ]+))$"
    ),
    "java": re.compile(r"^import\s+(?:static\s+)?(?:[\w.]+\.)?(?P<default>\w+)$"),
}
for _name in ("typescript", "tsx"):
    _LOCAL[_name] = _LOCAL["javascript"]


def local_names(text: str, language: str) -> list[str]:
    """The names that a statement brings into the file; none of what cannot be read."""
    code = normal(" ".join(re.sub(r"(?<!:)(#|//).*", "", row) for row in text.split("\n")))
    found = _LOCAL[language].match(" ".join(code.split())) if language in _LOCAL else None
    if found is None:
        return []
    parts = {key: value for key, value in found.groupdict().items() if value}
    if "modules" in parts:
        listed = [each for each in parts["modules"].split(",") if "." not in each or " as " in each]
    elif "last" in parts:
        listed = [parts.get("default", parts["last"])]
    else:
        listed = ",".join(parts.values()).split(",")
    names = [re.split(r"\s+as\s+|\s*:\s*", each.strip().removeprefix("type "))[-1].strip() for each in listed]
    return [name for name in names if name not in ("", "*", "_", ".", "self")]


def joined(base: _Block, ours: _Block, theirs: _Block, language: str) -> list[str] | None:
    """The imports of all three by the three-way rule; None where the two disagree."""
    blocks = (base, ours, theirs)
    if language == "python" and len(base.depths | ours.depths | theirs.depths) > 1:
        return None
    tables = []
    for block in blocks:
        table: dict[str, Import] = {}
        for each in block.imports:
            if each.key in table:
                return None
            table[each.key] = each
        tables.append(table)
    o, a, b = tables
    kept: dict[str, Import] = {}
    for key in {*o, *a, *b}:
        made = _one(o.get(key), a.get(key), b.get(key), language)
        if isinstance(made, Import):
            kept[key] = made
        elif made is False:
            return None
    return _written(blocks, kept)


def _one(
    base: Import | None, ours: Import | None, theirs: Import | None, language: str
) -> Import | bool | None:
    """One statement of three versions: what stands, None where it goes, False where the two disagree."""
    if ours is None or theirs is None:
        there = ours or theirs
        if base is None or there is None:
            return there
        return None if _same(base, there) else False
    if _same(ours, theirs):
        # Comments of a side alone stay.
        return max(ours, theirs, key=lambda each: (len(each.rows), each.rows))
    if base is not None and _same(base, ours):
        return theirs
    if base is not None and _same(base, theirs):
        return ours
    if ours.names is None or theirs.names is None or (base is not None and base.names is None):
        return False
    before = () if base is None or base.names is None else base.names
    names = merged_names(before, ours.names, theirs.names)
    return _with_names(ours, theirs, names, language) if names else False


def _same(one: Import, other: Import) -> bool:
    return one.text == other.text and [row.strip() for row in one.rows] == [row.strip() for row in other.rows]


def merged_names(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str] | None:
    """Names by the three-way rule, sorted where ours and theirs are; None where nothing is left."""
    keep = {
        name for name in {*base, *ours, *theirs} if (name in ours and name in theirs) or (name not in base)
    }
    order = sorting([ours, theirs])
    if order is not None:
        return sorted(keep, key=order) or None
    return [name for name in interleaved(ours, theirs) if name in keep] or None


def _case_last(name: str) -> tuple[str, str]:
    return name.lower(), name


def _plain(name: str) -> str:
    return name


def _constants_first(name: str) -> tuple[int, str]:
    word = name.split(" ", maxsplit=1)[0]
    return (0 if word.isupper() and len(word) > 1 else 1 if word[:1].isupper() else 2), name


def sorting(lists: Sequence[Sequence[str]]) -> Callable[[str], Any] | None:
    """The order that all lists are in, if there is one."""
    if all(len(each) < 2 for each in lists):
        return None
    orders: tuple[Callable[[str], Any], ...] = (_case_last, _plain, _constants_first)
    for order in orders:
        if all(list(each) == sorted(each, key=order) for each in lists):
            return order
    return None


def interleaved(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """All of two lists, in the order of both where they agree; what both add at one place by its text."""
    shared = [name for name in ours if name in set(theirs)]
    if shared != [name for name in theirs if name in set(ours)]:
        first, second = sorted((list(ours), list(theirs)))
        return list(dict.fromkeys([*first, *second]))
    result: list[str] = []
    left, right = list(ours), list(theirs)
    for name in (*shared, None):
        cut = [each.index(name) if name is not None else len(each) for each in (left, right)]
        groups = sorted(part for part in (left[: cut[0]], right[: cut[1]]) if part)
        for group in groups:
            result += group
        if name is not None:
            result.append(name)
        left, right = left[cut[0] + 1 :], right[cut[1] + 1 :]
    return result


def _with_names(ours: Import, theirs: Import, names: Sequence[str], language: str) -> Import:
    """One statement with these names, written as the two are."""
    model = max((ours, theirs), key=lambda each: (len(each.rows), each.rows))
    other = theirs if model is ours else ours
    above = max((_above(model), _above(other)), key=len)
    body = model.rows[len(_above(model)) :]
    code = " ".join(" ".join(body).split())
    if len(body) == 1:
        old = ", ".join(model.names or ())
        line = body[0]
        at = _names_at(line, model.names or ())
        if at is not None:
            line = line[: at[0]] + ", ".join(names) + line[at[1] :]
        else:
            line = indent_of(body[0]) + code.replace(old, ", ".join(names))
        return Import((*above, line), normal(line), model.key, tuple(names))
    first, last = body[0], body[-1]
    inside = body[1:-1]
    if not inside or not all(re.fullmatch(r"\s*+[\w$*. ]++,?\s*", row) for row in inside):
        width = indent_of(body[1])
        return Import((*above, first, f"{width}{', '.join(names)},", last), code, model.key, tuple(names))
    width = indent_of(inside[0])
    if all(row.strip().rstrip(",").count(",") == 0 for row in inside):
        comma = "," if inside[-1].rstrip().endswith(",") else ""
        rows = [f"{width}{name}," for name in names[:-1]] + [f"{width}{names[-1]}{comma}"]
    else:
        rows = [f"{width}{', '.join(names)},"]
    made = (*above, first, *rows, last)
    return Import(made, normal(" ".join(" ".join(made).split())), model.key, tuple(names))


def _names_at(line: str, names: Sequence[str]) -> tuple[int, int] | None:
    pattern = r"\s*,\s*".join(re.escape(name) for name in names)
    found = list(re.finditer(rf"(?<![\w$]){pattern}(?![\w$])", line))
    return found[-1].span() if found else None


def _above(each: Import) -> tuple[str, ...]:
    many = 0
    while many < len(each.rows) and _COMMENT.match(each.rows[many]):
        many += 1
    return each.rows[:many]


def _written(blocks: Sequence[_Block], kept: dict[str, Import]) -> list[str]:
    """The statements in the order of the sides, with the gaps between groups as the sides have them."""
    _, ours, theirs = blocks
    groups = [_groups(block) for block in (ours, theirs)]
    if len(groups[0]) == len(groups[1]) and len(groups[0]) > 1:
        # The same groups on both sides: each is merged for itself.
        seen: set[str] = set()
        rows: list[str] = []
        for left, right in zip(*groups, strict=True):
            keys = [key for key in _ordered(left, right, kept) if key in kept and key not in seen]
            seen.update(keys)
            if rows and keys:
                rows.append("")
            for key in keys:
                rows += kept[key].rows
        if seen == set(kept):
            return rows
    first = [key for group in groups[0] for key in group]
    second = [key for group in groups[1] for key in group]
    longest = max((ours, theirs), key=lambda block: (len(_groups(block)), str(block)))
    breaks = {group[-1] for group in _groups(longest)[:-1] if group}
    rows = []
    order = [key for key in _ordered(first, second, kept) if key in kept]
    for at, key in enumerate(order):
        rows += kept[key].rows
        if key in breaks and at + 1 < len(order):
            rows.append("")
    return rows


def _groups(block: _Block) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    for part in block.parts:
        if part is None:
            groups.append([])
        else:
            groups[-1].append(part.key)
    return [group for group in groups if group]


def _ordered(first: Sequence[str], second: Sequence[str], kept: dict[str, Import]) -> list[str]:
    texts = [[kept[key].text for key in keys if key in kept] for keys in (first, second)]
    order = sorting(texts)
    if order is not None:
        names = {kept[key].text: key for key in kept}
        keys = [names[text] for text in sorted({*texts[0], *texts[1]}, key=order)]
    else:
        keys = interleaved(first, second)
    # Python takes nothing before it.
    return sorted(keys, key=lambda key: not key.startswith("from __future__ "))

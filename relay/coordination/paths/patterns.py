"""Patterns over paths, parsed. What they stand for and whether two of them overlap: `overlap.py`.

Invariants:
- `*` and `?` stay within a name (a leading dot is nothing special), `**` as a whole name is any number of folders,
  none included, and like `*` elsewhere; `{a,b}` is one of several and may be nested; braces without a comma, or
  without their other half, are characters, as in a shell (`{{name}}/` is a folder); `[` is a character; `\\` takes
  the magic from the next one;
- what was parsed is small enough that no comparison takes long: see `MAX_WEIGHT`.

Pure. (docs/coordination.md, "Locks".)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

#: The wildcards within a name; literal characters stand as themselves.
STAR, ANY = 0, 1
Name = str | tuple[str | int, ...]
#: Any number of folders.
FOLDERS: Name = (STAR, STAR)
#: Characters that `\` may stand before: those with a meaning, and the brackets, which people escape out of habit.
ESCAPABLE = "*?{},\\[]"
MAGIC = frozenset("*?{\\")
#: Alternatives of a pattern once its braces are written out, and the sum of their names and of the characters of
#: names with wildcards. The product of two has at most the product of their weights as states: a tenth of a second.
MAX_ALTERNATIVES = 64
MAX_WEIGHT = 400
#: That sum of all patterns of one request.
MAX_REQUEST_WEIGHT = 4000


class BadPattern(ValueError):
    """The text is no pattern; `fix` says what would be."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern. `alternatives`: its braces written out, each the names from the root; `text`: in one
    spelling; `base`: the folders before the first wildcard, in all alternatives ('' = the root)."""

    text: str
    alternatives: tuple[tuple[Name, ...], ...]

    @property
    def literal(self) -> str | None:
        """The one path that it is, when it has no wildcards."""
        if len(self.alternatives) != 1:
            return None
        names = [name for name in self.alternatives[0] if isinstance(name, str)]
        return "/".join(names) if len(names) == len(self.alternatives[0]) else None

    @property
    def base(self) -> str:
        first, *rest = (list(_folders(names)) for names in self.alternatives)
        for other in rest:
            same = [a == b for a, b in zip(first, other, strict=False)] + [False]
            first = first[: same.index(False)]
        return "/".join(first)


def _folders(names: Sequence[Name]) -> Iterator[str]:
    for name in names:
        if not isinstance(name, str):
            return
        yield name


@dataclass(frozen=True, slots=True)
class _Char:
    """A character of the text. `plain`: it means itself."""

    char: str
    plain: bool


def parse(text: str) -> Pattern:
    """The pattern in `text`, anchored at the root. Raises BadPattern."""
    names = _outer_names(_read(text))
    spelled = "/".join("".join(_spell(char) for char in name) for name in names)
    chars = [char for name in names for char in (_Char("/", False), *name)]
    alternatives: dict[tuple[Name, ...], None] = {}
    for atoms in _expand(chars):
        alternative = tuple(_names(atoms))
        if not alternative:
            raise BadPattern("It (or an alternative in it) is the root itself.", "Write ** for everything.")
        alternatives[alternative] = None
    weight = _weight(alternatives)
    if weight > MAX_WEIGHT and not _plain(alternatives):
        size = f"{weight} names and wildcard characters, at most {MAX_WEIGHT}"
        raise BadPattern(f"The pattern is too large ({size}).", "Use a wider pattern, or several.")
    return Pattern(spelled, tuple(alternatives))


def _plain(alternatives: dict[tuple[Name, ...], None]) -> bool:
    return len(alternatives) == 1 and all(isinstance(name, str) for names in alternatives for name in names)


def _read(text: str) -> list[_Char]:
    """The characters, with those that mean something apart from those that mean themselves."""
    chars: list[_Char] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            following = text[at + 1 : at + 2]
            if not following or following not in ESCAPABLE:
                escapes = "it only escapes * ? { } , [ ] and \\"
                message = f"A backslash before {following!r} has no meaning; {escapes}."
                raise BadPattern(message, "Write / between folders.")
            chars.append(_Char(following, True))
            at += 2
        else:
            chars.append(_Char(char, char not in "*?{},/"))
            at += 1
    groups = set(_marks(chars))
    return [
        _Char(char.char, True) if char.char in "{}," and at not in groups else char
        for at, char in enumerate(chars)
    ]


def _marks(chars: Sequence[_Char]) -> Iterator[int]:
    """Where the braces and commas stand that form groups."""
    open_groups: list[list[int]] = []
    for at, char in enumerate(chars):
        if char.plain:
            continue
        if char.char == "{":
            open_groups.append([at])
        elif char.char == "," and open_groups:
            open_groups[-1].append(at)
        elif char.char == "}" and open_groups:
            marks = open_groups.pop()
            if len(marks) > 1:
                yield from (*marks, at)


def _spell(char: _Char) -> str:
    return "\\" + char.char if char.plain and char.char in "*?{},\\" else char.char


def _outer_names(chars: Sequence[_Char]) -> list[list[_Char]]:
    """The names outside of groups, with `.`, `..` and empty ones resolved."""
    names: list[list[_Char]] = [[]]
    depth = 0
    for char in chars:
        if not char.plain:
            depth += {"{": 1, "}": -1}.get(char.char, 0)
        if char.char == "/" and depth == 0:
            names.append([])
        else:
            names[-1].append(char)
    resolved: list[list[_Char]] = []
    for name in names:
        text = "".join(char.char for char in name)
        if text == "..":
            _check_up(bool(resolved), bool(resolved) and all(char.plain for char in resolved[-1]))
            resolved.pop()
        elif text not in ("", "."):
            resolved.append(name)
    return resolved


def _check_up(inside: bool, plain: bool) -> None:
    if not inside:
        raise BadPattern("The path leads out of the repository.", "Give a path below its root.")
    if not plain:
        raise BadPattern("'..' follows a wildcard.", "Write the pattern without '..'.")


def _expand(chars: Sequence[_Char]) -> list[tuple[str | int, ...]]:
    """The braces written out: the alternatives, each literal characters and wildcards."""
    expanded: list[tuple[str | int, ...]] = [()]
    at = 0
    while at < len(chars):
        char = chars[at]
        if char.plain or char.char == "/":
            parts: list[tuple[str | int, ...]] = [(char.char,)]
            at += 1
        elif char.char == "{":
            inner, at = _group(chars, at)
            parts = [part for option in inner for part in _expand(option)]
        else:
            parts = [(STAR if char.char == "*" else ANY,)]
            at += 1
        if len(expanded) * len(parts) > MAX_ALTERNATIVES:
            message = f"The pattern has more than {MAX_ALTERNATIVES} alternatives."
            raise BadPattern(message, "Use a wider pattern, or several.")
        expanded = [(*before, *part) for before in expanded for part in parts]
    return expanded


def _group(chars: Sequence[_Char], start: int) -> tuple[list[Sequence[_Char]], int]:
    """The alternatives of the group that opens at `start`, and where the text goes on."""
    options: list[Sequence[_Char]] = []
    depth, begun = 0, start + 1
    for at in range(start, len(chars)):
        char = chars[at]
        if char.plain:
            continue
        depth += {"{": 1, "}": -1}.get(char.char, 0)
        if (char.char == "," and depth == 1) or depth == 0:
            options.append(chars[begun:at])
            begun = at + 1
        if depth == 0:
            return options, at + 1
    raise AssertionError("a group that was found has an end")


def _names(atoms: Sequence[str | int]) -> list[Name]:
    """The names of one alternative, in one form."""
    split: list[list[str | int]] = [[]]
    for atom in atoms:
        if atom == "/":
            split.append([])
        else:
            split[-1].append(atom)
    names: list[Name] = []
    for name in map(_name, split):
        if name == "..":
            _check_up(bool(names), bool(names) and isinstance(names[-1], str))
            names.pop()
        elif name not in ("", ".") and not (name == FOLDERS and names[-1:] == [FOLDERS]):
            names.append(name)
    return names


def _name(atoms: Sequence[str | int]) -> Name:
    if len(atoms) > 1 and set(atoms) == {STAR}:
        return FOLDERS
    thin = [atom for at, atom in enumerate(atoms) if atom != STAR or at == 0 or atoms[at - 1] != STAR]
    literal = [atom for atom in thin if isinstance(atom, str)]
    return "".join(literal) if len(literal) == len(thin) else tuple(thin)


def weight_of(kind: str, key: str) -> int:
    """What a lock costs in comparisons; 0 of what has no wildcards."""
    return _weight(alternatives_of(kind, key)) if kind == "glob" else 0


def _weight(alternatives: Iterable[Sequence[Name]]) -> int:
    return sum(1 + (0 if isinstance(name, str) else len(name)) for names in alternatives for name in names)


@lru_cache(maxsize=4096)
def alternatives_of(kind: str, key: str) -> tuple[tuple[Name, ...], ...]:
    """The automaton of a lock's kind and key: for a path its names, for a glob those of each alternative."""
    return parse(key).alternatives if kind == "glob" else (tuple(key.split("/")),)

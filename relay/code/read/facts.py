"""What one file says by itself: its imports, its definitions, and which names it uses.

Invariant: everything here follows from the bytes of one file (and the extractor), so it can be kept under the
blob's hash; nothing here knows another file. Lines are 1-based and inclusive.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

#: Part of every cached row's key: raise it when the extraction gives anything else for the same bytes.
EXTRACTOR = 2
#: zlib's own fastest: the rows are read at every start, and level 6 saves a tenth more for twice the time.
ZLIB_LEVEL = 1
_LENGTHS = struct.Struct(">III")


@dataclass(frozen=True, slots=True)
class Import:
    """One import as written. `module`: the specifier; `names`: what is taken out of it, "*" for everything.

    `kind` is the language's own word where there are several: "angle" (C), "mod" (Rust), "static" (Java) ...
    `alias`: the name that the importing file gives it, "" for its usual one. `scope`: inline modules (Rust).
    """

    module: str
    names: tuple[str, ...] = ()
    line: int = 0
    kind: str = ""
    alias: str = ""
    scope: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """What resolving needs of one file. `package`: of Go and Java. `names`: defined at the top level.

    `uses`: names that may belong to the same package (Go, Java); `selected`: Go's `alias.Name`. `config`: of
    a configuration file, what resolving reads of it.
    """

    language: str
    imports: tuple[Import, ...] = ()
    package: str = ""
    names: frozenset[str] = frozenset()
    uses: frozenset[str] = frozenset()
    selected: frozenset[str] = frozenset()
    config: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, method, class, type or top-level constant.

    `start`..`end`: the whole, decorators included; `head_end`: last line of its head (name, parameters,
    result). `signature` and `body`: hashes of the head's and the body's text with blanks made one, 16 hex
    digits. `qualified`: with the names of what it stands in, by dots.
    """

    name: str
    qualified: str
    kind: str
    start: int
    end: int
    head_end: int
    signature: str
    body: str
    #: Index of the definition it stands in, -1 = none.
    parent: int = -1


@dataclass(frozen=True, slots=True)
class Call:
    """A call: `receiver` is the text before the last dot (shortened to 60 characters, "" = none)."""

    name: str
    receiver: str
    line: int
    #: Index of the innermost definition that the call stands in, -1 = none.
    within: int


class FileSymbols:
    """The definitions of a file in the order of their start, its calls, and the lines each name is used on.

    Made of packed bytes, each of the three is unpacked when it is first asked for: who resolves calls wants the
    definitions of many files and nothing else of them.
    """

    def __init__(
        self,
        definitions: tuple[Definition, ...] = (),
        calls: tuple[Call, ...] = (),
        references: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self._packed: tuple[bytes, ...] = ()
        self.__dict__.update(definitions=definitions, calls=calls, references=references or {})

    @classmethod
    def of_packed(cls, parts: tuple[bytes, bytes, bytes]) -> FileSymbols:
        """`parts`: the definitions, calls and references, each zlib'd JSON."""
        self = cls.__new__(cls)
        self._packed = parts
        return self

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        return tuple(
            Definition(name, qualified, kind, start, end, head_end, signature, body, parent)
            for name, kind, start, end, head_end, signature, body, parent, qualified in _unpacked(
                self._packed[0]
            )
        )

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        return tuple(Call(*fields) for fields in _unpacked(self._packed[1]))

    @cached_property
    def references(self) -> Mapping[str, tuple[int, ...]]:
        """Name -> lines, ascending; words of the code, neither comments nor strings nor keywords."""
        return {name: tuple(accumulate(steps)) for name, steps in _unpacked(self._packed[2]).items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileSymbols) and (self.definitions, self.calls, self.references) == (
            other.definitions,
            other.calls,
            other.references,
        )

    __hash__ = None  # type: ignore[assignment]  # it holds a dict

    @cached_property
    def called(self) -> frozenset[str]:
        """The names that are called."""
        return frozenset(call.name for call in self.calls)

    def at(self, line: int) -> Definition | None:
        """The innermost definition around a line."""
        innermost = None
        for definition in self.definitions:
            if definition.start > line:
                break
            if definition.end >= line:
                innermost = definition
        return innermost

    @cached_property
    def by_name(self) -> Mapping[str, tuple[Definition, ...]]:
        named: dict[str, list[Definition]] = {}
        for definition in self.definitions:
            named.setdefault(definition.name, []).append(definition)
        return {name: tuple(ones) for name, ones in named.items()}


@dataclass(frozen=True, slots=True)
class Extract:
    """A file, read. `trouble`: why it could not be read whole, "" = it could."""

    facts: Facts
    symbols: FileSymbols
    trouble: str = ""


def pack_facts(facts: Facts, trouble: str = "") -> bytes:
    """JSON, compressed; the inverse of `unpack_facts`."""
    imports = [[i.module, list(i.names), i.line, i.kind, i.alias, list(i.scope)] for i in facts.imports]
    fields: list[Any] = [facts.language, imports, facts.package, sorted(facts.names), sorted(facts.uses)]
    return _packed([*fields, sorted(facts.selected), facts.config, trouble])


def unpack_facts(packed: bytes) -> tuple[Facts, str]:
    """The facts and the trouble. Raises ValueError or zlib.error on what is not ours."""
    language, imports, package, names, uses, selected, config, trouble = json.loads(zlib.decompress(packed))
    return (
        Facts(
            language,
            tuple(Import(m, tuple(n), line, kind, alias, tuple(s)) for m, n, line, kind, alias, s in imports),
            package,
            frozenset(names),
            frozenset(uses),
            frozenset(selected),
            config,
        ),
        trouble,
    )


def pack_symbols(symbols: FileSymbols) -> bytes:
    """Three parts of JSON, compressed, with their lengths before; the lines of a name as differences."""
    definitions = [
        [d.name, d.kind, d.start, d.end, d.head_end, d.signature, d.body, d.parent, d.qualified]
        for d in symbols.definitions
    ]
    calls = [[c.name, c.receiver, c.line, c.within] for c in symbols.calls]
    references = {name: _differences(lines) for name, lines in symbols.references.items()}
    parts = [_packed(definitions), _packed(calls), _packed(references)]
    return _LENGTHS.pack(*map(len, parts)) + b"".join(parts)


def unpack_symbols(packed: bytes) -> FileSymbols:
    """Raises struct.error, or later ValueError or zlib.error, on what is not ours."""
    first, second, third = _LENGTHS.unpack_from(packed)
    at = _LENGTHS.size
    ends = (at + first, at + first + second, at + first + second + third)
    return FileSymbols.of_packed((packed[at : ends[0]], packed[ends[0] : ends[1]], packed[ends[1] : ends[2]]))


def _unpacked(part: bytes) -> Any:
    return json.loads(zlib.decompress(part))


def _packed(value: Any) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(), ZLIB_LEVEL)


def _differences(lines: tuple[int, ...]) -> list[int]:
    return [line - before for line, before in zip(lines, (0, *lines), strict=False)]

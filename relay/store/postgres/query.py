"""Named statements as PostgreSQL takes them: `:name` becomes `$1`, and every value gets the type of its place.

Invariant: a text is translated once; quotes, comments and what follows `::` stay as they are. A value is only bent
as SQLite's column types would do it (1 to true, 3 to "3", 2.0 to 2), and a NUL in a text becomes U+FFFD. All else the
server accepts or refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from relay.store.ports import Query, StoreError, query_text

DIALECT = "postgres"
#: Comments, strings and casts, which stay as they are; the last alternative is a parameter.
_TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?\*/|[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\w*)\$.*?\$\1\$|::|:(?P<name>[a-z_]\w*)""",
    re.DOTALL,
)
_VERB = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(\w+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Statement:
    """A translated statement: its text, and the name behind each `$n`. `writes`: it is no plain SELECT."""

    text: str
    names: tuple[str, ...]
    writes: bool

    def values(self, query: Query, params: Mapping[str, Any]) -> list[Any]:
        """The parameters in their order. Raises StoreError when one is missing."""
        try:
            return [params[name] for name in self.names]
        except KeyError as error:
            raise StoreError(f"the query {query.name!r} wants a value for :{error.args[0]}") from None


def translate(text: str) -> Statement:
    """`text` with numbered parameters; a name that stands twice has one number."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return match[0]
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    verb = _VERB.match(text)
    return Statement(
        _TOKEN.sub(number, text), tuple(names), verb is None or verb[1].upper() not in ("SELECT", "VALUES")
    )


@cache
def statement(query: Query) -> Statement:
    """The translated text of a named query. Raises StoreError when the wing has none of that name."""
    return translate(query_text(query, DIALECT))


Bend = Callable[[Any], Any]


def _as_bool(value: Any) -> Any:
    return bool(value) if isinstance(value, int) else value


def _as_int(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, bool) else value


def _as_text(value: Any) -> Any:
    if isinstance(value, str):
        # PostgreSQL's text has no NUL. In JSON it is written \u0000 and stays as it is.
        return value.replace("\0", "\ufffd") if "\0" in value else value
    return str(int(value)) if isinstance(value, int) else str(value) if isinstance(value, float) else value


def _as_bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


_BEND: Mapping[str, Bend] = {
    "bool": _as_bool,
    "int2": _as_int,
    "int4": _as_int,
    "int8": _as_int,
    "text": _as_text,
    "varchar": _as_text,
    "bytea": _as_bytes,
}


def bends(types: Sequence[str]) -> tuple[tuple[int, Bend], ...]:
    """How to bend the values of a statement with parameters of these types: (place, function) where needed."""
    return tuple((place, _BEND[name]) for place, name in enumerate(types) if name in _BEND)


def changed_rows(status: str) -> int:
    """The number of rows in a status of the server ("INSERT 0 1", "UPDATE 3"); -1 where it has none."""
    last = status.rpartition(" ")[2]
    return int(last) if last.isdigit() else -1

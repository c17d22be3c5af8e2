"""No text makes a regular expression of relay slow: a search that looks at a run of signs again from each of them
takes a minute for a message of 64 kB, and holds the interpreter all that time."""

from __future__ import annotations

import importlib
import pkgutil
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import relay

_METHODS = ("match", "fullmatch", "search", "sub", "finditer", "findall", "split")
#: Signs that patterns repeat; each is made a text of `_LENGTH` characters.
_SIGNS = (
    *"y -1./\n*`@#\"'[]()<=,:_~é\\{|\t\u2028",
    *("a b ", "y\n", "@a ", "a.", "a/", "> ", "a=", "a,", "a:", "-a ", "or ", "0a", "DECISION", "because "),
)
_LENGTH = 50_000
#: A linear search of such a text takes 0.4 s at most, a quadratic one 7 to 100 s and more: seconds for one text.
_PATIENCE_S = 8


def _uses() -> Iterator[tuple[str, re.Pattern[str], str]]:
    """Each pattern of a module's own names, and each way in which it is used: where it stands, pattern, method."""
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(relay.__path__, "relay.")
        if not found.name.endswith("__main__")
    ]
    every = "\n".join(path.read_text() for path in Path(relay.__path__[0]).rglob("*.py"))
    known = set()
    for module in modules:
        own = Path(str(module.__file__)).read_text()
        for name, value in vars(module).items():
            if not isinstance(value, re.Pattern) or not isinstance(value.pattern, str):
                continue
            source = own if name.startswith("_") else every
            for method in set(re.findall(rf"\b{name}\.({'|'.join(_METHODS)})\(", source)):
                key = (value.pattern, value.flags, method)
                if key not in known:
                    known.add(key)
                    yield f"{module.__name__}.{name}.{method}", value, method


def _use(pattern: re.Pattern[str], method: str, text: str) -> None:
    if method == "sub":
        pattern.sub("", text)
    elif method == "finditer":
        for _ in pattern.finditer(text):
            pass
    else:
        getattr(pattern, method)(text)


def test_no_pattern_is_slow_on_any_repeated_sign() -> None:
    def give_up(*_: Any) -> None:
        raise TimeoutError

    slow = []
    uses = list(_uses())
    assert len(uses) > 150
    before = signal.signal(signal.SIGALRM, give_up)
    try:
        for where, pattern, method in uses:
            for sign in _SIGNS:
                signal.alarm(_PATIENCE_S)
                try:
                    _use(pattern, method, (sign * _LENGTH)[:_LENGTH])
                except TimeoutError:
                    slow.append(f"{where} on {sign!r}")
                finally:
                    signal.alarm(0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not slow, slow

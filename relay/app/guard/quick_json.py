"""JSON by the interpreter's own scanner and encoder, for programs that start around every edit.

`json` loads `re`, `enum` and `functools`, which takes longer than all else that a hook does. Its C parts need none of
it. What they cannot do (text that is no JSON, an interpreter without them, or with other arguments) `json` does: it
gives the same value, or its own error.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Rules:
    """What `json.loads` tells the scanner."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float


def _refuse(value: object) -> Any:
    raise TypeError(f"a {type(value).__name__} is not JSON")


_scan: Callable[[str, int], tuple[Any, int]] | None = None
_encode: Callable[[Any, int], Any] | None = None
try:
    import _json

    # The scanner finds no class for its errors while `json` is not loaded: a SystemError, by which an interpreter
    # that was built for debugging ends.
    _scan = None if hasattr(sys, "gettotalrefcount") else _json.make_scanner(_Rules)  # type: ignore[arg-type]
    _encode = _json.make_encoder(
        None, _refuse, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True
    )
except (ImportError, AttributeError, TypeError, ValueError):
    pass


def loads(text: str | bytes) -> Any:
    """As `json.loads`. Raises ValueError, RecursionError."""
    if _scan is not None:
        said = text.decode("utf-8") if isinstance(text, bytes) else text
        whole = said.strip(" \t\n\r")
        try:
            value, end = _scan(whole, 0)
        except Exception:  # `json` says what is wrong with the text
            end = -1
        if end == len(whole):
            return value
    import json

    return json.loads(text)


def dumps(value: Any) -> str:
    """As `json.dumps`, of what came from JSON: a value that is not JSON's is a TypeError, and one that holds itself
    a RecursionError."""
    if _encode is not None:
        return "".join(_encode(value, 0))
    import json

    return json.dumps(value)

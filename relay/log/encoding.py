"""How the values of an event are stored.

Invariant: equal values have equal text (compact, sorted keys), so the body that is hashed can be put together from
what is stored (`event_hash`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

_NOTHING: dict[type, str] = {list: "[]", dict: "{}"}
#: A text as the encoder writes it.
quoted = json.encoder.encode_basestring
#: What `JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode` works with, and makes anew at
#: every call: for values as small as a clock that costs more than the encoding. (json/encoder.py of Python,
#: `JSONEncoder.iterencode`: the arguments in its order.)
_encode: Callable[[Any, int], Sequence[str]] = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, json.JSONEncoder().default, quoted, None, ":", ",", True, False, True
)


def dumps(value: Any) -> str:
    """Compact JSON with sorted keys: the stored form of every list, clock and payload."""
    if not value and type(value) in _NOTHING:
        return _NOTHING[type(value)]
    return "".join(_encode(value, 0))


def loads(text: str) -> Any:
    """The JSON value in `text`."""
    return json.loads(text)

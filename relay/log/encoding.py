"""The canonical form of an event: how its values are stored, and the body that its id is the hash of.

Invariant: equal values have equal text (compact, sorted keys), so a body can be put together from what is stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from relay.store.ports import Row

_NOTHING: dict[type, str] = {list: "[]", dict: "{}"}
#: A text as the encoder writes it.
quoted = json.encoder.encode_basestring
#: What `JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode` works with, and makes anew at
#: every call: for values as small as a clock that costs more than the encoding. (json/encoder.py of Python,
#: `JSONEncoder.iterencode`: the arguments in its order.)
_encode: Callable[[Any, int], Sequence[str]] = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, json.JSONEncoder().default, quoted, None, ":", ",", True, False, True
)


def _digest(payload: str) -> str:
    return f'"{hashlib.sha256(payload.encode()).hexdigest()}"'


#: How each column behind `at` is written in a body, in the order of its keys: lists, clocks and numbers as they are
#: stored.
_WRITTEN: dict[str, Callable[[Any], str]] = {
    "branch": quoted,
    "causal_deps": str,
    "clock": str,
    "file_touches": str,
    "inputs": _digest,
    "lane": quoted,
    "outputs": _digest,
    "parents": str,
    "prev": quoted,
    "role": quoted,
    "seq": str,
    "session": quoted,
    "snapshot": quoted,
    "source_key": quoted,
    "type": quoted,
    "v": str,
}
_BODY = tuple((name, f',"{name}":', how) for name, how in _WRITTEN.items())


def dumps(value: Any) -> str:
    """Compact JSON with sorted keys: the stored form of every list, clock and payload."""
    if not value and type(value) in _NOTHING:
        return _NOTHING[type(value)]
    return "".join(_encode(value, 0))


def loads(text: str) -> Any:
    """The JSON value in `text`."""
    return json.loads(text)


def event_id(row: Row) -> str:
    """The id that the stored columns of an event must have (64 hex digits)."""
    # The body in its canonical form, its keys in order and what is absent left out, put together from what is
    # stored: lists and clocks are kept as `dumps` wrote them.
    body = f'{{"at":{quoted(row["at"])}'
    for name, key, how in _BODY:
        value = row[name]
        if value is None or (value == "[]" and name == "causal_deps"):
            continue
        body += key + how(value)
    return hashlib.sha256(f"{body}}}".encode()).hexdigest()

"""The hash of an event: its id is the SHA-256 of its canonical body.

Invariant: the body is put together from what is stored, so a changed byte of an event gives another id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from relay.log.encoding import quoted
from relay.store.ports import Row


class Withheld(str):
    """The digest of a payload that is not here (64 hex digits): it stands in a body as the payload itself would."""

    __slots__ = ()


def digest_of(payload: str) -> Withheld:
    """What stands for a stored payload in a body."""
    return Withheld(hashlib.sha256(payload.encode()).hexdigest())


def _digest(payload: str) -> str:
    return f'"{payload if type(payload) is Withheld else hashlib.sha256(payload.encode()).hexdigest()}"'


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

"""What comes in from outside to be kept: texts and JSON values, checked before anything is done with them.

Invariant: what passes can be stored and hashed by every engine: it is UTF-8 without NUL, a JSON value without NaN or
infinity, and not longer than its limit. What does not is a `Refusal` (malformed) that names the field and the fix.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from relay.base.secret_text import masked
from relay.model import Fault, Refusal

#: Levels of lists and objects in each other that are taken.
MOST_DEPTH = 100


def malformed(field: str, message: str, fix: str) -> Refusal:
    """A request that is wrong in the field of that name."""
    # `bad_key` is said of the key of who asks.
    code = "malformed_key" if field == "key" else f"bad_{field}"
    return Refusal(message, fix, Fault.MALFORMED, code, details={"field": field})


def text(value: object, field: str, most: int, *, least: int = 1) -> str:
    """A text of `least` to `most` characters, blanks around it not counted. Raises Refusal."""
    if not isinstance(value, str):
        raise malformed(field, f"`{field}` is not text.", f"Give {least} to {most} characters.")
    _storable(value, field)
    if len(value) > most:
        raise malformed(field, f"`{field}` has {len(value)} characters; {most} are allowed.", "Shorten it.")
    if len(value.strip()) < least:
        raise malformed(field, f"`{field}` is empty.", f"Give {least} to {most} characters.")
    return value


def texts(values: object, field: str, most: int, most_each: int) -> tuple[str, ...]:
    """A list of at most `most` texts, each one once, in the order in which they came. Raises Refusal."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise malformed(field, f"`{field}` is not a list.", 'Give a list of strings, like ["a", "b"].')
    if len(values) > most:
        raise malformed(field, f"`{field}` has {len(values)} entries; {most} are allowed.", "Give fewer.")
    return tuple(dict.fromkeys(text(value, field, most_each) for value in values))


def json_value(value: Any, field: str, most: int) -> Any:
    """`value` as JSON gives it back, of at most `most` bytes. Raises Refusal."""
    try:
        encoded = json.dumps(value, ensure_ascii=False, allow_nan=False)
        size = len(encoded.encode())
        decoded = json.loads(encoded)
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        message = f"`{field}` is not a JSON value that can be stored: {str(error)[:120]}."
        fix = "NaN, infinity, unpaired surrogates and very deep nesting are refused."
        raise malformed(field, message, fix) from None
    if size > most:
        fix = "Put what is larger into a file, and its path here."
        raise malformed(field, f"`{field}` has {size} bytes; {most} are allowed.", fix)
    return decoded


def shallow(value: Any, field: str) -> Any:
    """The JSON value, of lists and objects at most `MOST_DEPTH` levels deep. Raises Refusal."""
    depth, level = 0, [value]
    # Without recursion: it may be any depth.
    while level := [each for each in level if isinstance(each, list | dict)]:
        depth += 1
        level = [child for each in level for child in (each.values() if isinstance(each, dict) else each)]
    if depth > MOST_DEPTH:
        message = f"`{field}` is nested more than {MOST_DEPTH} levels deep."
        raise malformed(field, message, "Send it flatter, or as a text.")
    return value


def unsecret(value: str, field: str) -> str:
    """The text, a name of something: it cannot be masked without being another's. Raises Refusal where it looks like
    a key or a token."""
    if masked(value) != value:
        raise malformed(field, f"`{field}` looks like a key or a token of a service.", "Give another one.")
    return value


def uuid(value: object, field: str) -> str:
    """A UUID in its usual form (lower case, hyphens). Raises Refusal."""
    try:
        return str(UUID(value if isinstance(value, str) else ""))
    except ValueError:
        fix = "An id is a UUID, as the answer to the request gave it."
        raise malformed(field, f"{str(value)[:60]!r} is not an id.", fix) from None


def digest(value: Any) -> str:
    """SHA-256 (hex) of a JSON value; the order of keys does not matter."""
    encoded = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=list)
    return hashlib.sha256(encoded.encode("utf-8", "surrogatepass")).hexdigest()


def _storable(value: str, field: str) -> None:
    if "\0" in value:
        raise malformed(field, f"`{field}` contains a NUL character.", "Leave it out.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise malformed(field, f"`{field}` contains an unpaired surrogate.", "Send UTF-8.") from None

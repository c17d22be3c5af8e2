"""The values of a request, checked: every value has its type, and no field is unknown.

Invariant: a handler never gets a value of another type than it asked for. A wrong value is a Refusal 400 that names
the field. No value is converted (`"1"` is not 1), and null means left out.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from aiohttp import web

from relay.faces.http.requests.connections import ENCODINGS, unsupported_encoding
from relay.model import Fault, Refusal
from relay.model.references import Thing, read

_CURSOR = re.compile(r"[0-9]{1,18}")


def bad(message: str, fix: str = "") -> Refusal:
    """A 400."""
    return Refusal(message, fix, Fault.MALFORMED)


class Body:
    """A request's JSON object."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def __contains__(self, field: str) -> bool:
        return field in self.values

    def text(self, field: str) -> str:
        """A text that must be there and say something."""
        value = self.maybe_text(field)
        if value is None:
            raise bad(f"{field} is missing.", f'Send {{"{field}": "..."}}.')
        if not value.strip():
            raise bad(f"`{field}` is empty.", f"Give a text for `{field}`.")
        return value

    def maybe_text(self, field: str) -> str | None:
        """A text, or None."""
        value = self.values.get(field)
        if value is None:
            return None
        if not isinstance(value, str):
            raise bad(f"{field} is {_called(value)}, not a string.", f"Send {field} as a JSON string.")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise bad(f"{field} has an unpaired surrogate.", "Send whole Unicode characters.") from None
        return value

    def flag(self, field: str) -> bool:
        """True or false; must be there."""
        value = self.values.get(field)
        if not isinstance(value, bool):
            raise bad(f"{field} is {_called(value)}.", f"{field} is true or false.")
        return value

    def names(self, field: str) -> list[str]:
        """A list of at least one text."""
        value = self.values.get(field)
        if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
            is_what = "empty" if value == [] else "a list of other things" if value else _called(value)
            raise bad(f"{field} is {is_what}.", f"{field} is a list of at least one text.")
        return value


def _called(value: object) -> str:
    if value is None:
        return "missing"
    words = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"}
    return words.get(type(value), "an object")


async def read_values(
    request: web.Request, *, limit: int, within_s: float, optional: bool = False
) -> dict[str, Any]:
    """The body as a JSON object, whatever its keys. `limit` in bytes, `within_s` seconds. With `optional`, no body is
    an empty object. Raises Refusal."""
    raw = await read_bytes(request, limit, within_s)
    if not raw.strip():
        if optional:
            return {}
        raise bad("The request has no body.", "Send a JSON object.")
    try:
        values = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise bad(f"Byte {error.start} of the body is not UTF-8.", "Send JSON in UTF-8.") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise bad(f"The body is not JSON: {error.msg} at {where}.", "Send a JSON object.") from None
    except (ValueError, RecursionError):
        raise bad(
            "The body's JSON is nested too deeply, or has too long a number.", "Send a plain JSON object."
        ) from None
    if not isinstance(values, dict):
        raise bad(f"The body is {_called(values)}, not an object.", "Send a JSON object.")
    return values


def json_lines(raw: bytes, field: str) -> dict[str, Any]:
    """The body of a request whose `field` is a list: a JSON object that has the field, a JSON list, or lines, whose
    texts are the list. A line that is not JSON, or not UTF-8, is for the request's handler to refuse."""
    text = raw.decode("utf-8-sig", "surrogateescape")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if isinstance(values, dict) and field in values:
        return values
    return {field: values if isinstance(values, list) else text.split("\n")}


async def read_bytes(request: web.Request, limit: int, within_s: float) -> bytes:
    """The body as it came. Raises Refusal."""
    if request.headers.get("Content-Encoding", "identity").lower() not in ("identity", *ENCODINGS):
        raise unsupported_encoding()
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    try:
        if request.content.is_eof():  # it came with its headers, as most do: nothing is waited for
            got = bytearray(request.content.read_nowait())
        else:
            got = bytearray()
            async with asyncio.timeout(within_s):
                # Chunk by chunk, since a body may come without a length, or grow when it is unpacked.
                async for chunk in request.content.iter_any():
                    got += chunk
                    if len(got) > limit:
                        break
    except TimeoutError:
        raise Refusal(
            f"The body took longer than {within_s:g} s.", "Send it again.", Fault.MALFORMED, "timeout"
        ) from None
    except web.RequestPayloadError as error:
        raise bad(f"The body is incomplete or cannot be decompressed: {error}.") from None
    if len(got) > limit:
        raise _too_large(limit)
    return bytes(got)


def _too_large(limit: int) -> Refusal:
    return Refusal(
        f"The request is larger than {limit} bytes.",
        "Send less, or in several parts.",
        Fault.MALFORMED,
        "too_large",
    )


def check_known(what: str, values: Collection[str], allowed: Collection[str]) -> None:
    """Raises Refusal 400 for a name that is not allowed."""
    unknown = [name for name in values if name not in allowed]
    if unknown:
        fix = f"Known: {', '.join(allowed)}." if allowed else f"There is no such {what}."
        raise bad(f"Unknown {what} {unknown[0][:40]!r}.", fix)


class Query:
    """A request's query parameters, none but `allowed`."""

    def __init__(self, request: web.Request, *allowed: str) -> None:
        self._values = request.query
        check_known("query parameter", self._values, allowed)
        if any("\0" in text for text in self._values.values()):
            raise bad("The query has the character NUL.", "Leave it out.")

    def whole(self, name: str, default: int, *, high: int) -> int:
        """A whole number from 1 to `high`."""
        text = self._values.get(name)
        if text is None:
            return default
        number = whole(text)
        if number is None or not 1 <= number <= high:
            raise bad(f"{name} is {text[:40]!r}.", f"{name} is a whole number from 1 to {high}.")
        return number

    def cursor(self, name: str) -> int | None:
        """A cursor that this room gave out, or None."""
        text = self._values.get(name)
        if text is None:
            return None
        cursor = whole(text)
        if cursor is None:
            raise bad(
                f"{name} is {text[:40]!r}, which is not a cursor.", "Send back a cursor as it was given."
            )
        return cursor

    def text(self, name: str) -> str | None:
        return self._values.get(name)


def numbered(text: str, thing: Thing) -> int | None:
    """The number of a thing, written with its letter or without; None when another thing is meant, or none."""
    kind, number = read(text, bare=thing) or (None, None)
    return number if kind is thing else None


def whole(text: str) -> int | None:
    """The number that these digits write, None when they are none."""
    return int(text) if _CURSOR.fullmatch(text) else None

"""JSON shapes of the room that several interfaces send (docs/http.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relay.model import Message

Json = dict[str, Any]


def entry_json(message: Message, **more: Any) -> Mapping[str, Any]:
    """ENTRY: the message with its cursor as the opaque text that clients send back."""
    return {**message.as_json(), "cursor": str(message.cursor), **more}

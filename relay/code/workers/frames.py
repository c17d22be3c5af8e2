"""How the daemon and its graph workers talk: a JSON message and byte strings, with their lengths before.

Invariant: a frame is whole or it is an error; nothing that is read is executed (no pickle).
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Sequence
from io import BytesIO
from typing import Any, BinaryIO

_HEAD = struct.Struct(">II")
Frame = tuple[dict[str, Any], list[bytes]]


def encoded(message: dict[str, Any], parts: Sequence[bytes] = ()) -> bytes:
    """The bytes of one frame."""
    header = json.dumps(message, separators=(",", ":")).encode()
    lengths = struct.pack(f">{len(parts)}I", *map(len, parts))
    return b"".join((_HEAD.pack(len(header), len(parts)), lengths, header, *parts))


def read_frame(stream: BinaryIO) -> Frame | None:
    """The next frame of a blocking stream, None at its end."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    length, count = _HEAD.unpack(head)
    lengths = struct.unpack(f">{count}I", stream.read(4 * count))
    return json.loads(stream.read(length)), [stream.read(size) for size in lengths]


async def receive(stream: asyncio.StreamReader) -> Frame:
    """The next frame. Raises asyncio.IncompleteReadError at the stream's end."""
    length, count = _HEAD.unpack(await stream.readexactly(_HEAD.size))
    lengths = struct.unpack(f">{count}I", await stream.readexactly(4 * count))
    body = BytesIO(await stream.readexactly(length + sum(lengths)))
    return json.loads(body.read(length)), [body.read(size) for size in lengths]

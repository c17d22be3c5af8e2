"""Files of messages: what they are called, what they are, and how a text names one. Pure.

A file is kept under the SHA-256 of its bytes and an ending, `HASH.png`: that is its id. A message names it as
`![name](relay-file:HASH.png)` where it is a picture, else without the `!`.
"""

from __future__ import annotations

import re
import unicodedata

#: The folder of a room's files, within its runtime folder.
FOLDER = "files"
ID = re.compile(r"[0-9a-f]{64}\.[a-z0-9]{1,8}")
NAMED = re.compile(rf"relay-file:({ID.pattern})(?![\w.])")
#: Characters of a name.
MOST_NAME = 100
#: Pictures that a browser may show: ending, type, and how the bytes of one begin.
_PICTURES = (
    ("png", "image/png", (b"\x89PNG\r\n\x1a\n",)),
    ("jpg", "image/jpeg", (b"\xff\xd8\xff",)),
    ("gif", "image/gif", (b"GIF87a", b"GIF89a")),
)
_UNKNOWN = "application/octet-stream"


def picture(data: bytes) -> tuple[str, str] | None:
    """The ending and the type of a picture that a browser may show, by its first bytes; None: it is none of these."""
    for ending, kind, beginnings in _PICTURES:
        if data.startswith(beginnings):
            return ending, kind
    return ("webp", "image/webp") if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def type_of(data: bytes) -> str:
    """The content type of a file by its first bytes, as a browser is told it: a picture's, else of a download."""
    found = picture(data)
    return found[1] if found else _UNKNOWN


def clean_name(name: str) -> str:
    """A name that a file may be shown and downloaded under: without folders, control signs and brackets."""
    last = re.split(r"[/\\]", name)[-1]
    seen = "".join(" " if unicodedata.category(one)[0] in "CZ" else one for one in last)
    plain = " ".join(re.sub(r"[\[\]()<>\"`*|!?:]", "_", seen).split()).strip(" .")
    if len(plain) > MOST_NAME:
        stem, dot, ending = plain.rpartition(".")
        plain = (
            f"{stem[: MOST_NAME - 1 - len(ending)]}.{ending}"
            if dot and len(ending) < 12
            else plain[:MOST_NAME]
        )
    return plain or "file"


def ending_of(name: str, data: bytes) -> str:
    """The ending that a file is kept with: a picture's by its bytes, else the name's, never one of a picture's."""
    found = picture(data)
    if found:
        return found[0]
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    return ending if re.fullmatch(r"[a-z0-9]{1,8}", ending) and ending not in _ENDINGS else "bin"


_ENDINGS = {"png", "jpg", "jpeg", "gif", "webp"}


def reference(name: str, id: str) -> str:
    """How a message names the file, in Markdown."""
    return f"{'!' if id.rpartition('.')[2] in _ENDINGS else ''}[{name}](relay-file:{id})"


def with_paths(text: str, folder: str) -> str:
    """The text with the paths of the files that it names, in `folder`; "" leaves it as it is."""
    return NAMED.sub(lambda match: f"{folder}/{match[1]}", text) if folder and "relay-file:" in text else text

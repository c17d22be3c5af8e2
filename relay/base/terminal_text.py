"""What others wrote, made plain: fit for a terminal, a log and a reason that people read.

Invariant: nothing in another's text reaches the terminal as an instruction. Escape sequences (CSI, OSC, DCS
and their like, in 7 and 8 bits) and control characters are taken out, characters that turn the reading order
around are shown by their number, and every function here is linear in the text, whatever it holds. Each character
that some program takes for a line's end (all that `str.splitlines` knows) is one: a line that begins in the middle of
another's text never passes for one of its own.

Pure, but for `fail`.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

# An unterminated string sequence loses its introducer only: it must not swallow the text after it. No class
# here contains a character that another match could start with, so that nothing is scanned twice.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])(?:[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c))?"
    r"|\x1b[ -/]*[0-Z\\^-~]?"
)
_LINE_ENDS = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# json.dumps escapes the C0 controls; these are the rest that must not stand in a line as they are.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def lines(text: str) -> list[str]:
    """The lines of a text, at least one."""
    return _LINE_ENDS.split(text)


def safe(text: str) -> str:
    """`text` with nothing left in it that a terminal would obey; newlines stay, tabs become blanks."""
    if text.isascii() and text.isprintable():
        return text
    text = _LINE_ENDS.sub("\n", _ESCAPES.sub("", text))
    text = _SURROGATES.sub("\ufffd", _CONTROLS.sub("", text))
    return _TURNING.sub(lambda match: f"‹U+{ord(match[0]):04X}›", text).expandtabs(4)


def safe_line(text: str, width: int = 200) -> str:
    """`text` as one line of at most `width` characters."""
    line = " ".join(safe(text[: width * 8]).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def flat(text: str) -> str:
    """`text` as one line."""
    return " ".join(safe(text).split())


def json_line(value: Any, *, nan: bool = True, separators: tuple[str, str] = (",", ":")) -> str:
    """`value` as JSON on one line for every reader: what ends lines, steers a terminal or turns the reading order is
    escaped, and it says the same. A lone surrogate, which no UTF-8 can hold, becomes U+FFFD. Without `nan`,
    raises ValueError for a number that JSON does not know."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=nan, separators=separators)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", _SURROGATES.sub("\ufffd", text))


def indented(text: str) -> str:
    """`safe`, with every line but the first moved in: none of them passes for a line of the program's own."""
    return safe(text).replace("\n", "\n    ")


def tame(value: Any) -> Any:
    """A JSON value whose every text is `indented`: what a program makes its own lines of."""
    match value:
        case str():
            return indented(value)
        case list():
            return [tame(item) for item in value]
        case dict():
            return {tame(key): tame(item) for key, item in value.items()}
        case _:
            return value


def fail(text: str, code: int = 1) -> int:
    """Say on standard error what went wrong with a command; gives its exit code."""
    print(f"relay: {indented(text)}", file=sys.stderr)
    return code


def fenced(text: str, language: str = "") -> str:
    """A text as a block of markdown: nothing in it ends the block. An empty one has no line."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{fence}"

"""What others wrote, made plain: fit for a terminal, a log and a reason that people read.

Invariant: nothing in another's text reaches the terminal as an instruction. Escape sequences (CSI, OSC, DCS
and their like, in 7 and 8 bits) and control characters are taken out, characters that turn the reading order
around are shown by their number, and every function here is linear in the text, whatever it holds.

Pure.
"""

from __future__ import annotations

import re

# An unterminated string sequence loses its introducer only: it must not swallow the text after it. No class
# here contains a character that another match could start with, so that nothing is scanned twice.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])(?:[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c))?"
    r"|\x1b[ -/]*[0-Z\\^-~]?"
)
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def safe(text: str) -> str:
    """`text` with nothing left in it that a terminal would obey; newlines stay, tabs become blanks."""
    if text.isascii() and text.isprintable():
        return text
    text = _LINE_ENDS.sub("\n", _ESCAPES.sub("", text))
    text = _SURROGATES.sub("\ufffd", _CONTROLS.sub("", text))
    return _TURNING.sub(lambda found: f"‹U+{ord(found[0]):04X}›", text).expandtabs(4)


def safe_line(text: str, width: int = 200) -> str:
    """`text` as one line of at most `width` characters."""
    line = " ".join(safe(text[: width * 8]).split())
    return line if len(line) <= width else line[: width - 1] + "…"

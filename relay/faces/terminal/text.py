"""Other people's text as styled fragments for a terminal.

Invariant: nothing in another's text reaches the terminal as an instruction (`relay.base.terminal_text`), and every
function here takes time linear in the text.

Pure: text in, fragments (`(style, text)`, prompt_toolkit's form) out. Markdown is coloured and not reflowed;
`wrap.py` breaks lines that are wider than the screen. A full Markdown renderer (rich) would cost 100 ms of start-up
and would put hard line ends into the text.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

from relay.base.terminal_text import safe

Fragments = list[tuple[str, str]]

#: Lines and characters of one entry that are shown; the page shows all of it.
MAX_LINES = 300
MAX_CHARS = 30_000


# Readable on a dark and on a light ground.
_COLOURS = (
    "#d75f5f",
    "#5f9f5f",
    "#af8700",
    "#5f87d7",
    "#af5faf",
    "#0097a7",
    "#d7875f",
    "#7f7fd7",
    "#5faf87",
    "#d75f87",
    "#8f8f00",
    "#00afd7",
)


def note(style: str, text: str) -> list[Fragments]:
    """One line in one style, as the lines to print."""
    return [[(f"class:{style}", text)]]


def colour(speaker: str) -> str:
    """The style of a speaker's name. It is the same in every session and on every machine."""
    # The "x" is a salt that gives the agents of most rooms different colours.
    return f"fg:{_COLOURS[zlib.crc32(b'x' + speaker.encode(errors='replace')) % len(_COLOURS)]}"


_FENCE = re.compile(r"\s{0,3}(```+|~~~+)\s*([\w+#.-]*)[^`]*$")
_HEADING = re.compile(r"#{1,6}\s+(.*)")
_BULLET = re.compile(r"(\s*)[-*+]\s+(.*)")
_QUOTE = re.compile(r"\s{0,3}>\s?(.*)")
# Spans do not reach over a line's end, and each opens with a different character: one pass.
_SPAN = re.compile(
    r"`([^`\n]+)`|\*\*([^*\n]+)\*\*|(?<![\w*])\*([^*\s][^*\n]*)\*(?![\w*])|(?<![\w@./])@([A-Za-z][\w-]*+)(?!/)"
    r"|\\([!-/:-@\[-`{-~])"  # a sign that is escaped stands for itself (CommonMark, "Backslash escapes")
)


def inline(line: str, base: str = "") -> Fragments:
    """One line with code, bold, italic and mentions styled. The line is `safe` already."""
    fragments: Fragments = []
    at = 0
    for span in _SPAN.finditer(line):
        if span.start() > at:
            fragments.append((base, line[at : span.start()]))
        style, text = {
            1: ("class:code", span[1]),
            2: ("bold", span[2]),
            3: ("italic", span[3]),
            4: ("bold " + colour((span[4] or "").upper()), span[0]),
            5: ("", span[5]),
        }[span.lastindex or 1]
        fragments.append((f"{base} {style}".strip(), text))
        at = span.end()
    if at < len(line):
        fragments.append((base, line[at:]))
    return fragments


def markdown(body: str, base: str = "") -> list[Fragments]:
    """The lines of a body, styled. A body that is too long is cut, and the last line says so."""
    text = safe(body[:MAX_CHARS])
    lines = text.strip("\n").split("\n")
    shown = list(_lines(lines[:MAX_LINES], base))
    if len(body) > MAX_CHARS or len(lines) > MAX_LINES:
        shown.append([("class:quiet", f"… cut here; all {len(body):,} characters are in the page")])
    return shown


def _lines(lines: list[str], base: str) -> Iterator[Fragments]:
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2]:
                fence = ""
            else:
                yield [("class:bar", "│ "), ("class:code", line)]
        elif mark:
            fence = mark[1]
        elif heading := _HEADING.fullmatch(line):
            yield inline(heading[1], f"{base} bold".strip())
        elif bullet := _BULLET.fullmatch(line):
            yield [(base, f"{bullet[1]}• "), *inline(bullet[2], base)]
        elif quote := _QUOTE.fullmatch(line):
            yield [("class:bar", "▏ "), *inline(quote[1], f"{base} class:quiet".strip())]
        else:
            yield inline(line, base)

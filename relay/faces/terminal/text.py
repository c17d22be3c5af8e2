"""Other people's text as styled fragments for a terminal.

Invariant: nothing in another's text reaches the terminal as an instruction (`relay.base.terminal_text`), and every
function here takes time linear in the text.

Pure: text in, fragments (`(style, text)`, prompt_toolkit's form) out. Markdown is coloured and not reflowed, but for
tables, which are laid out in columns; `wrap.py` breaks lines that are wider than the screen. A full Markdown renderer
(rich) would cost 100 ms of start-up and would put hard line ends into the text.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from itertools import zip_longest

from relay.base.terminal_text import safe
from relay.faces.terminal.wrap import Fragments, wide, wrapped

__all__ = ["Fragments", "colour", "inline", "markdown", "note", "plain"]

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


def markdown(body: str, base: str = "", columns: int = 80) -> list[Fragments]:
    """The lines of a body, styled; its tables within `columns`. A body that is too long is cut, which is said."""
    text = safe(body[:MAX_CHARS])
    lines = text.strip("\n").split("\n")
    shown = list(_lines(lines[:MAX_LINES], base, columns))
    if len(body) > MAX_CHARS or len(lines) > MAX_LINES:
        shown.append([("class:quiet", f"… cut here; all {len(body):,} characters are in the page")])
    return shown


def plain(body: str, columns: int) -> list[str]:
    """The lines of a body as they were written, but with its tables in columns."""
    shown: list[str] = []
    for _, line, rows in _parts(safe(body).split("\n"), "", columns):
        shown += ["".join(piece for _, piece in row) for row in rows] or [line]
    return shown


def _lines(lines: list[str], base: str, columns: int) -> Iterator[Fragments]:
    for kind, line, rows in _parts(lines, base, columns):
        if kind == "code":
            yield [("class:bar", "│ "), ("class:code", line)]
        elif kind == "table":
            yield from rows
        elif kind == "fence":
            continue
        elif heading := _HEADING.fullmatch(line):
            yield inline(heading[1], f"{base} bold".strip())
        elif bullet := _BULLET.fullmatch(line):
            yield [(base, f"{bullet[1]}• "), *inline(bullet[2], base)]
        elif quote := _QUOTE.fullmatch(line):
            yield [("class:bar", "▏ "), *inline(quote[1], f"{base} class:quiet".strip())]
        else:
            yield inline(line, base)


def _parts(lines: list[str], base: str, columns: int) -> Iterator[tuple[str, str, list[Fragments]]]:
    """What each line is (text, fence, code or the beginning of a table), the line, and a table's rows."""
    fence, at = "", 0
    while at < len(lines):
        line = lines[at]
        at += 1
        mark = _FENCE.match(line)
        if fence:
            closes = mark is not None and mark[1].startswith(fence) and not mark[2]
            fence = "" if closes else fence
            yield "fence" if closes else "code", line, []
        elif mark:
            fence = mark[1]
            yield "fence", line, []
        elif (end := _table_end(lines, at - 1)) and (rows := _table(lines[at - 1 : end], base, columns)):
            at = end
            yield "table", line, rows
        else:
            yield "text", line, []


#: The line below a table's head, and what parts the cells of a row.
_RULE = re.compile(r"\s{0,3}\|?(?:\s*:?-+:?\s*\|)*\s*:?-+:?\s*\|?\s*")
_BAR = re.compile(r"(?<!\\)\|")
#: Columns that a cell has at least, and those between two.
_CELL, _GAP = 4, ("class:bar", " │ ")


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    parts = [part.strip().replace("\\|", "|") for part in _BAR.split(inner)]
    return parts[:-1] if len(parts) > 1 and not parts[-1] else parts


def _table_end(lines: list[str], at: int) -> int:
    """Where the table that begins at this line ends; 0: none begins there."""
    if (
        at + 1 >= len(lines)
        or "|" not in lines[at]
        or not ("-" in lines[at + 1] and _RULE.fullmatch(lines[at + 1]))
    ):
        return 0
    if len(_cells(lines[at])) != len(_cells(lines[at + 1])):
        return 0
    end = at + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    return end


def _table(lines: list[str], base: str, columns: int) -> list[Fragments]:
    """A table's rows in columns, none wider than `columns`; none where there is no place for that. A cell that is too
    long is broken between words."""
    heads = _cells(lines[0])
    left = columns - len(_GAP[1]) * (len(heads) - 1)
    if left < _CELL * len(heads):
        return []
    bold = f"{base} bold".strip()
    rows = [[inline(cell, bold) for cell in heads]]
    for line in lines[2:]:
        cells = [inline(cell, base) for cell in _cells(line)[: len(heads)]]
        rows.append([*cells, *([] for _ in range(len(heads) - len(cells)))])
    widths = [max(map(wide, cells)) for cells in zip(*rows, strict=True)]
    most = max(widths)
    while sum(min(width, most) for width in widths) > left:
        most -= 1
    widths = [max(1, min(width, most)) for width in widths]
    shown: list[Fragments] = []
    for row in rows:
        broken = [
            wrapped(cell, width, hangs=False) if wide(cell) > width else [cell]
            for cell, width in zip(row, widths, strict=True)
        ]
        for pieces in zip_longest(*broken, fillvalue=[]):
            shown.append([])
            for at, (piece, width) in enumerate(zip(pieces, widths, strict=True)):
                last = at == len(widths) - 1
                shown[-1] += [*piece, *([] if last else [("", " " * (width - wide(piece))), _GAP])]
        if row is rows[0]:
            shown.append([("class:bar", "─┼─".join("─" * width for width in widths))])
    return shown

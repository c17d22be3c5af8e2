"""Tells the prose of a markdown body from its code.

Invariant: `prose(body)` has the length of `body` and differs from it only where a character stands in a code
block (fenced or indented) or a code span: there it is a space. Newlines stay. So an offset found in the prose
is an offset in the body, and nothing that is shown as code is ever read as something a person said.

The rules are CommonMark's (0.31, sections 4.4, 4.5, 5 and 6.1) for the blocks that matter here: quotes,
lists, fences, indented code, paragraphs. HTML blocks are text. One pass over the lines, and no expression
that can backtrack: the time is linear in the length of the body, whoever wrote it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

_SPACE = re.compile(r"[ \t]*")
_FENCE = re.compile(r"`{3,}|~{3,}")
_MARKER = re.compile(r"(?:[-+*]|([0-9]{1,9})[.)])(?=[ \t]|$)", re.MULTILINE)
_HEADING = re.compile(r"#{1,6}(?=[ \t]|$)", re.MULTILINE)
_RULE = re.compile(r"(?:(?:-[ \t]*+){3,}+|(?:\*[ \t]*+){3,}+|(?:_[ \t]*+){3,}+)$", re.MULTILINE)
_TICKS = re.compile(r"((?:(?<!\\)\\++)?)(`+)")
_BREAK = re.compile(r"\r\n|\n|\r")

#: Deeper nesting than any person writes is text, so a line of a million markers costs no more than others.
_MAX_DEPTH = 32
_QUOTE = -1


def prose(body: str) -> str:
    """The body with everything that is code replaced by spaces; same length, same line breaks."""
    if "`" not in body and "~~~" not in body and "    " not in body and "\t" not in body:
        return body
    scan = _Scan(body)
    start = 0
    for line_break in _BREAK.finditer(body):
        scan.line(start, line_break.start())
        start = line_break.end()
    scan.line(start, len(body))
    scan.end_paragraph()
    return _blank(body, scan.code)


def _blank(body: str, code: list[tuple[int, int]]) -> str:
    pieces: list[str] = []
    at = 0
    for start, end in sorted(code):
        if end <= at:
            continue
        pieces.append(body[at : max(start, at)])
        pieces.append("".join(c if c in "\r\n" else " " for c in body[max(start, at) : end]))
        at = end
    pieces.append(body[at:])
    return "".join(pieces)


@dataclass(slots=True)
class _Fence:
    char: str
    length: int


class _Scan:
    """The block structure at the line that is read; `code` collects (start, end) of what is code.

    `containers` are the open quotes (`_QUOTE`) and list items (the column at which their content starts),
    outermost first. All columns are counted from the start of the line, with tab stops of four.
    """

    def __init__(self, body: str) -> None:
        self.body = body
        self.code: list[tuple[int, int]] = []
        self.containers: list[int] = []
        self.fence: _Fence | None = None
        self.paragraph = False
        self.empty_item = False  # the line before opened an item and put nothing in it
        self._ticks: list[tuple[int, int, bool]] = []  # (start, length, first one is escaped)

    def line(self, start: int, end: int) -> None:
        pos, column = self._skip(start, 0, end)
        if pos == end:
            self._blank_line()
            return
        self.empty_item = False
        base, matched = 0, 0
        for container in self.containers:
            if container == _QUOTE:
                if pos == end or self.body[pos] != ">" or column - base > 3:
                    break
                pos, column, base = self._enter_quote(pos, column, end)
            elif pos == end or column >= container:
                base = container
            else:
                break
            matched += 1
        closed = matched < len(self.containers)
        if self.fence is not None:
            if not closed:
                self._fenced(pos, column - base, end, start)
                return
            self.fence = None
        if closed and not (self.paragraph and pos < end and not self._opens_block(pos, column - base, end)):
            del self.containers[matched:]
            self.end_paragraph()
        self._content(pos, column, base, end)

    def _blank_line(self) -> None:
        """A line of nothing ends a paragraph, every quote, and an item that is still empty."""
        self.end_paragraph()
        if self.empty_item:
            self.containers.pop()
            self.empty_item = False
        if _QUOTE in self.containers:
            del self.containers[self.containers.index(_QUOTE) :]
            self.fence = None

    def end_paragraph(self) -> None:
        """Find the code spans of the paragraph that ends here: a run of backticks to the next as long."""
        self.paragraph = False
        ticks, self._ticks = self._ticks, []
        if len(ticks) < 2:
            return
        by_length: dict[int, list[int]] = {}
        for start, length, _ in ticks:
            by_length.setdefault(length, []).append(start)
        free_from = 0
        for start, length, escaped in ticks:
            if start < free_from:
                continue
            opening = length - 1 if escaped else length
            starts = by_length.get(opening, [])
            following = bisect_right(starts, start)
            if opening and following < len(starts):
                free_from = starts[following] + opening
                self.code.append((start + escaped, free_from))

    def _content(self, pos: int, column: int, base: int, end: int) -> None:
        while True:
            if pos == end:
                self.end_paragraph()
                return
            if column - base > 3:
                if self.paragraph:
                    self._text(pos, end)
                else:
                    self.code.append((pos, end))
                return
            if self._opens_fence(pos, end):
                self.end_paragraph()
                run = _FENCE.match(self.body, pos, end)
                assert run is not None
                self.fence = _Fence(self.body[pos], run.end() - pos)
                self.code.append((pos, end))
                return
            if _HEADING.match(self.body, pos, end) or _RULE.match(self.body, pos, end):
                self.end_paragraph()
                self._text(pos, end)
                self.end_paragraph()
                return
            if len(self.containers) < _MAX_DEPTH and self.body[pos] == ">":
                self.end_paragraph()
                pos, column, base = self._enter_quote(pos, column, end)
                self.containers.append(_QUOTE)
                continue
            if len(self.containers) < _MAX_DEPTH and self._opens_item(pos, end):
                self.end_paragraph()
                pos, column, base = self._enter_item(pos, column, end)
                self.containers.append(base)
                self.empty_item = pos == end
                continue
            self._text(pos, end)
            return

    def _text(self, pos: int, end: int) -> None:
        self.paragraph = True
        for run in _TICKS.finditer(self.body, pos, end):
            self._ticks.append((run.start(2), len(run[2]), len(run[1]) % 2 == 1))

    def _fenced(self, pos: int, indent: int, end: int, start: int) -> None:
        fence = self.fence
        assert fence is not None
        self.code.append((start, end))
        run = _FENCE.match(self.body, pos, end)
        if run is None or self.body[pos] != fence.char or run.end() - pos < fence.length or indent > 3:
            return
        if self._skip(run.end(), 0, end)[0] == end:
            self.fence = None

    def _opens_fence(self, pos: int, end: int) -> bool:
        run = _FENCE.match(self.body, pos, end)
        # A backtick fence has no backtick after it in its line: ```x``` is a code span.
        return run is not None and (run[0][0] == "~" or self.body.find("`", run.end(), end) < 0)

    def _opens_item(self, pos: int, end: int) -> bool:
        marker = _MARKER.match(self.body, pos, end)
        if marker is None:
            return False
        if not self.paragraph:
            return True
        # A list interrupts a paragraph only with text, and only from 1: "in\n1984. It was" is one sentence.
        return marker[1] in (None, "1") and self._skip(marker.end(), 0, end)[0] < end

    def _opens_block(self, pos: int, indent: int, end: int) -> bool:
        """Does this line end a paragraph of a container that it does not continue?"""
        if indent > 3:
            return False
        return (
            self.body[pos] == ">"
            or _MARKER.match(self.body, pos, end) is not None
            or _HEADING.match(self.body, pos, end) is not None
            or _RULE.match(self.body, pos, end) is not None
            or self._opens_fence(pos, end)
        )

    def _enter_quote(self, pos: int, column: int, end: int) -> tuple[int, int, int]:
        base = column + 1
        if pos + 1 < end and self.body[pos + 1] in " \t":
            base += 1
        pos, column = self._skip(pos + 1, column + 1, end)
        return pos, column, base

    def _enter_item(self, pos: int, column: int, end: int) -> tuple[int, int, int]:
        marker = _MARKER.match(self.body, pos, end)
        assert marker is not None
        after = column + marker.end() - pos
        pos, column = self._skip(marker.end(), after, end)
        # More than four spaces after the marker: indented code inside the item.
        base = column if pos < end and column - after <= 4 else after + 1
        return pos, column, base

    def _skip(self, pos: int, column: int, end: int) -> tuple[int, int]:
        """Past blanks: the position and the column after them."""
        match = _SPACE.match(self.body, pos, end)
        assert match is not None
        blanks = match[0]
        if "\t" not in blanks:
            return match.end(), column + len(blanks)
        for blank in blanks:
            column += 4 - column % 4 if blank == "\t" else 1
        return match.end(), column

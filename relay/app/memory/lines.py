"""Files of JSON lines, read piece by piece.

Invariant: how large a file or a line is makes no difference to what is in memory at once. What is not UTF-8 or too
long is given as it is, for whoever reads the line to refuse.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

#: Lines, and about how many bytes, of a piece.
MOST_LINES, MOST_BYTES = 1000, 1_000_000


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines that follow each other. `first`: the number of the first one, from 1."""

    first: int
    lines: list[str]

    def halves(self) -> tuple[Piece, Piece]:
        middle = len(self.lines) // 2
        return Piece(self.first, self.lines[:middle]), Piece(self.first + middle, self.lines[middle:])


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """The file of this name; `-` is standard input. Raises OSError."""
    if name == "-":
        yield sys.stdin.buffer
    else:
        with Path(name).open("rb") as file:
            yield file


def pieces(source: BinaryIO, most_lines: int = MOST_LINES) -> Iterator[Piece]:
    """All lines of a file. One that is longer than a line may be comes without its rest."""
    from relay.memory.episodic.importing import MOST_LINE

    lines: list[str] = []
    number, first, size = 0, 1, 0
    while raw := source.readline(MOST_LINE + 1):
        rest = raw
        while not rest.endswith(b"\n") and (rest := source.readline(MOST_LINE)):
            pass
        text = raw.removeprefix(b"\xef\xbb\xbf") if number == 0 else raw
        number += 1
        size += len(raw)
        lines.append(text.rstrip(b"\r\n").decode("utf-8", "surrogateescape"))
        if len(lines) >= most_lines or size >= MOST_BYTES:
            yield Piece(first, lines)
            lines, first, size = [], number + 1, 0
    if lines:
        yield Piece(first, lines)

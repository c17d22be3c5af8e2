"""Marks of unfinished work (TODO, FIXME, XXX, HACK) in the comments of lines that were added.

Invariant: where there is a grammar, a comment is what the grammar calls one, so a mark in a string or a name does not
count. In any other text file it is what stands on its line behind `#`, `//`, `/*`, `--`, `;` or `<!--`, or on a line
that begins with `*`; in prose (`.md`, `.rst`, `.txt`, `.adoc`) behind `<!--` alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from tree_sitter import Parser, QueryCursor

from relay.code.read.extract import LARGEST
from relay.code.read.grammar import KEYWORDS, grammar, language_of
from relay.timeline.handoffs.added_lines import AddedFile

MARKS = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
_PROSE = frozenset({".md", ".markdown", ".rst", ".txt", ".adoc"})
_COMMENT = re.compile(r"(?:#|//|/\*|--|;|<!--|^\s*\*)(.*)")
_COMMENT_IN_PROSE = re.compile(r"<!--(.*)")


def open_tasks(file: AddedFile) -> list[tuple[int, str]]:
    """The added lines that have a mark in a comment: number and text, in order. CPU-bound: call it in a thread."""
    lines = file.after.decode("utf-8", "replace").split("\n")
    if not any(MARKS.search(lines[number - 1]) for number in file.lines if number <= len(lines)):
        return []
    language = language_of(file.path)
    if language in KEYWORDS and len(file.after) <= LARGEST:
        marked = {*_in_comments(language, file.after)}
    else:
        how = _COMMENT_IN_PROSE if PurePosixPath(file.path).suffix.lower() in _PROSE else _COMMENT
        marked = {number for number, line in enumerate(lines, 1) if _marked(how, line)}
    return [(number, lines[number - 1].strip()[:200]) for number in sorted(marked & file.lines)]


def _marked(how: re.Pattern[str], line: str) -> bool:
    found = how.search(line)
    return found is not None and MARKS.search(found[1]) is not None


def _in_comments(language: str, text: bytes) -> Iterator[int]:
    """The lines of comments that have a mark."""
    known = grammar(language)
    # A parser of its own: the shared one may be in use by another thread.
    tree = Parser(known.parser.language).parse(text)
    for node in QueryCursor(known.skipped).captures(tree.root_node).get("skip", ()):
        if node.type.endswith("comment"):
            comment = text[node.start_byte : node.end_byte].decode("utf-8", "replace")
            for offset, line in enumerate(comment.split("\n")):
                if MARKS.search(line):
                    yield node.start_point[0] + 1 + offset

"""The process that merges texts for the daemon: beyond git's merge one may take long, and nothing may hold the room.

Invariant: it ends with its daemon: it reads requests from its standard input until that closes. Its standard output
carries frames and nothing else. Who asks limits the time, and ends the process that is too slow.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relay.code.workers.frames import encoded, read_frame
from relay.merge.conflicts.part_names import PartNames
from relay.merge.text.data_files import format_of
from relay.merge.text.file_merge import TooLong, merge_file, time_limit
from relay.merge.text.git_text import GitText, marker_size
from relay.merge.text.guard import answer_faults
from relay.merge.text.ladder import Conflict, Labels, source_of
from relay.merge.text.lines import lines_of, place_of, rows_with_ends
from relay.merge.text.syntax import language_of

NICENESS = 5
#: Letters of a conflict marker, at the least.
MARKER = 61


def main(role: str) -> None:
    """Serve requests until the input ends: `{path, inside}` with base, ours, theirs and the text with what an agent
    answered -> `{faults}`; `{path, timeout_s, ladder}` with the base, ours and theirs -> `{steps, parts,
    warnings}` with the merged text; `parts`: its conflicts, `{lines, entity, kind, severity, base, ours, theirs,
    places}`, whose `lines` (first and last, 1-based) stand for them in the text; `places`: their lines in base, ours
    and theirs, as of `ConflictPart`."""
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # a stray print must not break a frame
    with tempfile.TemporaryDirectory(prefix="relay-merge-") as made:
        git = GitText(Path(made))
        while (frame := read_frame(stdin)) is not None:
            message, parts = frame
            try:
                stdout.write(encoded(*_answer(git, message, parts)))
                stdout.flush()
            except BrokenPipeError:
                return


def _answer(git: GitText, message: dict[str, Any], parts: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    if "inside" in message:
        return {"faults": _faults(message["path"], parts, message["inside"])}, []
    base, ours, theirs = parts
    size = marker_size(parts, MARKER)
    labels, path, ladder = Labels(size=size), message["path"], message["ladder"]
    merged = merge_file(git, base, ours, theirs, path, labels, message["timeout_s"], ladder=ladder)
    rows = rows_with_ends(merged.data.decode("utf-8", "surrogateescape"))
    found = [_part(rows, conflict, size) for conflict in merged.conflicts]
    _place(found, rows, merged.conflicts, (base, ours, theirs))
    _name(found, path, (base, ours, theirs), message["timeout_s"])
    said = {"steps": list(merged.steps) or [merged.by], "parts": found, "warnings": list(merged.warnings)}
    return said, [merged.data]


def _place(
    found: list[dict[str, Any]],
    rows: Sequence[str],
    conflicts: Sequence[Conflict],
    texts: tuple[bytes, bytes, bytes],
) -> None:
    """Say of each conflict which lines of the three files it is. `rows`: the text with markers."""
    files = [rows_with_ends(text.decode("utf-8", "surrogateescape")) for text in texts]
    for at, (part, conflict) in enumerate(zip(found, conflicts, strict=True)):
        spans: Sequence[tuple[int, int] | None]
        if conflict.spans is not None:
            spans = conflict.spans
        else:
            first = conflicts[at - 1].lines[1] if at else 0
            last = conflicts[at + 1].lines[0] - 1 if at + 1 < len(conflicts) else len(rows)
            above, below = rows[first : conflict.lines[0] - 1], rows[conflict.lines[1] : last]
            spans = [
                place_of(file, rows_with_ends(part[side]), above, below)
                for file, side in zip(files, ("base", "ours", "theirs"), strict=True)
            ]
        part["places"] = [None if span is None else [span[0] + 1, span[1]] for span in spans]


def _name(
    found: list[dict[str, Any]], path: str, texts: tuple[bytes, bytes, bytes], timeout_s: float
) -> None:
    """Say of each conflict in which definition it is, and how bad that is. What takes too long stays as it was."""
    if not found:
        return
    try:
        with time_limit(timeout_s):
            names = PartNames(path, texts)
            said = [names.of(part["places"]) for part in found]
    except (TooLong, RecursionError, ValueError, LookupError, AssertionError):
        return
    for part, (entity, severity) in zip(found, said, strict=True):
        part["entity"] = entity or part["entity"]
        part["severity"] = severity or part["severity"]


def _faults(path: str, parts: list[bytes], inside: str) -> list[str]:
    """What the guard has against a file with an agent's answer in it: what that may not touch. `inside`: the lines
    that were in conflict."""
    language = format_of(path) or language_of(path)
    texts = [part.decode("utf-8", "surrogateescape").replace("\r\n", "\n") for part in parts]
    base, ours, theirs, merged = (source_of(lines_of(text).rows, language) for text in texts)
    return [fault.text for fault in answer_faults(base, ours, theirs, merged, inside.split("\n"))]


def _part(rows: list[str], conflict: Conflict, size: int) -> dict[str, Any]:
    """A conflict with its three texts, which stand between the markers of that size."""
    first, last = conflict.lines
    texts: dict[str, list[str]] = {"<": [], "|": [], "=": []}
    at = ""
    for row in rows[first - 1 : last]:
        run = row[:1] * size
        if row[:1] in "<|=>" and row.startswith(run) and not row.startswith(run + row[0]):
            at = row[0]
        else:
            texts[at].append(row)
    about = {"lines": [first, last], "entity": conflict.entity, "kind": conflict.kind}
    names = {"ours": "<", "base": "|", "theirs": "="}
    said = {name: "".join(texts[sign]) for name, sign in names.items()}
    return about | {"severity": conflict.severity} | said

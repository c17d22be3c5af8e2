"""A hint for agents in a project's `CLAUDE.md`, `AGENTS.md` or `GEMINI.md`: that the room's tools are there.

A program that loads tools only when it looks for them never finds `acquire_lock` by itself (docs/mcp.md, "The hint").

Invariant: only what stands between the two marks is ours; every other byte of the file stays. A file whose marks are
not one pair is left alone (`CannotEdit`).
"""

from __future__ import annotations

from pathlib import Path

from relay.app.mcp.client_configs import CannotEdit
from relay.base.files import write_atomically

BEGIN = "<!-- relay: begin. Written by `relay mcp install`; `relay mcp install --remove` takes it out. -->"
END = "<!-- relay: end -->"
TEXT = """\
## Others work on this code at the same time

The MCP server `relay` coordinates you with them. Search for its tools if you do not see them.
- Before you edit files: `acquire_lock`. When you are done with them: `release_lock`.
- `get_work` and `complete_work`: tasks. `read_room` and `post_message`: talk to the others. `help`: the rest."""


def with_hint(text: str, wanted: bool) -> str:
    """`text` with the hint (`wanted`), at its place or at the end, or without it. Raises CannotEdit."""
    if text.count(BEGIN) > 1 or text.count(BEGIN) != text.count(END) or text.find(END) < text.find(BEGIN):
        raise CannotEdit("it does not have exactly one begin and one end mark of relay's hint")
    line = "\r\n" if "\r\n" in text else "\n"
    block = line.join([BEGIN, *TEXT.split("\n"), END]) + line
    if BEGIN not in text:
        if not wanted:
            return text
        apart = "" if not text else line if text.endswith("\n") else line * 2
        return text + apart + block
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    after = after.removeprefix("\r").removeprefix("\n")
    if wanted:
        return before + block + after
    # The blank line that was put before it goes with it.
    return before[: -len(line)] + after if before.endswith(line * 2) else before + after


def hinted(path: Path) -> bool:
    """Does the file have the hint? False for one that cannot be read."""
    try:
        return path.is_file() and BEGIN in path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def write(path: Path, wanted: bool) -> bool:
    """Write the hint or take it out; a file that held nothing else goes with it. Gives whether something changed.
    Raises CannotEdit."""
    path = path.resolve()  # a link to a file that is kept elsewhere stays one
    if path.exists() and not path.is_file():
        raise CannotEdit("it is not a regular file")
    try:
        there = path.read_bytes().decode("utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise CannotEdit(str(error)) from None
    text = with_hint(there, wanted)
    if text == there:
        return False
    try:
        if text:
            write_atomically(path, text, path.stat().st_mode & 0o777 if there else 0o644)
        else:
            path.unlink()
    except OSError as error:
        raise CannotEdit(str(error)) from None
    return True

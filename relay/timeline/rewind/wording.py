"""What every interface says behind the files of a rewind: what it left where it stood, and what is to be done.

Pure; the texts have no line end, and names that are safe to print.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relay.base.terminal_text import safe_line
from relay.timeline.rewind.history import UNDONE

#: Files that are told the names of.
MOST_NAMED = 8


def merge_hint(branch: str | None, kind: str) -> str:
    """What is left to do where an operation of this kind (`REWOUND` ...) wrote on a branch alone."""
    if branch is None or not branch.startswith("rw/"):
        return ""
    as_it_was, merge = " The main branch is as it was", f"merge `{safe_line(branch)}`"
    if kind == UNDONE:
        return f"{as_it_was}. Where it was taken out there, {merge} to bring it back."
    return f"{as_it_was}: {merge} to take it out there."


def rest(answer: Mapping[str, Any], kind: str, command: str) -> list[str]:
    """A sentence each on what an operation of this kind left, or would leave. `command`: takes out of the worktree
    too what stands there alone."""
    lane, said = safe_line(answer["lane"]), list[str]()
    if paths := answer.get("left_files"):
        one = len(paths) == 1
        said.append(
            f"{_named(paths)} {'has' if one else 'have'} not landed and {'stays' if one else 'stay'} in {lane}'s "
            f"worktree: `{safe_line(command)}` takes {'it' if one else 'them'} too."
        )
    if paths := answer.get("uncommitted_files"):
        one = len(paths) == 1
        said.append(
            f"{_named(paths)} {'is' if one else 'are'} not committed and {'stays' if one else 'stay'}."
        )
    if kind == UNDONE and (paths := answer["conflicts"]):
        them = "it" if len(paths) == 1 else "them"
        said.append(f"Of {_named(paths)} nothing is brought back yet: the next undo is of {them}.")
    if paths := answer.get("submodules"):
        one = len(paths) == 1
        said.append(
            f"{_named(paths)} {'is a submodule' if one else 'are submodules'}: `git submodule update` sets "
            f"{'its files' if one else 'their files'}, where this is checked out."
        )
    return said


def _named(paths: Sequence[str]) -> str:
    more = len(paths) - MOST_NAMED
    return ", ".join(safe_line(path) for path in paths[:MOST_NAMED]) + f" and {more} more" * (more > 0)

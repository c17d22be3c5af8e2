"""Where a turn works, and what it changed there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: The field of an advisory's `meta` that names the agents whose turn takes the main branch in.
TAKE_MAIN = "take_main"


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where one turn works. `may_edit`: the folder is the agent's own. `root`: the top of its checkout, when `cwd`
    is a folder in it; None = `cwd` itself. `note`: what the agent is told of it, after its message. `done`: why
    nothing is left to do of what `take_main` was asked for; empty = something is."""

    cwd: Path
    may_edit: bool
    root: Path | None = None
    note: str = ""
    done: str = ""


@dataclass(frozen=True, slots=True)
class Changes:
    """What one turn changed in its agent's worktree: on which branch, how many files and lines."""

    branch: str
    files: int
    insertions: int
    deletions: int

    def as_json(self) -> dict[str, Any]:
        """The value of an answer's `meta.worktree`."""
        return {
            "branch": self.branch,
            "files": self.files,
            "insertions": self.insertions,
            "deletions": self.deletions,
        }

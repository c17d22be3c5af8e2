"""Where a turn works, and what it changed there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where one turn works. `may_edit`: the folder is the agent's own. `root`: the top of its checkout, when `cwd`
    is a folder in it; None = `cwd` itself."""

    cwd: Path
    may_edit: bool
    root: Path | None = None


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


class Workplaces(Protocol):
    """Who gives agents a place to work in. Neither method raises."""

    async def before_turn(self, agent: str) -> Workplace | None:
        """Where the turn that begins now works; None: where its configuration says."""
        ...

    async def after_turn(self, agent: str) -> Changes | None:
        """What the turn that ends now changed; None: nothing, or nobody knows."""
        ...

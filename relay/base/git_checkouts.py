"""Which checkout of which repository a file is in, by the files that git keeps there; git itself is not asked.

Blocking, for a few looks at the file system. Nothing but the standard library, for the hooks.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from relay.base.files import inside


def top_of(folder: Path) -> Path:
    """The top of the checkout that a folder is in; the folder itself when it is in none."""
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), folder)


def checkout_of(repo: Path, folder: Path) -> Path | None:
    """The top of the checkout of this repository that a folder is in; None: it is in none."""
    top = top_of(folder)
    try:
        return top if repository(top) == repository(top_of(repo)) else None
    except (OSError, ValueError, RuntimeError):
        return None


def attached_record(runtime: Path, checkout: Path) -> Path:
    """Where a room keeps what `relay attach` changed in this checkout, and thereby that it is attached."""
    digest = hashlib.sha256(str(checkout.resolve()).encode("utf-8", "surrogateescape")).hexdigest()
    return runtime / "attach" / f"{digest[:16]}.json"


def within(top: Path, place: Path) -> str | None:
    """Where a file is in its checkout, when that is `top` or another of the same repository."""
    path = inside(top, str(place))
    try:
        other = top_of(place.resolve().parent)
        same = other == top.resolve() or repository(other) == repository(top)
    except (OSError, ValueError, RuntimeError):  # a path that no system takes
        return path
    return inside(other, str(place)) if same else path


def repository(top: Path) -> Path:
    """The git directory that all worktrees of a checkout share (gitrepository-layout(5)). Raises OSError."""
    git = top / ".git"
    if git.is_dir():
        return git.resolve()
    git_dir = Path(git.read_text("utf-8", "replace").removeprefix("gitdir:").strip())
    own = (top / git_dir).resolve()
    return own.parent.parent if own.parent.name == "worktrees" else own
